"""BBScheduler for a (p, g)-black box, our calibration: one error for ever, from one budget for ever.

Epochs open at t_i = ceil((1+γ)^i·n). The box is ε-DP with error g·(log(1/β)/(εt))^p. With L_i = log(1/β_i),

    ε_i = E·L_i·(1+γ)^{−i}/C,    pure: E = ε, C = ΣL_i(1+γ)^{−i};    zCDP: E = √(2ρ), C = √(ΣL_i²(1+γ)^{−2i}),

so Σε_i = ε, or ½Σε_i² = ρ, and every epoch has the error A = g·(C/(E·n))^p or less, as t_i ≥ (1+γ)^i·n. γ minimises
A + γ/(1+γ), or centred (A + γ/2)/(1+γ) (see `Staleness`); the sizes being rounded up, t_{i+1} − 1 < (1+γ)·t_i.

*Privacy.* C is replaced by an upper bound (`schedule_sums`), and each ε_i rounded down to a rational: the infinite sum
is at most the budget, and more than 1 − 10^-9 of it. Neighbours replace one row. *Accuracy.* Σβ_i = β.

*Confidence.* β_i = 6β/(π²(i+1)²), so that L_i grows with log i where the paper's geometric β_i has it grow with i. The
geometric ones are a second candidate, which can be better when γ is near 1: with them and the paper's γ, C is the
paper's, so ours is never above the paper's error. (With δ > 0, E is larger, too: see `schedule_paper`.)

*Rate.* Let Λ(γ) = log(π²/(6β)) + 2·log(1+1/γ). The weighted mean of log(i+1) is at most log of the mean of i+1 = 1+1/γ
by Jensen, so C ≤ Λ·(1+γ)/γ (pure). For zCDP, q = (1+γ)^{−2}: Σq^i = 1/(1−q) ≤ (1+γ)²/(2γ), the mean of i+1 is 1/(1−q)
≤ 1+1/γ, and (L_i+2)² is concave in i: the mean of L_i² is at most (Λ+2)², so C ≤ (Λ+2)(1+γ)/√(2γ). At the γ that solves
γ = g^{1/(p+1)}·(Λ(γ)/(εn))^{p/(p+1)} (its right side falls, so there is one), if it is below 1, A ≤ 2^p·γ. zCDP is
alike; and with Λ at that γ, the minimum over all γ is

    pure   α ≤ (1+2^p)·g^{1/(p+1)}·(Λ/(εn))^{p/(p+1)}              the paper: exponent p/(2p+1)
    zCDP   α ≤ (1+2^p)·g^{1/(p/2+1)}·((Λ+2)/(2√ρ·n))^{p/(p/2+1)}    the paper: exponent p/(1.5p+1)

where Λ is of the order of log(1/β) + log n: n/Λ is what the exponents are exponents of.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from treering.budget.promise import Budget, Kind
from treering.params import Number, whole
from treering.theory.pmwg.paper import chance
from treering.theory.schedule.epochs import (
    LEAST_GROWTH,
    SHRINK,
    FixedSchedule,
    PlannedEpoch,
    Staleness,
    amount,
    bounded_exp,
    chance_of,
    check_growth,
    sum_staleness,
)
from treering.theory.schedule.paper import BoxRate, rate_of
from treering.theory.schedule_sums import geometric, log_sums, minimise, ramp_sums

_MOST_GROWTH: Final = 1 - 2.0**-20
_GRID: Final = tuple(max(LEAST_GROWTH, _MOST_GROWTH * 2.0 ** (-step / 2)) for step in range(81))
_STEPS: Final = 20


class Confidence(ABC):
    """How β is shared out among the epochs: Σβ_i = β."""

    @abstractmethod
    def log_beta(self, index: int) -> float:
        """log β_i."""

    @abstractmethod
    def norm(self, ratio: float, kind: Kind, fine: bool) -> float:
        """C, from above: ΣL_i·ratio^{−i} (pure) or √(ΣL_i²·ratio^{−2i}) (zCDP)."""


@dataclass(frozen=True, slots=True)
class InverseSquares(Confidence):
    """β_i = 6β/(π²(i+1)²)."""

    beta: float

    @property
    def first(self) -> float:
        """L_0 = log(π²/(6β)), which is positive."""
        return math.log(math.pi**2 / 6) - math.log(self.beta)

    def log_beta(self, index: int) -> float:
        return -self.first - 2 * math.log(index + 1)

    def norm(self, ratio: float, kind: Kind, fine: bool) -> float:
        decay = math.log(ratio)
        if kind == "pure":
            return self.first * geometric(decay) + 2 * log_sums(decay, fine)[0]
        plain, squares = log_sums(2 * decay, fine)
        return math.sqrt(self.first**2 * geometric(2 * decay) + 4 * (self.first * plain + squares))


@dataclass(frozen=True, slots=True)
class Powers(Confidence):
    """The paper's β_i = (β/(1+β))^{i+1}."""

    beta: float

    @property
    def first(self) -> float:
        """L_0 = log((1+β)/β)."""
        return math.log1p(1 / self.beta)

    def log_beta(self, index: int) -> float:
        return -(index + 1) * self.first

    def norm(self, ratio: float, kind: Kind, fine: bool) -> float:
        decay = math.log(ratio)
        plain = ramp_sums(decay)[0] if kind == "pure" else math.sqrt(ramp_sums(2 * decay)[1])
        return self.first * plain


