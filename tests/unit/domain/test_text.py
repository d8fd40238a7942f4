"""Queries in words: exact texts, and that they are read back."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.schemas import conjunctions, queries, schemas, weighted_queries
from treering.domain.attribute import ABOVE, BELOW, OTHER, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.language.parse import parse
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.text import MAX_LENGTH, identifier, literal, text
from treering.errors import QueryError

FLIGHTS = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA", other=True),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440], missing=True),
        "hour": integers(0, 23, other=True, missing=True),
        "speed": bins([0, 0.1, 1, 2], other=True, missing=True),
        "stops": integers(0, 3, other=True, missing=True),
        "price": bins([0, 100, 5000], other=True),
        "day": dates("2013-02-27", "2013-03-02"),
        "when": dates("2013-02-27", "2013-12-02", by="month"),
    }
)


@given(schemas(most_values=5).flatmap(lambda schema: queries(schema) | conjunctions(schema)))
def test_what_is_written_is_read_back(query: Query) -> None:
    assert parse(str(query), query.schema) == query


@given(schemas(most_attributes=1, most_values=12).flatmap(conjunctions))
def test_sets_of_one_attribute_are_read_back(query: Query) -> None:
    assert parse(str(query), query.schema) == query


@given(schemas(most_attributes=3).flatmap(weighted_queries))
def test_weights_are_described_and_never_read_back(query: Query) -> None:
    if not query.counting:
        assert str(query).startswith("weighted ")
        with pytest.raises(QueryError):
            parse(str(query), query.schema)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query.all(FLIGHTS), "TRUE"),
        (Query.none(FLIGHTS), "FALSE"),
        (Query.where(FLIGHTS, origin="JFK", month=[12, 1, 2]), "origin = 'JFK' AND month IN (1, 2, 12)"),
        (Query.where(FLIGHTS, origin=["EWR", "LGA"]), "origin IN ('EWR', 'LGA')"),
        (Query.where(FLIGHTS, origin=["EWR", "LGA", OTHER]), "origin <> 'JFK'"),
        (Query.where(FLIGHTS, origin=OTHER), "origin NOT IN ('EWR', 'JFK', 'LGA')"),
        (Query.where(FLIGHTS, month=range(3, 6)), "month BETWEEN 3 AND 5"),
        (Query.where(FLIGHTS, month=range(10, 13)), "month >= 10"),
        (Query.where(FLIGHTS, month=[1, 2, 3, 10, 11, 12]), "month NOT BETWEEN 4 AND 9"),
        (Query.where(FLIGHTS, month=[1, 2, 3, 4, 6, 7, 8, 9, 11, 12]), "month NOT IN (5, 10)"),
        (Query.where(FLIGHTS, delay=-1), "delay < 0"),
        (Query.where(FLIGHTS, delay=[15, 60]), "delay >= 15"),
        (Query.where(FLIGHTS, delay=[0, 15]), "delay >= 0 AND delay < 60"),
        (Query.where(FLIGHTS, delay=[-1, 60]), "delay < 0 OR delay >= 60"),
        (Query.where(FLIGHTS, delay=[-1, 0, 15, 60]), "delay IS NOT NULL"),
        (Query.where(FLIGHTS, delay=None), "delay IS NULL"),
        (Query.where(FLIGHTS, delay=[0, None]), "(delay >= 0 AND delay < 15) OR delay IS NULL"),
        (Query.where(FLIGHTS, month=1, delay=[60, None]), "month = 1 AND (delay >= 60 OR delay IS NULL)"),
        (Query.where(FLIGHTS, hour=range(20, 24)), "hour BETWEEN 20 AND 23"),
        (Query.where(FLIGHTS, hour=[BELOW, ABOVE]), "hour NOT BETWEEN 0 AND 23"),
        (~Query.where(FLIGHTS, hour=[5, None]), "hour <> 5"),
        (Query.where(FLIGHTS, speed=0), "speed >= 0 AND speed < 0.1"),
        (Query.where(FLIGHTS, speed=[0.5, 1]), "speed >= 0.1 AND speed < 2"),
        (Query.where(FLIGHTS, speed=[BELOW, ABOVE]), "speed < 0 OR speed >= 2"),
        (~Query.where(FLIGHTS, speed=[0, None]), "speed < 0 OR speed >= 0.1"),
        (Query.where(FLIGHTS, stops=[2, 3, ABOVE]), "stops >= 2"),
        (Query.where(FLIGHTS, stops=BELOW), "stops <= -1"),
        (Query.where(FLIGHTS, stops=[BELOW, ABOVE]), "stops NOT BETWEEN 0 AND 3"),
        (Query.where(FLIGHTS, stops=[BELOW, 0, 2, ABOVE]), "stops NOT IN (1, 3)"),
        (Query.where(FLIGHTS, stops=[0, 1, 2, 3, BELOW, ABOVE]), "stops IS NOT NULL"),
        (Query.where(FLIGHTS, price=ABOVE), "price >= 5000"),
        (Query.where(FLIGHTS, price=[0, 100]), "price >= 0 AND price < 5000"),
        (Query.where(FLIGHTS, day="2013-02-28"), "day = '2013-02-28'"),
        (Query.where(FLIGHTS, day=[ABOVE, "2013-03-02"]), "day >= '2013-03-02'"),
        (Query.where(FLIGHTS, when="2013-03-31"), "\"when\" = '2013-03'"),
        (Query.where(FLIGHTS, when=["2013-03-31", "2013-04-01"]), "\"when\" IN ('2013-03', '2013-04')"),
        (Query.where(FLIGHTS, when=[None, BELOW]), '"when" < \'2013-02-01\' OR "when" IS NULL'),
        (Query.where(FLIGHTS, origin="JFK") | Query.where(FLIGHTS, month=1), "origin = 'JFK' OR month = 1"),
        (~Query.where(FLIGHTS, origin="JFK", month=1), "origin <> 'JFK' OR month >= 2"),
        (
            Query.where(FLIGHTS, delay=[15, 60]) & (Query.where(FLIGHTS, origin="JFK") | Query.where(FLIGHTS, month=1)),
            "delay >= 15 AND (origin = 'JFK' OR month = 1)",
        ),
        (
            Query.where(FLIGHTS, origin="JFK", month=1) | Query.where(FLIGHTS, origin="LGA", month=2),
            "(origin = 'JFK' AND month = 1) OR (origin = 'LGA' AND month = 2)",
        ),
    ],
)
def test_words_that_people_would_use(query: Query, words: str) -> None:
    assert str(query) == words
    assert text(query) == words
    assert repr(query) == f"Query({words!r})"
    assert parse(words, FLIGHTS) == query


def test_weights_in_words() -> None:
    assert str(Query.weighted(FLIGHTS, np.arange(12) / 12, attributes=["month"])) == "weighted over month (12 weights)"
    assert str(Query.weighted(FLIGHTS, 0.25, attributes=[])) == "weighted 1/4 for every row"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("month", "month"),
        ("_x2", "_x2"),
        ("Month", '"Month"'),
        ("month of year", '"month of year"'),
        ("2nd", '"2nd"'),
        ("order", '"order"'),
        ("between", '"between"'),
        ("été", '"été"'),
    ],
)
def test_names_are_quoted_where_sql_needs_it(name: str, written: str) -> None:
    assert identifier(name) == written
    schema = Schema({name: integers(1, 9)})
    assert str(Query.where(schema, **{name: 5})) == f"{written} = 5"


def test_literals() -> None:
    assert [literal(value) for value in ("it's", "", 5, -5, True, False)] == [
        "'it''s'",
        "''",
        "5",
        "-5",
        "TRUE",
        "FALSE",
    ]


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_text_survives(value: str) -> None:
    schema = Schema({"x": categories(value, value + "'")})
    query = Query.where(schema, x=value)
    assert parse(str(query), schema) == query


# -- what cannot be written --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1024, 1024), (2,) * 20, (2**15, 32), (2**19, 2)])
def test_a_query_without_structure_is_described_in_time(shape: tuple[int, ...]) -> None:
    schema = Schema({f"a{index}": integers(1, size) for index, size in enumerate(shape)})
    query = Query.weighted(schema, np.random.default_rng(1).integers(0, 2, size=shape), resolution=1)
    started = time.monotonic()
    words = str(query)
    assert time.monotonic() - started < 20
    assert words.startswith("counting over a0, a1")
    assert words.endswith("of 1,048,576 joint values)")
    with pytest.raises(QueryError):
        parse(words, schema)


def test_a_long_set_is_named_by_what_it_leaves_out() -> None:
    schema = Schema({"x": categories(*(f"value {index}" for index in range(50_000)))})
    query = ~Query.where(schema, x="value 7")
    assert str(query) == "x <> 'value 7'"
    half = Query.where(schema, x=[f"value {index}" for index in range(25_000)])
    assert str(half) == "counting over x (25,000 of 50,000 joint values)"


def test_everything_that_is_written_is_short_enough() -> None:
    schema = Schema({"a": integers(1, 4000), "b": integers(1, 2)})
    for step in (2, 3, 50):
        query = Query.where(schema, a=range(1, 4001, step), b=1)
        assert len(str(query)) <= MAX_LENGTH
        assert parse(str(query), schema) == query
