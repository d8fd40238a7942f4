"""The rows of a store: taken in, sealed, merged and found again, each at its place; and what is refused."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treering as tr
from support.parts import (
    LARGE,
    SEALED,
    cells,
    expected,
    flip,
    in_order,
    lived,
    make_often,
    part_lines,
    rows_of,
    secrets,
)
from support.vaults import SCHEMA, crash, frame
from treering.trusted.ledger.lines import Line
from treering.trusted.ledger.named import Batch
from treering.trusted.rows import parts
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.parts import Parts, cut
from treering.trusted.rows.spool import Spool
from treering.vault.vault import Vault

APPENDS = 40


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    make_often(monkeypatch)


def given(appends: int) -> pa.Table:
    """The rows of a vault that has lived so long, in order."""
    return pa.concat_tables([rows_of(number) for number in range(appends)])


def same(vault: Vault, rows: pa.Table) -> bool:
    """Whether a vault has these rows, each at its position."""
    kept = in_order(vault)
    return [column.to_pylist() for column in kept.columns] == [column.to_pylist() for column in rows.columns]


def test_every_row_keeps_its_position_however_parts_are_sealed_and_merged(tmp_path: Path) -> None:
    vault = lived(tmp_path / "vault", APPENDS)
    lines = part_lines(vault)
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    assert len(vault._store._record.parts) < len(lines) / 2
    for _ in range(2):
        assert same(vault, given(APPENDS))
        assert (cells(vault) == expected(APPENDS)).all()
        assert {file.name for file in (tmp_path / "vault" / "parts").iterdir()} == vault._store._record.parts.names
        assert secrets(vault, "part") == {part.secret for part in vault._store._record.parts}
        assert secrets(vault, "rows") == {f"rows {number}" for number in range(1, APPENDS + 1)}
        assert vault.verify()["batches"] == APPENDS
        crash(vault)
        vault = Vault.open(tmp_path / "vault")
    vault.append(rows_of(APPENDS))
    assert same(vault, given(APPENDS + 1))
    vault.close()


def test_many_small_appends_are_sealed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "TAIL_BATCHES", 1024)
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        row = [{"origin": "JFK", "month": 1, "late": "no"}]
        for _ in range(1100):
            vault.append(row)
        assert part_lines(vault) == [{"number": 1, "first": 0, "rows": 1024}]
        assert len(list(vault._store._ledger.tail())) == 1100 - 1024
        assert vault.verify()["size"] == 1100
    with Vault.open(tmp_path / "vault") as vault:
        assert (vault.size, in_order(vault).num_rows) == (1100, 1100)


def test_a_tail_of_many_rows_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "TAIL_ROWS", 100)
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        vault.append(frame(99))
        assert part_lines(vault) == []
        vault.append(frame(1))
        assert part_lines(vault) == [{"number": 1, "first": 0, "rows": 100}]


def test_a_large_batch_is_a_part_and_the_tail_before_it_another(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        vault.append(frame(LARGE - 1))
        assert part_lines(vault) == []
        vault.append(frame(LARGE, 2))
        assert part_lines(vault) == [
            {"number": 1, "first": 0, "rows": LARGE - 1},
            {"number": 2, "first": LARGE - 1, "rows": LARGE},
        ]
        assert list(vault._store._ledger.tail()) == []
        assert same(vault, pa.concat_tables([frame(LARGE - 1), frame(LARGE, 2)]))


def test_lines_say_what_is_public_and_nothing_else(tmp_path: Path) -> None:
    """Other rows of the same number: the same lines, but for salted commitments."""
    said = []
    for seed in (0, 100):
        with Vault.create(tmp_path / str(seed), SCHEMA, 1.0, mechanism=None) as vault:
            for number in range(30):
                vault.append(frame(3 + 50 * (number % 5), seed=seed + number * (seed > 0)))
            said.append([(line["kind"], line["body"]) for line in vault.ledger()][1:])
    assert said[0] == said[1]


def test_a_batch_without_rows_is_on_record_and_nowhere_else(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        for key in "abcdef":
            vault.append([], key=key)
        vault.append(frame(2))
        assert [number for number, _ in vault._store._ledger.tail()] == [7]
        assert (vault.verify()["batches"], part_lines(vault)) == (7, [])
    with Vault.open(tmp_path / "vault") as vault:
        assert vault.append([], key="a") == 0
        for number in range(SEALED):
            vault.append(frame(2, number))
        assert vault.verify()["size"] == vault.size == 2 + 2 * SEALED


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault with several parts and a tail, closed."""
    make_often(monkeypatch, merged=20)
    with lived(tmp_path / "vault", 14) as vault:
        assert len(vault._store._record.parts) > 1
        assert list(vault._store._ledger.tail())
    return tmp_path / "vault"


def refused(place: Path, match: str, *, opens: bool = False) -> None:
    if opens:
        Vault.open(place).close()
    else:
        with pytest.raises(tr.DamagedVault, match=match):
            Vault.open(place)
    with pytest.raises(tr.DamagedVault, match=match):
        Vault.read(place).verify()


