"""The tight profile of PMWG, our calibration: measure first, guard when it pays.

Three ways to answer, cheapest first. *Cached*: an earlier measurement of the query, or of its complement, still
holds. *Guarded*: a sparse-vector run compares the public histogram with the truth and answers from it, for free,
until a query is too far off; that one is measured, and the histogram learns from it. *Measured*: the answer with
noise, directly. A run costs as much as thousands of measurements, so it is begun only when as many measurements in a
row have found the histogram good: then, on the evidence, it will pay for itself. Every decision looks at released
values only.

The public potential Φ ≥ RE(truth‖histogram) is updated at every step. It, or the ceiling that it never exceeds,
certifies how many hard queries there can still be.

Noise is as large as each answer's error bound allows (the last section). Notes and state are in
``mechanisms/state.py``, the theorems in ``theory/pmwg``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

from treering.answer import Answer
from treering.budget.promise import BudgetKind
from treering.domain.query import Query
from treering.errors import BudgetExceeded, EngineError, Halted
from treering.gate import Compared, Condensed, Event, Measured, Noted, RunEnded, RunRequest, RunStarted
from treering.mechanisms.adaptive import Outlook
from treering.mechanisms.histogram.hypothesis import Hypothesis, KeptHistogram
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.state import (
    Corrected,
    Doubted,
    Grown,
    Judged,
    Kept,
    KeptRecords,
    Learned,
    Measurement,
    Records,
    RunState,
    Summary,
    TightState,
)
from treering.noise import Gaussian, Laplace, Noise
from treering.protocols import Gate
from treering.theory.pmwg import ForeverPlan, growth_potential, hard_target, query_tail, until_spent
from treering.theory.pmwg.tight import MEASURED_SHARE, MOST_QUERIES, scaled_for
from treering.theory.search import roughly_whole
from treering.theory.sparse import RunScales
from treering.words import counted

FORGETTING: Final = 1 / 8
"""μ/w: when new rows are a share w of the database, the uniform distribution gets the weight μ in the histogram."""

BOLDNESS: Final = 1.5
"""The histogram is moved to within this many standard deviations of a measurement and no further, so as not to learn
noise."""

_MOST_PATIENCE: Final = 64

_MOST_ROWS: Final = 2**50
"""A refusal names no size above this as one that would do."""

_FAR: Final = 0.99
"""The estimate of a run's cost is at most the exact cost, up to rounding errors, which are far below one per cent."""

_FIRST_BLOCK: Final = 256
_LARGEST_BLOCK: Final = 8192
_GROWTH: Final = 8
"""How many queries a run compares at once: at first, at most, and by which factor more after a block without a hard
one."""


