"""Files that are written whole or not at all, and who is told of each step."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from treering.trusted.ledger import disk
from treering.trusted.ledger.disk import NewFile, Stage, observe, reached, sync_folder, write_file

STEPS = (Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED)


def names(place: Path) -> set[str]:
    return {each.name for each in place.iterdir()}


def free_descriptor(place: Path) -> int:
    descriptor = os.open(place, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


@pytest.mark.parametrize("failing", ["fsync", "rename", "sync_folder"])
def test_a_file_that_could_not_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = free_descriptor(tmp_path)
    with monkeypatch.context() as patch:
        place: Any = {"fsync": os, "rename": Path, "sync_folder": disk}[failing]
        patch.setattr(place, failing, full)
        with pytest.raises(tr.VaultError, match="cannot write to the vault: the disk is full; nothing was taken in"):
            write_file(tmp_path / "part", b"rows", STEPS)
    assert names(tmp_path) == set()
    assert free_descriptor(tmp_path) == before


def test_a_file_that_was_left_by_a_crash_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "part.new").write_bytes(b"something longer than that")
    write_file(tmp_path / "part", b"rows", STEPS)
    assert (names(tmp_path), (tmp_path / "part").read_bytes()) == ({"part"}, b"rows")


def test_a_folder_that_cannot_be_synced_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    before = free_descriptor(tmp_path)
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output error"):
        sync_folder(tmp_path)
    assert free_descriptor(tmp_path) == before


def test_a_file_is_hashed_as_it_is_written(tmp_path: Path) -> None:
    file = NewFile(tmp_path / "x.new", STEPS)
    pieces: list[bytes | memoryview | bytearray] = [b"", b"ab", memoryview(b"cde"), bytearray(2**20)]
    assert [file.write(piece) for piece in pieces] == [0, 2, 3, 2**20]
    file.sync()
    assert names(tmp_path) == {"x.new"}
    file.name(tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    assert content == b"".join(pieces)
    assert (file.length, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    file.discard()
    assert names(tmp_path) == set()
    file.discard()


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupt_at_any_step_leaves_no_descriptor(tmp_path: Path, step: Stage) -> None:
    def interrupt(reached: Stage) -> None:
        if reached is step:
            raise KeyboardInterrupt

    before = free_descriptor(tmp_path)
    observe(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_file(tmp_path / "part", b"rows", STEPS)
    finally:
        observe(None)
    assert free_descriptor(tmp_path) == before
    assert names(tmp_path) == {"part" if step is Stage.PART_NAMED else "part.new"}


def test_an_observer_sees_stages_until_it_is_taken_away() -> None:
    seen: list[Stage] = []
    reached(Stage.ANSWERED)
    observe(seen.append)
    reached(Stage.COMMITTED)
    observe(None)
    reached(Stage.ANSWERED)
    assert seen == [Stage.COMMITTED]
