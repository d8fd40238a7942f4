"""The ledger by itself: clocks, interruptions, read-only disks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

import treering as tr
from support.faulty_disk import faulty_disk
from support.vaults import frame, guarded, journal, mechanism, questions, states
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.disk import Stage, observe
from treering.trusted.ledger.folder import WriterLock
from treering.trusted.ledger.lines import ROOT, Line, body, chained, check, link
from treering.vault import vault
from treering.vault.vault import Vault


@pytest.fixture
def place(tmp_path: Path) -> Path:
    guarded(tmp_path / "vault").close()
    return tmp_path / "vault"


# -- the chain ---------------------------------------------------------------------------------------------------------


def test_every_field_is_in_the_hash() -> None:
    said = ("event", 3, '{"a":1}', "key", "aa")
    one = link(ROOT, 1, 5, *said)
    others = [
        link(b"\1" * 32, 1, 5, *said),
        link(ROOT, 2, 5, *said),
        link(ROOT, 1, 6, *said),
        link(ROOT, 1, 5, "events", *said[1:]),
        link(ROOT, 1, 5, "event", 4, *said[2:]),
        link(ROOT, 1, 5, "event", 3, "", *said[3:]),
        link(ROOT, 1, 5, "event", 3, '{"a":1}', "", "aa"),
        link(ROOT, 1, 5, "event", 3, '{"a":1}', "key", ""),
        link(ROOT, 1, 5, "event", 3, '{"a":1}', "keya", "a"),
        link(ROOT, 1, 5, "event", 3, '{"a":1}k', "ey", "aa"),
    ]
    assert len({one, *others}) == 11


def test_the_hashes_are_those_of_all_vaults_there_are() -> None:
    """Another hash, and every vault that was ever written would seem damaged. (The text hashed is as documented.)"""
    first = chained(ROOT, 1, 5, Line("rows", body(size=1)))
    second = chained(first.hash, 2, 7, Line("event", '{"é":1}', 3, "key", "aa"))
    assert first.hash == sha256(bytes(32) + b'1 5 -1 4 10 0 0\nrows{"size":1}').digest()
    assert second.hash == sha256(first.hash + '2 7 3 5 7 3 2\nevent{"é":1}keyaa'.encode()).digest()
    assert first.hash.hex() == "d1d4f1d725db43e6e2d188ddb01887420ed02e29d49c22ae90436458e10d8d50"
    assert second.hash.hex() == "1415ac6a5317756a06b11bc23bede55714e0f9f1880536ac593b17b53eca9282"


def test_a_chain_is_checked_line_by_line() -> None:
    first = chained(ROOT, 1, 5, Line("rows", body(size=1)))
    second = chained(first.hash, 2, 5, Line("rows", body(size=2)))
    assert list(check([first, second])) == [first, second]
    earlier = chained(first.hash, 2, 4, Line("rows", body(size=2)))
    for wrong in ([second], [first, first], [first, earlier], [first, second._replace(body="{}")]):
        with pytest.raises(tr.DamagedVault):
            list(check(wrong))


def test_nan_is_no_body() -> None:
    with pytest.raises(ValueError, match="JSON"):
        body(x=float("nan"))


# -- the clock ---------------------------------------------------------------------------------------------------------


def test_a_clock_that_moves_backwards_does_not_move_the_ledgers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    with monkeypatch.context() as patch:
        for step in (0, 10**15, -(10**17), 10**3):
            patch.setattr(time, "time_ns", lambda step=step: now + step)
            with Vault.open(place) as opened:
                opened.append(frame(5))
                opened.ask_many(questions(5))
    with Vault.open(place) as opened:
        times = [line["time"] for line in opened.ledger()]
        assert times == sorted(times)
        assert len(set(times)) < len(times) / 2
        opened.append(frame(1))
        opened.verify()


# -- interruptions -----------------------------------------------------------------------------------------------------


class Interruption(BaseException):
    """Somebody presses a key."""


@pytest.mark.parametrize("step", [Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED])
@pytest.mark.parametrize("work", ["ask", "append", "lease"])
def test_an_interrupted_commit_stops_the_vault_and_loses_nothing(place: Path, step: Stage, work: str) -> None:
    opened = Vault.open(place)
    opened.ask_many(questions(50))
    before, size = states(opened), opened.size

    def interrupt(reached: Stage) -> None:
        if reached is step:
            observe(None)
            raise Interruption

    if work == "lease":
        journal(opened)._leases.clear()
    use: dict[str, Callable[[], object]] = {
        "append": lambda: opened.append(frame(5)),
        "lease": lambda: opened.ask_many(questions(50, seed=3)),
        "ask": lambda: opened.ask("late = 'yes'", key="one"),
    }
    observe(interrupt)
    try:
        with pytest.raises(Interruption):
            use[work]()
    finally:
        observe(None)
    for again in (*use.values(), opened.status):
        with pytest.raises(tr.VaultError, match="stopped because it was interrupted in the middle of a commit"):
            again()
    opened.close()
    with Vault.open(place) as opened:
        assert opened.size == size + (5 if work == "append" and step is Stage.COMMITTED else 0)
        assert opened.spent >= before[0][1] or step is not Stage.COMMITTED
        opened.verify()
        opened.ask_many(questions(5, seed=9))


def test_an_error_amid_an_operation_stops_the_vault(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on record may be ahead of what the mechanism knows: only a replay knows the state."""
    opened = Vault.open(place)
    with monkeypatch.context() as patch:
        patch.setattr(mechanism(opened)._engine, "_follow", _broken)
        with pytest.raises(MemoryError):
            opened.ask("late = 'yes'")
    with pytest.raises(tr.VaultError, match="interrupted in the middle of an operation"):
        opened.ask("late = 'yes'")
    opened.close()
    with Vault.open(place) as opened:
        opened.ask("late = 'yes'")
        opened.verify()