class Tight:
    """The tight profile over a gate. `PMWG` is its public face."""

    notes: Final = (
        *(Grown, Learned, Corrected, Judged, Doubted, Kept, Summary),
        *(Step, TightState, RunState, RunScales, KeptHistogram, KeptRecords),
    )
    over: Final = False

    def __init__(
        self,
        gate: Gate,
        alpha: float,
        beta: float,
        hypothesis: Hypothesis,
        potential: float,
        planner: Callable[[int], ForeverPlan],
        measure_first: bool,
        limit: int | None = None,
    ) -> None:
        """Over ``gate``, from the histogram ``hypothesis`` with its ``potential``; replays the gate's history.

        ``planner`` makes the plan from the starting size, which is known at the first query. With a ``limit``, this
        many queries may be compared or measured; the next one raises `Halted`.
        """
        self.gate = gate
        self.alpha = alpha
        self.beta = beta
        self.hypothesis = hypothesis
        self.records = Records(alpha)
        self.state = TightState(potential)
        self.plan: ForeverPlan | None = None
        self._planner = planner
        self._measure_first = measure_first
        self._limit = limit
        self._block = _FIRST_BLOCK
        self._condensed = 0
        """The number of the histogram's steps when the journal was last condensed."""
        self._measuring_share = float(gate.budget.total) / 2
        for event in gate.history:
            self._follow(event)

    @property
    def _plan(self) -> ForeverPlan:
        assert self.plan is not None  # made at the first query
        return self.plan

    # -- asking -------------------------------------------------------------------------------------------------------

    def ask_many(self, queries: Sequence[Query], answers: list[Answer]) -> None:
        """See `Engine.ask_many`."""
        self._grow()
        while len(answers) < len(queries):
            query = queries[len(answers)]
            known = self._recall(query, self.state.size)
            if known is not None:
                answers.append(known)
            elif self._guarding(query):
                # A hard query moves the histogram, so what was computed for later ones is lost; and hard queries tend
                # to follow each other: after one, the next block is a single query.
                easy = self._guarded(queries[len(answers) : len(answers) + self._block], answers)
                self._block = min(_GROWTH * self._block, _LARGEST_BLOCK) if easy else 1
            else:
                answers.append(self._measured(query))

    def recall(self, query: Query) -> Answer | None:
        """See `Engine.recall`."""
        return self._recall(query, self.gate.size) if self.state.size else None

    def _recall(self, query: Query, size: int) -> Answer | None:
        """The answer if it is known already: the query is constant, or its record still holds."""
        if query.constant:
            return Answer(float(query.weights()) / query.scale, 0.0, size, "easy")
        share, error = self.records.best(query, size)
        return Answer(_clip(share), error, size, "cached") if error <= self.alpha else None

    # -- guarded answers: sparse-vector runs --------------------------------------------------------------------------

    def _guarding(self, query: Query) -> bool:
        """Whether a run serves the next query. Begins a run if that is worthwhile, by public state alone."""
        state, run = self.state, self.state.run
        if state.asked == self._limit:
            made_for = counted(self._limit, "query", "queries")
            raise Halted(f"this was made for {made_for} and has given its last answer; PMWG has no limit")
        if run is not None and self._served(run, 1):
            return True
        request, _ = self._next(self._plan, query, state.size)
        if request is None:
            return False
        self._follow(self.gate.begin_run(request))
        if run is not None:
            self._follow(self.gate.end_run(run.handle))
        return True

    def _next(self, plan: ForeverPlan, query: Query, size: int) -> tuple[RunRequest | None, Fraction]:
        """`_choice`, if what is left of the budget pays for it; `BudgetExceeded` otherwise."""
        budget, spent = self.gate.budget, self.gate.spent
        request, cost = self._choice(plan, query, size)
        if spent + cost <= budget.total:
            return request, cost
        enough = roughly_whole(lambda grown: self._payable(plan, query, grown), size, _MOST_ROWS)
        raise BudgetExceeded(
            budget.unit,
            spent=spent,
            requested=cost,
            total=budget.total,
            remedy="" if enough is None else f"from about {counted(enough, 'row')} on it is cheap enough",
        )

    def _payable(self, plan: ForeverPlan, query: Query, size: int) -> bool:
        """Whether what is left pays for a query that no run serves, at this size."""
        left = float(self.gate.budget.total - self.gate.spent)
        if self._measure_first and self._due(query, size) <= min(left, self._measuring_share - self.state.measured):
            return True
        return plan.cost_of_run(size, self.state.runs + 1, self._log_queries() if plan.renewals else None) < left

    def _choice(self, plan: ForeverPlan, query: Query, size: int) -> tuple[RunRequest | None, Fraction]:
        """For a query that no run serves at this size: the run to begin, or None for a measurement; and the cost."""
        state, budget = self.state, self.gate.budget
        queries = self._log_queries() if plan.renewals else None
        if not self._measure_first:
            return self._run(plan, size, queries)
        price = self._due(query, size)
        due = float(price)
        affordable = state.measured + due <= self._measuring_share
        # If a run is far from worthwhile, the estimate of its cost decides: the exact cost takes longer to compute than
        # the measurement takes.
        if affordable and state.streak * due < _FAR * state.patience * plan.cost_of_run(size, state.runs + 1, queries):
            return None, price
        request, cost = self._run(plan, size, queries)
        worthwhile = state.streak * due >= state.patience * cost and self.gate.spent + cost <= budget.total
        return (None, price) if affordable and not worthwhile else (request, cost)

    def _due(self, query: Query, size: int, more: int = 0) -> Fraction:
        """The price of measuring a query at this size, after so many ``more`` others."""
        noise = measuring_noise(self.gate.budget.kind, self.alpha, self.beta, size, self.state.asked + more)
        return self.gate.budget.amount(self.gate.cost_of_measuring([query], noise))

    def _run(
        self, plan: ForeverPlan, size: int, log_queries: float | None, more: int = 0
    ) -> tuple[RunRequest, Fraction]:
        """The run that would begin at this size, after so many ``more`` others, for e^``log_queries`` queries (None:
        for all), and its cost."""
        scales = plan.scales(size, self.state.runs + 1 + more, log_queries)
        request = RunRequest(scales.threshold, scales.query, answering_noise(self.gate.budget.kind, scales.answer))
        return request, self.gate.budget.amount(self.gate.cost_of_run(request))

    def _log_queries(self) -> float:
        """The logarithm of the number of queries that a run is scaled for if it can be renewed."""
        return math.log(scaled_for(self.state.asked))

    def price(self, query: Query) -> Fraction:
        """What asking this query next costs, in the budget's unit; `BudgetExceeded` if it would be refused."""
        size, state = self.gate.size, self.state
        plan = self.plan or self._planner(size)
        if query.constant or self.recall(query) is not None:
            return Fraction(0)
        if state.run is not None and plan.serves(state.run.scales, size, state.run.number, state.asked + 1):
            return Fraction(0)
        return self._next(plan, query, size)[1]

    def price_many(self, queries: Sequence[Query]) -> Fraction:
        """The most that asking these queries next could cost, in the budget's unit, whatever the answers.

        Proof. Only the k queries whose answers are not known yet cost something: each begins one run at most, or is
        measured. The price of a measurement and the cost of a run grow with the number of queries and of runs, so none
        is above what it would be after all k. No run begins if measuring them all stays within its share of the budget
        and the longest streak of good measurements that there could be would not make the cheapest run worthwhile.
        """
        fresh = [query for query in dict.fromkeys(queries) if not query.constant and self.recall(query) is None]
        if len(fresh) < 2:
            return max((self.price(query) for query in fresh), default=Fraction(0))
        self.price(fresh[0])  # raises if not even the first one can be paid for
        size, state, many = self.gate.size, self.state, len(fresh)
        plan = self.plan or self._planner(size)
        number = self._log_queries() if plan.renewals else None
        due = max(self._due(query, size, many) for query in fresh)
        within = state.measured + many * float(due) <= _FAR * self._measuring_share
        cheapest = plan.cost_of_run(size, state.runs + 1, number)
        if self._measure_first and within and (state.streak + many) * float(due) < _FAR * state.patience * cheapest:
            return many * due
        if number is not None:
            number += math.log1p(many / (state.asked + 500))  # as if all were asked already: see `_log_queries`
        return many * max(due, self._run(plan, size, number, many)[1])

    def _served(self, run: RunState, wanted: int) -> int:
        """How many of the next ``wanted`` queries the run still serves at this size."""
        plan, size, asked = self._plan, self.state.size, self.state.asked
        low, high, next_guess = 0, wanted + 1, wanted  # nearly always all of them
        while high - low > 1:
            serves = plan.serves(run.scales, size, run.number, asked + next_guess)
            low, high = (next_guess, high) if serves else (low, next_guess)
            next_guess = (low + high) // 2
        return low

    def _guarded(self, queries: Sequence[Query], answers: list[Answer]) -> bool:
        """Answer from the histogram as far as the run serves; a query that is too far off is measured, and is the last.

        Returns whether no query was hard.
        """
        run, size = self.state.run, self.state.size
        assert run is not None
        known = [None, *(self._recall(query, size) for query in queries[1:])]  # `ask_many` has looked up the first one.
        asked = [index for index, answer in enumerate(known) if answer is None]
        left = len(asked) if self._limit is None else self._limit - self.state.asked
        asked = asked[: self._served(run, min(left, len(asked)))]
        batch = [queries[index] for index in asked]
        shares = self.hypothesis.answer_many(batch).tolist() if len(batch) > 1 else [self.hypothesis.answer(batch[0])]
        estimates = [round(share * (query.scale * size)) for share, query in zip(shares, batch, strict=True)]
        threshold = self._plan.guard.threshold * size
        bars = [round(threshold * query.scale) for query in batch]
        hard = None
        with self.gate.transaction():
            compared = self.gate.first_exceeding(run.handle, batch, bars, estimates)
            self._follow(compared)
            crossing = compared.crossing
            if crossing is not None and crossing.value is not None:
                index = crossing.index
                hard = self._hard(batch[index], crossing.value, estimates[index], shares[index])
        easy = iter(shares)
        end = asked[compared.asked - 1] + (hard is None)
        answers += [answer or Answer(next(easy), self.alpha, size, "easy") for answer in known[:end]]
        if hard is not None:
            answers.append(hard)
        return hard is None

    def _hard(self, query: Query, value: int, estimate: int, present: float) -> Answer:
        """Keep a hard query's numeric answer, and project the histogram onto the nearest value that the truth can have.

        ``value`` and ``estimate`` are the noisy answer and the histogram's, in grid units; ``present`` is the
        histogram's answer as a share.
        """
        guard, size = self._plan.guard, self.state.size
        unit = query.scale * size
        share, expected = value / unit, estimate / unit
        least, most = query.range
        if value < estimate:
            target = hard_target(expected, share, guard.error, guard.gap, size, least)
        else:
            target = 1 - hard_target(1 - expected, 1 - share, guard.error, guard.gap, size, 1 - most)
        found = self._step(query, target, target, target, present)
        if found is not None:
            self._follow(self.gate.note(Corrected(*found, share)))
        else:
            self._follow(self.gate.note(Kept(query, share)))
            self._follow(self.gate.note(Doubted()))
        return Answer(_clip(share), guard.error, size, "hard")

    # -- measuring ----------------------------------------------------------------------------------------------------

    def _noise(self, size: int) -> Noise:
        return measuring_noise(self.gate.budget.kind, self.alpha, self.beta, size, self.state.asked)

    def _measured(self, query: Query) -> Answer:
        """Answer with noise, and let the histogram learn from that."""
        error, size = MEASURED_SHARE * self.alpha, self.state.size
        noise = self._noise(size)
        with self.gate.transaction():
            measured = self.gate.measure([query], noise)
            self._follow(measured)
            share, present = measured.values[0] / (query.scale * size), self.hypothesis.answer(query)
            if abs(present - share) > self._plan.guard.threshold:
                self._follow(self.gate.note(Judged(good=False)))
            near = BOLDNESS * deviation(noise) / size
            if abs(present - share) > near:
                target = share + math.copysign(near, present - share)
                found = self._step(query, target, share - error, share + error, present)
                if found is not None:
                    self._follow(self.gate.note(Learned(*found)))
        return Answer(_clip(share), error, size, "measured")

    # -- the histogram ------------------------------------------------------------------------------------------------

    def _step(self, query: Query, target: float, low: float, high: float, present: float) -> tuple[Step, float] | None:
        """The step that projects the histogram, which answers ``present``, onto ``target``; and how much it adds to the
        potential. The truth lies between ``low`` and ``high`` (for a hard query: beyond the target).

        The potential moves by at most λ·f + log Z(λ), f being the worse end of the interval. A step may raise it, but
        not above the plan's ceiling. If the step to ``target`` would, the target is the end of the interval nearest to
        the histogram; None if no step is allowed.
        """
        nearest = min(max(present, low), high)
        for goal in dict.fromkeys((target, nearest)):
            if not self.hypothesis.reachable(query, goal) or goal == present:
                continue
            step = self.hypothesis.plan(query, goal)
            change = step.rate * (high if step.rate > 0 else low) + step.log_normaliser
            ceiling = self._plan.ceiling(self.state.size, self.state.hard)
            if 0 <= self.state.potential + change <= max(ceiling, self.state.potential):
                return step, change
        return None

    def _grow(self) -> None:
        size = self.gate.size
        if size < self.state.size:
            raise EngineError("the database has fewer rows than before: it was replaced, and the promise with it")
        if self.plan is None:
            self._planner(size)  # raises at a size that gives no guarantee, before anything is noted
        if size > self.state.size:
            self._follow(self.gate.note(Grown(size)))

    def condense(self) -> None:
        """Write one `Summary` that stands for all events so far: replay is then short, and gives the same state."""
        if self.plan is not None:
            state = self.state
            records = self.records.standing(state.size)
            self.gate.condense(Summary(self.plan.start, replace(state), self.hypothesis.keep(), records))
            self._condensed = self.hypothesis.steps

    @property
    def backlog(self) -> int:
        """The work of replaying what came after the last `condense`, in cells updated."""
        return (self.hypothesis.steps - self._condensed) * self.gate.schema.cells

    @property
    def potential(self) -> float:
        """Φ, a public bound on the relative entropy between database and histogram."""
        return self.state.potential

    def _grown_potential(self, size: int) -> float:
        """Φ at a later size, if nothing is asked until then."""
        weight = (size - self.state.size) / size
        return growth_potential(self.state.potential, weight, self.gate.schema.cells, FORGETTING * weight)

    def _certified(self, plan: ForeverPlan, size: int) -> float:
        """The most that hard queries can still take off Φ while the database keeps this size, whatever is asked.

        Guarding alone, Φ itself: nothing but growth raises it. Measurements teach by bold steps, which may raise Φ, but
        never above the plan's ceiling; and that falls with every hard query, and rises by growth alone.
        """
        if self._measure_first:
            return plan.ceiling(size, self.state.hard)
        return self._grown_potential(size) if self.state.size else self.state.potential

    def outlook(self) -> Outlook:
        """What is promised at the present size, and for how long."""
        state, size = self.state, self.gate.size
        plan = self.plan or self._planner(size)
        left = until_spent(
            size,
            plan.guard,
            self.beta,
            float(self.gate.budget.total - self.gate.spent),
            self._certified(plan, size),
            scaled_for(state.asked),
            state.runs,
            in_run=state.run is not None,
        )
        lasts = (
            f"the budget lasts for ever, for up to {MOST_QUERIES:,} queries"
            if plan.fits
            else f"the budget, spent on nothing else, pays for {left.affordable:,} more hard queries at this size, "
            "and for more as the database grows"
        )
        statement = f"every answer is within its error, at most alpha; {lasts}"
        return Outlook(statement, plan.fits, left.affordable, left.possible, math.inf)

    # -- the fold -----------------------------------------------------------------------------------------------------

    def _follow(self, event: Event) -> None:
        """Update the state by an event that is in the journal. State changes nowhere else."""
        state = self.state
        if isinstance(event, RunStarted):
            state.runs += 1
            scales = RunScales(event.request.threshold_scale, event.request.query_scale, None)
            state.run = RunState(event.run, state.runs, scales)
        elif isinstance(event, Compared):
            state.asked += event.asked
            if event.crossing is not None:
                state.hard += 1
                state.run, state.streak = None, 0
                state.patience = min(2 * state.patience, _MOST_PATIENCE)
        elif isinstance(event, RunEnded) and state.run is not None and state.run.handle == event.run:
            state.run = None  # Ended when the journal was opened: its lease had not been given back.
        elif isinstance(event, Measured):
            self._follow_measurement(event)
        elif isinstance(event, Noted):
            self._follow_note(event.note)
        elif isinstance(event, Condensed):
            self._take_up(event.note)

    def _take_up(self, summary: Summary) -> None:
        self.plan, self.state = self._planner(summary.start), replace(summary.state)
        self.hypothesis.restore(summary.histogram)
        self._condensed = summary.histogram.steps
        self.records.restore(summary.records)

    def _follow_measurement(self, event: Measured) -> None:
        (query,), (value,) = event.queries, event.values
        self.state.asked += 1
        self.state.measured += float(self.gate.budget.amount(event.cost))
        self.state.streak += 1  # A `Judged` note follows if the measurement found the histogram bad.
        share = value / (query.scale * event.size)
        self.records.keep(query, Measurement(share, MEASURED_SHARE * self.alpha, event.size))

    def _follow_note(self, note: object) -> None:
        state = self.state
        if isinstance(note, Grown) and self.plan is None:
            self.plan = self._planner(note.size)
            state.size = note.size
        elif isinstance(note, Grown):
            state.potential = self._grown_potential(note.size)
            self.hypothesis.grow(FORGETTING * (note.size - state.size) / note.size)
            state.size = note.size
        elif isinstance(note, Learned | Corrected):
            self.hypothesis.apply(note.step)
            state.potential += note.change
            if isinstance(note, Corrected):
                self._keep(note.step.query, note.share)
        elif isinstance(note, Judged):
            state.streak = state.streak if note.good else 0
        elif isinstance(note, Doubted):
            state.doubts += 1
        elif isinstance(note, Kept):
            self._keep(note.query, note.share)

    def _keep(self, query: Query, share: float) -> None:
        """Record the numeric answer to a hard query."""
        self.records.keep(query, Measurement(share, self._plan.guard.error, self.state.size))


