"""SmallDB's exponential mechanism over synthetic databases, drawn exactly.

*Formal guarantee.* With n the public size, m the number of synthetic rows and R the multisets of m atoms of the class
(``domain.candidates``), `Synthesis` draws y ∈ R with probability exactly ∝ b^{m·W·s(y)}, where s(y) = max_f |C_f(x) −
(n/m)·C_f(y)|/W_f is the score in rows, W the common multiple of the queries' scales W_f (so that m·W·s is a whole
number), and b = `base`(scale·m·W) ≥ e^{−1/(scale·m·W)}. Replacing one row of x moves C_f(x)/W_f by at most r_f =
spread/W_f rows, hence s(y) by at most r = max r_f, hence each weight and their sum by a factor within e^{±r/scale}: the
draw is (2r/scale)-DP and, by its bounded range, (2r/scale)²/8-zCDP (``select`` has the proof).

Both factors are needed. A replaced row moves the scores of different candidates in different directions, so that the
sum of the weights may fall while a weight rises: the mechanism is not "monotone", and the ½ stays.

*Drawing by layers* (`draw_level`). With b < 1 and levels l_0 < l_1 < …, a candidate whose score is the level l_i has
the weight b^{l_i} = Σ_{j ≥ i} (b^{l_j} − b^{l_{j+1}}), b^{l_{j+1}} being 0 behind the last level. So drawing a level
with probability ∝ N(l_j)·(b^{l_j} − b^{l_{j+1}}), N(l) being the number of candidates with a score of at most l, and
then one of these candidates uniformly, gives each candidate a probability ∝ b^score: that is the exponential mechanism,
and no candidate's score is asked for. *Formal guarantee.* `draw_level` draws exactly so, for any counts N that do not
fall when the level rises.

*How.* The levels are halved again and again. The choice of a half is one comparison of a uniform real number with the
half's share of the weight. A stretch of levels weighs at least b^first − b^end times the count at its first level, and
at most that times the count at its last; stretches are halved, the one with the widest bounds first, and digits are
added, until the comparison is certain. The halves do not depend on the numbers drawn, and an answer is that of exact
arithmetic whenever it is given, so nothing of the rounding shows. No count can make it fail. How long it takes may
depend on the counts: timing is not defended.

*Prefixes and intervals* are paths in a band, counted and listed by dynamic programming. The A atoms of the class stand
in a row. C_j of the n true rows and c_j of the m synthetic ones lie in the first j of them:
0 = c_0 ≤ c_1 ≤ … ≤ c_A = m is a *path*, and every path is a candidate. Let d_j = m·C_j − n·c_j, so d_0 = d_A = 0. The
score of a candidate, times m, is

- for **prefixes** max_j |d_j|. It is at most l exactly if every c_j lies between ⌈(m·C_j − l)/n⌉ and ⌊(m·C_j + l)/n⌋:
  the path stays in a band, and paths in a band are counted from one j to the next.
- for **intervals** max_{i,j} |d_j − d_i| = max(d) − min(d). The atoms stand in a circle; turn it so that it begins at
  the first j with d_j = min(d). Then all d ≥ 0, and d > 0 at the places that came before; the score is at most l
  exactly if d ≤ l as well: a band again, one for each j that it can begin at, and each candidate is in one of them.

All counts are whole numbers, exact however long. They do not fall when l rises, which is what `draw_level` needs.

*Any other class*, of few atoms: all multisets of m atoms are listed and scored.
"""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import accumulate, chain, combinations, islice, pairwise
from typing import Final, Protocol, TypeAlias

import numpy as np

from treering.arrays import Ints
from treering.domain.candidates import Atoms, Candidates, collapse
from treering.domain.query import Query
from treering.errors import ParameterError
from treering.params import exact_scale, whole
from treering.trusted.samplers.select import SHARPEST, base
from treering.trusted.sealed import Sealed

_FARTHEST: Final = 10**18
"""The logarithms of all weights stay below this, so that weights fit into a decimal's exponent."""


