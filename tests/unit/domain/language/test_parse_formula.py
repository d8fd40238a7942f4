"""Formulas: when a predicate needs a table, and that large ones take little time."""

from __future__ import annotations

import random
import time

import pytest

from treering.domain.attribute import integers
from treering.domain.language.parse import MAX_LENGTH, parse
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.errors import QueryError

WIDE = Schema({f"b{index}": integers(0, 1) for index in range(60)})
CONJUNCTION = " AND ".join(f"{name} = 1" for name in WIDE.names)


def test_a_conjunction_needs_no_table() -> None:
    query = parse(CONJUNCTION, WIDE)
    assert query == Query.where(WIDE, **dict.fromkeys(WIDE.names, 1))
    assert query.joint == 2**60


@pytest.mark.parametrize(
    "text",
    [
        f"({CONJUNCTION})",
        f"NOT (NOT ({CONJUNCTION}))",
        f"FALSE OR ({CONJUNCTION})",
        f"TRUE AND {CONJUNCTION}",
        f"({CONJUNCTION}) OR b0 > 1",
        f"{CONJUNCTION} AND (b0 = 1 OR b1 = 1)",
        f"{CONJUNCTION} AND (b0 = 1 OR b0 = 0)",
        f"{CONJUNCTION} AND ((b0 = 1 AND b1 = 1) OR (b0 = 1 AND b1 = 0))",
        " AND ".join(f"({name} = 1 OR {name} > 0)" for name in WIDE.names),
        "NOT (" + " OR ".join(f"{name} <> 1" for name in WIDE.names) + ")",
    ],
)
def test_what_comes_to_a_conjunction_needs_no_table(text: str) -> None:
    assert parse(text, WIDE) == parse(CONJUNCTION, WIDE)


@pytest.mark.parametrize(
    "text", [f"TRUE OR ({CONJUNCTION})", f"b0 >= 0 OR ({CONJUNCTION})", "NOT FALSE", "b0 IS NOT NULL"]
)
def test_what_comes_to_everything(text: str) -> None:
    assert parse(text, WIDE) == Query.all(WIDE)


@pytest.mark.parametrize("text", [f"FALSE AND {CONJUNCTION}", f"{CONJUNCTION} AND b0 = 0", "NOT TRUE", "b0 IS NULL"])
def test_what_comes_to_nothing(text: str) -> None:
    assert parse(text, WIDE) == Query.none(WIDE)


@pytest.mark.parametrize("text", ["TRUE OR b0 = 7", "b0 = 7 OR TRUE", "FALSE AND b0 = 7", "b0 < 0 AND b0 = 7"])
def test_a_mistake_is_one_wherever_it_stands(text: str) -> None:
    with pytest.raises(QueryError, match="only the whole numbers 0 to 1"):
        parse(text, WIDE)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"{name} = 1" for name in WIDE.names),
        f"NOT ({CONJUNCTION})",
        f"({CONJUNCTION}) OR b0 = 0",
        f"{' AND '.join(f'{name} = 1' for name in WIDE.names[2:])} AND (b0 = 1 OR b1 = 1)",
        " AND ".join(f"(b{index} = 1 OR b{index + 1} = 1)" for index in range(0, 60, 2)),
    ],
)
def test_a_table_beyond_the_limit_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=rf"joint values of b0, b1.*at most {MAX_TABLE:,} are possible"):
        parse(text, WIDE)


def test_a_table_may_be_as_large_as_the_limit() -> None:
    query = parse(" OR ".join(f"b{index} = 1" for index in range(20)), WIDE)
    assert query.joint == MAX_TABLE
    assert query == ~parse(" AND ".join(f"b{index} = 0" for index in range(20)), WIDE)


# -- time -------------------------------------------------------------------------------------------------------------


def full(parts: list[str], word: str) -> str:
    """As many parts as a text may have."""
    joined = f" {word} ".join(parts)[:MAX_LENGTH]
    return joined[: joined.rindex(f" {word} ")]


def test_a_long_chain_over_one_column() -> None:
    schema = Schema({"a": integers(1, 2**20)})
    started = time.monotonic()
    query = parse(full([f"a = {value}" for value in range(1, 9000)], "OR"), schema)
    assert query.masks is not None
    assert int(query.masks[0].sum()) > 5000
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("kind", ["disjunctive", "conjunctive", "square"])
def test_a_long_chain_over_a_table_of_the_largest_size(kind: str) -> None:
    generator = random.Random(1)

    def term(word: str) -> str:
        names = generator.sample(range(20), 3)
        return "(" + f" {word} ".join(f"b{name} = {generator.randrange(2)}" for name in names) + ")"

    schema, text = WIDE, full([term("AND") for _ in range(3000)], "OR")
    if kind == "conjunctive":
        text = full([term("OR") for _ in range(3000)], "AND")
    elif kind == "square":
        schema = Schema({"x": integers(0, 1023), "y": integers(0, 1023)})
        pairs = [(generator.randrange(1024), generator.randrange(1024)) for _ in range(4000)]
        text = full([f"(x <> {one} OR y <> {two})" for one, two in pairs], "AND")
    started = time.monotonic()
    assert parse(text, schema).joint <= MAX_TABLE
    assert time.monotonic() - started < 30
