"""Which rows of each person count: against the definition, row by row, however they are read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import treering as tr
from support.visits import SCHEMA, Visit, costs, counted, flags, rows_of, table, told, wards
from treering.domain.sums import Capped
from treering.errors import DataError
from treering.trusted.operations import firsts as module
from treering.trusted.operations.firsts import Book
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.tally import Engine

VISITS = st.lists(st.tuples(st.sampled_from("pqrs"), st.integers(0, 3), st.integers(0, 5)), max_size=24)


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[Visit], int, Capped, list[int]]:
    """Visits, groups, a cap, and where leaves end."""
    visits = draw(VISITS)
    groups, each, most = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 8))
    capped = costs(min(each, most), most, 30)
    if draw(st.booleans()):
        capped = replace(capped, sums=None)
    inner = draw(st.sets(st.integers(1, max(1, len(visits) - 1)), max_size=4)) if len(visits) > 1 else set()
    return visits, groups, capped, sorted({0, len(visits), *inner})


@given(lives())
def test_a_book_counts_what_the_definition_says_leaf_by_leaf(life: tuple[list[Visit], int, Capped, list[int]]) -> None:
    visits, groups, capped, edges = life
    book = Book(wards(groups), capped)
    found: dict[tuple[int, int], int] = {}
    for leaf, (start, end) in enumerate(pairwise(edges)):
        numbers = told(book.count(rows_of(visits[:end]), (start, end)))
        found |= {(leaf, place): number for (_, place), number in numbers.items()}
    assert found == counted(visits, groups, capped, edges)
    assert book.size == len(visits)


@given(lives(), st.integers(0, 24))
def test_a_new_book_counts_late_leaves_as_one_that_saw_all(
    life: tuple[list[Visit], int, Capped, list[int]], seen: int
) -> None:
    visits, groups, capped, edges = life
    if len(edges) < 3:
        return
    book = Book(wards(groups), capped)
    if 0 < seen <= len(visits):
        book.count(rows_of(visits[:seen]), (0, seen))
    late = edges[1:]
    assert told(book.count(rows_of(visits), tuple(late))) == counted(visits, groups, capped, late)


@pytest.mark.parametrize("capped", [flags(30, 30), flags(2, 30), Capped(3, 3, 30, Fraction(1)), costs(2, 5, 30)])
def test_statements_and_files_find_the_same(capped: Capped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(7)
    many = 3_000
    visits = [
        (f"p{person}", int(ward), int(cost))
        for person, ward, cost in zip(
            drawn.integers(0, 300, many), drawn.integers(0, 4, many), drawn.integers(0, 6, many), strict=True
        )
    ]
    edges = (0, 700, 1_500, many)
    expected = counted(visits, 3, capped, edges)
    monkeypatch.setattr(module, "SMALL", 0)
    whole = Rows(SCHEMA)
    whole.add(table(visits))
    assert told(Book(wards(3), capped).count(whole, edges)) == expected
    mixed = Rows(SCHEMA)
    for number, (start, end) in enumerate(pairwise((0, 1_000, 2_000, many))):
        part = tmp_path / f"{number}.parquet"
        pq.write_table(table(visits[start:end]), part)
        mixed.add_file(part, end - start)
    book = Book(wards(3), capped)
    engine = Engine(tmp_path)
    monkeypatch.setattr(mixed, "engine", lambda: engine)
    found: dict[Any, int] = {}
    for leaf, (start, end) in enumerate(pairwise(edges)):
        found |= {(leaf, place): number for (_, place), number in told(book.count(mixed, (start, end))).items()}
    assert found == expected


def test_digests_whose_first_halves_are_equal_stay_apart() -> None:
    """They are ordered by their second halves, and by position within."""
    words = np.array([[5, 5, 5, 1], [2, 1, 2, 9]], dtype=np.uint64)
    found = module._Sorted.of(words, np.array([4, 3, 1, 2]))
    assert found.order.tolist() == [3, 1, 2, 0]
    assert (found.digests.tolist(), found.ranks.tolist()) == ([[1, 5, 5], [9, 1, 2]], [0, 0, 0, 1])


def test_refuses_rows_without_persons() -> None:
    rows = Rows(SCHEMA)
    rows.add_cells(np.zeros(10, dtype=np.int64))
    with pytest.raises(DataError, match="no column of persons"):
        Book(wards(1), flags(1, 30)).count(rows, (0, 10))
    other = Rows(SCHEMA)
    other.add(table([("p", 0, 0)]).drop_columns(["person:"]))
    with pytest.raises(DataError, match="no column of persons"):
        Book(wards(1), flags(1, 30)).count(other, (0, 1))


def test_values_beyond_the_bounds_count_between_nothing_and_the_range() -> None:
    """Whatever a row holds, it counts for 0 to R: the price rests on it."""
    found = module._units(costs(1, 1, 30), np.array([-5, 0, 1, 5]))
    assert found.tolist() == [0, 2, 3, 5]
    assert tr.integers(0, 5).size
