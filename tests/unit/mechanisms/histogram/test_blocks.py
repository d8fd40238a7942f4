"""Sums and products over parts of a vector, against numpy on the whole of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings, strategies as st

from treering.mechanisms.histogram import blocks
from treering.mechanisms.histogram.kernels import FLOOR

Shape: TypeAlias = tuple[int, ...]

# Rows within one axis, over several, with nothing behind the last, many short axes, one long one.
SHAPES: list[Shape] = [
    (2,),
    (700,),
    (3, 2, 4),
    (40, 3, 300),
    (5, 16, 16, 16),
    (300, 2, 2, 2),
    (2, 2, 2, 600),
    (7, 33, 2, 50),
    (2,) * 13,
    (3, 5000),
]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Shape, list[int], int]:
    """A shape, some of its axes, and a seed for the numbers."""
    shape = draw(st.sampled_from(SHAPES))
    axes = [axis for axis in range(len(shape)) if draw(st.booleans())]
    return shape, axes, draw(st.integers(0, 2**32))


def vector(shape: Shape, seed: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).random(math.prod(shape)) + 0.001


def random_sets(shape: Shape, axes: list[int], seed: int) -> dict[int, npt.NDArray[np.bool_]]:
    generator = np.random.default_rng(seed)
    sets = {axis: generator.random(shape[axis]) < generator.choice([0.1, 0.5, 0.9]) for axis in axes}
    for axis in axes:
        sets[axis][generator.integers(shape[axis])] = True
    return sets


def mask_of(shape: Shape, sets: Mapping[int, npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    mask = np.ones(shape, dtype=np.bool_)
    for axis, flags in sets.items():
        mask &= flags.reshape([-1 if each == axis else 1 for each in range(len(shape))])
    return mask.reshape(-1)


def spread(shape: Shape, axes: list[int], table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A table over some axes, for every cell."""
    sizes = [size if axis in axes else 1 for axis, size in enumerate(shape)]
    return np.broadcast_to(table.reshape(sizes), shape).reshape(-1)


@pytest.mark.parametrize("cells", [1, 7, 8, 4095, 2**16 + 3])
def test_vectors_begin_with_a_cache_line(cells: int) -> None:
    several = [blocks.zeros(cells) for _ in range(20)]
    assert all(each.ctypes.data % 64 == 0 for each in several)
    assert all(each.shape == (cells,) and each.flags.c_contiguous and not each.any() for each in several)


@given(problems())
@settings(max_examples=150, deadline=None)
def test_a_marginal_is_the_sum_over_the_other_axes(problem: tuple[Shape, list[int], int]) -> None:
    shape, kept, seed = problem
    cells = vector(shape, seed)
    dropped = tuple(axis for axis in range(len(shape)) if axis not in kept)
    expected = cells.astype(np.longdouble).reshape(shape).sum(axis=dropped).reshape(-1)
    before = cells.copy()
    sums = blocks.marginal(cells, shape, kept)
    np.testing.assert_allclose(sums, expected.astype(np.float64), rtol=1e-14)
    np.testing.assert_array_equal(cells, before)


@given(problems())
@settings(max_examples=100, deadline=None)
def test_block_sums_are_those_inside_and_outside(problem: tuple[Shape, list[int], int]) -> None:
    shape, axes, seed = problem
    cells, sets = vector(shape, seed), random_sets(shape, axes, seed)
    mask = mask_of(shape, sets)
    sums = blocks.block_sums(cells, shape, sets)
    np.testing.assert_allclose(sums, [math.fsum(cells[mask]), math.fsum(cells[~mask])], rtol=1e-13)


@given(problems())
@settings(max_examples=150, deadline=None)
def test_a_block_is_scaled_and_nothing_else(problem: tuple[Shape, list[int], int]) -> None:
    shape, axes, seed = problem
    axes = axes or [0]
    cells, sets = vector(shape, seed), random_sets(shape, axes, seed)
    expected = np.where(mask_of(shape, sets), cells * 1.7, cells)
    blocks.scale_block(cells, shape, sets, 1.7)
    np.testing.assert_array_equal(cells, expected)


@given(problems())
@settings(max_examples=100, deadline=None)
def test_a_block_and_the_rest_are_reweighed(problem: tuple[Shape, list[int], int]) -> None:
    shape, axes, seed = problem
    cells, sets = vector(shape, seed), random_sets(shape, axes, seed)
    expected = (cells * 0.9 + 0.01) * np.where(mask_of(shape, sets), 1.7, 0.3)
    blocks.reweigh_block(cells, shape, sets, inside=1.7, outside=0.3, slope=0.9, level=0.01)
    np.testing.assert_allclose(cells, expected, rtol=1e-14)


