"""Series and the ledger by row: what they add to the passes over data, to appends, openings and answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa

import treering as tr
from benchmarks.harness import Result, ratio
from treering.budget.cost import laplace
from treering.budget.promise import Budget, Filter
from treering.budget.rows import Charge, RowLedger
from treering.domain.groups import Groups
from treering.mechanisms.series.root import RootSeries
from treering.noise import Gaussian, Laplace
from treering.trusted.database import GrowingDatabase
from treering.trusted.noise import draw

ROWS, SEED, QUESTIONS = 10**6, 1, 10_000
PLENTY = Budget("zcdp", Fraction(10**6))
SCHEMA = tr.Schema({"place": tr.integers(1, 100), "hour": tr.integers(0, 19), "kind": tr.integers(1, 25)})
"""50,000 cells; place and hour together have 2,000 values."""


def results() -> Iterator[Result]:
    """All of them."""
    yield opening()
    yield appending()
    yield measuring()
    yield answering()


def answering() -> Result:
    """10,000 questions that series can answer already, in one call, against a loop that sums the same parts of two
    tables: for information, as it is the rate that is of interest."""
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
    return ratio(
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
    return pa.table(
        {
            name: generator.integers(low, high, rows)
            for name, low, high in (("place", 1, 101), ("hour", 0, 20), ("kind", 1, 26))
        }
    )


def opening() -> Result:
    """Opening a series of 2,000 groups over a million rows, against the pass that counts these rows, and 2,000 numbers
    of noise, which take longer than either."""
    rows, groups = frame(ROWS), Groups.marginal(SCHEMA, ["place", "hour"])
    db = GrowingDatabase(SCHEMA)
    db.append(rows)

    def ours() -> None:
        RootSeries(groups, Budget("zcdp", Fraction(1))).advance(db.open_gate(PLENTY))

    def reference() -> None:
        GrowingDatabase(SCHEMA).append(rows)
        draw(Gaussian(4096.0), 1, groups.number)

    name = "opening a series: 2,000 groups, 10^6 rows, against counting the rows and drawing as much noise"
    return ratio(name, ours, reference, limit=2.0, clock=time.process_time)


def appending() -> Result:
    """An append to a table with 50 series, against one to a table with none."""
    rows = frame(10_000)
    plain, kept = GrowingDatabase(SCHEMA), GrowingDatabase(SCHEMA)
    gate = kept.open_gate(PLENTY)
    for db in (plain, kept):
        db.append(rows)
    series = [RootSeries(Groups.marginal(SCHEMA, ["hour"]), Budget("zcdp", Fraction(1))) for _ in range(50)]
    for each in series:
        each.advance(gate)
    return ratio(
        "an append of 10,000 rows beside 50 series, against one beside none",
        lambda: kept.append(rows),
        lambda: plain.append(rows),
        limit=1.25,
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
