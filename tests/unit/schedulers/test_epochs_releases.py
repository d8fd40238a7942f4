"""What a box returns is looked at before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.scheduler_boxes import CellsBox, Garbage, OneQueryBox
from treering.boxes.base import Release
from treering.budget.promise import Budget
from treering.errors import QueryError
from treering.schedulers.epochs import MOST_WORDS, Broken, check, describe, shares

SCHEMA = tr.Schema({"a": tr.integers(0, 2), "b": tr.integers(0, 1)})
QUERIES = [tr.parse("a = 1", SCHEMA), tr.parse("b = 1", SCHEMA)]
BUDGET = Budget("pure", Fraction(100))


def released() -> Release:
    db = TestDatabase(SCHEMA, [0, 1, 2, 3, 4, 5] * 10)
    return CellsBox().bind(SCHEMA).run(db.open_gate(BUDGET), BUDGET, 0.1, 0.1)


def test_an_honest_release_is_itself() -> None:
    honest = released()
    assert check(honest, SCHEMA, 60) is honest
    values, errors = shares(honest, QUERIES)
    assert values.shape == errors.shape == (2,)


def test_one_that_answers_a_single_query_is_honest_too() -> None:
    db = TestDatabase(SCHEMA, [0, 1, 2])
    narrow = OneQueryBox(QUERIES[1]).run(db.open_gate(BUDGET), BUDGET, 0.1, 0.1)
    assert check(narrow, SCHEMA, 3) is narrow
    with pytest.raises(QueryError, match="only"):
        shares(narrow, QUERIES)


@pytest.mark.parametrize("thing", [None, 17, "release", {}, CellsBox()])
def test_what_is_no_release_is_seen(thing: Any) -> None:
    with pytest.raises(Broken, match=f"returned {type(thing).__name__}, not a Release"):
        check(thing, SCHEMA, 60)


def test_a_release_about_something_else_is_seen() -> None:
    with pytest.raises(Broken, match="about 60 rows, not 61"):
        check(released(), SCHEMA, 61)
    with pytest.raises(Broken, match="another schema"):
        check(released(), tr.Schema({"x": tr.integers(0, 1)}), 60)


class Asked(Garbage):
    """Remembers what it was asked."""

    queries: tuple[tr.Query, ...] = ()

    def shares(self, queries: Sequence[tr.Query]) -> Any:
        self.queries += tuple(queries)
        return super().shares(queries)


def test_the_question_that_tries_a_release_is_about_the_first_value_of_the_first_attribute() -> None:
    release = Asked(released(), ([0.5], [0.1]))
    assert check(release, SCHEMA, 60) is release
    assert release.queries == (tr.parse("a = 0", SCHEMA),)


def test_a_release_over_one_value_is_tried_too() -> None:
    schema = tr.Schema({"a": tr.integers(3, 3), "b": tr.integers(0, 1)})
    db = TestDatabase(schema, [0, 1] * 10)
    honest = CellsBox().bind(schema).run(db.open_gate(BUDGET), BUDGET, 0.1, 0.1)
    assert check(honest, schema, 20) is honest


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "gives",
    [
        None,
        (),
        ([0.5],),
        ([0.5], [0.1], [0.1]),
        ([NAN], [0.1]),
        ([INF], [0.1]),
        ([0.5], [NAN]),
        ([0.5], [INF]),
        ([0.5], [-0.1]),
        ([0.5, 0.5], [0.1, 0.1]),
        ([], []),
        (0.5, 0.1),
        ([[0.5]], [[0.1]]),
        (["half"], [0.1]),
        ([None], [0.1]),
        ([0.5 + 1j], [0.1]),
        lambda _: 1 / 0,
        lambda queries: queries["a"],
    ],
)
def test_garbage_is_seen_when_the_epoch_opens(gives: Any) -> None:
    with pytest.raises(Broken, match="the box's release"):
        check(Garbage(released(), gives), SCHEMA, 60)


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (([NAN, 0.5], [0.1, 0.1]), "gave shares that are no finite numbers$"),
        (([0.5, 0.5], [0.1, -0.1]), "gave errors that are no finite numbers of at least 0$"),
        (([0.5], [0.1, 0.1]), r"gave shares of shape \(1,\) for 2 queries$"),
        (([0.5, 0.5], [0.1]), r"gave errors of shape \(1,\) for 2 queries$"),
        (lambda _: 1 / 0, "could not answer: ZeroDivisionError: division by zero$"),
    ],
)
def test_what_is_wrong_with_a_release_is_said(gives: Any, message: str) -> None:
    with pytest.raises(Broken, match=message):
        shares(Garbage(released(), gives), QUERIES)


def test_lists_of_numbers_will_do() -> None:
    values, errors = shares(Garbage(released(), ([0.5, -3], [0.1, 0])), QUERIES)
    assert (values.tolist(), errors.tolist()) == ([0.5, -3.0], [0.1, 0.0])
    assert values.dtype == errors.dtype == np.float64


@pytest.mark.parametrize("error", [tr.GuaranteeError, tr.QueryError, MemoryError])
def test_what_is_no_fault_of_the_release_passes_through(error: type[Exception]) -> None:
    def raises(_: Any) -> Any:
        raise error("not now")

    with pytest.raises(error, match="not now"):
        shares(Garbage(released(), raises), QUERIES)


def test_messages_are_short_and_name_the_error() -> None:
    assert describe(ValueError("too small")) == "ValueError: too small"
    assert describe(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert describe(Broken("as it is")) == "as it is"
    assert describe(Broken("x" * MOST_WORDS)) == "x" * MOST_WORDS
    assert describe(Broken("x" * (MOST_WORDS + 1))) == "x" * MOST_WORDS + "…"
    long = describe(ValueError("x" * 10_000))
    assert len(long) == MOST_WORDS + 1
    assert long.endswith("…")
