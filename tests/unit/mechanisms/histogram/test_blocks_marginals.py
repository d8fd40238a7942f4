"""Marginals that follow their vector: right at any time, and computed no more often than they must be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from treering.mechanisms.histogram import blocks, blocks as marginals
from treering.mechanisms.histogram.blocks import Tabulated

SHAPE = (4, 5, 6, 7)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cells each sum went over."""
    seen: list[int] = []
    compute = blocks.marginal

    def counted(cells: npt.NDArray[np.float64], shape: tuple[int, ...], kept: Sequence[int]) -> npt.NDArray[np.float64]:
        seen.append(len(cells))
        return compute(cells, shape, kept)

    monkeypatch.setattr(blocks, "marginal", counted)
    return seen


def make() -> Tabulated:
    return Tabulated(np.random.default_rng(1).random(840), SHAPE)


def first_two(axis: int) -> dict[int, npt.NDArray[np.bool_]]:
    return {axis: np.arange(SHAPE[axis]) < 2}


def check(vector: Tabulated, axes: tuple[int, ...]) -> None:
    dropped = tuple(axis for axis in range(4) if axis not in axes)
    expected = vector.cells.reshape(SHAPE).sum(axis=dropped).reshape(-1)
    np.testing.assert_allclose(vector.sums(axes), expected, rtol=1e-13)


def test_a_marginal_is_summed_once(passes: list[int]) -> None:
    vector = make()
    for _ in range(3):
        check(vector, (1, 2))
    assert passes == [840]


def test_a_narrow_marginal_comes_from_the_smallest_wider_one(passes: list[int]) -> None:
    vector = make()
    for axes in ((0, 1, 2), (1, 2), (2, 3), (2,)):
        check(vector, axes)
    assert passes == [840, 120, 840, 30]


def test_what_tells_the_block_apart_follows_and_the_rest_is_summed_again(passes: list[int]) -> None:
    vector = make()
    for axes in ((0, 1), (1,), (2, 3)):
        vector.sums(axes)
    del passes[:]
    vector.scale_block(first_two(1), 3.0)
    vector.reweigh_block(first_two(1), inside=0.5, outside=2.0, slope=0.9, even=0.1)
    vector.reweigh_table((1,), np.linspace(0.5, 2, 5), slope=0.8, even=0.2)
    check(vector, (0, 1))
    check(vector, (1,))
    assert passes == []
    check(vector, (2, 3))
    assert passes == [840]
    vector.scale_block(first_two(0), 3.0)
    check(vector, (0, 1))
    assert passes == [840]
    check(vector, (1,))
    assert passes == [840, 20]


def test_the_least_recently_used_go_first(passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "CACHED_CELLS", 15)
    vector = make()
    for axes in ((0,), (1,), (2,), (0,), (3,)):
        check(vector, axes)
    del passes[:]
    for axes in ((0,), (3,)):
        check(vector, axes)
    assert passes == []
    check(vector, (1,))
    assert passes == [840]


def test_a_large_marginal_is_not_kept(passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "MARGINAL_CELLS", 25)
    vector = make()
    for axes in ((1, 2), (1, 2), (0, 1), (0, 1)):
        check(vector, axes)
    assert passes == [840, 840, 840]


def test_all_can_be_forgotten(passes: list[int]) -> None:
    vector = make()
    vector.sums((0,))
    vector.forget()
    check(vector, (0,))
    assert passes == [840, 840]
    assert vector.total() == pytest.approx(vector.cells.sum(), rel=1e-14)
