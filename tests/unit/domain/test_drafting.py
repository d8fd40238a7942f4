"""Drafts by looking: edges by quantiles, ids left out, and a first line that says what a draft is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import treering as tr
from treering.domain.drafting import NOTE, infer
from treering.domain.numeric import Numbers
from treering.errors import DataError

PRICES = np.sort(np.round(np.random.default_rng(3).lognormal(3, 1, 5000), 2))


def test_edges_cut_the_rows_into_about_equal_parts() -> None:
    found = infer(pa.table({"price": PRICES})).schema.attributes["price"]
    assert isinstance(found, Numbers)
    parts, _ = np.histogram(PRICES, found.edges)
    assert len(parts) == 8
    assert parts.min() > 0.5 * len(PRICES) / 8
    assert parts.max() < 1.6 * len(PRICES) / 8
    assert found.step == 0.01


@pytest.mark.parametrize("name", ["id", "order_id", "OrderId", "customer number", "uuid"])
def test_ids_are_left_out(name: str) -> None:
    for column in ([f"p{row}" for row in range(60)], list(range(60))):
        draft = infer(pa.table({name: column, "age": [30, 40] * 30}))
        assert draft.left_out == {name: "it tells rows apart: nearly every row has a value of its own"}


def test_what_is_called_as_ids_are_and_recurs_stays() -> None:
    assert infer(pa.table({"ward_id": [1, 2, 3] * 20})).schema.names == ("ward_id",)
    assert infer(pa.table({"humid": list(range(60))})).schema.names == ("humid",)


def test_few_values_have_edges_of_equal_width() -> None:
    found = infer(pa.table({"price": [80, 2586, 1400]})).schema.attributes["price"]
    assert isinstance(found, Numbers)
    assert found.edges == tuple(range(0, 3001, 500))


def test_a_schema_is_drafted_from_a_file(tmp_path: Path) -> None:
    csv.write_csv(pa.table({"ward": ["north", "south"] * 50, "cost": np.arange(100) * 7.5}), tmp_path / "visits.csv")
    schema = tr.Schema.draft(tmp_path / "visits.csv")
    assert schema.names == ("ward", "cost")
    assert schema.attributes["ward"] == tr.categories("north", "south", other=True)


def test_the_first_line_of_a_draft_says_what_it_is(tmp_path: Path) -> None:
    schema = infer(pa.table({"ward": ["north", "south"]})).schema
    schema.save(tmp_path / "draft.toml", NOTE)
    text = (tmp_path / "draft.toml").read_text()
    assert text.splitlines()[0] == f"# {NOTE}"
    assert tr.Schema.load(tmp_path / "draft.toml") == schema
    assert tomllib.loads(text) == schema.to_dict()


def test_rejects_path_of_what_is_no_file_of_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"secret")
    with pytest.raises(DataError, match="cannot be read") as caught:
        tr.Schema.draft(tmp_path / "rows.parquet")
    assert "secret" not in str(caught.value)
