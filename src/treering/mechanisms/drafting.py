"""A draft of a schema from what a gate releases: which kind a column is of, its values, its bounds, its edges.

Every release is about one column, over all rows, and costs the same. Of texts it is first counted what they read as.
Bounds are the outermost bins, of signed powers of two or of years, whose noisy counts are beyond what noise alone
reaches in any of the bins; one bin wider on each side. (Quantiles of noisy *cumulative* counts would not do: the noise
of the empty bins adds up.) Edges are quantiles of counts in finer bins within the bounds: there are few of these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np

from treering.arrays import Ints
from treering.domain.attribute import Attribute, categories
from treering.domain.axis import EPOCH, Axis, Scalar
from treering.domain.calendar import dates
from treering.domain.drafting import NAME_OF_IDS, rounded_cuts
from treering.domain.groups import Groups
from treering.domain.numeric import MAX_STEPS, numbers
from treering.domain.schema import MAX_CELLS, Schema
from treering.errors import SchemaError
from treering.gate import Discovery, Span
from treering.noise import Gaussian
from treering.params import at_least
from treering.protocols import Gate

MOST_RELEASES: Final = 3
"""Of one column: what it reads as, its bounds, its edges."""
CHANCE: Final = 1e-6
"""How often noise alone reaches into the bounds of a column: once is enough for bounds that are absurdly wide."""
YEARS: Final = (1900, 2101)
YEARS_TO_COME: Final = 10
_NEARLY_ALL: Final = 0.9
_PARTS: Final = 8
_FINE: Final = 64
_POWERS: Final = [2.0**power for power in range(-64, 53)]
_CUTS: Final = np.array([*(-each for each in reversed(_POWERS)), *_POWERS])


class Named(Protocol):
    """A column, with the scalars that it is looked at as."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """One for each kind that its values may be of."""


def drafted(gate: Gate, columns: Sequence[Named], failure: Fraction) -> Schema:
    """A schema of the columns, which pays with all of the gate's budget; ``failure`` is the chance that a value is
    listed which a single row has."""
    kept = [each for each in columns if not re.fullmatch(NAME_OF_IDS, _plain(each.name))]
    if not kept or not gate.size:
        raise SchemaError("there are no rows, or no columns but ids, that a schema could be drafted from")
    share = gate.budget.total / (MOST_RELEASES * len(kept))
    scale = at_least(Fraction(math.isqrt(math.ceil(2**160 / share)) + 1, 2**80))
    found: dict[str, Attribute] = {}
    for each in kept:
        looked = _Look(gate, scale, failure / len(kept))
        attribute = looked.attribute(each.scalars)
        if attribute is not None:
            found[each.name] = attribute
    while math.prod(each.size for each in found.values()) > MAX_CELLS:
        del found[max(reversed(found), key=lambda name: found[name].size)]
    if not found:
        raise SchemaError(
            f"too few rows: with noise of {scale:,.0f} rows on each count, no column of {gate.size:,} told enough. "
            "Give the draft a larger share or more rows, or write the schema from general knowledge"
        )
    return Schema(found)


def _plain(name: str) -> str:
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class _Look:
    """What is released of one column."""

    def __init__(self, gate: Gate, scale: float, failure: Fraction) -> None:
        self._gate, self._scale, self._failure = gate, scale, failure

    def attribute(self, scalars: Sequence[Scalar]) -> Attribute | None:
        """The attribute of a column; None if too little is known of it."""
        scalar = scalars[0] if len(scalars) == 1 else self._kind(scalars)
        if scalar is None:
            return None
        if scalar.kind == "text":
            return self._categories(scalar)
        return self._numbers(scalar) if scalar.kind == "number" else self._dates(scalar)

    def _kind(self, scalars: Sequence[Scalar]) -> Scalar | None:
        """What nearly all texts of a column read as."""
        axes = tuple(_present(each) for each in scalars)
        counts = self._counts(axes).reshape([2] * len(axes))
        present = [int(counts.take(1, axis=place).sum()) for place in range(len(axes))]
        total = max(present)
        if total < self._reach(2 ** len(axes)):
            return None
        by_kind = dict(zip((each.kind for each in scalars), zip(scalars, present, strict=True), strict=True))
        for kind in ("number", "moment", "text"):
            scalar, number = by_kind[kind]
            if number >= _NEARLY_ALL * total:
                return scalar
        return None

    def _categories(self, scalar: Scalar) -> Attribute | None:
        request = Discovery(scalar, (), (0, self._gate.size), self._scale, self._failure)
        values = [value for value, _ in self._gate.discover(request).found]
        return categories(*values, other=True, missing=True) if values else None

    def _numbers(self, scalar: Scalar) -> Attribute | None:
        ends = self._bounds(scalar, _CUTS)
        if ends is None:
            return None
        low, high = ends
        grid = np.unique(np.concatenate([_even(low, high, ends) for ends in _stretches(low, high)]))
        counts = np.maximum(self._counts((_cut(scalar, grid),))[1:-2], 0)
        total = np.cumsum(counts)
        if not total[-1]:
            return None
        places = np.searchsorted(total, [total[-1] * part / _PARTS for part in range(1, _PARTS)])
        edges = rounded_cuts(sorted({float(grid[place + 1]) for place in places} - {low, high}), low, high)
        # The bounds are powers of two, or 0: both are whole numbers of steps.
        step = 2.0 ** math.ceil(math.log2((high - low) / MAX_STEPS))
        return numbers(low, high, step=step, edges=edges)

    def _dates(self, scalar: Scalar) -> Attribute | None:
        starts = [(datetime(year, 1, 1) - EPOCH) // _MICROSECOND for year in range(*YEARS)]
        ends = self._outermost(scalar, np.array(starts, dtype=np.int64))
        if ends is None:
            return None
        first, last = (YEARS[0] + place - 1 for place in ends)
        until = min(last + YEARS_TO_COME, 9999)
        return dates(date(max(first, 1), 1, 1), date(until, 12, 31), by="month" if until - first < 50 else "year")

    # -- releases -----------------------------------------------------------------------------------------------------

    def _bounds(self, scalar: Scalar, cuts: Any) -> tuple[float, float] | None:
        ends = self._outermost(scalar, cuts)
        if ends is None:
            return None
        low, high = max(ends[0] - 2, 0), min(ends[1] + 1, len(cuts) - 1)
        least, most = float(cuts[low]), float(cuts[high])
        small = max(-least, most) * 2.0**-17  # the ends of the bin of 0, among others
        return (0.0 if least > -small else least), (0.0 if most < small else most)

    def _outermost(self, scalar: Scalar, cuts: Any) -> tuple[int, int] | None:
        """The outermost of the bins between cuts that surely hold rows, by their numbers: bin 0 is before all cuts."""
        counts = self._counts((_cut(scalar, cuts),))[:-1]
        sure = np.flatnonzero(counts >= self._reach(len(counts)))
        return (int(sure[0]), int(sure[-1])) if len(sure) else None

    def _reach(self, bins: int) -> float:
        """What noise alone exceeds in any of so many bins with a chance of at most `CHANCE`."""
        return self._scale * math.sqrt(2 * math.log(bins / CHANCE))

    def _counts(self, axes: tuple[Axis, ...]) -> Ints:
        spans = (Span(0, self._gate.size, 1),)
        return self._gate.combine(Groups(axes, None), spans, Gaussian(self._scale)).values


_MICROSECOND: Final = EPOCH.resolution


def _present(scalar: Scalar) -> Axis:
    """Class 1 for every value there is, class 0 for none."""
    cuts = np.empty(0, dtype=np.float64 if scalar.kind == "number" else np.int64)
    return Axis(scalar, cuts, (), np.array([1, 0, 0]))


def _cut(scalar: Scalar, cuts: Any) -> Axis:
    """A class for each bin, in order, then one for what is missing."""
    bins = len(cuts) + 1
    return Axis(scalar, cuts, (), np.array([*range(bins), bins, bins]))


def _stretches(low: float, high: float) -> list[tuple[float, float]]:
    """Neighbouring powers of two, and the bounds."""
    inner = [float(each) for each in _CUTS if low < each < high and abs(each) >= max(-low, high) / 2**12]
    ends = [low, *inner, high]
    return list(pairwise(ends))


def _even(low: float, high: float, stretch: tuple[float, float]) -> Any:
    """Even cuts of one stretch: all stretches together have about `_FINE`."""
    parts = max(1, _FINE // len(_stretches(low, high)))
    return np.linspace(*stretch, parts + 1)
