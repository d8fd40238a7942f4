"""Rows told apart by arrival: between any two marks, for as long as somebody needs them."""

from __future__ import annotations

import gc
from collections import Counter
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.arrays import Ints
from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.errors import VaultError
from treering.trusted import counts as trusted
from treering.trusted.counts import Counts, Stretches

SCHEMA = Schema({"a": integers(0, 2)})
WIDE = Schema({name: integers(1, 1000) for name in "abc"})
"""More cells than are kept as an array."""

Step: TypeAlias = tuple[str, int, list[int]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "count", "mark", "mark", "keep", "leave"]),
        st.integers(0, 2),
        st.lists(st.integers(0, 2), max_size=4),
    ),
    max_size=30,
)


class Owner:
    """Something that can be let go of."""


def rows(counts: Counts | Stretches, start: int, end: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for cells, numbers in counts.between(start, end):
        for cell, number in zip(cells.tolist(), numbers.tolist(), strict=True):
            found[cell] += number
    return found


def nobody() -> tuple[Ints, Ints]:
    raise AssertionError("all rows were counted anew")


# -- what is between two marks -----------------------------------------------------------------------------------------


@given(STEPS, st.sampled_from([SCHEMA, WIDE]))
def test_between_two_marks_are_the_rows_that_came_between_them(steps: list[Step], schema: Schema) -> None:
    """Whoever marked them, whoever left, and however the rows came."""
    counts, owners = Counts(schema), [Owner() for _ in range(3)]
    arrived: list[int] = []
    marks: list[set[int]] = [set() for _ in owners]
    for step, number, cells in steps:
        if step == "add":
            counts.add(np.array(cells, dtype=np.int64))
            arrived += cells
        elif step == "count":
            found, times = np.unique(np.array(cells, dtype=np.int64), return_counts=True)
            counts.add_counted(found, times)
            arrived += cells
        elif step == "mark":
            counts.mark(owners[number])
            marks[number] |= {len(arrived)} - {0}
        elif step == "keep":
            marks[number] = set(sorted(marks[number])[:1])
            counts.keep_marks(owners[number], marks[number])
        else:
            owners[number], marks[number] = Owner(), set()
        check(counts, arrived, owners, marks)


def check(counts: Counts, arrived: list[int], owners: list[Owner], marks: list[set[int]]) -> None:
    known = set().union(*marks)
    assert set(counts.marked) == known - {len(arrived)}
    for start, end in combinations(sorted({0, *known}), 2):
        assert rows(counts, start, end) == Counter(arrived[start:end])
    stretches, ends = counts.stretches(), sorted({*known, len(arrived)})
    assert sorted(stretches) == ends
    for start, end in pairwise([0, *ends] if arrived else []):
        found, times = (each.tolist() for each in stretches[end])
        assert dict(zip(found, times, strict=True)) == Counter(arrived[start:end])
        assert found == sorted(found)
    for owner, own in zip(owners, marks, strict=True):
        assert {size for size in range(len(arrived) + 1) if marked(counts, owner, size)} == {0, *own}


def marked(counts: Counts, owner: Owner, size: int) -> bool:
    try:
        counts.check_mark(owner, size)
    except VaultError:
        return False
    return True


def test_rows_between_sizes_that_nobody_told_apart_are_refused() -> None:
    counts, owner = Counts(SCHEMA), Owner()
    counts.add(np.array([0, 1]))
    counts.mark(owner)
    counts.add(np.array([2]))
    for start, end in ((0, 1), (1, 2), (2, 3), (0, 3)):
        with pytest.raises(VaultError, match="not told apart at size"):
            rows(counts, start, end)
    assert repr(counts._stretches) == "<Stretches>"


def test_stretches_hold_every_row_once_also_when_the_present_size_is_marked() -> None:
    """Marks are about earlier sizes: the present one ends the last stretch in any case."""
    counts, journal = Counts(SCHEMA), Owner()
    counts.add(np.array([0, 0, 2]))
    counts.mark(journal)
    assert list(counts.marked) == []
    assert {size: [each.tolist() for each in found] for size, found in counts.stretches().items()} == {
        3: [[0, 2], [2, 1]]
    }
    counts.add(np.array([1, 2]))
    counts.mark(journal)
    assert list(counts.marked) == [3]
    assert {size: [each.tolist() for each in found] for size, found in counts.stretches().items()} == {
        3: [[0, 2], [2, 1]],
        5: [[1, 2], [1, 1]],
    }


# -- what is kept, and for how long ------------------------------------------------------------------------------------


def test_marks_share_their_rows_and_go_with_their_owners() -> None:
    stretches, made = Stretches(), []

    def occupied() -> tuple[Ints, Ints]:
        made.append(1)
        return np.arange(3), np.array([5, 3, 2])

    one, two = Owner(), Owner()
    for owner in (one, two):
        stretches.mark(owner, 10, occupied)
    assert len(made) == 1
    stretches.keep(one, ())
    with pytest.raises(VaultError):
        stretches.check(one, 10)
    assert rows(stretches, 0, 10) == {0: 5, 1: 3, 2: 2}
    del two, owner
    gc.collect()
    assert stretches.marked == ()
    stretches.mark(one, 10, occupied)
    assert len(made) == 2


@pytest.mark.parametrize("gone", [True, False], ids=["its owner is gone", "its owner has left"])
def test_without_marks_nothing_is_kept(gone: bool) -> None:
    stretches, owners = Stretches(), [Owner()]
    stretches.add(np.arange(3), None)
    assert not stretches._runs
    stretches.mark(owners[0], 3, lambda: (np.arange(3), np.ones(3, dtype=np.int64)))
    stretches.add(np.arange(2), None)
    stretches.mark(owners[0], 5, nobody)
    stretches.add(np.arange(1), None)
    assert (len(stretches._runs), stretches._ends) == (3, [(3, 1), (5, 2)])
    if gone:
        owners.clear()
        gc.collect()
    else:
        stretches.keep(owners[0], ())
    for _ in range(3):
        stretches.add(np.arange(3), None)
        assert not stretches._runs
        assert not stretches._ends


def test_many_rows_since_a_mark_are_counted_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need memory for the cells that they lie in, and not for each row."""
    monkeypatch.setattr(trusted, "_MANY", 100)
    stretches, owner = Stretches(), Owner()
    stretches.mark(owner, 1, lambda: (np.array([0]), np.array([1])))
    for _ in range(50):
        stretches.add(np.array([0, 1, 2, 1]), None)
        assert sum(len(cells) for cells, *_ in stretches._runs) <= 105
    stretches.mark(owner, 201, nobody)
    assert rows(stretches, 1, 201) == {0: 50, 1: 100, 2: 50}
