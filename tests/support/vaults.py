"""Small vaults with short lives, for the tests of durability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import treering as tr
from treering.domain.workload import random_conjunctions
from treering.mechanisms.histogram.hypothesis import rows_of
from treering.trusted.ledger.lines import Line
from treering.vault.vault import Vault

SCHEMA = tr.Schema(
    {"origin": tr.categories("EWR", "JFK", "LGA"), "month": tr.integers(1, 12), "late": tr.categories("no", "yes")}
)
EPSILON = 1000.0
DELTA = 1e-6
BETA = 1e-9
"""So small that no test that relies on an accuracy promise ever fails by chance."""


def frame(count: int, seed: int = 1, schema: tr.Schema = SCHEMA) -> pa.Table:
    """Rows of a lopsided table, another one for each seed: half of them lie in one cell."""
    generator = np.random.default_rng(seed)
    peak = int(generator.integers(schema.cells))
    cells = np.where(generator.integers(0, 2, count) == 1, generator.integers(0, schema.cells, count), peak)
    return rows_of(schema, cells)


def questions(count: int, seed: int = 0, schema: tr.Schema = SCHEMA) -> list[tr.Query]:
    """Random conjunctions."""
    return list(random_conjunctions(schema, count, np.random.default_rng(seed)))


def guarded(place: Path, rows: int = 20_000, **options: Any) -> Vault:
    """A vault whose one mechanism guards from the start: its answers are easy or hard."""
    given = {"epsilon": EPSILON, "delta": DELTA, "alpha": 0.1, "beta": BETA, "measure_first": False}
    vault = Vault.create(place, SCHEMA, mechanism="pmwg", **{**given, **options})
    if rows:
        vault.append(frame(rows))
    return vault


def full(place: Path, rows: int = 20_000) -> Vault:
    """A vault with one mechanism of each kind."""
    vault = Vault.create(
        place, SCHEMA, EPSILON, DELTA, alpha=0.1, beta=BETA, mechanism="pmwg", share=0.4, measure_first=False
    )
    vault.add("pmwg", 0.1, name="measured", alpha=0.1, beta=BETA)
    vault.add("continual", 0.1)
    vault.add("scheduler", 0.2)
    vault.add("improver", 0.1)
    vault.add("ermg", 0.1, target="late = 'yes'", features=["origin", "month"])
    if rows:
        vault.append(frame(rows))
    return vault


def states(vault: Vault) -> list[tuple[Any, float]]:
    """The public state of every mechanism, bit for bit, and what it has spent."""
    return [(member.mechanism.state, member.mechanism.spent) for member in vault._members]


def mechanism(vault: Vault, number: int = 0) -> Any:
    """A mechanism from within."""
    return vault._members[number].mechanism


def journal(vault: Vault, number: int = 0) -> Any:
    """A mechanism's journal."""
    return vault._store._journals[number]


def asked(vault: Vault, number: int = 0) -> int:
    """How many queries a PMWG has on record."""
    return int(mechanism(vault, number).state[0].asked)


def kinds(vault: Vault) -> list[str]:
    """The kinds of the ledger's lines."""
    return [line["kind"] for line in vault.ledger()]


def rounds(batches: Sequence[int]) -> Iterator[tuple[pa.Table, list[tr.Query]]]:
    """Batches of rows, and questions between them."""
    for number, rows in enumerate(batches, 1):
        yield frame(rows, seed=number), questions(20, seed=number)


def crash(vault: Vault) -> None:
    """Leave a vault as a killed process does, as far as one process can: nothing more is recorded."""
    vault._store._ledger.close()
    vault._store._lock.release()


def with_line(place: Path, line: Line) -> None:
    """Write a line into a ledger that the vault itself would not."""
    vault = Vault.open(place)
    vault._store._ledger.write(line)
    crash(vault)


def leased(vault: Vault, number: int = 0) -> int:
    """How many comparisons a mechanism has leased."""
    return sum(journal(vault, number)._leases.values())


def surely_easy(vault: Vault, rows: pa.Table) -> tr.Query:
    """A query that the histogram answers so well that it is hard with a chance of less than beta; not measured yet."""
    db = tr.GrowingDatabase(SCHEMA)
    db.append(rows)
    histogram, engine = mechanism(vault).hypothesis, mechanism(vault)._engine
    # What was measured before would be answered from the record.
    unknown = [query for query in questions(300, seed=99) if engine.records.best(query, db.size)[1] > engine.alpha]
    return min(unknown, key=lambda query: abs(histogram.answer(query) - db._rows.cells.count(query) / db.size))


def surely_hard(vault: Vault, rows: pa.Table) -> tr.Query:
    """A query that the histogram answers so badly that it is easy with a chance of less than beta."""
    db = tr.GrowingDatabase(SCHEMA)
    db.append(rows)
    histogram = mechanism(vault).hypothesis
    candidates = questions(300, seed=98)
    gaps = [abs(histogram.answer(query) - db._rows.cells.count(query) / db.size) for query in candidates]
    assert max(gaps) > 0.3
    return candidates[int(np.argmax(gaps))]
