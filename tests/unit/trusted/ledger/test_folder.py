"""The folder of a vault: nobody else sees into it at any moment, what is no vault is named, and the lock is prompt."""

from __future__ import annotations

import gc
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import treering as tr
from treering.trusted.ledger import folder as folders
from treering.trusted.ledger.disk import Stage, sync_folder, write_file
from treering.trusted.ledger.folder import Folder, WriterLock
from treering.trusted.ledger.named import part_name

STEPS = (Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED)


@pytest.fixture
def open_handed() -> Iterator[None]:
    """The umask of somebody who shares everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def taken(path: Path, wait: float) -> WriterLock:
    """A writer's lock that was taken."""
    lock = WriterLock(path)
    try:
        lock.take(wait)
    except BaseException:
        lock.release()
        raise
    return lock


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- who may look ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("open_handed")
def test_a_folder_is_private_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}
    chmod = Path.chmod

    def noting(path: Path, wanted: int) -> None:
        seen[path.name] = mode(path)
        chmod(path, wanted)

    monkeypatch.setattr(Path, "chmod", noting)
    Folder(tmp_path / "vault").create()
    assert seen == dict.fromkeys(("vault", "parts", "spills", "checkpoints"), 0o700)


def test_a_folder_that_was_there_becomes_private(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    place.mkdir()
    place.chmod(0o755)
    Folder(place).create()
    assert [mode(each) for each in (place, *place.iterdir())] == [0o700] * 4
    for taken in (place, Path(__file__)):
        with pytest.raises(tr.VaultError, match="exists already"):
            Folder(taken).create()


@pytest.mark.usefixtures("open_handed")
def test_folders_that_were_deleted_come_back_private(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "vault")
    folder.create()
    for each in (folder.spills, folder.checkpoints):
        each.rmdir()
    folder.clean([], 0, [])
    assert [mode(each) for each in (folder.spills, folder.checkpoints)] == [0o700] * 2


@pytest.mark.usefixtures("open_handed")
def test_files_are_private(tmp_path: Path) -> None:
    write_file(tmp_path / "part", b"rows", STEPS)
    taken(tmp_path / "lock", 0).release()
    assert {each.name: mode(each) for each in tmp_path.iterdir()} == {"part": 0o600, "lock": 0o600}
    assert (tmp_path / "part").read_bytes() == b"rows"


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """The lowest free descriptor is the same afterwards."""

    def free() -> int:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = free()
    for number in range(3):
        write_file(tmp_path / f"part{number}", b"rows", STEPS)
        sync_folder(tmp_path)
    assert free() == before
    (tmp_path / "folder").mkdir()
    with pytest.raises(tr.VaultError, match="cannot write to the vault: Is a directory; nothing was taken in"):
        write_file(tmp_path / "folder", b"rows", STEPS)
    lock, other = taken(tmp_path / "lock", 0), WriterLock(tmp_path / "lock")
    held = free()
    with pytest.raises(tr.VaultBusy):
        other.take(0)
    other.release()
    assert free() == held
    lock.release()
    lock.release()
    assert free() == before


# -- what is no vault --------------------------------------------------------------------------------------------------


def test_what_is_no_vault_is_told_what_it_lacks(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "vault")
    with pytest.raises(tr.NotAVault, match="there is no such folder"):
        folder.check()
    folder.path.write_text("a file")
    with pytest.raises(tr.NotAVault, match="there is no such folder"):
        folder.check()
    folder.path.unlink()
    folder.create()
    with pytest.raises(tr.NotAVault, match="it has no ledger.sqlite, or no parts"):
        folder.check()
    folder.ledger.touch(mode=0o600)
    folder.check()
    folder.parts.rmdir()
    with pytest.raises(tr.NotAVault, match="it has no ledger.sqlite, or no parts"):
        folder.check()


def test_a_crash_leaves_one_part_more_files_on_their_way_and_what_was_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "vault")
    folder.create()
    kept = {part_name(2), part_name(4)}
    left = {part_name(1), part_name(3), part_name(5), "0123456789abcdef.new", f"{part_name(9)}.new"}
    for name in kept | left:
        (folder.parts / name).touch()
    for place in (folder.spills, folder.checkpoints):
        (place / "named").touch()
        (place / "unnamed").touch()
    folder.clean(kept, 4, ["named"])
    assert {each.name for each in folder.parts.iterdir()} == kept
    assert [each.name for each in folder.checkpoints.iterdir()] == ["named"]
    assert not any(folder.spills.iterdir())
    (folder.parts / part_name(6)).touch()
    with pytest.raises(tr.DamagedVault, match="it was set back to an earlier state"):
        folder.clean(kept, 4, [])
    (folder.parts / part_name(6)).unlink()
    with pytest.raises(tr.DamagedVault, match=f"part {part_name(3)} is missing"):
        folder.clean({*kept, part_name(3)}, 4, [])


# -- the writer's lock -------------------------------------------------------------------------------------------------


def test_a_lock_that_becomes_free_is_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = taken(tmp_path / "lock", 0)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            first.release()

    monkeypatch.setattr(time, "sleep", sleep)
    second = taken(tmp_path / "lock", 60)
    assert (first.held, second.held) == (False, True)
    assert len(slept) == 3
    assert sum(slept) < 0.2
    second.release()
    assert not second.held


def test_a_writer_waits_no_longer_than_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", sleep)
    first = taken(tmp_path / "lock", 0)
    for wait in (0.0, 0.5):
        clock[0] = 0.0
        with pytest.raises(tr.VaultBusy, match=rf"number {os.getpid()}\) .* within {wait:g} s"):
            taken(tmp_path / "lock", wait)
        assert wait <= clock[0] < wait + 0.1
    first.release()


def test_a_lock_that_nobody_has_any_more_is_closed(tmp_path: Path) -> None:
    file = folders._LockFile(tmp_path / "lock", "w")
    descriptor = file.fileno()
    del file
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_the_number_of_the_holder_is_the_whole_file(tmp_path: Path) -> None:
    """An earlier holder with a longer number must not lend its last digits."""
    (tmp_path / "lock").write_text("123456789123456789")
    lock = taken(tmp_path / "lock", 0)
    assert (tmp_path / "lock").read_text() == str(os.getpid())
    lock.release()


def test_a_lock_is_released_also_for_a_child_that_was_just_forked(tmp_path: Path) -> None:
    """It shares the open file until it has closed its own: closing ours would leave the lock with it."""
    lock = taken(tmp_path / "lock", 0)
    assert lock._file is not None
    shared = os.dup(lock._file.fileno())
    try:
        lock.release()
        taken(tmp_path / "lock", 0).release()
    finally:
        os.close(shared)
