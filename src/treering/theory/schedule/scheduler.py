"""BBScheduler, our calibration: one error for ever, from one budget for ever.

Two versions: `fixed_within` for a box of the paper's rate, a (p, g)-black box, and `fixed_for` for any box, by the
box's own proven bound. In both, epochs open at t_i = ceil((1+γ)^i·n).

**A (p, g)-black box.** The box is ε-DP with error g·(log(1/β)/(εt))^p. With L_i = log(1/β_i),

    ε_i = E·L_i·(1+γ)^{−i}/C,    pure: E = ε, C = ΣL_i(1+γ)^{−i};    zCDP: E = √(2ρ), C = √(ΣL_i²(1+γ)^{−2i}),

so Σε_i = ε, or ½Σε_i² = ρ, and every epoch has the error A = g·(C/(E·n))^p or less, as t_i ≥ (1+γ)^i·n. γ minimises
A + γ/(1+γ), or centred (A + γ/2)/(1+γ) (see `Staleness`); the sizes being rounded up, t_{i+1} − 1 < (1+γ)·t_i.

*Privacy.* C is replaced by an upper bound, the infinite tail included (`log_sums`, `ramp_sums`), tight to 10^-9, and
each ε_i is rounded down to a rational: the infinite sum is at most the budget, and more than 1 − 10^-9 of it.
Neighbours replace one row. *Accuracy.* Σβ_i = β.

*Confidence.* β_i = 6β/(π²(i+1)²), so that L_i grows with log i where the paper's geometric β_i has it grow with i. The
geometric ones are a second candidate, which can be better when γ is near 1: with them and the paper's γ, C is the
paper's, so ours is never above the paper's error. (With δ > 0, E is larger, too: see `treering.theory.schedule.paper`.)

*Rate.* Let Λ(γ) = log(π²/(6β)) + 2·log(1+1/γ). The weighted mean of log(i+1) is at most log of the mean of i+1 = 1+1/γ
by Jensen, so C ≤ Λ·(1+γ)/γ (pure). For zCDP, q = (1+γ)^{−2}: Σq^i = 1/(1−q) ≤ (1+γ)²/(2γ), the mean of i+1 is 1/(1−q)
≤ 1+1/γ, and (L_i+2)² is concave in i: the mean of L_i² is at most (Λ+2)², so C ≤ (Λ+2)(1+γ)/√(2γ). At the γ that solves
γ = g^{1/(p+1)}·(Λ(γ)/(εn))^{p/(p+1)} (its right side falls, so there is one), if it is below 1, A ≤ 2^p·γ. zCDP is
alike; and with Λ at that γ, the minimum over all γ is

    pure   α ≤ (1+2^p)·g^{1/(p+1)}·(Λ/(εn))^{p/(p+1)}              the paper: exponent p/(2p+1)
    zCDP   α ≤ (1+2^p)·g^{1/(p/2+1)}·((Λ+2)/(2√ρ·n))^{p/(p/2+1)}    the paper: exponent p/(1.5p+1)

where Λ is of the order of log(1/β) + log n: n/Λ is what the exponents are exponents of.

**Any box, by its own proven bound.** Epochs get the budgets b_i = u_j·(1+γ)^{−κi}, κ = 1 for pure budgets and 2 for
zCDP, with one level u_j for all 2^j epochs i = 2^j − 1, …, 2^{j+1} − 2 of block j; the last block, which holds the
epoch that opens last below `MOST_ROWS`, goes on for ever. Σb_i is then a finite sum of geometric series.

*Privacy.* Σb_i ≤ budget: the series are summed from above, the levels scaled to fit, each b_i rounded down.

*Accuracy.* Every epoch of block j may fail with probability β_j = β·2^{−j}/((j+1)(j+2)), so all together with β at
most: the blocks sum to β·Σ1/((j+1)(j+2)) = β. A box's error does not rise when the size grows c-fold while its budget
is divided by c^κ (`treering.boxes.base.Box`), so alpha(t_i, b_i, β_j) ≤ alpha(n, u_j, β_j): whatever the levels
are, A = max_j alpha(n, u_j, β_j) bounds the static error of every epoch. The levels are chosen by a search that
equalises the errors, and γ by another: how good they are decides the size of A, not whether it holds.

The failure probability is shared out by doublings of i, not as 1/(i+1)²: log(1/β_i) is about log i + 2·log log i
instead of 2·log i, and one evaluation of the bound serves a whole block.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.promise import Budget, BudgetKind
from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, chance, whole
from treering.theory.ageing import Staleness, given_staleness, sum_staleness
from treering.theory.schedule.epochs import (
    LEAST_GROWTH,
    MOST_ROWS,
    SHRINK,
    AlphaOf,
    FixedSchedule,
    PlannedEpoch,
    amount,
    bounded_exp,
    check_growth,
)
from treering.theory.schedule.paper import BoxRate, rate_of
from treering.theory.search import GOLDEN, chance_of, least_near, roughly_whole
from treering.words import counted

_MOST_GROWTH: Final = 1 - 2.0**-20
_GRID: Final = tuple(max(LEAST_GROWTH, _MOST_GROWTH * 2.0 ** (-step / 2)) for step in range(81))
_STEPS: Final = 20


# -- a (p, g)-black box: the paper's rate ------------------------------------------------------------------------------


class Confidence(ABC):
    """How β is shared out among the epochs: Σβ_i = β."""

    @abstractmethod
    def log_beta(self, index: int) -> float:
        """log β_i."""

    @abstractmethod
    def norm(self, ratio: float, kind: BudgetKind, fine: bool) -> float:
        """An upper bound on C: ΣL_i·ratio^{−i} (pure) or √(ΣL_i²·ratio^{−2i}) (zCDP); ``fine`` as in `log_sums`."""


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

    def norm(self, ratio: float, kind: BudgetKind, fine: bool) -> float:
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

    def norm(self, ratio: float, kind: BudgetKind, fine: bool) -> float:
        decay = math.log(ratio)
        plain = ramp_sums(decay)[0] if kind == "pure" else math.sqrt(ramp_sums(2 * decay)[1])
        return self.first * plain


def reach_of(budget: Budget) -> float:
    """E: ε of a pure budget, √(2ρ) of a zCDP one; the factor `SHRINK` covers its rounding."""
    return float(budget.total) if budget.kind == "pure" else math.sqrt(2 * float(budget.total))


def fixed_logarithm(beta: Number, growth: float) -> float:
    """Λ(γ) = log(π²/(6β)) + 2·log(1+1/γ), γ = ``growth``: the logarithm in the rate of the module's docstring."""
    return InverseSquares(chance(beta, "beta")).first + 2 * math.log1p(1 / (check_growth(growth) - 1))


