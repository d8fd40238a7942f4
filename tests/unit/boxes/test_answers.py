from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.random_queries import SCHEMA, any_query
from treering.boxes.answers import AnswersBox
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.gate import Measured
from treering.noise import Gaussian, Laplace
from treering.theory.static import answer_radius
from treering.theory.tails import gaussian_radius, laplace_radius

LATE, EARLY = Query.where(SCHEMA, month=5), Query.where(SCHEMA, month=[1, 2, 3, 4])
MONTHS = [Query.where(SCHEMA, month=month) for month in range(1, 5)]
HALF = Query.weighted(SCHEMA, [0.0, 0.25, 0.5, 0.25, 0.0], attributes=["month"], resolution=4)


def database(rows: int = 4000) -> TestDatabase:
    return TestDatabase(SCHEMA, np.random.default_rng(8).integers(0, SCHEMA.cells, rows).tolist())


def measured(db: TestDatabase) -> Measured:
    (event,) = db.journal.events()
    assert isinstance(event, Measured)
    return event


def test_the_noise_is_what_the_budget_buys() -> None:
    """Four counting queries and one of spread ½: 4½/ε, and √(4¼/(2ρ))."""
    for budget, noise in (
        (Budget("pure", Fraction(1, 2)), Laplace(9.0)),
        (Budget("zcdp", Fraction(17, 32)), Gaussian(2.0)),
    ):
        db = database()
        box = AnswersBox([*MONTHS, HALF]).bind(SCHEMA)
        box.run(db.open_gate(budget), budget, 1.0, 0.05)
        assert measured(db).noise == noise


def test_complements_and_constants_are_free() -> None:
    db = database()
    budget = Budget("pure", Fraction(1))
    box = AnswersBox([LATE, EARLY, "TRUE", "month = 5"]).bind(SCHEMA)
    release = box.run(db.open_gate(budget), budget, 1.0, 0.05)
    event = measured(db)
    assert (event.queries, event.noise) == ((LATE,), Laplace(1.0))
    shares, errors = release.shares([LATE, EARLY, Query.all(SCHEMA), Query.none(SCHEMA)])
    assert shares.tolist() == pytest.approx([event.values[0] / db.size, 1 - event.values[0] / db.size, 1, 0])
    assert errors.tolist() == [laplace_radius(1.0, 0.05) / db.size] * 2 + [0, 0]


def test_errors_are_the_noises_own_radius() -> None:
    generator = np.random.default_rng(5)
    queries = list(dict.fromkeys(any_query(generator, SCHEMA) for _ in range(12)))
    for budget in (Budget("pure", Fraction(1)), Budget("zcdp", Fraction(1))):
        db = database()
        box = AnswersBox(queries).bind(SCHEMA)
        release = box.run(db.open_gate(budget), budget, 1.0, 0.05)
        event = measured(db)
        law = laplace_radius if isinstance(event.noise, Laplace) else gaussian_radius
        _, errors = release.shares(queries)
        for query, error in zip(queries, errors.tolist(), strict=True):
            radius = law(event.noise.scale * query.scale, 0.05 / len(event.queries)) / query.scale
            assert error * db.size == pytest.approx(min(radius, answer_radius(event.noise, 0.05 / len(event.queries))))


def test_constants_alone_cost_nothing() -> None:
    db = database()
    budget = Budget("pure", Fraction(1))
    box = AnswersBox(["TRUE"]).bind(SCHEMA)
    gate = db.open_gate(budget)
    release = box.run(gate, budget, 0.0, 0.05)
    assert (float(gate.spent), db.touched, box.alpha(1, budget, 0.05)) == (0.0, 0, 0.0)
    assert box.rate is None
    assert release.ask("TRUE").error == 0


def test_few_queries_beat_the_histogram() -> None:
    """And many do not: the reason to have both."""
    from treering.boxes.histogram import HistogramBox

    budget = Budget("pure", Fraction(1))
    few, many = AnswersBox(MONTHS[:1]).bind(SCHEMA), AnswersBox([*MONTHS, HALF] * 1).bind(SCHEMA)
    assert few.alpha(1000, budget, 0.05) < HistogramBox(MONTHS[:1]).bind(SCHEMA).alpha(1000, budget, 0.05)
    assert few.alpha(1000, budget, 0.05) < many.alpha(1000, budget, 0.05)


def test_texts_are_understood_when_bound() -> None:
    with pytest.raises(tr.QueryError, match="query 0.*colour"):
        AnswersBox(["colour = 'red'"]).bind(SCHEMA)
    assert AnswersBox(["month = 5"]).bind(SCHEMA).alpha(10, Budget("pure", Fraction(1)), 0.5) > 0
