"""Rings over a universe of 2^62 cells: only the groups that are asked about are counted, wherever the rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import treering as tr

NAMES: Final = [f"a{number}" for number in range(31)]
SCHEMA: Final = tr.Schema({name: tr.integers(0, 3) for name in NAMES})
ROWS: Final = 4000
QUESTION: Final = "a0 = 1 AND a15 >= 2 AND a30 < 2"


def rows(seed: int) -> pa.Table:
    drawn = np.random.default_rng(seed).integers(0, 4, (len(NAMES), ROWS))
    return pa.table({"id": np.arange(ROWS) + seed * ROWS, **dict(zip(NAMES, drawn, strict=True))})


def frame(seed: int) -> pa.Table:
    return rows(seed).drop_columns("id")


def truth(*tables: pa.Table) -> int:
    joined = {name: pa.concat_tables(tables)[name].to_numpy() for name in ("a0", "a15", "a30")}
    return int(((joined["a0"] == 1) & (joined["a15"] >= 2) & (joined["a30"] < 2)).sum())


def check(mechanism: Any, *tables: pa.Table) -> None:
    answer = mechanism.ask(QUESTION)
    assert answer.size == ROWS * len(tables)
    assert abs(answer.count - truth(*tables)) <= answer.count_error < answer.size / 4


def test_there_are_as_many_cells_as_there_can_be() -> None:
    assert SCHEMA.cells == 2**62


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_in_memory(delta: float) -> None:
    db = tr.GrowingDatabase(SCHEMA)
    mechanism = tr.Rings(db, 4.0, delta, 1e-9)
    for seed in range(3):
        db.append(frame(seed))
        check(mechanism, *(rows(each) for each in range(seed + 1)))
    assert [each.groups for each in mechanism.series] == [4 * 3 * 3]
    assert mechanism.table(["a3", "a4"]).num_rows == 16


def test_in_a_vault(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "vault", SCHEMA, 4.0, 1e-9, beta=1e-9) as vault:
        vault.append(frame(0))
        check(vault, rows(0))
    with tr.Vault.open(tmp_path / "vault") as vault:
        vault.append(frame(1))
        check(vault, rows(0), rows(1))
    tr.Vault.read(tmp_path / "vault").verify()


def test_over_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def insert(statement: str, seed: int) -> None:
        with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
            connection.register("given", rows(seed))
            connection.execute(statement)

    insert("create table flights as select * from given", 0)
    address = f"duckdb://{tmp_path}/rows.duckdb#flights"
    with tr.Vault.create(tmp_path / "vault", SCHEMA, 4.0, 1e-9, beta=1e-9, table=address) as vault:
        vault.refresh()
        check(vault, rows(0))
    insert("insert into flights select * from given", 1)
    with tr.Vault.open(tmp_path / "vault") as vault:
        vault.refresh()
        check(vault, rows(0), rows(1))


@pytest.mark.parametrize(
    "options", [{"mechanism": "pmwg"}, {"mechanism": "continual"}, {"mechanism": "scheduler"}, {"alpha": 0.05}]
)
def test_only_what_keeps_a_histogram_refuses_so_many_cells(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(tr.TreeringError, match=r"4,611,686,018,427,387,904.* or Rings, which count"):
        tr.Vault.create(tmp_path / "vault", SCHEMA, 4.0, 1e-9, **options)
    assert not (tmp_path / "vault").exists()
    answers: dict[str, Any] = {"box": "answers", "queries": ["a0 = 1"]}
    tr.Vault.create(tmp_path / "vault", SCHEMA, 4.0, 1e-9, None, 0.05, "scheduler", **answers).close()
