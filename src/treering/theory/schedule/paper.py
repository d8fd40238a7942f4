"""The paper's schedules, just as in its proofs: BBScheduler (theorem "fixed") and BBImprover (theorem "improvealpha").

A (p, g)-black box is ε-DP and has error g·(log(1/β)/(εn))^p; a (p, p′, p″, g)-black box g·(1/(εn))^p·log^{p″}(n)·
log^{p′}(1/β). Errata E4 to E6, E8 and E14 are applied. Neighbours replace one row; logarithms are natural.

**BBScheduler.** Epochs at n·(1+γ)^i, rounded up, β_i = (β/(1+β))^{i+1}, and with ℓ = log((1+β)/β)

    δ = 0:  Z = ℓ/(εn),  γ = g^{1/(2p+1)}·Z^{p/(2p+1)},  ε_i = ε·γ²(i+1)/(1+γ)^{i+2},  α_i = g·Z^p·((1+γ)/γ)^{2p}
    δ > 0:  Z = 3√log(1/δ)·ℓ/(εn),  γ = g^{1/(1.5p+1)}·Z^{p/(1.5p+1)},
            ε_i = ε/(3√log(1/δ))·γ^{1.5}(i+1)/(1+γ)^{i+1.5},  α_i = g·Z^p·((1+γ)/γ)^{1.5p}

*Privacy.* Σ(i+1)q^{i+1} = q/(1−q)² at q = 1/(1+γ) gives Σε_i = ε. For δ > 0, with L = log(1/δ) ≥ 1, ½Σε_i² ≤ ε²/(9L)
as γ < 1; and ε²/(9L)-zCDP is within the budget ρ(ε, δ), since ρ(ε, δ) ≥ (√(L+ε)−√L)² = ε²/(√(L+ε)+√L)² ≥ ε²/(5.83·L)
for ε ≤ 1. Every ε_i is rounded down to a rational. *Accuracy.* Σβ_i = β; α_i + γ/(1+γ) at every size.

**BBImprover.** A run at every size t: ε_t = √c·ε/(3√L·t^{½+c}), β_t = β/(2t²), α_t by the box's rate. *Privacy.*
Σ_{t≥n} t^{−1−2c} ≤ n^{−1−2c}(1 + n/(2c)) ≤ n^{−2c}/c where c ≤ n/2, so ½Σε_t² ≤ ε²/(18L). *Accuracy.* Σβ_t ≤ β·π²/12.

**Which of the two.** The paper: "For any p > 0, the guarantees of BBImprover are stronger when t ≫ n²". By its
exponents, n^{−p/(1.5p+1)} for ever against t^{−p(½−c)} up to logarithms, that is where t exceeds about n^e with e =
1/((1.5p+1)·(½−c)): below 2 for small c, nearing it as p nears 0; its constants decide how far above (`overtaking`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from treering.budget.promise import Budget
from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, chance, positive, whole
from treering.theory.ageing import Staleness, sum_staleness
from treering.theory.schedule.epochs import (
    LEAST_GROWTH,
    SHRINK,
    FixedSchedule,
    ImprovingSchedule,
    PlannedEpoch,
    amount,
    bounded_exp,
    rational_exp,
)
from treering.theory.search import chance_of, first_whole
from treering.words import counted


@dataclass(frozen=True, slots=True)
class BoxRate:
    """The error g·(1/(εn))^p·log^{p2}(n)·log^{p1}(1/β) of a (p, p1, p2, g)-black box."""

    p: float
    p1: float
    p2: float
    g: float

    def alpha(self, size: int, log_epsilon: float, log_beta: float) -> float:
        """The error at ``size`` rows, for logarithms of ε and β."""
        spread = math.pow(math.log(size), self.p2) * math.pow(-log_beta, self.p1)
        return spread * bounded_exp(math.log(self.g) - self.p * (log_epsilon + math.log(size)))


def rate_of(p: Number, p1: Number, p2: Number, g: Number) -> BoxRate:
    """A checked rate: p and g positive, p1 and p2 not negative."""
    return BoxRate(positive(p, "p"), _exponent(p1, "p1"), _exponent(p2, "p2"), positive(g, "g"))


def _exponent(value: Number, name: str) -> float:
    return 0.0 if not isinstance(value, bool) and value == 0 else positive(value, name)


def delta_of(delta: Number) -> float:
    """δ as a float, which may be 0."""
    return 0.0 if not isinstance(delta, bool) and delta == 0 else chance(delta, "delta")


def covers(epsilon: Number, delta: Number) -> list[str]:
    """The reasons why the paper's theorems do not cover a promise (erratum E14); none if they do, as for δ = 0."""
    problems = []
    if delta_of(delta) > 0 and positive(epsilon, "epsilon") > 1:
        problems.append(f"epsilon must be at most 1 when delta is positive, not {float(epsilon):g}")
    if delta_of(delta) >= math.exp(-1):
        problems.append(f"delta must be below 1/e, about 0.3679, not {float(delta):g}")
    return problems


