"""What rings say of themselves, against the definitions: what is spare, the guarantee, what is left, and tables."""

from __future__ import annotations

from fractions import Fraction

import pytest

import treering as tr
from support.databases import TestDatabase
from support.exact_losses import transparent
from support.plans import batch_price, known_answers
from support.rings import KINDS, SCHEMA, cells, database, rings
from treering.budget.promise import Budget
from treering.domain.language.measures import Count, Mean, Measure, Request
from treering.domain.query import Query
from treering.mechanisms import rings as module
from treering.mechanisms.rings import _shown
from treering.theory import rings as theory


@KINDS
def test_what_is_spare_is_what_the_prices_do_not_need(delta: float) -> None:
    """But for a rounding of 2^-64 of them; nothing is spare beyond the budget."""
    mechanism = rings(database(), delta)
    total = mechanism._gate.budget.total
    assert mechanism.spare == total
    mechanism.ask("late = 'yes'")
    mechanism.ask("month = 3")
    prices = sum((each.series.price.total for each in mechanism._shelf.rings), Fraction(0))
    assert 0 < mechanism._gate.spent <= prices < total
    assert mechanism.spare == total - prices * (1 + Fraction(1, 1 << 64))
    mechanism._shelf.rings *= 100
    assert mechanism.spare == 0


@KINDS
def test_the_guarantee_is_that_of_a_series_of_two_groups(delta: float) -> None:
    """At the usual price, for one registered question, with the next series' share of beta at its first leaf."""
    mechanism = rings(database(), delta, beta=0.01)
    for opened in range(3):
        left = mechanism._gate.budget.total - mechanism._gate.spent
        price = theory.usual_price(mechanism._gate.budget.total, left, opened, 25)
        law = theory.first_law(Budget(mechanism._gate.budget.kind, price), 2)
        part = theory.estimate_share(0.01, opened + 1, 1, 1) / 2
        radius = theory.registered_radius(law, ((0.5, 2),), 1, part)
        said = mechanism.guarantee
        assert said.alpha == pytest.approx(radius * (1 + 2.0**-20) / 20_000 + 2.0**-30, rel=1e-12)
        assert (said.beta, said.size, said.epsilon, said.delta) == (0.01, 20_000, 1.0, delta)
        mechanism.ask(("late = 'yes'", "month = 3", "origin = 'JFK'")[opened])
        assert len(mechanism.series) == opened + 1
    small = rings(TestDatabase(SCHEMA, [0] * 3), delta)
    assert small.guarantee.alpha == 1.0


def test_what_is_left_for_rows_of_different_ages() -> None:
    db = database()
    mechanism = rings(db)
    mechanism.ask("late = 'yes'")
    db.append_cells(cells(100, 2))
    left = mechanism.describe()["left"]
    total = float(mechanism._gate.budget.total)
    price = float(mechanism._shelf.rings[0].series.price.total)
    assert left["oldest"] == pytest.approx(total - price)
    assert left["newest"] == left["next"] == pytest.approx(total)
    mechanism.ask("late = 'yes'")
    left = mechanism.describe()["left"]
    assert left["oldest"] == left["newest"] == pytest.approx(total - price)
    assert left["next"] == pytest.approx(total)
    shown = mechanism.describe()["series"]
    assert [(each["answers"], each["size"], each["sums"]) for each in shown] == [(2, 20_100, None)]
    assert mechanism.halted is False


def test_boundaries_are_those_of_all_series() -> None:
    db = database()
    mechanism = rings(db)
    found = [mechanism.boundaries]
    for text, more in (("late = 'yes'", 100), ("month = 3", 50), ("month = 3", 0)):
        mechanism.ask(text)
        db.append_cells(cells(more, 2))
        found.append(mechanism.boundaries)
    assert found == [(0,), (0, 20_000), (0, 20_000, 20_100), (0, 20_000, 20_100)]


@KINDS
def test_without_noise_everything_that_is_asked_is_the_truth(delta: float) -> None:
    """Of all rows, and of those since each boundary, constants in between."""
    texts = ["late = 'yes'", "TRUE", "month <= 3 AND late = 'yes'", "FALSE", "NOT late = 'yes'", "late = 'yes'"]
    rows = cells()
    db = TestDatabase(SCHEMA, rows)
    with transparent():
        mechanism = rings(db, delta)
        queries = [tr.parse(text, SCHEMA) for text in (texts if delta else texts[:2])]
        mechanism.ask_many(queries)
        for more in (300, 500):
            fresh = cells(more, more)
            rows += fresh
            db.append_cells(fresh)
            mechanism.ask_many(queries)
        for since in (None, *mechanism.boundaries):
            told = mechanism.ask_many(queries, since=since)
            period = rows[since or 0 :]
            assert [each.size for each in told] == [len(period)] * len(queries)
            for query, found in zip(queries, told, strict=True):
                assert found.value == pytest.approx(_share(query, period), abs=1e-9)
                assert (found.margin == 0) == (found.error == 0) == query.constant
        assert mechanism.ask_many([]) == []


