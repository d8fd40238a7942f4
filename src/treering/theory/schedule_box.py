"""BBScheduler for any box, on the box's own proven bound: the same error in every epoch, from one budget for ever.

Epochs open at t_i = ceil((1+γ)^i·n) and get the budgets b_i = u_j·(1+γ)^{−κi}, κ = 1 for pure budgets and 2 for zCDP,
with one level u_j for all 2^j epochs i = 2^j − 1, …, 2^{j+1} − 2 of block j; the last block, which holds the epoch that
opens last below `MOST_ROWS`, goes on for ever. Σb_i is then a finite sum of geometric series.

*Privacy.* Σb_i ≤ budget: the series are summed from above, the levels scaled to fit, each b_i rounded down.

*Accuracy.* Every epoch of block j may fail with probability β_j = β·2^{−j}/((j+1)(j+2)), so all together with β at
most: the blocks sum to β·Σ1/((j+1)(j+2)) = β. A box's error does not rise when the size grows c-fold while its budget
is divided by c^κ (`treering.boxes.base.Box`), so alpha(t_i, b_i, β_j) ≤ alpha(n, u_j, β_j): whatever the levels
are, A = max_j alpha(n, u_j, β_j) bounds the static error of every epoch. The levels are chosen by a search that
equalises the errors, and γ by another: only quality hangs on them.

The confidence is shared out by doublings of i, not as 1/(i+1)²: log(1/β_i) is about log i + 2·log log i instead of
2·log i, and one evaluation of the bound serves a whole block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from treering.budget.promise import Budget, Kind
from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, whole
from treering.theory.pmwg.paper import chance
from treering.theory.schedule.epochs import (
    LEAST_GROWTH,
    MOST_ROWS,
    SHRINK,
    AlphaOf,
    FixedSchedule,
    PlannedEpoch,
    Staleness,
    amount,
    chance_of,
    given_staleness,
    sum_staleness,
)

_KAPPA: Final[dict[Kind, int]] = {"pure": 1, "zcdp": 2}
_SLACK: Final = 2.0**-36
_LEAST_WEIGHT: Final = 2.0**-80
_ELASTICITY: Final = (0.1, 8.0)
_STRIDE: Final = 3.0
_MOST_GROWTH: Final = 0.9
_ROUNDS, _LAST_ROUNDS, _SECTIONS, _STRIDES = 3, 8, 7, 25
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


def block_of(index: int) -> int:
    """j: block j holds the epochs 2^j − 1, …, 2^{j+1} − 2."""
    return (index + 1).bit_length() - 1


def log_share(block: int) -> float:
    """log(β_j/β) = −j·log 2 − log((j+1)(j+2))."""
    return -block * math.log(2) - math.log((block + 1) * (block + 2))


@dataclass(frozen=True, slots=True)
class Levels:
    """A choice of γ and of one level for each block, and what follows."""

    growth: float
    levels: tuple[float, ...]
    static: float
    """A."""


class BoxFixed(FixedSchedule):
    """The plan for one choice of levels."""

    def __init__(
        self, alpha_of: AlphaOf, start: int, budget: Budget, beta: float, chosen: Levels, staleness: Staleness
    ) -> None:
        super().__init__(start, staleness, 1 + chosen.growth, chosen.static)
        self.budget = budget
        """What all epochs together may cost."""
        self.levels = chosen.levels
        """u_j: what the epochs of a block would cost at the starting size."""
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
    """The search for γ and the levels; asks for the bound at the starting size only."""

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

        The way starts at γ = √A(½): a box of rate p has its best γ at about A^{1/(p+1)}.
        """
        found = self.at(0.5, _LAST_ROUNDS)
        middle = self.at(min(0.5, math.sqrt(found.static)), _ROUNDS)
        found = min(found, middle, key=self.error)
        middle, low, high = self._bracket(middle)
        found = min(found, middle, key=self.error)
        for _ in range(_SECTIONS):
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            at_left, at_right = self.at(math.exp(left), _ROUNDS), self.at(math.exp(right), _ROUNDS)
            found = min(found, at_left, at_right, key=self.error)
            low, high = (low, right) if self.error(at_left) <= self.error(at_right) else (left, high)
        self._guess = list(found.levels)
        return min(found, self.at(found.growth, _LAST_ROUNDS), key=self.error)

    def error(self, chosen: Levels) -> float:
        """The error for the whole future."""
        return self._staleness.worst(chosen.static, chosen.growth)

    def _bracket(self, middle: Levels) -> tuple[Levels, float, float]:
        """A γ that is better than _STRIDE times and a _STRIDE-th of it; the logarithms of these two."""
        for stride in (_STRIDE, 1 / _STRIDE):
            for _ in range(_STRIDES):
                following = min(_MOST_GROWTH, max(LEAST_GROWTH, middle.growth * stride))
                trial = self.at(following, _ROUNDS)
                if self.error(trial) >= self.error(middle):
                    break
                middle = trial
        low, high = max(LEAST_GROWTH, middle.growth / _STRIDE), min(_MOST_GROWTH, middle.growth * _STRIDE)
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
        """The logarithms of levels that are best for a box of the paper's rate, or of those found for another γ."""
        tails = [self._kappa * math.log(-math.log(self._beta) - log_share(block)) for block in range(blocks)]
        known = [math.log(level) for level in self._guess[:blocks]]
        shift = known[-1] - tails[len(known) - 1] if known else 0.0
        self._slopes += [self._slopes[-1] if self._slopes else 1.0] * (blocks - len(self._slopes))
        return known + [tail + shift for tail in tails[len(known) :]]

    def _scaled(self, logs: list[float], weights: list[float]) -> list[float]:
        """Levels in the same proportions that spend the budget."""
        top = max(logs)
        spent = math.fsum(weight * math.exp(each - top) for weight, each in zip(weights, logs, strict=True))
        shift = math.log(self._total) - math.log(spent) - top - _SLACK
        return [each + shift for each in logs]

    def _equalised(self, logs: list[float], errors: list[float], weights: list[float]) -> list[float]:
        """Where the errors would be equal if their slopes were constant, and the budget just spent."""
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
        """The slopes −dlog α/dlog u, by secants."""
        for block in range(len(errors_before)):
            step = logs[block] - before[block]
            if abs(step) > 1e-3:
                slope = (errors_before[block] - errors[block]) / step
                self._slopes[block] = min(_ELASTICITY[1], max(_ELASTICITY[0], slope))

    def _log_alpha(self, log_level: float, block: int) -> float:
        """The box's error at the starting size, for a level a hair below what will be given."""
        level = Budget(self._budget.kind, Fraction(math.exp(log_level) * (1 - 2 * _SLACK)))
        return log_alpha(self._alpha_of, self._start, level, chance_of(math.log(self._beta) + log_share(block)))


