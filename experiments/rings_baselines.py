"""Rings beside what else one could do with the same promise, on the same rows and questions.

    python -m experiments.rings_baselines [--quick] [--seed N]

The flights of 2013 over N = 20,736 cells, from the end of April on; ε = 1, δ = 10^-6, whole, for each. Errors are means
over all questions, in rows, of answers that are clipped to what is possible. Three workloads:

- *dashboard*: the demonstration's stream and its 16,860 questions, day by day; a pace of 10. The analyst's questions
  depend on answers: those that were put to Rings are put to all.
- *ad hoc*: 1,000 different random conjunctions of two to four attributes, some every week, each by itself. They share
  nothing: hardly any is a union of groups of another. Rings are told their number as the pace. One run is too short to
  tell 1.12 from 1.15, so it has several of Rings, and many of noise for each question.
- *marginals*: all 684 counts of the ten two-way marginals, every week; a pace of 10.

The others are given what helps them, beforehand. *Gaussian noise for each question*: told how many there will be, each
gets an even part; one that is asked again before rows have come is not counted. *For each table*, of the marginals:
the same, but a row is in one cell of a table only, so a table is one question, at twice the price of a count. *A noisy
histogram of all cells*: told how often the table will have grown when somebody asks, it is made anew each time, with an
even part, and its total is set right. *ContinualHistogram*: ours, of all cells. *MWEM*, told all questions, and
*MarginalsBox* (noisy two-way marginals, fitted by mbi) are run anew at doublings, with an even part each time; in
between answers are shares of the table that was. PMWG has α = 0.05.

Claimed: the mean error of Rings is at most 1.05 times that of the best of the others with the dashboard and with the
marginals, at most 1.15 times with the ad hoc questions, and at most a tenth of PMWG's with the dashboard. (With
questions that share nothing, nothing can be better than noise for each of them; Rings keep a fifth of the budget for
questions after those they were told of, which is a factor of 1.12.) The quick run has three weeks of questions, a tenth
of those ad hoc, no MarginalsBox, and wider limits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

import treering as tr
from experiments.claims import Claims
from experiments.flights_stream import LAST_DAY, START_DAY, stream_of_flights
from experiments.options import QUICK_BETA, options
from experiments.record import Record, Row, column, where
from experiments.stream import Stream
from treering.budget.promise import Budget
from treering.demo.flights import SCHEMA
from treering.demo.story import BETWEEN, DASHBOARD, PACE, drill_down
from treering.domain.query import evaluate_many
from treering.domain.workload import marginals, random_conjunctions
from treering.noise import Gaussian
from treering.pictures.svg import Dots, Panel
from treering.trusted.noise import draw

Shares = npt.NDArray[np.float64]
Batch = Sequence[tr.Query]

PROMISE, ALPHA, BETA = tr.Promise(1.0, 1e-6), 0.05, 0.05
RHO = float(PROMISE.budget.total)
QUESTIONS, QUICK_QUESTIONS = 1_000, 100
RINGS, NOISES, QUICK_RINGS = 12, 50, 2
"""How many of them are run on the ad hoc questions."""
ROUNDS = 100
"""Of MWEM. Its theorem would have it make a thousand; those of 30, 100 and 300 that were tried did better."""
TIMES, QUICK_TIMES = 2, 1
"""How often the rows of the end of April double by the end, and once more for the first time."""
WEEK, QUICK_DAYS = 7, START_DAY + BETWEEN
PAIRS = marginals(SCHEMA, 2)
OURS, PAPER = "Rings", "PMWG"
COLOURS = {
    OURS: "#2563eb",
    "ContinualHistogram": "#059669",
    PAPER: "#dc2626",
    "noise for each question": "#111827",
    "noise for each table": "#6b7280",
    "noisy histogram each time": "#d97706",
    "MWEM at doublings": "#7c3aed",
    "MarginalsBox at doublings": "#db2777",
}


# -- those that answer -------------------------------------------------------------------------------------------------


class Answerer(Protocol):
    """Somebody who is asked batches of questions about a stream."""

    def __call__(self, stream: Stream, batch: Batch) -> Shares:
        """The shares of the rows so far that match the questions."""


class Ours:
    """A mechanism of this package, made when it is first asked."""

    def __init__(self, make: Callable[[tr.GrowingDatabase], tr.Rings | tr.PMWG | tr.ContinualHistogram]) -> None:
        self._make = make
        self._made: tr.Rings | tr.PMWG | tr.ContinualHistogram | None = None

    def __call__(self, stream: Stream, batch: Batch) -> Shares:
        if self._made is None:
            self._made = self._make(stream.database)
        return np.array([answer.value for answer in self._made.ask_many(batch)])


class Noise:
    """Gaussian noise for each question: an even part of the budget for each of so many.

    A count of variance σ² costs 1/(2σ²). As the cells of tables, a row's move from one to another costs 1/σ².
    """

    def __init__(self, questions: int, *, tables: bool = False) -> None:
        self._noise = Gaussian(math.sqrt(questions * (2 if tables else 1) / (2 * RHO)))
        self._known: dict[tuple[int, tr.Query], int] = {}

    def __call__(self, stream: Stream, batch: Batch) -> Shares:
        size = stream.database.size
        new = [query for query in dict.fromkeys(batch) if (size, query) not in self._known]
        drawn = draw(self._noise, 1, len(new)).tolist() if new else []
        self._known |= {(size, query): noise for query, noise in zip(new, drawn, strict=True)}
        noise = np.array([self._known[size, query] for query in batch])
        return _clipped(stream.shares(batch) + noise / size)


class Histogram:
    """Noise in every cell, drawn anew whenever the table has grown: an even part of the budget for each time.

    At this scale, of a hundred rows, normal noise can stand for the exact one.
    """

    def __init__(self, times: int, generator: np.random.Generator) -> None:
        self._scale, self._generator, self._size = math.sqrt(times / RHO), generator, 0

    def __call__(self, stream: Stream, batch: Batch) -> Shares:
        if self._size != stream.database.size:
            self._size = stream.database.size
            noise = self._generator.normal(scale=self._scale, size=SCHEMA.cells)
            self._noise = (noise - noise.mean()).reshape(SCHEMA.shape)
        noise = evaluate_many(batch, self._marginal, np.float64)
        return _clipped(stream.shares(batch) + noise / self._size)

    def _marginal(self, attributes: tuple[int, ...]) -> Shares:
        others = tuple(axis for axis in range(self._noise.ndim) if axis not in attributes)
        marginal: Shares = self._noise.sum(axis=others)
        return marginal


class AtDoublings:
    """A box that is run whenever the table has doubled: an even part of the budget for each time until the end."""

    def __init__(self, box: tr.Box, times: int) -> None:
        self._box, self._next = box.bind(SCHEMA), 0
        self._part = Budget("zcdp", PROMISE.budget.total / times)

    def __call__(self, stream: Stream, batch: Batch) -> Shares:
        size = stream.database.size
        if size >= self._next:
            self._next = 2 * size
            self._release = self._box.run(stream.database.open_gate(self._part), self._part, 1.0, BETA)
        return _clipped(self._release.shares(batch)[0])


def _clipped(shares: Shares) -> Shares:
    return np.clip(shares, 0.0, 1.0)


# -- what is asked -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """The batches that are asked after each append; the first is of all days up to the start."""

    name: str
    step: int
    """Days to an append."""
    stages: Sequence[Sequence[Batch]]

    @property
    def questions(self) -> int:
        """How many there are, without those that are asked again of the same rows."""
        return sum(len({query for batch in stage for query in batch}) for stage in self.stages)

    @property
    def asked(self) -> int:
        """How many there are."""
        return sum(len(batch) for stage in self.stages for batch in stage)

    @property
    def different(self) -> list[tr.Query]:
        """What is ever asked."""
        return list(dict.fromkeys(query for stage in self.stages for batch in stage for query in batch))

    def errors(self, answerers: Mapping[str, Sequence[Answerer]]) -> dict[str, float]:
        """The mean errors, in rows, of those who are asked."""
        found: dict[str, list[float]] = {name: [] for name in answerers}
        for stage, stream in zip(self.stages, stream_of_flights(step=self.step), strict=False):
            for batch in stage:
                truths = stream.shares(batch)
                for name, several in answerers.items():
                    for each in several:
                        off = np.abs(each(stream, batch) - truths) * stream.database.size
                        found[name] += off.tolist()
        return {name: float(np.mean(each)) for name, each in found.items()}


def dashboard(quick: bool, beta: float) -> tuple[Workload, float]:
    """The demonstration's questions, and the mean error of Rings, whose answers the analyst follows."""
    step, last = (WEEK, QUICK_DAYS) if quick else (1, LAST_DAY)
    rings = Ours(lambda db: tr.Rings(db, PROMISE, beta=beta, pace=PACE))
    stages: list[list[Batch]] = []
    off: list[float] = []
    for day, stream in zip(range(START_DAY, last + 1, step), stream_of_flights(step=step), strict=False):
        stage: list[Batch] = []

        def ask(texts: Sequence[str], stream: Stream = stream, stage: list[Batch] = stage) -> list[tr.Answer]:
            batch = [_parsed(text) for text in texts]
            stage.append(batch)
            shares, size = rings(stream, batch), stream.database.size
            off.extend((np.abs(shares - stream.shares(batch)) * size).tolist())
            return [tr.Answer(share, 1.0, size, "measured") for share in shares.tolist()]

        ask(DASHBOARD)
        if (day - START_DAY) % BETWEEN == 0:
            drill_down(ask, (date(2013, 1, 1) + timedelta(days=day - 1)).month)
        stages.append(stage)
    return Workload("dashboard", step, stages), float(np.mean(off))