def _share(query: Query, period: list[int]) -> float:
    """Row after row."""
    weights = query.weights()
    total = 0
    for cell in period:
        codes = (cell // 36, cell // 3 % 12, cell % 3)
        total += int(weights[tuple(codes[position] for position in query.attributes)])
    return total / query.scale / len(period)


@KINDS
def test_what_is_on_record_gives_the_same_rings_again(delta: float) -> None:
    """With two series of several answers; and what goes on from there is on record, too."""
    with transparent():
        db = TestDatabase(SCHEMA, cells(60))
        mechanism = rings(db, delta, epsilon=1000.0)
        for text in ("late = 'yes'", "month = 3", "late = 'yes'", "late = 'yes'"):
            told = mechanism.ask(text)
            assert rings(db, delta, epsilon=1000.0).ask(text) == told
            assert rings(db, delta, epsilon=1000.0).state == mechanism.state
            db.append_cells(cells(10, 2))
        mechanism = rings(db, delta, epsilon=1000.0)
        mechanism.ask("late = 'yes'")
        assert [each.answers for each in mechanism.series] == [4, 1]
        assert rings(db, delta, epsilon=1000.0).series == mechanism.series


@KINDS
def test_what_is_known_is_told_and_what_is_not_is_none(delta: float) -> None:
    """Within a wish or without; prices and answers of a wish are those that `price` and `ask` have."""
    db = database(5000)
    mechanism = rings(db, delta)
    queries = [tr.parse("late = 'yes'", SCHEMA), tr.parse("late = 'no'", SCHEMA)]
    assert known_answers(mechanism, queries) is None
    told = mechanism.ask_many(queries)
    margin = told[0].margin
    assert known_answers(mechanism, queries) == known_answers(mechanism, queries, 1.1 * margin) == told
    assert known_answers(mechanism, queries, 0.9 * margin) is None
    assert known_answers(mechanism, [*queries, tr.parse("month = 1", SCHEMA)]) is None
    assert batch_price(mechanism, queries, 0.9 * margin) > batch_price(mechanism, queries, 1.1 * margin) == 0
    sharper = mechanism.ask_many(queries, 0.9 * margin)
    assert sharper[0].margin <= 0.9 * margin * (1 + 1e-6)
    assert len(mechanism.series) == 2
    db.append_cells([0])
    assert known_answers(mechanism, queries) is None


def test_a_size_is_refused_for_the_question_that_cannot_have_it() -> None:
    """Wherever it stands in the list, after one that is public and one that can."""
    db = database(5000)
    mechanism = rings(db)
    mechanism.ask("late = 'yes'")
    db.append_cells(cells(500, 2))
    mechanism.ask("late = 'yes'")
    with pytest.raises(tr.ParameterError, match="never asked"):
        mechanism.ask_many(["TRUE", "late = 'yes'", "month = 3"], since=5000)
    with pytest.raises(tr.ParameterError, match="asked before: 0 or 5,000"):
        mechanism.ask_many(["TRUE", "late = 'yes'"], since=4999)
    with pytest.raises(tr.ParameterError, match="asked before: 5,000$"):
        mechanism.ask("late = 'yes'", since=5001)
    assert [each.size for each in mechanism.ask_many(["TRUE", "late = 'yes'"], since=5000)] == [500, 500]


def test_a_table_has_so_many_rows_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = rings(database(5000))
    monkeypatch.setattr(module, "MOST_ROWS_OF_A_TABLE", 6)
    assert mechanism.table(["late", "origin"]).num_rows == 6
    monkeypatch.setattr(module, "MOST_ROWS_OF_A_TABLE", 5)
    with pytest.raises(tr.QueryError, match="a table of 6 groups is too long: at most 5"):
        mechanism.table(["late", "origin"])


def test_the_columns_of_a_measure_are_those_of_its_estimates() -> None:
    mechanism = rings(database(5000))
    measures: dict[str, Measure] = {"rows": Count(), "mean": Mean("month")}
    table = mechanism.table(["late"], where="origin = 'JFK'", measures=measures)
    request = Request.of(SCHEMA, list(measures.values()), ["late"], "origin = 'JFK'")
    told = mechanism.release(request).rows
    for place, name in enumerate(measures):
        assert table[name].to_pylist() == [row[place].value for row in told]
        assert table[f"{name}_margin"].to_pylist() == [row[place].margin for row in told]
        assert table[f"{name}_low"].to_pylist() == [row[place].low for row in told]
        assert table[f"{name}_high"].to_pylist() == [row[place].high for row in told]


def test_days_and_what_lies_outside_are_shown_in_words() -> None:
    days = tr.dates("2020-01-01", "2020-01-02", by="day")
    shown = [_shown(days.value(code), days) for code in range(days.size)]
    assert shown == ["2020-01-01", "2020-01-02", "< 2020-01-01", ">= 2020-01-03", None]
    outside = tr.integers(1, 2, other=True)
    assert [_shown(outside.value(code), outside) for code in range(outside.size)] == ["1", "2", "< 1", ">= 3"]
    weekdays = tr.dates(part="weekday")
    assert [_shown(weekdays.value(code), weekdays) for code in range(weekdays.size)] == [1, 2, 3, 4, 5, 6, 7, None]


def test_values_are_shown_as_people_write_them() -> None:
    assert _shown(3, tr.integers(1, 5)) == 3
    assert _shown(3, tr.integers(1, 5, other=True)) == "3"
    assert _shown(tr.OTHER, tr.categories("x", other=True)) == "other"
    assert _shown("x", tr.categories("x", other=True)) == "x"
    assert _shown(None, tr.categories("x", other=True, missing=True)) is None
    assert _shown("x", tr.categories("x")) == "x"
    bins = tr.bins([0, 10, 20])
    assert _shown(bins.value(1), bins) == bins.label(1)
