from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.mechanism_contract import SCHEMA, rows
from support.random_queries import weighted
from treering.boxes.base import Release
from treering.boxes.mwem import MWEM
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.workload import marginals, random_conjunctions
from treering.gate import Measured, Selected
from treering.theory.static import mwem_plan

QUERIES = [*marginals(SCHEMA, 1), *random_conjunctions(SCHEMA, 20, np.random.default_rng(3))]
PURE, ZCDP = Budget("pure", Fraction(2)), Budget("zcdp", Fraction(1))
NEVER = 1e-9


def learn(
    queries: list[Query], budget: Budget, rounds: int | None, size: int = 20_000, beta: float = NEVER
) -> tuple[TestDatabase, Release]:
    db = TestDatabase(SCHEMA, rows(size))
    box = MWEM(queries, rounds).bind(SCHEMA)
    return db, box.run(db.open_gate(budget), budget, box.alpha(size, budget, beta), beta)


def truths(db: TestDatabase, queries: list[Query]) -> list[float]:
    return [db.rows.cells.count(query) / query.scale / db.size for query in queries]


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=str)
def test_rounds_select_and_measure_in_turn(budget: Budget) -> None:
    db, _ = learn(QUERIES, budget, 5)
    events = db.journal.events()
    assert [type(event) for event in events] == [Selected, Measured] * 5
    for selected, measured in zip(events[::2], events[1::2], strict=True):
        assert isinstance(selected, Selected)
        assert isinstance(measured, Measured)
        assert measured.queries == (selected.queries[selected.index],)


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=str)
def test_the_number_of_rounds_is_planned(budget: Budget) -> None:
    db, _ = learn(QUERIES, budget, None, size=3_000)
    classed = {query for query in QUERIES if not query.constant}
    rounds = mwem_plan(SCHEMA.cells, len({*classed}) - _complements(classed), Fraction(1), 3_000, budget, NEVER).rounds
    assert len(db.journal.events()) == 2 * rounds


def _complements(queries: set[Query]) -> int:
    return sum(~query in queries for query in queries) // 2


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=str)
def test_what_is_certified_holds_and_is_better_than_promised(budget: Budget) -> None:
    db, release = learn(QUERIES, budget, 20)
    shares, errors = release.shares(QUERIES)
    alpha = MWEM(QUERIES, 20).bind(SCHEMA).alpha(db.size, budget, NEVER)
    assert np.abs(shares - truths(db, QUERIES)).max() <= errors.max() <= alpha
    assert errors.max() < 0.6 * alpha
    assert len(set(errors.tolist())) == 1


def test_it_learns() -> None:
    """With 200,000 rows the noise is small: the lopsided cell is found, and the rows are like the data's."""
    db, release = learn(QUERIES, ZCDP, 30, size=200_000)
    uniform = np.array([1 / 3 if query in marginals(SCHEMA, 1)[:3] else 0.5 for query in QUERIES])
    wrong = np.abs(release.shares(QUERIES)[0] - truths(db, QUERIES)).max()
    assert wrong < 0.03
    assert np.abs(uniform - truths(db, QUERIES)).max() > 0.1
    table = release.sample(20_000, np.random.default_rng(1))
    late = table.column("late").to_pylist().count("yes") / 20_000
    assert late == pytest.approx(db.rows.cells.count(tr.parse("late = 'yes'", SCHEMA)) / db.size, abs=0.03)


def test_weighted_queries_are_learnt_too() -> None:
    generator = np.random.default_rng(9)
    queries = [weighted(generator, SCHEMA) for _ in range(12)]
    db, release = learn(queries, ZCDP, 10)
    shares, errors = release.shares(queries)
    assert (np.abs(shares - truths(db, queries)) <= errors).all()


def test_one_query_needs_no_selection_but_pays_for_it() -> None:
    db, release = learn([Query.where(SCHEMA, late="yes")], PURE, 1)
    assert len(db.journal.events()) == 2
    answer = release.ask("late = 'no'")
    assert abs(answer.value - truths(db, [Query.where(SCHEMA, late="no")])[0]) <= answer.error


def test_constants_alone_cost_nothing() -> None:
    db, release = learn([Query.all(SCHEMA)], PURE, None)
    assert (len(db.journal.events()), db.touched, release.ask("TRUE").value) == (0, 0, 1.0)


def test_intervals_that_contradict_each_other_are_survived() -> None:
    """With beta near 1 measurements fail all the time: the run still ends, and what it says is within [0, 1]."""
    for seed in range(5):
        db = TestDatabase(SCHEMA, rows(50, seed))
        box = MWEM(QUERIES, 40).bind(SCHEMA)
        budget = Budget("pure", Fraction(1, 100))
        release = box.run(db.open_gate(budget), budget, 1.0, 0.999)
        shares, errors = release.shares(QUERIES)
        assert ((shares >= 0) & (shares <= 1)).all()
        assert np.isfinite(errors).all()


def test_progress_counts_the_rounds() -> None:
    told: list[tuple[float, str]] = []
    db = TestDatabase(SCHEMA, rows(1000))
    MWEM(QUERIES, 3).bind(SCHEMA).run(db.open_gate(PURE), PURE, 1.0, 0.5, lambda *step: told.append(step))
    assert [doing for _, doing in told] == ["round 1 of 3", "round 2 of 3", "round 3 of 3", "learnt"]
    assert [done for done, _ in told] == [0, 1 / 3, 2 / 3, 1]


def test_a_universe_too_large_is_refused_with_advice() -> None:
    wide = tr.Schema({name: tr.integers(0, 255) for name in "abcd"})
    with pytest.raises(tr.GuaranteeError, match="coarser"):
        MWEM(["a = 3"]).bind(wide)
