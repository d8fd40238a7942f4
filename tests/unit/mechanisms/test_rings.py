"""Rings: what is free, what is paid, what is refused, and what the public state says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.mechanisms.rings import Rings, batches, wished
from treering.theory.rings import NORMAL, usual_price

SCHEMA = tr.Schema(
    {"late": tr.categories("no", "yes"), "month": tr.integers(1, 12), "origin": tr.categories("EWR", "JFK", "LGA")}
)
ROWS = 20_000
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])


def cells(count: int = ROWS, seed: int = 1) -> list[int]:
    return [int(cell) for cell in np.random.default_rng(seed).integers(0, SCHEMA.cells, count)]


def database(count: int = ROWS) -> TestDatabase:
    return TestDatabase(SCHEMA, cells(count))


def rings(db: Any, delta: float = 1e-6, **options: Any) -> Rings:
    return Rings(db, **{"epsilon": 1.0, "delta": delta, "beta": 1e-9, **options})


def truth(db: TestDatabase, text: str) -> float:
    return db.counts.count(tr.parse(text, SCHEMA)) / db.size


def paid(mechanism: Rings, position: int) -> Fraction:
    """What the row at a position has paid, exactly."""
    return mechanism._gate.budget.total - mechanism._gate.left(position)


def is_quote(quoted: Fraction, charged: Fraction) -> bool:
    """A quote is never below the charge, and above it by no more than a scale of noise is rounded up."""
    return charged <= quoted and quoted - charged <= quoted * Fraction(1, 2**48)


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
    assert mechanism.price_many(months) == mechanism.price("month = 1")
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
    assert mechanism.price_many([f"month = {month} AND late = 'yes'" for month in range(1, 13)]) == 0
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
    assert mechanism.price_many([every, none]) == 0
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
    exact = db.counts.count(query) / (query.scale * db.size)
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
        assert quoted == usual_price(mechanism._gate.budget.total, mechanism._least_left, len(mechanism.series), 25)
        mechanism.ask(text)
        assert is_quote(quoted, mechanism._gate.spent - before)
        assert paid(mechanism, 1) == mechanism._gate.spent


@KINDS
def test_new_rows_pay_for_what_is_asked_again_and_old_rows_nothing(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask_many(["late = 'yes'"])
    mechanism.ask_many(["month = 3"])
    old = paid(mechanism, 1)
    for seed in range(25):
        db.append_cells(cells(40, seed))
        quoted = mechanism.price("late = 'yes'")
        mechanism.ask("late = 'yes'")
        if delta and mechanism.series[0].answers == 17:  # The end of a segment: its last rows get some back.
            assert paid(mechanism, db.size) < quoted
        else:
            assert is_quote(quoted, paid(mechanism, db.size))
        assert paid(mechanism, 1) == old
        assert mechanism.price("late = 'no'") == 0
    # What is not asked any more costs new rows nothing.
    assert paid(mechanism, ROWS + 1) < Fraction(2, 3) * old
    both = mechanism.price_many(["late = 'yes'", "month = 3"])
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
    quoted = mechanism.price_many(texts)
    assert quoted == mechanism.price("late = 'yes'") + mechanism.price("month = 3")
    mechanism.ask_many(texts)
    assert is_quote(quoted, paid(mechanism, db.size))


def test_questions_never_end() -> None:
    mechanism = rings(database(), pace=2)
    tables = [list(each) for size in (1, 2, 3) for each in combinations(("late", "month", "origin"), size)]
    for names in tables:
        mechanism.table(names)
    assert not mechanism.halted
    assert mechanism.remaining > 0
    prices = [each.price for each in mechanism.series]
    assert prices == sorted(prices, reverse=True)


# -- within ------------------------------------------------------------------------------------------------------------


@KINDS
def test_a_wish_in_rows_is_met_and_no_more_is_paid(delta: float) -> None:
    mechanism = rings(database(), delta)
    quoted = mechanism.price("late = 'yes'", within=300)
    answer = mechanism.ask("late = 'yes'", within=300)
    assert is_quote(quoted, mechanism._gate.spent)
    assert 290 < answer.margin * ROWS <= 300.1
    assert mechanism.price("late = 'yes'", within=300) == 0
    assert mechanism.price("late = 'no'", within=400) == 0
    assert mechanism.price("late = 'yes'", within=250) > 0


@KINDS
def test_a_wish_as_a_share_is_one_of_the_rows(delta: float) -> None:
    one, other = rings(database(), delta), rings(database(), delta)
    assert one.price("month = 3", within=0.02) == other.price("month = 3", within=400)
    assert one.ask("month = 3", within=0.02).margin <= 0.02 * (1 + 1e-5)
    assert one.price("month = 3", within=0.02) == 0


@KINDS
def test_a_wish_holds_for_every_query_of_a_batch(delta: float) -> None:
    mechanism = rings(database(), delta)
    texts = ["month = 1", "month <= 6", "origin = 'JFK'"]
    for answer in mechanism.ask_many(texts, within=500):
        assert answer.margin * ROWS <= 500.1
    assert mechanism.price_many(texts, within=500) == 0


def test_a_sharper_wish_pays_for_the_missing_precision_only() -> None:
    mechanism = rings(database())
    rough = mechanism.ask("late = 'yes'", within=200)
    first = mechanism.series[0].price
    sharp = mechanism.ask("late = 'yes'", within=100)
    assert sharp.margin * ROWS <= 100.01
    assert [each.price for each in mechanism.series] == pytest.approx([first, 3 * first], rel=1e-5)
    assert mechanism.spent == pytest.approx((NORMAL / 100) ** 2 / 2, rel=1e-5)
    # What several series say is combined: in the value, too, and in the error.
    assert sharp.value != rough.value
    assert sharp.margin < rough.margin
    assert sharp.error < rough.error


def test_another_series_is_never_cheaper_than_the_first() -> None:
    mechanism = rings(database())
    mechanism.ask("late = 'yes'", within=200)
    mechanism.ask("late = 'yes'", within=190)
    first, second = (each.price for each in mechanism.series)
    assert second == first


def test_the_same_wish_every_day_opens_few_series() -> None:
    """Noise grows slowly with the number of answers, and each further series at least doubles what is known."""
    db = database()
    mechanism = rings(db, epsilon=4.0)
    for seed in range(60):
        answer = mechanism.ask("late = 'yes'", within=400)
        assert answer.margin * db.size <= 400.1
        db.append_cells(cells(50, seed))
    assert 2 <= len(mechanism.series) <= 14


def test_pure_answers_are_not_combined() -> None:
    mechanism = rings(database(), 0.0)
    mechanism.ask("late = 'yes'", within=300)
    answer = mechanism.ask("late = 'yes'", within=200)
    assert answer.margin * ROWS <= 200.1
    first, second = (each.price for each in mechanism.series)
    assert second == pytest.approx(1.5 * first, rel=0.02)


@KINDS
def test_a_wish_beyond_the_budget_is_refused_with_what_can_be_had(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta, epsilon=0.1)
    mechanism.ask("month = 3")
    before = (mechanism.state, mechanism.spent, db.touched, len(db.journal.events()))
    with pytest.raises(tr.BudgetExceeded, match=r"a margin of 20 rows cannot be had: \S+ rows is the best") as caught:
        mechanism.ask("late = 'yes'", within=20)
    with pytest.raises(tr.BudgetExceeded):
        mechanism.price("late = 'yes'", within=20)
    assert (mechanism.state, mechanism.spent, db.touched, len(db.journal.events())) == before
    words = str(caught.value).split()
    best = int(words[words.index("had:") + 1].replace(",", ""))
    size = int(words[words.index("from") + 1].replace(",", ""))
    assert size == pytest.approx(ROWS * best / 20, rel=0.01)
    # That is so: what it names can be had, and not much less; and the share, at that size.
    with pytest.raises(tr.BudgetExceeded):
        mechanism.price("late = 'yes'", within=best * 0.98)
    larger = rings(database(size + ROWS // 100), delta, epsilon=0.1)
    larger.ask("month = 3")
    larger.price("late = 'yes'", within=20 / ROWS)
    assert mechanism.ask("late = 'yes'", within=best + 1).margin * ROWS <= best + 1.1


@pytest.mark.parametrize(
    "within", [0, 0.0, -1, -0.01, float("nan"), float("inf"), -math.inf, True, False, "0.01", ROWS + 1, 1e300, [1], 1j]
)
def test_bad_wishes_are_refused_for_free(within: Any) -> None:
    db = database()
    mechanism = rings(db)
    calls: Iterator[Any] = iter(
        (
            lambda: mechanism.ask("late = 'yes'", within=within),
            lambda: mechanism.ask_many(["late = 'yes'"], within=within),
            lambda: mechanism.price("late = 'yes'", within=within),
            lambda: mechanism.table(["late"], within=within),
        )
    )
    for call in calls:
        with pytest.raises(tr.ParameterError, match="within must be") as caught:
            call()
        assert caught.value.parameter == "within"
    assert (mechanism.spent, db.touched, mechanism.series) == (0, 0, ())


def test_wishes_in_rows() -> None:
    assert wished(None, 100) is None
    assert [wished(each, 1000) for each in (1, 1.5, 1000, 0.5, 0.001)] == [1, 1.5, 1000, 500, 1]


# -- since -------------------------------------------------------------------------------------------------------------


@KINDS
def test_rows_since_a_boundary(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    assert mechanism.boundaries == (0,)
    mechanism.ask("late = 'yes'")
    for _ in range(5):
        db.append_cells([0] * 5000)  # none of these is late
        mechanism.ask("late = 'yes'")
    assert mechanism.boundaries == (0, *range(ROWS, db.size, 5000))
    spent = mechanism.spent
    recent = mechanism.ask("late = 'yes'", since=ROWS)
    assert recent.size == 25_000
    assert recent.value <= recent.error
    everything = mechanism.ask("late = 'yes'", since=0)
    assert everything == mechanism.ask("late = 'yes'")
    assert mechanism.ask(tr.Query.all(SCHEMA), since=ROWS).size == 25_000
    assert mechanism.spent == spent


@KINDS
def test_rows_since_the_last_time_can_be_asked_about_at_once(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask("late = 'yes'")
    db.append_cells([0] * 5000)
    assert mechanism.boundaries == (0, ROWS)
    answer = mechanism.ask("late = 'yes'", since=ROWS)
    assert answer.size == 5000
    assert answer.value <= answer.error


@KINDS
def test_every_boundary_can_be_asked_about_whether_rows_came_or_not(delta: float) -> None:
    """The next leaf forgets some starts: those are no boundaries any more once rows have come."""
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask("late = 'yes'")
    for leaf in range(30):
        for since in mechanism.boundaries:
            assert mechanism.ask("late = 'yes'", since=since).size == db.size - since
        db.append_cells(cells(20, leaf))
        starts = mechanism.boundaries
        mechanism.ask("late = 'yes'", since=starts[leaf % len(starts)])
        assert mechanism.boundaries == starts


@KINDS
def test_other_sizes_are_refused_and_the_nearest_are_named(delta: float) -> None:
    db = database()
    mechanism = rings(db, delta)
    with pytest.raises(tr.ParameterError, match="since must be 0 for a question that was never asked"):
        mechanism.ask("late = 'yes'", since=100)
    mechanism.ask("late = 'yes'")
    for _ in range(2):
        db.append_cells([0] * 5000)
        mechanism.ask("late = 'yes'")
    before = (mechanism.state, mechanism.spent)
    for since, nearest in ((21_000, "20,000 or 25,000"), (100, "0 or 20,000"), (29_000, "25,000$")):
        with pytest.raises(tr.ParameterError, match=f"asked before: {nearest}") as caught:
            mechanism.ask("late = 'yes'", since=since)
        assert caught.value.parameter == "since"
    with pytest.raises(tr.ParameterError, match="never asked"):
        mechanism.ask("month = 3", since=20_000)
    for bad in (-1, 1.5, "0", True, db.size + 1):
        with pytest.raises(tr.ParameterError, match="since"):
            mechanism.ask("late = 'yes'", since=bad)  # type: ignore[arg-type]
    assert (mechanism.state, mechanism.spent) == before


@KINDS
def test_a_wish_about_a_period_is_about_its_own_rows_and_noise(delta: float) -> None:
    """Some periods are known less well than the whole: what is known is told, and what is not is refused."""
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask("late = 'yes'")
    for seed in range(40):
        db.append_cells(cells(100, seed))
        mechanism.ask("late = 'yes'")
    spent = mechanism.spent
    for since in mechanism.boundaries[1:]:
        margin = mechanism.ask("late = 'yes'", since=since).margin
        rows = margin * (db.size - since)
        if margin < 0.9:
            assert mechanism.ask("late = 'yes'", since=since, within=rows * 1.01).margin == margin
            assert mechanism.ask("late = 'yes'", since=since, within=margin * 1.01).margin == margin
        with pytest.raises(tr.ParameterError, match="within cannot be had for 1 of the queries"):
            mechanism.ask("late = 'yes'", since=since, within=rows * 0.99)
    assert mechanism.spent == spent


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
    assert mechanism.table([]).to_pylist() == [{"count": ROWS, "margin": 1}]
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
    assert mechanism.table(["delay"])["delay"].to_pylist() == ["5.0", "15.0", "other"]
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
    with pytest.raises(tr.GuaranteeError, match="there are 10; it takes at least") as caught:
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
    monkeypatch.setattr("treering.theory.series.EARLY", (1, 2, 3))
    monkeypatch.setattr("treering.theory.series.LONGEST", 4)
    db = database()
    mechanism = rings(db)
    for leaf in range(1, 30):
        mechanism.ask("late = 'yes'")
        (ring,) = mechanism._rings
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
    }
    assert state.price == pytest.approx(total * 0.8 / 25)
    assert state.margin == pytest.approx(mechanism.ask("late = 'yes'").margin * db.size, rel=1e-4)


def test_the_guarantee_is_that_of_the_next_new_question() -> None:
    mechanism = rings(database())
    promised = mechanism.guarantee
    assert promised.alpha >= mechanism.ask("late = 'yes'").error * (1 - 1e-6)
    assert mechanism.guarantee.alpha > promised.alpha  # a later series has less of beta
    assert "margin with 95%" in promised.statement
