"""The flights of 2013 over 20,736 cells, streamed day by day with the truth beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import treering as tr
from examples.flights_data import CARRIERS, days, flights
from experiments.stream import Stream

ORIGINS = ("EWR", "JFK", "LGA")
HOURS, DELAYS = (0, 4, 8, 12, 16, 20, 24), (-1440, -5, 0, 15, 60, 1440)
START_DAY = 120
"""The last of April: what is there when the first question is asked."""
LAST_DAY = 365

SCHEMA = tr.Schema(
    {
        "origin": tr.categories(*ORIGINS),
        "carrier": tr.categories(*CARRIERS),
        "month": tr.integers(1, 12),
        "hour": tr.bins(HOURS),
        "delay": tr.bins(DELAYS, missing=True),
    }
)


def cells_of(day: pa.Table, schema: tr.Schema = SCHEMA) -> npt.NDArray[np.int64]:
    """The cells of a day's flights, worked out here in numpy: the truth does not lean on what it checks.

    ``schema`` may be part of the whole one: some of its attributes, in any order.
    """
    column = {name: np.asarray(day[name]) for name in schema.names}
    codes = [_codes(name, values) for name, values in column.items()]
    return np.ravel_multi_index(codes, schema.shape)


def _codes(name: str, values: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """Which value of an attribute each flight has."""
    if name == "origin":
        return np.searchsorted(ORIGINS, values.astype(str))
    if name == "carrier":
        return np.searchsorted(CARRIERS, values.astype(str))
    if name == "month":
        return values.astype(np.int64) - 1
    if name == "hour":
        return np.searchsorted(HOURS, values.astype(np.int64), side="right") - 1
    delay = values.astype(np.float64)
    return np.where(np.isnan(delay), len(DELAYS) - 1, np.searchsorted(DELAYS, delay, side="right") - 1)


def stream_of_flights(schema: tr.Schema = SCHEMA, start: int = START_DAY, step: int = 1) -> Iterator[Stream]:
    """One stream, given again after each batch: first with all days up to the start, last with the whole year."""
    stream = Stream(schema)
    daily = days(flights(), schema.names)
    for first, last in pairwise([0, *range(start, len(daily), step), len(daily)]):
        batch = pa.concat_tables(daily[first:last])
        stream.append(cells_of(batch, schema), batch)
        yield stream
