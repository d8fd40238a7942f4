from __future__ import annotations

import copy
import json
import math
import os
import pickle
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from treering.arrays import Ints
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted import noise as module
from treering.trusted.noise import (
    FEW,
    LARGEST_BLOCK,
    LARGEST_SCALE,
    Ahead,
    check_scale,
    draw,
    draw_gaussian,
    draw_laplace,
)
from treering.trusted.samplers import clocks, coins

WIDE = LARGEST_SCALE
"""At this scale two draws are equal with probability below 2^−49, so equal draws are the same draw."""

Sampler = Callable[[float, int], Ints]
SAMPLERS = pytest.mark.parametrize("sampler", [draw_laplace, draw_gaussian])
NOISES = pytest.mark.parametrize("noise", [Laplace(WIDE), Gaussian(WIDE)])


# -- drawing -----------------------------------------------------------------------------------------------------------


@SAMPLERS
@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 1000])
def test_draws_are_64_bit_integers(sampler: Sampler, count: int) -> None:
    draws = sampler(10.0, count)
    assert draws.dtype == np.int64
    assert draws.shape == (count,)


@SAMPLERS
def test_draws_differ(sampler: Sampler) -> None:
    parts = [sampler(WIDE, count) for count in (500, 500, *[1] * 100, FEW, FEW)]
    assert len(set(np.concatenate(parts).tolist())) == 1100 + 2 * FEW


