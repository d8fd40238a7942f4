"""The loops over cells, run as plain Python, against numpy: whole numbers, so that every sum is exact.

Compensation is shown numbers whose plain sum loses what matters.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from treering.domain.attribute import categories, integers
from treering.domain.language.parse import parse
from treering.domain.schema import Schema
from treering.mechanisms.histogram import kernels
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.histogram.kernels import (
    FLOOR,
    compiled,
    mark,
    places,
    reweigh_block,
    reweigh_table,
    scale,
    sum_block,
    sum_few,
    sum_rows,
    sum_runs,
)

HUGE = 2.0**60
LOSING: list[list[float]] = [
    [HUGE, 1.0, 1.0, 1.0, -HUGE],
    [1.0, HUGE, 1.0, -HUGE, 1.0],
    [3.0, 5.0, HUGE, 7.0, -HUGE],
    [1.0, 2.0, 4.0, HUGE, -HUGE],
    [HUGE, -1.0, -HUGE, 2.0, -4.0],
    [-1.0, -HUGE, -2.0, HUGE, 4.0],
]
"""Sums that are small, of terms that are not: doubles have 53 bits."""


def numbers(size: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(-99, 100, size).astype(np.float64)


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [8, 24, 4096])
def test_sums_of_runs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_CHUNK", chunk)
    for length, runs in product([*range(1, 27), 40, 49], (1, 3)):
        cells, sums = numbers(length * runs, length), np.full(runs, 7.0)
        sum_runs(cells, length, sums)
        assert sums.tolist() == cells.reshape(runs, length).sum(axis=1).tolist()


@pytest.mark.parametrize("terms", LOSING)
def test_sums_of_runs_lose_nothing_between_chunks(terms: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_CHUNK", 8)
    cells = np.zeros((2, 8 * len(terms)))
    cells[:, ::8] = [terms, [-each for each in terms]]
    sums = np.empty(2)
    sum_runs(cells.ravel(), 8 * len(terms), sums)
    exact = sum(int(term) for term in terms)
    assert sums.tolist() == [exact, -exact]


@pytest.mark.parametrize("width", [1, 3])
def test_sums_of_rows(width: int) -> None:
    for number, kept in product([0, 1, 7, 8, 9, 16, 19], (1, 4)):
        cells = numbers(500, number)
        generator = np.random.default_rng(number)
        keeps, drops = generator.integers(0, 200, kept), generator.integers(0, 200, number)
        sums = np.full((kept, width), 7.0)
        sum_rows(cells, keeps, drops, sums)
        expected = [[sum(cells[keep + drop + k] for drop in drops) for k in range(width)] for keep in keeps]
        assert sums.tolist() == expected


@pytest.mark.parametrize("terms", LOSING)
@pytest.mark.parametrize("each", [1, 8])
def test_sums_of_rows_lose_nothing(terms: list[float], each: int) -> None:
    """One row after another, and eight rows after eight others, of which all but one are zero."""
    number = len(terms)
    cells = np.zeros((number * each, 2))
    cells[::each] = np.array([terms, [-term for term in terms]]).T
    sums = np.empty((1, 2))
    if each == 1:
        sum_rows(cells.ravel(), np.array([0]), np.arange(number) * 2, sums)
    else:
        sum_rows(cells.ravel(), np.array([0]), np.arange(number * each) * 2, sums)
    exact = sum(int(term) for term in terms)
    assert sums.tolist() == [[exact, -exact]]


SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((2, 3, 4), 1),
    ((2, 3, 4), 2),
    ((3, 2, 2, 5), 2),
    ((5, 7), 1),
    ((4, 13), 1),
    ((6,), 0),
    ((1, 9), 1),
]


def flags_of(sizes: tuple[int, ...], seed: int) -> Any:
    """A flag for each code of each axis; every axis has one at least."""
    generator = np.random.default_rng(seed)
    parts = [generator.random(size) < 0.5 for size in sizes]
    for part in parts:
        part[generator.integers(len(part))] = True
    return np.concatenate(parts)


def members(sizes: tuple[int, ...], flags: Any) -> Any:
    """Which cells are in the product of the sets, cell after cell."""
    starts = np.cumsum([0, *sizes])
    return np.array(
        [all(flags[starts[axis] + code] for axis, code in enumerate(codes)) for codes in np.ndindex(*sizes)]
    )


@pytest.mark.parametrize(("sizes", "before"), SHAPES)
@pytest.mark.parametrize("chunk", [4, 6, 4096])
def test_sums_of_blocks(sizes: tuple[int, ...], before: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_CHUNK", chunk)
    width = prod(sizes[before:])
    for seed in range(6):
        flags, cells = flags_of(sizes, seed), numbers(prod(sizes), seed)
        inside = members(sizes, flags)
        found = sum_block(cells, np.array(sizes), flags, before, width)
        assert found == (cells[inside].sum(), cells[~inside].sum())


@pytest.mark.parametrize("terms", LOSING)
def test_sums_of_blocks_lose_nothing(terms: list[float]) -> None:
    """Rows of two cells, one of which is in the block and one is not."""
    cells = np.array([terms, [-2 * term for term in terms]]).T
    flags = np.array([*([True] * len(terms)), True, False])
    exact = sum(int(term) for term in terms)
    assert sum_block(cells.ravel(), np.array([len(terms), 2]), flags, 1, 2) == (exact, -2 * exact)
    flags[-2:] = False, True
    assert sum_block(cells.ravel(), np.array([len(terms), 2]), flags, 1, 2) == (-2 * exact, exact)


@pytest.mark.parametrize(("kept", "dropped", "width"), [(1, 1, 1), (3, 4, 5), (2, 7, 1), (4, 2, 3)])
def test_sums_over_a_middle_axis(kept: int, dropped: int, width: int) -> None:
    cells, sums = numbers(kept * dropped * width), np.full(kept * width, 7.0)
    sum_few(cells, dropped, width, sums)
    assert sums.tolist() == cells.reshape(kept, dropped, width).sum(axis=1).ravel().tolist()


# -- sets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [sizes for sizes, _ in SHAPES])
def test_marks_and_places_of_a_product_of_sets(sizes: tuple[int, ...]) -> None:
    for seed in range(6):
        flags = flags_of(sizes, seed)
        inside = members(sizes, flags)
        marks = np.ones(prod(sizes), dtype=np.bool_)
        mark(np.array(sizes), flags, marks)
        assert marks.tolist() == inside.tolist()
        for unit in (1, 3):
            assert places(np.array(sizes), flags, unit).tolist() == (np.flatnonzero(inside) * unit).tolist()


# -- products ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [1, 2, 5, 9])
@pytest.mark.parametrize("picks", [[0], [1, 2, 3], [0, 2, 4], [0, 1, 3, 5, 6], list(range(8))])
def test_picked_groups_are_multiplied_once(tail: int, picks: list[int]) -> None:
    rows, width = np.array([0, 2]) * 8 * tail, 8 * tail
    cells = np.arange(1.0, 4 * width + 1)
    expected = cells.copy()
    for row, pick, k in product(rows, picks, range(tail)):
        expected[row + pick * tail + k] *= 3.0
    scale(cells, rows, np.array(picks), tail, 3.0)
    assert cells.tolist() == expected.tolist()


@pytest.mark.parametrize("tail", [1, 16])
def test_no_cell_becomes_less_than_the_floor(tail: int) -> None:
    cells = np.full(2 * tail, 1e-100)
    scale(cells, np.array([0]), np.array([0]), tail, 1e-200)
    assert cells.tolist() == [FLOOR] * tail + [1e-100] * tail


def test_blocks_are_reweighed() -> None:
    rows, columns = np.array([True, False, True]), np.array([True, False, False, True])
    cells = np.arange(1.0, 13.0)
    reweigh_block(cells, rows, columns, 8.0, 4.0, 2.0, 5.0)
    inside = np.outer(rows, columns).ravel()
    assert cells.tolist() == ((2 * np.arange(1.0, 13.0) + 5) * np.where(inside, 8.0, 4.0)).tolist()
    reweigh_block(cells, rows, columns, 1e-260, 1e-255, 1.0, 0.0)
    assert cells.tolist() == [FLOOR] * 12


def test_tables_are_reweighed() -> None:
    """Rows of three kinds: two have a factor for each cell, one a single factor."""
    factors: Any = (np.array([2.0, 4.0, 8.0]), np.array([16.0]), np.array([1.0, 0.5, 0.25]))
    index = np.array([1, 0, 2, 1])
    cells = np.arange(1.0, 13.0)
    reweigh_table(cells, index, 3, factors, 2.0, 6.0)
    spread = np.concatenate([np.full(3, 16.0), factors[0], factors[2], np.full(3, 16.0)])
    assert cells.tolist() == ((2 * np.arange(1.0, 13.0) + 6) * spread).tolist()
    tiny: Any = tuple(each * 1e-270 for each in factors)
    reweigh_table(cells, index, 3, tiny, 1.0, 0.0)
    assert cells.tolist() == [FLOOR] * 12


def test_a_kernel_is_compiled_once_and_means_the_same() -> None:
    assert compiled(sum_few) is compiled(sum_few)
    cells, sums = numbers(24), np.empty(6)
    compiled(sum_few)(cells, 4, 3, sums)
    assert sums.tolist() == cells.reshape(2, 4, 3).sum(axis=1).ravel().tolist()


def test_without_numba_the_loops_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def lived() -> str:
        histogram = Hypothesis(Schema({"a": categories(*map(str, range(40))), "b": integers(1, 30)}))
        for text, target in (("a = '3'", 0.4), ("b <= 7 AND a = '5'", 0.1), ("b = 2 OR b = 9", 0.3)):
            query = parse(text, histogram.schema)
            histogram.apply(histogram.project(query, target))
            histogram.grow(0.9)
        return histogram.fingerprint()

    fast = lived()
    compiled.cache_clear()
    monkeypatch.setattr(kernels, "find_spec", lambda _: None)
    try:
        assert compiled(sum_runs) is sum_runs
        assert lived() == fast
    finally:
        compiled.cache_clear()
