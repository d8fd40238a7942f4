"""pyqrlew: each question as SQL, rewritten to private SQL and run by SQLite, told how many there will be.

It composes nothing itself. Its noise for one (ε, δ) is Gaussian, of the classical scale; each question gets the ε for
which that scale is an even part of the budget, as OpenDP's has. A row is a privacy unit with one row. SQLite lacks some
functions that the rewritten SQL calls: they are Python's here.
"""

from __future__ import annotations

import math
import random
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import run

DELTA = 1e-9
FUNCTIONS: dict[str, tuple[int, Any]] = {
    "LN": (1, math.log),
    "COS": (1, math.cos),
    "SQRT": (1, math.sqrt),
    "RANDOM": (0, random.SystemRandom().random),
    "GREATEST": (2, max),
    "LEAST": (2, min),
    "MD5": (1, str),
}


def work(case: Mapping[str, Any], _: str) -> Iterator[Any]:
    """Answer each question on the table as it is."""
    shape = tuple(case["shape"].tolist())
    names = "abcdefgh"[: len(shape)]
    scale = math.sqrt(len(case["truths"]) / (2 * float(case["rho"])))
    part = {"epsilon": math.sqrt(2 * math.log(1.25 / DELTA)) / scale, "delta": DELTA}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.db"
        table = connection(path)
        table.execute(f"CREATE TABLE rows (id INTEGER, {', '.join(f'{name} INTEGER' for name in names)})")
        yield from answers(case, path, table, names, part)


def answers(case: Mapping[str, Any], path: Path, table: Any, names: str, part: Mapping[str, float]) -> Iterator[Any]:
    """The answers, batch by batch."""
    pyqrlew, engine = import_module("pyqrlew"), import_module("sqlalchemy").create_engine(f"sqlite:///{path}")
    shape, size = tuple(case["shape"].tolist()), 0
    for batch, counts in enumerate(case["increments"]):
        rows = np.repeat(np.arange(counts.size), counts)
        codes = np.stack([size + np.arange(len(rows)), *np.unravel_index(rows, shape)], axis=1)
        table.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * codes.shape[1])})", codes.tolist())
        table.commit()
        size += len(rows)
        known = pyqrlew.dataset_from_database("db", engine, None, ranges=True)
        found = []
        for number in np.flatnonzero(case["when"] == batch).tolist():
            wanted = " AND ".join(f"{name} IN ({values(case, number, place)})" for place, name in enumerate(names))
            relation = known.relation(f"SELECT COUNT(*) AS n FROM rows WHERE {wanted}")
            private = relation.rewrite_with_differential_privacy(known, [("rows", [], "id")], dict(part), 1.0, 1.0)
            found.append(table.execute(private.relation().to_query()).fetchone()[0])
        yield np.array(found, dtype=float)


def values(case: Mapping[str, Any], number: int, place: int) -> str:
    """The values of an attribute that match a question, as SQL lists them."""
    return ", ".join(map(str, np.flatnonzero(case[f"masks_{place}"][number]).tolist()))


def connection(path: Path) -> Any:
    """A connection with the functions that SQLite lacks."""
    made = sqlite3.connect(path)
    for name, (arguments, function) in FUNCTIONS.items():
        made.create_function(name, arguments, function)
    return made


if __name__ == "__main__":
    run(work)
