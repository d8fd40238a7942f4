"""What all schedules have in common: epochs, the sizes at which they open, and the error at every size.

A schedule is a public plan for the whole future: the sizes at which epochs open, that is, at which a static algorithm
is run again, and for each epoch a privacy budget, a failure probability and the error that follows. It looks at no
data; the size is public.

Sizes are whole (erratum E8): a time that the paper leaves real is rounded up. Where several epochs fall on the same
size, only the last of them is run, and what the others were given is not spent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from treering.budget.promise import Budget
from treering.errors import ParameterError
from treering.params import whole
from treering.theory.ageing import Staleness
from treering.theory.search import least_whole

AlphaOf: TypeAlias = Callable[[int, Budget, float], float]
"""A box's proven error, ``alpha(size, budget, beta)``: a function of rows, budget and failure probability. See
`treering.boxes.base.Box`."""

MOST_ROWS: Final = 2**61
"""More rows than any database has. Privacy is planned for ever all the same, accuracy up to this size."""

SHRINK: Final = 1 - 2.0**-40
"""The factor by which budgets are rounded down: it covers the rounding of the few operations that make one."""
SIZE_ROUNDING: Final = 2.0**-48
"""The most that rounding adds to an error: sizes beyond 2^53 are floats, right to a few parts in 2^53."""
LEAST_GROWTH: Final = 2.0**-40

_FAR: Final = 2**11


@dataclass(frozen=True, slots=True)
class PlannedEpoch:
    """One planned run of a static algorithm."""

    index: int
    size: int
    """The rows at which it opens."""
    budget: Budget
    """What the run may spend: ε_i of a pure run, or ρ_i of a zCDP one. A pure run costs ε_i²/2 in a zCDP ledger."""
    beta: float
    """The probability with which it may fail; at least the smallest normal float."""
    log_beta: float
    """log β, also where β itself is too small for a float."""
    alpha: float
    """Its error at the size at which it opens, as a share of the rows."""

    @property
    def epsilon(self) -> float | None:
        """ε_i, or None for a zCDP run."""
        return float(self.budget.total) if self.budget.kind == "pure" else None

    @property
    def rho(self) -> float | None:
        """ρ_i, or None for a pure run."""
        return float(self.budget.total) if self.budget.kind == "zcdp" else None


class Schedule(ABC):
    """A public plan of epochs for the whole future."""

    def __init__(self, start: int, staleness: Staleness) -> None:
        self.start = start
        """The rows at which epoch 0 opens."""
        self.staleness = staleness
        """How the error of an epoch grows until the next one opens."""
        self._last: PlannedEpoch | None = None

    @abstractmethod
    def size_of(self, index: int) -> int:
        """The rows at which epoch ``index`` opens."""

    @abstractmethod
    def epoch(self, index: int) -> PlannedEpoch:
        """Epoch ``index``, counted from 0."""

    @abstractmethod
    def index_at(self, size: int) -> int:
        """The latest epoch that opens at or before ``size`` rows."""

    def next_size(self, size: int) -> int:
        """The smallest size above ``size`` at which an epoch opens."""
        if whole(size, "size", 0) < self.start:
            return self.start
        return self.size_of(self.index_at(size) + 1)

    def alpha_at(self, size: int) -> float:
        """The error guaranteed at ``size`` rows, staleness included, if every epoch opened at its planned size.

        All these guarantees hold together but with probability β.
        """
        epoch = self._serving(size)
        return self.staleness.total(epoch.alpha, (size - epoch.size) / size)

    def _serving(self, size: int) -> PlannedEpoch:
        """The epoch that answers at this size. The last one asked for is cached, since a box's bound may be slow."""
        index = self.index_at(size)
        last = self._last
        if last is None or last.index != index:
            last = self.epoch(index)
            self._last = last
        return last

    def _check_size(self, size: int) -> int:
        if whole(size, "size") < self.start:
            raise ParameterError("size", f"must be at least {self.start:,}, where the schedule starts, not {size:,}")
        return size


