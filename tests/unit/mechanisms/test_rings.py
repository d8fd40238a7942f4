"""Rings: what is free, what is paid, what is refused, and what the public state says."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.plans import batch_price, plan_of
from support.rings import KINDS, ROWS, SCHEMA, cells, database, is_quote, paid, rings, truth
from treering.mechanisms.rings import batches
from treering.theory.rings import usual_price

# -- free questions ----------------------------------------------------------------------------------------------------


@KINDS
def test_the_second_time_complements_and_unions_are_free(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask_many([f"month = {month} AND late = 'yes'" for month in range(1, 13)])
    spent, touched = mechanism.spent, db.touched
    texts = [
        "month = 3 AND late = 'yes'",
        "NOT (month = 3 AND late = 'yes')",
        "month <= 4 AND late = 'yes'",
        "month = 2",
        "month IN (1, 5)",
        "month = 2 AND late = 'no' OR month = 5 AND late = 'yes'",
    ]
    assert [mechanism.price(text) for text in texts] == [0] * len(texts)
    answers = [mechanism.ask(text) for text in texts]
    assert (mechanism.spent, db.touched, len(mechanism.series)) == (spent, touched, 1)
    for text, answer in zip(texts, answers, strict=True):
        assert abs(answer.value - truth(db, text)) <= answer.error


@KINDS
def test_answers_to_equal_questions_are_equal(delta: float) -> None:
    mechanism = rings(database(), delta)
    yes = mechanism.ask("late = 'yes'")
    assert mechanism.ask("late = 'yes'") == yes
    no = mechanism.ask("late = 'no'")
    assert no.value == pytest.approx(1 - yes.value, abs=1e-12)
    assert (no.margin, no.error) == (yes.margin, yes.error)


@KINDS
def test_a_group_by_is_one_series_at_the_price_of_one_count(delta: float) -> None:
    mechanism = rings(database(), delta)
    months = [f"month = {month}" for month in range(1, 13)]
    assert batch_price(mechanism, months) == mechanism.price("month = 1")
    answers = mechanism.ask_many(months)
    (series,) = mechanism.series
    assert (series.attributes, series.groups, series.answers, series.size) == (("month",), 12, 1, ROWS)
    assert sum(answer.value for answer in answers) == pytest.approx(1)
    assert series.margin == pytest.approx(answers[0].margin * ROWS, rel=1e-4)


def test_attributes_within_others_need_no_series_of_their_own() -> None:
    mechanism = rings(database())
    mechanism.ask_many(["late = 'yes'", "month = 1 AND late = 'yes'", "month <= 3", "origin = 'JFK'"])
    assert [each.attributes for each in mechanism.series] == [("late", "month"), ("origin",)]


def test_batches_are_by_widest_sets() -> None:
    def query(**sets: Any) -> tr.Query:
        return tr.Query.where(SCHEMA, **sets)

    a, b, c = query(late="yes"), query(month=1), query(origin="JFK")
    assert batches([a, b, c]) == [[a], [b], [c]]
    assert batches([a, a & b, b, b & c]) == [[a, a & b, b], [b & c]]
    assert batches([a & b & c, a, b & c]) == [[a & b & c, a, b & c]]
    assert batches([]) == []


def test_a_new_value_is_free_later() -> None:
    """Values that nobody has counted yet stay apart."""
    mechanism = rings(database())
    mechanism.ask("month = 1 AND late = 'yes'")
    assert batch_price(mechanism, [f"month = {month} AND late = 'yes'" for month in range(1, 13)]) == 0
    mechanism.ask("month IN (1, 2) AND origin = 'JFK'")
    assert mechanism.price("month = 7 AND origin = 'JFK'") == 0
    assert mechanism.price("month = 1 AND origin = 'JFK'") > 0  # one of two values that were counted together


def test_a_question_that_would_sum_very_many_groups_gets_a_series_of_its_own() -> None:
    wide = tr.Schema({"a": tr.integers(0, 999), "b": tr.categories("x", "y")})
    mechanism = rings(TestDatabase(wide, [0] * ROWS))
    mechanism.ask("a = 3 AND b = 'x'")
    own = mechanism.ask("b = 'x'")
    assert len(mechanism.series) == 2
    assert own.margin * ROWS < mechanism.series[0].margin
    assert mechanism.price("b = 'y'") == 0


# -- constants and weights ---------------------------------------------------------------------------------------------


def test_constants_are_public_and_free() -> None:
    db = database()
    mechanism = rings(db)
    every, none = tr.Query.all(SCHEMA), tr.Query.none(SCHEMA)
    half = tr.Query.weighted(SCHEMA, [0.5, 0.5], attributes=["late"])
    found = mechanism.ask_many([every, none, half])
    assert [(each.value, each.error, each.margin) for each in found] == [(1, 0, 0), (0, 0, 0), (0.5, 0, 0)]
    assert batch_price(mechanism, [every, none]) == 0
    assert (mechanism.spent, db.touched, mechanism.series) == (0, 0, ())
    mixed = mechanism.ask_many([every, "late = 'yes'", none])
    assert [each.value for each in mixed[::2]] == [1, 0]
    assert mixed[1].margin > 0


@KINDS
def test_weights_are_answered_with_their_own_margin(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    weights = [month / 12 for month in range(1, 13)]
    query = tr.Query.weighted(SCHEMA, weights, attributes=["month"], resolution=12)
    answer = mechanism.ask(query)
    exact = db.rows.cells.count(query) / (query.scale * db.size)
    assert abs(answer.value - exact) <= answer.error
    assert mechanism.price("month <= 4") == 0
    one = mechanism.ask("month = 4")
    assert mechanism.ask(~query).margin == answer.margin
    if delta:
        spread = float(np.sum((np.array(weights) - np.mean(weights)) ** 2))
        assert answer.margin / one.margin == pytest.approx(math.sqrt(spread / (11 / 12)), rel=1e-5)


# -- prices ------------------------------------------------------------------------------------------------------------


@KINDS
def test_quotes_are_what_is_charged(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    for text in ("late = 'yes'", "month = 3", "late = 'yes' AND origin = 'JFK'"):
        quoted, before = mechanism.price(text), mechanism._gate.spent
        assert quoted == usual_price(
            mechanism._gate.budget.total, mechanism._policy._least_left, len(mechanism.series), 25
        )
        mechanism.ask(text)
        assert is_quote(quoted, mechanism._gate.spent - before)
        assert paid(mechanism, 1) == mechanism._gate.spent


@KINDS
def test_new_rows_pay_for_what_is_asked_again_and_old_rows_nothing(
    delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.theory.series.LONGEST", 16)
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask_many(["late = 'yes'"])
    mechanism.ask_many(["month = 3"])
    old = paid(mechanism, 1)
    for seed in range(25):
        db.append_cells(cells(40, seed))
        quoted = mechanism.price("late = 'yes'")
        mechanism.ask("late = 'yes'")
        assert is_quote(quoted, paid(mechanism, db.size))
        # The end of a segment: its last rows get some back.
        assert (quoted < old / 2.01) == (bool(delta) and mechanism.series[0].answers == 17)
        assert paid(mechanism, 1) == old
        assert mechanism.price("late = 'no'") == 0
    # What is not asked any more costs new rows nothing.
    assert paid(mechanism, ROWS + 1) < Fraction(2, 3) * old
    both = batch_price(mechanism, ["late = 'yes'", "month = 3"])
    assert both == mechanism.price("month = 3") > 0
    mechanism.ask("month = 3")
    assert is_quote(2 * quoted, paid(mechanism, db.size))
    assert [each.answers for each in mechanism.series] == [26, 2]
    assert {each.size for each in mechanism.series} == {db.size}


@KINDS
def test_a_quote_for_old_and_new_questions_is_what_the_newest_rows_pay(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask("late = 'yes'")
    db.append_cells(cells(1000, 2))
    texts = ["late = 'yes'", "month = 3"]
    quoted = batch_price(mechanism, texts)
    assert quoted == mechanism.price("late = 'yes'") + mechanism.price("month = 3")
    mechanism.ask_many(texts)
    assert is_quote(quoted, paid(mechanism, db.size))


TEXTS = (
    *("late = 'yes'", "late = 'no'", "month = 3", "month <= 6", "month IN (1, 2, 12)", "origin = 'JFK'"),
    *("late = 'yes' AND origin = 'LGA'", "month >= 4 AND origin <> 'EWR'", "late = 'yes' OR month = 7"),
)


@KINDS
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_quote_is_what_the_rows_that_pay_most_then_pay(delta: float, data: st.DataObject) -> None:
    """Random batches, with and without a wish, while rows come: many series are stale, some are missing."""
    db = database(2000)
    mechanism = rings(db, delta, epsilon=8.0, pace=data.draw(st.integers(2, 6)))
    for step in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            db.append_cells(cells(data.draw(st.integers(1, 50)), step))
        texts = data.draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4))
        within = data.draw(st.sampled_from([None, None, 300, 0.08]))
        before = [paid(mechanism, position) for position in (1, db.size)]
        try:
            quoted = batch_price(mechanism, texts, within)
        except tr.TreeringError as refusal:
            with pytest.raises(type(refusal)):
                mechanism.ask_many(texts, within)
            assert [paid(mechanism, position) for position in (1, db.size)] == before
            continue
        mechanism.ask_many(texts, within)
        after = [paid(mechanism, position) for position in (1, db.size)]
        assert is_quote(quoted, after[1] - before[1])
        assert after[0] - before[0] <= after[1] - before[1]
        assert batch_price(mechanism, texts, within) == 0


def test_questions_never_end() -> None:
    mechanism = rings(database(), pace=2)
    tables = [list(each) for size in (1, 2, 3) for each in combinations(("late", "month", "origin"), size)]
    for names in tables:
        mechanism.table(names)
    assert not mechanism.halted
    assert mechanism.remaining > 0
    prices = [each.price for each in mechanism.series]
    assert prices == sorted(prices, reverse=True)


# -- tables ------------------------------------------------------------------------------------------------------------


def test_a_table_lists_all_groups_in_order() -> None:
    db = database()
    mechanism = rings(db)
    quoted = mechanism.price("late = 'yes' AND origin = 'JFK'")
    found = mechanism.table(["origin", "late"])
    assert is_quote(quoted, mechanism._gate.spent)
    assert found.column_names == ["origin", "late", "count", "margin"]
    listed = found.to_pylist()
    assert [(row["origin"], row["late"]) for row in listed] == [
        (origin, late) for origin in ("EWR", "JFK", "LGA") for late in ("no", "yes")
    ]
    answer = mechanism.ask("late = 'yes' AND origin = 'JFK'")
    assert listed[3] == {"origin": "JFK", "late": "yes", "count": answer.count, "margin": answer.count_margin}
    assert mechanism.table("late").num_rows == 2
    assert mechanism.table(["late", "late"]).column_names == ["late", "count", "margin"]
    assert mechanism.table([]).to_pylist() == [{"count": ROWS, "margin": 0}]
    assert len(mechanism.series) == 1


def test_a_table_of_some_rows_within_a_wish() -> None:
    mechanism = rings(database())
    found = mechanism.table(["month"], where="late = 'yes' AND month <= 6", within=250).to_pylist()
    assert [row["count"] for row in found[6:]] == [0] * 6  # public: no row can match
    assert all(200 < row["margin"] <= 251 for row in found[:6])
    assert mechanism.price("late = 'yes' AND month = 2", within=250) == 0


def test_other_and_missing_cells_and_bins_are_shown() -> None:
    schema = tr.Schema(
        {
            "code": tr.categories(1, 2, other=True, missing=True),
            "sure": tr.categories(False, True, missing=True),
            "delay": tr.bins([0, 10, 20], other=True),
            "count": tr.integers(1, 2),
        }
    )
    mechanism = rings(TestDatabase(schema, [0] * ROWS))
    assert mechanism.table(["code"])["code"].to_pylist() == ["1", "2", "other", None]
    assert mechanism.table(["sure"])["sure"].to_pylist() == [False, True, None]
    assert mechanism.table(["delay"])["delay"].to_pylist() == ["[0, 10)", "[10, 20)", "< 0", ">= 20"]
    assert mechanism.table(["count"]).column(0).to_pylist() == [1, 2]
    assert mechanism.table(["count"]).num_columns == 3


def test_bad_tables_are_refused_for_free() -> None:
    db = TestDatabase(tr.Schema({"a": tr.integers(0, 999), "b": tr.integers(0, 999)}), [0] * ROWS)
    mechanism = rings(db)
    with pytest.raises(tr.QueryError, match="1,000,000 groups is too long"):
        mechanism.table(["a", "b"])
    with pytest.raises(tr.TreeringError, match="colour"):
        mechanism.table(["colour"])
    with pytest.raises(tr.QueryError):
        mechanism.table(["a"], where="b = 1000")
    assert (mechanism.spent, db.touched) == (0, 0)


# -- small tables ------------------------------------------------------------------------------------------------------


def test_an_empty_table_is_refused() -> None:
    db = TestDatabase(SCHEMA)
    mechanism = rings(db)
    for call in (
        lambda: mechanism.ask("late = 'yes'"),
        lambda: mechanism.price("late = 'yes'"),
        lambda: mechanism.ask("late = 'yes'", within=1),
        lambda: mechanism.table(["late"]),
    ):
        with pytest.raises(tr.GuaranteeError, match="empty"):
            call()
    assert (mechanism.boundaries, mechanism.series, mechanism.describe()["series"]) == ((0,), (), [])


@KINDS
def test_a_tiny_table_is_refused_with_the_size_it_takes(delta: float) -> None:
    db = TestDatabase(SCHEMA, cells(10))
    mechanism = rings(db, delta)
    with pytest.raises(tr.GuaranteeError, match="the table has 10; it takes at least") as caught:
        mechanism.ask("late = 'yes'")
    assert (mechanism.spent, db.touched) == (0, 0)
    words = str(caught.value).split()
    needed = int(words[words.index("least") + 1].replace(",", ""))
    db.append_cells(cells(needed - 11))
    with pytest.raises(tr.GuaranteeError):
        mechanism.price("late = 'yes'")
    db.append_cells([0])
    assert mechanism.ask("late = 'yes'").margin < 1


# -- the public state --------------------------------------------------------------------------------------------------


@KINDS
def test_replay_gives_the_same_answers_and_goes_on(delta: float) -> None:
    db = database()
    live = rings(db, delta)
    live.ask_many(["late = 'yes'", "month = 3 AND origin = 'JFK'"])
    live.ask("late = 'yes'", within=150 if delta else 250)
    for seed in range(20):
        db.append_cells(cells(100, seed))
        live.ask_many(["late = 'no'", "origin = 'JFK'"])
    again = rings(db, delta)
    assert again.state == live.state
    assert (again.series, again.boundaries, again.spent) == (live.series, live.boundaries, live.spent)
    for text in ("late = 'yes'", "origin = 'EWR'"):
        for since in (None, 0, db.size - 100):
            assert again.ask(text, since=since) == live.ask(text, since=since)
    # Registered questions stay so: their error is smaller than that of others.
    assert again.ask("late = 'yes'").error == live.ask("late = 'yes'").error
    db.append_cells(cells(100, 30))
    assert again.price("late = 'yes'") == live.price("late = 'yes'") > 0
    again.ask("late = 'yes'")
    assert again.state != live.state
    assert rings(db, delta).state == again.state


def test_registered_questions_have_smaller_errors_than_later_ones() -> None:
    mechanism = rings(database())
    registered = mechanism.ask("month = 3 AND origin = 'JFK'")
    later = mechanism.ask("month = 4 AND origin = 'JFK'")
    assert later.margin == registered.margin
    assert registered.margin < registered.error < later.error
    assert mechanism.ask("NOT (month = 3 AND origin = 'JFK')").error == pytest.approx(registered.error)


def test_a_question_about_very_many_joint_values_is_registered() -> None:
    """Its complement, a table over 4 million joint values, could not be written down."""
    wide = tr.Schema({"a": tr.integers(0, 1999), "b": tr.integers(0, 1999)})
    mechanism = rings(TestDatabase(wide, [0] * ROWS))
    answer = mechanism.ask("a = 0 AND b = 0")
    assert abs(answer.value - 1) <= answer.error
    assert mechanism.ask("a = 0 AND b = 0") == answer


def test_the_starts_of_periods_are_those_of_the_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """With short segments: at each leaf, within, at the end of and after segments."""
    monkeypatch.setattr("treering.theory.series.LONGEST", 4)
    db = database()
    mechanism = rings(db)
    for leaf in range(1, 30):
        mechanism.ask("late = 'yes'")
        (ring,) = mechanism._shelf.rings
        assert list(ring.starts(db.size)) == list(ring.series.boundaries)
        assert ring.series.leaf == leaf
        db.append_cells([0])
        ahead = list(ring.starts(db.size))
        laws = [ring.next_law(db.size, since) for since in ahead]
        mechanism.ask("late = 'yes'", since=ahead[leaf % len(ahead)])
        assert list(ring.series.boundaries) == ahead
        assert [ring.series.window(since).law.variance for since in ahead] == pytest.approx(
            [law.variance for law in laws]
        )


@KINDS
def test_what_is_left_and_described(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    total = mechanism.remaining
    mechanism.ask("late = 'yes'")
    db.append_cells(cells(10, 2))
    assert mechanism.left(1) == mechanism.left(ROWS) == pytest.approx(total * (1 - 0.8 / 25))
    assert mechanism.left(ROWS + 1) == pytest.approx(total)  # paid when it is asked again
    mechanism.ask("late = 'yes'")
    assert mechanism.left(ROWS + 1) == pytest.approx(mechanism.left(1))
    assert mechanism.left(db.size + 1) <= total
    described = mechanism.describe()
    assert described["left"]["oldest"] == mechanism.left(1)
    assert described["left"]["newest"] == mechanism.left(db.size)
    assert described["left"]["next"] == mechanism.left(db.size + 1)
    (series,) = described["series"]
    state = mechanism.series[0]
    assert series == {
        "attributes": ["late"],
        "groups": 2,
        "price": state.price,
        "answers": 2,
        "size": db.size,
        "margin": state.margin,
        "sums": None,
        "changed": 0,
        "ended": False,
    }
    assert state.price == pytest.approx(total * 0.8 / 25)
    assert state.margin == pytest.approx(mechanism.ask("late = 'yes'").margin * db.size, rel=1e-4)


def test_the_guarantee_is_that_of_the_next_new_question() -> None:
    mechanism = rings(database())
    promised = mechanism.guarantee
    assert promised.alpha >= mechanism.ask("late = 'yes'").error * (1 - 1e-6)
    assert mechanism.guarantee.alpha > promised.alpha  # a later series has less of beta
    assert "margin with 95%" in promised.statement


@KINDS
def test_all_rows_and_everyone_can_be_asked_about_at_once(delta: float) -> None:
    """Since 0 is for every question, and one whose answer is public needs no series that began then."""
    mechanism = rings(database(), delta)
    assert mechanism.ask("TRUE", since=17).value == 1
    first = mechanism.ask("late = 'yes'", since=0)
    assert first.value == mechanism.ask("late = 'yes'").value
    with pytest.raises(tr.ParameterError, match="since"):
        mechanism.ask("late = 'yes'", since=17)


@KINDS
def test_a_plan_is_exact_and_covered(delta: float) -> None:
    mechanism = rings(database(), delta)
    query = tr.parse("late = 'yes'", mechanism._gate.schema)
    price = mechanism.price(query)
    plan = plan_of(mechanism, [query])
    assert (plan.price, plan.most, plan.enough, plan.exact, plan.known) == (price, price, True, True, None)
    assert price > 0
    answer = mechanism.ask(query)
    plan = plan_of(mechanism, [query])
    assert (float(plan.price), float(plan.most), plan.enough, plan.exact) == (0, 0, True, True)
    assert plan.known is not None
    assert plan.known.answers() == [answer]
