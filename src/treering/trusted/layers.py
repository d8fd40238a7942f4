"""A level drawn exactly in proportion to how many candidates are within it, counting at as few levels as it takes.

*Layers.* With b < 1 and levels l_0 < l_1 < …, a candidate whose score is the level l_i has the weight
b^{l_i} = Σ_{j ≥ i} (b^{l_j} − b^{l_{j+1}}), b^{l_{j+1}} being 0 behind the last level. So drawing a level with chance
∝ N(l_j)·(b^{l_j} − b^{l_{j+1}}), N(l) being the number of candidates with a score of at most l, and then one of these
candidates uniformly, gives each candidate a probability ∝ b^score: that is the exponential mechanism, and no
candidate's score is asked for.

*Formal guarantee.* `draw_level` draws exactly so, for any counts N that do not fall when the level rises.

*How.* The levels are halved again and again. Which half is one comparison of a uniform real number with the half's
share of the weight. A stretch of levels weighs at least b^first − b^end times the count at its first level, and at most
that times the count at its last; stretches are halved, the vaguest first, and digits are added, until the comparison
is certain. The halves do not depend on the numbers drawn, and an answer is that of exact arithmetic whenever it is
given, so nothing of the rounding shows. No count can make it fail. How long it takes may depend on the counts: timing
is not defended.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

_DIGITS: Final = 40
"""A comparison begins with so many digits: fewer than one in 10^30 needs more."""

_ZERO: Final = Decimal(0)


def draw_level(levels: Sequence[int], count: Callable[[int], int], ratio: Fraction) -> int:
    """A level, drawn to the letter of this module's guarantee.

    ``levels`` are whole numbers ≥ 0 that increase (a `range` will do, however long), ``count`` is N, positive at the
    last level, and ``ratio`` is b.

    >>> draw_level([3], lambda level: 10, Fraction(1, 2))
    3
    """
    tree = _Tree(levels, count, ratio)
    stretch = tree.stretch(0, len(levels))
    while not stretch.certain:
        first, second = tree.halves(stretch)
        stretch = first if tree.goes_first(stretch) else second
    return levels[stretch.start]


class _Stretch:
    """The levels at the places from start to before end, the fewest and the most candidates within one of them, and
    bounds on their weight."""

    __slots__ = ("end", "halves", "high", "least", "low", "most", "start")

    def __init__(self, start: int, end: int, least: int, most: int) -> None:
        self.start, self.end = start, end
        self.least, self.most = least, most
        self.low = self.high = _ZERO
        self.halves: tuple[_Stretch, _Stretch] | None = None

    @property
    def certain(self) -> bool:
        """Whether all its levels have the same candidates within them."""
        return self.least == self.most


class _Tree:
    """Stretches of levels, halved as far as was needed."""

    def __init__(self, levels: Sequence[int], count: Callable[[int], int], ratio: Fraction) -> None:
        self._levels = levels
        self._count = count
        self._counted: dict[int, int] = {}
        self._powers = _Powers(ratio, levels[-1], _DIGITS + 2 * len(str(levels[-1])))

    def stretch(self, start: int, end: int) -> _Stretch:
        """A stretch that is not halved yet."""
        # The level behind the last one bounds it as well, and the next stretch needs it anyway.
        last = start if end - start == 1 else min(end, len(self._levels) - 1)
        made = _Stretch(start, end, self._within(start), self._within(last))
        self._weigh(made)
        return made

    def halves(self, stretch: _Stretch) -> tuple[_Stretch, _Stretch]:
        """The two halves, made when first asked for."""
        if stretch.halves is None:
            middle = (stretch.start + stretch.end) // 2
            stretch.halves = self.stretch(stretch.start, middle), self.stretch(middle, stretch.end)
            self._add_up(stretch)
        return stretch.halves

    def goes_first(self, stretch: _Stretch) -> bool:
        """Whether a uniform number in [0, 1) is below the first half's share of the weight."""
        digits = _DIGITS
        number = secrets.randbelow(10**digits)
        while (answer := self._compare(number, digits, stretch)) is None:
            if not self._halve_vaguest(stretch):
                self._sharpen(stretch)
                number = number * 10**digits + secrets.randbelow(10**digits)
                digits *= 2
        return answer

    def _compare(self, number: int, digits: int, stretch: _Stretch) -> bool | None:
        """Whether all of [number, number + 1)/10^digits is below first/(first + second), or none; None if unsure."""
        below, above = self._powers.below, self._powers.above
        first, second = self.halves(stretch)
        if above.multiply(Decimal(number + 1), above.add(first.low, second.high)) <= below.scaleb(first.low, digits):
            return True
        if below.multiply(Decimal(number), below.add(first.high, second.low)) >= above.scaleb(first.high, digits):
            return False
        return None

    def _halve_vaguest(self, stretch: _Stretch) -> bool:
        """Halve what is bounded worst, following the worse half down; False if only rounding is left to blame."""
        path: list[_Stretch] = []
        while stretch.halves is not None:
            path.append(stretch)
            stretch = max(stretch.halves, key=self._vagueness)
        if stretch.certain:
            return False
        self.halves(stretch)
        for each in reversed(path):
            self._add_up(each)
        return True

    def _vagueness(self, stretch: _Stretch) -> Decimal:
        return self._powers.above.subtract(stretch.high, stretch.low)

    def _sharpen(self, stretch: _Stretch) -> None:
        """Twice the digits, in this stretch and all in it."""
        self._powers = self._powers.sharper()
        self._weigh_all(stretch)

    def _weigh_all(self, stretch: _Stretch) -> None:
        self._weigh(stretch)
        if stretch.halves is not None:
            for half in stretch.halves:
                self._weigh_all(half)
            self._add_up(stretch)

    def _weigh(self, stretch: _Stretch) -> None:
        """The bounds by the fewest and the most candidates."""
        below, above = self._powers.below, self._powers.above
        following = self._levels[stretch.end] if stretch.end < len(self._levels) else None
        narrow, wide = self._powers.difference(self._levels[stretch.start], following)
        stretch.low = below.multiply(below.create_decimal(stretch.least), narrow)
        stretch.high = above.multiply(above.create_decimal(stretch.most), wide)

    def _add_up(self, stretch: _Stretch) -> None:
        """The bounds by those of the two halves, where they are better."""
        first, second = self.halves(stretch)
        stretch.low = max(stretch.low, self._powers.below.add(first.low, second.low))
        stretch.high = min(stretch.high, self._powers.above.add(first.high, second.high))

    def _within(self, place: int) -> int:
        """How many candidates are within the level at this place."""
        if place not in self._counted:
            self._counted[place] = self._count(self._levels[place])
        return self._counted[place]


