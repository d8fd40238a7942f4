"""Where the first word of a clock does not decide: brackets that touch the limit, given by hand."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

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