def test_a_part_that_is_not_what_was_written(place: Path, tmp_path: Path) -> None:
    first, second, *_ = sorted((place / "parts").iterdir())
    whole, other = first.read_bytes(), second.read_bytes()
    says = f"part {first.name} is missing, or not what was written; restore a backup"
    flip(first, 0.2)
    refused(place, says, opens=True)
    for wrong in (whole[:-1], whole[: len(whole) // 2], other, b"", b"no Parquet", whole + whole):
        first.write_bytes(wrong)
        refused(place, says)
    first.unlink()
    refused(place, says)
    with lived(tmp_path / "another", 14):
        pass
    shutil.copy(tmp_path / "another" / "parts" / first.name, first)  # the same rows in another vault
    refused(place, says)
    first.write_bytes(other)
    second.write_bytes(whole)
    refused(place, says)


def test_a_part_of_other_columns_or_rows_is_refused_even_with_the_right_identity(place: Path) -> None:
    file = min((place / "parts").iterdir())
    table = pq.read_table(file)
    for wrong in (table.slice(1), table.drop_columns(table.column_names[:1])):
        pq.write_table(wrong, file)
        refused(place, f"part {file.name} is missing, or not what was written")


def test_rows_of_a_sealed_batch_that_were_changed_before_they_were_sealed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is what was written, and its rows are not: the lines of batches bind rows, wherever they lie."""
    seal = Parts._replace

    def mixed(own: Parts, first: int, rows: int, tables: Any, *rest: Any) -> None:
        seal(own, first, rows, list(tables)[::-1], *rest)

    monkeypatch.setattr(Parts, "_replace", mixed)
    lived(tmp_path / "vault", SEALED).close()
    refused(tmp_path / "vault", "batch 1 has other rows than were written", opens=True)


# -- twins of a fault in public code: rows counted twice, a size miscounted --------------------------------------------


def test_rows_that_are_appended_twice_in_memory_are_found_in_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Parts.count

    def twice(own: Parts, batch: Batch, spool: Spool) -> None:
        count(own, batch, spool)
        own._rows.add(spool.table)

    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        vault.append(frame(10))
        vault.verify()
        with monkeypatch.context() as patch:
            patch.setattr(Parts, "count", twice)
            vault.append(frame(10, 2))
        with pytest.raises(tr.DamagedVault, match="there are other rows in memory than on record"):
            vault.verify()
        with pytest.raises(tr.VaultError, match="there are other rows in memory than on record"):
            vault.append(frame(10, 3))


def test_a_size_that_is_miscounted_is_found_in_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Batch.line

    def larger(own: Batch, key: str) -> Line:
        return line(Batch(own.number, own.rows, own.size + 1, own.dropped, own.commitment), key)

    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        monkeypatch.setattr(Batch, "line", larger)
        vault.append(frame(10))
        with pytest.raises(tr.DamagedVault, match="batch 1 on record does not go on where the one before ended"):
            vault.verify()


def test_a_batch_on_record_that_says_more_rows_than_there_are_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Batch.line

    def more(own: Batch, key: str) -> Line:
        return line(Batch(own.number, 2 * own.rows, own.size + own.rows, own.dropped, own.commitment), key)

    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        monkeypatch.setattr(Batch, "line", more)
        vault.append(frame(10))
        with pytest.raises(tr.DamagedVault, match="batch 1 in the ledger is missing, or not what was written"):
            vault.verify()


# -- cutting rows into batches -----------------------------------------------------------------------------------------


def batches(*rows: int) -> list[Batch]:
    sizes = np.cumsum(rows).tolist()
    return [Batch(number, each, size, 0, "x") for number, (each, size) in enumerate(zip(rows, sizes, strict=True), 1)]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_rows_are_cut_where_batches_end(step: int) -> None:
    table = pa.table({"a": pa.array(range(12))})
    tables = [table.slice(start, step) for start in range(0, 12, step)]
    found: dict[int, list[int]] = {}
    ends = []
    for batch, piece, last in cut(tables, batches(3, 0, 5, 4)):
        found.setdefault(batch.number, []).extend(piece.column(0).to_pylist())
        ends += [batch.number] if last else []
    assert found == {1: [0, 1, 2], 3: [3, 4, 5, 6, 7], 4: [8, 9, 10, 11]}
    assert ends == [1, 3, 4]
    for more, match in (((3, 5), "other rows in parts"), ((3, 5, 5), "fewer rows in parts")):
        with pytest.raises(tr.DamagedVault, match=match):
            list(cut(tables, batches(*more)))


def test_a_store_without_rows_takes_nothing_up(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        assert isinstance(vault._store._rows, Rows)
        assert (vault.size, vault.verify()["parts"]) == (0, 0)


def test_a_child_that_is_forked_lets_go_of_a_vault_that_has_counted(tmp_path: Path) -> None:
    """DuckDB's threads are not in the child: to end them there would wait for ever, or crash."""
    with Vault.create(tmp_path / "vault", SCHEMA, 1000.0, 1e-6) as vault:
        vault.append(frame(LARGE * 500))
        answer = vault.ask("late = 'yes'")
        assert vault._store._engine._engine is not None
        child = os.fork()
        if child == 0:
            try:
                inner: Any = vault
                del inner._members, inner._questions, inner._store
                gc.collect()
                os._exit(7)
            finally:
                os._exit(3)
        deadline = time.monotonic() + 30
        ended, status = 0, 0
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert (bool(ended), os.waitstatus_to_exitcode(status)) == (True, 7)
        assert vault.ask("late = 'yes'") == answer
        vault.ask("month <= 6")
