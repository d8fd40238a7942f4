"""The row of a plan for Rings: a series for each group of questions, kept current for ever."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from treering.budget.promise import Budget
from treering.domain.groups import FEW_GROUPS
from treering.errors import ParameterError
from treering.noise import Gaussian, Noise
from treering.theory.cells import subset_radius
from treering.theory.continual import start_noise
from treering.theory.plan.rows import (
    Candidate,
    Case,
    Lifetime,
    batch_of,
    cell_law,
    estimate_share,
    kept_scale,
    mean_size,
    needed_scale,
    number,
    quarters,
)
from treering.theory.rings import estimate_share as share_of_series, first_law, margin, usual_price
from treering.words import counted

_ONE_GROUP: Final = ((1.0, 1),)
"""The centred weights of a question about one group of very many: those of one of fewer are smaller."""


class RingsCandidate(Candidate):
    """Rings told the number k of groups of questions as its ``pace``: each has a series, for a k-th of ⅘ of the budget.

    Guarantee: `treering.theory.rings`, for questions whose conditions are joined by AND, each answered by the series
    that it opened, alone or as one of its groups. Such a question is one group of its series, so its weights less their
    mean have Σa² < 1 and |a| < 1, and its error is at most that of one group's noise: log E e^{λaX} ≤ a²·log E e^{λX}
    (`treering.theory.plan.rows.declared_rows`). It is registered, so half of β·r_i·r_j over the number of periods is
    its share at leaf j of series i ≤ k. That falls in i and j; noise, and the rows that are there at each leaf, are
    those of `treering.theory.plan.rows.Continual`, with batches as there. So the worst is found in the same way.

    A question that sums several groups of its series (conditions joined by OR, about several attributes) has at most
    the square root of their number times the error.
    """

    name = "Rings"
    use = "Rings(db, ..., pace=)"
    create = "--mechanism rings"

    def alpha(self, case: Case) -> float:
        noise = self._noise(case)
        return math.inf if noise is None else noise.scale * _worst(kept_scale(noise), case.at(epsilon=1.0))

    def expected(self, case: Case, alpha: float) -> float | None:
        """The mean error of the first answer about a group."""
        noise = self._noise(case)
        if noise is None:
            return None
        # Gaussian noise lies on a grid of 1/4096 rows, and is as if it were continuous.
        mean = noise.scale * math.sqrt(2 / math.pi) if isinstance(noise, Gaussian) else mean_size(noise)
        return mean / case.size

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries, math.inf)

    def because(self, case: Case) -> str:
        return (
            f"{'a group' if case.queries == 1 else f'each of {case.queries:,.0f} groups'} of questions can have a part "
            "of the budget of its own, which a row pays once, and rows to come bring theirs"
        )

    def note(self, case: Case) -> str:
        if case.queries == math.inf:
            return "questions never end here, but later groups of them are less sharp: no one error holds for all"
        if self._noise(case) is None:
            return ""
        rows = margin(first_law(self._price(case), FEW_GROUPS), _ONE_GROUP)
        growing = f" kept current with batches of {counted(batch_of(case), 'row')} or more," if case.grows else ""
        return (
            f"for conditions joined by AND,{growing} and as many questions as you like about the same groups of rows; "
            f"a first answer is within ± {number(rows)} rows, with 95%"
        )

    def options(self, case: Case, alpha: float) -> str | None:
        return None if case.queries == math.inf else f"{self.create} --pace {case.queries:.0f}"

    def _price(self, case: Case) -> Budget:
        budget = case.budget
        return Budget(budget.kind, usual_price(budget.total, budget.total, 0, int(case.queries)))

    def _noise(self, case: Case) -> Noise | None:
        """The noise of a group in the first answer of a series."""
        if case.queries == math.inf:
            return None
        try:
            return start_noise(self._price(case))
        except ParameterError:  # too wide for any database
            return None


@lru_cache(maxsize=256)
def _worst(scale: float | None, case: Case) -> float:
    """The largest error of a group over all batches, in units of ``scale``, which is that of `kept_scale`; epsilon is
    ignored."""
    batch = batch_of(case)
    most = 1 + (case.horizon - case.size) / batch
    beta = share_of_series(case.beta, int(case.queries), 1, 1) / 2
    worst, segment = 0.0, 0
    while 2**segment <= most and 2**segment * batch < 8 * case.size:
        for first, leaves in quarters(segment):
            rows = case.size + (first - 1) * batch
            worst = max(worst, *(radius(needed_scale(scale, leaf), leaf, beta) / rows for leaf in leaves))
        segment += 1
    return worst


@lru_cache(maxsize=4096)
def radius(scale: float | None, leaf: int, beta: float) -> float:
    """The error of one group, in units of the scale, at a batch; ``beta`` is that of the series."""
    law, unit = cell_law(scale, leaf, FEW_GROUPS)
    return subset_radius(law, [1.0], [1], estimate_share(scale, leaf, FEW_GROUPS, beta)) / unit
