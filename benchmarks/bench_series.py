"""Series and the ledger by row: what they add to the passes over data, to appends, openings and answers."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

import treering as tr
from benchmarks.harness import Result, ratio
from treering.budget.cost import laplace
from treering.budget.promise import Budget, Filter
from treering.budget.rows import Charge, RowLedger
from treering.domain.groups import Groups
from treering.mechanisms.series.root import RootSeries
from treering.noise import Laplace
from treering.trusted.memory.database import GrowingDatabase

ROWS, SEED, QUESTIONS = 10**6, 1, 10_000
PLENTY = Budget("zcdp", Fraction(10**6))
SCHEMA = tr.Schema({"place": tr.integers(1, 100), "hour": tr.integers(0, 19), "kind": tr.integers(1, 25)})
"""50,000 cells; place and hour together have 2,000 values."""
WIDE = tr.Schema({f"a{number}": tr.integers(0, 3) for number in range(30)})
LEAVES = 1000


def results() -> Iterator[Result]:
    """All of them."""
    yield opening()
    yield from appending()
    yield measuring()
    yield from answering()
    yield reopening()


def answering() -> Iterator[Result]:
    """10,000 questions that series can answer already, in one call: against half a second of processor time, which
    would be 20,000 a second; and, for information, against a loop that sums the same parts of two tables."""
    db = GrowingDatabase(SCHEMA)
    db.append(frame(ROWS))
    rings = tr.Rings(db, 1.0, 1e-6)
    generator = np.random.default_rng(SEED)
    counts = {name: np.array(rings.table([name, "hour"])["count"]).reshape(-1, 20) for name in ("place", "kind")}
    parts: list[tuple[str, np.ndarray[tuple[int], np.dtype[np.bool_]], slice]] = []
    queries: list[tr.Query] = []
    for number in range(QUESTIONS):
        name, values = ("place", 100) if number % 2 else ("kind", 25)
        chosen = generator.random(values) < 0.1
        chosen[number % values] = True
        hours = slice(number % 10, number % 10 + 1 + number % 9)
        parts.append((name, chosen, hours))
        listed = {name: (np.flatnonzero(chosen) + 1).tolist(), "hour": range(hours.start, hours.stop)}
        queries.append(tr.Query.where(SCHEMA, **listed))
    yield ratio(
        "10,000 prepared questions to open series, against half a second of work",
        lambda: rings.ask_many(queries),
        lambda: _work(QUESTIONS / 20_000),
        limit=1,
        clock=time.process_time,
    )
    yield ratio(
        "10,000 prepared questions to open series, against sums of parts of two tables",
        lambda: rings.ask_many(queries),
        lambda: [int(counts[name][chosen, hours].sum()) for name, chosen, hours in parts],
        limit=None,
        clock=time.process_time,
        count=QUESTIONS,
    )


def frame(rows: int) -> pa.Table:
    """Random rows."""
    generator = np.random.default_rng(SEED)
    ends = {"place": (1, 101), "hour": (0, 20), "kind": (1, 26)}
    return pa.table({name: generator.integers(low, high, rows) for name, (low, high) in ends.items()})


def opening() -> Result:
    """Opening a series of 2,000 groups over a million rows in memory, against DuckDB's own GROUP BY of them, and 20 ms
    (which are divided by the limit in the reference)."""
    rows, groups, limit = frame(ROWS), Groups.marginal(SCHEMA, ["place", "hour"]), 1.5
    db = GrowingDatabase(SCHEMA)
    db.append(rows)
    connection = duckdb.connect(":memory:", config={"threads": 2})
    connection.register("rows", rows)

    def ours() -> None:
        RootSeries(groups, Budget("zcdp", Fraction(1))).advance(db.open_gate(PLENTY))

    def reference() -> None:
        connection.sql("SELECT place, hour, count(*) FROM rows GROUP BY ALL").to_arrow_table()
        time.sleep(0.02 / limit)

    name = "opening a series: 2,000 groups, 10^6 rows / DuckDB's own GROUP BY + 20 ms"
    return ratio(name, ours, reference, limit=limit, repeats=9)


def appending() -> Iterator[Result]:
    """An append to a table with 50 series, against one to a table with a single one: nothing is done for each. And
    against one to a table with none: rows are listed until they are asked about, or counted when they are a million."""
    rows = frame(10_000)
    tables = {number: GrowingDatabase(SCHEMA) for number in (50, 1, 0)}
    # Rows are told apart for as long as somebody holds the gate.
    gates = {number: db.open_gate(PLENTY) for number, db in tables.items()}
    for number, db in tables.items():
        db.append(rows)
        for _ in range(number):
            RootSeries(Groups.marginal(SCHEMA, ["hour"]), Budget("zcdp", Fraction(1))).advance(gates[number])
    for number, limit in ((1, 1.1), (0, 1.25)):
        yield ratio(
            f"an append of 10,000 rows beside 50 series, against one beside {number or 'none'}",
            lambda: tables[50].append(rows),
            partial(tables[number].append, rows),
            limit=limit,
            clock=time.process_time,
            minimum_seconds=0.5,
        )


def measuring() -> Result:
    """A charge to everyone in a ledger of a thousand steps, against the filter that knew no rows; and an answer."""
    db = GrowingDatabase(SCHEMA)
    db.append_cells(np.arange(1000))
    gate = db.open_gate(Budget("zcdp", Fraction(10**9)))
    query, noise = tr.parse("place = 3", SCHEMA), Laplace(100.0)
    ledger, filtered = RowLedger(PLENTY), Filter(PLENTY)
    ledger.charge_rows([Charge(10 * step, 10 * step + 5, Fraction(1, 7)) for step in range(1000)])
    cost = laplace(1, 100)

    def charged() -> None:
        gate.measure([query], noise)
        ledger.charge(cost.rho, 20_000)

    def before() -> None:
        gate.measure([query], noise)
        filtered.charge(cost)

    # One more charge on either side: what the ledger adds to an answer is what it adds to the filter.
    return ratio(
        "a measured answer with the ledger by row, against the filter before",
        charged,
        before,
        limit=1.1,
        clock=time.process_time,
        minimum_seconds=0.2,
    )


def reopening() -> Result:
    """A vault with 50 series of 1,000 leaves each, opened: against a second of processor time."""
    place = Path(tempfile.mkdtemp())
    try:
        _long_life(place / "vault")
        return ratio(
            "a vault with 50 series of 1,000 leaves, opened, against a second of work",
            lambda: _open_and_leave(place / "vault"),
            lambda: _work(1.0),
            limit=1,
            repeats=5,
            clock=time.process_time,
        )
    finally:
        shutil.rmtree(place)


def _long_life(path: Path) -> None:
    """Thirty attributes by themselves and twenty pairs of them, asked after each of a thousand appends."""
    alone = [tr.Query.where(WIDE, **{name: 0}) for name in WIDE.names]
    pairs = [one & another for one, another in pairwise(alone[:21])]
    generator = np.random.default_rng(SEED)
    first, later = (pa.table({name: generator.integers(0, 4, rows) for name in WIDE.names}) for rows in (10**5, 10))
    with mock.patch("os.fsync"), tr.Vault.create(path, WIDE, 1.0, 1e-6, mechanism="rings", pace=50) as vault:
        vault._store._ledger._connection.execute("pragma synchronous = off")
        vault.append(first)
        for query in (*alone, *pairs):
            vault.ask(query)
        for _ in range(LEAVES - 1):
            vault.append(later)
            vault.ask_many(alone)  # first: the pairs could answer them
            vault.ask_many(pairs)
        if {each["answers"] for each in vault.status()["mechanisms"][0]["series"]} != {LEAVES}:
            raise AssertionError("the benchmark no longer measures what it says")


def _open_and_leave(path: Path) -> None:
    """Open a vault, and let go of it as a kill does: nothing is written, so that the next opening is the same."""
    vault = tr.Vault.open(path)
    vault._store._ledger.close()
    vault._store._lock.release()


def _work(seconds: float) -> None:
    """Use so much processor time: a clock that a busy machine does not run ahead of."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
