from __future__ import annotations

import io
import json
import math
from datetime import date

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from treering.answer import Answer
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.service.access import Used
from treering.service.auth import Quota, Token
from treering.service.problems import Problem
from treering.service.wire import (
    ARROW,
    CSV,
    JSON,
    PARQUET,
    accepted,
    answer_of,
    answers_list,
    dumped,
    finite,
    quota_left,
    schema_dict,
    size_of,
    stamp,
    table_bytes,
    table_dict,
    token_dict,
)
from treering.shown import HOLDING, MARK, TOGETHER

ANSWER = Answer(0.1 + 0.2, 1 / 3, 12345, "measured", 0.07)


def test_an_answer_comes_back_exactly() -> None:
    assert answer_of(json.loads(dumped(ANSWER.to_dict()))) == ANSWER
    assert answers_list([ANSWER, ANSWER]) == [ANSWER.to_dict()] * 2


def test_what_is_infinite_is_null() -> None:
    assert finite({"a": [math.inf, 1.5, {"b": math.nan}], 3: (1, "x")}) == {
        "a": [None, 1.5, {"b": None}],
        "3": [1, "x"],
    }


def test_a_table_as_plain_values() -> None:
    table = pa.table({"day": [date(2026, 1, 2), None], "n": [1.5, math.nan], "n_margin": [0.5, None]})
    plain = table_dict(table)
    assert plain["rows"] == [["2026-01-02", 1.5, 0.5], [None, None, None]]
    assert plain["types"] == ["date32[day]", "double", "double"]
    assert plain["margins"] is None
    assert size_of(table, 9) == 9
    told = table.replace_schema_metadata({MARK: b"77", HOLDING: TOGETHER})
    assert table_dict(told)["margins"].startswith("all groups together")
    assert size_of(told, 9) == 77


def test_a_table_in_bytes() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "ü"]}).replace_schema_metadata({MARK: b"5"})
    with pa.ipc.open_stream(table_bytes(table, ARROW)) as stream:
        assert stream.read_all().equals(table, check_metadata=True)
    assert csv.read_csv(io.BytesIO(table_bytes(table, CSV))).to_pylist() == table.to_pylist()
    assert parquet.read_table(io.BytesIO(table_bytes(table, PARQUET))).to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("text/csv", CSV),
        ("TEXT/CSV; charset=utf-8", CSV),
        ("text/*", CSV),
        (f"{JSON};q=0.2, {CSV};q=0.9", CSV),
        (f"{CSV};q=0.2, */*;q=0.1", CSV),
        (f"image/png, {ARROW}", ARROW),
        (f"{CSV};q=0, {JSON}", JSON),
        ("*/*, text/csv", CSV),
    ],
)
def test_what_accept_likes_best(header: str | None, wanted: str) -> None:
    assert accepted(header or None, (JSON, CSV, ARROW)) == wanted


@pytest.mark.parametrize("header", ["image/png", "text/csv;q=0", "text/csv;q=x", ";;;,,,"])
def test_what_accept_does_not_allow(header: str) -> None:
    with pytest.raises(Problem) as problem:
        accepted(header, (JSON, CSV))
    assert problem.value.code == "not_acceptable"


def test_the_schema_lists_what_one_may_type() -> None:
    schema = Schema({"o": categories("a", "b", other=True), "m": integers(1, 5000), "d": bins([0, 1, 2], missing=True)})
    plain = schema_dict(schema)
    assert Schema.from_dict(plain["schema"]) == schema
    first, second, third = plain["attributes"]
    assert (first["kind"], first["labels"], first["missing"]) == ("categories", ["a", "b", "(other)"], False)
    assert (second["size"], second["labels"]) == (5000, [])
    assert third["missing"]
    dumped(plain)


def test_a_token_without_its_proof() -> None:
    token = Token("i", "ada", "analyst", "DIGEST", 0.0, 60.0, None, Quota(5, 0.25))
    plain = token_dict(token, Used(2, 1.0, 3600.0), 10.0)
    assert "DIGEST" not in str(plain)
    assert plain["created"] == "1970-01-01T00:00:00+00:00"
    assert plain["quota"] == {
        "answers": 5,
        "budget": 0.25,
        "answers_used": 2,
        "budget_used": 0.1,
        "frees": "1970-01-01T01:00:00+00:00",
    }
    left = quota_left(Quota(5, 0.25), Used(9, 1.0, None), 10.0)
    assert left == {"answers_left": 0, "budget_left": 0.15, "frees": None}
    assert quota_left(Quota(), Used(9, 1.0, None), 10.0)["budget_left"] is None
    assert stamp(None) is None