class Family(Protocol):
    """PRIVATE: the candidates of one draw by their scores, whole numbers; ``levels`` has every possible one."""

    levels: Sequence[int]

    def count(self, level: int) -> int:
        """How many candidates have a score of at most ``level``."""

    def member(self, rank: int, level: int) -> list[int]:
        """A candidate of score at most ``level``: its count in each atom. Each rank in range(count) gives another."""


class Synthesis:
    """The public part of one draw, made before anything is charged: refuses parameters with which it cannot be made.

    ``queries`` are the class, ``rows`` the number of synthetic rows, ``size`` that of true rows, ``scale`` is in rows.
    """

    def __init__(self, queries: Sequence[Query], rows: int, size: int, scale: float) -> None:
        whole(rows, "rows")
        self._scale = exact_scale(scale, "scale")
        if size == 0:
            raise ParameterError("size", "is 0: there is no synthetic copy of an empty database")
        self._candidates = Candidates.of(collapse(queries))
        self._candidates.check(rows)
        self._rows, self._size = rows, size
        if self._candidates.arcs is None:
            check_scores(self._candidates.atoms, size, rows)
        if size * rows * self._grid >= _FARTHEST * max(SHARPEST, self._scale * rows * self._grid):
            raise ParameterError("scale", f"is too small for {size:,} rows: the weights would have too many digits")

    @property
    def asked(self) -> Sequence[Query]:
        """The queries whose counts `draw` needs, in this order."""
        return self._candidates.asked

    def draw(self, counts: Sequence[int]) -> tuple[int, ...]:
        """The cells of the synthetic rows, increasing, drawn from the exact counts of the queries `asked`.

        Each row is the first cell of its atom.
        """
        atoms, family = self._candidates.atoms, self.family(counts)
        level = draw_level(family.levels, family.count, self.ratio)
        drawn = family.member(secrets.randbelow(family.count(level)), level)
        start = 0 if self._candidates.arcs is None else self._candidates.arcs.start
        cells = (*atoms.cells[start:], *atoms.cells[:start])
        return tuple(sorted(cell for cell, times in zip(cells, drawn, strict=True) for _ in range(times)))

    @property
    def ratio(self) -> Fraction:
        """b: the factor by which one unit of score lowers the weight."""
        return base(self._scale * self._rows * self._grid)

    @property
    def _grid(self) -> int:
        """W: scores are whole numbers in units of 1/(rows·W) rows."""
        return unit(self._candidates.atoms)

    def family(self, counts: Sequence[int]) -> Family:
        """PRIVATE: the candidates by their scores."""
        arcs = self._candidates.arcs
        if arcs is None:
            return Multisets(self._candidates.atoms, counts, self._size, self._rows)
        cumulative = [
            self._size - int(count) if others else int(count)
            for count, (_, others) in zip(counts, arcs.spokes, strict=True)
        ]
        kind = Intervals if arcs.every else Prefixes
        return kind(cumulative, self._size, self._rows)


# -- drawing by layers -------------------------------------------------------------------------------------------------


_DIGITS: Final = 40
"""The digits that a comparison begins with: fewer than one in 10^30 needs more."""

_ZERO: Final = Decimal(0)


