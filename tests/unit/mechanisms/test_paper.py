"""The paper's profile, to the letter of its theorems and our errata."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.domain.workload import random_conjunctions
from treering.gate import Compared, Noted, RunStarted
from treering.mechanisms import paper as paper_module
from treering.mechanisms.paper import Paper, Updated
from treering.noise import Laplace
from treering.theory import pmwg as theory

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3), "c": tr.categories("x", "y")})
HEAVY = SCHEMA.cell({"a": 0, "b": 2, "c": "y"})


def skewed(count: int) -> list[int]:
    return [HEAVY if index % 2 else index // 2 % SCHEMA.cells for index in range(count)]


def make(db: Any, **options: Any) -> tr.PMWG:
    return tr.PMWG(db, **{"epsilon": 1.0, "delta": 1e-6, "alpha": 0.3, "beta": 0.005, "profile": "paper", **options})


def engine(pmwg: tr.PMWG) -> Paper:
    assert isinstance(pmwg._engine, Paper)
    return pmwg._engine


@pytest.mark.parametrize(
    "options",
    [{}, {"delta": 0.0, "beta": 0.05}, {"p": 0.75}, {"delta": 0.0, "p": 0.25}],
)
def test_the_noise_is_the_papers_at_the_start_of_a_run(options: dict[str, Any]) -> None:
    db = TestDatabase(SCHEMA, skewed(100_000))
    pmwg = make(db, **options)
    pmwg.ask("a = 0")
    db.append_cells(skewed(50_000))
    while engine(pmwg).state.run is not None or engine(pmwg).state.hard == 0:
        pmwg.ask("a = 0 AND b = 2")
    pmwg.ask("a = 1")
    starts = [event for event in db.journal.events() if isinstance(event, RunStarted)]
    assert len(starts) > 1
    for event in starts:
        given = (event.size, 100_000, SCHEMA.cells, 1.0, options.get("delta", 1e-6), 0.3, options.get("p", 0.5))
        xi = theory.noise(*given)
        assert event.request.threshold_scale == pytest.approx(2 * event.size / xi)
        assert event.request.query_scale == pytest.approx(4 * event.size / xi)
        assert isinstance(event.request.answer, Laplace)
        assert event.request.answer.scale == pytest.approx(8 * event.size / xi)


def comparisons(db: TestDatabase) -> list[tuple[int, bool]]:
    return [(event.asked, event.crossing is not None) for event in db.journal.events() if isinstance(event, Compared)]


def steps(db: TestDatabase) -> list[Updated]:
    return [e.note for e in db.journal.events() if isinstance(e, Noted) and isinstance(e.note, Updated)]


def test_of_two_sides_the_second_is_asked_only_if_the_first_was_below() -> None:
    db = TestDatabase(SCHEMA, skewed(1_000_000))
    pmwg = make(db, alpha=0.5)
    assert pmwg.ask("a = 0 AND b = 2 AND c = 'y'").kind == "hard"  # the truth is above: the first side finds it
    assert comparisons(db) == [(1, True)]
    assert pmwg.ask("a = 0 AND b = 2").kind in ("easy", "hard")
    assert pmwg.ask("NOT (a = 0 AND b = 2 AND c = 'y')").kind == "hard"  # the truth is below: the second side does
    assert comparisons(db)[-1] == (2, True)
    rates = [note.step.rate for note in steps(db)]
    assert rates[0] == pytest.approx(-0.5 / 6)
    assert rates[-1] == pytest.approx(0.5 / 6)


def test_a_hard_query_moves_the_histogram_towards_the_truth_by_the_learning_rate() -> None:
    db = TestDatabase(SCHEMA, skewed(1_000_000))
    pmwg = make(db, alpha=0.5)
    query = tr.parse("a = 0 AND b = 2 AND c = 'y'", SCHEMA)
    before = pmwg.hypothesis.answer(query)
    answer = pmwg.ask(query)
    after = pmwg.hypothesis.answer(query)
    assert answer.value == pytest.approx(0.5, abs=0.3)  # 25 times the scale of its noise
    # y^i ← exp(−α/6·r^i)·y^i with r = 1 − f: the matching share gains the factor e^{α/6} before normalising.
    gained = before * np.exp(0.5 / 6)
    assert after == pytest.approx(gained / (gained + 1 - before))


def test_the_answer_to_a_hard_query_is_in_shares_whatever_its_weights_count_in() -> None:
    db = TestDatabase(SCHEMA, [HEAVY] * 1_000_000)
    pmwg = make(db, alpha=0.5)
    query = tr.Query.weighted(SCHEMA, np.where(np.arange(SCHEMA.cells) == HEAVY, 0.5, 0.0))
    assert query.scale > 1
    answer = pmwg.ask(query)
    assert answer.kind == "hard"
    assert abs(answer.value - 0.5) < 0.3  # 25 times the scale of its noise


def test_growth_is_the_uniform_update() -> None:
    db = TestDatabase(SCHEMA, skewed(1_000_000))
    pmwg = make(db, alpha=0.5)
    pmwg.ask("a = 0 AND b = 2 AND c = 'y'")
    before = pmwg.hypothesis.marginal(["a", "b"])
    db.append_cells(skewed(250_000))
    pmwg.ask("a = 1")
    assert pmwg.hypothesis.marginal(["a", "b"]) == pytest.approx(0.8 * before + 0.2 / 16)


def test_past_its_bound_it_is_over_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    db = TestDatabase(SCHEMA, skewed(1_000_000))
    pmwg = make(db, alpha=0.5)
    monkeypatch.setattr(paper_module, "hard_bound", lambda *_: 2.0)
    hard = "a = 0 AND b = 2 AND c = 'y'"
    assert [answer.kind for answer in pmwg.ask_many([hard, hard])] == ["hard", "hard"]
    with pytest.raises(tr.Halted, match="last answer") as caught:
        pmwg.ask_many(["a = 1", hard, "a = 2"])
    assert [answer.kind for answer in caught.value.answers if isinstance(answer, tr.Answer)] == ["easy"]
    assert pmwg.halted
    touched, spent = db.touched, pmwg.spent
    db.append_cells(skewed(1000))
    for question in ("a = 1", hard, "TRUE"):
        with pytest.raises(tr.Halted, match="last answer"):
            pmwg.ask(question)
        with pytest.raises(tr.Halted, match="last answer"):
            pmwg.price(question)
    assert (db.touched, pmwg.spent) == (touched, spent)
    assert make(db, alpha=0.5).halted


def test_a_shrunken_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    db = TestDatabase(SCHEMA, skewed(100_000))
    pmwg = make(db)
    pmwg.ask("a = 1")
    before, touched = pmwg.state, db.touched
    monkeypatch.setattr(db.rows, "_size", 99_999)
    with pytest.raises(tr.EngineError, match="fewer rows than before: it was replaced, and the promise with it"):
        pmwg.ask("a = 2")
    assert (pmwg.state, db.touched) == (before, touched)


def test_the_guarantee_says_whether_the_theorem_covers_it() -> None:
    db = TestDatabase(SCHEMA, skewed(10_000))
    far = make(db)
    assert not far.guarantee.forever
    needed = theory.alpha_start(0.3, SCHEMA.cells, 1.0, 1e-6, 0.005, 1)
    assert f"would cover it from {needed:,} rows" in far.guarantee.statement
    assert far.ask("a = 1").error == 1.0
    near = make(TestDatabase(SCHEMA, skewed(1_200_000)), alpha=0.9)
    assert theory.alpha_start(0.9, SCHEMA.cells, 1.0, 1e-6, 0.005, 1) <= 1_200_000
    assert near.guarantee.forever
    assert near.ask("a = 1").error == 0.9


@pytest.mark.parametrize(
    ("options", "rows", "match"),
    [
        ({"epsilon": 1.5}, 1000, "epsilon must be at most 1"),
        ({"delta": 0.5}, 1000, "delta must be below 1/e"),
        ({"beta": 0.01}, 1000, "beta must be below"),
        ({"p": 0.2}, 1000, "p must lie in"),
        ({}, 16, "at least 17 rows"),
        ({"delta": 0.0}, 20, "at least 21 rows"),
    ],
)
def test_the_requirements_of_the_theorems_are_checked(options: dict[str, Any], rows: int, match: str) -> None:
    db = TestDatabase(SCHEMA, skewed(rows))
    pmwg = make(db, **options)
    with pytest.raises(tr.GuaranteeError, match=match):
        pmwg.ask("a = 1")
    assert (pmwg.spent, db.touched, len(db.journal.events())) == (0, 0, 0)


def test_a_long_life_keeps_the_promise() -> None:
    db = TestDatabase(SCHEMA, skewed(200_000))
    pmwg = make(db)
    for query in random_conjunctions(SCHEMA, 300, np.random.default_rng(8)):
        pmwg.ask(query)
        db.append_cells(skewed(100))
    assert 0 < pmwg.spent < 0.36 * pmwg._promise.budget.total
    assert pmwg.potential is None


def test_constants_and_wide_queries() -> None:
    db = TestDatabase(SCHEMA, skewed(100_000))
    pmwg = make(db)
    kinds = [(answer.value, answer.error) for answer in pmwg.ask_many(["TRUE", "a = 1", "FALSE"])]
    assert (kinds[0], kinds[2], len(kinds)) == ((1.0, 0.0), (0.0, 0.0), 3)
    quarter = tr.Query.weighted(SCHEMA, np.full(SCHEMA.cells, 0.25))
    assert [answer.value for answer in pmwg.ask_many([quarter, "TRUE", quarter])] == [0.25, 1.0, 0.25]
    wide = tr.Schema({f"x{i}": tr.integers(0, 1) for i in range(24)})
    wide_pmwg = make(TestDatabase(wide, list(range(1000))))
    with pytest.raises(tr.QueryError, match="at most 1,048,576"):
        wide_pmwg.ask(tr.Query.where(wide, **dict.fromkeys(wide.names, 0)))


# -- the query budget --------------------------------------------------------------------------------------------------

ROWS = 2_000_000


def covered(rows: int = ROWS, **options: Any) -> tuple[TestDatabase, tr.PMWG]:
    db = TestDatabase(SCHEMA, skewed(rows))
    return db, make(db, **{"alpha": 0.9, **options})


@pytest.mark.parametrize("kappa", [1, 100])
def test_the_queries_that_are_left_are_the_theorems(kappa: int) -> None:
    db, pmwg = covered(kappa=kappa)
    given = SCHEMA.cells, 1.0, 1e-6, 0.9, kappa
    before = pmwg.guarantee
    assert before.queries_left == math.floor(theory.query_budget(ROWS, ROWS, *given))
    assert f"(kappa = {kappa})" in before.statement
    pmwg.ask_many(["a = 1", "TRUE", "b = 2", "a = 1"])  # a constant is not asked; a question asked twice is two
    assert pmwg.guarantee.queries_left == before.queries_left - 3
    db.append_cells(skewed(ROWS))
    assert pmwg.guarantee.queries_left == math.floor(theory.query_budget(ROWS, 2 * ROWS, *given)) - 3


def test_a_larger_kappa_needs_more_rows() -> None:
    rows = theory.alpha_start(0.9, SCHEMA.cells, 1.0, 1e-6, 0.005, 10**6)
    assert covered(rows, kappa=10**6)[1].guarantee.forever
    few = covered(rows - 1, kappa=10**6)[1]
    assert not few.guarantee.forever
    assert few.guarantee.queries_left == 0
    assert f"would cover it from {rows:,} rows" in few.guarantee.statement
    assert covered(rows - 1)[1].guarantee.forever  # κ = 1


def test_hard_queries_count_as_one_each() -> None:
    """Rows lie in one cell of 32: with alpha 0.3 its share is hard until the histogram has learnt it."""
    pmwg = make(TestDatabase(SCHEMA, [HEAVY] * ROWS), alpha=0.3)
    asked = ["a = 1", "a = 0 AND b = 2 AND c = 'y'"] * 2
    answers = pmwg.ask_many(asked)
    assert [answer.kind for answer in answers][1] == "hard"
    state = engine(pmwg).state
    assert state.questions == 4
    assert state.hard <= state.asked < 8  # of the hard one only one side was compared


def test_beyond_the_query_budget_nothing_is_promised_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when growth would allow for as many: the theorem is about streams that never exceed it."""

    def allowed(start: int, size: int, *_: object) -> float:
        return 5.5 + (size - start) / ROWS * 100

    monkeypatch.setattr(paper_module, "_query_budget", allowed)
    db, pmwg = covered()
    first = pmwg.ask_many(["a = 1"] * 4)
    assert [answer.error for answer in first] == [0.9] * 4
    assert pmwg.guarantee.queries_left == 1
    more = pmwg.ask_many(["a = 1"] * 3)
    assert [answer.error for answer in more] == [0.9, 1.0, 1.0]
    promise = pmwg.guarantee
    assert (promise.forever, promise.queries_left) == (False, 0)
    assert "more queries were asked" in promise.statement
    db.append_cells(skewed(ROWS))
    assert pmwg.ask("a = 1").error == 1.0
    again = make(db, alpha=0.9)
    assert (again.state, again.guarantee) == (pmwg.state, pmwg.guarantee)


@pytest.mark.parametrize("kappa", [0, 0.5, -1, float("nan"), "2", True])
def test_kappa_is_at_least_one(kappa: Any) -> None:
    with pytest.raises(tr.ParameterError, match="kappa"):
        covered(1000, kappa=kappa)


def test_kappa_is_the_papers() -> None:
    with pytest.raises(tr.ParameterError, match="kappa belongs to the paper's profile"):
        covered(1000, kappa=2, profile="tight")
    assert covered(1000, profile="tight")[1].guarantee.queries_left == math.inf
