"""Columns of the rows that attributes are made of: which attribute an expression means, and what none tells."""

from __future__ import annotations

import pytest

import treering as tr
from treering.domain.query import Query
from treering.errors import QueryError
from treering.sql.answer import split

SCHEMA = tr.Schema(
    {
        "day": tr.dates("2013-01-01", "2013-12-31", column="time"),
        "hour": tr.dates(part="hour", column="time"),
        "month": tr.dates(part="month", column="time"),
        "weekday": tr.dates(part="weekday", column="time"),
    }
)


def attributes_of(key: str) -> set[str]:
    """The attributes that a key is made of."""
    (core,) = split(f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY 1", SCHEMA).cores
    named: set[Query] = {row.rows for row in core.rows}
    return {SCHEMA.names[position] for query in named for position in query.attributes}


@pytest.mark.parametrize(
    ("key", "attributes"),
    [
        ("EXTRACT(hour FROM time)", {"hour"}),
        ("EXTRACT(hour FROM CAST(time AS TIMESTAMP))", {"hour"}),
        ("hour(time) + 1", {"hour"}),
        ("EXTRACT(month FROM time)", {"month"}),
        ("EXTRACT(dow FROM time)", {"weekday"}),
        ("date_trunc('month', time)", {"day"}),
        ("date_trunc('month', CAST(time AS TIMESTAMP))", {"day"}),
        ("CAST(time AS DATE)", {"day"}),
        ("date(time)", {"day"}),
        ("time", {"day"}),
        ("EXTRACT(quarter FROM time)", {"day"}),
        ("strftime(time, '%Y-%m')", {"day"}),
        ("CAST(time AS DATE) - CAST(EXTRACT(dow FROM time) AS INT)", {"day"}),
        ("EXTRACT(hour FROM time) < 12", {"hour"}),
    ],
)
def test_an_expression_means_the_attribute_that_tells_it(key: str, attributes: set[str]) -> None:
    assert attributes_of(key) == attributes


@pytest.mark.parametrize(
    "key",
    [
        "date_trunc('hour', time)",
        "EXTRACT(minute FROM time)",
        "EXTRACT(epoch FROM time)",
        "strftime(time, '%H:%M')",
        "CAST(time AS TIME)",
        "CAST(time AS VARCHAR)",
        "time + INTERVAL 3 HOUR",
        "date_diff('hour', DATE '2013-01-01', time)",
    ],
)
def test_what_the_day_does_not_tell_is_refused(key: str) -> None:
    with pytest.raises(QueryError, match="the date is known, as day, which does not tell"):
        attributes_of(key)


def test_a_column_of_which_only_parts_are_known() -> None:
    parts = tr.Schema({"hour": tr.dates(part="hour", column="time")})
    with pytest.raises(QueryError, match="of time only these are known: hour"):
        split("SELECT date_trunc('day', time), COUNT(*) FROM t GROUP BY 1", parts)


def test_the_name_of_a_result_is_not_a_column() -> None:
    text = "SELECT date_trunc('month', time) AS time, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY time"
    assert len(split(text, SCHEMA).cores[0].rows) == 13
