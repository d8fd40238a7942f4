"""The flights of 2013 over 20,736 cells, streamed day by day with the truth beside them."""

from __future__ import annotations

from collections.abc import Iterator

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


def cells_of(day: pa.Table) -> npt.NDArray[np.int64]:
    """The cells of a day's flights, worked out here in numpy: the truth does not lean on what it checks."""
    column = {name: np.asarray(day[name]) for name in SCHEMA.names}
    delay = column["delay"].astype(np.float64)
    codes = (
        np.searchsorted(ORIGINS, column["origin"].astype(str)),
        np.searchsorted(CARRIERS, column["carrier"].astype(str)),
        column["month"].astype(np.int64) - 1,
        np.searchsorted(HOURS, column["hour"], side="right") - 1,
        np.where(np.isnan(delay), len(DELAYS) - 1, np.searchsorted(DELAYS, delay, side="right") - 1),
    )
    return np.ravel_multi_index(codes, SCHEMA.shape)


def stream_of_flights() -> Iterator[Stream]:
    """One stream, given again after each day: first with January to April, last with the whole year."""
    stream = Stream(SCHEMA)
    for number, day in enumerate(days(flights(), SCHEMA.names), start=1):
        stream.append(cells_of(day), day)
        if number >= START_DAY:
            yield stream