def reach_of(budget: Budget) -> float:
    """E: ε of a pure budget, √(2ρ) of a zCDP one; what it loses to rounding is within `SHRINK`."""
    return float(budget.total) if budget.kind == "pure" else math.sqrt(2 * float(budget.total))


def fixed_logarithm(beta: Number, growth: float) -> float:
    """Λ(γ) = log(π²/(6β)) + 2·log(1+1/γ): the logarithm in the rate."""
    return InverseSquares(chance(beta, "beta")).first + 2 * math.log1p(1 / (check_growth(growth) - 1))


class RateFixed(FixedSchedule):
    """The plan for one γ and one way to share out β: pure runs, with Σε_i or ½Σε_i² within the budget."""

    def __init__(
        self, start: int, budget: Budget, rate: BoxRate, confidence: Confidence, growth: float, staleness: Staleness
    ) -> None:
        ratio = check_growth(growth)
        self.budget = budget
        """What all epochs together may cost."""
        self.confidence = confidence
        """How β is shared out."""
        self._scale = reach_of(budget) / confidence.norm(ratio, budget.kind, fine=True)
        static = _static(rate, math.log(self._scale * SHRINK), start)
        super().__init__(start, staleness, ratio, static)

    def epoch(self, index: int) -> PlannedEpoch:
        """Epoch i: pure, with ε_i."""
        size, log_beta = self.size_of(index), self.confidence.log_beta(index)
        budget = Budget("pure", amount(-log_beta * self._scale, self.ratio, index))
        return PlannedEpoch(index, size, budget, chance_of(log_beta), log_beta, self.static)


def _static(rate: BoxRate, log_scale: float, start: int) -> float:
    """A = g/(scale·n)^p, scale = E/C."""
    return bounded_exp(math.log(rate.g) - rate.p * (log_scale + math.log(start)))


def fixed_within(
    start: int,
    budget: Budget,
    beta: Number,
    p: Number,
    g: Number,
    centred: bool = False,
    *,
    also: tuple[float, ...] = (),
) -> RateFixed:
    """The tight schedule within a budget of either kind: the best γ, and the better way to share out β.

    ``also`` are further values of γ to consider, with geometric β_i: the paper's. The error may be 1 or more, which
    promises nothing.
    """
    rate, staleness, failing = rate_of(p, p, 0, g), sum_staleness(centred), chance(beta, "beta")
    rows, log_reach = whole(start, "start"), math.log(reach_of(budget))
    others = [growth for growth in also if LEAST_GROWTH <= growth < 1]

    def best(confidence: Confidence) -> RateFixed:
        def error(growth: float) -> float:
            norm = confidence.norm(1 + growth, budget.kind, fine=False)
            return staleness.worst(_static(rate, log_reach - math.log(norm), rows), growth)

        found = minimise(error, _GRID, _STEPS)
        return RateFixed(rows, budget, rate, confidence, found, staleness)

    powers = Powers(failing)
    papers = [RateFixed(rows, budget, rate, powers, growth, staleness) for growth in others]
    return min([best(InverseSquares(failing)), best(powers), *papers], key=lambda schedule: schedule.alpha)


def fixed_start(budget: Budget, beta: Number, p: Number, g: Number, centred: bool = False) -> int:
    """A starting size from which `fixed_within` guarantees an error below 1: g·(C/(E·n))^p is small enough for some γ.

    It is the smallest up to a few per cent.
    """
    rate, staleness, failing = rate_of(p, p, 0, g), sum_staleness(centred), chance(beta, "beta")

    def log_rows(confidence: Confidence, growth: float) -> float:
        most = staleness.most_alpha(growth, 1.0)
        norm = confidence.norm(1 + growth, budget.kind, fine=False)
        return (math.log(rate.g) - math.log(most)) / rate.p + math.log(norm) - math.log(reach_of(budget))

    ways = (InverseSquares(failing), Powers(failing))
    least = min(log_rows(confidence, growth) for confidence in ways for growth in _GRID)
    return math.floor(bounded_exp(least + 1e-9)) + 1
