"""Vaults whose schema is drafted of their first rows, within their promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import treering as tr
from support.cli import treering
from treering.domain.attribute import Categories
from treering.domain.calendar import Dates
from treering.domain.numeric import Numbers
from treering.errors import DataError, NotAVault, ParameterError, SchemaError, VaultError
from treering.rowfile import RowFile

SIZE = 40_000


def rows(seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    days = np.datetime64("2023-01-01") + random.integers(0, 700, SIZE)
    wards = random.choice(["north", "south", "tele"], SIZE, p=[0.5, 0.3, 0.2]).astype(object)
    wards[7] = "the mayor's"
    return pa.table(
        {
            "order_id": np.arange(SIZE),
            "ward": pa.array(wards, pa.string()),
            "price": np.round(random.lognormal(3, 1, SIZE), 2),
            "balance": np.round(random.normal(0, 500, SIZE), 2),
            "day": pa.array(days.astype("datetime64[D]")),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows()


def written(table: pa.Table, place: Path, kind: str) -> Path:
    path = place / f"visits.{kind}"
    {"csv": csv.write_csv, "parquet": parquet.write_table, "arrow": feather.write_feather}[kind](table, path)
    return path


def made(place: Path, table: pa.Table, kind: str = "parquet", **options: Any) -> tr.Vault:
    given = {"epsilon": 4.0, "delta": 1e-6, "share": 0.2, **options}
    return tr.Vault.create(place / "v", None, draft=written(table, place, kind), **given)


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_a_schema_is_drafted_of_each_kind_of_file(tmp_path: Path, table: pa.Table, kind: str) -> None:
    with made(tmp_path, table, kind) as vault:
        found = vault.schema.attributes
        assert list(found) == ["ward", "price", "balance", "day"]
        ward, price, balance, day = found.values()
        assert isinstance(ward, Categories)
        assert (ward.values, ward.other, ward.missing) == (("north", "south", "tele"), True, True)
        assert isinstance(price, Numbers)
        prices = np.asarray(table["price"])
        assert price.low == 0
        assert np.quantile(prices, 0.99) < price.high <= 4 * prices.max()
        parts, _ = np.histogram(prices, price.edges)
        assert parts.max() < 0.4 * SIZE
        assert isinstance(balance, Numbers)
        assert (balance.low, balance.high) == (-balance.high, balance.high)
        assert isinstance(day, Dates)
        assert (day.first.year, day.last.year >= 2034) == (2023, True)
        assert vault.size == SIZE
        answer = vault.ask("ward = 'tele'")
        assert abs(answer.count - SIZE / 5) < SIZE / 50


def test_a_value_that_one_row_has_is_on_no_record(tmp_path: Path, table: pa.Table) -> None:
    with made(tmp_path, table) as vault:
        assert "mayor" not in str(list(vault.ledger()))


def test_the_rows_of_the_draft_pay_its_share_and_no_others(tmp_path: Path, table: pa.Table) -> None:
    with made(tmp_path, table, "csv") as vault:
        left = [vault.left(each) / vault.total for each in (1, SIZE, SIZE + 1)]
        assert 0.8 <= left[0] == left[1] < 0.9
        assert left[2] == 1
        spent = vault.spent
        assert vault.verify()["spent"] == spent
    with tr.Vault.open(tmp_path / "v") as vault:
        assert (vault.left(1) / vault.total, vault.spent) == (left[0], spent)
        vault.append(rows(2))
        assert vault.left(SIZE + 1) == vault.total
        vault.verify()


def test_a_draft_takes_no_more_than_half_of_what_is_set_aside(tmp_path: Path, table: pa.Table) -> None:
    with made(tmp_path, table) as vault:
        for _ in range(8):  # One text of four columns took an eighth of it.
            vault.discover("ward", 0.02)
        with pytest.raises(ParameterError, match="what these rows have left"):
            vault.discover("ward", 0.02)


def test_what_is_released_is_on_record_before_the_rows(tmp_path: Path, table: pa.Table) -> None:
    with made(tmp_path, table) as vault:
        kinds = [line["kind"] for line in vault.ledger()]
    assert kinds[:2] == ["created", "mechanism"]
    assert set(kinds[2 : kinds.index("rows")]) == {"Combined", "Discovered"}


def test_too_few_rows_are_refused_and_nothing_is_made(tmp_path: Path, table: pa.Table) -> None:
    with pytest.raises(SchemaError, match="too few rows"):
        made(tmp_path, table.slice(100, 10).select(["ward"]))
    with pytest.raises(NotAVault):
        tr.Vault.open(tmp_path / "v")
    assert [each.name for each in tmp_path.iterdir()] == ["visits.parquet"]


def test_what_a_crash_has_left_is_no_vault_and_in_nobodys_way(tmp_path: Path, table: pa.Table) -> None:
    (tmp_path / "v.drafting").mkdir()
    (tmp_path / "v.drafting" / "ledger.sqlite").write_bytes(b"half")
    with made(tmp_path, table) as vault:
        assert vault.size == SIZE
    assert not (tmp_path / "v.drafting").exists()


def test_rejects_path_of_another_vault(tmp_path: Path, table: pa.Table) -> None:
    made(tmp_path, table).close()
    with pytest.raises(VaultError, match="exists already"):
        made(tmp_path, table)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"delta": 0.0}, "aside"),
        ({"rows_per_person": 2}, "aside"),
        ({"share": 1.5}, "share"),
        ({"share": 0.0}, "share"),
        ({"epsilon": None}, "epsilon"),
        ({"mechanism": "pmwg"}, "draft"),
        ({"alpha": 0.1}, "draft"),
        ({"person": "order_id"}, "draft"),
    ],
)
def test_rejects_options_that_a_draft_cannot_have(
    tmp_path: Path, table: pa.Table, options: dict[str, Any], name: str
) -> None:
    with pytest.raises(ParameterError, match=name):
        made(tmp_path, table, **options)
    assert not (tmp_path / "v").exists()


def test_rejects_schema_beside_a_draft_and_neither(tmp_path: Path, table: pa.Table) -> None:
    schema = tr.Schema({"ward": tr.categories("north")})
    with pytest.raises(ParameterError, match="schema"):
        tr.Vault.create(tmp_path / "v", schema, 1.0, 1e-6, draft=written(table, tmp_path, "csv"))
    with pytest.raises(ParameterError, match="schema"):
        tr.Vault.create(tmp_path / "v", None, 1.0, 1e-6)


def test_rejects_draft_of_what_is_no_file_of_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"secret")
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    for name in ("rows.parquet", "rows.jsonl", "nowhere.csv"):
        with pytest.raises(DataError) as caught:
            tr.Vault.create(tmp_path / "v", None, 1.0, 1e-6, draft=RowFile(tmp_path / name))
        assert "secret" not in str(caught.value)


def test_the_command_makes_a_vault_of_a_private_file(tmp_path: Path, table: pa.Table) -> None:
    path = written(table, tmp_path, "csv")
    promise = ("--epsilon", 4, "--delta", 1e-6, "--share", "20%")
    done = treering("create", tmp_path / "v", "--infer", path, "--private", *promise, "--json").json
    assert done["size"] == SIZE
    assert done["schema"]["attributes"]["ward"]["values"] == ["north", "south", "tele"]
    assert treering("create", tmp_path / "w", "--infer", path, "--private").code == 2