def draw_level(levels: Sequence[int], count: Callable[[int], int], ratio: Fraction) -> int:
    """A level, drawn exactly as this module's guarantee states.

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
    """Levels number ``start`` to ``end`` − 1; bounds ``least`` and ``most`` on the candidates within one of them; and
    bounds ``low`` and ``high`` on their weight."""

    __slots__ = ("end", "halves", "high", "least", "low", "most", "start")

    def __init__(self, start: int, end: int, least: int, most: int) -> None:
        self.start, self.end = start, end
        self.least, self.most = least, most
        self.low = self.high = _ZERO
        self.halves: tuple[_Stretch, _Stretch] | None = None

    @property
    def certain(self) -> bool:
        """Whether the same candidates are within all its levels."""
        return self.least == self.most


class _Tree:
    """Stretches of levels, halved as far as comparisons needed it."""

    def __init__(self, levels: Sequence[int], count: Callable[[int], int], ratio: Fraction) -> None:
        self._levels = levels
        self._count = count
        self._counted: dict[int, int] = {}
        self._powers = _Powers(ratio, levels[-1], _DIGITS + 2 * len(str(levels[-1])))

    def stretch(self, start: int, end: int) -> _Stretch:
        """A stretch that is not halved yet."""
        # The count at the level behind the last is a bound as well, and the next stretch needs it anyway.
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
        """True if all of [number, number + 1)/10^digits is below first/(first + second), False if none; else None."""
        below, above = self._powers.below, self._powers.above
        first, second = self.halves(stretch)
        if above.multiply(Decimal(number + 1), above.add(first.low, second.high)) <= below.scaleb(first.low, digits):
            return True
        if below.multiply(Decimal(number), below.add(first.high, second.low)) >= above.scaleb(first.high, digits):
            return False
        return None

    def _halve_vaguest(self, stretch: _Stretch) -> bool:
        """Halve the stretch with the widest bounds, descending into the worse half; False if only rounding is left."""
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
        """Double the digits of the bounds of this stretch and of all stretches in it."""
        self._powers = self._powers.sharper()
        self._weigh_all(stretch)

    def _weigh_all(self, stretch: _Stretch) -> None:
        self._weigh(stretch)
        if stretch.halves is not None:
            for half in stretch.halves:
                self._weigh_all(half)
            self._add_up(stretch)

    def _weigh(self, stretch: _Stretch) -> None:
        """Bound the weight by the fewest and the most candidates."""
        below, above = self._powers.below, self._powers.above
        following = self._levels[stretch.end] if stretch.end < len(self._levels) else None
        narrow, wide = self._powers.difference(self._levels[stretch.start], following)
        stretch.low = below.multiply(below.create_decimal(stretch.least), narrow)
        stretch.high = above.multiply(above.create_decimal(stretch.most), wide)

    def _add_up(self, stretch: _Stretch) -> None:
        """Bound the weight by the bounds of the two halves, where these are better."""
        first, second = self.halves(stretch)
        stretch.low = max(stretch.low, self._powers.below.add(first.low, second.low))
        stretch.high = min(stretch.high, self._powers.above.add(first.high, second.high))

    def _within(self, place: int) -> int:
        """How many candidates are within level number ``place``."""
        if place not in self._counted:
            self._counted[place] = self._count(self._levels[place])
        return self._counted[place]


class _Powers:
    """Bounds on the powers of a ratio below 1: rounded down in the lower bound and up in the upper."""

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
        """The same powers with twice the digits."""
        return _Powers(self._ratio, self._top, 2 * self._digits)

    def difference(self, level: int, following: int | None) -> tuple[Decimal, Decimal]:
        """Bounds on ratio^level − ratio^following; the second power is 0 if ``following`` is None."""
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


# -- prefixes and intervals: paths in a band ---------------------------------------------------------------------------


Band: TypeAlias = list[tuple[int, int]]
"""The lowest and the highest c_j, for j from 1 to A − 1. The lowest c_j does not fall as j rises."""


def paths(band: Band) -> int:
    """How many paths 0 ≤ c_1 ≤ … ≤ c_{A−1} stay in the band."""
    if any(lowest > highest for lowest, highest in band):
        return 0
    return deque(_running(band), maxlen=1).pop()[-1]


def path(band: Band, rank: int) -> list[int]:
    """A path in the band; each rank in range(paths(band)) gives another."""
    found: list[int] = []
    for (lowest, _), running in reversed(list(zip(band, _running(band), strict=True))):
        place = bisect_right(running, rank)
        # The remaining rank is one among the partial paths that end at this count.
        rank -= running[place - 1] if place else 0
        found.append(lowest + place)
    return found[::-1]


def _running(band: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """For each j, a list over c_j from the lowest on: how many partial paths end at c_j or lower."""
    floor, running = 0, [1]
    for lowest, highest in band:
        # A partial path that ends at c_j came from any count up to c_j.
        counts = running[lowest - floor : highest - floor + 1]
        counts += [running[-1]] * (highest - lowest + 1 - len(counts))
        floor, running = lowest, list(accumulate(counts))
        yield running


class Prefixes(Sealed):
    """PRIVATE: the candidates for a class of prefixes, by their scores times ``rows``."""

    __slots__ = ("_rows", "_size", "_targets", "levels")

    def __init__(self, cumulative: Sequence[int], size: int, rows: int) -> None:
        """From C_1, …, C_{A−1}."""
        self._targets = [rows * count for count in cumulative]
        self._size, self._rows = size, rows
        steps = range(0, rows * size + 1, size)
        self.levels: Sequence[int] = sorted({abs(target - step) for target in set(self._targets) for step in steps})

    def count(self, level: int) -> int:
        """How many candidates have a score of at most ``level``."""
        return paths(self._band(level))

    def member(self, rank: int, level: int) -> list[int]:
        """The candidate of this rank among those of score at most ``level``: its count in each atom."""
        return _differences(path(self._band(level), rank), self._rows)

    def _band(self, level: int) -> Band:
        size, rows = self._size, self._rows
        return [(max(0, -((level - aim) // size)), min(rows, (aim + level) // size)) for aim in self._targets]


class Intervals(Sealed):
    """PRIVATE: the candidates for a class of all intervals, by their scores times ``rows``."""

    __slots__ = ("_rows", "_size", "_turns", "levels")

    def __init__(self, cumulative: Sequence[int], size: int, rows: int) -> None:
        """From C_1, …, C_{A−1}."""
        self._size, self._rows = size, rows
        self.levels: Sequence[int] = range(rows * size + 1)
        self._turns = [self._turn([0, *cumulative], start) for start in range(len(cumulative) + 1)]

    def count(self, level: int) -> int:
        """How many candidates have a score of at most ``level``."""
        return sum(paths(self._band(turn, level)) for turn in self._turns)

    def member(self, rank: int, level: int) -> list[int]:
        """The candidate of this rank among those of score at most ``level``: its count in each atom."""
        for start, turn in enumerate(self._turns):
            band = self._band(turn, level)
            number = paths(band)
            if rank < number:
                counts = _differences(path(band, rank), self._rows)
                return counts[len(counts) - start :] + counts[: len(counts) - start]
            rank -= number
        raise AssertionError("a rank is below the count")

    def _turn(self, cumulative: Sequence[int], start: int) -> list[tuple[int, int]]:
        """The circle begun at j = ``start``: for each other j, m·C counted from there, and the highest c with d ≥ 0
        (with d > 0 where j < ``start``)."""
        behind = [(self._rows * (count - cumulative[start]), 0) for count in cumulative[start + 1 :]]
        before = [(self._rows * (count - cumulative[start] + self._size), 1) for count in cumulative[:start]]
        return [(aim, (aim - least) // self._size) for aim, least in behind + before]

    def _band(self, turn: Iterable[tuple[int, int]], level: int) -> Band:
        size = self._size
        return [(max(0, -((level - aim) // size)), highest) for aim, highest in turn]


def _differences(cumulative: Sequence[int], rows: int) -> list[int]:
    return [later - earlier for earlier, later in pairwise([0, *cumulative, rows])]


# -- any other class: all multisets ------------------------------------------------------------------------------------


_MOST_SCORE: Final = 2**62
"""Size × rows × the queries' common resolution stays below this, so that no score overflows."""

