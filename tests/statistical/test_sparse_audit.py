"""Every real mechanism passes the audits that catch the broken ones, and the audits are not blind.

Each case names the promise that must not be exceeded, and the two probabilities of an event from which the audit must
find more than a fifth of it. How sure it is to find that is computed; ``support.audits`` states the false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest

import treering as tr
from support.audits import CONFIDENCE, MOST_AUDITS, SPARSE_AUDITS, along, catch_rate
from support.exact_runs import Asked, Floats, fresh_transcripts, laplace_upper, loss, transcripts
from support.goodness import fits, miss_rate
from treering.audit import Stream, grow, lower_bound, worst_pair
from treering.budget.convert import epsilon_of
from treering.budget.promise import Budget
from treering.noise import Gaussian, Laplace, Noise
from treering.protocols import Gate
from treering.theory.sparse import RunScales, scales_for

SHARE = 0.2
MISS = 1e-6
"""What the audit must find of a promise, and how rarely it may fail to."""

SCHEMA = tr.Schema({"late": tr.categories("no", "little", "yes")})
NO, LITTLE, YES = range(3)
LATE = tr.Query.where(SCHEMA, late="yes")
NOT_LATE = ~LATE
HALVES = tr.Query.weighted(SCHEMA, [0.0, 0.5, 1.0], resolution=2)
FIFTHS = tr.Query.weighted(SCHEMA, [0.0, 0.4, 1.0], resolution=5)
"""Weight scales 2 and 5: a row moved from "no" to "yes" moves the counts by the whole scale."""

Question: TypeAlias = tuple[tr.Query, float | None]
Run: TypeAlias = Callable[[Stream], Hashable]
Reply: TypeAlias = bool | float | None


def worst(*gaps: int, arrival: int = 0) -> tuple[Stream, Stream]:
    return worst_pair(SCHEMA, inside=YES, outside=NO, gaps=gaps, arrival=arrival)


@dataclass(frozen=True)
class Case:
    """One audit. ``event``: the probability on each side of an event that it should find; None where not known."""

    epsilon: float
    pair: tuple[Stream, Stream]
    run: Run
    event: tuple[float, float] | None
    samples: int = 2100
    delta: float = 0.0


# -- sparse vector: questions along a growing database -----------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """One question at each size of a growing database, for a mechanism with threshold ½."""

    pair: tuple[Stream, Stream]
    questions: tuple[Question, ...]

    def compared(self, stream: Stream) -> list[Asked]:
        """What the mechanism compares at each step."""
        return [self._compared(stream, time) for time in range(len(self.questions))]

    def _compared(self, stream: Stream, time: int) -> Asked:
        query, estimate = self.questions[time]
        size, count = stream.sizes[time] * query.scale, stream.counts(query)[time]
        gap = count if estimate is None else abs(count - round(estimate * size))
        return Asked(gap - round(size / 2), query.scale)

    def exact(self, scales: RunScales) -> tuple[Floats, Floats]:
        """The probabilities of halting at each step, and of never halting, on both sides."""
        left, right = (transcripts(self.compared(stream), scales.threshold, scales.query) for stream in self.pair)
        return left, right

    def answers(self, stream: Stream, begin: Callable[[tr.GrowingDatabase], tr.ATG | tr.NATG]) -> tuple[Reply, ...]:
        """The transcript of one run."""

        def ask(mechanism: tr.ATG | tr.NATG, answers: tuple[Reply, ...]) -> Reply:
            return mechanism.ask(*self.questions[len(answers)])

        return along(grow(stream), begin, ask)


# Silent questions whose counts rise, then one whose count falls: the hardest for sparse vector.
WALKS = {
    "one-sided": Walk(worst(-1, -1, 0), ((LATE, None), (LATE, None), (NOT_LATE, None))),
    "weights": Walk(worst(-1, -1, 0), ((HALVES, None), (FIFTHS, None), (NOT_LATE, None))),
    "two-sided, late arrival": Walk(
        worst(-2, -1, -1, 0, arrival=1), ((LATE, None), (LATE, 0.0), (LATE, 0.0), (LATE, 1.0))
    ),
}
ATG_EPSILON = 4.0
ATG_SCALES = scales_for(ATG_EPSILON, 1000, 0.05, numeric=False)
ATG_SAMPLES = 1650


@pytest.mark.parametrize("name", WALKS)
def test_atg_keeps_its_promise_and_answers_exactly_as_enumerated(name: str) -> None:
    """The same runs serve the audit and a test of fit."""
    walk = WALKS[name]
    exact = walk.exact(ATG_SCALES)
    seen = {stream: np.zeros(len(walk.questions) + 1) for stream in walk.pair}

    def run(stream: Stream) -> int:
        answers = walk.answers(stream, lambda db: tr.ATG(db, 0.5, ATG_EPSILON))
        silence = len(answers) - bool(answers[-1])
        seen[stream][silence] += 1
        return silence

    found = lower_bound(run, *walk.pair, ATG_SAMPLES, CONFIDENCE)
    assert found <= loss(*exact) < ATG_EPSILON
    likely, unlikely = (float(side[-2]) for side in exact)
    assert catch_rate(likely, unlikely, ATG_SAMPLES // 2, SHARE * ATG_EPSILON) > 1 - MISS
    assert found > SHARE * ATG_EPSILON
    for stream, masses in zip(walk.pair, exact, strict=True):
        assert fits(seen[stream], masses)


@pytest.mark.parametrize("name", WALKS)
def test_the_fit_would_show_a_fresh_threshold_or_too_little_noise(name: str) -> None:
    """Both sides would have to miss it."""
    walk = WALKS[name]
    noise = ATG_SCALES.threshold, ATG_SCALES.query
    fresh = [fresh_transcripts(walk.compared(stream), *noise) for stream in walk.pair]
    quiet = [transcripts(walk.compared(stream), *(2 / 3 * scale for scale in noise)) for stream in walk.pair]
    for wrong in (fresh, quiet):
        sides = zip(walk.exact(ATG_SCALES), wrong, strict=True)
        assert math.prod(miss_rate(masses, other, ATG_SAMPLES) for masses, other in sides) < MISS


def natg(walk: Walk, epsilon: float = 5.0) -> Case:
    """The event: it halts at the last question, and the noise of its number does not point to the right."""
    scales = scales_for(epsilon, 1000, 0.05, numeric=True)
    assert scales.answer is not None
    left, right = walk.exact(scales)

    def run(stream: Stream) -> Hashable:
        *silent, last = walk.answers(stream, lambda db: tr.NATG(db, 0.5, epsilon))
        return len(silent), None if last is None else int(np.sign(last - 0.5))

    at_least, above = (laplace_above(scales.answer, by) for by in (0, 1))
    return Case(epsilon, walk.pair, run, (float(left[-2]) * at_least, float(right[-2]) * above), samples=1900)


def nsg(stream: Stream) -> Hashable:
    """Adaptive: once a number is known, the questions that follow are compared with it."""

    def ask(mechanism: tr.NSG, answers: tuple[float | None, ...]) -> float | None:
        known = [answer for answer in answers if answer is not None]
        return mechanism.ask(LATE, known[-1]) if known else mechanism.ask(LATE)

    answers = along(grow(stream), lambda db: tr.NSG(db, 0.4, 6.0, hard=2), ask)
    return tuple(None if answer is None else answer > 0.5 for answer in answers)


# -- the kernel's other operations -------------------------------------------------------------------------------------

AT_HALF = worst(0, 0)
HALF = AT_HALF[0].sizes[-1] // 2


def at_the_end(operation: Callable[[Gate], Hashable], budget: Budget) -> Run:
    """One operation on the whole stream, which spends its budget."""

    def run(stream: Stream) -> Hashable:
        *_, database = grow(stream)
        gate = database.open_gate(budget)
        outcome = operation(gate)
        assert gate.spent == budget.total
        return outcome

    return run


def pure(epsilon: int, operation: Callable[[Gate], Hashable], event: tuple[float, float]) -> Case:
    return Case(float(epsilon), AT_HALF, at_the_end(operation, Budget("pure", Fraction(epsilon))), event)


def concentrated(rho: Fraction, operation: Callable[[Gate], Hashable], event: tuple[float, float]) -> Case:
    delta = 0.01
    run = at_the_end(operation, Budget("zcdp", rho))
    return Case(epsilon_of(rho, delta), AT_HALF, run, event, samples=4000, delta=delta)


def signs(values: Sequence[int], centres: Sequence[int]) -> tuple[bool, ...]:
    """Which values are above what they would be on the left without noise: coarse, so that few samples tell much."""
    return tuple(value > centre for value, centre in zip(values, centres, strict=True))


def measured(gate: Gate, queries: Sequence[tr.Query], noise: Noise) -> tuple[bool, ...]:
    return signs(gate.measure(queries, noise).values, [HALF * query.scale for query in queries])


def cells(gate: Gate, noise: Noise) -> tuple[bool, ...]:
    """The occupied cells: "no" is compared with one less, for it falls."""
    counts = gate.histogram(noise).counts
    return signs([int(counts[YES]), int(counts[NO])], [HALF, HALF - 1])


def laplace_above(scale: float, by: int) -> float:
    return float(laplace_upper(scale, np.array([by]))[0])


def gaussian_above(scale: float, by: int) -> float:
    terms = {k: math.exp(-((k / scale) ** 2) / 2) for k in range(-60, 61)}
    return sum(term for k, term in terms.items() if k >= by) / sum(terms.values())


CASES = {
    "NATG, two-sided": natg(Walk(worst(-1, -1, 0), ((LATE, 0.0), (LATE, 0.0), (LATE, 1.0)))),
    "NSG, adaptive": Case(6.0, worst(0, 0, 0, 0), nsg, None, samples=600),
    "measure, Laplace": pure(
        1,
        lambda gate: measured(gate, [LATE], Laplace(1.0)),
        (laplace_above(1.0, 0), laplace_above(1.0, 1)),
    ),
    "measure, Laplace, weights": pure(
        2,
        lambda gate: measured(gate, [LATE, HALVES, FIFTHS], Laplace(1.5)),
        (laplace_above(1.5, 0) ** 3, laplace_above(1.5, 1) ** 3),
    ),
    "measure, Gaussian": concentrated(
        Fraction(1, 2),
        lambda gate: gate.measure([LATE], Gaussian(1.0)).values,
        (gaussian_above(1.0, 1), gaussian_above(1.0, 2)),
    ),
    "histogram, Laplace": pure(
        2, lambda gate: cells(gate, Laplace(1.0)), (laplace_above(1.0, 0) ** 2, laplace_above(1.0, 1) ** 2)
    ),
    "histogram, Gaussian": concentrated(
        Fraction(1), lambda gate: cells(gate, Gaussian(1.0)), (gaussian_above(1.0, 0) ** 2, gaussian_above(1.0, 1) ** 2)
    ),
    "select": pure(2, lambda gate: gate.select([LATE, NOT_LATE], 1.0).index, (0.5, 1 / (1 + math.exp(2)))),
    "select, distance": pure(
        2, lambda gate: gate.select([LATE, NOT_LATE], 1.0, [0, 0]).index, (0.5, 1 / (1 + math.exp(2)))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_real_mechanism_keeps_its_promise_and_the_audit_would_see_a_fifth_of_it(name: str) -> None:
    case = CASES[name]
    found = lower_bound(case.run, *case.pair, case.samples, CONFIDENCE, case.delta)
    assert found <= case.epsilon
    if case.event is not None:
        assert catch_rate(*case.event, case.samples // 2, SHARE * case.epsilon, case.delta) > 1 - MISS
        assert found > SHARE * case.epsilon


def test_the_number_of_audits_is_within_the_stated_false_alarm_rate() -> None:
    """One more is made in test_negative_controls."""
    assert len(WALKS) + len(CASES) + 1 <= SPARSE_AUDITS
    assert MOST_AUDITS * (1 - CONFIDENCE) <= 1e-6 * (1 + 1e-6)
