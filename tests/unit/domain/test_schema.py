"""Schemas: cells ↔ values, equality, files, limits."""

from __future__ import annotations

import copy
import pickle
import tomllib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given, strategies as st

from support.schemas import Row, rows, schemas
from treering.domain.attribute import MAX_VALUES, OTHER, bins, categories, integers
from treering.domain.schema import MAX_CELLS, Schema
from treering.errors import SchemaError

FLIGHTS = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA", other=True),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440], missing=True),
    }
)
SMALL = schemas(most_attributes=3, most_values=3)


@given(SMALL)
def test_cells_and_values_are_in_bijection(schema: Schema) -> None:
    all_values = [schema.values(cell) for cell in range(schema.cells)]
    assert [schema.cell(values) for values in all_values] == list(range(schema.cells))


@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), rows(schema, most=3))))
def test_every_row_has_a_cell(pair: tuple[Schema, list[Row]]) -> None:
    schema, each = pair
    assert all(0 <= schema.cell(row) < schema.cells for row in each)


@given(schemas())
def test_toml_is_read_back(schema: Schema) -> None:
    again = Schema.from_dict(tomllib.loads(tomli_w.dumps(schema.to_dict())))
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.names == schema.names


@given(schemas())
def test_copies_are_equal(schema: Schema) -> None:
    for again in (pickle.loads(pickle.dumps(schema)), copy.copy(schema), copy.deepcopy(schema)):
        assert again == schema
        assert again.fingerprint == schema.fingerprint


def test_files_are_read_back(tmp_path: Path) -> None:
    FLIGHTS.save(tmp_path / "flights.toml")
    assert Schema.load(tmp_path / "flights.toml") == FLIGHTS
    assert Schema.load(str(tmp_path / "flights.toml")).cells == 4 * 12 * 5


def test_the_last_attribute_runs_fastest() -> None:
    values: Row = {"origin": OTHER, "month": 2, "delay": None}
    assert FLIGHTS.cell(values) == (3 * 12 + 1) * 5 + 4
    assert FLIGHTS.values(np.int64(FLIGHTS.cell(values))) == values
    assert FLIGHTS.shape == (4, 12, 5)
    assert FLIGHTS.positions(["delay", "origin", "delay"]) == (0, 2)
    assert repr(FLIGHTS) == "Schema(origin: 4, month: 12, delay: 5; 240 cells)"


@pytest.mark.parametrize(
    "attributes",
    [
        {"a": integers(1, 3), "b": integers(1, 3)},
        {"b": integers(1, 2), "a": integers(1, 3)},
        {"a": integers(1, 3), "B": integers(1, 2)},
        {"a": integers(1, 3), "b": categories(1, 2)},
        {"a": integers(1, 3), "b": integers(1, 2, other=True)},
        {"a": integers(1, 3)},
    ],
)
def test_names_order_and_values_make_a_schema(attributes: dict[str, Any]) -> None:
    schema = Schema({"a": integers(1, 3), "b": integers(1, 2)})
    assert Schema(attributes) != schema
    assert schema == Schema({"a": integers(1, 3), "b": integers(1, 2)})
    assert schema != "schema"


def test_a_schema_cannot_be_changed() -> None:
    attributes = {"a": integers(1, 3)}
    schema = Schema(attributes)
    attributes["b"] = integers(1, 2)
    assert schema.names == ("a",)
    assert not isinstance(schema.attributes, MutableMapping)


def test_as_many_cells_as_can_be_numbered() -> None:
    widest = {name: integers(1, MAX_VALUES) for name in "abc"} | {"d": integers(1, 4)}
    schema = Schema(widest)
    assert schema.cells == MAX_CELLS
    assert schema.cell(schema.values(MAX_CELLS - 1)) == MAX_CELLS - 1
    with pytest.raises(SchemaError, match=r"more than 2\^62 cells; at most 2\^62"):
        Schema(widest | {"d": integers(1, 5)})
    with pytest.raises(SchemaError, match=r"more than 2\^1199 cells"):
        Schema({f"a{index}": integers(1, MAX_VALUES) for index in range(60)})


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({}, "at least one attribute"),
        (None, "at least one attribute"),
        ([("a", integers(1, 2))], "given as a dict"),
        ({"": integers(1, 2)}, "printable text"),
        ({'say "a"': integers(1, 2)}, "without quotes"),
        ({"a\nb": integers(1, 2)}, "printable"),
        ({3: integers(1, 2)}, "not 3"),
        ({"a": [1, 2]}, "made by categories"),
        ({"a": integers(1, 2), "A": integers(1, 2)}, "upper and lower case"),
    ],
)
def test_what_cannot_be_is_refused(attributes: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        Schema(attributes)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"origin": "JFK", "month": 1}, "a value for each of origin, month, delay"),
        ({"origin": "JFK", "month": 1, "delay": 0, "x": 0}, "a value for each of"),
        ({"origin": "JFK", "month": 13, "delay": 0}, "attribute 'month': 13 is not among the integers 1 to 12"),
    ],
)
def test_a_cell_needs_values_that_are_there(values: Row, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        FLIGHTS.cell(values)


@pytest.mark.parametrize("cell", [-1, 240])
def test_a_cell_outside_is_refused(cell: int) -> None:
    with pytest.raises(SchemaError, match=r"outside 0\.\.239"):
        FLIGHTS.values(cell)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SchemaError, match="no attribute 'x'; there are origin, month, delay"):
        FLIGHTS.index("x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the first line must be 'treering_schema = 2'"),
        ("treering_schema = 3", "the first line must be"),
        ("treering_schema = true", "the first line must be"),
        ("treering_schema = 2", r"a table \[attributes.NAME\]"),
        ("treering_schema = 2\nattributes = 3", r"a table \[attributes.NAME\]"),
        ("treering_schema = 2\n[attributes]\na = 3", r"a table \[attributes.NAME\]"),
        ("treering_schema = 2\n[attributes]", "at least one attribute"),
        ("treering_schema = 2\nextra = 1\n[attributes.a]\nkind='integers'\nlow=1\nhigh=2", "unknown: extra"),
        ("treering_schema = 2\n[attributes.a]\nkind='integers'\nlow=1\nhigh=0", "attribute 'a': .*low must not"),
        ("treering_schema = ", "cannot read a schema"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=problem):
        Schema.load(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot read a schema"):
        Schema.load(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaError, match="cannot read a schema"):
        Schema.load(tmp_path / "binary.toml")