_BLOCK: Final = 2**18
"""How many counts are scored at once."""


def unit(atoms: Atoms) -> int:
    """W, the common multiple of the queries' scales: all their weights are multiples of 1/W."""
    return math.lcm(*(query.scale for query in atoms.queries))


def check_scores(atoms: Atoms, size: int, rows: int) -> None:
    """Refuse, on public quantities, scores that would not fit into 64 bits."""
    if size * rows * unit(atoms) >= _MOST_SCORE:
        raise ParameterError(
            "rows", f"times size times the queries' resolution ({unit(atoms):,}) must stay below 2^62: use fewer rows"
        )


class Multisets(Sealed):
    """PRIVATE: all candidates of a class of few atoms, by their scores max_f |rows·C_f(x) − size·C_f(y)| on the
    queries' common grid."""

    __slots__ = ("_order", "_rows", "_sorted", "_width", "levels")

    def __init__(self, atoms: Atoms, true: Sequence[int], size: int, rows: int) -> None:
        self._rows = rows
        self._width = atoms.number
        scores = _scores(atoms, np.asarray(true, dtype=np.int64), size, rows)
        self._order = np.argsort(scores, kind="stable")
        self._sorted = scores[self._order]
        self.levels: Sequence[int] = self._sorted[np.diff(self._sorted, prepend=-1) > 0].tolist()

    def count(self, level: int) -> int:
        """How many candidates have a score of at most ``level``."""
        return int(np.searchsorted(self._sorted, level, side="right"))

    def member(self, rank: int, level: int) -> list[int]:
        """The candidate of this rank among those of score at most ``level``: its count in each atom."""
        place = int(self._order[rank])
        chosen = islice(_choices(self._width, self._rows), place, place + 1)
        counts: list[int] = _counts(np.array(list(chosen), dtype=np.int64), self._width, self._rows)[0].tolist()
        return counts