_texts: dict[str, tr.Query] = {}


def _parsed(text: str) -> tr.Query:
    if text not in _texts:
        _texts[text] = tr.parse(text, SCHEMA)
    return _texts[text]


def ad_hoc(questions: int, weeks: int, generator: np.random.Generator) -> Workload:
    """Different random questions, spread over the weeks, each by itself."""
    asked: dict[tr.Query, None] = {}
    while len(asked) < questions:
        asked |= dict.fromkeys(random_conjunctions(SCHEMA, questions - len(asked), generator, ways=(2, 4)))
    listed = list(asked)
    ends = [questions * week // weeks for week in range(weeks + 1)]
    stages = [[[query] for query in listed[first:last]] for first, last in pairwise(ends)]
    return Workload("ad hoc", WEEK, stages)


# -- comparing ---------------------------------------------------------------------------------------------------------


def others(workload: Workload, beta: float, generator: np.random.Generator) -> dict[str, list[Answerer]]:
    """Those with whom Rings are compared on any workload."""
    return {
        "noise for each question": [Noise(workload.questions)],
        "noisy histogram each time": [Histogram(len(workload.stages), generator)],
        "ContinualHistogram": [Ours(lambda db: tr.ContinualHistogram(db, PROMISE, beta=beta))],
    }


def report(claims: Claims, record: Record, workload: Workload, errors: dict[str, float], limit: float) -> None:
    """Print a table, and claim that Rings are hardly worse than the best of the others."""
    print(f"{workload.name}: {workload.asked:,} questions, {len(workload.different):,} different; mean errors in rows")
    for name, error in sorted(errors.items(), key=lambda item: item[1]):
        print(f"  {error:>9,.0f}  {name}")
        record.add({"workload": workload.name, "questions": workload.asked, "mechanism": name, "mean_error": error})
    best = min(error for name, error in errors.items() if name != OURS)
    claims.at_most(f"{workload.name}: Rings / the best of the others", errors[OURS] / best, limit)


def panel(rows: Sequence[Row]) -> Panel:
    """The mean errors: workloads from left to right, a colour for each mechanism."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    dots = []
    for mechanism, colour in COLOURS.items():
        found = where(rows, mechanism=mechanism)
        places = [1.0 + workloads.index(row["workload"]) for row in found]
        dots.append(Dots(mechanism, places, column(found, "mean_error"), colour))
    labels = ", ".join(f"{place} {name}" for place, name in enumerate(workloads, 1))
    return Panel("", labels, "mean error, in rows", [each for each in dots if each.x], y_log=True)


@dataclass(frozen=True)
class Comparison:
    """The three comparisons, short or long."""

    quick: bool
    claims: Claims
    record: Record
    generator: np.random.Generator

    @property
    def beta(self) -> float:
        """The probability that a promise fails."""
        return QUICK_BETA if self.quick else BETA

    @property
    def weeks(self) -> int:
        """In how many weeks questions are asked."""
        return 1 + (BETWEEN if self.quick else LAST_DAY - START_DAY) // WEEK

    def _mwem(self, workload: Workload) -> list[Answerer]:
        return [AtDoublings(tr.MWEM(workload.different, ROUNDS), QUICK_TIMES if self.quick else TIMES)]

    def _rings(self, pace: int) -> Answerer:
        return Ours(lambda db: tr.Rings(db, PROMISE, beta=self.beta, pace=pace))

    def dashboard(self) -> None:
        """The demonstration's questions."""
        workload, ours = dashboard(self.quick, self.beta)
        compared = others(workload, self.beta, self.generator) | {"MWEM at doublings": self._mwem(workload)}
        compared[PAPER] = [Ours(lambda db: tr.PMWG(db, PROMISE, alpha=ALPHA, beta=self.beta))]
        errors = {OURS: ours} | workload.errors(compared)
        report(self.claims, self.record, workload, errors, 1.05)
        # With fewer rows PMWG has less to learn, and with fewer answers chance has more to say.
        self.claims.at_most("dashboard: Rings / PMWG", ours / errors[PAPER], 0.5 if self.quick else 0.1)

    def ad_hoc(self) -> None:
        """Questions that share nothing."""
        questions, number = (QUICK_QUESTIONS, QUICK_RINGS) if self.quick else (QUESTIONS, RINGS)
        workload = ad_hoc(questions, self.weeks, self.generator)
        compared = others(workload, self.beta, self.generator) | {"MWEM at doublings": self._mwem(workload)}
        compared["noise for each question"] = [Noise(workload.questions) for _ in range(NOISES)]
        compared[OURS] = [self._rings(questions) for _ in range(number)]
        report(self.claims, self.record, workload, workload.errors(compared), 1.5 if self.quick else 1.15)

    def marginals(self) -> None:
        """All two-way marginals, week by week."""
        workload = Workload("marginals", WEEK, [[PAIRS]] * self.weeks)
        compared = others(workload, self.beta, self.generator)
        compared["noise for each table"] = [Noise(self.weeks * math.comb(len(SCHEMA.shape), 2), tables=True)]
        if not self.quick:  # its fit takes long to compile
            compared["MarginalsBox at doublings"] = [AtDoublings(tr.MarginalsBox(2), TIMES)]
        compared[OURS] = [self._rings(PACE)]
        report(self.claims, self.record, workload, workload.errors(compared), 1.5 if self.quick else 1.05)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    record = Record("rings_baselines", keep=not given.quick)
    comparison = Comparison(given.quick, Claims(), record, np.random.default_rng(given.seed))
    comparison.dashboard()
    comparison.ad_hoc()
    comparison.marginals()
    record.finish("The flights of 2013 under one promise, three workloads", [panel(record.rows)], aside=True)
    return comparison.claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
