"""BBImprover, our calibration: one budget for ever, and an error that falls as the data grow.

Doubling k is the sizes from T = n·2^k to 2T. It gets the share w_k = ½·min(1/J, J/(k(k+1))) of the budget and of β,
J = 10, spread evenly over m_k runs, at the sizes ceil(T·2^{j/m_k}), j < m_k. m_k minimises the error that is guaranteed
throughout the doubling: few runs leave answers stale, many leave each run little budget. m_k = T: a run at every size.

*Privacy.* Σw_k = 1: the first J are 1/(2J) each, the others J/2·(1/k − 1/(k+1)), which telescopes. All is rational:
the runs cost the budget exactly. Neighbours replace one row. *Accuracy.* The same for β. A run's answers serve while
the database grows by at most the factor 2^{1/m}.

*Rate.* A box with error g·(1/(εt))^p·log^{p″}(t)·log^{p′}(1/β), at T = n·2^k. m minimises the error: any m bounds it.
zCDP: a run has ε = √(2ρw_k/m), staleness at most 2^{1/m} − 1 ≤ 1/m. With m = ⌈T^a⌉ ≤ 2T^a,

    error ≤ g·(m/(2ρw_k))^{p/2}·T^{−p}·logs + 1/m ≤ g·(ρw_k)^{−p/2}·T^{−p(1−a/2)}·logs + T^{−a},

logs = log^{p″}(2T)·log^{p′}(m/(βw_k)), where 1/w_k is of the order of log²T. a = p/(1+p/2) makes p(1−a/2) = a: the
error is T^{−p/(1+p/2)} up to logarithms at every T, with about T^a runs (p = 1: 2/3, where the paper's is ½ with T
runs). For p ≥ 2 take m = T: no staleness, and the error T^{−p/2}. Pure: a run has εw_k/m, the error is at most
g·(2/(εw_k))^p·T^{−p(1−a)}·logs + T^{−a}, and a = p/(1+p) balances them. The paper has no pure version.

The first J shares are equal: a logarithm of T is lost only beyond the first thousandfold growth. With 6/(π²(k+1)²) the
first doubling would get 100 times as much as the tenth, which would cost a third of the exponent there. The price of
equal shares: a schedule that knew beforehand that k+1 doublings are to come would give each of them 1/(k+1); the tenth
gets half of that here, the first a twentieth, the twentieth a quarter, the fortieth a seventh. Errors change with the
cube root of the share (p = 1).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from treering.budget.promise import Budget
from treering.params import Number, chance, positive, probability, whole
from treering.theory.ageing import Staleness, given_staleness
from treering.theory.schedule.epochs import (
    MOST_ROWS,
    AlphaOf,
    ImprovingSchedule,
    PlannedEpoch,
    last_at_most,
    log_of,
    rational_exp,
)
from treering.theory.schedule.paper import BoxRate
from treering.theory.schedule.scheduler import log_alpha

EQUAL: Final = 10
"""J: the number of doublings, from the first, that get the same share."""

_FRACTION_BITS: Final = 60
_PATIENCE: Final = 3
_REFINEMENTS: Final = (2**0.5, 2**0.25, 2**0.125, 2**0.0625)


def doubling_share(doubling: int) -> Fraction:
    """w_k = 1/(2J) for k < J, then J/(2k(k+1)); they sum to 1."""
    return Fraction(1, 2 * EQUAL) if doubling < EQUAL else Fraction(EQUAL, 2 * doubling * (doubling + 1))


@dataclass(frozen=True, slots=True)
class Doubling:
    """The runs while the database doubles from ``size`` rows."""

    first: int
    """The index of its first run, counted from the schedule's start."""
    size: int
    runs: int
    budget: Budget
    """What each run may spend."""
    beta: float
    """The probability with which each run may fail."""

    def size_of(self, run: int) -> int:
        """ceil(T·2^{j/m}), or T + j with a run at every size."""
        if self.runs == self.size:
            return self.size + run
        grown = int(math.ldexp(math.expm1(run * math.log(2) / self.runs), _FRACTION_BITS))
        return self.size - (-(self.size * grown) >> _FRACTION_BITS)

    def run_at(self, size: int) -> int:
        """The last run at or before a size within the doubling."""
        if self.runs == self.size:
            return size - self.size
        guess = math.floor(math.log2(size / self.size) * self.runs)
        return min(self.runs - 1, last_at_most(self.size_of, size, max(0, guess)))