def _broken(*_: Any) -> None:
    raise MemoryError


def test_rows_that_were_not_counted_stop_the_vault(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Vault.open(place)
    with monkeypatch.context() as patch:
        patch.setattr("treering.trusted.rows.kept.Rows.add", _broken)
        with pytest.raises(MemoryError):
            opened.append(frame(7), key="seven")
    with pytest.raises(tr.VaultError, match="new rows, which are on record, were counted"):
        opened.ask("late = 'yes'")
    opened.close()
    with Vault.open(place) as opened:
        assert opened.append(frame(7), key="seven") == opened.size == 20_007


def test_a_ledger_that_has_failed_takes_no_line(tmp_path: Path) -> None:
    ledger = ledgers.create(tmp_path / "ledger.sqlite")
    ledger.write(Line("rows", body(size=1)))
    ledger.fail("the tests say so")
    for _ in range(2):
        with pytest.raises(tr.VaultError, match="stopped because the tests say so"):
            ledger.write(Line("rows", body(size=2)))
    assert (ledger.waiting, ledger.seq) == (0, 1)
    ledger.close()
    again = ledgers.open_writer(tmp_path / "ledger.sqlite")
    assert [entry.body for entry in again.read()] == [body(size=1)]
    again.close()


# -- disks that cannot be written --------------------------------------------------------------------------------------


def test_a_read_only_disk_can_be_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Vault.read(place).status()

    def read_only(path: Any, flags: int, mode: int = 0o777, **given: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system")
        return opening(path, flags, mode, **given)

    opening = os.open
    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(tr.VaultError, match="for writing: Read-only file system; looking at it .* needs no lock"):
        Vault.open(place)
    assert Vault.read(place).status() == before
    assert Vault.read(place).verify(before["head"])["head_found"]
    assert len(list(Vault.read(place).ledger())) == before["entries"]
    assert sorted(each.name for each in place.iterdir()) == ["checkpoints", "ledger.sqlite", "lock", "parts", "spills"]


def test_a_vault_that_was_not_closed_cannot_be_read_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Vault.open(place) as opened:
        opened.append(frame(1))
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
        with pytest.raises(tr.VaultError, match="was not closed, and cannot be read on a read-only file system"):
            Vault.read(place).status()


@pytest.mark.parametrize(("error", "said"), [(apsw.FullError, "the disk is full"), (apsw.IOError, "the disk failed")])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ledger_that_cannot_be_created_is_an_error_of_the_vault_and_let_go(
    tmp_path: Path, error: type[apsw.Error], said: str
) -> None:
    with faulty_disk() as disk:
        for passing in range(3):
            disk.arm(error, passing)
            with pytest.raises(tr.VaultError, match=f"cannot write a ledger: {said}") as refusal:
                ledgers.create(tmp_path / f"{passing}.sqlite")
            assert disk.refused > 0
            # The error knows the connection: it was closed, not only forgotten.
            assert str(tmp_path / f"{passing}.sqlite") not in {each.filename for each in apsw.connections()}, refusal
            disk.disarm()


def test_a_full_disk_does_not_keep_anybody_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock's file holds a number for messages, and is useful without it."""

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    lock, other = WriterLock(place / "lock"), WriterLock(place / "lock")
    lock.take(0)
    with pytest.raises(tr.VaultBusy, match="number unknown"):
        other.take(0)
    other.release()
    lock.release()


def test_files_that_cannot_be_removed_are_an_error_of_the_vault(place: Path) -> None:
    (place / "parts" / "00000001.parquet").mkdir()
    with pytest.raises(tr.VaultError, match="cannot remove what a crash has left"):
        Vault.open(place)


def test_what_waits_by_default() -> None:
    assert vault.WAIT == 10
