"""Comparisons of one attribute: which codes match, and which comparisons cells cannot tell."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from support.pointing import refusal
from treering.domain.attribute import ABOVE, BELOW, OTHER, Bins, Value, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.language.parse import parse
from treering.domain.query import Query
from treering.domain.schema import Schema

SCHEMA = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA", other=True, missing=True),
        "size": categories(5, 7, 1000),
        "flag": categories(True, False, missing=True),
        "yes": categories(True),
        "month": integers(1, 12),
        "hour": integers(0, 23, missing=True),
        "delay": bins([-1440, 0, 15, 60, 1440], missing=True),
        "speed": bins([0, 0.1, 0.3, 2], missing=True),
        "stops": integers(0, 3, other=True, missing=True),
        "price": bins([0, 100, 5000], other=True, missing=True),
        "day": dates("2013-01-30", "2013-03-01"),
        "month of": dates("2012-11-05", "2013-02-01", by="month"),
        "week": dates("2012-12-25", "2013-01-07", by="week"),
        "weekday": dates(part="weekday", column="day"),
    }
)


def matches(text: str, name: str) -> list[Value]:
    """The values of one attribute that match, each bin by its lower edge."""
    query = parse(text, SCHEMA)
    assert set(query.names) <= {name}
    attribute = SCHEMA.attributes[name]
    values = [attribute.value(code) for code in range(attribute.size)]
    if isinstance(attribute, Bins):
        values[: attribute.regular] = attribute.edges[:-1]
    single = {value: Query.where(SCHEMA, **{name: value}) for value in values}
    return [value for value in values if query & single[value] == single[value]]


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("origin = 'JFK'", "origin", ["JFK"]),
        ("'JFK' = origin", "origin", ["JFK"]),
        ("origin <> 'JFK'", "origin", ["EWR", "LGA", OTHER]),
        ("NOT origin = 'JFK'", "origin", ["EWR", "LGA", OTHER]),
        ("origin IN ('JFK', 'LGA', 'JFK')", "origin", ["JFK", "LGA"]),
        ("origin NOT IN ('JFK', 'LGA')", "origin", ["EWR", OTHER]),
        ("origin NOT IN ('EWR', 'JFK', 'LGA')", "origin", [OTHER]),
        ("origin IS NULL", "origin", [None]),
        ("NOT origin IS NOT NULL", "origin", [None]),
        ("origin IS NOT NULL", "origin", ["EWR", "JFK", "LGA", OTHER]),
        ("NOT (origin IS NULL OR origin = 'JFK')", "origin", ["EWR", "LGA", OTHER]),
        ("size = 7.0", "size", [7]),
        ("size IN (5, 1e3)", "size", [5, 1000]),
        ("flag = TRUE", "flag", [True]),
        ("flag <> true", "flag", [False]),
        ("flag IN (TRUE, FALSE)", "flag", [True, False]),
        ("month < 3", "month", [1, 2]),
        ("month <= 3", "month", [1, 2, 3]),
        ("month > 10", "month", [11, 12]),
        ("month >= 10.5", "month", [11, 12]),
        ("month < 2.5", "month", [1, 2]),
        ("month <= -2.5", "month", []),
        ("3 > month", "month", [1, 2]),
        ("3 >= month", "month", [1, 2, 3]),
        ("10 < month", "month", [11, 12]),
        ("10 <= month", "month", [10, 11, 12]),
        ("month <= 20", "month", list(range(1, 13))),
        ("month >= 13", "month", []),
        ("month < 1e999999", "month", list(range(1, 13))),
        ("month < -1e999999", "month", []),
        ("month > 1e-999999", "month", list(range(1, 13))),
        ("month < 2.00000000000000000000000000000000000000000000001", "month", [1, 2]),
        ("month BETWEEN 3 AND 5", "month", [3, 4, 5]),
        ("month BETWEEN 2.5 AND 5.5", "month", [3, 4, 5]),
        ("month BETWEEN 5 AND 3", "month", []),
        ("month NOT BETWEEN 5 AND 3", "month", list(range(1, 13))),
        ("month BETWEEN 0 AND 3", "month", [1, 2, 3]),
        ("month NOT BETWEEN 3 AND 12", "month", [1, 2]),
        ("month IS NULL", "month", []),
        ("month IS NOT NULL", "month", list(range(1, 13))),
        ("hour BETWEEN 20 AND 23", "hour", [20, 21, 22, 23]),
        ("hour BETWEEN -0.5 AND 1.5", "hour", [0, 1]),
        ("hour NOT BETWEEN 0 AND 23", "hour", []),
        ("hour NOT BETWEEN 1 AND 23", "hour", [0]),
        ("hour <> 0", "hour", [*range(1, 24)]),
        ("hour >= 22 AND hour <= 23", "hour", [22, 23]),
        ("hour > 21 AND NOT hour > 23", "hour", [22, 23]),
        ("hour < 1 OR hour > 22", "hour", [0, 23]),
        ("NOT (hour >= 1 AND hour <= 22)", "hour", [0, 23]),
        ("hour < 0 OR 23 < hour", "hour", []),
        ("delay >= 15", "delay", [15, 60]),
        ("delay < 15", "delay", [-1440, 0]),
        ("NOT delay >= 15", "delay", [-1440, 0]),
        ("15 <= delay", "delay", [15, 60]),
        ("delay <= 1440", "delay", [-1440, 0, 15, 60]),
        ("delay > 1440", "delay", []),
        ("delay >= -1440", "delay", [-1440, 0, 15, 60]),
        ("delay < -1440", "delay", []),
        ("delay < -5000", "delay", []),
        ("delay <= 5000", "delay", [-1440, 0, 15, 60]),
        ("delay > 1e300", "delay", []),
        ("delay BETWEEN 60 AND 1440", "delay", [60]),
        ("delay BETWEEN 60 AND 9999", "delay", [60]),
        ("delay NOT BETWEEN 60 AND 1440", "delay", [-1440, 0, 15]),
        ("delay BETWEEN -9999 AND 9999", "delay", [-1440, 0, 15, 60]),
        ("delay >= 0 AND delay < 15 OR delay IS NULL", "delay", [0, None]),
        ("speed BETWEEN 0.1 AND 2", "speed", [0.1, 0.3]),
        ("speed BETWEEN 0.10 AND 2.0", "speed", [0.1, 0.3]),
        ("speed BETWEEN 1e-1 AND 2", "speed", [0.1, 0.3]),
        ("speed NOT BETWEEN 0 AND 2", "speed", []),
        ("speed NOT BETWEEN 0.3 AND 2", "speed", [0, 0.1]),
        ("speed >= 0 AND speed < 0.3", "speed", [0, 0.1]),
        ("speed < 0 OR speed >= 0.3", "speed", [0.3]),
        ("NOT (speed >= 0 AND speed < 0.3)", "speed", [0.3]),
        ("speed < 0 OR speed > 2", "speed", []),
        ("stops >= 2", "stops", [2, 3, ABOVE]),
        ("stops > 3", "stops", [ABOVE]),
        ("stops >= 4", "stops", [ABOVE]),
        ("stops <= 3", "stops", [0, 1, 2, 3, BELOW]),
        ("stops < 0", "stops", [BELOW]),
        ("stops <> 0", "stops", [1, 2, 3, BELOW, ABOVE]),
        ("NOT stops < 2", "stops", [2, 3, ABOVE]),
        ("stops BETWEEN 0 AND 3", "stops", [0, 1, 2, 3]),
        ("stops NOT BETWEEN 0 AND 3", "stops", [BELOW, ABOVE]),
        ("stops >= 0 OR stops IS NULL", "stops", [0, 1, 2, 3, ABOVE, None]),
        ("stops IS NOT NULL", "stops", [0, 1, 2, 3, BELOW, ABOVE]),
        ("price >= 5000", "price", [ABOVE]),
        ("price < 5000", "price", [0, 100, BELOW]),
        ("price >= 100", "price", [100, ABOVE]),
        ("price < 0", "price", [BELOW]),
        ("price >= 0 AND price < 5000", "price", [0, 100]),
        ("day = '2013-02-28'", "day", [date(2013, 2, 28)]),
        ("day >= '2013-02-28'", "day", [date(2013, 2, 28), date(2013, 3, 1), ABOVE]),
        ("day > '2013-02-28'", "day", [date(2013, 3, 1), ABOVE]),
        ("day > '2013-03-01'", "day", [ABOVE]),
        ("day >= '2013-03-02 00:00:00'", "day", [ABOVE]),
        ("day < '2013-02'", "day", [date(2013, 1, 30), date(2013, 1, 31), BELOW]),
        ("day = '2013-02'", "day", [date(2013, 2, 1) + timedelta(days=each) for each in range(28)]),
        ("day BETWEEN '2013-01-30' AND '2013-01-31'", "day", [date(2013, 1, 30), date(2013, 1, 31)]),
        ("day NOT IN ('2013-01-30', '2013-02', '2013-03-01')", "day", [date(2013, 1, 31), BELOW, ABOVE]),
        ("day IS NULL", "day", [None]),
        ("'2013-01-31' > day", "day", [date(2013, 1, 30), BELOW]),
        ("\"month of\" >= '2013-01-01'", "month of", [date(2013, 1, 1), date(2013, 2, 1), ABOVE]),
        ("\"month of\" <= '2012-12-31'", "month of", [date(2012, 11, 1), date(2012, 12, 1), BELOW]),
        ("\"month of\" = '2012-12'", "month of", [date(2012, 12, 1)]),
        ("week = '2013-W01'", "week", [date(2012, 12, 31)]),
        ("week >= '2012-12-31'", "week", [date(2012, 12, 31), date(2013, 1, 7), ABOVE]),
        ("weekday >= 6", "weekday", [6, 7]),
        ("weekday IS NOT NULL", "weekday", [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_which_values_match(text: str, name: str, values: list[Value]) -> None:
    assert matches(text, name) == values


# -- bins cut in two --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("comparison", ["> 15", "<= 15", "> 0", "<= 0", "> -1440", "<= -1440", "< 1440", ">= 1440"])
def test_an_edge_on_the_wrong_side_cuts_a_bin(comparison: str) -> None:
    problem, marked = refusal(f"delay {comparison}", SCHEMA)
    assert "in two; the nearest bin edges are" in problem
    assert marked == comparison.split()[1]


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("delay >= 20", "15 and 60, where delay < 15, delay >= 15, delay < 60 and delay >= 60 do not"),
        ("delay < 14.999", "0 and 15, where"),
        ("delay <= 60", "60 and 1440, where delay < 60, delay >= 60 and delay <= 1440 do not"),
        ("delay > -3", "-1440 and 0, where"),
        ("delay >= 15.0000000000000000000000000001", "15 and 60, where"),
        ("delay BETWEEN 15 AND 60", "60 and 1440, where"),
        ("delay BETWEEN 10 AND 1440", "0 and 15, where"),
        (
            "price < 100.00000000000001",
            "100 and 5000, where price < 100, price >= 100, price < 5000 and price >= 5000",
        ),
        ("price <= 100", "100 and 5000, where"),
        ("price >= 1000000000000000055511151231257827e-32", "0 and 100, where"),
    ],
)
def test_a_bound_inside_a_bin_is_refused_with_the_nearest_edges(text: str, edges: str) -> None:
    assert f"the nearest bin edges are {edges}" in refusal(text, SCHEMA)[0]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("delay = 20", "write delay >= 15 AND delay < 60"),
        ("delay <> 15", "write delay >= 15 AND delay < 60"),
        ("delay IN (0, 60)", "write delay >= 0 AND delay < 15"),
        ("delay = 1440", "write delay >= 60, for example"),
        ("delay = 5000", "write delay < 0, for example"),
    ],
)
def test_a_bin_is_not_a_number(text: str, advice: str) -> None:
    problem = refusal(text, SCHEMA)[0]
    assert "only the bins of delay are known" in problem
    assert advice in problem


# -- the cell of values outside cut in two -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "speed < 0.30000000000000004",
            "bin from 0.3 to 2 of speed in two; the nearest bin edges are 0.3 and 2",
        ),
        ("speed >= 0.1000000000000000055", "the nearest bin edges are 0.1 and 0.3"),
        (
            "stops >= 5",
            "the values of stops from 4 on share one cell, which this would cut in two: that cell is stops >=",
        ),
        (
            "stops < -1",
            "of stops below 0 share one cell, which this would cut in two: that cell is stops <= -1",
        ),
        ("price > 5000", "from 5000 on share one cell, which this would cut in two: that cell is price >= 5000"),
        ("price < -0.5", "that cell is price < 0"),
        (
            "day >= '2013-03-03'",
            "from '2013-03-02' on share one cell, which this would cut in two: that cell is day >=",
        ),
        ("day < '2013-01-01'", "that cell is day < '2013-01-30'"),
        (
            "day < '2013-01-31 12:00'",
            "cut the day from '2013-01-31' to '2013-02-01' of day in two; the nearest bounds are",
        ),
        ("day <= '2013-01-31 00:00:00'", "cut the day from '2013-01-31' to"),
        ("\"month of\" = '2012-12-01'", "cut the month from '2012-12-01' to '2013-01-01'"),
        ("\"month of\" >= '2012-12-02'", "where \"month of\" < '2012-12-01', \"month of\" >= '2012-12-01', "),
        ("week = '2013-01'", "cut the week from '2012-12-31' to '2013-01-07' of week in two"),
    ],
)
def test_what_would_cut_a_cell_in_two_is_refused_with_advice_that_works(text: str, advice: str) -> None:
    problem = refusal(text, SCHEMA)[0]
    assert advice in problem
    advised = re.findall(r"""(?:"month of"|\w+) (?:[<>]=?|BETWEEN) [^,;\n]*?(?=,| and | do not|\n|$)""", problem)
    assert advised
    for each in advised:
        assert parse(each, SCHEMA)


@pytest.mark.parametrize(
    "text",
    ["yesterday", "2013-02-30", "2013-13", "2013-Q5", "2013-W54", "13-02-01", "", "2013-02-01T00:00Z", "9999-01-01"],
)
def test_what_is_no_date_is_refused(text: str) -> None:
    problem = refusal(f"day = '{text}'", SCHEMA)[0]
    assert f"day cannot be compared with '{text}': a date is written '2013-03-01'" in problem
    assert "the values of day are dates, in single quotes" in refusal("day = 20130101", SCHEMA)[0]


# -- values that are not there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "marked", "problem"),
    [
        (
            "origin = 'JKF'",
            "'JKF'",
            "'JKF' is not a category of origin; did you mean 'JFK'? The cell of values not listed",
        ),
        ("origin IN ('EWR', 'jfk')", "'jfk'", "did you mean 'JFK'?"),
        ("origin <> ''", "''", "'' is not a category of origin; it has the categories 'EWR', 'JFK', 'LGA'."),
        ("origin = 'SFO'", "'SFO'", "is origin NOT IN (all categories)."),
        ("size = 6", "6", "6 is not a category of size; did you mean 5 or 7 or 1000?"),
        ("size = 5.5", "5.5", "is not a category of size; did you mean 5 or 7"),
        ("size = 1e999999", "1e999999", "is not a category of size"),
        ("month = 13", "13", "month has only the whole numbers 1 to 12"),
        ("month <> 0", "0", "month has only the whole numbers 1 to 12"),
        ("month IN (1, 99999999999999999999)", "99999999999999999999", "the whole numbers 1 to 12"),
        ("month = 3.5", "3.5", "the whole numbers 1 to 12"),
        ("hour = 24", "24", "the whole numbers 0 to 23"),
        ("stops = 4", "4", "the whole numbers 0 to 3; the cells of other values are stops < 0 and stops > 3"),
        ("yes = FALSE", "FALSE", "FALSE is not a category of yes; it has the categories True."),
        ("origin = 5", "5", "the values of origin are texts, in single quotes"),
        ("size = '5'", "'5'", "the values of size are whole numbers"),
        ("size = TRUE", "TRUE", "the values of size are whole numbers"),
        ("flag = 1", "1", "the values of flag are TRUE and FALSE"),
        ("flag = 'TRUE'", "'TRUE'", "the values of flag are TRUE and FALSE"),
        ("month = 'June'", "'June'", "the values of month are numbers"),
        ("delay >= 'late'", "'late'", "the values of delay are numbers"),
        ("delay >= TRUE", "TRUE", "the values of delay are numbers"),
        (
            "origin < 'JFK'",
            "origin",
            "the categories of origin have no order: compare them by =, <>, IN, NOT IN or IS NULL",
        ),
        ("size >= 7", "size", "the categories of size have no order"),
        ("TRUE > flag", "flag", "the categories of flag have no order"),
        ("size BETWEEN 5 AND 7", "size", "the categories of size have no order"),
    ],
)
def test_a_value_that_is_not_there_is_refused(text: str, marked: str, problem: str) -> None:
    found = refusal(text, SCHEMA)
    assert problem in found[0]
    assert found[1] == marked


def test_close_matches_take_no_time() -> None:
    schema = Schema({"x": categories(*(f"value {index:07}" for index in range(200_000)))})
    assert "did you mean 'value 0000012'" in refusal("x = 'valu 0000012'", schema)[0]
    assert len(refusal(f"x = '{'v' * 60_000}'", schema)[0]) < 500
