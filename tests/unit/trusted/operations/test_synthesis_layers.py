"""The lazily bracketed draw of a level: every comparison is that of exact arithmetic."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from treering.trusted.operations import synthesis as module
from treering.trusted.operations.synthesis import draw_level
from treering.trusted.samplers.select import base

RATIOS = [Fraction(1, 2), Fraction(9, 10), base(Fraction(7, 3)), base(Fraction(10**6)), base(Fraction(1, 1024))]


class Digits:
    """Stands in for `secrets`: hands out the decimal digits of one number in [0, 1) for each comparison."""

    def __init__(self, numbers: Iterator[Fraction]) -> None:
        self._numbers = numbers
        self.number = Fraction(0)
        self.given = 0
        self.most = 0

    def fresh(self) -> None:
        self.number, self.given = next(self._numbers), 0

    def randbelow(self, bound: int) -> int:
        digits = round(math.log10(bound))
        assert bound == 10**digits
        self.given += digits
        assert self.given < 10**4, "more digits alone decide nothing: the bounds are to be sharpened"
        self.most = max(self.most, self.given)
        return math.floor(self.number * Fraction(10) ** self.given) % bound


def drawn(
    levels: Sequence[int], count: Callable[[int], int], ratio: Fraction, numbers: Sequence[Fraction]
) -> tuple[int, Digits]:
    digits = Digits(iter(numbers))
    compare = module._Tree.goes_first

    def spied(tree: module._Tree, stretch: module._Stretch) -> bool:
        digits.fresh()
        return compare(tree, stretch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "secrets", digits)
        patch.setattr(module._Tree, "goes_first", spied)
        return draw_level(levels, count, ratio), digits


def weights(levels: Sequence[int], count: Callable[[int], int], ratio: Fraction) -> list[Fraction]:
    """N(l)·(b^l − b^next), written out."""
    powers = [ratio**level for level in levels] + [Fraction(0)]
    return [count(level) * (powers[place] - powers[place + 1]) for place, level in enumerate(levels)]


def exactly(
    levels: Sequence[int],
    count: Callable[[int], int],
    ratio: Fraction,
    choose: Callable[[int, Fraction], tuple[Fraction, bool]],
) -> tuple[int, list[Fraction]]:
    """The draw by exact arithmetic: ``choose`` is told each comparison's share, and says the number and the outcome."""
    mass = weights(levels, count, ratio)
    start, end, numbers = 0, len(levels), list[Fraction]()
    while count(levels[start]) != count(levels[start if end - start == 1 else min(end, len(levels) - 1)]):
        middle = (start + end) // 2
        share = sum(mass[start:middle], Fraction(0)) / sum(mass[start:end], Fraction(0))
        number, first = choose(len(numbers), share)
        numbers.append(number)
        start, end = (start, middle) if first else (middle, end)
    return levels[start], numbers


def answering(numbers: Sequence[Fraction]) -> Callable[[int, Fraction], tuple[Fraction, bool]]:
    """The outcomes of these numbers."""
    return lambda step, share: (numbers[step], numbers[step] < share)


@st.composite
def counted(draw: st.DrawFn) -> tuple[list[int], Callable[[int], int]]:
    """Levels, and how many candidates are within each."""
    gaps = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    levels = [sum(gaps[: place + 1]) - gaps[0] for place in range(len(gaps))]
    steps = draw(st.lists(st.integers(0, 10**6), min_size=len(gaps), max_size=len(gaps)))
    totals = [sum(steps[: place + 1]) for place in range(len(steps))]
    totals[-1] += 1
    return levels, lambda level: totals[bisect_right(levels, level) - 1]


@settings(deadline=None, max_examples=60)
@given(counted(), st.sampled_from(RATIOS), st.lists(st.fractions(0, 1).filter(lambda u: u < 1), min_size=8, max_size=8))
def test_the_level_is_that_of_exact_arithmetic(
    case: tuple[list[int], Callable[[int], int]], ratio: Fraction, numbers: list[Fraction]
) -> None:
    level, used = exactly(*case, ratio, answering(numbers))
    assert drawn(*case, ratio, used)[0] == level


@settings(deadline=None, max_examples=60)
@given(counted(), st.sampled_from(RATIOS), st.lists(st.booleans(), min_size=8, max_size=8))
def test_numbers_next_to_a_boundary_are_refined_until_they_are_certain(
    case: tuple[list[int], Callable[[int], int]], ratio: Fraction, sides: list[bool]
) -> None:
    """A number 10^−900 below a share, or above it."""
    step = Fraction(1, 10**900)

    def next_to(place: int, share: Fraction) -> tuple[Fraction, bool]:
        first = (sides[place] and share > step) or share > 1 - 2 * step
        return (share - step if first else share + step), first

    level, numbers = exactly(*case, ratio, next_to)
    assert drawn(*case, ratio, numbers)[0] == level


@pytest.mark.parametrize("above", [False, True])
def test_a_number_next_to_a_third_takes_as_many_digits_as_they_share(above: bool) -> None:
    """One candidate of two at level 0: its share is (1−b)/(1−b + 2b), a third for b = ½, and has no end of digits."""
    third, step = Fraction(1, 3), Fraction(1, 10**900)
    level, digits = drawn([0, 1], lambda level: 1 + level, Fraction(1, 2), [third + step if above else third - step])
    assert level == int(above)
    assert digits.most >= 900


def test_few_levels_are_counted() -> None:
    """A billion levels, of which less than five thousand matter."""
    asked: list[int] = []

    def count(level: int) -> int:
        asked.append(level)
        return max(0, level - 10**6) ** 20

    for _ in range(5):
        level = draw_level(range(10**9 + 1), count, base(Fraction(100)))
        # The weight is that of a gamma law of shape 21 and scale 100 from 10^6 on.
        assert 10**6 < level < 10**6 + 10**4
    assert len(asked) < 5 * 10_000


def test_levels_without_candidates_are_never_drawn() -> None:
    for _ in range(50):
        assert draw_level(range(1000), lambda level: int(level >= 990), Fraction(1, 10**6)) >= 990


def test_huge_counts_and_exponents_are_no_trouble() -> None:
    assert draw_level(range(10**15 + 1), lambda level: 1 + (level == 10**15) * 10**4000, base(Fraction(10**9))) == 0
    assert draw_level([0, 10**6], lambda level: 1 + bool(level) * 10**4000, base(Fraction(10**6))) == 10**6


def test_bounds_are_bounds_at_any_number_of_digits() -> None:
    ratio = base(Fraction(17))
    for digits in (1, 2, 5, 40):
        powers = module._Powers(ratio, 1000, digits)
        for level, following in [(0, 1), (3, 5), (900, 1000), (17, None)]:
            low, high = powers.difference(level, following)
            exact = ratio**level - (0 if following is None else ratio**following)
            assert Fraction(low) <= exact <= Fraction(high)
        assert Decimal(0) <= low < high


def test_it_is_right_with_one_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few that they must be doubled again and again."""
    monkeypatch.setattr(module, "_DIGITS", 1)
    levels = list(range(0, 40, 3))
    ratio = base(Fraction(5))

    def count(level: int) -> int:
        return level**3 + 1

    for place in range(200):
        numbers = [Fraction(place, 200) + Fraction(step, 7919) for step in range(4)]
        level, used = exactly(levels, count, ratio, answering(numbers))
        assert drawn(levels, count, ratio, used)[0] == level