@given(problems())
@example(((40, 3, 300), [0], 1))
@example(((40, 3, 300), [0, 2], 1))
@settings(max_examples=100, deadline=None)
def test_a_table_of_factors_reweighs_all(problem: tuple[Shape, list[int], int]) -> None:
    shape, axes, seed = problem
    axes = axes or [len(shape) - 1]
    cells = vector(shape, seed)
    table = vector(tuple(shape[axis] for axis in axes), seed + 1)
    expected = (cells * 0.9 + 0.01) * spread(shape, axes, table)
    blocks.reweigh_table(cells, shape, axes, table, slope=0.9, level=0.01)
    np.testing.assert_allclose(cells, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("shape", "kept"),
    [((2**24,), ()), ((2**16, 2**8), (1,)), ((2**20, 2**4), (1,)), ((64, 2**14, 16), (0, 2)), ((2,) * 24, (3, 5, 22))],
)
def test_sums_of_millions_of_equal_cells_stay_exact(shape: Shape, kept: tuple[int, ...]) -> None:
    """Equal terms are the worst case of plain summation: its rounding errors all have the same sign."""
    share = 0.1 / 7
    cells = np.full(math.prod(shape), share)
    terms = math.prod(size for axis, size in enumerate(shape) if axis not in kept)
    exact = Fraction(share) * terms
    plain = Fraction(float(np.cumsum(cells[:terms])[-1]))
    assert abs(plain / exact - 1) > Fraction(1, 10**13), "the case is too easy to show anything"
    errors = [abs(Fraction(each) / exact - 1) for each in blocks.marginal(cells, shape, kept)]
    assert max(errors) < Fraction(1, 10**14)


ODD: list[Shape] = [(7,), (3, 5), (2, 3, 7), (5, 37), (1, 2, 1), (2, 23, 31)]
"""Lengths that no loop of two, four or eight divides."""


@pytest.mark.parametrize("python", [True, False], ids=["as Python, which sees where an array ends", "compiled"])
@pytest.mark.parametrize("shape", ODD)
def test_odd_lengths(shape: Shape, python: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if python:
        monkeypatch.setattr(blocks, "compiled", lambda kernel: kernel)
    everything = range(len(shape))
    for seed, axes in enumerate([[0], [len(shape) - 1], [*everything]]):
        cells, sets = vector(shape, seed), random_sets(shape, axes, seed)
        sets[axes[-1]][0] = not sets[axes[-1]][1:].any()  # so that something is outside, where it can be
        mask = mask_of(shape, sets)
        sums = blocks.block_sums(cells, shape, sets)
        np.testing.assert_allclose(sums, [cells[mask].sum(), cells[~mask].sum()], rtol=1e-13)
        dropped = tuple(axis for axis in everything if axis not in axes)
        expected = cells.reshape(shape).sum(axis=dropped).reshape(-1)
        np.testing.assert_allclose(blocks.marginal(cells, shape, axes), expected, rtol=1e-13)
        expected = np.where(mask, cells * 1.7, cells)
        blocks.scale_block(cells, shape, sets, 1.7)
        np.testing.assert_array_equal(cells, expected)
        expected = (cells * 0.9 + 0.01) * np.where(mask, 1.7, 0.3)
        blocks.reweigh_block(cells, shape, sets, inside=1.7, outside=0.3, slope=0.9, level=0.01)
        np.testing.assert_allclose(cells, expected, rtol=1e-14)
        table = vector(tuple(shape[axis] for axis in axes), seed + 1)
        expected = (cells * 0.9 + 0.01) * spread(shape, axes, table)
        blocks.reweigh_table(cells, shape, axes, table, slope=0.9, level=0.01)
        np.testing.assert_allclose(cells, expected, rtol=1e-14)


def test_nothing_vanishes() -> None:
    shape = (4, 300)
    sets = {0: np.array([True, False, False, True])}
    everything = np.zeros(1200)
    blocks.reweigh_block(everything, shape, sets, inside=0.0, outside=1.0, slope=1.0, level=0.0)
    assert (everything == FLOOR).all()
    for ratio in (0.0, 1e-300):
        cells = np.full(1200, 1e-200)
        blocks.scale_block(cells, shape, sets, ratio)
        assert cells.min() == FLOOR
        assert cells.max() == 1e-200
    cells = np.full(1200, 1e-200)
    blocks.reweigh_table(cells, shape, [0], np.array([0.0, 1e-300, 1.0, 2.0]), slope=1.0, level=0.0)
    assert np.unique(cells).tolist() == [FLOOR, 1e-200, 2e-200]


def test_equal_inputs_give_equal_bits() -> None:
    shape = (9, 17, 33)
    cells = vector(shape, 5)
    for kept in ((), (0,), (1, 2)):
        np.testing.assert_array_equal(blocks.marginal(cells, shape, kept), blocks.marginal(cells.copy(), shape, kept))
