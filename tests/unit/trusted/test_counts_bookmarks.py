"""Copies of the counts: shared, let go, and subtracted."""

from __future__ import annotations

import gc
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.errors import VaultError
from treering.trusted.counts import Bookmarks, Counts


class Owner:
    """Something that can be let go of."""


def test_bookmarks_share_copies_and_go_with_their_owner() -> None:
    bookmarks, made = Bookmarks(), []

    def copy() -> npt.NDArray[np.int64]:
        made.append(1)
        return np.arange(3)

    one, two = Owner(), Owner()
    for owner in (one, two):
        bookmarks.add(owner, 10, copy)
    assert len(made) == 1
    bookmarks.keep(one, ())
    with pytest.raises(VaultError):
        bookmarks.between(one, 0, 10)
    assert bookmarks.between(two, 0, 10).tolist() == [0, 1, 2]
    del two, owner
    gc.collect()
    bookmarks.add(one, 10, copy)
    assert len(made) == 2


def test_what_lies_between_is_the_difference() -> None:
    bookmarks, owner = Bookmarks(), Owner()
    for size, counts in ((0, [0, 0]), (3, [1, 2]), (10, [4, 6])):
        bookmarks.add(owner, size, partial(np.array, counts))
    for (start_size, low), (end_size, high) in pairwise([(0, [0, 0]), (3, [1, 2]), (10, [4, 6])]):
        between = bookmarks.between(owner, start_size, end_size)
        assert between.tolist() == [after - before for before, after in zip(low, high, strict=True)]
        between[:] = 0  # a copy of its own
    bookmarks.check(owner, 0)
    assert bookmarks.between(owner, 0, 10).tolist() == [4, 6]
    assert repr(bookmarks) == "<Bookmarks>"


def test_stretches_hold_every_row_once_also_when_the_present_size_is_marked() -> None:
    """Marks are about earlier sizes: the present one ends the last stretch in any case."""
    counts, journal = Counts(Schema({"a": integers(0, 2)})), Owner()
    counts.add(np.array([0, 0, 2]))
    counts.mark(journal)
    assert list(counts.marked) == []
    assert {size: [each.tolist() for each in rows] for size, rows in counts.stretches().items()} == {
        3: [[0, 2], [2, 1]]
    }
    counts.add(np.array([1, 2]))
    counts.mark(journal)
    assert list(counts.marked) == [3]
    assert {size: [each.tolist() for each in rows] for size, rows in counts.stretches().items()} == {
        3: [[0, 2], [2, 1]],
        5: [[1, 2], [1, 1]],
    }
