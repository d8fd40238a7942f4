"""The tight profile's answers, one by one: what the gate is asked, what is made of its reply, and what is noted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.cost import FREE, Cost
from treering.gate import Compared, Crossing, Event, Measured, Noted, RunEnded, RunRequest, RunStarted
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.state import Corrected, Doubted, Grown, Judged, Kept, Learned, Measurement, RunState
from treering.mechanisms.tight import Tight, deviation, measuring_noise
from treering.noise import Gaussian, Noise
from treering.theory.pmwg.tight import MEASURED_SHARE, growth_potential, hard_target
from treering.theory.sparse import RunScales
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3)})
SIZE = 4000
ALPHA, BETA = 0.2, 0.05


def made(limit: int | None = None, **options: Any) -> tuple[Tight, TestDatabase]:
    db = TestDatabase(SCHEMA, [row % SCHEMA.cells for row in range(SIZE)])
    given = {"epsilon": 1000.0, "delta": 1e-6, "alpha": ALPHA, "beta": BETA, **options}
    pmwg = tr.PMWG(db, **given)
    pmwg.ask("TRUE")
    assert isinstance(pmwg._engine, Tight)
    pmwg._engine._limit = limit
    return pmwg._engine, db


def parsed(*texts: str) -> list[tr.Query]:
    return [tr.parse(text, SCHEMA) for text in texts]


def notes(db: TestDatabase) -> list[object]:
    return [event.note for event in db.journal.events() if isinstance(event, Noted)][1:]  # the first: it has grown


# -- comparisons -------------------------------------------------------------------------------------------------------


class Comparing:
    """In place of the gate's comparisons: below, up to the query at ``crossing``, if there is such a one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, crossing: int | None = None, value: int | None = None) -> None:
        self.crossing, self.value = crossing, value
        self.calls: list[tuple[int, list[tr.Query], list[int], list[int]]] = []
        monkeypatch.setattr(Kernel, "first_exceeding", lambda _, *given: self._compared(*given))

    def _compared(
        self, run: int, queries: Sequence[tr.Query], bars: Sequence[int], estimates: Sequence[int]
    ) -> Compared:
        self.calls.append((run, list(queries), list(bars), list(estimates)))
        if self.crossing is None or self.crossing >= len(queries):
            return Compared(SIZE, run, len(queries), None)
        return Compared(SIZE, run, self.crossing + 1, Crossing(self.crossing, self.value))


def in_run(engine: Tight) -> RunState:
    """A run in progress that serves any query."""
    run = RunState(9, 3, RunScales(1e-9, 1e-9, None))
    engine.state.run = run
    return run


WEIGHTED = tr.Query.weighted(SCHEMA, [0.25, 0.5, 0.75, 0.5], attributes=["b"])


