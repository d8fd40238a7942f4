"""The words of a predicate: what is refused, and which word is blamed."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

from support.pointing import refusal
from treering.domain.attribute import bins, categories, integers
from treering.domain.language.parse import MAX_DEPTH, MAX_LENGTH, parse
from treering.domain.language.words import SUPPORTED
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError

SCHEMA = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA", "{#", "--", other=True),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440], missing=True),
        "flag": categories(True, False, missing=True),
        "a b": integers(-9, 9),
        "date": integers(1, 31),
        "Case": integers(1, 2),
    }
)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("upper(origin) = 'JFK'", "upper"),
        ("month(origin) = 1", "month"),
        ('"month"(origin) = 1', '"month"'),
        ("origin = (SELECT 'JFK')", "SELECT"),
        ("origin IN (SELECT origin FROM t)", "SELECT"),
        ("EXISTS (month = 1)", "EXISTS"),
        ("origin LIKE 'J%'", "LIKE"),
        ("origin = 'JFK' ILIKE 'x'", "ILIKE"),
        ("CASE WHEN month = 1 THEN TRUE END", "WHEN"),
        ("CAST(month AS INT) = 1", "CAST"),
        ("month + 1 = 2", "+"),
        ("month - 1 = 2", "- 1"),
        ("month * 2 = 2", "*"),
        ("month % 2 = 0", "%"),
        ("month::int = 1", ":"),
        ("month = 1 || month = 2", "|"),
        ("month = 1 && month = 2", "&"),
        ("!(month = 1)", "!"),
        ("month = 1; month = 2", ";"),
        ("month = 1;", ";"),
        ("month = 1 -- and so on", "-"),
        ("month = --1", "-"),
        ("month = - -1", "-"),
        ("month = 1 /* and */", "/"),
        ("month = 1 # x", "#"),
        ("month = 1 {# x #}", "{#"),
        ("{# x #}", "{#"),
        ("month = ?", "?"),
        ("month = @x", "@"),
        ("month = :x", ":"),
        ("month = $1", "$1"),
        ("[month] = 1", "["),
        ("month = [1]", "["),
        ("origin = N'JFK'", "N'JFK'"),
        ("t.month = 1", "t"),
        ("month.x = 1", "."),
        ("month = 1 month = 2", "month"),
        ("month = 1 2", "2"),
        ("origin = 'JFK' 'LGA'", "'LGA'"),
        ("AND month = 1", "AND"),
        ("month = 1 AND", "AND"),
        ("month = 1 OR OR month = 2", "OR"),
        ("month = 1 NOT", "NOT"),
        ("NOT", "NOT"),
        ("month =", "="),
        ("= 1", "="),
        ("month == 1", "="),
        ("month <=> 1", ">"),
        ("month NOT = 1", "="),
        ("month = NOT 1", "NOT"),
        ("month = NULL", "NULL"),
        ("NULL", "NULL"),
        ("NOT NULL", "NULL"),
        ("month IN (1, NULL)", "NULL"),
        ("month IN ()", ")"),
        ("month IN (1,)", ")"),
        ("month IN 1", "1"),
        ("month IN ((1), 2)", "("),
        ("month IN (1 2)", "2"),
        ("month IN (NOT 1)", "NOT"),
        ("month IS 5", "5"),
        ("month IS NOT 5", "5"),
        ("month IS TRUE", "TRUE"),
        ("month IS DISTINCT FROM 1", "DISTINCT"),
        ("month ISNULL", "ISNULL"),
        ("month BETWEEN 1", "1"),
        ("month BETWEEN 1 OR 2", "OR"),
        ("month BETWEEN NOT 1 AND 2", "NOT"),
        ("month BETWEEN SYMMETRIC 2 AND 1", "SYMMETRIC"),
        ("(month, date) = (1, 2)", ","),
        ("()", ")"),
        ("(month = 1", "("),
        ("((month = 1)", "("),
        ("month = 1)", ")"),
        ("origin = 'JFK", "'"),
        ("origin = 'it''s", "'"),
        ('"origin = 1', '"'),
        ("month = 1.2.3", "1.2.3"),
        ("month = 1e", "1e"),
        ("month = 1e+", "1e"),
        ("month = 0x1F", "x1F"),
        ("month = 1_000", "_000"),
        ("month = 12abc", "abc"),
        ("month = .", "."),
        ("month < 1e1000000000000000000000", "1e1000000000000000000000"),
    ],
)
def test_what_is_not_a_predicate_is_refused_at_the_word(text: str, marked: str) -> None:
    assert refusal(text, SCHEMA)[1] == marked


@pytest.mark.parametrize(
    ("text", "marked", "problem"),
    [
        ("month = date", "date", "a column can be compared with values only"),
        ("1 = 1", "1", "a value can be compared with a column only"),
        ("'x' IN ('x')", "'x'", "a value can be compared with a column only"),
        ("5 BETWEEN month AND date", "5", "a value can be compared with a column only"),
        ("month BETWEEN 1 AND date", "date", "a column can be compared with values only"),
        ("month IN (1, date)", "date", "a column can be compared with values only"),
        ("5 IS NULL", "5", "a value can be compared with a column only"),
        ("month = 1 = 2", "month", "a comparison cannot be compared in turn"),
        ("(month = 1) = TRUE", "month", "a comparison cannot be compared in turn"),
        ("month < 5 < 7", "month", "a comparison cannot be compared in turn"),
        ("(month = 1 OR date = 2) IS NULL", "month", "a comparison cannot be compared in turn"),
        ("flag", "flag", "a column alone is no predicate"),
        ("NOT flag AND month = 1", "flag", "a column alone is no predicate"),
        ("5", "5", "a value alone is no predicate"),
        ("month = 1 AND 'x'", "'x'", "a value alone is no predicate"),
        ("month BETWEEN 1 AND 2 AND 3", "3", "a value alone is no predicate"),
    ],
)
def test_what_has_no_meaning_is_refused_at_the_word(text: str, marked: str, problem: str) -> None:
    found = refusal(text, SCHEMA)
    assert problem in found[0]
    assert found[1] == marked


def test_the_message_shows_the_place_and_says_what_is_supported() -> None:
    with pytest.raises(QueryError) as caught:
        parse("origin = 'JFK'\n  AND\tmonth LIKE 'x'\n OR date = 1", SCHEMA)
    lines = ["LIKE is not supported", "    AND month LIKE 'x'", "              ^^^^", SUPPORTED]
    assert str(caught.value).split("\n") == lines


def test_a_long_text_is_shown_in_part() -> None:
    text = " OR ".join(["month = 1"] * 500) + " OR mnth = 2 OR " + " OR ".join(["month = 1"] * 500)
    assert refusal(text, SCHEMA)[1] == "mnth"
    with pytest.raises(QueryError) as caught:
        parse(text, SCHEMA)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("orign = 'JFK'", "there is no attribute 'orign'; did you mean origin?"),
        ("mnth = 1", "there is no attribute 'mnth'; did you mean month?"),
        ('"A B" = 1', "there is no attribute 'A B'; did you mean \"a b\"? A text stands in single quotes."),
        ("time = 1", "there is no attribute 'time'; there are origin"),
        ("zzz = 1", "there is no attribute 'zzz'; there are origin, month, delay, flag, a b, date, Case."),
        (
            'origin = "JFK"',
            "there is no attribute 'JFK'; there are origin, month, delay, flag, a b, date, Case. A text",
        ),
    ],
)
def test_an_unknown_attribute_is_refused_with_close_matches(text: str, problem: str) -> None:
    assert refusal(text, SCHEMA)[0].startswith(problem)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("MONTH = 1", "month = 1"),
        ('"month" = 1', "month = 1"),
        ("case = 1", '"Case" = 1'),
        ("DATE = 1", "date = 1"),
        ("month=1and date=2", "month = 1 AND date = 2"),
        ("month\n=\t1\r\nor\u00a0date = 2", "month = 1 OR date = 2"),
        ('"a b" = -3', '"a b" = - 3'),
        ('"a b" > -.5 and "a b" < 2.', '"a b" >= 0 and "a b" <= 1'),
        ('"a b" < 25e-1', '"a b" <= 2'),
        ("((month)) = (1)", "month = 1"),
        ("origin = '{#' or origin = '--'", "origin IN ('{#', '--')"),
        ("month != 1", "month <> 1"),
        ("not not month = 1", "month = 1"),
    ],
)
def test_two_spellings_of_one_predicate(text: str, same: str) -> None:
    assert parse(text, SCHEMA) == parse(same, SCHEMA)


@pytest.mark.parametrize("text", [None, 3, b"month = 1", ["month = 1"]])
def test_what_is_not_a_text_is_refused(text: Any) -> None:
    with pytest.raises(QueryError, match="a predicate is a text, not"):
        parse(text, SCHEMA)


def test_a_schema_is_needed() -> None:
    strange: Any = {"month": 12}
    with pytest.raises(QueryError, match="about a Schema, not about dict"):
        parse("month = 1", strange)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u00a0"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="the predicate is empty; TRUE matches every row"):
        parse(text, SCHEMA)


# -- caps -------------------------------------------------------------------------------------------------------------


def test_a_text_may_be_as_long_as_the_cap() -> None:
    text = "month = 1".ljust(MAX_LENGTH)
    assert parse(text, SCHEMA) == Query.where(SCHEMA, month=1)
    with pytest.raises(QueryError, match="65,537 characters; at most 65,536"):
        parse(text + " ", SCHEMA)


@pytest.mark.parametrize(
    ("opening", "closing", "weight"), [("(", ")", 1), ("NOT ", "", 1), ("NOT (", ")", 2), ("(NOT (", "))", 3)]
)
def test_nesting_may_be_as_deep_as_the_cap(opening: str, closing: str, weight: int) -> None:
    deepest = MAX_DEPTH // weight
    negated = opening.count("NOT") * deepest % 2 == 1
    june = Query.where(SCHEMA, month=6)
    assert parse(opening * deepest + "month = 6" + closing * deepest, SCHEMA) == (~june if negated else june)
    for depth in (deepest + 1, 10 * deepest, 5_000):
        problem, marked = refusal(opening * depth + "month = 6" + closing * depth, SCHEMA)
        assert "more than 100 parentheses and NOTs stand inside each other" in problem
        assert marked in ("(", "NOT")


def test_siblings_do_not_nest() -> None:
    text = " AND ".join(["NOT (month = 1 OR NOT (date = 2))"] * 500)
    assert parse(text, SCHEMA) == parse("month <> 1 AND date = 2", SCHEMA)
    for opening in ("(", "month IN (", "NOT "):
        assert refusal(opening * 5_000, SCHEMA)[0]


def test_depth_does_not_depend_on_the_stack() -> None:
    text = "(" * MAX_DEPTH + "month = 6" + ")" * MAX_DEPTH

    def descend(levels: int) -> Query:
        return parse(text, SCHEMA) if levels == 0 else descend(levels - 1)

    assert descend(500) == Query.where(SCHEMA, month=6)


def test_a_stack_that_is_all_but_full_is_a_clear_refusal() -> None:
    text = "(month = 1 OR (date = 2 AND " * (MAX_DEPTH // 2) + "month = 3" + "))" * (MAX_DEPTH // 2)

    def descend(levels: int) -> Query:
        return parse(text, SCHEMA) if levels == 0 else descend(levels - 1)

    frames = sys.getrecursionlimit() - len(inspect.stack())
    with pytest.raises(QueryError, match="nested too deeply to be read from here"):
        descend(frames - 150)
