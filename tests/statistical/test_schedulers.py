"""The schedulers keep their promises over many lives: accuracy as often as stated, and privacy on neighbouring streams.

*Accuracy.* A life fails if any of its answers, at any size, is further off than it says. The rows that arrive are the
worst for staleness: all of them match. Lives fail no more often than beta says (false alarm: 1e-9); if the noise is
louder than the box thinks, they do.

*Privacy.* The row that differs is there from the start, so every epoch sees it. A run's outcome is, for each question,
on which side of a fixed number the answer lies. `support.audits` states the false alarms. Under a pure promise the
audit must find ``visible``, in an event whose probabilities are known; and no more than what the epochs were charged,
which is less than the promise. In every case the same audit accuses the same scheduler if its noise is ``quiet``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from scipy.stats import binom

import treering as tr
from support.audits import ATTEMPTS, CONFIDENCE, SCHEDULER_AUDITS, along, catch_rate
from support.databases import TestDatabase
from support.exact_runs import laplace_upper
from support.pmwg_cases import make_runs_cheap
from support.scheduler_boxes import OneQueryBox
from treering.audit import Stream, grow, lower_bound, neighbour
from treering.budget.promise import Budget
from treering.gate import Reserved
from treering.noise import Laplace, Noise
from treering.params import Profile
from treering.schedulers.base import Scheduled
from treering.schedulers.improver import BBImprover
from treering.schedulers.scheduler import BBScheduler
from treering.theory import schedule

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
LATE = tr.Query.where(SCHEMA, late="yes")
BOX = OneQueryBox(LATE)
Make: TypeAlias = Callable[[Any], Scheduled]


@pytest.fixture(autouse=True)
def plans_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They depend on public parameters only, and thousands of lives have the same."""
    make_lives_cheap(monkeypatch)


def make_lives_cheap(monkeypatch: pytest.MonkeyPatch, louder: float = 1.0) -> None:
    make_runs_cheap(monkeypatch, louder)
    monkeypatch.setattr(schedule, "fixed_for", _FIXED_FOR)
    monkeypatch.setattr(schedule, "improving_for", _IMPROVING_FOR)


_FIXED_FOR, _IMPROVING_FOR = cache(schedule.fixed_for), cache(schedule.improving_for)

# -- accuracy ----------------------------------------------------------------------------------------------------------

BETA: Final = 0.4
LIVES: Final = 60
FALSE_ALARM: Final = 1e-9
MOST: Final = int(binom.isf(FALSE_ALARM, LIVES, BETA))
"""More lives than this fail with a probability below `FALSE_ALARM`, if each does with BETA at most."""
LOUDER: Final = 8.0
GROWTH: Final = (1.0, 1.07, 1.3, 1.31, 2.0, 2.9, 3.0, 5.0)

ACCURATE: Final[dict[str, tuple[Make, int]]] = {
    "scheduler, tight, pure": (partial(BBScheduler, box=BOX, epsilon=4.0, beta=BETA), 200),
    "scheduler, tight, zCDP": (partial(BBScheduler, box=BOX, epsilon=2.0, delta=1e-3, beta=BETA), 200),
    "scheduler, paper, pure": (partial(BBScheduler, box=BOX, epsilon=4.0, beta=BETA, profile="paper"), 200),
    "scheduler, paper, zCDP": (
        partial(BBScheduler, box=BOX, epsilon=1.0, delta=0.1, beta=BETA, profile="paper"),
        1000,
    ),
    "improver, tight, pure": (partial(BBImprover, box=BOX, epsilon=4.0, delta=0.0, beta=BETA), 200),
    "improver, tight, zCDP": (partial(BBImprover, box=BOX, epsilon=2.0, delta=1e-3, beta=BETA), 200),
}


def failed_lives(name: str) -> int:
    make, start = ACCURATE[name]
    return sum(fails(make, start) for _ in range(LIVES))


