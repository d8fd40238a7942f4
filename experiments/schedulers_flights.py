"""The flights of 2013, day by day, through BBScheduler with three different boxes.

    python -m experiments.schedulers_flights [--quick] [--seed N]

N = 216 cells (origin, month, delay), January at first (27,004 flights), then a day at a time to the end of the year;
ε = 1, δ = 10^-9, β = 0.05 for each box. Every day the whole class of a box is asked: for HistogramBox 500 random
conjunctions and all 126 cells of the two-way marginals, for AnswersBox those 126, for MarginalsBox those and 500 random
conjunctions of two attributes. Claimed: every error within its bound, every bound within the guarantee, staleness
within γ/(1+γ), as many epochs as were planned at most and none of them failed, and the budget kept. By the theorem
an accuracy claim fails with probability at most β.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import treering as tr
from experiments.claims import ROUNDING, Claims
from experiments.flights_stream import stream_of_flights
from experiments.options import QUICK_BETA, options
from experiments.stream import Stream, Tally, spent_share
from treering.demo.flights import SCHEMA as ALL
from treering.domain.workload import marginals, random_conjunctions
from treering.theory.schedule import FixedSchedule, fixed_for

EPSILON, DELTA, BETA = 1.0, 1e-9, 0.05
START_DAY = 31
"""The last of January: what is there when the first question is asked."""
STEP, QUICK_STEP = 1, 28
"""Days to a batch."""
SCHEMA = tr.Schema({name: ALL.attributes[name] for name in ("origin", "month", "delay")})
RANDOM = 500


@dataclass(frozen=True)
class Case:
    """A box, and what is asked of it: all pairs, and random conjunctions of up to so many attributes."""

    name: str
    box: Callable[[], tr.Box]
    attributes: int

    def queries(self, generator: np.random.Generator) -> list[tr.Query]:
        """What is asked after a batch."""
        if self.attributes == 0:
            return PAIRS
        return [*random_conjunctions(SCHEMA, RANDOM, generator, ways=(1, self.attributes)), *PAIRS]

    def plan(self, start: int, beta: float) -> FixedSchedule:
        """The schedule that it will have."""
        budget = tr.Promise(EPSILON, DELTA).budget
        return fixed_for(self.box().bind(SCHEMA).alpha, start, budget, beta, centred=True)


PAIRS = marginals(SCHEMA, 2)
CASES = (
    Case("HistogramBox()", tr.HistogramBox, 3),
    Case("AnswersBox(queries)", lambda: tr.AnswersBox(PAIRS), 0),
    Case("MarginalsBox(2)", lambda: tr.MarginalsBox(2), 2),
)


@dataclass
class Course:
    """What became of one box, batch by batch."""

    case: Case
    start: int
    sizes: list[int] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    """The guarantee."""
    bounds: list[float] = field(default_factory=list)
    """The widest bound of an answer."""
    errors: list[float] = field(default_factory=list)
    """The largest error of an answer."""
    staleness: list[float] = field(default_factory=list)
    """The share of the rows that the epoch in force has not seen."""
    tally: Tally = field(default_factory=Tally)
    epochs: list[int] = field(default_factory=list)
    """Their sizes."""
    failed: int = 0
    spent: float = 0.0

    def add(self, scheduler: tr.BBScheduler, stream: Stream, queries: Sequence[tr.Query]) -> None:
        """Ask, and compare."""
        answers, truths, today = scheduler.ask_many(queries), stream.shares(queries), Tally()
        today.add(answers, truths)
        self.tally.add(answers, truths)
        size, epochs = stream.database.size, scheduler.epochs
        self.sizes.append(size)
        self.alphas.append(scheduler.guarantee.alpha)
        self.bounds.append(today.widest_bound)
        self.errors.append(today.worst_error)
        self.staleness.append(1 - scheduler.release.size / size)
        self.epochs = [epoch.size for epoch in epochs]
        self.failed = sum(epoch.error is not None for epoch in epochs)
        self.spent = spent_share(scheduler)


def run(step: int, beta: float, seed: int, cases: Sequence[Case] = CASES) -> list[Course]:
    """Stream the rest of the year past all boxes, each with a promise of its own."""
    generator, courses = np.random.default_rng(seed), list[Course]()
    schedulers: list[tr.BBScheduler] = []
    for stream in stream_of_flights(SCHEMA, START_DAY, step):
        if not courses:
            courses = [Course(case, stream.database.size) for case in cases]
            schedulers = [tr.BBScheduler(stream.database, case.box(), EPSILON, DELTA, beta) for case in cases]
        for course, scheduler in zip(courses, schedulers, strict=True):
            course.add(scheduler, stream, course.case.queries(generator))
    return courses


def check(courses: Sequence[Course], beta: float) -> Claims:
    """Print what came of each, and check the claims."""
    claims = Claims()
    for course in courses:
        name, plan = course.case.name, course.case.plan(course.start, beta)
        planned = plan.index_at(course.sizes[-1]) + 1
        stale = plan.growth / (1 + plan.growth)
        print(
            f"{name}: {course.tally.answered:,} answers in {len(course.sizes)} batches, {len(course.epochs)} epochs of "
            f"{planned} planned (γ = {plan.growth:.4f}); guarantee {plan.alpha:.4f}, widest bound "
            f"{course.tally.widest_bound:.4f}, worst error {course.tally.worst_error:.4f}, largest staleness "
            f"{max(course.staleness):.4f}; spent {course.spent:.1%}"
        )
        claims.accurate(name, course.tally, plan.alpha)
        claims.at_most(f"{name}: largest staleness", max(course.staleness), stale + ROUNDING)
        claims.at_most(f"{name}: epochs", len(course.epochs), min(planned, len(course.sizes)))
        claims.at_most(f"{name}: epochs that failed", course.failed, 0)
        claims.at_most(f"{name}: share of the budget spent", course.spent, 1.0)
    return claims


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and check the claims."""
    given = options(__doc__, arguments)
    step, beta = (QUICK_STEP, QUICK_BETA) if given.quick else (STEP, BETA)
    return check(run(step, beta, given.seed), beta).exit_code()


if __name__ == "__main__":
    sys.exit(main())