def listing(atoms: int, rows: int) -> Iterator[Ints]:
    """All multisets of ``rows`` atoms, in a fixed order and in blocks: a line for each, its count in each atom."""
    width = min(rows, atoms - 1)
    numbers = chain.from_iterable(_choices(atoms, rows))
    left, step = math.comb(atoms + rows - 1, rows), max(1, _BLOCK // atoms)
    while left:
        lines = min(step, left)
        block = np.fromiter(islice(numbers, lines * width), dtype=np.int64, count=lines * width)
        yield _counts(block.reshape(lines, width), atoms, rows)
        left -= lines


def _choices(atoms: int, rows: int) -> Iterator[tuple[int, ...]]:
    """All multisets by stars (rows) and bars (between atoms): the places of whichever are fewer."""
    return combinations(range(atoms + rows - 1), min(rows, atoms - 1))


def _counts(places: Ints, atoms: int, rows: int) -> Ints:
    """The count in each atom, from the places of bars or of stars (see `_choices`)."""
    lines = len(places)
    if rows >= atoms - 1:
        ends = np.full((lines, 1), atoms + rows - 1)
        counts: Ints = np.diff(np.hstack([np.full((lines, 1), -1), places, ends]), axis=1) - 1
        return counts
    # The number of bars before a star is the atom it is in.
    chosen = places - np.arange(rows) + atoms * np.arange(lines)[:, np.newaxis]
    return np.bincount(chosen.reshape(-1), minlength=lines * atoms).reshape(lines, atoms)


def _scores(atoms: Atoms, true: Ints, size: int, rows: int) -> Ints:
    """The score of every multiset, in the order of `listing`."""
    if not atoms.queries:
        return np.zeros(math.comb(atoms.number + rows - 1, rows), dtype=np.int64)
    factors = unit(atoms) // np.array([query.scale for query in atoms.queries], dtype=np.int64)
    targets = (rows * true * factors)[:, np.newaxis]
    # Rows times resolution is far below 2^53, so products of floats are exact, and much faster than of integers.
    weights = (atoms.weights * factors[:, np.newaxis]).astype(np.float64)
    parts = [
        np.abs(targets - size * (weights @ counts.T.astype(np.float64)).astype(np.int64)).max(axis=0)
        for counts in listing(atoms.number, rows)
    ]
    return np.concatenate(parts)
