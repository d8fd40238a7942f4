"""How sums and products over blocks are made: which loop is chosen for which shape, and with what tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from treering.mechanisms.histogram import blocks
from treering.mechanisms.histogram.blocks import Shape, Tabulated, _flags, _merge, _split, _starts

Calls = list[tuple[str, tuple[Any, ...]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The loops that were run, as plain Python, with their arguments."""
    seen: Calls = []

    def noting(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            seen.append((kernel.__name__, arguments))
            return kernel(*arguments)

        return run

    monkeypatch.setattr(blocks, "compiled", noting)
    return seen


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "kept", "loops"),
    [
        ((3, 16), (0,), ["sum_runs"]),
        ((3, 15), (0,), ["sum_few"]),
        ((3, 2, 8), (0,), ["sum_runs"]),
        ((3, 5, 3), (0,), ["sum_few"]),
        ((2, 64, 3), (0, 2), ["sum_few"]),
        ((2, 65, 3), (0, 2), ["sum_rows"]),
        ((2, 4096), (1,), ["sum_rows"]),
        ((2, 4095), (1,), ["sum_few"]),
        ((3, 2, 16), (1,), ["sum_runs", "sum_few"]),
        ((3, 2, 3, 2), (0, 2), ["sum_few", "sum_few"]),
        ((3, 2), (0, 1), []),
        ((3, 2, 2, 2048), (1, 3), ["sum_rows", "sum_few"]),
    ],
)
def test_each_shape_has_its_loops(shape: Shape, kept: tuple[int, ...], loops: list[str], calls: Calls) -> None:
    """Long runs first, then leading rows; of the rest, few terms plainly and many with compensation."""
    cells = np.random.default_rng(1).integers(1, 99, math.prod(shape)).astype(np.float64)
    dropped = tuple(axis for axis in range(len(shape)) if axis not in kept)
    expected = cells.reshape(shape).sum(axis=dropped).reshape(-1)
    assert blocks.marginal(cells, shape, kept).tolist() == expected.tolist()
    assert [name for name, _ in calls] == loops


def test_neighbours_of_one_kind_are_one_axis() -> None:
    axes = [(2, True), (3, True), (4, False), (5, False), (6, False), (7, True), (8, False)]
    assert _merge(axes) == [(6, True), (120, False), (7, True), (8, False)]
    assert _merge([]) == []


@pytest.mark.parametrize("kept", list(product([True, False], repeat=3)))
def test_rows_start_where_the_other_axes_are_at_nothing(kept: tuple[bool, ...]) -> None:
    sizes, row = (2, 3, 4), 5
    rows = list(zip(sizes, kept, strict=True))
    for side in (True, False):
        starts = [
            row * int(np.ravel_multi_index(codes, sizes))
            for codes in np.ndindex(*sizes)
            if all(code == 0 or keep == side for code, keep in zip(codes, kept, strict=True))
        ]
        assert _starts(rows, row, kept=side).tolist() == starts


@pytest.mark.parametrize(
    ("shape", "split", "long"),
    [
        ((4, 256), (1, 256), (0, 1024)),
        ((4, 255), (0, 1020), (0, 1020)),
        ((7, 4, 255), (1, 1020), (0, 7140)),
        ((3, 16, 256), (2, 256), (1, 4096)),
        ((2, 2), (0, 4), (0, 4)),
        ((5000,), (0, 5000), (0, 5000)),
        ((), (0, 1), (0, 1)),
    ],
)
def test_a_row_has_no_fewer_cells_than_it_needs(shape: Shape, split: tuple[int, int], long: tuple[int, int]) -> None:
    assert _split(shape) == split
    assert _split(shape, 4096) == long


# -- products ----------------------------------------------------------------------------------------------------------


def test_flags_are_all_true_where_nothing_is_asked() -> None:
    sets = {1: np.array([True, False, True])}
    sizes, flags, starts = _flags((2, 3, 2), sets)
    assert (sizes.tolist(), starts) == ([2, 3, 2], [0, 2, 5, 7])
    assert flags.tolist() == [True, True, True, False, True, True, True]
    everything = {0: np.array([False, True]), 1: sets[1], 2: np.array([True, False])}
    _, flags, _ = _flags((2, 3, 2), dict(reversed(everything.items())))
    assert flags.tolist() == [False, True, True, False, True, True, False]