class _Powers:
    """Powers of a ratio below 1, each between two decimals: every rounding goes down below and up above."""

    def __init__(self, ratio: Fraction, top: int, digits: int) -> None:
        self._ratio, self._top, self._digits = ratio, top, digits
        self.below = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
        self.above = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
        quotient = Decimal(ratio.numerator), Decimal(ratio.denominator)
        square = self.below.divide(*quotient), self.above.divide(*quotient)
        self._squares = [square]
        for _ in range(top.bit_length()):
            square = self.below.multiply(square[0], square[0]), self.above.multiply(square[1], square[1])
            self._squares.append(square)

    def sharper(self) -> _Powers:
        """The same with twice the digits."""
        return _Powers(self._ratio, self._top, 2 * self._digits)

    def difference(self, level: int, following: int | None) -> tuple[Decimal, Decimal]:
        """Bounds on ratio^level − ratio^following, the latter 0 for None."""
        low, high = self._power(level)
        if following is None:
            return low, high
        low_following, high_following = self._power(following)
        return max(_ZERO, self.below.subtract(low, high_following)), self.above.subtract(high, low_following)

    def _power(self, exponent: int) -> tuple[Decimal, Decimal]:
        low = high = Decimal(1)
        for rung in range(exponent.bit_length()):
            if exponent >> rung & 1:
                low = self.below.multiply(low, self._squares[rung][0])
                high = self.above.multiply(high, self._squares[rung][1])
        return low, high