def fails(make: Make, start: int) -> bool:
    db = tr.GrowingDatabase(SCHEMA)
    db.append_cells([0, 1] * (start // 2))
    mechanism, matching = make(db), start // 2
    failed = False
    for growth in GROWTH:
        arrived = int(start * growth) - db.size
        db.append_cells([1] * arrived)
        matching += arrived
        bound, answer = mechanism.alpha_at(db.size), mechanism.ask(LATE)
        assert answer.error <= max(bound, mechanism.alpha_at(db.size)) + 1e-12
        failed |= abs(answer.value - matching / db.size) > answer.error + 1e-12
    assert len(mechanism.epochs) >= 4
    assert all(epoch.error is None for epoch in mechanism.epochs)
    return failed


@pytest.mark.parametrize("name", ACCURATE)
def test_errors_are_within_those_stated(name: str) -> None:
    assert failed_lives(name) <= MOST


@pytest.mark.parametrize("name", ACCURATE)
def test_with_more_noise_than_planned_for_they_are_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lives_cheap(monkeypatch, LOUDER)
    assert failed_lives(name) > MOST


# -- audits ------------------------------------------------------------------------------------------------------------

MISS: Final = 1e-6
"""How rarely an audit may fail to find what it should."""
SAMPLES: Final = 700


@dataclass(frozen=True)
class Case:
    """One audit: a promise, and the sizes at which a question is asked. Each of them opens an epoch."""

    mechanism: type[BBScheduler] | type[BBImprover]
    sizes: tuple[int, ...]
    epsilon: float
    delta: float = 0.0
    profile: Profile = "tight"
    visible: float = 0.0
    """What must be found under a pure promise."""
    quiet: float = 1 / 8
    """With so much less noise the audit accuses."""

    def make(self, db: Any) -> Scheduled:
        return self.mechanism(db, BOX, self.epsilon, self.delta, 0.05, self.profile)

    @property
    def pair(self) -> tuple[Stream, Stream]:
        """Half of the first rows match; on the right one more. Those that arrive later do not."""
        half = self.sizes[0] // 2
        left = Stream(SCHEMA, ((0,) * half + (1,) * half, *((0,) * (b - a) for a, b in pairwise(self.sizes))))
        return left, neighbour(left, 0, 0, 1)

    def run(self, stream: Stream) -> Hashable:
        """For each question, whether the count is nearer to that of the right side."""
        return along(grow(stream), self.make, self._points_right)

    def _points_right(self, mechanism: Scheduled, _: tuple[bool, ...]) -> bool:
        answer = mechanism.ask(LATE)
        return answer.value * answer.size > self.sizes[0] // 2 + 0.5

    def budgets(self) -> list[Budget]:
        """What the boxes run with: public, and the same in every life."""
        database = TestDatabase(SCHEMA, [0, 1] * (self.sizes[0] // 2))
        mechanism = self.make(database)
        mechanism.ask(LATE)
        for before, size in pairwise(self.sizes):
            database.append_cells([0] * (size - before))
        assert tuple(epoch.size for epoch in mechanism.epochs) == self.sizes
        return [event.part for event in database.journal.events() if isinstance(event, Reserved)]

    @property
    def promise(self) -> float:
        """Under a pure promise what the epochs were charged, which is less than epsilon."""
        return self.epsilon if self.delta else float(sum(part.total for part in self.budgets()))

    def catch_rate(self, goal: float, louder: float = 1.0) -> float:
        """How often the event that all answers point to the right proves more than the goal."""
        noises = [BOX.noise(part) for part in self.budgets()]
        left, right = (math.prod(upper(noise, louder, least) for noise in noises) for least in (1, 0))
        return catch_rate(right, left, SAMPLES // 2, goal, self.delta)

    def found(self) -> float:
        return lower_bound(self.run, *self.pair, SAMPLES, CONFIDENCE, self.delta)


def upper(noise: Noise, louder: float, least: int) -> float:
    """P(X ≥ least)."""
    scale = louder * noise.scale
    if isinstance(noise, Laplace):
        return float(laplace_upper(scale, np.array([least]))[0])
    terms = {value: math.exp(-((value / scale) ** 2) / 2) for value in range(-200, 201)}
    return sum(term for value, term in terms.items() if value >= least) / sum(terms.values())


CASES: Final = {
    # The second size lies within an epoch, which a jump opens late.
    "scheduler, tight, pure": Case(BBScheduler, (24, 45), 4.0, visible=0.2),
    "scheduler, tight, zCDP": Case(BBScheduler, (40, 60), 1.5, 0.1, quiet=1 / 16),
    "scheduler, paper, pure": Case(BBScheduler, (24, 32), 24.0, profile="paper", visible=0.2),
    "improver, tight, pure": Case(BBImprover, (24, 48), 22.0, visible=0.2),
}


@pytest.mark.parametrize("name", CASES)
def test_the_promise_is_kept(name: str) -> None:
    """And the audit sees what it should."""
    case = CASES[name]
    found = case.found()
    assert found <= case.promise <= case.epsilon
    if case.delta == 0:
        assert case.catch_rate(case.visible) > 1 - MISS
        assert found > case.visible > 0


@pytest.mark.parametrize("name", CASES)
def test_too_little_noise_would_be_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    assert case.catch_rate(case.promise, case.quiet) > 1 - MISS ** (1 / ATTEMPTS)
    make_lives_cheap(monkeypatch, case.quiet)
    assert any(case.found() > case.promise for _ in range(ATTEMPTS))


def test_the_number_of_audits_is_within_the_stated_false_alarm_rate() -> None:
    assert len(CASES) <= SCHEDULER_AUDITS
