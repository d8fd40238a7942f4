"""Schedules for static algorithms on a growing database: the paper's BBScheduler and BBImprover, and ours.

`fixed` and `improving` are for boxes whose error follows the paper's rate; `fixed_for` and `improving_for` for any box,
by its own proven bound. All are public arithmetic. Neighbours replace one row; logarithms are natural.
"""

from __future__ import annotations

from treering.budget.promise import Promise
from treering.errors import GuaranteeError
from treering.params import Number, Profile, check_profile
from treering.theory.ageing import Staleness
from treering.theory.schedule.epochs import MOST_ROWS, AlphaOf, FixedSchedule, ImprovingSchedule, PlannedEpoch, Schedule
from treering.theory.schedule.improver import improving_for, improving_within
from treering.theory.schedule.paper import (
    PaperFixed,
    PaperImproving,
    check_c,
    covers,
    overtaking,
    overtaking_exponent,
    paper_growth,
    paper_start,
    rate_of,
)
from treering.theory.schedule.scheduler import fixed_for, fixed_logarithm, fixed_start, fixed_within
from treering.words import counted

__all__ = [
    "MOST_ROWS",
    "AlphaOf",
    "FixedSchedule",
    "ImprovingSchedule",
    "PlannedEpoch",
    "Profile",
    "Schedule",
    "Staleness",
    "fixed",
    "fixed_for",
    "fixed_logarithm",
    "fixed_start",
    "fixed_within",
    "improving",
    "improving_for",
    "improving_within",
    "overtaking",
    "overtaking_exponent",
    "paper_growth",
    "paper_start",
    "rate_of",
]


def fixed(
    start: int,
    epsilon: Number,
    delta: Number,
    beta: Number,
    p: Number,
    g: Number,
    profile: Profile = "tight",
    centred: bool = False,
) -> FixedSchedule:
    """A schedule that reruns a (p, g)-black box from ``start`` rows on for ever, with one error `FixedSchedule.alpha`.

    The box is ε-DP with error g·(log(1/β)/(εn))^p at n rows, as a share of the rows. ``epsilon`` and ``delta`` are the
    promise for all reruns together, ``beta`` the failure probability of all answers together.

    Formal guarantee. Running the epochs as planned is (epsilon, delta)-DP: Σε_i ≤ ε, or for δ > 0 ½Σε_i² ≤ ρ(ε, δ). But
    with probability β every answer, from the epoch that serves the present size, is within `alpha_at` of the truth.
    Proofs: `treering.theory.schedule.paper` and `treering.theory.schedule.scheduler`.

    The error counts α + (1−t/τ) like the paper, at most α + γ/(1+γ); ``centred`` is for answers (t/τ)y + (1−t/τ)/2:
    (t/τ)α + (1−t/τ)/2. ``tight`` is never above ``paper``. ``paper`` needs γ in (0, 1) (else `GuaranteeError` names the
    start that would do), and with δ > 0 ε ≤ 1 and δ < 1/e. Where the paper's schedule exists ours does, too, and an
    `alpha` of 1 or more promises nothing; elsewhere ours is refused if it promises nothing.

    >>> g = 14.508  # SmallDB with N = k = 1000
    >>> paper, tight = (fixed(10**8, 1.0, 0.0, 0.05, 1 / 3, g, profile) for profile in ("paper", "tight"))
    >>> round(paper.alpha, 3), round(tight.alpha, 4), round(tight.growth, 3)
    (0.307, 0.2205, 0.069)
    """
    check_profile(profile)
    if profile == "paper":
        return PaperFixed(start, epsilon, delta, beta, p, g, centred)
    budget = Promise(epsilon, delta).budget
    papers = paper_growth(start, epsilon, delta, beta, p, g)
    schedule = fixed_within(start, budget, beta, p, g, centred, also=(papers,))
    if schedule.alpha >= 1 and (papers >= 1 or covers(epsilon, delta)):
        raise GuaranteeError(
            f"no schedule guarantees an error below 1 from {counted(start, 'row')} on; start with about "
            f"{counted(fixed_start(budget, beta, p, g, centred), 'row')}, or with a larger epsilon"
        )
    return schedule


def improving(
    start: int,
    epsilon: Number,
    delta: Number,
    beta: Number,
    p: Number,
    p1: Number,
    p2: Number,
    g: Number,
    c: Number | None = None,
    profile: Profile = "tight",
    centred: bool = False,
) -> ImprovingSchedule:
    """A schedule that reruns a (p, p1, p2, g)-black box from ``start`` rows on, its error falling as the data grow.

    The box is ε-DP with error g·(1/(εn))^p·log^{p2}(n)·log^{p1}(1/β) at n rows. ``epsilon`` and ``delta`` are the
    promise for all reruns together, ``beta`` the failure probability of all answers together.

    Formal guarantee. Running the epochs as planned is (epsilon, delta)-DP, and but with probability β every answer is
    within `alpha_at` of the truth: as for `fixed`. Proofs: `treering.theory.schedule.paper` and
    `treering.theory.schedule.improver`.

    ``paper`` reruns at every size; c is its free parameter, 0 < c ≤ start/2, and it needs 0 < δ < 1/e and ε ≤ 1.
    ``tight`` reruns at growing gaps, which it chooses itself (c is checked and not used), and allows δ = 0. ``centred``
    halves its staleness; the paper's schedule has none. An error of 1 or more promises nothing *yet*.

    >>> improving(1000, 0.9, 1e-6, 0.05, 1, 1, 0, 10, 0.1, "paper").at(1000).alpha  # doctest: +ELLIPSIS
    432.722219...
    """
    check_profile(profile)
    rate = rate_of(p, p1, p2, g)
    if profile == "paper":
        return PaperImproving(start, epsilon, delta, beta, rate, c)
    if c is not None:
        check_c(c, start)
    return improving_within(start, Promise(epsilon, delta).budget, beta, rate, centred)