class RateFixed(FixedSchedule):
    """The schedule for one γ and one way to share out β: pure runs, with Σε_i or ½Σε_i² within the budget."""

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
    """The tight schedule of a (p, g)-black box within a budget of either kind: best γ, better way to share out β.

    ``centred`` is for centred answers, see `Staleness`. ``also`` are further values of γ to consider, with geometric
    β_i: the paper's. The error may be 1 or more, which promises nothing.
    """
    rate, staleness, failing = rate_of(p, p, 0, g), sum_staleness(centred), chance(beta, "beta")
    rows, log_reach = whole(start, "start"), math.log(reach_of(budget))
    others = [growth for growth in also if LEAST_GROWTH <= growth < 1]

    def best(confidence: Confidence) -> RateFixed:
        def error(growth: float) -> float:
            norm = confidence.norm(1 + growth, budget.kind, fine=False)
            return staleness.worst(_static(rate, log_reach - math.log(norm), rows), growth)

        found = least_near(error, _GRID, _STEPS)
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


# -- upper bounds on sums over all epochs, the infinite tail included --------------------------------------------------


_FIRST: Final = {False: 64, True: 4096}
_PER_DOUBLING: Final = {False: 24, True: 5000}
_LEAST_PER_DOUBLING: Final = 8
_REACH: Final = 50.0
_MARGIN: Final = 1 + 2.0**-36


def geometric(decay: float) -> float:
    """Σ_{i≥0} e^{−si}, s = decay."""
    return -1 / math.expm1(-decay)


@lru_cache(maxsize=4096)
def log_sums(decay: float, fine: bool) -> tuple[float, float]:
    """Upper bounds of Σ_{i≥0} log(i+1)·e^{−si} and Σ_{i≥0} log²(i+1)·e^{−si}, s = decay.

    With ``fine`` they are within 10^-9 of the sums in proportion, otherwise within 10^-3.

    Proof. The first terms are summed one by one. The rest is cut into blocks a ≤ i < b. Within a block the weights
    e^{−si} fall, so the weighted mean of i is at most the middle, (a+b−1)/2; log and log² rise, and from i = 2 on they
    are concave, so by Jensen's inequality their weighted mean is at most their value there. The last block is infinite,
    with mean a + 1/(e^s−1). Rounding is covered by the factor 1 + 2^-36.
    """
    first = _FIRST[fine]
    index = np.arange(first, dtype=np.float64)
    singles = np.exp(-decay * index)
    logs = np.log1p(index)
    edges = _edges(first, decay, _PER_DOUBLING[fine])
    begin, width = edges[:-1], np.diff(edges)
    weights = np.exp(-decay * begin) * np.expm1(-decay * width) / math.expm1(-decay)
    middles = np.log1p(begin + (width - 1) / 2)
    last = float(edges[-1])
    tail = math.exp(-decay * last) * geometric(decay)
    beyond = math.log1p(last + 1 / math.expm1(decay))
    plain = float(singles @ logs + weights @ middles) + tail * beyond
    squares = float(singles @ logs**2 + weights @ middles**2) + tail * beyond**2
    return plain * _MARGIN, squares * _MARGIN


