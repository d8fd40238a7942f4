"""The demonstration's run: a year of flights arrives day by day in a vault, queries are asked, and a model learns.

Every day a dashboard asks a fixed list of queries; every second week an analyst asks adaptive ones (the last section).
One `Rings` answers both.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from treering.answer import Answer
from treering.arrays import Flags, Floats, Ints
from treering.demo.flights import CARRIERS, HOURS, ORIGINS, SCHEMA, cells_of, days, flights
from treering.domain.language.parse import parse
from treering.domain.problem import FEATURE_UNIT, CellFeatures
from treering.domain.query import Query, evaluate
from treering.vault.vault import Vault

EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05
FIRST_DAY, BETWEEN = 120, 14
"""Questions are asked from the end of April on: the dashboard's every day, the analyst's every second week."""
FEATURES: Final = ("origin", "carrier", "month", "hour")
QUESTIONS, LEARNING = 0.3, 0.3
"""The shares of the promise: of the questions, and of the model. The rest is for whoever comes later."""
EVERY: Final = 1.25
"""The model is trained when flights have grown by a quarter, on the new ones: so it follows the seasons."""
TESTED: Final = 28
"""The days whose flights tell how good the model is."""
PACE: Final = 10
"""About how many groups of questions there will be: by airport, by carrier, by hour and so on, each with the delay."""

Advance = Callable[[int, int, str], None]
"""A callback for progress: called with the days that are done, the number of days, and a short text."""


class Truth:
    """The exact counts. Only a demonstration on public data may look at them."""

    def __init__(self) -> None:
        self.counts: Ints = np.zeros(SCHEMA.cells, dtype=np.int64)

    def add(self, cells: Ints) -> None:
        """Count a day's flights."""
        self.counts += np.bincount(cells, minlength=SCHEMA.cells)

    def share(self, query: Query) -> float:
        """The true share of the flights so far that match the query."""
        table = self.counts.reshape(SCHEMA.shape)
        others = tuple(axis for axis in range(table.ndim) if axis not in query.attributes)
        return float(evaluate(query, table.sum(axis=others))) / (query.scale * int(self.counts.sum()))


@dataclass(frozen=True, slots=True)
class Moment:
    """The figures at the end of a day."""

    day: int
    size: int
    asked: int
    known: int
    spent: float
    """The part of the promise that is spent."""
    off: float
    """By how much the worst answer of the day was off."""
    margin: float
    """The largest margin of an answer that day."""
    error: float
    """The largest error that an answer stated that day."""
    auc: float
    """The AUC of the private model on the flights of the last `TESTED` days, each judged before it was taken in."""


@dataclass(slots=True)
class Tally:
    """Some answers, compared with the truth."""

    asked: int = 0
    known: int = 0
    """Answers in batches for which no flight paid that had been counted before."""
    inside: int = 0
    """Answers that were within their margin."""
    beyond: int = 0
    """Answers that were further off than their error."""
    off: float = 0.0
    """By how much the worst answer was off."""
    error: float = 0.0
    """The largest error that was stated."""
    margins: list[float] = field(default_factory=list)

    def add(self, answers: Sequence[Answer], truth: Sequence[float], *, known: bool) -> None:
        """Count a batch of answers, whose true values are ``truth``."""
        self.asked += len(answers)
        self.known += len(answers) * known
        for answer, exact in zip(answers, truth, strict=True):
            off = abs(answer.value - exact)
            self.inside += off <= answer.margin
            self.beyond += off > answer.error
            self.off, self.error = max(self.off, off), max(self.error, answer.error)
            self.margins.append(answer.margin)


@dataclass(frozen=True, slots=True)
class Figure:
    """An answer in rows, with its margin, beside the exact count."""

    size: int
    count: int
    margin: int
    exact: int

    @classmethod
    def of(cls, answer: Answer, truth: float) -> Figure:
        """The answer, beside the true share."""
        return cls(answer.size, answer.count, answer.count_margin, round(truth * answer.size))