@pytest.mark.parametrize(("shape", "width", "factors"), [((3, 4, 64), 64, 1), ((3, 5, 63), 315, 315), ((2, 64), 64, 1)])
def test_long_runs_of_one_factor_have_a_loop_of_their_own(shape: Shape, width: int, factors: int, calls: Calls) -> None:
    axes = list(range(len(shape) - 1))
    table = np.arange(1.0, math.prod(shape[:-1]) + 1).reshape(shape[:-1])
    cells = np.random.default_rng(1).integers(1, 99, math.prod(shape)).astype(np.float64)
    expected = (2 * cells.reshape(shape) + 3) * table[..., None]
    blocks.reweigh_table(cells, shape, axes, table, slope=2.0, level=3.0)
    assert cells.tolist() == expected.reshape(-1).tolist()
    ((name, (_, index, row, found, slope, level)),) = calls
    assert (name, row, found.shape[1], slope, level) == ("reweigh_table", width, factors, 2.0, 3.0)
    assert len(index) * row == len(cells)
    assert all(each.flags.c_contiguous and each.flags.writeable for each in (index, found))


@pytest.mark.parametrize(
    ("shape", "sets", "rows", "tail"),
    [
        ((3, 4), {0: [True, False, True]}, [0], 4),
        ((3, 4), {1: [True, False, True, True]}, [0], 1),
        ((3, 4096), {1: [True] * 4096}, [0, 4096, 8192], 1),
        ((3, 4096), {0: [True, False, True]}, [0], 4096),
        ((3, 4096), {0: [True, False, True], 1: [True] * 4096}, [0, 8192], 1),
    ],
)
def test_a_block_is_scaled_by_rows_and_picks(
    shape: Shape, sets: dict[int, list[bool]], rows: list[int], tail: int, calls: Calls
) -> None:
    cells = np.arange(1.0, math.prod(shape) + 1)
    mask = np.ones(shape, dtype=np.bool_)
    for axis, flags in sets.items():
        mask &= np.array(flags).reshape([-1 if each == axis else 1 for each in range(len(shape))])
    expected = np.where(mask.reshape(-1), 2 * cells, cells)
    blocks.scale_block(cells, shape, {axis: np.array(flags) for axis, flags in sets.items()}, 2.0)
    assert cells.tolist() == expected.tolist()
    name, arguments = calls[-1]
    assert (name, arguments[1].tolist(), arguments[3], arguments[4]) == ("scale", rows, tail, 2.0)


# -- cached marginals --------------------------------------------------------------------------------------------------


def test_a_marginal_is_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MARGINAL_CELLS", 12)
    vector = Tabulated(np.ones(60), (3, 4, 5))
    vector.sums((0, 1))
    vector.sums((0, 2))
    assert list(vector._marginals) == [(0, 1)]
    assert vector.sums((0, 1, 2)) is vector.cells
    vector.sums(())
    assert list(vector._marginals) == [(0, 1), ()]


def test_marginals_are_kept_up_to_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "CACHED_CELLS", 12)
    vector = Tabulated(np.ones(60), (3, 4, 5))
    for axes, kept in (
        ((0,), [(0,)]),
        ((1,), [(0,), (1,)]),
        ((2,), [(0,), (1,), (2,)]),
        ((0,), [(1,), (2,), (0,)]),
        ((), [(2,), (0,), ()]),
    ):
        vector.sums(axes)
        assert list(vector._marginals) == kept


@pytest.mark.parametrize(("most", "loops"), [(12, ["sum_few", "sum_block"]), (11, ["sum_block"])])
def test_a_block_is_summed_over_its_marginal_if_that_may_be_kept(
    most: int, loops: list[str], calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MARGINAL_CELLS", most)
    vector = Tabulated(np.arange(60.0), (3, 4, 5))
    sets = {0: np.array([True, False, True]), 1: np.array([False, True, True, False])}
    cells = vector.cells.reshape(3, 4, 5)
    inside = float(cells[[0, 2]][:, [1, 2]].sum())
    assert vector.block_sums(sets) == (inside, float(cells.sum()) - inside)
    assert [name for name, _ in calls] == loops