def _edges(first: int, decay: float, per_doubling: int) -> Floats:
    """Block edges from ``first`` to where the weights vanish: ``per_doubling`` to a doubling, fewer where i ≪ 1/s.

    A doubling at i has the share si of the sum, and blocks of a k-th of a doubling an error of the order of 1/k²: for a
    given error the blocks are fewest when k is in proportion to the cube root of the share.
    """
    begin, pieces = float(first), []
    while True:
        steps = max(_LEAST_PER_DOUBLING, math.ceil(per_doubling * min(1.0, decay * begin) ** (1 / 3)))
        pieces.append(np.ceil(begin * np.exp2(np.arange(steps) / steps)))
        begin *= 2
        if begin * decay > _REACH:
            break
    edges: Floats = np.unique(np.concatenate([*pieces, [begin]]))
    return edges


def ramp_sums(decay: float) -> tuple[float, float]:
    """Σ_{i≥0} (i+1)·e^{−si} = 1/(1−q)² and Σ_{i≥0} (i+1)²·e^{−si} = (1+q)/(1−q)³, q = e^{−s}; upper bounds."""
    total = geometric(decay)
    return total**2 * _MARGIN, (1 + math.exp(-decay)) * total**3 * _MARGIN


# -- any box, by its own proven bound ----------------------------------------------------------------------------------


_KAPPA: Final[dict[BudgetKind, int]] = {"pure": 1, "zcdp": 2}
_SLACK: Final = 2.0**-36
_LEAST_WEIGHT: Final = 2.0**-80
_ELASTICITY: Final = (0.1, 8.0)
_STRIDE: Final = 3.0
_MOST_GROWTH_OF_A_BOX: Final = 0.9
_ROUNDS, _LAST_ROUNDS, _SECTIONS, _STRIDES = 3, 8, 7, 25


def block_of(index: int) -> int:
    """j: block j holds the epochs 2^j − 1, …, 2^{j+1} − 2."""
    return (index + 1).bit_length() - 1


def log_share(block: int) -> float:
    """log(β_j/β) = −j·log 2 − log((j+1)(j+2))."""
    return -block * math.log(2) - math.log((block + 1) * (block + 2))


@dataclass(frozen=True, slots=True)
class Levels:
    """A choice of γ and of one level for each block, and the static error A that follows."""

    growth: float
    levels: tuple[float, ...]
    static: float
    """A: the largest error of an epoch at its own size."""


class BoxFixed(FixedSchedule):
    """The schedule of a box for one choice of γ and levels."""

    def __init__(
        self, alpha_of: AlphaOf, start: int, budget: Budget, beta: float, chosen: Levels, staleness: Staleness
    ) -> None:
        super().__init__(start, staleness, 1 + chosen.growth, chosen.static)
        self.budget = budget
        """What all epochs together may cost."""
        self.levels = chosen.levels
        """u_j: the budget that an epoch of block j would get at the starting size."""
        self._alpha_of = alpha_of
        self._beta = beta

    def epoch(self, index: int) -> PlannedEpoch:
        """Epoch i, with the box's own bound for its static error (infinite beyond `MOST_ROWS`)."""
        size, block = self.size_of(index), block_of(index)
        level = self.levels[min(block, len(self.levels) - 1)]
        part = amount(level, self.ratio, _KAPPA[self.budget.kind] * index)
        budget, log_beta = Budget(self.budget.kind, part), math.log(self._beta) + log_share(block)
        beta = chance_of(log_beta)
        alpha = self._alpha_of(size, budget, beta) if size <= MOST_ROWS else math.inf
        return PlannedEpoch(index, size, budget, beta, log_beta, alpha)


