"""When a base is made: for public reasons, seldom enough for appends, and often enough for opening."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treering as tr
from treering.domain.schema import Schema
from treering.trusted.counts import Counts
from treering.trusted.rows.batches import Base
from treering.vault import bases
from treering.vault.bases import Bases, due, reading, writing
from treering.vault.files import Folder
from treering.vault.lines import ROOT, chained
from treering.vault.parts import Part, PartList, Parts

SMALL = tr.Schema({"x": tr.integers(0, 3)})
LARGE = tr.Schema({name: tr.integers(0, 31) for name in "abcd"})


def simulated(
    schema: Schema, rows: list[int], monkeypatch: pytest.MonkeyPatch, *, closing: bool = False
) -> tuple[float, float, list[int]]:
    """Appends of so many rows each: seconds to read all parts, seconds spent on bases, parts that each stands for."""
    made: list[tuple[int, float]] = []

    def save(_: Bases, base: Base, number: int, ledger: Any) -> None:
        assert ledger is None
        made.append((number, writing(base.sizes, schema.cells, persons=False)))

    monkeypatch.setattr(Bases, "save", save)
    monkeypatch.setattr(Counts, "stretches", lambda counts: {counts.size: (np.empty(0), np.empty(0))})
    listed, counts = PartList(), Counts(schema)
    store = Parts(Folder(Path("nowhere")), listed, [])
    nothing: Any = None
    for number, count in enumerate(rows, 1):
        counts.add_counted(np.array([0]), np.array([count]))
        listed.append(Part(number, count, counts.size, 0, False, ""))
        store.condense(counts, None, nothing, closing=closing)
    total = sum(reading(count, schema.cells, persons=False) for count in rows)
    return total, sum(effort for _, effort in made), [number for number, _ in made]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([1, 10, 1000, 10**5, 10**7]), min_size=1, max_size=300),
    st.sampled_from([SMALL, LARGE]),
    st.booleans(),
)
def test_bases_take_a_third_of_what_reading_all_parts_does_at_most(
    rows: list[int], schema: Schema, often: bool
) -> None:
    """Each part is counted once towards a base, so this holds for all bases together, whenever they come."""
    with pytest.MonkeyPatch.context() as patch:
        total, effort, _ = simulated(schema, rows, patch, closing=often)
    assert effort <= total / bases._TIMES


def test_small_appends_to_a_large_universe(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most half a second is to be read after the base, when every cell may be occupied."""
    rows = [LARGE.cells] * 2 + [10] * 5000
    _, _, made = simulated(LARGE, rows, monkeypatch)
    gaps = np.diff([0, *made])
    assert 5 <= len(made) <= 15
    assert max(gaps) * reading(10, LARGE.cells, persons=False) <= 0.5


def test_small_appends_to_a_small_universe(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, made = simulated(SMALL, [1] * 1100, monkeypatch)
    assert made == [250, 500, 750, 1000]


def test_batches_that_merge_to_nothing_smaller_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large batches of rows each in a cell of its own: a base would take as long to read."""
    wide = tr.Schema({name: tr.integers(1, 1000) for name in "abc"})
    assert simulated(wide, [10**6] * 200, monkeypatch)[2] == []


def test_persons_and_marked_sizes_cost_more() -> None:
    assert writing((100,), 50, persons=False) < writing((100,), 50, persons=True)
    assert writing((100,), 50, persons=False) < writing((50, 100), 50, persons=False)
    assert reading(100, 50, persons=False) < reading(100, 50, persons=True)
    assert reading(100, 50, persons=False) == reading(50, 50, persons=False)
    assert not due(0.09, 0.01, closing=False)
    assert due(0.1, 0.01, closing=False)
    assert due(0.09, 0.01, closing=True)
    assert not due(0.09, 0.04, closing=True)


def test_a_list_of_parts_reads_lines_when_asked() -> None:
    """One by one or together, with and without a watermark: the same parts."""
    marks = (None, None, None, {"value": 3}, {"value": 4})
    made = [Part(number, 1, number, 0, number % 2 == 0, f"{number}", mark) for number, mark in enumerate(marks, 1)]
    for one_by_one in (True, False):
        listed = PartList()
        assert not listed
        for part in made[:4]:
            listed.learn(chained(ROOT, part.number, 0, part.line("")))
        listed.append(made[4])
        assert (len(listed), listed[-2], listed.after(3), listed.after(5)) == (5, made[3], made[3:], [])
        assert ([listed[place] for place in range(5)] if one_by_one else list(listed)) == made