class BoxImproving(ImprovingSchedule):
    """The improving schedule of a box, from its own bound ``alpha_of``.

    A doubling is planned when it is first asked for, with some thirty evaluations of the bound; the plan depends on
    nothing but the parameters.
    """

    def __init__(self, alpha_of: AlphaOf, start: int, budget: Budget, beta: Number, staleness: Staleness) -> None:
        super().__init__(whole(start, "start"), staleness)
        self.budget = budget
        """What all epochs together may cost."""
        chance(beta, "beta")
        self._beta = probability(beta, "beta")
        self._alpha_of = alpha_of
        self._doublings: list[Doubling] = []

    def doubling(self, number: int) -> Doubling:
        """Doubling k, counted from 0."""
        while len(self._doublings) <= number:
            self._doublings.append(self._plan(len(self._doublings)))
        return self._doublings[number]

    def size_of(self, index: int) -> int:
        """The rows at which run i opens."""
        doubling = self._holding(index)
        return doubling.size_of(index - doubling.first)

    def index_at(self, size: int) -> int:
        doubling = self.doubling((self._check_size(size) // self.start).bit_length() - 1)
        return doubling.first + doubling.run_at(size)

    def epoch(self, index: int) -> PlannedEpoch:
        """Run i, with the box's own bound for its static error (infinite beyond `MOST_ROWS`)."""
        doubling = self._holding(index)
        size, budget, beta = doubling.size_of(index - doubling.first), self._given(doubling.budget), doubling.beta
        alpha = self._alpha_of(size, budget, beta) if size <= MOST_ROWS else math.inf
        return PlannedEpoch(index, size, budget, beta, math.log(beta), alpha)

    def _given(self, budget: Budget) -> Budget:
        """The budget that a run is given, from its part of the whole budget."""
        return budget

    def _holding(self, index: int) -> Doubling:
        number = whole(index, "index", 0)
        while not self._doublings or self._doublings[-1].first + self._doublings[-1].runs <= number:
            self.doubling(len(self._doublings))
        return self._doublings[bisect_right(self._doublings, number, key=lambda each: each.first) - 1]

    def _plan(self, number: int) -> Doubling:
        size = self.start << number
        last = self._doublings[-1] if self._doublings else None
        first = last.first + last.runs if last else 0
        if last and size > MOST_ROWS:
            return self._with(number, first, size, min(size, last.runs))
        tried: dict[int, float] = {}

        def error(runs: int) -> float:
            if runs not in tried:
                tried[runs] = self._error(self._with(number, first, size, runs))
            return tried[runs]

        best = min(size, last.runs if last else 1)
        for factor in (2, 0.5):
            best = _downhill(error, best, factor, size)
        for factor in _REFINEMENTS:
            near = {max(1, min(size, round(best * factor))), max(1, min(size, round(best / factor))), best}
            best = min(sorted(near), key=error)
        # A run at every size leaves no staleness; the search above may not reach it.
        return self._with(number, first, size, min(best, size, key=error))

    def _with(self, number: int, first: int, size: int, runs: int) -> Doubling:
        share = doubling_share(number) / runs
        budget = Budget(self.budget.kind, self.budget.total * share)
        return Doubling(first, size, runs, budget, float(self._beta * share))

    def _error(self, doubling: Doubling) -> float:
        """The error throughout a doubling if the box's error falls with the size: that of the first run at its end."""
        alpha = math.exp(log_alpha(self._alpha_of, doubling.size, self._given(doubling.budget), doubling.beta))
        growth = 0.0 if doubling.runs == doubling.size else math.expm1(math.log(2) / doubling.runs)
        return self.staleness.worst(alpha, growth)


def _downhill(error: Callable[[int], float], runs: int, factor: float, most: int) -> int:
    """The best number of runs when it is multiplied by ``factor`` again and again, until several in a row are worse."""
    best, worse = runs, 0
    while worse < _PATIENCE:
        following = max(1, min(most, round(runs * factor)))
        if following == runs:
            break
        runs = following
        best, worse = (runs, 0) if error(runs) < error(best) else (best, worse + 1)
    return best


class RateImproving(BoxImproving):
    """The improving schedule of a (p, p1, p2, g)-black box: pure runs, with Σε_i or ½Σε_i² within the budget."""

    def __init__(self, start: int, budget: Budget, beta: Number, rate: BoxRate, staleness: Staleness) -> None:
        def alpha_of(size: int, given: Budget, failing: float) -> float:
            return rate.alpha(size, log_of(given.total), math.log(failing))

        super().__init__(alpha_of, start, budget, beta, staleness)

    def _given(self, budget: Budget) -> Budget:
        """A pure run's ε: its part of ε, or √(2ρ) rounded down."""
        if budget.kind == "pure":
            return budget
        return Budget("pure", rational_exp(log_of(2 * budget.total) / 2))


def improving_within(
    start: int, budget: Budget, beta: Number, rate: BoxRate, centred: bool = False
) -> ImprovingSchedule:
    """The tight schedule of a (p, p1, p2, g)-black box within a budget of either kind."""
    return RateImproving(start, budget, beta, rate, given_staleness(centred, None))


def improving_for(
    alpha_of: AlphaOf,
    start: int,
    budget: Budget,
    beta: Number,
    p: Number | None = None,
    centred: bool = True,
    *,
    staleness: Number | None = None,
) -> ImprovingSchedule:
    """The tight schedule of any box, by its own bound ``alpha_of(size, budget, beta)``, with a falling error.

    Formal guarantee. The runs' budgets, of the same kind as ``budget``, sum to at most ``budget`` over all time; but
    with probability β every answer is within `alpha_at` of the truth, up to `MOST_ROWS` rows. Neighbours replace one
    row. Proof: the module's docstring.

    Errors are (t/τ)α + (1−t/τ)·c with c = ½ if ``centred``, otherwise 1, or ``staleness``: for boxes whose error is an
    excess risk, Lipschitz constant times diameter. An error of 1 or more promises nothing *yet*. ``p``, the box's rate,
    is not needed: the gaps are chosen by the bound itself.
    """
    if p is not None:
        positive(p, "p")
    return BoxImproving(alpha_of, start, budget, beta, given_staleness(centred, staleness))
