"""The static mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.domain.workload import random_conjunctions
from treering.gate import RunStarted
from treering.mechanisms.tight import Tight
from treering.theory import pmwg as theory

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3)})


def skewed(count: int) -> list[int]:
    return [5 if index % 2 else index // 2 % SCHEMA.cells for index in range(count)]


def make(db: Any, **options: Any) -> tr.PMW:
    return tr.PMW(db, **{"epsilon": 1.0, "delta": 1e-6, "alpha": 0.2, "beta": 0.05, "queries": 60, **options})


@pytest.mark.parametrize("options", [{}, {"delta": 0.0, "alpha": 0.4}])
def test_answers_are_within_their_errors(options: dict[str, Any]) -> None:
    db = TestDatabase(SCHEMA, skewed(800_000))
    pmw = make(db, **options, beta=1e-9)  # a failure by chance is that rare
    queries = random_conjunctions(SCHEMA, 60, np.random.default_rng(5), ways=(1, 2))
    for query, answer in zip(queries, pmw.ask_many(queries), strict=True):
        assert abs(answer.value - db.rows.cells.count(query) / db.size) <= answer.error <= options.get("alpha", 0.2)
    assert pmw.hard_queries > 0
    assert pmw.spent <= float(pmw._promise.budget.total)
    starts = [event for event in db.journal.events() if isinstance(event, RunStarted)]
    assert len(starts) in (pmw.hard_queries, pmw.hard_queries + 1)  # a run for each hard query, and none is renewed


def test_it_stops_at_its_number_of_queries() -> None:
    db = TestDatabase(SCHEMA, skewed(400_000))
    pmw = make(db, queries=3)
    queries = [tr.parse(text, SCHEMA) for text in ("a = 1", "a = 2 AND b = 1", "b = 3", "a = 3")]
    pmw.ask_many(queries[:2])
    assert not pmw.halted
    with pytest.raises(tr.Halted, match="made for 3 queries and has given its last answer") as caught:
        pmw.ask_many(queries[2:])
    assert len(caught.value.answers) == 1
    assert pmw.halted
    touched = db.touched
    with pytest.raises(tr.Halted, match="last answer"):
        pmw.ask(queries[3])
    assert db.touched == touched
    assert pmw.ask("TRUE").error == 0.0  # a constant is public, and no question


def test_it_stops_within_a_batch_even_where_one_more_would_cost_nothing() -> None:
    """Noise for so many queries would do for one more: the number of queries is a limit of its own."""
    many = 10**15
    pmw = make(TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(400_000)]), queries=many, alpha=0.4)
    pmw.ask("a = 1")
    engine = pmw._engine
    assert isinstance(engine, Tight)
    engine.state.asked = many - 2
    with pytest.raises(tr.Halted, match="has given its last answer") as caught:
        pmw.ask_many([tr.parse(f"b = {value}", SCHEMA) for value in range(4)])
    assert len(caught.value.answers) == 2


def test_what_is_known_is_no_question() -> None:
    """One by one or in a batch: a query that was hard is on record, and asking it again is free."""
    heavy = tr.parse("a = 1 AND b = 1", SCHEMA)
    pmw = make(TestDatabase(SCHEMA, skewed(400_000)), queries=1)
    answers = pmw.ask_many([heavy] * 5)
    assert [answer.kind for answer in answers] == ["hard", "cached", "cached", "cached", "cached"]
    assert pmw.halted


def test_a_database_that_has_grown_is_refused() -> None:
    db = TestDatabase(SCHEMA, skewed(400_000))
    pmw = make(db)
    pmw.ask("a = 1")
    before, touched = pmw.state, db.touched
    db.append_cells([1])
    with pytest.raises(tr.GuaranteeError, match="grown from 400,000 to 400,001 rows.*use PMWG"):
        pmw.ask("a = 2")
    assert (pmw.state, db.touched) == (before, touched)


def test_parameters_without_a_guarantee_name_the_size_that_would_do() -> None:
    db = TestDatabase(SCHEMA, skewed(1000))
    pmw = make(db)
    with pytest.raises(tr.GuaranteeError, match="needs at least ([0-9,]+) rows") as caught:
        pmw.ask("a = 1")
    with pytest.raises(tr.GuaranteeError, match="needs at least"):
        _ = pmw.guarantee
    assert (pmw.spent, db.touched, len(db.journal.events())) == (0, 0, 0)
    needed = int(str(caught.value).split("at least ")[1].split(" rows")[0].replace(",", ""))
    db.append_cells(skewed(needed - 1000))
    assert pmw.ask("a = 1").error <= 0.2
    with pytest.raises(tr.GuaranteeError, match="needs at least"):
        make(TestDatabase(SCHEMA, skewed(needed - 1))).ask("a = 1")


def test_the_guarantee() -> None:
    guarantee = make(TestDatabase(SCHEMA, skewed(400_000))).guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.alpha, guarantee.size) == (1.0, 1e-6, 0.2, 400_000)
    assert "for 60 queries" in guarantee.statement


# -- the paper's profile -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"delta": 0.0, "alpha": 0.5}])
def test_the_paper_s_noise_pays_for_all_its_runs(options: dict[str, Any]) -> None:
    """h + 1 runs with their answers cost the budget, or a little less; answers are within alpha."""
    alpha, delta = options.get("alpha", 0.2), options.get("delta", 1e-6)
    rows = theory.static_start(alpha, SCHEMA.cells, 1.0, delta, 1e-9, 60)
    db = TestDatabase(SCHEMA, skewed(rows))
    pmw = make(db, **options, beta=1e-9, profile="paper")
    queries = random_conjunctions(SCHEMA, 60, np.random.default_rng(5), ways=(1, 2))
    for query, answer in zip(queries, pmw.ask_many(queries), strict=True):
        assert abs(answer.value - db.rows.cells.count(query) / db.size) <= answer.error == alpha
    most = math.floor(36 * math.log(SCHEMA.cells) / alpha**2)
    assert f"at most {most:,} of them are hard" in pmw.guarantee.statement
    started = [event for event in db.journal.events() if isinstance(event, RunStarted)]
    budget = pmw._promise.budget
    whole_life = budget.amount(started[0].cost) * (most + 1)
    assert whole_life <= budget.total
    assert whole_life > budget.total * (Fraction(99, 100) if budget.kind == "pure" else Fraction(1, 2))
    with pytest.raises(tr.Halted, match="made for 60 queries"):
        pmw.ask("a = 1")
    assert pmw.halted


def test_the_paper_s_profile_stops_within_a_batch_and_counts_what_it_asks() -> None:
    db = TestDatabase(SCHEMA, skewed(10**7))
    pmw = make(db, queries=3, profile="paper")
    with pytest.raises(tr.Halted, match="made for 3 queries") as caught:
        pmw.ask_many(["a = 1", "TRUE", "a = 1", "b = 2", "FALSE", "b = 3", "a = 2"])
    assert len(caught.value.answers) == 5
    again = make(db, queries=3, profile="paper")
    assert again.halted
    assert again.state == pmw.state


def test_the_paper_s_profile_names_the_rows_that_would_do() -> None:
    needed = theory.static_start(0.2, SCHEMA.cells, 1.0, 1e-6, 0.05, 60)
    assert theory.static_alpha(needed, SCHEMA.cells, 1.0, 1e-6, 0.05, 60) == pytest.approx(0.2, rel=1e-4)
    db = TestDatabase(SCHEMA, skewed(needed - 1))
    pmw = make(db, profile="paper")
    for call in (lambda: pmw.ask("a = 1"), lambda: pmw.guarantee):
        with pytest.raises(tr.GuaranteeError, match=f"from {needed:,} rows on"):
            call()
    assert (pmw.spent, db.touched) == (0, 0)
    db.append_cells(skewed(1))
    assert pmw.ask("a = 1").error == 0.2
    db.append_cells(skewed(1))
    with pytest.raises(tr.GuaranteeError, match="use PMWG"):
        pmw.ask("a = 1")


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_tight_never_promises_less_than_the_paper(delta: float) -> None:
    budget = tr.Promise(1.0, delta).budget
    for size, cells, queries in ((10**6, 16, 100), (10**7, 10**4, 10**6), (10**8, 10**6, 10**9)):
        paper = theory.static_alpha(size, cells, 1.0, delta, 0.05, queries)
        assert theory.static(size, cells, budget, paper, 0.05, queries).fits
        if delta == 0 and paper < 0.1:
            bound = 972 * math.log(cells) * math.log((3 * queries + 1) / 0.05) / size
            assert paper == pytest.approx(bound ** (1 / 3), rel=1e-3)
