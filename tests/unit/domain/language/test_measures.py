"""Requests: which queries they need, what is refused, and what a reader is told."""

from __future__ import annotations

import math
from typing import Any

import pytest

import treering as tr
from treering.domain.language.measures import Count, Mean, Measure, Quantile, Release, Request, Sum

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK"),
        "fare": tr.numbers(0, 100, step=0.5, edges=[0, 50, 100]),
        "month": tr.integers(1, 3, other=True, missing=True),
        "delay": tr.bins([-10, 0, 10], other=True),
        "day": tr.dates("2013-01-01", "2013-01-05", by="day"),
    }
)


def test_the_queries_of_a_group() -> None:
    request = Request.of(SCHEMA, [Mean("fare"), Quantile("delay", 0.5)], ["origin"], "month = 2")
    codes = list(request.groups())[1]
    assert str(request.matching(codes)) == "origin = 'JFK' AND month = 2"
    assert str(request.valued(codes, "fare")) == "origin = 'JFK' AND fare IS NOT NULL AND month = 2"
    cells = [str(query) for query in request.items()[3].cells()]
    assert cells == [
        f"origin = 'JFK' AND month = 2 AND {part}" for part in ("delay < -10", "delay >= -10 AND delay < 0",
                                                              "delay >= 0 AND delay < 10", "delay >= 10")
    ]  # fmt: skip
    # Values outside the range of integers are present, but not summed.
    assert request.present(codes, "month") == tr.parse("origin = 'JFK' AND month = 2", SCHEMA)
    everyone = Request.of(SCHEMA, [Sum("month")])
    assert everyone.valued((), "month") == tr.parse("month BETWEEN 1 AND 3", SCHEMA)
    assert everyone.present((), "month") == tr.parse("month IS NOT NULL", SCHEMA)


@pytest.mark.parametrize(
    ("measures", "by", "where", "problem"),
    [
        ([], [], None, "a request names measures"),
        (["COUNT(*)"], [], None, "a request names measures"),
        ([Sum("fear")], [], None, "no attribute 'fear'"),
        ([Sum("delay")], [], None, r"SUM\(delay\) cannot be had: sums are kept of integers\(\) and numbers\(\)"),
        ([Mean("origin")], [], None, "holds no numbers"),
        ([Quantile("day", 0.5)], [], None, "holds no numbers"),
        ([Count()], ["nowhere"], None, "no attribute 'nowhere'"),
        ([Count()], [], "fare < 3", "would cut the bin"),
        ([Count()], [], tr.Query.weighted(SCHEMA, [0.5, 1.0], attributes=["origin"]), "does not weigh them"),
    ],
)
def test_what_cannot_be_asked_is_refused(measures: Any, by: list[str], where: Any, problem: str) -> None:
    with pytest.raises(tr.TreeringError, match=problem):
        Request.of(SCHEMA, measures, by, where)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, True, "half", math.nan])
def test_the_level_of_a_quantile_is_a_share(level: Any) -> None:
    with pytest.raises(tr.QueryError, match="a share between 0 and 1"):
        Quantile("fare", level)


def test_too_many_groups_or_cells_are_refused() -> None:
    wide = tr.Schema({"a": tr.integers(0, 999), "b": tr.integers(0, 999), "c": tr.integers(0, 4000)})
    with pytest.raises(tr.QueryError, match="1,000,000 groups are too many"):
        Request.of(wide, [Count()], ["a", "b"])
    with pytest.raises(tr.QueryError, match="1,000 groups with up to 4,001 cells each are too many for quantiles"):
        Request.of(wide, [Quantile("c", 0.5)], ["a"])
    assert Request.of(wide, [Sum("c")], ["a"]).measures == (Sum("c"),)


def test_notes_say_what_is_clipped_and_left_out() -> None:
    measures: list[Measure] = [
        Count(),
        Sum("fare"),
        Mean("fare"),
        Mean("month"),
        Mean("delay"),
        Quantile.greatest("fare"),
    ]
    assert Request.of(SCHEMA, measures, ["origin"]).notes == (
        "fare: values are clipped to 0 … 100.",
        "fare: values are rounded to steps of 0.5 in sums and averages.",
        "fare: rows without a value are left out, as in SQL.",
        "month: rows without a value are left out, as in SQL.",
        "month: sums and averages leave out values that are not among the integers 1 to 3.",
        "AVG(delay) is known as far as its bins tell: the interval holds it wherever values lie in them.",
        "delay: sums and averages leave out values that are not among the numbers -10 to 10.",
        "MAX(fare) is the 99% quantile: the value of a single row is private.",
        "Quantiles of fare are known as far as its bins tell: intervals are made of whole bins.",
        "Every group of the schema has a row: which groups are empty is private.",
    )
    assert Request.of(SCHEMA, [Count("fare")]).notes == ()


def test_a_release_as_json() -> None:
    request = Request.of(SCHEMA, [Count(), Quantile("delay", 0.5)], ["origin"])
    known, unknown = tr.Estimate(3, 1, 5, 4), tr.Estimate(None, -math.inf, 10.0)
    plain = Release(request, 9, ((known, unknown), (known, unknown))).to_dict()
    assert plain["columns"] == ["origin", "COUNT(*)", "MEDIAN(delay)"]
    assert plain["rows"][1] == [
        "JFK",
        {"value": 3, "margin": 2, "error": 4, "low": 1, "high": 5},
        {"value": None, "margin": None, "error": None, "low": None, "high": 10.0},
    ]
    assert plain["size"] == 9
