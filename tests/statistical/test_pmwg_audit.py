"""PMW and PMWG keep their promises on neighbouring streams that grow, under adaptive questions.

A run's outcome is all that it released: kind, value and error of every answer, and where an answer was refused. (The
histogram is computed from those.) ``support.audits`` states the false alarms. Each audit can fail, and sees something:

- Pure promises. The row that differs is visible: there is an event, of which both probabilities are known, in which the
  audit must find ``visible``. The loss is then too large for a few hundred runs to show that it is larger still; so a
  part of the outcome whose law is known is tested for fit as well, and half of the noise would not fit.
- zCDP, and PMW, which has several runs to pay for. Where the promise is small enough to be exceeded, the loss of the
  right mechanism is too small to be seen: the epsilon of one run at a delta of use is several times its loss. The same
  audit is shown to accuse the mechanism if its noise is made ``quiet``.

The paper's noise is for hundreds of hard queries. With delta = 0 a large epsilon makes one visible; the promise audited
is then what the questions can be charged, far less than epsilon. With delta > 0 its theorem asks for epsilon ≤ 1 and
delta < 1/e, and a run loses ξ/t = α(1−p)ε/(24·√(log(Nn)·log(1/δ))), below 0.016 at any N ≥ 3 and n ≥ 17: no audit of
the right mechanism can see anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pytest

import treering as tr
from support.audits import ATTEMPTS, CONFIDENCE, PMWG_AUDITS, along, catch_rate, caught
from support.broken import ExactUpdatePMWG, expose
from support.exact_runs import Asked, Floats, laplace_upper, transcripts
from support.goodness import edges_for, fits, laplace_masses, miss_rate
from support.pmwg_cases import (
    FALLS,
    RISES,
    SCHEMA,
    STAYS,
    Guarded,
    Make,
    cell,
    first_noise,
    make_runs_cheap,
    neighbours,
    twice_measured,
)
from treering.audit import Stream, grow, lower_bound
from treering.budget.promise import Promise
from treering.mechanisms.adaptive import Adaptive
from treering.noise import Laplace, Noise
from treering.theory.pmwg import noise as paper_noise, static_size

MISS: Final = 1e-6
"""How rarely an audit may fail to find what it should, or a fit to notice half of the noise."""

OUT, IN, REST = cell(FALLS), cell(RISES), cell(STAYS)
MIXED = tr.Query.weighted(SCHEMA, [0.0, 0.2, 0.4, 1.0, 0.6, 0.2, 0.4, 0.8], resolution=5)
"""Weights in fifths: the row that differs moves its count by the whole scale."""

Outcome: TypeAlias = tuple[str, float, float] | None
Outcomes: TypeAlias = tuple[Outcome, ...]
Event: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Law:
    """A part of the outcome that has one of a few values, and their probabilities on the left and on the right."""

    of: Callable[[Outcomes], int]
    masses: tuple[Floats, Floats]
    halved: tuple[Floats, Floats]
    """The probabilities if there were half of the noise."""


@dataclass(frozen=True)
class Case:
    """One audit."""

    make: Make
    choose: Callable[[Outcomes], tr.Query]
    pair: tuple[Stream, Stream]
    promise: float
    event: Event
    """The probability on each side of an event in which the audit finds ``visible``, if that is not 0; otherwise
    those with quiet noise, in which it finds more than the promise."""
    samples: int
    delta: float = 0.0
    visible: float = 0.0
    law: Law | None = None
    quiet: float = 1.0
    kinds: frozenset[str] = frozenset({"easy", "hard"})
    """What the audited runs must have shown."""

    def run(self, stream: Stream) -> Outcomes:
        """One question at each step, chosen by what was released so far."""

        def ask(mechanism: Adaptive, seen: Outcomes) -> Outcome:
            try:
                answer = mechanism.ask(self.choose(seen))
            except tr.BudgetExceeded:
                return None
            return answer.kind, answer.value, answer.error

        return along(grow(stream), self.make, ask)

    def found(self, run: Callable[[Stream], Hashable]) -> float:
        return lower_bound(run, *self.pair, self.samples, CONFIDENCE, self.delta)

    def catch_rate(self, goal: float) -> float:
        return catch_rate(*self.event, self.samples // 2, goal, self.delta)


# -- guards ------------------------------------------------------------------------------------------------------------


def until_hard(questions: tuple[tr.Query, ...], likely: float) -> Callable[[Outcomes], tr.Query]:
    """These questions, until one is hard; from then on what depends on the number released."""

    def choose(seen: Outcomes) -> tr.Query:
        hard = [outcome[1] for outcome in seen if outcome is not None and outcome[0] == "hard"]
        if not hard:
            return questions[len(seen)]
        return OUT if hard[-1] > likely else MIXED

    return choose


def first_hard(outcomes: Outcomes) -> int:
    """The number of the first hard question; 4 if none is."""
    return next((index for index, outcome in enumerate(outcomes) if outcome is not None and outcome[0] == "hard"), 4)


def guarding(make: Make, start: int, promise: float, *, quiet: float = 1.0) -> Case:
    """A run begins, then the row that differs arrives; two questions rise and are silent, and one that falls halts it.

    That is the worst that a run can be asked, and the event.
    """
    sizes = tuple(start + 8 * step for step in range(4))
    guard = Guarded.of(make, start)
    rises, falls = ([guard.count(size, gap) for size in sizes] for gap in (-1, 0))
    pair = neighbours(sizes, falls, rises, arrival=1)
    questions = (REST, IN, IN, OUT)

    def masses(louder: float) -> tuple[Floats, Floats]:
        left, right = (guard.louder(louder).first_hard(stream, tuple(enumerate(questions))) for stream in pair)
        return left, right

    left, right = (float(side[3]) for side in masses(quiet))
    law = Law(first_hard, masses(1.0), masses(0.5))
    choose = until_hard(questions, falls[0] / start)
    return Case(make, choose, pair, promise, (left, right), samples=500, law=law, quiet=quiet)


def guard_only() -> Case:
    """The budget is for two hard queries."""
    make = partial(tr.PMWG, epsilon=20.0, alpha=0.4, beta=0.01, measure_first=False)
    return replace(guarding(make, 120, 20.0), visible=1.0)


def guard_only_approximate() -> Case:
    make = partial(tr.PMWG, epsilon=1.5, delta=0.1, alpha=0.4, beta=0.05, measure_first=False)
    return replace(guarding(make, 640, 1.5, quiet=1 / 32), delta=0.1, law=None, samples=300)


def paper() -> Case:
    """The promise is what the four questions can be charged: a run and its answer each."""
    epsilon, alpha, sizes = 40_000.0, 0.5, (48, 56, 64, 72)
    charged = sum(9 / 8 * paper_noise(size, 48, SCHEMA.cells, epsilon, 0.0, alpha) / size for size in sizes)
    assert charged < epsilon
    make = partial(tr.PMWG, epsilon=epsilon, alpha=alpha, beta=0.5, profile="paper")
    return replace(guarding(make, 48, charged), visible=1.0)


def paper_approximate() -> Case:
    make = partial(tr.PMWG, epsilon=1.0, delta=0.1, alpha=0.5, beta=0.005, profile="paper")
    return replace(guarding(make, 48, 1.0, quiet=2**-14), delta=0.1, law=None, samples=200)


def static() -> Case:
    """PMW: no growth, so the row that differs is there from the start.

    The event: three questions that rise, all silent.
    """
    epsilon, alpha, beta, quiet = 1.5, 0.8, 0.05, 1 / 32
    make = partial(tr.PMW, epsilon=epsilon, delta=0.0, alpha=alpha, beta=beta, queries=4)
    size = static_size(SCHEMA.cells, Promise(epsilon).budget, alpha, beta, 4)
    guard = Guarded.of(make, size)
    rises = guard.count(size, -1)
    pair = neighbours((size,) * 4, (1,) * 4, (rises,) * 4, arrival=0)
    left, right = (float(guard.louder(quiet).first_hard(stream, [(0, IN)] * 3)[3]) for stream in pair)
    choose = until_hard((IN, IN, IN, MIXED), rises / size)
    return Case(make, choose, pair, epsilon, (left, right), samples=330, quiet=quiet)


# -- measuring first ---------------------------------------------------------------------------------------------------


def measuring(delta: float, beta: float, grown: int, *, quiet: float = 1.0) -> Case:
    """All ways to answer, one after the other.

    A constant; then, once the row that differs has arrived, two measurements, which are half of the budget, and one of
    them recalled; and, when the database has grown enough to pay for it with the other half, the guard. The second
    measurement is of a question that the first one chooses; it rises either way. The event: neither measurement points
    to the right.
    """
    alpha, count, size = 0.5, 9, 24
    epsilon = twice_measured(delta, alpha, beta, size, questions=2)
    make = partial(tr.PMWG, epsilon=epsilon, delta=delta, alpha=alpha, beta=beta)
    counts = (8, count, count, count, round(0.225 * grown))
    pair = neighbours((20, size, size, size, grown), counts, counts, arrival=1)

    def choose(seen: Outcomes) -> tr.Query:
        if len(seen) == 2:
            assert seen[1] is not None
            return IN if seen[1][1] > count / size else IN | REST
        return (tr.Query.all(SCHEMA), OUT, IN, OUT, REST)[len(seen)]

    noises = [first_noise(delta, alpha, beta, size, asked) for asked in (0, 1)]
    left, right = (math.prod(upper(noise, quiet, least) for noise in noises) for least in (0, 1))
    kinds = frozenset({"easy", "measured", "cached", "hard"})
    return Case(make, choose, pair, epsilon, (left, right), samples=500, delta=delta, quiet=quiet, kinds=kinds)


def measuring_pure() -> Case:
    case, scale = measuring(0.0, 1e-10, 1200), first_noise(0.0, 0.5, 1e-10, 24, 0).scale
    edges = edges_for(scale)

    def noise_if_left(outcomes: Outcomes) -> int:
        """Which bin the first measurement's noise is in, given that it is from the left."""
        assert outcomes[1] is not None
        return int(np.searchsorted(edges, round(24 * outcomes[1][1]) - 9, side="right"))

    right, half = (laplace_masses(scale, edges), laplace_masses(scale, edges + 1)), scale / 2
    law = Law(noise_if_left, right, (laplace_masses(half, edges), laplace_masses(half, edges + 1)))
    return replace(case, visible=1.0, law=law)


