"""The paper's profile, one comparison at a time: what the gate is asked, and what is made of its reply."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.cost import FREE
from treering.gate import Compared, Crossing, Noted, RunEnded, RunRequest, RunStarted
from treering.mechanisms import paper as paper_module
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.paper import Over, Paper, PaperState, StaticPaper, Updated, _within
from treering.mechanisms.state import Grown
from treering.theory import pmwg as theory
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3)})
SIZE = 3000
ALPHA = 0.3
WEIGHTED = tr.Query.weighted(SCHEMA, [0.25, 0.5, 0.75, 0.5], attributes=["b"])
QUERIES = [*(tr.parse(text, SCHEMA) for text in ("a = 1", "a <= 1 AND b = 2")), WEIGHTED]
SHARES = [0.25, 0.125, 0.5]


def made(**options: Any) -> tuple[Paper, TestDatabase]:
    db = TestDatabase(SCHEMA, [row % SCHEMA.cells for row in range(SIZE)])
    given = {"epsilon": 1.0, "delta": 1e-6, "alpha": ALPHA, "beta": 0.005, "profile": "paper", **options}
    pmwg = tr.PMWG(db, **given)
    pmwg.ask("TRUE")
    assert isinstance(pmwg._engine, Paper)
    return pmwg._engine, db


def notes(db: TestDatabase) -> list[object]:
    return [event.note for event in db.journal.events() if isinstance(event, Noted)][1:]  # the first: it has grown


class Comparing:
    """In place of the gate's comparisons: below, up to the one at ``crossing``, if there is such a one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, crossing: int | None = None, value: int | None = None) -> None:
        self.crossing, self.value = crossing, value
        self.calls: list[tuple[list[tr.Query], list[int]]] = []
        monkeypatch.setattr(Kernel, "first_exceeding", lambda _, *given: self._compared(*given))

    def _compared(self, run: int, queries: Sequence[tr.Query], bars: Sequence[int]) -> Compared:
        self.calls.append((list(queries), list(bars)))
        if self.crossing is None or self.crossing >= len(queries):
            return Compared(SIZE, run, len(queries), None)
        return Compared(SIZE, run, self.crossing + 1, Crossing(self.crossing, self.value))


# -- comparisons -------------------------------------------------------------------------------------------------------


def test_both_sides_are_compared_with_two_thirds_of_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """In counts, and for a weighted query in its own units: f − f(y), and then the same of the complement."""
    engine, _ = made()
    comparing = Comparing(monkeypatch)
    answers: list[tr.Answer] = []
    engine._compare(QUERIES, answers)
    sides, bars = comparing.calls[0]
    assert sides == [side for query in QUERIES for side in (query, ~query)]
    scale = WEIGHTED.scale
    assert scale > 1
    assert bars == [750 + 600, 2250 + 600, 375 + 600, 2625 + 600, 2100 * scale, 2100 * scale]
    assert [(answer.value, answer.kind) for answer in answers] == [(share, "easy") for share in SHARES]
    assert (engine.state.asked, engine.state.questions, engine.state.hard) == (6, 3, 0)
    assert engine.state.run is not None