class _Search:
    """The search for γ and the levels; it evaluates the box's bound at the starting size only."""

    def __init__(self, alpha_of: AlphaOf, start: int, budget: Budget, beta: float, staleness: Staleness) -> None:
        self._alpha_of = alpha_of
        self._start = start
        self._budget = budget
        self._total = float(budget.total) * SHRINK
        self._beta = beta
        self._staleness = staleness
        self._kappa = _KAPPA[budget.kind]
        self._slopes: list[float] = []
        self._guess: list[float] = []

    def best(self) -> Levels:
        """Downhill in γ by a fixed factor, then golden sections; the levels of one γ are the first guess for the next.

        It starts at γ = √A(½): a box of rate p has its best γ at about A^{1/(p+1)}.
        """
        found = self.at(0.5, _LAST_ROUNDS)
        middle = self.at(min(0.5, math.sqrt(found.static)), _ROUNDS)
        found = min(found, middle, key=self.error)
        middle, low, high = self._bracket(middle)
        found = min(found, middle, key=self.error)
        for _ in range(_SECTIONS):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            at_left, at_right = self.at(math.exp(left), _ROUNDS), self.at(math.exp(right), _ROUNDS)
            found = min(found, at_left, at_right, key=self.error)
            low, high = (low, right) if self.error(at_left) <= self.error(at_right) else (left, high)
        self._guess = list(found.levels)
        return min(found, self.at(found.growth, _LAST_ROUNDS), key=self.error)

    def error(self, chosen: Levels) -> float:
        """The error for the whole future, staleness included."""
        return self._staleness.worst(chosen.static, chosen.growth)

    def _bracket(self, middle: Levels) -> tuple[Levels, float, float]:
        """The levels of a γ that is better than γ·_STRIDE and γ/_STRIDE, and the logarithms of these two."""
        for stride in (_STRIDE, 1 / _STRIDE):
            for _ in range(_STRIDES):
                following = min(_MOST_GROWTH_OF_A_BOX, max(LEAST_GROWTH, middle.growth * stride))
                trial = self.at(following, _ROUNDS)
                if self.error(trial) >= self.error(middle):
                    break
                middle = trial
        low, high = max(LEAST_GROWTH, middle.growth / _STRIDE), min(_MOST_GROWTH_OF_A_BOX, middle.growth * _STRIDE)
        return middle, math.log(low), math.log(high)

    def at(self, growth: float, rounds: int) -> Levels:
        """Levels for one γ whose errors are about equal: Newton's method on log-log slopes learnt on the way."""
        growth = (1 + max(LEAST_GROWTH, growth)) - 1  # as the ratio will be rounded
        weights = self._weights(growth)
        logs = self._scaled(self._first_guess(len(weights)), weights)
        best: Levels | None = None
        errors: list[float] = []
        for _ in range(rounds):
            before, errors_before = logs, errors
            if errors:
                logs = self._scaled(self._equalised(logs, errors, weights), weights)
            errors = [self._log_alpha(log_level, block) for block, log_level in enumerate(logs)]
            self._learn(before, errors_before, logs, errors)
            levels = Levels(growth, tuple(math.exp(each) for each in logs), math.exp(max(errors)) * (1 + 2.0**-40))
            best = levels if best is None or levels.static < best.static else best
            if max(errors) - min(errors) < 1e-6:
                break
        assert best is not None  # at least one round
        self._guess = list(best.levels)
        return best

    def _weights(self, growth: float) -> list[float]:
        """Σ(1+γ)^{−κi} over each block, from above; the last block is infinite."""
        decay = self._kappa * math.log1p(growth)
        steps = max(0.0, math.log(MOST_ROWS / self._start)) / math.log1p(growth)
        last = block_of(math.ceil(steps))
        weights = []
        for block in range(last + 1):
            begin = math.exp(-decay * (2**block - 1)) / -math.expm1(-decay)
            part = -math.expm1(-decay * 2**block) if block < last else 1.0
            weights.append(max(_LEAST_WEIGHT, begin * part) * (1 + _SLACK))
        return weights

    def _first_guess(self, blocks: int) -> list[float]:
        """The logarithms of the levels found for another γ; at first, of those best for a box of the paper's rate."""
        tails = [self._kappa * math.log(-math.log(self._beta) - log_share(block)) for block in range(blocks)]
        known = [math.log(level) for level in self._guess[:blocks]]
        shift = known[-1] - tails[len(known) - 1] if known else 0.0
        self._slopes += [self._slopes[-1] if self._slopes else 1.0] * (blocks - len(self._slopes))
        return known + [tail + shift for tail in tails[len(known) :]]

    def _scaled(self, logs: list[float], weights: list[float]) -> list[float]:
        """The levels (in logarithms) scaled so that they spend the budget."""
        top = max(logs)
        spent = math.fsum(weight * math.exp(each - top) for weight, each in zip(weights, logs, strict=True))
        shift = math.log(self._total) - math.log(spent) - top - _SLACK
        return [each + shift for each in logs]

    def _equalised(self, logs: list[float], errors: list[float], weights: list[float]) -> list[float]:
        """The levels (in logarithms) with equal errors that just spend the budget, if slopes were constant."""
        low, high = min(errors), max(errors)

        def moved(target: float) -> list[float]:
            return [
                each + max(-20.0, min(20.0, (error - target) / slope))
                for each, error, slope in zip(logs, errors, self._slopes, strict=False)
            ]

        def fits(target: float) -> bool:
            spent = math.fsum(weight * math.exp(each) for weight, each in zip(weights, moved(target), strict=True))
            return spent <= self._total

        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return moved(high)

    def _learn(self, before: list[float], errors_before: list[float], logs: list[float], errors: list[float]) -> None:
        """Update the slopes −dlog α/dlog u by secants."""
        for block in range(len(errors_before)):
            step = logs[block] - before[block]
            if abs(step) > 1e-3:
                slope = (errors_before[block] - errors[block]) / step
                self._slopes[block] = min(_ELASTICITY[1], max(_ELASTICITY[0], slope))

    def _log_alpha(self, log_level: float, block: int) -> float:
        """log of the box's error at the starting size, for a level slightly below the one that will be given."""
        level = Budget(self._budget.kind, Fraction(math.exp(log_level) * (1 - 2 * _SLACK)))
        return log_alpha(self._alpha_of, self._start, level, chance_of(math.log(self._beta) + log_share(block)))


