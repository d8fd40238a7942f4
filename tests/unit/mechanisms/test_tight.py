"""The tight profile: its tiers, its policy, its potential, and what it does when things run out."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from treering.domain.query import evaluate
from treering.domain.workload import random_conjunctions
from treering.gate import Event, Measured, Noted, RunEnded, RunStarted
from treering.mechanisms.state import Corrected, Doubted, Grown, Kept, Learned, Records
from treering.mechanisms.tight import BOLDNESS, Tight, answering_noise, deviation, measuring_noise
from treering.noise import Gaussian, Laplace
from treering.theory.pmwg import growth_potential
from treering.theory.pmwg.tight import MEASURED_SHARE, query_tail
from treering.theory.sparse import RunScales
from treering.theory.tails import gaussian_tail, laplace_tail
from treering.trusted.journal import MemoryJournal

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3), "c": tr.categories("x", "y")})
SIZE = 100_000
RARE = 1e-9
"""As beta: a test that relies on accuracy then fails by chance at most so often."""


def skewed(count: int, seed: int = 0) -> list[int]:
    """A table with half of its rows in one cell."""
    generator = np.random.default_rng(seed)
    cells = np.where(generator.random(count) < 0.5, 5, generator.integers(0, SCHEMA.cells, count))
    return [int(cell) for cell in cells]


def even(count: int) -> list[int]:
    return [cell % SCHEMA.cells for cell in range(count)]


def make(db: Any, **options: Any) -> tr.PMWG:
    return tr.PMWG(db, **{"epsilon": 1.0, "delta": 1e-6, "alpha": 0.1, "beta": 0.05, **options})


def engine(pmwg: tr.PMWG) -> Tight:
    assert isinstance(pmwg._engine, Tight)
    return pmwg._engine


def truth(db: TestDatabase, query: tr.Query) -> float:
    return float(db.rows.cells.count(query)) / (query.scale * db.size)


def divergence(db: TestDatabase, pmwg: tr.PMWG) -> float:
    """RE(truth‖histogram)."""
    x = db.rows.cells.marginal((0, 1, 2)).reshape(-1) / db.size
    y = pmwg.hypothesis.marginal(SCHEMA.names).reshape(-1)
    occupied = x > 0
    return float(np.sum(x[occupied] * np.log(x[occupied] / y[occupied])))


@pytest.mark.parametrize("options", [{}, {"measure_first": False, "alpha": 0.2}, {"delta": 0.0, "alpha": 0.2}])
def test_answers_are_within_their_errors(options: dict[str, Any]) -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db, **options, beta=RARE)
    weighted = tr.Query.weighted(SCHEMA, np.linspace(0, 1, SCHEMA.cells))
    for query in [*random_conjunctions(SCHEMA, 60, np.random.default_rng(1)), weighted, ~weighted]:
        answer = pmwg.ask(query)
        assert abs(answer.value - truth(db, query)) <= answer.error <= options.get("alpha", 0.1)
        assert (answer.size, answer.count) == (SIZE, round(answer.value * SIZE))
        db.append_cells([])


def test_constant_queries_are_public() -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db)
    quarter = tr.Query.weighted(SCHEMA, np.full(SCHEMA.cells, 0.25))
    for query, share in [(tr.Query.all(SCHEMA), 1.0), (tr.Query.none(SCHEMA), 0.0), (quarter, 0.25)]:
        answer = pmwg.ask(query)
        assert (answer.value, answer.error, answer.kind) == (share, 0.0, "easy")
    assert (pmwg.spent, db.touched) == (0, 0)


def test_a_question_asked_twice_is_paid_for_once() -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db)
    first = pmwg.ask("a = 1 AND b = 1")
    spent, touched = pmwg.spent, db.touched
    known = [tr.parse(text, SCHEMA) for text in ("a = 1 AND b = 1", "NOT (a = 1 AND b = 1)", "TRUE", "FALSE")]
    assert [engine(pmwg).price(query) for query in known] == [0] * 4
    again, complement = pmwg.ask("b = 1 AND NOT a <> 1"), pmwg.ask("NOT (a = 1 AND b = 1)")
    assert (first.kind, again.kind, complement.kind) == ("measured", "cached", "cached")
    assert again.value == first.value
    assert complement.value == pytest.approx(1 - first.value)
    assert (pmwg.spent, db.touched) == (spent, touched)
    db.append_cells(skewed(SIZE // 100))
    stale = pmwg.ask("a = 1 AND b = 1")
    assert (stale.kind, pmwg.spent) == ("cached", spent)
    assert first.error < stale.error <= 0.1
    db.append_cells(skewed(SIZE))
    assert pmwg.ask("a = 1 AND b = 1").kind == "measured"


def test_a_hard_query_moves_the_histogram_towards_the_truth() -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db, measure_first=False, alpha=0.2)
    query = tr.parse("a = 0 AND b = 2", SCHEMA)  # holds the heavy cell
    before, right = pmwg.hypothesis.answer(query), truth(db, query)
    patience = engine(pmwg).state.patience
    answer = pmwg.ask(query)
    after = pmwg.hypothesis.answer(query)
    assert answer.kind == "hard"
    assert engine(pmwg).state.patience == 2 * patience
    assert abs(after - right) < abs(before - right) - 0.1
    assert pmwg.hard_queries == 1
    assert pmwg.potential is not None
    assert pmwg.potential < math.log(SCHEMA.cells)


@given(seed=st.integers(0, 10**6), measure_first=st.booleans(), pure=st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_potential_bounds_the_divergence(seed: int, measure_first: bool, pure: bool) -> None:
    generator = np.random.default_rng(seed)
    db = TestDatabase(SCHEMA, skewed(SIZE, seed))
    pmwg = make(db, measure_first=measure_first, delta=0.0 if pure else 1e-6, alpha=0.2, beta=RARE)
    for query in random_conjunctions(SCHEMA, 25, generator):
        pmwg.ask(query)
        state, plan = engine(pmwg).state, engine(pmwg).plan
        assert plan is not None
        assert divergence(db, pmwg) <= state.potential + 1e-9
        assert 0 <= state.potential <= plan.ceiling(state.size, state.hard) + 1e-9
        assert state.measured <= pmwg._promise.budget.total / 2
        assert state.doubts == 0
        db.append_cells(skewed(int(generator.integers(0, 5000)), seed + 1))


def test_growth_is_booked_as_the_theorem_says() -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db)
    pmwg.ask("TRUE")
    db.append_cells(skewed(SIZE))
    pmwg.ask("TRUE")
    expected = growth_potential(math.log(SCHEMA.cells), 0.5, SCHEMA.cells, 0.5 / 8)
    assert pmwg.potential == pytest.approx(expected)


def test_a_guard_is_begun_when_it_pays() -> None:
    """Even data, so that the histogram is right at once: after enough good measurements questions become free."""
    db = TestDatabase(SCHEMA, even(SIZE))
    pmwg = make(db, alpha=0.2)
    queries = random_conjunctions(SCHEMA, 500, np.random.default_rng(4))
    for number in range(10_000):
        engine(pmwg).records = Records(0.2)  # as if every question were a new one
        kind = pmwg.ask(queries[number % 500]).kind
        if kind == "easy":
            break
        assert kind == "measured"
    state = engine(pmwg).state
    (started,) = [event for event in db.journal.events() if isinstance(event, RunStarted)]
    # It had measured for as much as the run cost, and found the histogram good each time.
    assert number >= state.streak > 1000
    assert state.measured >= 0.9 * started.cost.rho  # prices had been a little lower at first
    spent = pmwg.spent
    assert {pmwg.price(query) for query in queries} == {0}
    assert {answer.kind for answer in pmwg.ask_many(queries)} <= {"easy", "cached"}
    assert pmwg.spent == spent


def test_measuring_takes_at_most_half() -> None:
    """Data that keep changing size, so nothing is ever cached, at an alpha that the budget can hardly pay."""
    db = TestDatabase(SCHEMA, skewed(2000))
    pmwg = make(db, alpha=0.1)
    with pytest.raises(tr.BudgetExceeded) as caught:
        pmwg.ask_many(random_conjunctions(SCHEMA, 5000, np.random.default_rng(6)))
    state = engine(pmwg).state
    assert sum(isinstance(answer, tr.Answer) and answer.kind == "measured" for answer in caught.value.answers) > 10
    assert 0.45 * pmwg._promise.budget.total < state.measured <= pmwg._promise.budget.total / 2
    # Refused again, for nothing, with nothing touched.
    before, touched = pmwg.state, db.touched
    fresh = tr.parse("a = 0 AND b = 0 AND c = 'x'", SCHEMA)
    fresh &= tr.parse("a <= 2", SCHEMA)
    said = "needs rho .*, and .* is left of .*; from about ([0-9,]+) rows on it is cheap enough"
    for refused in (pmwg.ask, pmwg.price):
        with pytest.raises(tr.BudgetExceeded, match=said) as refusal:
            refused(fresh)
    assert (pmwg.state, db.touched) == (before, touched)
    named = re.search(said, str(refusal.value))
    assert named is not None
    db.append_cells(skewed(int(named[1].replace(",", "")) - db.size))
    assert pmwg.ask(fresh).kind == "measured"


def test_a_batch_that_fails_hands_over_what_it_released() -> None:
    db = TestDatabase(SCHEMA, skewed(2000))
    pmwg = make(db, alpha=0.1)
    queries = list(dict.fromkeys(random_conjunctions(SCHEMA, 5000, np.random.default_rng(6))))
    with pytest.raises(tr.BudgetExceeded, match="budget") as caught:
        pmwg.ask_many(queries)
    answers = caught.value.answers
    assert 10 < len(answers) < len(queries)
    assert all(isinstance(answer, tr.Answer) for answer in answers)
    assert caught.value.__notes__ == [f"{len(answers):,} of the {len(queries):,} queries were answered before this."]
    released = [event for event in db.journal.events() if isinstance(event, Measured)]
    assert len(released) == sum(answer.kind == "measured" for answer in answers if isinstance(answer, tr.Answer))
    assert make(db, alpha=0.1).state == pmwg.state


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_run_is_renewed_when_it_no_longer_serves(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tight, "_log_queries", lambda self: math.log(self.state.asked + 5))
    db = TestDatabase(SCHEMA, even(10 * SIZE))
    pmwg = make(db, measure_first=False, alpha=0.3, delta=delta)
    answers = pmwg.ask_many(random_conjunctions(SCHEMA, 30, np.random.default_rng(2)))
    assert {answer.kind for answer in answers} == {"easy"}
    starts = [event for event in db.journal.events() if isinstance(event, RunStarted)]
    ends = [event for event in db.journal.events() if isinstance(event, RunEnded)]
    assert len(starts) == len(ends) + 1 > 2
    assert all(end.refund > 0 for end in ends)
    assert engine(pmwg).state.runs == len(starts)


def test_the_two_notes_of_earlier_versions_are_followed_like_the_one() -> None:
    """A hard answer was noted as kept, and then as learnt from."""
    journal = MemoryJournal()
    db = TestDatabase(SCHEMA, skewed(10 * SIZE), journal)
    pmwg = make(db, measure_first=False, alpha=0.2, beta=RARE)
    pmwg.ask_many(random_conjunctions(SCHEMA, 30, np.random.default_rng(2)))
    events: list[Event] = []
    for event in journal.events():
        if isinstance(event, Noted) and isinstance(event.note, Corrected):
            note = event.note
            events += [Noted(Kept(note.step.query, note.share)), Noted(Learned(note.step, note.change))]
        else:
            events.append(event)
    assert pmwg.hard_queries == len(events) - len(journal.events()) > 0
    journal._events = events
    again = make(db, measure_first=False, alpha=0.2, beta=RARE)
    assert (again.state, again.spent) == (pmwg.state, pmwg.spent)
    assert len(engine(again).records) == len(engine(pmwg).records)


@pytest.mark.parametrize(("measure_first", "times", "parts"), [(True, 2, 2), (False, 1, 1)])
def test_the_guard_is_planned_for_what_measuring_leaves(measure_first: bool, times: int, parts: int) -> None:
    """Measuring has half of the budget, and its bold steps may lift the potential to twice what it was at first."""
    pmwg = make(TestDatabase(SCHEMA, skewed(SIZE)), measure_first=measure_first)
    plan = pmwg._plan(SIZE)
    assert plan.potential == pytest.approx(times * math.log(SCHEMA.cells))
    assert plan.budget.total == pmwg._promise.budget.total / parts


def test_the_bar_of_a_weighted_query_is_in_its_own_units() -> None:
    """Even data: the histogram is right from the start, so no question is hard, whatever its weights count in."""
    db = TestDatabase(SCHEMA, even(10 * SIZE))
    pmwg = make(db, measure_first=False, alpha=0.3, beta=RARE)
    weights = np.random.default_rng(5).random((40, SCHEMA.cells))
    queries = [tr.Query.weighted(SCHEMA, each) for each in weights]
    assert min(query.scale for query in queries) > 1
    assert {answer.kind for answer in pmwg.ask_many(queries)} == {"easy"}


@pytest.mark.parametrize(("text", "side"), [("a = 0 AND b = 2", 1), ("a <> 0 OR b <> 2", -1)])
def test_noise_as_large_as_it_may_be_still_teaches(text: str, side: int) -> None:
    """All rows lie in one cell, and the noisy share is as far beyond 1, or below 0, as its error bound allows: the
    histogram is moved to the last value short of that, not left alone."""
    db = TestDatabase(SCHEMA, [5] * SIZE)
    pmwg = make(db, measure_first=False, alpha=0.2)
    pmwg.ask("TRUE")
    tight = engine(pmwg)
    assert tight.plan is not None
    query, error = tr.parse(text, SCHEMA), tight.plan.guard.error
    share, present = (1 + error if side > 0 else -error), pmwg.hypothesis.answer(query)
    with tight.gate.transaction():
        answer = tight._hard(query, math.ceil(side * share * SIZE) * side, round(present * SIZE), present)
    assert (answer.value, answer.error) == (1.0 if side > 0 else 0.0, error)
    assert tight.state.doubts == 0
    assert pmwg.hypothesis.answer(query) == pytest.approx(truth(db, query), abs=1 / SIZE)


def test_a_hard_query_that_cannot_be_is_kept_and_doubted() -> None:
    """The potential says that the histogram is right, so a query that proves it wrong is an event of probability beta:
    its answer is given and remembered, and nothing is learnt from it."""
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db, measure_first=False, alpha=0.2)
    pmwg.ask("TRUE")
    tight = engine(pmwg)
    tight.state.potential = 1e-9
    query, before = tr.parse("a = 0 AND b = 2", SCHEMA), pmwg.hypothesis.fingerprint()
    answer = pmwg.ask(query)
    assert (answer.kind, tight.state.hard, tight.state.doubts) == ("hard", 1, 1)
    assert (pmwg.hypothesis.fingerprint(), tight.state.potential) == (before, 1e-9)
    assert pmwg.ask(query) == replace(answer, kind="cached")
    notes = [event.note for event in db.journal.events() if isinstance(event, Noted)]
    assert [type(note) for note in notes] == [Grown, Kept, Doubted]


def test_a_run_without_answers_has_no_noise_for_them() -> None:
    assert answering_noise("pure", None) is answering_noise("zcdp", None) is None
    assert (answering_noise("pure", 2.0), answering_noise("zcdp", 2.0)) == (Laplace(2.0), Gaussian(2.0))


def test_a_guard_is_begun_when_measurements_have_cost_as_much() -> None:
    """Not earlier, and not later: here with measurements that cost more than a whole unit of the budget each."""
    pmwg = make(TestDatabase(SCHEMA, even(160)), epsilon=1e6, delta=0.0, alpha=0.1, beta=1e-30)
    pmwg.ask("TRUE")
    query, state = tr.parse("a = 1", SCHEMA), engine(pmwg).state
    measured = pmwg.price(query)
    state.streak = 10**9
    run = pmwg.price(query)
    assert 2 < measured < run / 10
    needed = math.ceil(state.patience * run / measured)
    for state.streak, price in ((needed - 1, measured), (needed + 1, run)):
        assert pmwg.price(query) == price


def test_a_size_that_cannot_pay_for_one_answer_is_refused() -> None:
    for options in ({}, {"measure_first": False}, {"delta": 0.0}, {"delta": 0.0, "epsilon": 1000.0}):
        db = TestDatabase(SCHEMA, skewed(20))
        pmwg = make(db, **options)
        with pytest.raises(tr.GuaranteeError, match="20 rows cannot pay for one answer, ([0-9,]+) can") as caught:
            pmwg.ask("a = 1")
        assert (pmwg.spent, db.touched, len(db.journal.events())) == (0, 0, 0)
        needed = int(str(caught.value).split("one answer, ")[1].split(" can")[0].replace(",", ""))
        db.append_cells(skewed(needed - 20))
        assert pmwg.ask("a = 1").error <= 0.1


def test_a_shrunken_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db)
    pmwg.ask("a = 1")
    before, touched = pmwg.state, db.touched
    monkeypatch.setattr(db.rows, "_size", SIZE - 1)
    with pytest.raises(tr.EngineError, match="fewer rows than before"):
        pmwg.ask("a = 2")
    assert (pmwg.state, db.touched) == (before, touched)


@pytest.mark.parametrize("size", [230, 239, 461, 1_000, 99_999])
@pytest.mark.parametrize("asked", [0, 1, 5, 1000])
def test_a_measurement_is_within_its_error_as_often_as_it_says(size: int, asked: int) -> None:
    """By the exact tails of discrete noise, also where the error is a few rows; and not much more often."""
    alpha, beta = 0.05, 0.01
    chance = math.exp(-query_tail(beta, math.log(asked + 1))) / 2
    beyond = math.floor(MEASURED_SHARE * alpha * size) + 1
    pure, rho = (measuring_noise(kind, alpha, beta, size, asked) for kind in ("pure", "zcdp"))
    assert isinstance(pure, Laplace)
    assert isinstance(rho, Gaussian)
    for tail in (laplace_tail(pure.scale, beyond), gaussian_tail(rho.scale, beyond)):
        assert chance / 100 < tail <= chance


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_it_starts_as_soon_as_half_the_budget_pays_for_one_measurement(delta: float) -> None:
    total = tr.Promise(1.0, delta).budget.total

    def paid(size: int) -> bool:
        noise = measuring_noise("zcdp" if delta else "pure", 0.1, 0.05, size, 0)
        return (1 / (2 * noise.scale**2) if delta else 1 / noise.scale) <= total / 2

    first = next(size for size in range(1, 1000) if paid(size))
    assert make(TestDatabase(SCHEMA, even(first)), delta=delta).ask("a = 0").kind == "measured"
    with pytest.raises(tr.GuaranteeError, match=f"{first - 1} rows cannot pay for one answer"):
        make(TestDatabase(SCHEMA, even(first - 1)), delta=delta).ask("a = 0")


def test_a_warm_start_begins_where_it_is_told() -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    counts = np.bincount(skewed(SIZE, seed=9), minlength=SCHEMA.cells)
    warm = make(db, warm_start=counts)
    assert warm.potential == pytest.approx(math.log(SCHEMA.cells / 0.1))
    query = tr.parse("a = 0 AND b = 2", SCHEMA)
    assert abs(warm.hypothesis.answer(query) - truth(db, query)) < 0.06
    assert divergence(db, warm) < 0.2


def test_hypothesis_marginals_and_synthetic_rows_are_free() -> None:
    db = TestDatabase(SCHEMA, skewed(SIZE))
    pmwg = make(db)
    pmwg.ask_many(random_conjunctions(SCHEMA, 100, np.random.default_rng(2)))
    spent, touched = pmwg.spent, db.touched
    rows = pmwg.hypothesis.sample(5000)
    share = np.mean((rows["a"].to_numpy() == 0) & (rows["b"].to_numpy() == 2))
    assert abs(share - evaluate(tr.parse("a = 0 AND b = 2", SCHEMA), pmwg.hypothesis.marginal(["a", "b"]))) < 0.01
    assert (pmwg.spent, db.touched) == (spent, touched)


def test_the_guarantee_tells_forever_from_until_spent() -> None:
    rich = make(TestDatabase(SCHEMA, skewed(SIZE)), alpha=0.45, measure_first=False).guarantee
    assert rich.forever
    assert "for ever" in rich.statement
    poor = make(TestDatabase(SCHEMA, skewed(SIZE)), alpha=0.05).guarantee
    assert not poor.forever
    assert poor.hard_left < poor.hard_possible
    assert f"{poor.hard_left:,} more hard queries" in poor.statement


# -- how long it lasts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure_first", [True, False])
@pytest.mark.parametrize("asked", [0, 499_999_500, 5 * 10**8, 10**9 - 1])
def test_no_run_up_to_the_last_planned_query_is_dearer_than_planned(asked: int, measure_first: bool) -> None:
    """The plan prices runs for 10⁹ queries; one begun after 5·10⁸ was scaled for twice those asked, so for more."""
    pmwg = make(TestDatabase(SCHEMA, even(10 * SIZE)), alpha=0.3, measure_first=measure_first)
    pmwg.ask("TRUE")
    tight = engine(pmwg)
    tight.state.asked, plan = asked, tight._plan
    request, cost = tight._run(plan, 10 * SIZE, tight._log_queries())
    assert cost <= plan.cost_of_run(10 * SIZE, 1) * (1 + 2.0**-30)  # the price in the plan's sum, with its rounding
    scales = RunScales(request.threshold_scale, request.query_scale, None)
    assert plan.serves(scales, 10 * SIZE, 1, min(2 * asked + 1000, 10**9))


def test_what_is_certified_does_not_rise_while_nothing_grows() -> None:
    """Measurements teach by steps that may raise the potential; what it certified would then have been wrong."""
    pmwg = make(TestDatabase(SCHEMA, skewed(10 * SIZE)), alpha=0.05, beta=RARE)
    stated, potentials = [], []
    for query in random_conjunctions(SCHEMA, 150, np.random.default_rng(3)):
        pmwg.ask(query)
        stated.append(pmwg.hard_queries + pmwg.guarantee.hard_possible)
        potentials.append(engine(pmwg).potential)
    assert max(np.diff(potentials)) > 0.01
    assert all(later <= earlier for earlier, later in pairwise(stated))
    gap = engine(pmwg)._plan.guard.gap
    assert all(bound >= potential / (2 * gap**2) - 1 for bound, potential in zip(stated, potentials, strict=True))


def test_the_most_hard_queries_that_noise_can_cause_are_certified() -> None:
    """An adversary's noise: measurements that err as far as they may move the histogram away from the truth, and hard
    queries move it back. Many more are hard than the potential would have certified, none beyond what is stated."""
    pmwg = make(TestDatabase(SCHEMA, even(SIZE)), alpha=0.1, beta=RARE)
    pmwg.ask("TRUE")
    tight, query = engine(pmwg), tr.parse("a >= 2", SCHEMA)
    state, guard, error = tight.state, tight._plan.guard, MEASURED_SHARE * 0.1
    state.potential = 0.01  # the histogram is uniform and so are the rows: any Φ bounds the divergence, 0
    by_potential = math.floor(state.potential / (2 * guard.gap**2))
    stated, near = pmwg.guarantee.hard_possible, BOLDNESS * deviation(tight._noise(SIZE)) / SIZE
    while True:
        present, share = pmwg.hypothesis.answer(query), 0.5 + error
        found = tight._step(query, share - near, share - error, share + error, present)
        moved = pmwg.hypothesis.answer(query) if found is None else share - near
        if found is None or moved - 0.5 < guard.gap + 1 / SIZE:
            break
        with tight.gate.transaction():
            tight._follow(tight.gate.note(Learned(*found)))
            assert state.potential <= tight._plan.ceiling(SIZE, state.hard) + 1e-9
            state.hard += 1
            tight._hard(query, SIZE // 2, round(moved * SIZE), pmwg.hypothesis.answer(query))
        assert state.doubts == 0
        assert state.hard + pmwg.guarantee.hard_possible <= stated
    assert 10 * by_potential < state.hard <= stated


def test_new_rows_count_before_the_next_question() -> None:
    """Guarding alone, the certificate is the potential's: that of the present size, asked or not."""
    db = TestDatabase(SCHEMA, even(SIZE))
    pmwg = make(db, alpha=0.3, measure_first=False)
    assert pmwg.guarantee.hard_possible == math.floor(math.log(SCHEMA.cells) / (2 * gap_of(pmwg, SIZE) ** 2))
    pmwg.ask("TRUE")
    db.append_cells(skewed(SIZE))
    before = pmwg.guarantee.hard_possible
    pmwg.ask("TRUE")
    grown = growth_potential(math.log(SCHEMA.cells), 0.5, SCHEMA.cells, 0.5 / 8)
    assert before == pmwg.guarantee.hard_possible == math.floor(grown / (2 * gap_of(pmwg, SIZE) ** 2))


def gap_of(pmwg: tr.PMWG, start: int) -> float:
    return pmwg._plan(start).guard.gap