class Watched:
    """Stands in for a sampler's two functions, and remembers what they were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, int]] = []

    def __call__(self, scale: float, count: int) -> list[int]:
        self.asked.append((scale, count))
        return [0] * count


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[Watched, Watched]:
    """What ``coins`` and ``clocks`` are asked for."""
    found = Watched(), Watched()
    for sampler, each in zip((coins, clocks), found, strict=True):
        monkeypatch.setattr(sampler, "laplace", each)
        monkeypatch.setattr(sampler, "gaussian", each)
    return found


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_many_draws_are_drawn_together_where_that_is_possible(
    kind: Callable[[float], Noise], watched: tuple[Watched, Watched]
) -> None:
    singly, together = watched
    usual = [clocks.LEAST, 1.0, clocks.LARGEST]
    for count in (0, 1, FEW, FEW + 1, 1000):
        for scale in (*usual, math.nextafter(clocks.LEAST, 0), math.nextafter(clocks.LARGEST, math.inf)):
            draw(kind(scale), 1, count)
    assert together.asked == [(scale, count) for count in (FEW + 1, 1000) for scale in usual]
    assert len(singly.asked) == 25 - len(together.asked)


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
@pytest.mark.parametrize("factor", [1, 5])
def test_both_samplers_get_the_same_scale(
    kind: Callable[[float], Noise], factor: int, watched: tuple[Watched, Watched]
) -> None:
    for count in (1, FEW + 1):
        draw(kind(0.1), factor, count)
    singly, together = watched
    assert singly.asked == [(check_scale(0.1, factor), 1)]
    assert together.asked == [(check_scale(0.1, factor), FEW + 1)]


@pytest.mark.parametrize("module_", [coins, clocks])
def test_each_noise_has_its_own_law(module_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 1 if module_ is coins else FEW + 1
    monkeypatch.setattr(module_, "laplace", lambda _, count: [1] * count)
    monkeypatch.setattr(module_, "gaussian", lambda _, count: [2] * count)
    assert draw(Laplace(1.0), 1, count).tolist() == [1] * count
    assert draw(Gaussian(1.0), 1, count).tolist() == [2] * count


@SAMPLERS
@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 5e-324, 2.0**48 * 1.01])
def test_scales_that_cannot_be_are_refused(sampler: Sampler, scale: float) -> None:
    with pytest.raises(ParameterError) as caught:
        sampler(scale, 1)
    assert caught.value.parameter == "scale"


@SAMPLERS
@pytest.mark.parametrize("count", [-1, True, 1.0])
def test_counts_that_cannot_be_are_refused(sampler: Sampler, count: Any) -> None:
    with pytest.raises(ParameterError, match="count must be a whole number"):
        sampler(1.0, count)
    with pytest.raises(ParameterError, match="count must be a whole number"):
        Ahead(Laplace(1.0)).take(1, count)


@pytest.mark.parametrize("factor", [0, -3, True, 2.0])
def test_factors_that_cannot_be_are_refused(factor: Any) -> None:
    with pytest.raises(ParameterError, match="factor must be a positive whole number"):
        draw(Laplace(1.0), factor, 1)
    with pytest.raises(ParameterError, match="factor must be a positive whole number"):
        check_scale(1.0, factor)


def test_the_limit_counts_the_factor() -> None:
    assert check_scale(2.0**32, 2**16) == LARGEST_SCALE
    with pytest.raises(ParameterError, match=r"at most 2\^48"):
        check_scale(2.0**32, 2**16 + 1)
    with pytest.raises(ParameterError, match=r"at most 2\^48"):
        draw(Gaussian(2.0**32), 2**16 + 1, 0)


@NOISES
def test_the_largest_scale_leaves_room_for_counts(noise: Noise) -> None:
    assert np.abs(draw(noise, 1, 2000)).max() < 2**60


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
@pytest.mark.parametrize("scale", [3, 0.3, Fraction(3), Fraction(1, 3), Decimal("0.1"), np.float64(0.3)])
@pytest.mark.parametrize("factor", [1, 2])
def test_the_samplers_get_a_float(kind: Any, scale: Any, factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sample, got = module._sample, list[Noise]()

    def watched(noise: Noise, count: int) -> Ints | list[int]:
        got.append(noise)
        return sample(noise, count)

    monkeypatch.setattr(module, "_sample", watched)
    for count in (1, FEW + 1):
        assert len(draw(kind(scale), factor, count)) == count
    assert got == [kind(factor * float(scale))] * 2
    assert [type(noise.scale) for noise in got] == [float] * 2


def test_a_draw_beyond_64_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "laplace", lambda *_: [2**63])
    with pytest.raises(OverflowError):
        draw_laplace(1.0, 1)


@settings(deadline=None)
@given(st.floats(1e-300, 2.0**24), st.integers(1, 2**24))
def test_a_product_is_exact_or_the_next_float_above(scale: float, factor: int) -> None:
    product = Fraction(scale) * factor
    got = check_scale(scale, factor)
    assert Fraction(got) >= product
    assert Fraction(math.nextafter(got, 0)) < product


@settings(deadline=None)
@given(st.floats(1e-300, 2.0**24), st.integers(0, 24))
def test_a_product_with_a_power_of_two_is_exact(scale: float, power: int) -> None:
    assert Fraction(check_scale(scale, 2**power)) == Fraction(scale) * 2**power


@pytest.mark.parametrize("scale", [sys.float_info.min, 0.1, 1, np.float64(0.3), LARGEST_SCALE])
def test_a_scale_alone_is_itself(scale: float) -> None:
    assert check_scale(scale, 1) == scale
    assert type(check_scale(scale, 1)) is float


# -- drawing ahead -----------------------------------------------------------------------------------------------------


class Source:
    """Stands in for `draw`: counts up, so that every value says when it was drawn, and for which factor."""

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.factors: list[int] = []

    def __call__(self, noise: Noise, factor: int, count: int) -> Ints:
        assert noise == Laplace(2.0)
        start = len(self.factors)
        self.blocks.append(count)
        self.factors.extend([factor] * count)
        return np.arange(start, start + count, dtype=np.int64)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    replacement = Source()
    monkeypatch.setattr(module, "draw", replacement)
    return replacement


def stocked(noise: Noise) -> Ahead:
    """After four draws of seven: three are left."""
    ahead = Ahead(noise)
    for _ in range(4):
        ahead.take(1, 1)
    return ahead


TAKES = st.lists(st.tuples(st.sampled_from([1, 7]), st.integers(0, 90) | st.integers(0, 2500)), max_size=40)


@settings(deadline=None)
@given(TAKES)
def test_no_draw_is_handed_out_twice_or_for_another_factor(takes: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        source = Source()
        patch.setattr(module, "draw", source)
        ahead = Ahead(Laplace(2.0))
        seen: set[int] = set()
        for factor, count in takes:
            taken = ahead.take(factor, count).tolist()
            assert len(taken) == count
            assert len(seen) + count == len(seen.union(taken))
            assert {source.factors[draw] for draw in taken} <= {factor}
            seen.update(taken)


@settings(deadline=None)
@given(st.lists(st.integers(1, LARGEST_BLOCK - 1), min_size=1, max_size=60))
def test_what_is_left_is_less_than_what_was_taken(counts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        source = Source()
        patch.setattr(module, "draw", source)
        ahead = Ahead(Laplace(2.0))
        taken = 0
        for count in counts:
            ahead.take(1, count)
            taken += count
            assert len(source.factors) - taken < taken


def test_blocks_double_up_to_the_largest(source: Source) -> None:
    ahead = Ahead(Laplace(2.0))
    for _ in range(4096):
        ahead.take(1, 1)
    assert source.blocks == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024, 1024]


def test_a_large_take_is_drawn_directly_and_leaves_the_stock_alone(source: Source) -> None:
    ahead = stocked(Laplace(2.0))
    assert ahead.take(1, LARGEST_BLOCK).tolist() == list(range(7, 7 + LARGEST_BLOCK))
    assert ahead.take(1, 2).tolist() == [4, 5]
    assert source.blocks == [1, 2, 4, LARGEST_BLOCK]


def test_what_is_in_stock_is_taken_before_a_whole_block_is_drawn(source: Source) -> None:
    assert stocked(Laplace(2.0)).take(1, 8).tolist() == list(range(4, 12))
    assert source.blocks == [1, 2, 4, 8]


def test_another_factor_drops_the_stock(source: Source) -> None:
    ahead = stocked(Laplace(2.0))
    assert ahead.take(5, 1).tolist() == [7]
    assert ahead.take(1, 1).tolist() == [8]
    assert source.blocks == [1, 2, 4, 1, 1]


def test_a_refused_factor_changes_nothing(source: Source) -> None:
    ahead = stocked(Laplace(2.0))
    with pytest.raises(ParameterError):
        ahead.take(2**60, 1)
    assert ahead.take(1, 1).tolist() == [4]
    assert source.blocks == [1, 2, 4]


def test_dropping_forgets_the_stock(source: Source) -> None:
    ahead = stocked(Laplace(2.0))
    ahead.drop()
    assert ahead.take(1, 1).tolist() == [7]
    assert source.blocks == [1, 2, 4, 1]


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([1, 2, 7]), max_size=9), max_size=9))
def test_each_factor_gets_a_draw_of_its_own(takes: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        source = Source()
        patch.setattr(module, "draw", source)
        ahead, seen = Ahead(Laplace(2.0)), set[int]()
        for factors in takes:
            taken = ahead.take_each(np.array(factors, dtype=np.int64)).tolist()
            assert [source.factors[draw] for draw in taken] == factors
            assert len(seen) + len(taken) == len(seen.union(taken))
            seen.update(taken)


def test_what_is_taken_does_not_carry_the_rest_along() -> None:
    taken = stocked(Laplace(3.0)).take(1, 2)
    assert taken.base is None


@pytest.mark.usefixtures("source")
def test_another_process_drops_the_stock_without_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = stocked(Laplace(2.0))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert ahead.take(1, 1).tolist() == [7]


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_noise_ahead_is_sealed(duplicate: Callable[[Ahead], object]) -> None:
    ahead = stocked(Laplace(3.0))
    assert repr(ahead) == "<Ahead>"
    assert not hasattr(ahead, "__dict__")
    with pytest.raises(TypeError, match="Ahead holds private values"):
        duplicate(ahead)


# -- after a fork ------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], Ints]) -> list[int]:
    """What ``work`` gives in a forked child."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(send, json.dumps(work().tolist()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        values: list[int] = json.load(pipe)
    return values


@NOISES
def test_a_child_never_gets_its_parents_noise(noise: Noise) -> None:
    ahead = stocked(noise)
    child = in_child(lambda: ahead.take(1, 3))
    assert len(child) == 3
    assert not set(child) & set(ahead.take(1, 3).tolist())


@NOISES
def test_the_hook_empties_the_childs_stock_at_once(noise: Noise) -> None:
    ahead = stocked(noise)
    assert in_child(lambda: ahead._stock) == []
    assert len(ahead._stock) == 3


@SAMPLERS
@pytest.mark.parametrize("count", [1, 20, 200])
def test_parent_and_child_draw_different_noise(sampler: Sampler, count: int) -> None:
    sampler(WIDE, count)
    child = in_child(lambda: sampler(WIDE, count))
    assert len(child) == count
    assert not set(child) & set(sampler(WIDE, count).tolist())