def log_alpha(alpha_of: AlphaOf, size: int, budget: Budget, beta: float) -> float:
    """log of a box's bound, within ±600; a bound that is refused is as good as none."""
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
    """A box scheduled on its own bound ``alpha_of(size, budget, beta)``: the same error for ever, tight.

    Formal guarantee. The epochs' budgets, of the same kind as ``budget``, sum to at most ``budget`` over all time; but
    with probability β every answer is within `alpha_at`, hence within ``alpha``, of the truth up to `MOST_ROWS` rows.
    Neighbours replace one row. Proof: the module's docstring; it rests on the box's scaling law.

    Errors are counted as in `treering.theory.schedule.fixed`: ``centred`` ones are (t/τ)α + (1−t/τ)/2, the others like
    the paper's α + (1−t/τ). ``staleness`` is for boxes whose error is an excess risk: (t/τ)α + (1−t/τ)·staleness, where
    staleness is Lipschitz constant times diameter. `GuaranteeError` if the error would be 1 (or staleness) or more; it
    names a start that would do.
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
            f"no schedule guarantees an error below {limit:g} from {rows:,} rows on: it could be {schedule.alpha:.3g}; "
            f"start with {advice}, or with a larger budget"
        )
    return schedule


def _start_that_would_do(search_at: Callable[[int], _Search], start: int, limit: float) -> str:
    """A size from which on the simplest schedule, γ = ½, would do: doubled, then bisected to about a tenth."""

    def does(size: int) -> bool:
        search = search_at(size)
        return search.error(search.at(0.5, 2)) < limit * (1 - 1e-9)

    low, high = start, 2 * start
    while not does(high):
        if high > MOST_ROWS:
            return "a box whose error falls with the size (with this one no size would do)"
        low, high = high, 2 * high
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return f"about {high:,} rows"
