"""Conditions as tools write them: the last second of a day, instants, patterns; and what is noted of them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

import treering as tr
from treering.deadline import Deadline, until
from treering.sql.engine.current import using
from treering.sql.engine.local import Local
from treering.sql.split import Statement, split

SCHEMA = tr.Schema(
    {
        "day": tr.dates("2013-01-01", "2013-12-31"),
        "month": tr.dates("2013-01-01", "2013-12-31", by="month"),
        "there": tr.dates("2013-01-01", "2013-12-31", tz="America/New_York"),
        "place": tr.categories("Asia", "Africa", "Europe", other=True),
        "size": tr.categories("small", "large"),
    }
)
JANUARY = "day >= '2013-01-01' AND day < '2013-02-01'"


def asked(condition: str) -> Statement:
    """A count of the rows that match."""
    return split(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA)


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("day BETWEEN '2013-01-01 00:00:00' AND '2013-01-31 23:59:59'", JANUARY),
        ("day BETWEEN '2013-01-01T00:00:00Z' AND '2013-01-31T23:59:59Z'", JANUARY),
        ("day >= '2013-01-01 00:00:00' AND day <= '2013-01-31 23:59:59'", JANUARY),
        ("day >= '2013-01-01' AND day <= TIMESTAMP '2013-01-31 23:59:59.999'", JANUARY),
        ("day >= '2013-01-01' AND day <= CAST('2013-01-31 23:59:59.999' AS TIMESTAMP)", JANUARY),
        ("day >= '2013-01-01' AND day < '2013-01-31 23:59:59'", JANUARY),
        ("NOT day > '2013-01-31 23:59:59' AND day >= '2013-01-01'", JANUARY),
        ("month <= '2013-03-31 23:59:59'", "month < '2013-04-01'"),
        ("month > '2013-03-31 23:59:59'", "month >= '2013-04-01'"),
        ("day < '2013-01-31 23:59:59'", "day < '2013-02-01'"),
    ],
)
def test_the_last_second_of_a_day_is_its_end_and_that_is_noted(condition: str, meant: str) -> None:
    found = asked(condition)
    assert found.items == asked(meant).items
    (note,) = found.notes
    assert note.endswith("23:59:59 stands for the end of the day.")
    assert asked(meant).notes == ()


@pytest.mark.parametrize("condition", ["day < '2013-02-01 00:00:00' AND day >= '2013-01-01 00:00:00'", JANUARY])
def test_a_midnight_needs_no_note(condition: str) -> None:
    assert asked(condition).items == asked(JANUARY).items
    assert asked(condition).notes == ()


@pytest.mark.parametrize(
    "condition",
    ["day <= '2013-01-31 12:00:00'", "day <= '2013-01-31 23:59:58'", "day = '2013-01-31 23:59:59'"],
)
def test_other_moments_cut_a_period(condition: str) -> None:
    (item,) = asked(condition).items
    assert item.query.schema != asked(JANUARY).schema
    assert item.query.names == ("day",)


def test_an_instant_is_that_of_the_attribute_s_clocks() -> None:
    local = asked("there >= '2013-01-01' AND there < '2013-02-01'")
    utc = asked("there >= '2013-01-01T05:00:00Z' AND there < '2013-02-01T05:00:00Z'")
    assert utc.items == local.items
    assert asked("there >= '2013-01-01' AND there <= '2013-02-01T04:59:59Z'").items == local.items
    (item,) = asked("there >= '2013-01-01T00:00:00Z'").items
    assert item.query == tr.parse("there >= '2012-12-31 19:00:00'", item.query.schema)


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("place LIKE 'A%'", "place IN ('Asia', 'Africa')"),
        ("place NOT LIKE 'A%'", "place = 'Europe'"),
        ("place ILIKE '%A'", "place IN ('Asia', 'Africa')"),
        ("NOT (place LIKE 'A%')", "place = 'Europe'"),
    ],
)
def test_a_pattern_is_about_the_values_that_are_listed_and_that_is_noted(condition: str, meant: str) -> None:
    found = asked(condition.replace("'%A'", "'a%'"))
    assert found.items == asked(meant).items
    (note,) = found.notes
    assert "others of place are left out" in note
    assert asked("size LIKE 's%'").notes == ()


@pytest.mark.parametrize("moment", ["2013-02-31 23:59:59", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_moments_that_are_none_are_refused_and_nothing_else_happens(moment: str) -> None:
    for name in ("day", "month", "there"):
        with pytest.raises(tr.QueryError):
            asked(f"{name} <= '{moment}'")


def test_what_else_is_not_told_of_values_that_are_not_listed_is_refused() -> None:
    with pytest.raises(tr.QueryError):
        asked("upper(place) = 'ASIA'")


class Counted(Local):
    """The local engine, which counts its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def run(self, statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        self.runs += 1
        return super().run(statement, tables)


@pytest.mark.parametrize(
    ("link", "leaf"),
    [
        ("OR", "upper(size) = 'X{i}'"),
        ("AND", "NOT (upper(size) = 'X{i}' OR day >= '2013-02-01')"),
        ("OR", "(upper(size) = 'X{i}' AND day < '2013-02-01')"),
        ("OR", "day >= DATE '2013-01-01' + INTERVAL {i} DAY"),
        ("OR", "length(size) + {i} = 7"),
    ],
)
def test_the_number_of_runs_does_not_grow_with_the_condition(link: str, leaf: str) -> None:
    runs = []
    for number in (4, 40):
        engine = Counted()
        with using(engine):
            asked(f" {link} ".join(leaf.format(i=each) for each in range(number)))
        runs.append(engine.runs)
    assert runs[0] == runs[1] <= 3


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("upper(size) = 'SMALL' OR size = 'large'", "TRUE"),
        ("upper(size) = 'SMALL' AND day < '2013-02-01'", "size = 'small' AND day < '2013-02-01'"),
        ("NOT (upper(size) = 'SMALL' OR day >= '2013-02-01')", "size = 'large' AND day < '2013-02-01'"),
        ("(upper(size) = 'SMALL') IS NOT TRUE", "size = 'large'"),
        ("(place LIKE 'A%' OR size = 'small') IS TRUE", "place IN ('Asia', 'Africa') OR size = 'small'"),
        ("(place LIKE 'A%') IS NOT TRUE AND size = 'small'", "place NOT IN ('Asia', 'Africa') AND size = 'small'"),
        ("day >= '2013-01-01' AND lower(size) = size AND day < '2013-02-01'", JANUARY),
    ],
)
def test_predicates_and_what_is_worked_out_are_put_together(condition: str, meant: str) -> None:
    assert asked(condition).items == asked(meant).items


def test_one_part_that_cannot_be_told_is_the_one_that_is_named() -> None:
    parts = [f"length(size) = {each}" for each in range(20)]
    with pytest.raises(tr.QueryError, match="place"):
        asked(" OR ".join([*parts, "upper(place) = 'ASIA'", *parts]))


def test_reading_a_condition_ends_at_the_deadline() -> None:
    with until(Deadline(0)), pytest.raises(tr.TimeLimit):
        asked(" OR ".join(f"length(size) = {each}" for each in range(50)))