@dataclass(slots=True)
class Story:
    """Everything that the summary and the report show."""

    moments: list[Moment] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    courses: dict[str, list[Figure]] = field(default_factory=dict)
    """For each airport, how many flights were late, day by day."""
    findings: list[tuple[int, str]] = field(default_factory=list)
    """The days of the analyst's work, and the result of each."""
    by_carrier: dict[str, Figure] = field(default_factory=dict)
    """For each carrier, how many flights were late at the end."""
    status: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def asked(self) -> int:
        """How many queries were asked."""
        return sum(tally.asked for tally in self.tallies.values())

    @property
    def known(self) -> int:
        """For how many queries no flight paid that had been counted before."""
        return sum(tally.known for tally in self.tallies.values())

    @property
    def unused(self) -> float:
        """The part of the promise that is left."""
        return float(self.status["remaining"] / self.status["total"])


class Year:
    """The vault, the truth, and the story so far, as the days go by."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.truth = Truth()
        self.story = Story(
            tallies={"dashboard": Tally(), "analyst": Tally()}, courses={origin: [] for origin in ORIGINS}
        )
        self.features = CellFeatures.one_hot(SCHEMA, FEATURES, LATE)
        self._spent = 0.0
        self._today = Tally()
        self._judged: deque[tuple[Floats, Flags]] = deque(maxlen=TESTED)
        vault.add("ermrings", LEARNING, target=LATE, features=list(FEATURES), beta=BETA, every=EVERY, name="model")

    def append(self, day: pa.Table, number: int) -> None:
        """Append a day's flights. From four weeks before the first questions on, the model judges them first."""
        cells = cells_of(day)
        if number > FIRST_DAY - TESTED:
            scores = self.vault.model().predictions(self.features.grid / FEATURE_UNIT)
            self._judged.append((scores[cells], self.features.labels[cells] > 0))
        self.vault.append(day, key=f"day {number}")
        self.truth.add(cells)

    def ask(self, texts: Sequence[str], who: str) -> list[Answer]:
        """Ask for the dashboard or for the analyst, and compare the answers with the truth."""
        queries = [_query(text) for text in texts]
        answers = self.vault.ask_many(queries, "rings")
        before, self._spent = self._spent, self.vault.spent
        truth = [self.truth.share(query) for query in queries]
        known = self._spent - before < 1e-9 * self.vault.total  # what prices leave when they are rounded is less
        for tally in (self.story.tallies[who], self._today):
            tally.add(answers, truth, known=known)
        return answers

    def look(self, number: int, month: int) -> None:
        """Ask the dashboard's queries and, every second week, the analyst's; note the day's figures."""
        self._today = Tally()
        self._spent = self.vault.spent
        told = dict(zip(DASHBOARD, self.ask(DASHBOARD, "dashboard"), strict=True))
        for origin, course in self.story.courses.items():
            text = f"origin = '{origin}' AND {LATE}"
            course.append(Figure.of(told[text], self.truth.share(_query(text))))
        if (number - FIRST_DAY) % BETWEEN == 0:
            found = drill_down(lambda texts: self.ask(texts, "analyst"), month)
            self.story.findings.append((number, found))
        story, today = self.story, self._today
        story.moments.append(
            Moment(
                number,
                self.vault.size,
                story.asked,
                story.known,
                self._spent / self.vault.total,
                today.off,
                max(today.margins),
                today.error,
                auc(*(np.concatenate(each) for each in zip(*self._judged, strict=True))),
            )
        )

    def end(self) -> Story:
        """Ask for the final chart, and return the story."""
        texts = [f"carrier = '{carrier}' AND {LATE}" for carrier in CARRIERS]
        answers = self.vault.ask_many(texts, "rings")
        exact = [self.truth.share(_query(text)) for text in texts]
        self.story.by_carrier = dict(zip(CARRIERS, map(Figure.of, answers, exact), strict=True))
        self.story.status = self.vault.status()
        return self.story


