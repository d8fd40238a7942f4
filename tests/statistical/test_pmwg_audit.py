"""PMW and PMWG keep their promises on neighbouring streams that grow, under adaptive questions.

A run's outcome is all that it released: kind, value and error of every answer, and where an answer was refused. (The
histogram is computed from those.) Each case names the promise that must not be exceeded, and where the audit has power
the two probabilities of an event in which it must find ``visible``. ``support.audits`` states the false alarms.

How much is visible. Under pure privacy a tenth of the promise and more. Under zCDP one run that loses e costs e²/2, and
the epsilon of that at any delta of use is several times e: a few per cent of the promise. The paper's noise is for
hundreds of runs, each a small part of epsilon. With delta = 0 a large epsilon makes one run visible; what is audited
then is what the questions can be charged, far less than epsilon. With delta > 0 the theorem asks for epsilon ≤ 1 and
delta < 1/e, and a run loses ξ/t = α(1−p)ε/(24·√(log(Nn)·log(1/δ))), below 0.016 at any N ≥ 3 and n ≥ 17: nothing is
visible, whatever is asked.
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
from support.audits import CONFIDENCE, PMWG_AUDITS, along, catch_rate, caught
from support.exact_runs import Asked, laplace_upper, transcripts
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
from treering.audit.broken import ExactUpdatePMWG, expose
from treering.budget.promise import Promise
from treering.gate import Laplace, Noise
from treering.mechanisms.adaptive import Adaptive
from treering.theory.pmwg import noise as paper_noise
from treering.theory.pmwg import static_size

MISS: Final = 1e-6
"""How rarely an audit may fail to find what it should."""

OUT, IN, REST = cell(FALLS), cell(RISES), cell(STAYS)
MIXED = tr.Query.weighted(SCHEMA, [0.0, 0.2, 0.4, 1.0, 0.6, 0.2, 0.4, 0.8], resolution=5)
"""Weights in fifths: the row that differs moves its count by the whole scale."""

Outcome: TypeAlias = tuple[str, float, float] | None
Choose: TypeAlias = Callable[[tuple[Outcome, ...]], tr.Query]


@dataclass(frozen=True)
class Case:
    """One audit. ``event``: the probability on each side of an event in which ``visible`` should be found."""

    make: Make
    choose: Choose
    pair: tuple[Stream, Stream]
    promise: float
    delta: float
    visible: float
    event: tuple[float, float] | None
    samples: int
    kinds: frozenset[str] = frozenset({"easy", "hard"})
    """What the audited runs must have shown."""

    def run(self, stream: Stream) -> tuple[Outcome, ...]:
        """One question at each step, chosen by what was released so far."""

        def ask(mechanism: Adaptive, seen: tuple[Outcome, ...]) -> Outcome:
            try:
                answer = mechanism.ask(self.choose(seen))
            except tr.BudgetExceeded:
                return None
            return answer.kind, answer.value, answer.error

        return along(grow(stream), self.make, ask)


# -- guards ------------------------------------------------------------------------------------------------------------


def until_hard(questions: tuple[tr.Query, ...], likely: float) -> Choose:
    """These questions, until one is hard; from then on what depends on the number released."""

    def choose(seen: tuple[Outcome, ...]) -> tr.Query:
        hard = [outcome[1] for outcome in seen if outcome is not None and outcome[0] == "hard"]
        if not hard:
            return questions[len(seen)]
        return OUT if hard[-1] > likely else MIXED

    return choose


def guarding(make: Make, start: int, promise: float, delta: float, visible: float, samples: int = 500) -> Case:
    """A run begins, then the row that differs arrives; two questions rise and are silent, and one that falls halts it.

    That is the worst that a run can be asked.
    """
    sizes = tuple(start + 8 * step for step in range(4))
    guard = Guarded.of(make, start)
    rises, falls = ([guard.count(size, gap) for size in sizes] for gap in (-1, 0))
    pair = neighbours(sizes, falls, rises, arrival=1)
    questions = (REST, IN, IN, OUT)
    left, right = (guard.first_hard(stream, tuple(enumerate(questions))) for stream in pair)
    event = float(left[3]), float(right[3])
    return Case(make, until_hard(questions, falls[0] / start), pair, promise, delta, visible, event, samples)


def guard_only(start: int, epsilon: float, delta: float, beta: float, visible: float) -> Case:
    make = partial(tr.PMWG, epsilon=epsilon, delta=delta, alpha=0.4, beta=beta, measure_first=False)
    return guarding(make, start, epsilon, delta, visible)


def paper(epsilon: float, visible: float) -> Case:
    """The promise is what the four questions can be charged: a run and its answer each."""
    alpha, sizes = 0.5, (48, 56, 64, 72)
    charged = sum(9 / 8 * paper_noise(size, 48, SCHEMA.cells, epsilon, 0.0, alpha) / size for size in sizes)
    assert charged < epsilon
    make = partial(tr.PMWG, epsilon=epsilon, alpha=alpha, beta=0.5, profile="paper")
    return guarding(make, 48, charged, 0.0, visible)


def paper_approximate() -> Case:
    """Hard and easy answers at random, and nothing to be seen in them."""
    make = partial(tr.PMWG, epsilon=1.0, delta=0.1, alpha=0.5, beta=0.005, profile="paper")
    return replace(guarding(make, 48, 1.0, 0.1, 0.0), event=None, samples=200)


def static(epsilon: float, delta: float, visible: float, samples: int) -> Case:
    """PMW: no growth, so the row that differs is there from the start.

    The event: three questions that rise, all silent.
    """
    make = partial(tr.PMW, epsilon=epsilon, delta=delta, alpha=0.8, beta=0.05, queries=4)
    size = static_size(SCHEMA.cells, Promise(epsilon, delta).budget, 0.8, 0.05, 4)
    guard = Guarded.of(make, size)
    rises = guard.count(size, -1)
    pair = neighbours((size,) * 4, (1,) * 4, (rises,) * 4, arrival=0)
    left, right = (guard.first_hard(stream, [(0, IN)] * 3) for stream in pair)
    event = float(left[3]), float(right[3])
    return Case(make, until_hard((IN, IN, IN, MIXED), rises / size), pair, epsilon, delta, visible, event, samples)


# -- measuring first ---------------------------------------------------------------------------------------------------


def measuring(delta: float, beta: float, grown: int, visible: float, samples: int) -> Case:
    """All ways to answer, one after the other.

    A constant; then, once the row that differs has arrived, two measurements, which are half of the budget, and one of
    them recalled; and, when the database has grown enough to pay for it with the other half, the guard. The second
    measurement is of a question that the first one chooses; it rises either way. The event: neither measurement points
    to the right.
    """
    alpha, sizes = 0.5, (20, 24, 24, 24, grown)
    epsilon = twice_measured(delta, alpha, beta, 24, questions=2)
    make = partial(tr.PMWG, epsilon=epsilon, delta=delta, alpha=alpha, beta=beta)
    last = round(0.225 * grown)
    pair = neighbours(sizes, (8, 9, 9, 9, last), (8, 9, 9, 9, last), arrival=1)

    def choose(seen: tuple[Outcome, ...]) -> tr.Query:
        if len(seen) == 2:
            assert seen[1] is not None
            return IN if seen[1][1] > 9 / 24 else IN | REST
        return (tr.Query.all(SCHEMA), OUT, IN, OUT, REST)[len(seen)]

    noises = [first_noise(delta, alpha, beta, 24, asked) for asked in (0, 1)]
    likely, unlikely = (math.prod(upper(noise, least) for noise in noises) for least in (0, 1))
    kinds = frozenset({"easy", "measured", "cached", "hard"})
    return Case(make, choose, pair, epsilon, delta, visible, (likely, unlikely), samples, kinds)


def upper(noise: Noise, least: int) -> float:
    """P(X ≥ least)."""
    if isinstance(noise, Laplace):
        return float(laplace_upper(noise.scale, np.array([least]))[0])
    terms = {value: math.exp(-((value / noise.scale) ** 2) / 2) for value in range(-60, 61)}
    return sum(term for value, term in terms.items() if value >= least) / sum(terms.values())


# -- the audits --------------------------------------------------------------------------------------------------------

CASES: Final[dict[str, Callable[[], Case]]] = {
    "tight, pure": lambda: measuring(0.0, 1e-10, 1200, visible=1.0, samples=500),
    "tight, zCDP": lambda: measuring(0.01, 1e-60, 6000, visible=0.2, samples=600),
    "tight, guard only, pure": lambda: guard_only(120, 20.0, 0.0, 0.01, visible=1.0),
    "tight, guard only, zCDP": lambda: guard_only(80, 100.0, 0.05, 0.05, visible=0.5),
    "paper, pure": lambda: paper(40_000.0, visible=1.0),
    "paper, zCDP": paper_approximate,
    "PMW, pure": lambda: static(30.0, 0.0, visible=0.5, samples=500),
    "PMW, zCDP": lambda: static(200.0, 0.05, visible=0.2, samples=700),
}


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    make_runs_cheap(monkeypatch)


@pytest.mark.parametrize("name", CASES)
def test_pmwg_keeps_its_promise_and_the_audit_would_see_a_part_of_it(name: str) -> None:
    case = CASES[name]()
    kinds: set[str] = set()

    def run(stream: Stream) -> Hashable:
        outcomes = case.run(stream)
        kinds.update("refused" if outcome is None else outcome[0] for outcome in outcomes)
        return outcomes

    found = lower_bound(run, *case.pair, case.samples, CONFIDENCE, case.delta)
    assert found <= case.promise
    assert kinds >= case.kinds
    if case.event is not None:
        assert catch_rate(*case.event, case.samples // 2, case.visible, case.delta) > 1 - MISS
        assert found > case.visible


def test_the_number_of_audits_is_within_the_stated_false_alarm_rate() -> None:
    assert len(CASES) <= PMWG_AUDITS


# -- a negative control ------------------------------------------------------------------------------------------------


def exact_update(stream: Stream) -> Hashable:
    """The first question may be hard; the second one is answered from the histogram."""
    return along(expose(stream), lambda db: ExactUpdatePMWG(db, 0.375, 1.0), lambda control, _: control.ask(IN))


def test_a_histogram_that_learns_the_exact_answer_is_caught() -> None:
    """The event: the second answer is the true share on the left, which the histogram cannot know on the right."""
    pair = neighbours((8, 8), (4, 4), (4, 4), arrival=0)
    control = ExactUpdatePMWG(next(expose(pair[0])), 0.375, 1.0)
    halts = float(transcripts([Asked(0)], control.threshold_scale, control.query_scale)[0])
    assert catch_rate(halts, 0.0, 500, 1.0) > 0.99
    assert caught(exact_update, pair, samples=1000, claimed=1.0)
