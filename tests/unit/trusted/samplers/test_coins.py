"""The proof in ``coins``, step by step: exact probabilities, by enumeration, in rationals."""

from __future__ import annotations

import ast
import inspect
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import takewhile
from struct import pack, unpack
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from support import broken_coins
from support.enumeration import UNDECIDED, Again, Choices, Law, Options, law
from treering.trusted.samplers import coins
from treering.trusted.samplers.coins import Words, gaussian, laplace

One: TypeAlias = Callable[[int, int, Words], int]

HALF = Fraction(1, 2)
BIT: Options = ((0, HALF), (1, HALF))
NIBBLE: Options = tuple((value, Fraction(1, 16)) for value in range(16))
WORD = 2**64


def bits(choices: Choices) -> Words:
    return lambda: int(choices.among(BIT))


def scripted(words: Sequence[int]) -> Words:
    left = iter(words)
    return lambda: next(left)


@pytest.fixture
def single_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of one bit: the samplers do not care, and all of the words can be enumerated."""
    monkeypatch.setattr(coins, "_BITS", 1)


# -- coins -------------------------------------------------------------------------------------------------------------


def coin_of_bits(top: int, bottom: int, choices: Choices) -> bool:
    return coins._coin(top, bottom, bits(choices))


@pytest.mark.usefixtures("single_bits")
@pytest.mark.parametrize("bottom", [2, 3, 5, 8, 12, 31])
def test_a_coin_has_its_exact_probability(bottom: int) -> None:
    depth = 10
    for top in range(1, bottom):
        found = law(partial(coin_of_bits, top, bottom), depth)
        # All of the binary expansion that so many bits can tell, and no more.
        exact = Fraction(top, bottom)
        assert found[True] == Fraction(math.floor(exact * 2**depth), 2**depth)
        assert found[UNDECIDED] == (0 if (exact * 2**depth).denominator == 1 else Fraction(1, 2**depth))


@given(st.integers(1, 10**40), st.integers(1, 10**40))
def test_a_coin_compares_whole_words(top: int, more: int) -> None:
    bottom = top + more
    first, rest = divmod(top * WORD, bottom)
    second, last = divmod(rest * WORD, bottom)
    if first:
        assert coins._coin(top, bottom, scripted([first - 1]))
    assert not coins._coin(top, bottom, scripted([first + 1]))
    if rest:
        assert not coins._coin(top, bottom, scripted([first, second + 1]))
        if second:
            assert coins._coin(top, bottom, scripted([first, second - 1]))
        assert coins._coin(top, bottom, scripted([first, second, 0])) == (last > 0)
    else:
        assert not coins._coin(top, bottom, scripted([first]))


@pytest.mark.parametrize(("top", "bottom", "sure"), [(0, 7, False), (-3, 7, False), (7, 7, True), (9, 7, True)])
def test_a_sure_coin_takes_no_bits(top: int, bottom: int, sure: bool) -> None:
    assert coins._coin(top, bottom, scripted([])) == sure


@pytest.mark.usefixtures("single_bits")
@pytest.mark.parametrize("end", [*range(1, 10), 16, 23])
def test_an_integer_below_an_end_is_uniform(end: int) -> None:
    found = law(lambda choices: coins._below(end, bits(choices)), 10)
    assert {found[value] for value in range(end)} == {found[0]}
    assert found[0] * end + found[UNDECIDED] == 1
    assert found[UNDECIDED] <= HALF


@given(st.integers(1, WORD), st.integers(0, WORD - 1))
def test_only_an_excess_of_a_word_is_not_kept(end: int, second: int) -> None:
    excess = WORD % end
    last = WORD - excess - 1
    assert coins._below(end, scripted([last])) == end - 1
    if excess:
        second %= WORD - excess
        assert coins._below(end, scripted([last + 1, WORD - 1, second])) == second % end


def test_an_end_beyond_a_word_takes_more_of_them() -> None:
    assert coins._below(3 * WORD, scripted([2, 5])) == 2 * WORD + 5
    assert coins._below(3 * WORD, scripted([WORD - 1, 5, 0, 1])) == 1


# -- e^{−γ} ------------------------------------------------------------------------------------------------------------


def decay_law(gamma: Fraction, trials: int) -> Law:
    def play(choices: Choices) -> bool:
        def coin(top: int, bottom: int, _: Words) -> bool:
            chance = min(max(Fraction(top, bottom), Fraction(0)), Fraction(1))
            return bool(choices.among(((True, chance), (False, 1 - chance))))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coins, "_coin", coin)
            return coins._decays(gamma.numerator, gamma.denominator, scripted([]))

    return law(play, trials)


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 7), HALF, Fraction(5, 6), Fraction(1)])
@pytest.mark.parametrize("trials", [1, 2, 5, 12])
def test_success_has_the_partial_sums_of_the_exponential(gamma: Fraction, trials: int) -> None:
    terms = [gamma**power / math.factorial(power) for power in range(trials + 1)]
    found = decay_law(gamma, trials)
    # The n-th trial is the first to fail with probability terms[n − 1] − terms[n]: n odd is success.
    assert found[True] == sum(terms[n - 1] - terms[n] for n in range(1, trials + 1, 2))
    assert found[False] == sum(terms[n - 1] - terms[n] for n in range(2, trials + 1, 2))
    assert found[UNDECIDED] == terms[trials]


@pytest.mark.usefixtures("single_bits")
@pytest.mark.parametrize("gamma", [Fraction(1, 7), HALF, Fraction(5, 6), Fraction(1)])
def test_bit_by_bit_it_closes_in_on_the_exponential(gamma: Fraction) -> None:
    found = law(lambda choices: coins._decays(gamma.numerator, gamma.denominator, bits(choices)), 14)
    terms = [(-gamma) ** power / math.factorial(power) for power in range(20)]
    low, high = sum(terms), sum(terms[:-1])
    assert found[True] <= high
    assert found[True] + found[UNDECIDED] >= low
    assert found[UNDECIDED] < Fraction(1, 100)


# -- discrete Laplace --------------------------------------------------------------------------------------------------


def is_laplace(signed: One, scale: Fraction, decay: Fraction) -> bool:
    """Whether k is drawn with probability ∝ e^{−|k|/scale}, up to where what is not kept is drawn anew.

    The numerator t is all that e^{−1/t} depends on: it may stand for any number, and here it is the rational ``decay``.
    """
    top, bottom = scale.as_integer_ratio()
    depth = 7

    def play(choices: Choices) -> int:
        begun: list[int] = []

        def below(end: int, _: Words) -> int:
            if begun:
                raise Again
            begun.append(end)
            return int(choices.among([(value, Fraction(1, end)) for value in range(end)]))

        def decays(above: int, under: int, _: Words) -> bool:
            power = Fraction(above, under) * top
            assert power.denominator == 1
            kept = decay**power.numerator
            return bool(choices.among(((True, kept), (False, 1 - kept))))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coins, "_below", below)
            patch.setattr(coins, "_decays", decays)
            return signed(top, bottom, lambda: int(choices.among(NIBBLE)))

    found = law(play, depth)
    # With so many choices every integer below (depth − 3)·t has come up, so these draws are complete.
    complete = list(takewhile(lambda size: (size + 1) * bottom <= (depth - 3) * top, range(100)))
    assert len(complete) > 1
    ratios = {decay ** (bottom * size) for size in complete}
    assert len(ratios) == len(complete)
    return all(found[k] == found[0] * decay ** (bottom * abs(k)) for size in complete for k in (size, -size))


SCALES = [Fraction(1), Fraction(4), HALF, Fraction(2, 3), Fraction(3, 2), Fraction(7, 3), Fraction(11, 8)]
DECAYS = [Fraction(1, 3), Fraction(7, 8)]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("decay", DECAYS)
def test_a_signed_draw_is_exactly_laplace(scale: Fraction, decay: Fraction) -> None:
    assert is_laplace(coins._signed, scale, decay)


@pytest.mark.parametrize("broken", broken_coins.LAPLACE)
def test_a_broken_one_is_not(broken: One) -> None:
    assert not all(is_laplace(broken, scale, DECAYS[0]) for scale in SCALES)


# -- discrete Gaussian -------------------------------------------------------------------------------------------------


def bell_exponents(bell: One, deviation: Fraction, reach: int) -> set[Fraction]:
    """−log of the probability of k in each try, less k²/(2σ²): one number alone if k has probability ∝ e^{−k²/(2σ²)}.

    All in rationals: e^{−|k|/t} is what the first draw has, and what keeps it is asked of `_decays`.
    """
    top, bottom = deviation.as_integer_ratio()
    found = set()
    for k in range(-reach, reach + 1):
        exponents: list[Fraction] = []

        def signed(above: int, under: int, _: Words, k: int = k, exponents: list[Fraction] = exponents) -> int:
            assert (above, under) == (math.floor(deviation) + 1, 1)
            exponents.append(Fraction(abs(k), above))
            return k

        def decays(above: int, under: int, _: Words, exponents: list[Fraction] = exponents) -> bool:
            assert 0 <= above <= under
            exponents.append(Fraction(above, under))
            return True

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coins, "_signed", signed)
            patch.setattr(coins, "_decays", decays)
            assert bell(top, bottom, scripted([])) == k
        found.add(sum(exponents) - k**2 / (2 * deviation**2))
    return found


DEVIATIONS = [*SCALES, Fraction(1, 10), Fraction(0.3), Fraction(10 / 3), Fraction(1e6 / 3), Fraction(2) ** 48]


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_a_bell_is_exactly_gaussian(deviation: Fraction) -> None:
    scale = math.floor(deviation) + 1
    assert bell_exponents(coins._bell, deviation, 9) == {deviation**2 / (2 * scale**2)}


@pytest.mark.parametrize("broken", broken_coins.GAUSSIAN)
@pytest.mark.parametrize("deviation", [Fraction(4), Fraction(2, 3)])
def test_a_broken_bell_is_not(broken: One, deviation: Fraction) -> None:
    assert len(bell_exponents(broken, deviation, 9)) > 1


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_a_bell_keeps_a_draw_only_if_all_succeed(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # At σ = 1/2, t = 1: γ = 2·(|k| − 1/4)², for k = 1 it is 9/8 and for k = 2 it is 49/8: six and the rest, 1/8.
    drawn = scripted([2, 1])
    seen: list[Fraction] = []

    def decays(above: int, under: int, _: Words) -> bool:
        seen.append(Fraction(above, under))
        return len(seen) != failing

    monkeypatch.setattr(coins, "_signed", lambda *_: drawn())
    monkeypatch.setattr(coins, "_decays", decays)
    assert coins._bell(1, 2, scripted([])) == (1 if failing else 2)
    tried = [Fraction(1)] * failing if failing else [*[Fraction(1)] * 6, Fraction(1, 8)]
    assert seen == ([*tried, Fraction(1), Fraction(1, 8)] if failing else tried)


# -- scales ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sampler", "one"), [(laplace, "_signed"), (gaussian, "_bell")])
@given(scale=st.floats(1e-300, 2.0**48))
def test_a_float_stands_for_its_exact_value(sampler: Any, one: str, scale: float) -> None:
    got: list[Fraction] = []

    def five(top: int, bottom: int, _: Words) -> int:
        got.append(Fraction(top, bottom))
        return 5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coins, one, five)
        assert sampler(scale, 2) == sampler(Fraction(scale), 2) == [5, 5]
    assert got == [Fraction(scale)] * 4


@pytest.mark.parametrize("sampler", [laplace, gaussian])
@settings(max_examples=40)
@given(scale=st.floats(1e-300, 2.0**48))
def test_draws_are_integers_within_reach_of_the_scale(sampler: Any, scale: float) -> None:
    draws = sampler(scale, 5)
    assert [type(draw) for draw in draws] == [int] * 5
    # Beyond that with probability below e^−99 each.
    assert all(abs(draw) <= 100 * scale for draw in draws)


@pytest.mark.parametrize("sampler", [laplace, gaussian])
def test_scales_beyond_a_word_are_drawn(sampler: Any) -> None:
    draws = sampler(Fraction(10) ** 40 + Fraction(1, 3), 20)
    assert len(set(draws)) == 20
    assert 10**38 < max(map(abs, draws)) < 10**43


# -- where the bits come from ------------------------------------------------------------------------------------------


def test_words_are_the_systems_bytes_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    served = bytearray()

    def urandom(size: int) -> bytes:
        block = bytes((len(served) + position) * 37 % 251 for position in range(size))
        served.extend(block)
        return block

    monkeypatch.setattr(os, "urandom", urandom)
    words = coins._fair_words()
    drawn = [next(words) for _ in range(100)]
    assert pack("=100Q", *drawn) == served[:800]
    assert unpack("=Q", served[800:808]) == (next(words),)


@pytest.mark.parametrize("sampler", [laplace, gaussian])
def test_nothing_is_kept_between_calls(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, reads = os.urandom, list[int]()

    def urandom(size: int) -> bytes:
        reads.append(size)
        return fresh(size)

    monkeypatch.setattr(os, "urandom", urandom)
    before = vars(coins).copy()
    for _ in range(20):
        seen = len(reads)
        sampler(10.0, 1)
        assert len(reads) > seen
    assert vars(coins) == before
    seen = len(reads)
    assert sampler(10.0, 0) == []
    assert len(reads) == seen


def test_there_is_no_float_in_the_code() -> None:
    nodes = list(ast.walk(ast.parse(inspect.getsource(coins))))
    assert not any(isinstance(node, ast.Div) for node in nodes)
    assert not any(isinstance(node, ast.Constant) and isinstance(node.value, float) for node in nodes)
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert {"_coin", "range"} <= called
    assert not {"float", "round", "pow"} & called


# -- subsets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "number", "words", "found"),
    [
        (5, 0, [], []),
        (5, 1, [7], [2]),
        (5, 2, [4, 0], [0, 4]),
        (5, 2, [4, 9, 4, 1], [1, 4]),  # 9 is 4 again, which is there already.
        (3, 3, [2, 1, 2, 0], [0, 1, 2]),
        (2, 5, [1, 1, 0], [0, 1]),  # There are no more.
        (0, 3, [], []),
    ],
)
def test_a_subset_is_the_first_different_numbers(
    size: int, number: int, words: list[int], found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(words)
    monkeypatch.setattr(coins, "_fair_words", lambda: left)
    assert coins.subset(size, number) == found
    assert list(left) == []