def log_alpha(alpha_of: AlphaOf, size: int, budget: Budget, beta: float) -> float:
    """log of a box's bound, clipped to ±600; 600 where the box raises `GuaranteeError`."""
    try:
        alpha = alpha_of(size, budget, beta)
    except GuaranteeError:
        return 600.0
    if not alpha >= 0:
        raise ParameterError("alpha_of", f"must return an error of at least 0, not {alpha}")
    return max(-600.0, min(600.0, math.log(alpha))) if alpha > 0 else -600.0


def fixed_for(
    alpha_of: AlphaOf,
    start: int,
    budget: Budget,
    beta: Number,
    centred: bool = True,
    *,
    staleness: Number | None = None,
) -> FixedSchedule:
    """The tight schedule of any box, by its own bound ``alpha_of(size, budget, beta)``: the same error for ever.

    Formal guarantee. The epochs' budgets, of the same kind as ``budget``, sum to at most ``budget`` over all time; but
    with probability β every answer is within `alpha_at`, hence within ``alpha``, of the truth up to `MOST_ROWS` rows.
    Neighbours replace one row. Proof: the module's docstring; it rests on the box's scaling law.

    Errors are counted as in `treering.theory.schedule.fixed`: ``centred`` ones are (t/τ)α + (1−t/τ)/2, the others like
    the paper's α + (1−t/τ). ``staleness`` is for boxes whose error is an excess risk: (t/τ)α + (1−t/τ)·staleness, where
    staleness is Lipschitz constant times diameter. `GuaranteeError` if the error would be 1 (or staleness) or more; it
    names a starting size that would do.
    """
    rows, failing = whole(start, "start"), chance(beta, "beta")
    waiting = sum_staleness(centred) if staleness is None else given_staleness(centred, staleness)
    limit = 1.0 if staleness is None else waiting.constant
    search = _Search(alpha_of, rows, budget, failing, waiting)
    chosen = search.best()
    schedule = BoxFixed(alpha_of, rows, budget, failing, chosen, waiting)
    if schedule.alpha >= limit:
        advice = _start_that_would_do(lambda size: _Search(alpha_of, size, budget, failing, waiting), rows, limit)
        raise GuaranteeError(
            f"no schedule guarantees an error below {limit:g} from {counted(rows, 'row')} on: it could be "
            f"{schedule.alpha:.3g}; start with {advice}, or with a larger budget"
        )
    return schedule


def _start_that_would_do(search_at: Callable[[int], _Search], start: int, limit: float) -> str:
    """A size, in words, from which on the schedule with γ = ½ has an error below ``limit``; within about a tenth."""

    def does(size: int) -> bool:
        search = search_at(size)
        return search.error(search.at(0.5, 2)) < limit * (1 - 1e-9)

    found = roughly_whole(does, start, MOST_ROWS)
    if found is None:
        return "a box whose error falls with the size (with this one no size would do)"
    return f"about {counted(found, 'row')}"
