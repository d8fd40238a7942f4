"""The folder of a vault, file by file: what is refused, what is removed, and what a failed write leaves."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

import treering as tr
from treering.trusted.ledger import folder as folders
from treering.trusted.ledger.disk import Stage
from treering.trusted.ledger.folder import Folder, WriterLock
from treering.trusted.ledger.named import part_name

STEPS = (Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "vault")
    made.create()
    made.ledger.touch(mode=0o600)
    return made


def names(place: Path) -> set[str]:
    return {each.name for each in place.iterdir()}


def free_descriptor(place: Path) -> int:
    descriptor = os.open(place, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


# -- who may look ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0o040, 0o020, 0o010, 0o004, 0o002, 0o001])
def test_what_others_may_look_at_is_refused(folder: Folder, bits: int) -> None:
    for place, right in ((folder.path, 0o700), (folder.ledger, 0o600), (folder.parts, 0o700)):
        folder.check()
        place.chmod(right | bits)
        with pytest.raises(tr.VaultError, match=f"others can read {place}, .*: run chmod {right:o} {place}$"):
            folder.check()
        place.chmod(right)
    folder.checkpoints.chmod(0o777)  # These are public.
    folder.check()


def test_a_ledger_that_is_lost_is_damage_where_there_are_rows(folder: Folder) -> None:
    folder.ledger.unlink()
    with pytest.raises(tr.NotAVault, match="it has no ledger.sqlite, or no parts"):
        folder.check()
    (folder.parts / part_name(1)).touch()
    with pytest.raises(tr.DamagedVault, match="its ledger.sqlite is missing; restore a backup"):
        folder.check()
    (folder.parts / part_name(1)).unlink()
    with pytest.raises(tr.NotAVault, match="it has no ledger.sqlite, or no parts"):
        folder.check()


def test_a_ledger_without_lines_is_damage_where_there_are_rows(folder: Folder) -> None:
    assert isinstance(folder.unfinished(), tr.NotAVault)
    assert "the vault was never finished" in str(folder.unfinished())
    (folder.parts / part_name(1)).touch()
    assert isinstance(folder.unfinished(), tr.DamagedVault)
    assert "it is empty, and there are rows beside it" in str(folder.unfinished())


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    Folder(tmp_path / "a" / "b").create()
    assert names(tmp_path / "a" / "b") == {"parts", "spills", "checkpoints"}
    (tmp_path / "file").touch()
    with pytest.raises(tr.VaultError, match="cannot create a vault at .*: Not a directory"):
        Folder(tmp_path / "file" / "vault").create()


# -- what a crash leaves -----------------------------------------------------------------------------------------------


def test_names_that_are_no_names_of_parts_are_removed(folder: Folder) -> None:
    strange = {"x", "abc.parquet", "1-persons.parquet", f"{part_name(1)}.new", "-", "00000001.txt", "9"}
    for name in {part_name(1)} | strange:
        (folder.parts / name).touch()
    folder.clean([part_name(1)], 1, [])
    assert names(folder.parts) == {part_name(1)}


@pytest.mark.parametrize("last", [0, 1, 2])
def test_the_part_after_the_last_is_removed_and_later_ones_are_damage(folder: Folder, last: int) -> None:
    kept = {part_name(number) for number in range(1, last + 1)}
    for name in {*kept, part_name(last + 1)}:
        (folder.parts / name).touch()
    folder.clean(kept, last, [])
    assert names(folder.parts) == kept
    (folder.parts / part_name(last + 2)).touch()
    with pytest.raises(tr.DamagedVault, match="there are parts of rows that the ledger does not know"):
        folder.clean(kept, last, [])


def test_the_first_part_that_is_missing_is_named(folder: Folder) -> None:
    (folder.parts / part_name(2)).touch()
    with pytest.raises(tr.DamagedVault, match=f"part {part_name(1)} is missing, or not what was written"):
        folder.clean([part_name(number) for number in range(1, 5)], 4, [])


# -- the lock ----------------------------------------------------------------------------------------------------------


def test_a_lock_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "nowhere" / "lock")
    with pytest.raises(tr.VaultError, match="cannot open the vault for writing: No such file or directory; looking at"):
        lock.take(0)
    assert not lock.held
    lock.release()


def test_a_forked_child_closes_its_locks_and_leaves_ours_locked(tmp_path: Path) -> None:
    """The child's copy of the open file holds the same lock: to unlock it there would unlock it here."""
    lock, other = WriterLock(tmp_path / "lock"), WriterLock(tmp_path / "lock")
    lock.take(0)
    assert lock._file is not None
    shared = os.dup(lock._file.fileno())
    try:
        folders._forget()
        assert not lock.held
        lock.forget()
        with pytest.raises(tr.VaultBusy, match=f"number {os.getpid()}"):
            other.take(0)
        other.release()
        fcntl.flock(shared, fcntl.LOCK_UN)
        other.take(0)
        assert other.held
        other.release()
    finally:
        os.close(shared)


def test_a_lock_whose_holder_left_no_number(tmp_path: Path) -> None:
    lock, other = WriterLock(tmp_path / "lock"), WriterLock(tmp_path / "lock")
    lock.take(0)
    for text, said in ((b"", "unknown"), (b" 12 \n", "12"), (b"\xff", "\N{REPLACEMENT CHARACTER}")):
        (tmp_path / "lock").write_bytes(text)
        with pytest.raises(tr.VaultBusy, match=rf"another process \(number {said}\) has the vault open"):
            other.take(0)
        other.release()
    lock.release()
