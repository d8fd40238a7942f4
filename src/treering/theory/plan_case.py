"""What a plan is asked about, and what every mechanism must be able to say for itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final

from treering.budget.promise import Budget, Promise
from treering.gate import Laplace, Noise

GUESS: Final = 0.5
"""The error of answering ½ without looking: a guarantee is worth something only below it."""


_NARROW: Final = 3.0


@dataclass(frozen=True, slots=True)
class Case:
    """One user's question: all numbers are public."""

    cells: int
    size: int
    """The rows at the start."""
    epsilon: float
    delta: float
    beta: float
    queries: float
    """How many will be asked; infinite: without end."""
    horizon: float
    """The largest size that matters; infinite: for ever. The size itself: the data do not grow."""

    @property
    def budget(self) -> Budget:
        """What (epsilon, delta) buys."""
        return _budget(self.epsilon, self.delta)

    @property
    def grows(self) -> bool:
        """Whether rows will be added."""
        return self.horizon > self.size

    def at(self, *, size: int | None = None, epsilon: float | None = None) -> Case:
        """The same question at another size, or for another epsilon. Data that do not grow still do not."""
        rows = self.size if size is None else size
        horizon = max(self.horizon, rows) if self.grows else float(rows)
        return replace(self, size=rows, epsilon=self.epsilon if epsilon is None else epsilon, horizon=horizon)


@lru_cache(maxsize=256)
def _budget(epsilon: float, delta: float) -> Budget:
    return Promise(epsilon, delta).budget


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a guarantee lasts: for how many queries, and up to how many rows. Both infinite: for ever."""

    queries: float
    size: float

    @property
    def words(self) -> str:
        """The same in words.

        >>> Lifetime(1000, math.inf).words, Lifetime(math.inf, 2e6).words
        ('for ever, 1,000 queries', 'up to 2,000,000 rows')
        """
        if self.size < math.inf:
            rows = f"up to {self.size:,.0f} rows"
            return rows if self.queries == math.inf else f"{rows}, {self.queries:,.0f} queries"
        return "for ever" if self.queries == math.inf else f"for ever, {self.queries:,.0f} queries"

    def covers(self, case: Case) -> bool:
        """Whether it lasts for all that was asked about."""
        return self.queries >= case.queries and self.size >= case.horizon


class Candidate(ABC):
    """A mechanism, as far as a plan knows it."""

    name: str
    use: str
    """How to make it."""
    declared: bool = False
    """Whether it answers only queries that were named before it ran."""
    most_cells: ClassVar[float] = math.inf
    """The largest universe that the library runs it on."""
    coarseness: ClassVar[float] = 0.0
    """By how much, relatively, `alpha` may be above the least that `meets` accepts."""

    @abstractmethod
    def alpha(self, case: Case) -> float:
        """The guarantee: but with probability beta *every* answer at every size from the start to the horizon is
        within this. Infinite, or 1 and more, where there is none."""

    def meets(self, case: Case, alpha: float) -> bool:
        """Whether the guarantee is at most alpha: faster, for some, than `alpha`."""
        return self.alpha(case) <= alpha

    def shortfall(self, case: Case, alpha: float) -> float | None:
        """A number that is about 1 where alpha is just met and falls smoothly as epsilon and size grow, if there is one
        that is fast to compute: only to search with. Infinite: far from it."""
        return None

    @abstractmethod
    def expected(self, case: Case, alpha: float) -> float | None:
        """The mean of |answer − truth| at the start, for a counting query over half of the cells that was chosen
        without looking at the noise; None where it depends on the data. ``alpha`` is the guarantee."""

    @abstractmethod
    def lifetime(self, case: Case) -> Lifetime:
        """How long the guarantee lasts."""

    @abstractmethod
    def because(self, case: Case) -> str:
        """Why it would win, as the end of a sentence that begins with "because"."""

    def runs(self, case: Case) -> bool:
        """Whether the library runs it on so many cells."""
        return case.cells <= self.most_cells

    def limit(self, case: Case) -> str:
        """What to say if it does not."""
        return f"theory only: the library runs it on up to {self.most_cells:,} cells"

    def note(self, case: Case) -> str:
        """What else a user should know; may be empty."""
        return ""


def number(value: float) -> str:
    """Three digits.

    >>> number(0.012345), number(1234.5), number(0.0000123), number(0.00999999)
    ('0.0123', '1,230', '0.0000123', '0.0100')
    """
    rounded = float(f"{value:.3g}")
    if rounded == 0 or not math.isfinite(rounded):
        return f"{rounded:g}"
    digits = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits)}f}" if digits <= 12 else f"{rounded:.2e}"


def mean_size(noise: Noise) -> float:
    """E|X| of one draw, in rows.

    Laplace, p = e^{−1/s}: 2·(1−p)/(1+p)·Σ k·p^k = 2p/(1−p²). Gaussian: summed if narrow; σ·√(2/π) within 1% from 3 on.
    """
    if isinstance(noise, Laplace):
        return 2 * math.exp(-1 / noise.scale) / -math.expm1(-2 / noise.scale)
    return noise.scale * math.sqrt(2 / math.pi) if noise.scale > _NARROW else _gaussian_moment(noise.scale, 1)


def deviation(noise: Noise) -> float:
    """The standard deviation of one draw, in rows: √(2p)/(1−p) for Laplace noise, nearly the scale for Gaussian."""
    if isinstance(noise, Laplace):
        return math.sqrt(2) * math.exp(-1 / (2 * noise.scale)) / -math.expm1(-1 / noise.scale)
    return noise.scale if noise.scale > _NARROW else math.sqrt(_gaussian_moment(noise.scale, 2))


def _gaussian_moment(sigma: float, power: int) -> float:
    masses = [math.exp(-((k / sigma) ** 2) / 2) for k in range(1, math.ceil(12 * sigma) + 1)]
    total = 2 * math.fsum(k**power * mass for k, mass in enumerate(masses, 1))
    return total / (1 + 2 * math.fsum(masses))


def mean_of_sum(deviation: float, cells: float) -> float:
    """E|Σ X_i| over so many cells, nearly: that of the normal law with the same variance."""
    return math.sqrt(2 / math.pi * cells) * deviation