# -- BBScheduler -------------------------------------------------------------------------------------------------------


def odds(beta: Number) -> float:
    """ℓ = log((1+β)/β)."""
    return math.log1p(1 / chance(beta, "beta"))


def _loss(epsilon: Number, delta: Number) -> float:
    """The ε by which the proof calibrates the runs: ε itself, or ε/(3√log(1/δ))."""
    spread = delta_of(delta)
    return positive(epsilon, "epsilon") / (3 * math.sqrt(-math.log(spread)) if spread else 1.0)


def paper_growth(start: int, epsilon: Number, delta: Number, beta: Number, p: Number, g: Number) -> float:
    """γ of the proof; the theorem holds only if it is below 1."""
    rate = rate_of(p, p, 0, g)
    log_z = math.log(odds(beta)) - math.log(_loss(epsilon, delta)) - math.log(whole(start, "start"))
    steps = (1.5 if delta_of(delta) else 2.0) * rate.p
    return bounded_exp((math.log(rate.g) + rate.p * log_z) / (steps + 1))


def paper_start(epsilon: Number, delta: Number, beta: Number, p: Number, g: Number) -> int:
    """The fewest rows for which γ < 1: γ < 1 iff g·Z^p < 1 iff n > g^{1/p}·ℓ/ε (δ > 0: ·3√log(1/δ))."""
    rate = rate_of(p, p, 0, g)
    least = bounded_exp(math.log(rate.g) / rate.p + math.log(odds(beta)) - math.log(_loss(epsilon, delta)))
    return math.floor(least * (1 + 1e-12)) + 1


class PaperFixed(FixedSchedule):
    """The paper's BBScheduler: runs at growth factors 1 + γ, with one error for ever."""

    def __init__(
        self, start: int, epsilon: Number, delta: Number, beta: Number, p: Number, g: Number, centred: bool
    ) -> None:
        if problems := covers(epsilon, delta):
            raise GuaranteeError("the paper's BBScheduler theorem does not cover this: " + "; ".join(problems))
        growth = paper_growth(start, epsilon, delta, beta, p, g)
        if not growth < 1:
            raise GuaranteeError(
                f"the paper's BBScheduler needs a growth gamma in (0, 1) between epochs, and {counted(start, 'row')} "
                f"give {growth:.4g}; start with at least {counted(paper_start(epsilon, delta, beta, p, g), 'row')}"
            )
        if growth < LEAST_GROWTH:
            raise GuaranteeError(f"gamma would be {growth:.3g}, finer than 2^-40: g is too small to be scheduled")
        steps, ratio = 1.5 if delta_of(delta) else 2.0, 1 + growth
        growth = ratio - 1  # as rounded: the sum over the epochs is for powers of this ratio
        self._odds = odds(beta)
        self._first = _loss(epsilon, delta) * (growth / ratio) ** steps
        rate = rate_of(p, p, 0, g)
        log_alpha = math.log(rate.g) + rate.p * (math.log(self._odds) - math.log(self._first) - math.log(start))
        super().__init__(start, sum_staleness(centred), ratio, bounded_exp(log_alpha) * SHRINK**-rate.p)

    def epoch(self, index: int) -> PlannedEpoch:
        """Epoch i: pure, with ε_i."""
        size = self.size_of(index)
        budget = Budget("pure", amount(self._first * (index + 1), self.ratio, index))
        log_beta = -(index + 1) * self._odds
        return PlannedEpoch(index, size, budget, chance_of(log_beta), log_beta, self.static)


