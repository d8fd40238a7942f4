"""What is on disk when a call returns, and in which order it got there: what a crash of the machine would find.

Killing a process shows none of this, because the operating system keeps what was written and not synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.vaults import frame, guarded
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.disk import Stage, observe, write_file
from treering.trusted.ledger.lines import Line, SecretValue, body

STEPS = (Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The number and the size of each file that is synced, by Python: SQLite syncs its own."""
    found: list[tuple[int, int]] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        state = os.fstat(descriptor)
        found.append((state.st_ino, state.st_size))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return found


def number(path: Path) -> int:
    return path.stat().st_ino


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    seen: list[tuple[Stage, list[str], int]] = []
    observe(lambda stage: seen.append((stage, [each.name for each in tmp_path.iterdir()], len(synced))))
    try:
        write_file(tmp_path / "part", b"rows" * 1000, STEPS)
    finally:
        observe(None)
    assert seen == [
        (STEPS[0], ["part.new"], 0),
        (STEPS[1], ["part.new"], 0),
        (STEPS[2], ["part.new"], 1),
        (STEPS[3], ["part"], 2),
    ]
    (file, size), (folder, _) = synced
    assert (file, size, folder) == (number(tmp_path / "part"), 4000, number(tmp_path))


def test_a_new_vault_and_a_backup_are_on_disk_with_their_names(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    """A folder without its name is as good as none."""
    with guarded(tmp_path / "vault", rows=0) as vault:
        assert [each for each, _ in synced] == [number(tmp_path / "vault"), number(tmp_path)]
        vault.append(frame(2**15))
        synced.clear()
        vault.backup(tmp_path / "backup")
    (part,) = (tmp_path / "backup" / "parts").iterdir()
    places = [tmp_path / "backup", tmp_path / "backup" / "parts", part]
    assert {number(each) for each in places} <= {each for each, _ in synced}
    assert number(tmp_path / "backup") == synced[-1][0]
    assert (number(part), part.stat().st_size) in synced


@pytest.mark.parametrize("opened", [ledgers.create, ledgers.open_writer])
def test_a_commit_is_durable_and_what_is_deleted_is_overwritten(
    tmp_path: Path, opened: Callable[[Path], ledgers.Ledger]
) -> None:
    if opened is ledgers.open_writer:
        ledgers.create(tmp_path / "ledger.sqlite").close()
    ledger = opened(tmp_path / "ledger.sqlite")
    asked = {
        name: ledger._connection.execute(f"pragma {name}").fetchall()[0][0]
        for name in ("synchronous", "secure_delete", "journal_mode", "busy_timeout")
    }
    ledger.close()
    # 2 is "full": every commit is synced, and not only now and then. Readers wait for a writer some seconds.
    assert asked == {"synchronous": 2, "secure_delete": 1, "journal_mode": "wal", "busy_timeout": 5000}


def test_a_secret_that_is_dropped_leaves_no_trace(tmp_path: Path) -> None:
    path, value = tmp_path / "ledger.sqlite", "a number that nobody may know" * 3

    def on_disk() -> bool:
        return any(value.encode() in each.read_bytes() for each in tmp_path.iterdir())

    ledger = ledgers.create(path)
    ledger.write(Line("rows", body(size=1)), put=SecretValue("noise", bytes(32), value))
    ledger.close()
    assert on_disk()
    ledger = ledgers.open_writer(path)
    ledger.read()
    ledger.write(Line("rows", body(size=2)), drop=("noise",))
    assert list(ledger.secrets()) == []
    ledger.close()
    assert not on_disk()


def test_a_secret_that_is_dropped_in_its_own_transaction_is_never_on_disk(tmp_path: Path) -> None:
    ledger = ledgers.create(tmp_path / "ledger.sqlite")
    with ledger.transaction():
        ledger.write(Line("rows", body(size=1)), put=SecretValue("noise", bytes(32), "never on disk"))
        ledger.write(Line("rows", body(size=2)), drop=("noise",))
    assert not any(b"never on disk" in each.read_bytes() for each in tmp_path.iterdir())
    ledger.close()
    assert not any(b"never on disk" in each.read_bytes() for each in tmp_path.iterdir())
    again = ledgers.open_writer(tmp_path / "ledger.sqlite")
    with pytest.raises(KeyError, match="noise"):
        _ = again.secrets()["noise"]
    again.close()
