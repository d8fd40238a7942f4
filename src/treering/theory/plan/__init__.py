"""The planner: which mechanism to use, and what it guarantees, for given parameters. Public arithmetic, no data.

No mechanism wins everywhere. Rings win while there are few groups of questions; one noisy histogram while cells are few
against the rows; PMWG for large universes and endless adaptive queries. A plan computes what each of them *guarantees*,
by theorems, for one set of parameters, and the paper's own constants beside them. The best is one that a vault can
have: `Plan.command` makes it.

*Inverse questions*: the least epsilon, or the fewest rows, with which a mechanism guarantees a wanted alpha. More
epsilon and more rows never make a guarantee worse, so the answer lies where `Candidate.meets` turns true, and what is
returned was checked with it. It is found by bisection, in logarithms; where a mechanism has a fast `shortfall`, by
secants on that, which is nearly a power law, and then checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from treering.budget.promise import Promise
from treering.errors import ParameterError
from treering.params import Number, probability, whole
from treering.theory.plan.growing import (
    GuardOnlyCandidate,
    PaperPMWGCandidate,
    PaperSmallDBGCandidate,
    PMWCandidate,
    PMWGCandidate,
    ScheduledCandidate,
    SmallDBCandidate,
)
from treering.theory.plan.persons import kinds, row_epsilon
from treering.theory.plan.report import Plan, PlanRow, Ranked, Wanted, rank, reason
from treering.theory.plan.rings import RingsCandidate
from treering.theory.plan.rows import (
    GUESS,
    Answers,
    Candidate,
    Case,
    Continual,
    DeclaredHistogram,
    Histogram,
    Learnt,
    Lifetime,
    PerQuery,
    Windows,
)
from treering.theory.search import narrowed

__all__ = ["Lifetime", "Plan", "PlanRow", "plan"]

STATIC: Final[tuple[Candidate, ...]] = (
    RingsCandidate(),
    PerQuery(),
    Continual(),
    Histogram(),
    DeclaredHistogram(),
    Learnt(),
    SmallDBCandidate(),
    PMWCandidate(),
    PMWGCandidate(),
    GuardOnlyCandidate(),
    PaperPMWGCandidate(),
)
"""The mechanisms compared for data that do not grow."""

GROWING: Final[tuple[Candidate, ...]] = (
    RingsCandidate(),
    PerQuery(),
    Histogram(),
    ScheduledCandidate(
        Histogram(),
        "BBScheduler over HistogramBox",
        "BBScheduler(db, HistogramBox(), ...)",
        "--mechanism scheduler",
    ),
    ScheduledCandidate(
        DeclaredHistogram(),
        "BBScheduler over HistogramBox(queries)",
        "BBScheduler(db, HistogramBox(queries), ...)",
        "--mechanism scheduler --questions questions.txt",
    ),
    ScheduledCandidate(
        Answers(),
        "BBScheduler over AnswersBox",
        "BBScheduler(db, AnswersBox(queries), ...)",
        "--mechanism scheduler --box answers --questions questions.txt",
    ),
    ScheduledCandidate(
        Learnt(),
        "BBScheduler over MWEM",
        "BBScheduler(db, MWEM(queries), ...)",
        "--mechanism scheduler --box mwem --questions questions.txt",
    ),
    ScheduledCandidate(
        SmallDBCandidate(),
        "SmallDBG",
        "SmallDBG(db, queries, ...)",
        "--mechanism scheduler --box smalldb --questions questions.txt",
    ),
    PaperSmallDBGCandidate(),
    Continual(),
    PMWGCandidate(),
    GuardOnlyCandidate(),
    PaperPMWGCandidate(),
)
"""The mechanisms compared for data that grow."""

DEFAULT_QUERIES: Final = 100
"""A human number: a dashboard of some dozens of figures, and as many ideas of analysts. Questions about the same groups
of rows (the months of a GROUP BY, the same figure again tomorrow) are one for `Rings`."""

LEAST_BETA: Final = 1e-100
"""The least beta: shares of a smaller one would underflow floats."""
MOST_CELLS: Final = 2**62
MOST_ROWS: Final = 2**60
MOST_ASKED: Final = 10**18


def plan(
    cells: int,
    size: float | None = None,
    epsilon: Number | None = None,
    delta: Number = 0.0,
    beta: Number = 0.05,
    queries: float = DEFAULT_QUERIES,
    horizon: float | None = math.inf,
    *,
    alpha: Number | None = None,
    adaptive: bool = True,
    batch: float | None = None,
    rows_per_person: int = 1,
) -> Plan:
    """Which mechanism to use, and what it guarantees.

    Give two of ``size``, ``epsilon`` and ``alpha``; every row of the plan then tells the third: the alpha guaranteed,
    the least epsilon for that alpha, or the fewest rows.

    ``cells``     the number of cells of the universe
    ``size``      the number of rows at the start
    ``epsilon``   of the promise (epsilon, delta), which holds for the whole life
    ``delta``     of the promise; 0 for pure differential privacy
    ``beta``      the probability with which the accuracy guarantee may fail
    ``queries``   how many queries will be asked (for Rings, how many groups of them: those of a GROUP BY are one);
                  math.inf: without end
    ``horizon``   the largest number of rows that matters; math.inf: for ever; None or ``size``: the data do not grow
    ``alpha``     the largest error wanted, as a share of the rows
    ``adaptive``  False if all queries are declared before any is answered; if True, mechanisms that need them declared
                  are listed, but never the best
    ``batch``     the least number of rows that come together; if it is given, there is a row for questions about the
                  latest batches, too. None: a hundredth of ``size``
    ``rows_per_person``  the most rows of one person, whom the promise is for: needs ``epsilon``. The plan then says,
                  too, how sharp counts of persons and of capped rows are

    The best is the one with the smallest alpha (or epsilon, or size) among those that a vault can have: ``command``
    makes it. Others are made in Python, by their ``use``, or are there to compare with.

    Formal guarantee. In every row, (epsilon, delta) is the promise for databases that differ in one row, replaced, over
    the whole life; and but with probability beta *all* answers at all sizes from ``size`` to ``horizon`` are within
    ``row.alpha``, for as long as ``row.lifetime`` says. Each is a theorem; the docstring of the row's class (in
    `treering.theory.plan.rows`, `treering.theory.plan.rings` and `treering.theory.plan.growing`) says where its proof
    is, and what questions it is about. ``row.expected`` is a typical error, not a guarantee: see `PlanRow`.

    >>> plan(cells=128, size=1_000_000, epsilon=1.0, horizon=None).best.name
    'ContinualHistogram'
    >>> plan(cells=2**40, size=1_000_000, epsilon=1.0, delta=1e-9).best.name
    'Rings'
    """
    wanted = _wanted(size, epsilon, alpha)
    if epsilon is None and rows_per_person != 1:
        raise ParameterError("rows_per_person", "needs epsilon, the promise for a person: plan with it")
    own = None if epsilon is None else row_epsilon(epsilon, delta, rows_per_person)
    case = _case(cells, size, own, delta, beta, queries, horizon, batch)
    goal = None if alpha is None else float(probability(alpha, "alpha"))
    if not isinstance(adaptive, bool):
        raise ParameterError("adaptive", f"must be True or False, not {type(adaptive).__name__}")
    candidates = GROWING if case.grows else STATIC
    if case.grows and case.batch is not None:
        candidates = (*candidates, Windows())
    ranked = rank([_ranked(each, case, wanted, goal, adaptive) for each in candidates], wanted)
    return Plan(
        wanted,
        case.cells,
        None if wanted == "size" else case.size,
        None if wanted == "epsilon" else float(epsilon or 0.0),
        case.delta,
        case.beta,
        case.queries,
        case.horizon if case.grows else None,
        goal,
        adaptive,
        tuple(each.row for each in ranked),
        ranked[0].row if ranked[0].eligible else None,
        reason(ranked, wanted),
        rows_per_person,
        () if epsilon is None or rows_per_person == 1 else kinds(epsilon, delta, rows_per_person),
    )


# -- parameters --------------------------------------------------------------------------------------------------------


def _wanted(size: float | None, epsilon: Number | None, alpha: Number | None) -> Wanted:
    given = [name for name, value in (("size", size), ("epsilon", epsilon), ("alpha", alpha)) if value is not None]
    if len(given) == 2:
        return "size" if size is None else "epsilon" if epsilon is None else "alpha"
    if len(given) == 3:
        raise ParameterError(
            "alpha", "must be left out when size and epsilon are given: leave out what you want to know"
        )
    missing = next(name for name in ("size", "epsilon", "alpha") if name not in given)
    raise ParameterError(missing, "must be given: a plan needs two of size, epsilon and alpha, and finds the third")


def _case(
    cells: int,
    size: float | None,
    epsilon: Number | None,
    delta: Number,
    beta: Number,
    queries: float,
    horizon: float | None,
    batch: float | None = None,
) -> Case:
    universe = _count(cells, "cells", 2, MOST_CELLS)
    rows = 1 if size is None else _count(size, "size", 1, MOST_ROWS)
    promise = Promise(1.0 if epsilon is None else epsilon, delta)
    number = math.inf if _endless(queries) else float(_count(queries, "queries", 1, MOST_ASKED))
    last = float(
        rows if horizon is None else math.inf if _endless(horizon) else _count(horizon, "horizon", 1, MOST_ROWS)
    )
    if last < rows:
        raise ParameterError("horizon", f"must be at least the starting size, {rows:,}, not {last:,.0f}")
    failing = float(probability(beta, "beta"))
    if failing < LEAST_BETA:
        raise ParameterError("beta", f"must be at least {LEAST_BETA:g}, not {failing:g}")
    least = None if batch is None else _count(batch, "batch", 1, MOST_ROWS)
    return Case(universe, rows, float(promise.epsilon), float(promise.delta), failing, number, last, least)


def _count(value: float, name: str, least: int, most: int) -> int:
    """A whole number within the limits; a float such as 1e6 counts as one."""
    if isinstance(value, float):
        if not value.is_integer():
            raise ParameterError(name, f"must be an integer of at least {least}, not {value!r}")
        value = int(value)
    number = whole(value, name, least)
    if number > most:
        raise ParameterError(name, f"must be at most {most:,}, not {number:,}")
    return number


def _endless(value: float) -> bool:
    return isinstance(value, float) and value == math.inf


# -- the rows of a plan ------------------------------------------------------------------------------------------------


def _ranked(candidate: Candidate, case: Case, wanted: Wanted, goal: float | None, adaptive: bool) -> Ranked:
    epsilon, size = case.epsilon, float(case.size)
    if goal is not None and wanted == "epsilon":
        epsilon = least_epsilon(candidate, case, goal)
    elif goal is not None:
        size = least_size(candidate, case, goal)
    if not (math.isfinite(epsilon) and math.isfinite(size)):
        return Ranked(_hopeless(candidate, case, wanted, epsilon, size), False, False, "")
    there = case.at(epsilon=epsilon, size=int(size))
    reached = candidate.alpha(there) if goal is None else goal
    lifetime = candidate.lifetime(there)
    row = PlanRow(
        candidate.name,
        candidate.use,
        reached,
        candidate.expected(there, reached) if reached < math.inf else None,
        lifetime,
        epsilon,
        size,
        candidate.declared,
        candidate.runs(there),
        "; ".join(
            note for note in (candidate.note(there), "" if candidate.runs(there) else candidate.limit(there)) if note
        ),
        candidate.options(there, reached) if reached < GUESS else None,
    )
    eligible = row.guaranteed and row.runs and row.create is not None and not (adaptive and candidate.declared)
    return Ranked(row, eligible, lifetime.covers(there), candidate.because(there))


def _hopeless(candidate: Candidate, case: Case, wanted: Wanted, epsilon: float, size: float) -> PlanRow:
    """The row of a mechanism that cannot reach alpha with any epsilon, or any number of rows."""
    words = "no epsilon would do" if wanted == "epsilon" else "no number of rows would do"
    return PlanRow(
        candidate.name,
        candidate.use,
        math.inf,
        None,
        Lifetime(0, 0),
        epsilon,
        size,
        candidate.declared,
        candidate.runs(case),
        words,
    )


# -- inverse questions: the least epsilon, the fewest rows -------------------------------------------------------------


LEAST_EPSILON: Final = 1e-9
MOST_EPSILON: Final = 1e6

_CLOSE: Final = 0.002
_HIGHEST: Final = 50.0
_NEAR: Final = 3e-4
_FLAT: Final = -0.15
"""If log shortfall falls more slowly than this per log epsilon, a secant on it is too inexact: bisect."""


def least_epsilon(candidate: Candidate, case: Case, alpha: float) -> float:
    """The least epsilon with which ``candidate`` guarantees alpha, within one per cent; infinite if above 10^6."""
    goal = alpha * (1 - candidate.coarseness)
    return _least(
        lambda epsilon: candidate.meets(case.at(epsilon=epsilon), goal),
        lambda epsilon: candidate.shortfall(case.at(epsilon=epsilon), goal),
        1.0,
        LEAST_EPSILON,
        MOST_EPSILON,
    )


def least_size(candidate: Candidate, case: Case, alpha: float) -> float:
    """The fewest starting rows with which ``candidate`` guarantees alpha, within one per cent or a row.

    Infinite if 2^60 rows, or as many as the horizon, are too few.
    """
    goal = alpha * (1 - candidate.coarseness)
    most = min(float(MOST_ROWS), case.horizon) if case.grows else float(MOST_ROWS)
    found = _least(
        lambda size: candidate.meets(case.at(size=math.ceil(size)), goal),
        lambda size: candidate.shortfall(case.at(size=math.ceil(size)), goal),
        min(most, 1e6),
        1.0,
        most,
    )
    return found if found == math.inf else float(math.ceil(found))


def _least(
    meets: Callable[[float], bool],
    shortfall: Callable[[float], float | None],
    guess: float,
    least: float,
    most: float,
) -> float:
    """The least argument from which on ``meets`` is true; ``guess`` is where the search begins."""
    if shortfall(guess) is None:
        return _bisected(meets, guess, least, most, 4.0)
    found, flat = _root(lambda place: _height(shortfall(place)), guess, least, most)
    near = min(most, max(least, found))  # exp and log round
    for step in range(1, 1 if flat else 9):
        trial = min(most, near * (1 + 0.0015 * step))
        if meets(trial):
            return trial
    return _bisected(meets, near, least, most, 1.05, 0.01)


def _height(value: float | None) -> float:
    return _HIGHEST if value is None or value == math.inf else min(_HIGHEST, math.log(value))


def _root(height: Callable[[float], float], guess: float, least: float, most: float) -> tuple[float, bool]:
    """About where a falling function changes its sign, and whether it is flat there, or that is an end of the range."""
    low, high = math.log(least), math.log(most)
    place = other = math.log(guess)
    value = beyond = height(guess)
    while value * beyond > 0:  # go outwards until the sign changes
        if other == (high if beyond > 0 else low):
            return math.exp(other), True
        place, value = other, beyond
        step = math.copysign(min(4.0, max(0.3, 1.3 * abs(value))), value)
        other = min(high, max(low, place + step))
        beyond = height(math.exp(other))
    (left, above), (right, below) = sorted([(place, value), (other, beyond)])
    halve = above >= _HIGHEST
    while right - left > _NEAR and min(above, -below) > _NEAR:  # secants; bisect where one did not halve
        width = right - left
        place = (left + right) / 2 if halve else left + width * above / (above - below)
        value = height(math.exp(place))
        left, above, right, below = (place, value, right, below) if value > 0 else (left, above, place, value)
        halve = right - left > width / 2 and not halve
    slope = (below - above) / max(right - left, _NEAR)
    return math.exp(left if above < -below else right), slope > _FLAT


def _bisected(
    meets: Callable[[float], bool], guess: float, least: float, most: float, step: float, close: float = _CLOSE
) -> float:
    """The least argument for which ``meets`` is true: from a guess by growing factors, then by bisection."""
    low, high = least, most
    if meets(guess):
        high = guess
        while high > least and meets(trial := max(least, high / step)):
            high, step = trial, step**2
        if high <= least:
            return least
        low = trial
    else:
        low = guess
        while low < most and not meets(trial := min(most, low * step)):
            low, step = trial, step**2
        if low >= most:
            return math.inf
        high = trial
    return narrowed(meets, low, high, close)