def test_queries_are_compared_in_their_own_units(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = made()
    in_run(engine)
    comparing = Comparing(monkeypatch)
    queries = [*parsed("a = 1", "a <= 1 AND b = 2"), WEIGHTED, ~WEIGHTED]
    shares = [0.25, 0.125, 0.5, 0.5]
    bar, scale = engine._plan.guard.threshold * SIZE, WEIGHTED.scale
    assert scale > 1
    answers: list[tr.Answer] = []
    assert engine._guarded(queries, answers)
    run, asked, bars, estimates = comparing.calls[0]
    assert (run, asked) == (9, queries)
    assert bars == [round(bar), round(bar), round(bar * scale), round(bar * scale)]
    assert estimates == [1000, 500, 2000 * scale, 2000 * scale]
    assert answers == [tr.Answer(share, ALPHA, SIZE, "easy") for share in shares]
    assert engine.state.asked == 4


@pytest.mark.parametrize("number", [1, 2])
def test_a_block_may_be_a_query_or_two(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = made()
    in_run(engine)
    Comparing(monkeypatch)
    answers: list[tr.Answer] = []
    engine._guarded(parsed("a = 1", "a <= 1")[:number], answers)
    assert [answer.value for answer in answers] == [0.25, 0.5][:number]


@pytest.mark.parametrize("crossing", [0, 1, 2, None])
def test_answers_come_in_order_up_to_the_hard_one(crossing: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known queries among them are not compared, and those after a hard one are left for later."""
    engine, _ = made()
    in_run(engine)
    Comparing(monkeypatch, crossing, 4000)
    known, constant = parsed("b = 3", "TRUE")
    engine.records.keep(known, Measurement(0.75, 0.01, SIZE))
    queries = [*parsed("a = 1"), known, *parsed("a <= 1"), constant, *parsed("b = 2"), known]
    cached, public = tr.Answer(0.75, 0.01, SIZE, "cached"), tr.Answer(1.0, 0.0, SIZE, "easy")
    easy = [tr.Answer(share, ALPHA, SIZE, "easy") for share in (0.25, 0.5, 0.25)]
    everything = [easy[0], cached, easy[1], public, easy[2], cached]
    answers: list[tr.Answer] = []
    assert engine._guarded(queries, answers) == (crossing is None)
    if crossing is None:
        # What is known and comes last is left: it costs nothing to look it up again.
        assert answers == everything[:5]
    else:
        position = 2 * crossing
        assert answers == [*everything[:position], tr.Answer(1.0, engine._plan.guard.error, SIZE, "hard")]
    assert engine.state.asked == (3 if crossing is None else crossing + 1)


@pytest.mark.parametrize("limit", [1, 2, 3, None])
def test_no_more_are_compared_than_the_limit_leaves(limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = made(None if limit is None else 50 + limit)
    engine.state.asked = 50
    in_run(engine)
    comparing = Comparing(monkeypatch)
    queries, answers = parsed("a = 1", "a = 2", "a = 3", "b = 1"), list[tr.Answer]()
    engine._guarded(queries, answers)
    assert comparing.calls[0][1] == queries[:limit]
    assert len(answers) == len(queries[:limit])
    if limit is not None:
        with pytest.raises(tr.Halted, match=f"made for {50 + limit} queries and has given its last answer"):
            engine._guarding(queries[0])


def test_a_run_that_ends_without_an_answer_teaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, db = made()
    in_run(engine)
    Comparing(monkeypatch, 0, None)
    answers: list[tr.Answer] = []
    engine._guarded(parsed("a = 1"), answers)
    assert (engine.state.hard, engine.state.run, notes(db)) == (1, None, [])


# -- hard answers ------------------------------------------------------------------------------------------------------

HALVES = tr.Query.weighted(SCHEMA, [0.25, 0.25, 0.75, 0.75], attributes=["b"])


@pytest.mark.parametrize("query", [tr.parse("b >= 2", SCHEMA), HALVES])
@pytest.mark.parametrize("off", [0.05, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("side", [-1, 1])
def test_the_histogram_is_moved_to_the_nearest_value_that_the_truth_can_have(
    query: tr.Query, off: float, side: int
) -> None:
    """From its answer, one half, to either side: by the theorem's target for the query, or for its complement."""
    engine, db = made()
    unit, guard = query.scale * SIZE, engine._plan.guard
    value = round((0.5 + side * off) * unit)
    share = value / unit
    least = 0.25 if query is HALVES else 0.0
    moved = hard_target(0.5, share if side < 0 else 1 - share, guard.error, guard.gap, SIZE, least)
    target = moved if side < 0 else 1 - moved
    step = Hypothesis(SCHEMA).plan(query, target)
    with engine.gate.transaction():
        answer = engine._hard(query, value, round(0.5 * unit), 0.5)
    assert answer == tr.Answer(min(1.0, max(0.0, share)), guard.error, SIZE, "hard")
    change = step.rate * target + step.log_normaliser
    assert change < 0
    assert notes(db) == [Corrected(step, change, share)]
    assert engine.hypothesis.answer(query) == pytest.approx(target, rel=1e-12)
    assert engine.potential == math.log(SCHEMA.cells) + change
    assert engine.records.best(query, SIZE) == (share, guard.error)


def test_a_noisy_answer_that_is_just_the_histograms_is_taken_to_be_above() -> None:
    engine, db = made()
    (query,), guard = parsed("b >= 2"), engine._plan.guard
    with engine.gate.transaction():
        engine._hard(query, 2000, 2000, 0.5)
    (note,) = notes(db)
    assert isinstance(note, Corrected)
    assert engine.hypothesis.answer(query) == pytest.approx(0.5 + guard.gap + 1 / (2 * SIZE))


def test_a_hard_answer_that_cannot_be_is_kept_and_doubted() -> None:
    engine, db = made()
    (query,) = parsed("b >= 2")
    engine.state.potential = 1e-9
    with engine.gate.transaction():
        answer = engine._hard(query, 3600, 2000, 0.5)
    assert answer == tr.Answer(0.9, engine._plan.guard.error, SIZE, "hard")
    assert notes(db) == [Kept(query, 0.9), Doubted()]
    assert (engine.state.doubts, engine.state.potential, engine.hypothesis.steps) == (1, 1e-9, 0)
    assert engine.records.best(query, SIZE) == (0.9, engine._plan.guard.error)


# -- measurements ------------------------------------------------------------------------------------------------------


def measure(engine: Tight, query: tr.Query, off: float, monkeypatch: pytest.MonkeyPatch) -> tuple[tr.Answer, float]:
    """An answer whose noisy share is this far from what the histogram says, and that share."""
    unit = query.scale * SIZE
    value = round((engine.hypothesis.answer(query) + off) * unit)
    seen: list[tuple[list[tr.Query], Noise]] = []

    def measured(_: Kernel, queries: Sequence[tr.Query], noise: Noise) -> Event:
        seen.append((list(queries), noise))
        return Measured(SIZE, Cost(None, Fraction(1, 64)), tuple(queries), noise, (value,))

    monkeypatch.setattr(Kernel, "measure", measured)
    answer = engine._measured(query)
    assert seen == [([query], measuring_noise("zcdp", ALPHA, BETA, SIZE, engine.state.asked - 1))]
    return answer, value / unit


@pytest.mark.parametrize("query", [tr.parse("b >= 2", SCHEMA), HALVES])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_measurement_teaches_up_to_its_noise(query: tr.Query, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The histogram is moved to within one and a half deviations of what was measured, if it is not there already."""
    engine, db = made()
    near, later = (1.5 * deviation(measuring_noise("zcdp", ALPHA, BETA, SIZE, asked)) / SIZE for asked in (0, 1))
    error, guard = MEASURED_SHARE * ALPHA, engine._plan.guard
    assert 0 < later < near < guard.threshold
    answer, share = measure(engine, query, side * near * 0.9, monkeypatch)
    assert answer == tr.Answer(share, error, SIZE, "measured")
    assert (notes(db), engine.hypothesis.steps) == ([], 0)
    off = (near + guard.threshold) / 2
    answer, share = measure(engine, query, side * off, monkeypatch)
    target, low, high = share - side * later, share - error, share + error
    step = Hypothesis(SCHEMA).plan(query, target)
    change = step.rate * (low if side > 0 else high) + step.log_normaliser
    assert notes(db) == [Learned(step, change)]
    assert engine.state.streak == 2
    assert engine.hypothesis.answer(query) == pytest.approx(target, rel=1e-12)
    assert (engine.state.asked, engine.state.measured) == (2, 2 / 64)
    assert engine.records.best(query, SIZE) == (share, error)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_measurement_beyond_the_threshold_judges_the_histogram(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (query,) = parsed("b >= 2")
    for rows, good in ((-1, True), (1, False)):
        engine, db = made()
        engine.state.streak = 7
        bar = engine._plan.guard.threshold * SIZE
        off = (math.floor(bar) if rows < 0 else math.floor(bar) + 1) / SIZE
        measure(engine, query, side * off, monkeypatch)
        assert engine.state.streak == (8 if good else 0)
        assert (Judged(good=False) in notes(db)) == (not good)


def test_at_the_threshold_itself_the_histogram_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, db = made()
    (query,) = parsed("b >= 2")
    monkeypatch.setattr(type(engine._plan.guard), "threshold", 0.125)
    measure(engine, query, 0.125, monkeypatch)
    assert (engine.state.streak, [type(note) for note in notes(db)]) == (1, [Learned])


# -- steps -------------------------------------------------------------------------------------------------------------


def test_the_potential_may_rise_to_the_ceiling_and_fall_to_nothing() -> None:
    engine, _ = made()
    (query,), state = parsed("b >= 2"), engine.state
    found = engine._step(query, 0.7, 0.55, 0.9, 0.5)
    assert found is not None
    step, change = found
    assert step == engine.hypothesis.plan(query, 0.7)
    assert change == step.rate * 0.55 + step.log_normaliser > 0
    state.hard = 2
    ceiling = engine._plan.ceiling(SIZE, 2)
    timid = engine.hypothesis.plan(query, 0.55)
    state.potential = ceiling - change
    assert state.potential + change == pytest.approx(ceiling)
    for state.potential, goal in ((ceiling - change - 1e-9, step), (ceiling - change + 1e-9, timid), (ceiling, timid)):
        found = engine._step(query, 0.7, 0.55, 0.9, 0.5)
        assert found is not None
        assert found[0] == goal
    # Above the ceiling, it may stay where it is, or fall.
    state.potential = 2 * ceiling
    found = engine._step(query, 0.7, 0.55, 0.9, 0.5)
    assert found is not None
    assert found[0] == timid
    fall = -found[1]
    assert fall > 0
    for state.potential, allowed in ((fall, True), (math.nextafter(fall, 0), False)):
        assert (engine._step(query, 0.55, 0.55, 0.9, 0.5) is not None) == allowed


def test_a_target_out_of_reach_gives_way_to_the_nearest_end() -> None:
    engine, _ = made()
    (query,) = parsed("b >= 2")
    for target, low, high, nearest in ((1.2, 0.8, 1.3, 0.8), (-0.2, -0.3, 0.2, 0.2), (0.5, 0.6, 0.7, 0.6)):
        engine.state.potential = engine._plan.ceiling(SIZE, 0)
        found = engine._step(query, target, low, high, 0.5)
        assert found is not None
        assert found[0] == engine.hypothesis.plan(query, nearest)


# -- the fold ----------------------------------------------------------------------------------------------------------


def test_runs_are_followed() -> None:
    engine, _ = made()
    state, request = engine.state, RunRequest(3.0, 4.0, Gaussian(5.0))
    for number, run in enumerate((5, 7), start=1):
        engine._follow(RunStarted(SIZE, FREE, run, request))
        assert state.run == RunState(run, number, RunScales(3.0, 4.0, None))
    engine._follow(RunEnded(SIZE, 5, Fraction(0)))
    assert state.run is not None, "another run was ended"
    state.streak = 3
    engine._follow(Compared(SIZE, 7, 11, None))
    assert (state.asked, state.hard, state.streak, state.patience) == (11, 0, 3, 1)
    assert state.run is not None
    engine._follow(RunEnded(SIZE, 7, Fraction(0)))
    assert state.run is None
    engine._follow(RunEnded(SIZE, 7, Fraction(0)))
    for hard, patience in enumerate((2, 4, 8, 16, 32, 64, 64), start=1):
        state.streak, state.run = 3, RunState(7, 2, RunScales(3.0, 4.0, None))
        engine._follow(Compared(SIZE, 7, 2, Crossing(1, None)))
        assert (state.asked, state.hard, state.streak, state.run) == (11 + 2 * hard, hard, 0, None)
        assert state.patience == patience


def test_notes_are_followed() -> None:
    engine, _ = made()
    (query,), state = parsed("b >= 2"), engine.state
    step = engine.hypothesis.plan(query, 0.6)
    engine._follow(Noted(Learned(step, 0.125)))
    assert engine.hypothesis.answer(query) == pytest.approx(0.6)
    assert state.potential == math.log(16) + 0.125
    assert len(engine.records) == 0
    potential, cells = state.potential, engine.hypothesis.marginal(["a", "b"])
    engine._follow(Noted(Grown(5000)))
    assert state.potential == growth_potential(potential, 0.2, 16, 0.025)
    assert engine.hypothesis.marginal(["a", "b"]) == pytest.approx(0.975 * cells + 0.025 / 16)
    assert state.size == 5000
    engine._follow(Noted(Kept(query, 0.4)))
    assert engine.records.best(query, 5000) == (0.4, engine._plan.guard.error)
    assert state.potential == growth_potential(potential, 0.2, 16, 0.025)
    engine._follow(Noted(Doubted()))
    engine._follow(Noted(Doubted()))
    assert state.doubts == 2
    assert state.streak == 0
    for state.streak, good, streak in ((5, True, 5), (5, False, 0)):
        engine._follow(Noted(Judged(good=good)))
        assert state.streak == streak


def test_a_measurement_is_followed() -> None:
    engine, _ = made()
    cost = Cost(None, Fraction(3, 8))
    for number in (1, 2):
        engine._follow(Measured(3000, cost, (WEIGHTED,), Gaussian(1.0), (2250 * WEIGHTED.scale,)))
        state = engine.state
        assert (state.asked, state.streak, state.measured) == (number, number, number * 0.375)
    assert engine.records.best(WEIGHTED, 3000) == (0.75, MEASURED_SHARE * ALPHA)


def test_a_summary_stands_for_all_events() -> None:
    db = TestDatabase(SCHEMA, [0] * SIZE)
    pmwg = tr.PMWG(db, 1000.0, 1e-6, alpha=ALPHA, beta=BETA)
    engine = pmwg._engine
    assert isinstance(engine, Tight)
    assert engine.backlog == 0
    engine.condense()
    assert db.journal.events() == (), "there is nothing to condense before the first question"
    pmwg.ask_many(["a = 0", "b = 0"])
    db.append_cells([0] * 100)
    pmwg.ask("a = 1")
    steps = engine.hypothesis.steps
    assert steps >= 2
    assert engine.backlog == steps * 16
    engine.condense()
    assert engine.backlog == 0
    assert len(db.journal.events()) == 1
    again = tr.PMWG(db, 1000.0, 1e-6, alpha=ALPHA, beta=BETA)
    assert isinstance(again._engine, Tight)
    assert again._engine.plan == engine.plan
    assert again._engine._plan.start == SIZE
    assert (again.state, again._engine.backlog) == (pmwg.state, 0)
    assert len(again._engine.records) == len(engine.records) == 3
    kept = db.journal.events()
    again.ask("b = 1")
    assert (again._engine.state.asked, engine.state.asked) == (4, 3)
    assert again._engine.backlog == 16 * (again._engine.hypothesis.steps - steps)
    assert kept == db.journal.events()[:1]
    third = tr.PMWG(db, 1000.0, 1e-6, alpha=ALPHA, beta=BETA)
    assert third.state == again.state, "what follows a summary does not change it"


def test_blocks_grow_while_queries_are_easy_and_shrink_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = made()
    (query,) = parsed("a = 1")
    sizes: list[int] = []

    def guarded(queries: Sequence[tr.Query], answers: list[tr.Answer]) -> bool:
        sizes.append(len(queries))
        answers += [tr.Answer(0.5, ALPHA, SIZE, "easy")] * len(queries)
        return easy

    monkeypatch.setattr(engine, "_guarding", lambda _: True)
    monkeypatch.setattr(engine, "_guarded", guarded)
    easy = True
    engine.ask_many([query] * 20_000, [])
    assert sizes == [256, 2048, 8192, 8192, 1312]
    easy = False
    engine.ask_many([query] * 2, [])
    assert sizes[5:] == [2]
    engine.ask_many([query] * 2, [])
    assert sizes[6:] == [1, 1]
    easy = True
    engine.ask_many([query] * 80, [])
    assert sizes[8:] == [1, 8, 64, 7]
