"""The proof in ``clocks``, step by step: exact probabilities by enumeration, and the bounds of its floats."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support import broken_clocks
from support.enumeration import UNDECIDED, Choices, Law, law
from treering.arrays import Flags, Floats, Ints, Words
from treering.trusted.samplers import clocks
from treering.trusted.samplers.clocks import LARGEST, LEAST, Clocks, gaussian, laplace

DIGITS = Context(prec=60)
WORD = 2**64
U = Fraction(1, 2**53)
HAIR = Fraction(1, 10**40)
WIDE = 0.25
SLACKS = pytest.mark.parametrize("slack", [clocks._SLACK, WIDE, 3.0])
"""From what is used to what decides nothing by the first word."""


def logarithm(value: Fraction) -> Fraction:
    return Fraction(DIGITS.ln(DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))))


def decay(power: Fraction) -> Fraction:
    """e^{−power}, to within 10^−50."""
    return Fraction(DIGITS.exp(-DIGITS.divide(Decimal(power.numerator), Decimal(power.denominator))))


def law_of(play: Callable[[], Any], bits: int, depth: int, slack: float, *twins: tuple[str, Any]) -> Law:
    """The law of a function of clocks, with words of so few bits that all of them can be enumerated."""
    words = [(word, Fraction(1, 2**bits)) for word in range(2**bits)]

    def with_choices(choices: Choices) -> Any:
        def some(count: int) -> Words:
            return np.array([choices.among(words) for _ in range(count)], dtype=np.uint64)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clocks, "_BITS", bits)
            patch.setattr(clocks, "_SLACK", slack)
            patch.setattr(clocks, "_words", some)
            for name, twin in twins:
                patch.setattr(clocks, name, twin)
            return play()

    return law(with_choices, depth)


# -- ⌊s·E⌋ -------------------------------------------------------------------------------------------------------------


def floor_of_one(scale: float) -> int:
    return int(clocks._floors(scale, clocks._clocks(1))[0])


def floors_decay(found: Law, scale: float) -> bool:
    """Whether ⌊scale·E⌋ ≥ j has probability e^{−j/scale}, as far as it was enumerated."""
    open_ = found[UNDECIDED]
    values = [value for value in found if value != UNDECIDED]
    reached = [sum(found[each] for each in values if each >= j) for j in range(max(values) + 2)]
    powers = [decay(j / Fraction(scale)) for j in range(len(reached))]
    return min(values) >= 0 and all(
        mass - HAIR <= power <= mass + open_ + HAIR for mass, power in zip(reached, powers, strict=True)
    )


@SLACKS
@pytest.mark.parametrize("scale", [0.3, 1.5])
@pytest.mark.parametrize(("bits", "depth"), [(2, 5), (4, 3)])
def test_floors_have_their_exact_probabilities(scale: float, bits: int, depth: int, slack: float) -> None:
    found = law_of(partial(floor_of_one, scale), bits, depth, slack)
    assert found[UNDECIDED] < Fraction(1, 20)
    assert floors_decay(found, scale)


@pytest.mark.parametrize("twin", broken_clocks.LATER)
@pytest.mark.parametrize("scale", [0.3, 1.5])
def test_more_bits_of_another_number_are_seen(twin: tuple[str, Any], scale: float) -> None:
    found = law_of(partial(floor_of_one, scale), 4, 3, 0.05, twin)
    assert not floors_decay(found, scale)


@pytest.mark.parametrize("twin", broken_clocks.FIRST)
def test_a_first_word_that_decides_wrongly_is_seen(twin: tuple[str, Any]) -> None:
    assert not floors_decay(law_of(partial(floor_of_one, 0.9), 6, 2, 0.0, twin), 0.9)


def test_no_logarithm_changes_the_law_if_the_slack_allows_for_it() -> None:
    twin = ("_clocks", broken_clocks.coarse(1 / 8))
    assert floors_decay(law_of(partial(floor_of_one, 0.9), 6, 2, 1 / 8, twin), 0.9)


def test_floats_that_are_believed_are_seen() -> None:
    twin = ("_floors", broken_clocks.believes_its_floats)
    assert not floors_decay(law_of(partial(floor_of_one, 1.5), 4, 3, 0.0, twin), 1.5)


# -- E > γ -------------------------------------------------------------------------------------------------------------


def outlasting_one(limit: Fraction, off: float) -> bool:
    """``off``: how much of what the slack allows for, at most, the float is off."""
    most = clocks._SLACK / (1 + clocks._SLACK) * (1 + float(limit))
    limits = np.array([float(limit) + off * most])
    return bool(clocks._outlast(clocks._clocks(1), limits, lambda _: limit)[0])


def outlasting_decays(found: Law, limit: Fraction) -> bool:
    return found[True] - HAIR <= decay(limit) <= found[True] + found[UNDECIDED] + HAIR


LIMITS = [Fraction(0), Fraction(1, 9), Fraction(1), Fraction(17, 8)]


@SLACKS
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("off", [0.0, 0.9, -0.9])
def test_outlasting_has_its_exact_probability(limit: Fraction, slack: float, off: float) -> None:
    found = law_of(partial(outlasting_one, limit, off), 3, 4, slack)
    assert found[UNDECIDED] < Fraction(1, 500)
    assert outlasting_decays(found, limit)


@pytest.mark.parametrize("twin", broken_clocks.LATER)
@pytest.mark.parametrize("limit", LIMITS[1:])
def test_outlasting_by_another_number_is_seen(twin: tuple[str, Any], limit: Fraction) -> None:
    assert not outlasting_decays(law_of(partial(outlasting_one, limit, 0.0), 4, 3, WIDE, twin), limit)


def test_a_limit_that_is_off_by_more_than_the_slack_is_seen() -> None:
    def off() -> bool:
        return bool(clocks._outlast(clocks._clocks(1), np.array([1.3]), lambda _: Fraction(1))[0])

    assert not outlasting_decays(law_of(off, 6, 2, 0.01), Fraction(1))
    assert outlasting_decays(law_of(off, 6, 2, 0.15), Fraction(1))


def test_a_number_of_zeros_has_no_upper_bound() -> None:
    with pytest.MonkeyPatch.context() as patch:
        served = iter([0, 0, WORD // 3])
        patch.setattr(clocks, "_words", lambda _: np.array([next(served)], dtype=np.uint64))
        clock = clocks._clocks(1)
        assert clock.low[0] < 64 * math.log(2) < clock.high[0] == np.inf
        ring = -logarithm(Fraction(WORD // 3, 2**192))
        assert clocks._floors(8.0, clock).tolist() == [math.floor(8 * ring)]
        assert list(served) == []


# -- what is made of clocks --------------------------------------------------------------------------------------------


def test_signs_are_fair_and_minus_zero_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    every = np.arange(256, dtype=np.uint8)
    monkeypatch.setattr(clocks, "_bytes", lambda count: every[:count])
    values, kept = clocks._signed(np.full(256, 7, dtype=np.int64))
    assert sorted(values.tolist()) == [-7] * 128 + [7] * 128
    assert kept.all()
    values, kept = clocks._signed(np.zeros(256, dtype=np.int64))
    assert not values.any()
    assert kept.sum() == 128


def test_laplace_is_floors_with_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    def floors(scale: float, made: Clocks) -> Ints:
        assert scale == 3.5
        return np.arange(len(made.words), dtype=np.int64)

    monkeypatch.setattr(clocks, "_floors", floors)
    monkeypatch.setattr(clocks, "_bytes", lambda count: np.arange(count, dtype=np.uint8))
    monkeypatch.setattr(clocks, "_words", lambda count: np.ones(count, dtype=np.uint64))
    assert laplace(3.5, 6).tolist() == [0, -1, 2, -3, 4, -5]


def test_a_bell_keeps_what_both_sign_and_clock_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    stays = np.array([True, True, False, False, True, False, True, False])
    monkeypatch.setattr(clocks, "_floors", lambda *_: np.array([0, 0, 0, 0, 5, 5, 5, 5]))
    monkeypatch.setattr(clocks, "_outlast", lambda *_: stays)
    monkeypatch.setattr(clocks, "_bytes", lambda count: np.arange(count, dtype=np.uint8))
    monkeypatch.setattr(clocks, "_words", lambda count: np.ones(count, dtype=np.uint64))
    values, kept = clocks._bells(2.0, 8)
    assert values.tolist() == [0, 0, 0, 0, 5, -5, 5, -5]
    assert kept.tolist() == [True, False, False, False, True, False, True, False]


def test_a_bell_takes_new_clocks_to_decide_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter([np.full(3, WORD // 2, dtype=np.uint64), np.full(3, WORD // 3, dtype=np.uint64)])
    seen: list[list[int]] = []

    def floors(_: float, made: Clocks) -> Ints:
        seen.append(made.words.tolist())
        return np.ones(3, dtype=np.int64)

    def outlast(made: Clocks, *_: object) -> Flags:
        seen.append(made.words.tolist())
        return np.ones(3, dtype=np.bool_)

    monkeypatch.setattr(clocks, "_words", lambda _: next(words))
    monkeypatch.setattr(clocks, "_floors", floors)
    monkeypatch.setattr(clocks, "_outlast", outlast)
    clocks._bells(2.0, 3)
    assert seen == [[WORD // 2] * 3, [WORD // 3] * 3]


DEVIATIONS = [LEAST, 0.3, 1.0, 1.25, 4095.7, 1e6 / 3, 2.0**12 * 1e6 + 0.1, LARGEST]


def watched_bells(scale: float, sizes: Ints) -> tuple[Floats, list[Fraction]]:
    """The limits that sizes have as floats and as rationals, and nothing else of the clocks."""
    seen: list[Any] = []

    def outlast(_: Clocks, limits: Floats, exact: Callable[[int], Fraction]) -> Any:
        seen.extend([limits, [exact(place) for place in range(len(sizes))]])
        return np.ones(len(sizes), dtype=bool)

    def floors(around: float, _: Clocks) -> Ints:
        assert around == math.floor(scale) + 1
        return sizes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "_floors", floors)
        patch.setattr(clocks, "_outlast", outlast)
        clocks._bells(scale, len(sizes))
    limits, exact = seen
    return limits, exact


@pytest.mark.parametrize("scale", DEVIATIONS)
def test_a_bell_is_exactly_gaussian(scale: float) -> None:
    sizes = np.array([0, 1, 2, 9, math.floor(scale), 3 * math.floor(scale) + 1], dtype=np.int64)
    sigma, wide = Fraction(scale), math.floor(scale) + 1
    _, exact = watched_bells(scale, sizes)
    # −log of the probability of a size, less k²/(2σ²): one number for all sizes.
    rest = {
        Fraction(size, wide) + limit - size**2 / (2 * sigma**2)
        for size, limit in zip(sizes.tolist(), exact, strict=True)
    }
    assert rest == {sigma**2 / (2 * wide**2)}


@settings(deadline=None)
@given(st.floats(LEAST, LARGEST) | st.sampled_from(DEVIATIONS), st.lists(st.floats(0, 50), min_size=1, max_size=5))
def test_floats_of_limits_are_as_near_as_the_proof_says(scale: float, turns: list[float]) -> None:
    # Near σ²/t, where digits cancel, and as far away as any clock takes it.
    centre = round(scale * scale / (math.floor(scale) + 1))
    sizes = np.array([centre, centre + 1, 2**62, *(int(scale * turn) for turn in turns)], dtype=np.int64)
    limits, exact = watched_bells(scale, sizes)
    for limit, truth in zip(limits.tolist(), exact, strict=True):
        assert abs(Fraction(limit) - truth) <= U * (2 + 11 * truth)


# -- the bounds of floats ----------------------------------------------------------------------------------------------


def clocks_of(words: list[int]) -> Clocks:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "_words", lambda _: np.array(words, dtype=np.uint64))
        return clocks._clocks(len(words))


SHIFTED = st.builds(lambda word, shift: max(1, word >> shift), st.integers(1, WORD - 1), st.integers(0, 63))
NEAR_THE_END = st.builds(lambda less: WORD - 1 - less, st.integers(0, 2**54))


@settings(deadline=None)
@given(st.lists(SHIFTED | NEAR_THE_END, min_size=1, max_size=20))
def test_bounds_hold_with_room(words: list[int]) -> None:
    made = clocks_of(words)
    for word, low, high in zip(words, made.low.tolist(), made.high.tolist(), strict=True):
        least, most = -logarithm(Fraction(word + 1, WORD)), -logarithm(Fraction(word, WORD))
        room = Fraction(clocks._SLACK) / 2 * (1 + most)
        assert Fraction(low) + room < least
        assert most < Fraction(high) - room


def test_numpys_logarithm_is_within_two_units_in_the_last_place() -> None:
    words = np.frombuffer(os.urandom(8 * 3000), dtype=np.uint64)
    near = np.uint64(WORD - 1) - (words[:1000] >> np.arange(10, 60, 0.05).astype(np.uint64))
    small = words[:1000] >> np.arange(0, 50, 0.05).astype(np.uint64)
    values = np.maximum(np.concatenate((words, near, small)), 1).astype(np.float64) / 2.0**64
    for value, found in zip(values.tolist(), np.log(values).tolist(), strict=True):
        assert abs(Fraction(found) - logarithm(Fraction(value))) <= 2 * Fraction(math.ulp(found))


SOME = st.integers(0, WORD - 1) | st.sampled_from([0, WORD - 1])


@settings(deadline=None, max_examples=40)
@given(st.lists(SOME, min_size=2, max_size=4))
def test_later_bounds_hold_too(words: list[int]) -> None:
    served = iter(words[1:])
    starts = [place for place in range(1, len(words) + 1) if any(words[:place])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "_words", lambda _: np.array([next(served)], dtype=np.uint64))
        found = list(islice(clocks._brackets(words[0]), len(starts)))
    for place, (low, high) in zip(starts, found, strict=True):
        read, bits = int.from_bytes(b"".join(word.to_bytes(8) for word in words[:place])), 64 * place
        context = Context(prec=bits + 20)
        ends = [-Fraction(context.ln(context.divide(Decimal(top), Decimal(2**bits)))) for top in (read + 1, read)]
        assert low < ends[0] < ends[1] < high
        assert high - low == Fraction(4, read)


# -- draws -------------------------------------------------------------------------------------------------------------

SAMPLERS = pytest.mark.parametrize("sampler", [laplace, gaussian])


@SAMPLERS
@pytest.mark.parametrize("count", [0, 1, 1000, clocks._AT_ONCE + 5])
def test_draws_are_64_bit_integers(sampler: Any, count: int) -> None:
    draws = sampler(10.0, count)
    assert draws.dtype == np.int64
    assert draws.shape == (count,)
    assert draws.flags.owndata


@SAMPLERS
@settings(max_examples=40, deadline=None)
@given(scale=st.floats(LEAST, LARGEST) | st.sampled_from([LEAST, LARGEST]))
def test_draws_are_within_reach_of_the_scale(sampler: Any, scale: float) -> None:
    # Beyond that with probability below e^−99 each.
    assert np.abs(sampler(scale, 50)).max() <= 100 * scale


def test_the_first_that_are_kept_are_taken_in_order() -> None:
    asked: list[int] = []

    def trying(tries: int) -> clocks.Tried:
        start = sum(asked)
        asked.append(tries)
        values = np.arange(start, start + tries, dtype=np.int64)
        return values, values % 10 == 3

    assert clocks._first(50, trying).tolist() == list(range(3, 500, 10))
    assert all(tries <= 50 * 2 for tries in asked)
    assert len(asked) > 2
    asked.clear()
    assert clocks._first(3 * clocks._AT_ONCE, trying).tolist() == list(range(3, 30 * clocks._AT_ONCE, 10))
    assert max(asked) == clocks._AT_ONCE


@pytest.mark.parametrize(("scale", "refines"), [(4096.0, False), (LARGEST, True)])
def test_more_bits_are_read_rarely_unless_the_scale_is_large(
    scale: float, refines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, refined = clocks._floor, list[int]()

    def watched(scale: Fraction, word: int) -> int:
        refined.append(word)
        return honest(scale, word)

    monkeypatch.setattr(clocks, "_floor", watched)
    gaussian(scale, 5000)
    # At 4096 with probability below 2^−30 each; at the largest scale some 200 are expected.
    assert bool(refined) == refines


def test_a_draw_beyond_64_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_SLACK", 1e9)
    monkeypatch.setattr(clocks, "_floor", lambda *_: 2**63)
    with pytest.raises(OverflowError):
        laplace(1.0, 1)


def test_an_exact_limit_is_compared_with_the_word_that_its_float_was(monkeypatch: pytest.MonkeyPatch) -> None:
    made = clocks_of([WORD // 2, WORD // 3, WORD // 5])
    seen: list[tuple[Fraction, int]] = []

    def outlasts(limit: Fraction, word: int) -> bool:
        seen.append((limit, word))
        return word == WORD // 3

    monkeypatch.setattr(clocks, "_outlasts", outlasts)
    limits = np.array([math.log(2), math.log(3), 0.1])
    found = clocks._outlast(made, limits, Fraction)
    assert seen == [(Fraction(0), WORD // 2), (Fraction(1), WORD // 3)]
    assert found.tolist() == [False, True, True]


# -- where the bits come from ------------------------------------------------------------------------------------------


def test_words_are_the_systems_bytes_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    served = bytearray()

    def urandom(size: int) -> bytes:
        block = bytes((len(served) + position) * 37 % 251 for position in range(size))
        served.extend(block)
        return block

    monkeypatch.setattr(os, "urandom", urandom)
    drawn = clocks._words(5).tobytes() + clocks._bytes(3).tobytes() + clocks._words(2).tobytes()
    assert drawn == bytes(served)


@pytest.mark.parametrize(("sampler", "words"), [(laplace, 1), (gaussian, 2)])
def test_every_try_has_words_and_a_sign_of_its_own(sampler: Any, words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, reads = os.urandom, list[int]()

    def urandom(size: int) -> bytes:
        reads.append(size)
        return fresh(size)

    monkeypatch.setattr(os, "urandom", urandom)
    before = vars(clocks).copy()
    sampler(1000.0, 100)
    tries = 100 + 50 + 8
    assert reads[: words + 1] == [8 * tries] * words + [tries]
    assert vars(clocks) == before
    reads.clear()
    assert sampler(1000.0, 0).tolist() == []
    assert reads == []
