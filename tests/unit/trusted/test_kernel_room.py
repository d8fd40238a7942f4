"""Counts that could wrap around 64 bits are refused before anything is charged or read."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.gate import RunRequest
from treering.noise import Laplace
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"a": tr.integers(0, 3)})
FINE = tr.Query.weighted(SCHEMA, [0, 0.25, 0.5, 1], resolution=2**20)
COARSE = tr.parse("a = 1", SCHEMA)
LARGEST = (2**61 - 1) // FINE.scale

OPERATIONS: dict[str, Callable[[Kernel, list[tr.Query]], object]] = {
    "measure": lambda kernel, queries: kernel.measure(queries, Laplace(1.0)),
    "compare": lambda kernel, queries: kernel.first_exceeding(0, queries, [0] * len(queries), [0] * len(queries)),
    "select": lambda kernel, queries: kernel.select(queries, 1.0),
    "draw": lambda kernel, queries: kernel.draw_rows(queries, 3, 1.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_query_too_fine_for_the_size_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    db = TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(1000)])
    kernel = db.open_gate(Budget("pure", Fraction(10**6)))
    assert kernel.begin_run(RunRequest(1.0, 1.0, None)).run == 0
    spent, events, touched = kernel.spent, len(kernel.history), db.touched
    monkeypatch.setattr(db.rows, "_size", LARGEST + 1)
    for queries in ([FINE], [COARSE, FINE]):
        with pytest.raises(tr.QueryError, match=rf"resolution \({FINE.scale:,}\) must stay below 2\^61"):
            OPERATIONS[name](kernel, queries)
    assert (kernel.spent, len(kernel.history), db.touched) == (spent, events, touched)


def test_the_largest_size_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    db = TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(1000)])
    kernel = db.open_gate(Budget("pure", Fraction(10**6)))
    monkeypatch.setattr(db.rows, "_size", LARGEST)
    assert len(kernel.measure([COARSE, FINE], Laplace(1.0)).values) == 2
