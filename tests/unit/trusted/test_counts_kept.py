"""How much the stretches of rows keep: the runs after the last mark are counted together as soon as they are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering.trusted.counts as module
from treering.arrays import Ints
from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.errors import VaultError
from treering.trusted.counts import Counts, Stretches

SCHEMA = Schema({"a": integers(0, 2)})


class Owner:
    """Something that marks."""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 10)


def occupied() -> tuple[Ints, Ints]:
    return np.array([0]), np.array([1])


def nobody() -> tuple[Ints, Ints]:
    raise AssertionError("all rows were counted anew")


def add(stretches: Stretches, entries: int, cell: int = 5) -> None:
    """So many rows of one cell."""
    stretches.add(np.full(entries, cell), None)


def lengths(stretches: Stretches) -> list[int]:
    return [len(run[0]) for run in stretches._runs]


def test_runs_are_counted_together_once_they_have_more_entries_than_many() -> None:
    stretches, owner = Stretches(), Owner()
    stretches.mark(owner, 1, occupied)
    add(stretches, 6)
    add(stretches, 4)
    assert lengths(stretches) == [1, 6, 4]
    add(stretches, 1, cell=6)
    assert lengths(stretches) == [1, 2]  # two cells
    add(stretches, 8)
    assert lengths(stretches) == [1, 2, 8]
    add(stretches, 1)
    assert lengths(stretches) == [1, 2]
    stretches.mark(owner, 21, nobody)
    found = [(cells.tolist(), rows.tolist()) for cells, rows in stretches.between(1, 21)]
    assert found == [([5, 6], [19, 1])]


def test_a_single_run_is_kept_as_it_came() -> None:
    """It would only be counted once more, with each of the next ones."""
    stretches, owner = Stretches(), Owner()
    stretches.mark(owner, 1, occupied)
    add(stretches, 30)
    assert lengths(stretches) == [1, 30]
    add(stretches, 1)
    assert lengths(stretches) == [1, 1]


def test_a_mark_begins_anew() -> None:
    """Rows before it are never counted together with rows after it."""
    stretches, owner = Stretches(), Owner()
    stretches.mark(owner, 1, occupied)
    add(stretches, 6)
    stretches.mark(owner, 7, nobody)
    for _ in range(2):
        add(stretches, 5)
        assert lengths(stretches)[:2] == [1, 6]
    assert lengths(stretches) == [1, 6, 5, 5]
    add(stretches, 1)
    assert lengths(stretches) == [1, 6, 1]
    assert stretches._ends == [(1, 1), (7, 2)]


def test_the_first_mark_of_all_begins_anew_as_well() -> None:
    one, two = Owner(), Owner()
    stretches = Stretches()
    stretches.mark(one, 1, occupied)
    add(stretches, 9)
    stretches.keep(one, ())
    stretches.mark(two, 10, lambda: (np.array([0, 5]), np.array([1, 9])))
    add(stretches, 5)
    add(stretches, 5)
    assert lengths(stretches) == [2, 5, 5]
    assert stretches._ends == [(10, 1)]


def test_rows_after_a_mark_that_is_forgotten_count_from_the_one_before() -> None:
    stretches, owner = Stretches(), Owner()
    stretches.mark(owner, 1, occupied)
    add(stretches, 6)
    stretches.mark(owner, 7, nobody)
    add(stretches, 3)
    stretches.keep(owner, {1, 7, 99})  # Nothing is forgotten.
    assert stretches._ends == [(1, 1), (7, 2)]
    stretches.keep(owner, {1})
    assert (stretches.marked, stretches._ends, lengths(stretches)) == ((1,), [(1, 1)], [1, 6, 3])
    add(stretches, 1)  # Ten entries since the first mark.
    assert lengths(stretches) == [1, 6, 3, 1]
    add(stretches, 1)
    assert lengths(stretches) == [1, 1]
    stretches.keep(Owner(), ())  # Somebody who has marked nothing.
    assert list(stretches.marked) == [1]
    stretches.keep(owner, ())
    assert [*stretches.marked, *stretches._ends, *stretches._runs] == []


def test_rows_count_from_the_last_of_the_marks_that_are_left() -> None:
    stretches, owner = Stretches(), Owner()
    stretches.mark(owner, 1, occupied)
    for size, entries in ((7, 6), (10, 3)):
        add(stretches, entries)
        stretches.mark(owner, size, nobody)
    add(stretches, 2)
    stretches.keep(owner, {1, 7})
    add(stretches, 5)  # Ten entries since size 7.
    assert lengths(stretches) == [1, 6, 3, 2, 5]
    add(stretches, 1)
    assert lengths(stretches) == [1, 6, 1]


def test_a_journal_forgets_marks_of_the_counts() -> None:
    counts, journal = Counts(SCHEMA), Owner()
    for _ in range(3):
        counts.add(np.array([0]))
        counts.mark(journal)
    counts.add(np.array([0]))
    counts.keep_marks(journal, {1, 3})
    assert counts.marked == (1, 3)
    with pytest.raises(VaultError, match="told apart at size 2, and it was not marked"):
        counts.check_mark(journal, 2)
    for size in (0, 1, 3):
        counts.check_mark(journal, size)


def test_before_the_first_mark_nothing_is_told_apart() -> None:
    stretches = Stretches()
    with pytest.raises(VaultError, match="rows are not told apart at size 1"):
        list(stretches.between(0, 1))
    assert stretches.marked == ()
    stretches.check(Owner(), 0)


def test_a_mark_at_the_same_size_is_no_other_and_none_is_made_of_no_rows() -> None:
    one, two = Owner(), Owner()
    stretches = Stretches()
    stretches.mark(one, 0, nobody)
    assert (stretches.marked, stretches._ends) == ((), [])
    stretches.mark(one, 1, occupied)
    stretches.mark(two, 1, nobody)
    add(stretches, 2)
    stretches.mark(two, 3, nobody)
    stretches.mark(one, 3, nobody)
    assert (stretches.marked, stretches._ends, lengths(stretches)) == ((1, 3), [(1, 1), (3, 2)], [1, 2])
    stretches.keep(one, {1})
    stretches.keep(two, {3})
    assert stretches.marked == (1, 3)


def test_who_has_left_does_not_disturb_the_others() -> None:
    one, two = Owner(), Owner()
    stretches = Stretches()
    for owner in (one, two):
        stretches.mark(owner, 1, occupied if owner is one else nobody)
    stretches.keep(one, ())
    add(stretches, 2)
    stretches.mark(two, 3, nobody)
    add(stretches, 3)
    assert (stretches.marked, stretches._ends, lengths(stretches)) == ((1, 3), [(1, 1), (3, 2)], [1, 2, 3])


# -- runs together -----------------------------------------------------------------------------------------------------


def ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


RUNS: dict[str, list[Any]] = {
    "rows": [([3, 1, 3], None), ([1, 0], None)],
    "counts": [([3, 1], [2, 5]), ([1, 0], [1, 1])],
    "both": [([3, 1, 3], None), ([0, 3], [4, 6])],
    "the first with the last cell": [([9, 1], None), ([2], [3])],
    "the last with the last cell": [([2], [3]), ([1, 9], None)],
    "one": [([5], None)],
    "no rows": [([], None)],
    "no rows before others": [([], None), ([3, 1], None), ([], [])],
    "far apart": [([10**17, 4], None), ([10**17 + 1, 10**17], [2, 3])],
}


@pytest.mark.parametrize("columns", [0, 1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_runs_together_have_every_cell_once_with_its_rows_and_its_sums(name: str, columns: int) -> None:
    """However far apart the cells lie: nothing is as large as the universe."""
    runs: list[Any] = []
    wanted: dict[int, list[int]] = {}
    for cells, counts in RUNS[name]:
        sums = [[7 * place - 3 * column for place in range(len(cells))] for column in range(columns)]
        runs.append((ints(cells), None if counts is None else ints(counts), *(ints(column) for column in sums)))
        for place, cell in enumerate(cells):
            found = wanted.setdefault(cell, [0] * (1 + columns))
            numbers = [1 if counts is None else counts[place], *(column[place] for column in sums)]
            wanted[cell] = [one + other for one, other in zip(found, numbers, strict=True)]
    together = module._together(runs)
    assert [each.tolist() for each in together] == [
        sorted(wanted),
        *([wanted[cell][place] for cell in sorted(wanted)] for place in range(1 + columns)),
    ]
    assert all(each.dtype == np.int64 for each in together)


def test_no_runs_together_are_no_cells() -> None:
    assert [each.tolist() for each in module._together([])] == [[], []]