class FixedSchedule(Schedule):
    """A schedule with one error for the whole future: epochs open at ceil((1+γ)^i·n) rows, i = 0, 1, …."""

    def __init__(self, start: int, staleness: Staleness, ratio: float, static: float) -> None:
        super().__init__(start, staleness)
        self.ratio = ratio
        """1 + γ."""
        self.static = static
        """The largest static error of an epoch."""

    @property
    def growth(self) -> float:
        """γ: an epoch lasts while the database grows by this share."""
        return self.ratio - 1

    @property
    def alpha(self) -> float:
        """The error at any size, staleness included: at most this for ever (up to `MOST_ROWS` on a box's own bound)."""
        return self.staleness.worst(self.static, self.growth) + SIZE_ROUNDING

    def size_of(self, index: int) -> int:
        """ceil((1+γ)^i·n)."""
        if whole(index, "index", 0) == 0:
            return self.start
        mantissa, exponent = power(self.ratio, index)
        if exponent < 900:
            return max(self.start, math.ceil(self.start * math.ldexp(mantissa, exponent)))
        return self.start * int(math.ldexp(mantissa, 53)) << (exponent - 53)

    def index_at(self, size: int) -> int:
        guess = (math.log(self._check_size(size)) - math.log(self.start)) / math.log(self.ratio)
        return last_at_most(self.size_of, size, max(0, math.floor(guess)))


class ImprovingSchedule(Schedule):
    """A schedule whose error falls as the database grows."""

    def at(self, size: int) -> PlannedEpoch:
        """The epoch that answers at ``size`` rows; its ``alpha`` is the error at that size, staleness included."""
        epoch, alpha = self._serving(size), self.alpha_at(size)
        return PlannedEpoch(epoch.index, epoch.size, epoch.budget, epoch.beta, epoch.log_beta, alpha)


# -- arithmetic that rounds to the safe side ---------------------------------------------------------------------------


def power(ratio: float, index: int) -> tuple[float, int]:
    """m and e with m·2^e = ratio^index for ratio > 1, ½ ≤ m ≤ 1: right to a few parts in 2^53 while e < 900."""
    exponent = index * math.log2(ratio)
    if exponent < 900:
        return math.frexp(math.pow(ratio, index))
    if not exponent < 2**40:
        raise ParameterError("index", "is beyond all sizes")
    whole_part = math.floor(exponent)
    return 2.0 ** (exponent - whole_part) / 2, whole_part + 1


def amount(value: float, ratio: float, index: int) -> Fraction:
    """A rational not above value/ratio^index, and within two parts in 2^40 of it up to 2^2048 rows.

    Further out `power` loses precision, at most a part in 2^12, and a tenth is taken off.
    """
    mantissa, exponent = power(ratio, index)
    return Fraction(value / mantissa * (SHRINK if exponent < _FAR else 0.9)) / (1 << exponent)


def rational_exp(exponent: float) -> Fraction:
    """A rational not above e^x, and within two parts in 2^40 of it for −1000 < x < 1000 (beyond, within a tenth)."""
    binary = exponent / math.log(2)
    shift = math.floor(binary)
    mantissa = 2.0 ** (binary - shift) * (SHRINK if abs(exponent) < 1000 else 0.9)
    return Fraction(mantissa) * (Fraction(1 << shift) if shift >= 0 else Fraction(1, 1 << -shift))


def log_of(value: Fraction) -> float:
    """log of a positive rational, even one too small for a float."""
    return math.log(value.numerator) - math.log(value.denominator)


def bounded_exp(exponent: float) -> float:
    """e^x, at most e^700: an error so large promises nothing anyway."""
    return math.exp(min(700.0, exponent))


def last_at_most(size_of: Callable[[int], int], size: int, guess: int) -> int:
    """The largest index whose size is at most ``size``; size_of rises, size_of(0) ≤ size, and the guess is near."""
    step, low = 1, guess
    while low > 0 and size_of(low) > size:
        low, step = max(0, low - step), 2 * step
    step, high = 1, low + 1
    while size_of(high) <= size:
        low, high, step = high, high + step, 2 * step
    return least_whole(lambda index: size_of(index) > size, low, high) - 1


def check_growth(growth: float) -> float:
    """1 + γ; γ must lie in [2^-40, 1), where floats can tell the epochs apart."""
    if not LEAST_GROWTH <= growth < 1:
        raise ParameterError("growth", f"must lie between 2^-40 and 1, not {growth:g}")
    return 1 + growth