@pytest.mark.parametrize("crossing", range(6))
@pytest.mark.parametrize("part", [0.875, 1.25, -0.25])
def test_the_side_that_was_found_above_is_answered_and_learnt(
    crossing: int, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, db = made()
    query, too_high = QUERIES[crossing // 2], crossing % 2 == 1
    Comparing(monkeypatch, crossing, round(part * SIZE * query.scale))
    answers: list[tr.Answer] = []
    engine._compare(QUERIES, answers)
    assert [(answer.value, answer.kind) for answer in answers[:-1]] == [
        (share, "easy") for share in SHARES[: crossing // 2]
    ]
    share = 1 - part if too_high else part
    assert (answers[-1].value, answers[-1].kind) == (min(1.0, max(0.0, share)), "hard")
    assert len(answers) == crossing // 2 + 1
    step = Hypothesis(SCHEMA).exponential_step(query, ALPHA / 6, complement=not too_high)
    assert step.rate == pytest.approx(0.05 if too_high else -0.05)
    assert notes(db) == [Updated(step)]
    state = engine.state
    assert (state.asked, state.questions, state.hard, state.run) == (crossing + 1, crossing // 2 + 1, 1, None)
    assert engine.hypothesis.steps == 1


def test_a_run_that_ends_without_an_answer_teaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, db = made()
    Comparing(monkeypatch, 2, None)
    answers: list[tr.Answer] = []
    engine._compare(QUERIES, answers)
    assert ([answer.value for answer in answers], notes(db), engine.state.hard) == ([0.25], [], 1)


@pytest.mark.parametrize("crossing", [None, 4])
def test_answers_within_the_query_budget_are_within_alpha(
    crossing: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the theorem covers none, or no more, the error is 1."""
    for covered, budget, errors in (
        (True, 9.0, [ALPHA, ALPHA, ALPHA]),
        (True, 8.999, [ALPHA, ALPHA, 1.0]),
        (True, 7.0, [ALPHA, 1.0, 1.0]),
        (True, 6.0, [1.0, 1.0, 1.0]),
        (False, 9.0, [1.0, 1.0, 1.0]),
    ):
        engine, _ = made()
        Comparing(monkeypatch, crossing, 300)
        monkeypatch.setattr(Paper, "covered", covered)
        monkeypatch.setattr(paper_module, "_query_budget", lambda *_, budget=budget: budget)
        engine.state = replace(engine.state, questions=6)
        answers: list[tr.Answer] = []
        engine._compare(QUERIES, answers)
        assert [answer.error for answer in answers] == errors
        assert engine.state.beyond == (budget < 9)


def test_constants_among_others_are_public(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = made()
    comparing = Comparing(monkeypatch)
    quarter = tr.Query.weighted(SCHEMA, [0.25] * SCHEMA.cells)
    answers: list[tr.Answer] = []
    engine.ask_many([quarter, *QUERIES[:2], quarter, QUERIES[2]], answers)
    assert [answer.value for answer in answers] == [0.25, 0.25, 0.125, 0.25, 0.5]
    assert [answer.error == 0 for answer in answers] == [True, False, False, True, False]
    assert [len(sides) for sides, _ in comparing.calls] == [4, 2]


def test_long_batches_are_compared_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = made()
    comparing = Comparing(monkeypatch)
    answers: list[tr.Answer] = []
    engine.ask_many(QUERIES[:1] * 600, answers)
    assert [len(sides) for sides, _ in comparing.calls] == [512, 512, 176]
    assert len(answers) == 600


@pytest.mark.parametrize(("bound", "over"), [(2.0, True), (3.0, False), (2.999, True)])
def test_it_is_over_with_the_first_query_beyond_the_bound(
    bound: float, over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, db = made()
    monkeypatch.setattr(paper_module, "hard_bound", lambda *_: bound)
    engine.state = replace(engine.state, hard=2)
    Comparing(monkeypatch, 2, 300)
    answers: list[tr.Answer] = []
    engine._compare(QUERIES, answers)
    assert [answer.kind for answer in answers] == (["easy"] if over else ["easy", "hard"])
    assert (engine.over, [type(note) for note in notes(db)]) == (over, [Over if over else Updated])
    if over:
        with pytest.raises(tr.Halted, match="more queries were hard than the theorem allows for"):
            engine.ask_many(QUERIES, answers)
    assert len(answers) == (1 if over else 2)


# -- what is promised --------------------------------------------------------------------------------------------------


def test_alpha_is_covered_from_the_theorems_on(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, db = made(p=0.75, kappa=2)
    asked: list[tuple[Any, ...]] = []
    least = [ALPHA]

    def paper_alpha(*given: Any) -> float:
        asked.append(given)
        return least[0]

    monkeypatch.setattr(paper_module, "paper_alpha", paper_alpha)
    for least[0], covered in ((ALPHA, True), (math.nextafter(ALPHA, 1), False), (0.1, True)):
        assert engine.covered == covered
    db.append_cells([0] * 500)
    assert engine.covered
    assert set(asked) == {(SIZE, 16, 1.0, 1e-6, 0.005, 2.0, 0.75)}, "it is about the size at the start"


def test_the_outlook_counts_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = made()
    monkeypatch.setattr(Paper, "covered", True)
    budget = [0.0]
    monkeypatch.setattr(paper_module, "hard_bound", lambda *_: 5.75)
    monkeypatch.setattr(paper_module, "_query_budget", lambda *_: budget[0])
    engine.state = replace(engine.state, hard=2, questions=7)
    for budget[0], left in ((20.9, 13), (7.5, 0), (3.0, 0)):
        found = engine.outlook()
        assert (found.hard_left, found.hard_possible, found.queries_left) == (3, 3.75, left)
        assert (found.forever, f"(kappa = 1): {left:,} more at this size" in found.statement) == (True, True)
    for budget[0], said in ((10.0**15 + 6, "999,999,999,999,999"), (10.0**15 + 7, "more than 10^15")):
        assert f": {said} more at this size" in engine.outlook().statement
    engine.state = replace(engine.state, hard=7, beyond=True)
    found = engine.outlook()
    assert (found.hard_left, found.hard_possible, found.queries_left, found.forever) == (0, 0.0, 0, False)
    assert "no accuracy is proven any more" in found.statement
    monkeypatch.setattr(Paper, "covered", False)
    engine.state = replace(engine.state, hard=2, beyond=False)
    found = engine.outlook()
    assert (found.hard_left, found.hard_possible, found.queries_left, found.forever) == (3, 3.75, 0, False)
    assert f"from a start of {SIZE:,} rows" in found.statement


def test_before_the_first_question_it_would_start_at_the_present_size() -> None:
    db = TestDatabase(SCHEMA, [0] * SIZE)
    fresh = tr.PMWG(db, 1.0, 1e-6, alpha=ALPHA, beta=0.005, profile="paper")._engine
    begun, _ = made()
    assert isinstance(fresh, Paper)
    assert fresh.outlook() == begun.outlook()
    assert fresh._hard_bound(SIZE) == begun._hard_bound(SIZE) == theory.hard_bound(SIZE, SIZE, 16, ALPHA)
    assert begun._hard_bound(2 * SIZE) == theory.hard_bound(SIZE, 2 * SIZE, 16, ALPHA) > begun._hard_bound(SIZE)
    assert fresh._allowed(SIZE) == begun._allowed(SIZE) == theory.query_budget(SIZE, SIZE, 16, 1.0, 1e-6, ALPHA, 1.0)


def test_the_price_is_all_that_is_left() -> None:
    engine, _ = made()
    assert engine.price(QUERIES[0]) == engine.gate.budget.total
    engine.ask_many(QUERIES, [])
    left = engine.gate.budget.total - engine.gate.spent
    assert engine.gate.spent > 0
    assert engine.price(QUERIES[0]) == engine.price_many(QUERIES) == left
    assert engine.price_many([]) == 0
    assert engine.recall(QUERIES[0]) is None
    engine.condense()
    assert (engine.backlog, engine.potential) == (None, None)


# -- the fold ----------------------------------------------------------------------------------------------------------


def test_events_are_followed() -> None:
    engine, _ = made()
    assert (engine.state.start, engine.state.size, engine.state.run) == (SIZE, SIZE, None)
    engine._follow(RunStarted(SIZE, FREE, 5, RunRequest(1.0, 2.0)))
    assert engine.state.run == 5
    for asked, questions in ((2, 1), (4, 3), (6, 6)):
        engine._follow(Compared(SIZE, 5, asked, None))
        assert (engine.state.questions, engine.state.run) == (questions, 5)
    assert (engine.state.asked, engine.state.hard) == (12, 0)
    engine._follow(Compared(SIZE, 5, 3, Crossing(2, 1)))
    expected = PaperState(SIZE, SIZE, 15, 8, 1, None, over=False, beyond=engine.state.beyond)
    assert engine.state == expected
    engine._follow(RunStarted(SIZE, FREE, 6, RunRequest(1.0, 2.0)))
    engine._follow(RunEnded(SIZE, 6, Fraction(0)))
    assert engine.state == replace(expected, hard=2)
    engine._follow(Noted(Over()))
    assert engine.over


def test_growth_is_followed_and_noted_once() -> None:
    engine, db = made()
    step = engine.hypothesis.exponential_step(QUERIES[0], 1.0, complement=True)
    engine._follow(Noted(Updated(step)))
    cells = engine.hypothesis.marginal(["a", "b"])
    db.append_cells([0] * 1000)
    for _ in range(3):
        engine.ask_many([tr.Query.all(SCHEMA)], [])
    assert notes(db) == [Grown(4000)]
    assert (engine.state.start, engine.state.size) == (SIZE, 4000)
    assert engine.hypothesis.marginal(["a", "b"]) == pytest.approx(0.75 * cells + 0.25 / 16)


# -- a number of queries -----------------------------------------------------------------------------------------------


def test_constant_queries_do_not_count() -> None:
    everyone, query = tr.Query.all(SCHEMA), QUERIES[0]
    batch = [everyone, query, everyone, query, query, everyone]
    for limit, within in ((0, 1), (1, 3), (2, 4), (3, 6), (4, 6)):
        assert list(_within(batch, limit)) == batch[:within]


def test_a_number_of_queries_is_answered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = theory.static_start(0.9, SCHEMA.cells, 1.0, 1e-6, 0.05, 3)
    db = TestDatabase(SCHEMA, [0] * rows)
    pmw = tr.PMW(db, 1.0, 1e-6, 0.9, 0.05, 3, profile="paper")
    engine = pmw._engine
    assert isinstance(engine, StaticPaper)
    assert engine.covered is True
    assert engine._allowed(rows) == engine._allowed(2 * rows) == 3.0
    assert engine._hard_bound(rows) == theory.static_hard(SCHEMA.cells, 0.9)
    Comparing(monkeypatch)
    assert [answer.error for answer in pmw.ask_many([QUERIES[0], "TRUE", QUERIES[1]])] == [0.9, 0.0, 0.9]
    assert engine._xi() == theory.static_noise(rows, SCHEMA.cells, 1.0, 1e-6, 0.9)
    assert not pmw.halted
    with pytest.raises(tr.Halted, match="this was made for 3 queries and has given its last answer") as caught:
        pmw.ask_many(QUERIES)
    assert len(caught.value.answers) == 1
    assert pmw.halted
    with pytest.raises(tr.Halted, match="made for 3 queries"):
        pmw.ask(QUERIES[0])
    assert pmw.ask("TRUE").value == 1.0
    assert engine.state.beyond is False
