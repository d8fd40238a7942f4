"""A vault whose rows stay in their engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import ibis
import pytest

import treering as tr

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})


@pytest.fixture(autouse=True)
def own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The address of a table of flights, with the numbers 1 to 30,000."""
    file = tmp_path / "rows.duckdb"
    _insert(file, 0, 30_000, create=True)
    return f"duckdb://{file}#flights"


def _insert(file: Path, start: int, stop: int, *, create: bool = False) -> None:
    with duckdb.connect(str(file)) as connection:
        if create:
            connection.execute("create table flights (id bigint, late varchar, month int)")
        connection.execute(
            "insert into flights select i + 1, case when i % 4 = 0 then 'yes' else 'no' end, i % 12 + 1 "
            f"from range({start}, {stop}) r(i)"
        )


def _vault(place: Path, table: str) -> tr.Vault:
    return tr.Vault.create(place, SCHEMA, epsilon=10.0, beta=1e-9, mechanism="continual", table=table, order="id")


def test_rows_stay_in_their_engine_and_the_vault_keeps_how_many_they_are(tmp_path: Path, table: str) -> None:
    with _vault(tmp_path / "vault", table) as vault:
        assert vault.size == 0
        assert vault.refresh() == 30_000
        assert vault.refresh() == 30_000
        answer = vault.ask("late = 'yes'")
        assert abs(answer.value - 0.25) <= answer.error < 0.05
    _insert(tmp_path / "rows.duckdb", 30_000, 36_000)
    with tr.Vault.open(tmp_path / "vault") as vault:
        assert vault.size == 30_000
        assert vault.refresh() == 36_000
        assert vault.status()["batches"] == 2
        assert abs(vault.ask("month = 3").value - 1 / 12) < 0.01
        vault.verify()


def test_a_vault_answers_while_its_engine_is_away(tmp_path: Path, table: str) -> None:
    with _vault(tmp_path / "vault", table) as vault:
        vault.refresh()
        vault.ask("late = 'yes'")
    (tmp_path / "rows.duckdb").rename(tmp_path / "away.duckdb")
    with tr.Vault.open(tmp_path / "vault") as vault:
        assert abs(vault.ask("late = 'yes'").value - 0.25) < 0.05
        with pytest.raises(tr.EngineError):
            vault.refresh()
        assert vault.size == 30_000
        (tmp_path / "away.duckdb").rename(tmp_path / "rows.duckdb")
        _insert(tmp_path / "rows.duckdb", 30_000, 31_000)
        assert vault.refresh() == 31_000


def test_a_table_without_an_address_is_needed_again_only_to_be_read(tmp_path: Path) -> None:
    connection = ibis.duckdb.connect()
    connection.raw_sql("create table flights as select i as id, 'no' as late, 1 as month from range(100) r(i)")
    table = connection.table("flights")
    with tr.Vault.create(tmp_path / "vault", SCHEMA, epsilon=10.0, mechanism="continual", table=table) as vault:
        vault.refresh()
        vault.ask("late = 'no'")
    with tr.Vault.open(tmp_path / "vault") as vault:
        assert vault.ask("late = 'no'").size == 100
        with pytest.raises(tr.VaultError, match="table="):
            vault.refresh()
    with tr.Vault.open(tmp_path / "vault", table=table) as vault:
        assert vault.refresh() == 100


def test_rows_are_refused_at_the_other_door(tmp_path: Path, table: str) -> None:
    with _vault(tmp_path / "vault", table) as vault, pytest.raises(tr.VaultError, match="refresh"):
        vault.append([{"late": "no", "month": 1}])
    with (
        tr.Vault.create(tmp_path / "other", SCHEMA, epsilon=1.0) as vault,
        pytest.raises(tr.VaultError, match="append"),
    ):
        vault.refresh()


def test_a_table_that_changed_is_refused_and_nothing_is_taken_in(tmp_path: Path, table: str) -> None:
    with _vault(tmp_path / "vault", table) as vault:
        vault.refresh()
        _insert(tmp_path / "rows.duckdb", 30_000, 31_000)
        with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
            connection.execute("delete from flights where id = 7")
        entries = vault.status()["entries"]
        with pytest.raises(tr.EngineError):
            vault.refresh()
        assert (vault.size, vault.status()["entries"]) == (30_000, entries)


def test_a_second_vault_on_the_table_is_refused(tmp_path: Path, table: str) -> None:
    _vault(tmp_path / "first", table).close()
    with pytest.raises(tr.VaultError, match="two promises"):
        _vault(tmp_path / "second", table)
    assert not (tmp_path / "second").exists() or not any((tmp_path / "second").iterdir())
    shutil.rmtree(tmp_path / "first")
    _vault(tmp_path / "third", table).close()


def test_another_table_is_refused_when_the_vault_is_opened(tmp_path: Path, table: str) -> None:
    _vault(tmp_path / "vault", table).close()
    _insert(tmp_path / "others.duckdb", 0, 10, create=True)
    with pytest.raises(tr.VaultError, match="another table"):
        tr.Vault.open(tmp_path / "vault", table=f"duckdb://{tmp_path / 'others.duckdb'}#flights")
