"""Rings: wishes for margins, and questions about the rows since a size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import treering as tr
from support.plans import batch_price
from support.rings import KINDS, ROWS, SCHEMA, cells, database, is_quote, rings
from treering.mechanisms.plan import wished
from treering.theory.rings import NORMAL

# -- within ------------------------------------------------------------------------------------------------------------


@KINDS
def test_a_wish_in_rows_is_met_and_no_more_is_paid(delta: float) -> None:
    mechanism = rings(database(), delta)
    quoted = mechanism.price("late = 'yes'", within=300)
    answer = mechanism.ask("late = 'yes'", within=300)
    assert is_quote(quoted, mechanism._gate.spent)
    assert 290 < answer.margin * ROWS <= 300.1
    assert answer.count_margin <= 300
    assert all(row["margin"] <= 300 for row in mechanism.table("late", within=300).to_pylist())
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
    assert batch_price(mechanism, texts, within=500) == 0


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
    with pytest.raises(tr.BudgetExceeded, match=r"a margin of \S+ rows can be had instead of 20") as caught:
        mechanism.ask("late = 'yes'", within=20)
    with pytest.raises(tr.BudgetExceeded):
        mechanism.price("late = 'yes'", within=20)
    assert (mechanism.state, mechanism.spent, db.touched, len(db.journal.events())) == before
    words = str(caught.value).split()
    best = int(words[words.index("margin") + 2].replace(",", ""))
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
    others: tuple[Any, ...] = (-1, 1.5, "0", True, db.size + 1)
    for bad in others:
        with pytest.raises(tr.ParameterError, match="since"):
            mechanism.ask("late = 'yes'", since=bad)
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
