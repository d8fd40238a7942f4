"""The flights of 2013 over 20,736 cells, streamed day by day with the truth beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa

import treering as tr
from experiments.stream import Stream
from treering.demo.flights import SCHEMA, cells_of, days, flights

START_DAY = 120
"""The last of April: what is there when the first question is asked."""
LAST_DAY = 365


def stream_of_flights(schema: tr.Schema = SCHEMA, start: int = START_DAY, step: int = 1) -> Iterator[Stream]:
    """One stream, given again after each batch: first with all days up to the start, last with the whole year."""
    stream = Stream(schema)
    daily = days(flights(), schema.names)
    for first, last in pairwise([0, *range(start, len(daily), step), len(daily)]):
        batch = pa.concat_tables(daily[first:last])
        stream.append(cells_of(batch, schema), batch)
        yield stream