def live_through_the_year(place: Path, advance: Advance, last_day: int = 365) -> Story:
    """Make a vault at ``place``, append the flights up to ``last_day``, ask and learn on the way; returns the story."""
    began = time.perf_counter()
    daily = days(flights(), SCHEMA.names)[:last_day]
    with Vault.create(place, SCHEMA, EPSILON, DELTA, beta=BETA, mechanism="rings", share=QUESTIONS, pace=PACE) as vault:
        year = Year(vault)
        for number, day in enumerate(daily, 1):
            year.append(day, number)
            if number >= FIRST_DAY:
                year.look(number, int(day["month"][0].as_py()))
            advance(number, len(daily), f"{vault.size:,} flights, {year.story.asked:,} questions")
        story = year.end()
    story.seconds = time.perf_counter() - began
    return story


@cache
def _query(text: str) -> Query:
    return parse(text, SCHEMA)


def auc(scores: Floats, late: Flags) -> float:
    """The area under the ROC curve: how often a late flight scores above one that is not. 1 is perfect, ½ guessing."""
    values, group = np.unique(scores, return_inverse=True)
    ones, zeros = (np.bincount(group[chosen], minlength=len(values)) for chosen in (late, ~late))
    below = np.cumsum(zeros) - zeros
    return float((ones * (below + zeros / 2)).sum() / (ones.sum() * zeros.sum()))


# -- the queries of the dashboard and of the analyst -------------------------------------------------------------------


Ask: TypeAlias = Callable[[Sequence[str]], list[Answer]]
"""A function from queries, as texts, to their answers, in the same order."""

LATE, VERY_LATE, LOST = "delay >= 15", "delay >= 60", "delay IS NULL"
_BLOCKS: Final = (*(f"hour >= {low} AND hour < {high}" for low, high in pairwise(HOURS[:-1])), f"hour >= {HOURS[-2]}")

DASHBOARD: Final = (
    *(LATE, VERY_LATE, LOST),
    *(f"origin = '{origin}' AND {what}" for what in (LATE, VERY_LATE, LOST) for origin in ORIGINS),
    *(f"carrier = '{carrier}'" for carrier in CARRIERS),
    *(f"carrier = '{carrier}' AND {LATE}" for carrier in CARRIERS),
    *(f"{block} AND {LATE}" for block in _BLOCKS),
)
"""The queries that are asked every day."""


def drill_down(ask: Ask, month: int) -> str:
    """The analyst's queries: where and when are flights late, which carriers are worst, and where and when are those?

    Some 250 queries, the later ones depending on the answers to the earlier. Returns the group that is worst of all.
    """
    _table(ask, [f"origin = '{origin}'" for origin in ORIGINS])
    _table(ask, [f"month = {each}" for each in range(1, month + 1)])
    carriers = _table(ask, [f"carrier = '{carrier}'" for carrier in CARRIERS])
    worst = carriers[:3]
    for carrier in worst:
        places = _table(ask, [f"{carrier} AND origin = '{origin}'" for origin in ORIGINS])
        _table(ask, [f"{places[0]} AND {block}" for block in _BLOCKS])
    hours = _table(ask, list(_BLOCKS))
    return _table(ask, [f"{carrier} AND {hours[0]}" for carrier in worst])[0]


def _table(ask: Ask, groups: Sequence[str]) -> list[str]:
    """Ask how many flights each group has and how many were late, very late and cancelled. Returns the groups, those
    with the most late flights first."""
    asked = [*groups, *(f"{group} AND {what}" for what in (LATE, VERY_LATE, LOST) for group in groups)]
    answers = ask(asked)
    late = {group: answer.value for group, answer in zip(groups, answers[len(groups) :], strict=False)}
    return sorted(groups, key=lambda group: -late[group])