def _clip(share: float) -> float:
    return min(1.0, max(0.0, share))


# -- the noise of answers ----------------------------------------------------------------------------------------------


_LEAST_SCALE: Final = 1e-6


def measuring_noise(kind: BudgetKind, alpha: float, beta: float, size: int, asked: int) -> Noise:
    """The noise, in rows, of measuring the j-th query, after ``asked`` others.

    It exceeds `MEASURED_SHARE`·alpha·size rows with probability at most β_j.
    The number j is rounded up to a power of two, so that the scale, and with it the sampler, changes rarely.
    Discrete Laplace noise has P(|X| > R) ≤ e^{−(R−½)/s}, discrete Gaussian noise P(|X| ≥ R) ≤ 2e^{−R²/(2σ²)}
    (see ``theory.pmwg.tight``). A size too small for any such noise gives the smallest scale there is.
    """
    return _measuring_noise(kind, alpha, beta, size, 1 << asked.bit_length())


@lru_cache(maxsize=64)
def _measuring_noise(kind: BudgetKind, alpha: float, beta: float, size: int, number: int) -> Noise:
    rows = MEASURED_SHARE * alpha * size
    tail = query_tail(beta, math.log(number)) + math.log(2)  # log(1/β_j)
    if kind == "pure":
        return Laplace(max(rows - 0.5, _LEAST_SCALE) / tail)
    return Gaussian(max(rows, _LEAST_SCALE) / math.sqrt(2 * (tail + math.log(2))))


def answering_noise(kind: BudgetKind, scale: float | None) -> Noise | None:
    """The noise of a hard query's numeric answer; None if a run has none (``scale`` is None)."""
    if scale is None:
        return None
    return Laplace(scale) if kind == "pure" else Gaussian(scale)


def deviation(noise: Noise) -> float:
    """The standard deviation of continuous noise of the same scale: an upper bound on that of the discrete noise."""
    return noise.scale * (math.sqrt(2) if isinstance(noise, Laplace) else 1.0)