# -- BBImprover --------------------------------------------------------------------------------------------------------


def check_c(c: Number, start: int) -> float:
    """c > 0, and at most half of the starting size: otherwise the proof's sum is not within the budget."""
    free = positive(c, "c")
    if free > whole(start, "start") / 2:
        raise GuaranteeError(f"c must be at most half of the starting size, {start / 2:g}, not {free:g}")
    return free


class PaperImproving(ImprovingSchedule):
    """The paper's BBImprover: a run at every size, with a falling error."""

    def __init__(
        self, start: int, epsilon: Number, delta: Number, beta: Number, rate: BoxRate, c: Number | None
    ) -> None:
        super().__init__(whole(start, "start"), Staleness(1.0))
        if delta_of(delta) == 0:
            raise GuaranteeError("the paper's BBImprover needs delta > 0; the tight profile has a pure version")
        if problems := covers(epsilon, delta):
            raise GuaranteeError("the paper's BBImprover theorem does not cover this: " + "; ".join(problems))
        if c is None:
            raise ParameterError("c", "must be given: the paper's BBImprover has a free parameter c > 0")
        self._c = check_c(c, start)
        self._log_first = math.log(math.sqrt(self._c) * _loss(epsilon, delta))
        self._log_beta = math.log(chance(beta, "beta") / 2)
        self._rate = rate

    def size_of(self, index: int) -> int:
        """n + i."""
        return self.start + whole(index, "index", 0)

    def index_at(self, size: int) -> int:
        return self._check_size(size) - self.start

    def epoch(self, index: int) -> PlannedEpoch:
        """The run at t = n + i rows: pure, with ε_t."""
        size = self.size_of(index)
        log_epsilon = self._log_first - (0.5 + self._c) * math.log(size)
        log_beta = self._log_beta - 2 * math.log(size)
        alpha = self._rate.alpha(size, log_epsilon, log_beta) * SHRINK**-self._rate.p
        budget = Budget("pure", rational_exp(log_epsilon))
        return PlannedEpoch(index, size, budget, chance_of(log_beta), log_beta, alpha)


# -- which of the two --------------------------------------------------------------------------------------------------


def overtaking_exponent(p: Number, c: Number) -> float:
    """e: BBImprover overtakes at about n^e rows, by the paper's exponents for δ > 0; infinite for c ≥ ½.

    >>> overtaking_exponent(1, 0.1), overtaking_exponent(1 / 3, 0.01) < 2
    (1.0, True)
    """
    left = 0.5 - positive(c, "c")
    return 1 / ((1.5 * positive(p, "p") + 1) * left) if left > 0 else math.inf


def overtaking(start: int, epsilon: Number, delta: Number, beta: Number, p: Number, g: Number, c: Number) -> int:
    """The size from which on the paper's BBImprover guarantees less error than its BBScheduler, for a (p, g)-black box.

    Both start at ``start`` rows with the same promise; such a box is a (p, p, 0, g)-black box. The error of BBImprover
    is t^{−p(½−c)}·log^p(2t²/β) up to a factor. Its logarithm grows, in log t, by −p(½−c) + 2p/log(2t²/β), which falls:
    so it rises, if at all, only at first. The size returned is the first at which it falls and is below the fixed one.

    >>> size = overtaking(10**6, 1.0, 1e-9, 0.05, 1.0, 1.0, 0.05)
    >>> 10**6 < size < 10**12
    True
    """
    free = positive(c, "c")
    if free >= 0.5:
        raise GuaranteeError(f"with c={free:g} BBImprover's error does not fall: c must be below 1/2")
    fixed = PaperFixed(start, epsilon, delta, beta, p, g, centred=False).alpha
    improving = PaperImproving(whole(start, "start"), epsilon, delta, beta, rate_of(p, p, 0, g), free)
    log_beta = math.log(chance(beta, "beta"))

    def ahead(size: int) -> bool:
        falls = 2 / (math.log(2) + 2 * math.log(size) - log_beta) <= 0.5 - free
        return falls and improving.alpha_at(size) <= fixed

    return first_whole(ahead, start - 1, start)
