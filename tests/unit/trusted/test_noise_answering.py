from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.arrays import Ints
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted import noise as module, pricing
from treering.trusted.noise import Answering, check_noise
from treering.trusted.operations.count import measuring


class Source:
    """Stands in for `draw`: every value is the number of its draw."""

    def __init__(self) -> None:
        self.drawn: list[tuple[Noise, int]] = []
        self.blocks: list[int] = []

    def __call__(self, noise: Noise, factor: int, count: int) -> Ints:
        start = len(self.drawn)
        self.blocks.append(count)
        self.drawn.extend([(noise, factor)] * count)
        return np.arange(start, start + count, dtype=np.int64)


NOISES = st.sampled_from([Laplace(2.0), Laplace(3.0), Gaussian(2.0)])
TAKES = st.lists(st.tuples(NOISES, st.lists(st.sampled_from([1, 7]), min_size=1, max_size=6)), max_size=40)


@settings(deadline=None)
@given(TAKES)
def test_every_answer_gets_a_draw_of_its_own_of_its_own_noise(takes: list[tuple[Noise, list[int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        source = Source()
        patch.setattr(module, "draw", source)
        answering, seen = Answering(), set[int]()
        for noise, scales in takes:
            taken = answering.take(noise, np.array(scales, dtype=np.int64)).tolist()
            assert [source.drawn[draw] for draw in taken] == [(noise, scale) for scale in scales]
            assert len(seen) + len(taken) == len(seen.union(taken))
            seen.update(taken)


def test_noise_is_drawn_ahead_only_while_it_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    monkeypatch.setattr(module, "draw", source)
    answering, one = Answering(), np.ones(1, dtype=np.int64)
    for size in range(1, 6):
        answering.take(Laplace(float(size)), one)
    assert source.blocks == [1] * 5
    for _ in range(7):
        answering.take(Laplace(9.0), one)
    assert source.blocks == [1] * 5 + [1, 2, 4]


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_sealed(duplicate: Callable[[Answering], object]) -> None:
    with pytest.raises(TypeError, match="Answering holds private values"):
        duplicate(Answering())


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_a_remembered_price_is_the_price(kind: Any) -> None:
    schema = tr.Schema({"a": tr.integers(0, 3)})
    half = tr.Query.weighted(schema, [0.0, 0.25, 0.5, 0.5], resolution=4)
    for noise in (kind(3.0), kind(5.0)):
        for queries in ([half], [half, half, tr.Query.where(schema, a=1)]):
            again = [measuring(queries, noise) for _ in range(2)]
            parts = [pricing.noisy(Fraction(query.spread, query.scale), noise) for query in queries]
            assert again[0] == again[1] == sum(parts[1:], parts[0])


class Other(Laplace):
    """Noise that could have other methods."""


@pytest.mark.parametrize("noise", [Other(1.0), 1.0, None, Laplace])
def test_noise_of_another_type_is_refused(noise: Any) -> None:
    with pytest.raises(ParameterError, match="noise must be Laplace or Gaussian, not a "):
        check_noise(noise, 1)


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_noise_is_refused_where_its_scale_cannot_be_drawn(kind: Callable[[float], Noise]) -> None:
    check_noise(kind(2.0**47), 2)
    with pytest.raises(ParameterError, match=r"at most 2\^48"):
        check_noise(kind(2.0**47), 3)