def measuring_approximate() -> Case:
    return replace(measuring(0.1, 1e-3, 6000, quiet=1 / 8), samples=300)


def upper(noise: Noise, louder: float, least: int) -> float:
    """P(X ≥ least)."""
    scale = louder * noise.scale
    if isinstance(noise, Laplace):
        return float(laplace_upper(scale, np.array([least]))[0])
    terms = {value: math.exp(-((value / scale) ** 2) / 2) for value in range(-60, 61)}
    return sum(term for value, term in terms.items() if value >= least) / sum(terms.values())


# -- the audits --------------------------------------------------------------------------------------------------------

CASES: Final = {
    "tight, pure": measuring_pure,
    "tight, zCDP": measuring_approximate,
    "tight, guard only, pure": guard_only,
    "tight, guard only, zCDP": guard_only_approximate,
    "paper, pure": paper,
    "paper, zCDP": paper_approximate,
    "PMW": static,
}


@pytest.mark.parametrize("name", CASES)
def test_pmwg_keeps_its_promise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the audit sees what it should, and what has a known law has that law."""
    make_runs_cheap(monkeypatch)
    case = CASES[name]()
    seen: dict[Stream, list[Outcomes]] = {stream: [] for stream in case.pair}

    def run(stream: Stream) -> Hashable:
        seen[stream].append(case.run(stream))
        return seen[stream][-1]

    found = case.found(run)
    assert found <= case.promise
    if case.visible:
        assert case.catch_rate(case.visible) > 1 - MISS
        assert found > case.visible
    if case.law is not None:
        for stream, masses in zip(case.pair, case.law.masses, strict=True):
            values = [case.law.of(outcomes) for outcomes in seen[stream]]
            assert fits(np.bincount(values, minlength=len(masses)), masses)
    every = [outcome for outcomes in seen.values() for one in outcomes for outcome in one]
    assert {"refused" if outcome is None else outcome[0] for outcome in every} >= case.kinds


@pytest.mark.parametrize("name", CASES)
def test_too_little_noise_would_be_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the fit, or by the audit."""
    make_runs_cheap(monkeypatch)
    case = CASES[name]()
    if case.law is not None:
        sides = zip(case.law.masses, case.law.halved, strict=True)
        assert math.prod(miss_rate(right, wrong, case.samples) for right, wrong in sides) < MISS
        return
    make_runs_cheap(monkeypatch, louder=case.quiet)
    assert case.catch_rate(case.promise) > 1 - MISS ** (1 / ATTEMPTS)
    assert any(case.found(case.run) > case.promise for _ in range(ATTEMPTS))


def test_the_number_of_audits_is_within_the_stated_false_alarm_rate() -> None:
    assert len(CASES) <= PMWG_AUDITS


# -- a negative control ------------------------------------------------------------------------------------------------


def exact_update(stream: Stream) -> Hashable:
    """The first question may be hard; then the second is answered from the histogram."""
    return along(expose(stream), lambda db: ExactUpdatePMWG(db, 0.375, 1.0), lambda control, _: control.ask(IN))


def test_a_histogram_that_learns_the_exact_answer_is_caught() -> None:
    """The event: the second answer is the true share on the left, which the histogram never has on the right."""
    pair = neighbours((8, 8), (4, 4), (4, 4), arrival=0)
    control = ExactUpdatePMWG(next(expose(pair[0])), 0.375, 1.0)
    halts = float(transcripts([Asked(0)], control.threshold_scale, control.query_scale)[0])
    assert catch_rate(halts, 0.0, 500, 1.0) > 1 - MISS ** (1 / ATTEMPTS)
    assert caught(exact_update, pair, samples=1000, claimed=1.0)
