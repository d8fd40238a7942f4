"""Where the first word of a clock does not decide: brackets that touch the limit, given by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from treering.arrays import Flags, Floats
from treering.trusted.samplers import clocks

Bracket = tuple[Fraction, Fraction]


def given(monkeypatch: pytest.MonkeyPatch, *pairs: tuple[int, int]) -> None:
    def brackets(_: int) -> Iterator[Bracket]:
        return ((Fraction(low), Fraction(high)) for low, high in pairs)

    monkeypatch.setattr(clocks, "_brackets", brackets)


@pytest.mark.parametrize(
    ("pairs", "later"),
    [
        ([(6, 7)], True),
        ([(4, 5)], False),
        ([(3, 4)], False),
        ([(4, 6), (6, 7)], True),
        ([(4, 6), (4, 5)], False),
        ([(5, 8), (6, 7)], True),
        ([(5, 8), (5, 6), (6, 7)], True),
    ],
)
def test_a_clock_rings_after_the_limit(
    pairs: list[tuple[int, int]], later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 5: one that begins at the limit is not decided yet, one that ends there is."""
    given(monkeypatch, *pairs)
    assert clocks._outlasts(Fraction(5), 1) == later


@pytest.mark.parametrize(("pairs", "floor"), [([(6, 7), (6, 6)], 6), ([(5, 7), (5, 6), (6, 6)], 6), ([(3, 3)], 3)])
def test_whole_units_are_certain_once_both_ends_agree(
    pairs: list[tuple[int, int]], floor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, *pairs)
    assert clocks._floor(Fraction(1), 1) == floor


@pytest.mark.parametrize("word", [1, 2, 3, 1000, 2**63, 2**64 - 1])
def test_brackets_leave_room_for_the_error_of_the_logarithm(word: int) -> None:
    """E lies between −ln((word + 1)/2^64) and −ln(word/2^64); on both sides there is as much as half a 1/word more."""
    digits, room = Context(prec=60), Fraction(1, 2 * word)
    low, high = next(clocks._brackets(word))
    first, last = (-Fraction(digits.ln(digits.divide(Decimal(end), Decimal(2**64)))) for end in (word + 1, word))
    assert low <= first - room
    assert high >= last + room
    assert high - low <= Fraction(5, word)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 1000.25])
def test_the_limits_of_a_bell_are_near_the_exact_ones(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """γ = (m − σ²/t)²/(2σ²), t = ⌊σ⌋ + 1."""
    sizes = np.array([0, 1, 2, 7, 50])
    asked: list[tuple[Floats, list[Fraction]]] = []

    def outlast(_: clocks.Clocks, limits: Floats, exact: Callable[[int], Fraction]) -> Flags:
        asked.append((limits, [exact(place) for place in range(len(sizes))]))
        return np.ones(len(sizes), dtype=np.bool_)

    monkeypatch.setattr(clocks, "_floors", lambda *_: sizes)
    monkeypatch.setattr(clocks, "_outlast", outlast)
    clocks._bells(scale, len(sizes))
    ((limits, exact),) = asked
    sigma, wide = Fraction(scale), math.floor(scale) + 1
    assert exact == [(int(size) - sigma**2 / wide) ** 2 / (2 * sigma**2) for size in sizes]
    for limit, wanted in zip(limits.tolist(), exact, strict=True):
        assert abs(Fraction(limit) - wanted) <= Fraction(clocks._SLACK) / 4 * (1 + wanted)
