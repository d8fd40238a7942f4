from __future__ import annotations

import errno
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treering.errors import DamagedVault, VaultBusy, VaultError
from treering.service.access import KEPT, WEEK, Register
from treering.service.auth import Quota
from treering.service.problems import Problem


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Register]:
    opened = Register(tmp_path)
    yield opened
    opened.close()


def reopened(register: Register) -> Register:
    register.close()
    return Register(register.folder.parent)


def test_the_files_are_private_and_hold_no_token(register: Register) -> None:
    _, text = register.issue("ada", "analyst")
    assert stat.S_IMODE(register.folder.stat().st_mode) == 0o700
    for file in register.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert text.encode() not in file.read_bytes()


def test_tokens_survive(register: Register) -> None:
    token, text = register.issue("ada", "analyst", 1000.0, Quota(3, 0.5))
    steward, _ = register.issue("bob", "steward")
    assert register.revoke(steward.id)
    again = reopened(register)
    assert again.accept(text) == token
    assert [each.revoked is None for each in again.tokens] == [True, False]
    again.close()


def test_unknown_tokens(register: Register) -> None:
    for text in ("", "treering_x", "\ud800"):
        with pytest.raises(Problem) as problem:
            register.accept(text)
        assert problem.value.code == "token_unknown"
    with pytest.raises(Problem):
        register.standing("nobody")
    assert not register.revoke("nobody")


def test_revoking_twice_says_so(register: Register) -> None:
    token, text = register.issue("ada", "analyst")
    assert register.revoke(token.id)
    assert not register.revoke(token.id)
    with pytest.raises(Problem) as problem:
        register.accept(text)
    assert problem.value.code == "token_revoked"


def test_reserve_then_settle(register: Register) -> None:
    quota = Quota(answers=10, budget=0.5)
    reserved = register.reserve("a", quota, 4, 1.0, 4.0)
    assert reserved is not None
    assert register.used("a")[:2] == (4, 1.0)
    assert register.reserve("a", quota, 7, 0.0, 4.0) is None
    assert register.reserve("a", quota, 1, 1.1, 4.0) is None
    reserved.settle(0.25)
    assert register.used("a")[:2] == (4, 0.25)
    free = register.reserve("a", quota, 6, 1.75, 4.0)
    assert free is not None
    free.settle(0.0)
    assert register.used("a")[:2] == (4, 0.25)
    assert register.used("b")[:2] == (0, 0.0)


def test_a_reservation_that_is_never_settled_stands(register: Register) -> None:
    token, _ = register.issue("ada", "analyst", None, Quota(answers=10))
    register.reserve(token.id, token.quota, 4, 1.0, 4.0)
    again = reopened(register)
    assert again.used(token.id)[:2] == (4, 1.0)
    again.close()


def test_opening_makes_the_file_short(register: Register) -> None:
    token, _ = register.issue("ada", "analyst", None, Quota(answers=1000))
    for _ in range(50):
        reserved = register.reserve(token.id, token.quota, 1, 0.5, 4.0)
        assert reserved is not None
        reserved.settle(0.25)
    file = register.folder / "register.jsonl"
    long = len(file.read_bytes().splitlines())
    again = reopened(register)
    assert long == 101
    assert len(file.read_bytes().splitlines()) <= 3
    assert again.used(token.id).answers == 50
    assert again.used(token.id).budget == pytest.approx(12.5)
    again.close()


def test_a_long_file_is_made_short_while_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.service.access.LONG", 2000)
    register = Register(tmp_path)
    tokens = [register.issue(f"{number}", "analyst", None, Quota(answers=10_000))[0] for number in range(4)]

    def take(number: int) -> None:
        for _ in range(100):
            reserved = register.reserve(tokens[number].id, tokens[number].quota, 1, 0.5, 4.0)
            assert reserved is not None
            reserved.settle(0.25)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (register.folder / "register.jsonl").stat().st_size < 10_000
    again = reopened(register)
    assert [again.used(token.id).answers for token in tokens] == [100] * 4
    assert [again.used(token.id).budget for token in tokens] == pytest.approx([25.0] * 4)
    again.close()


def test_a_file_that_cannot_be_made_short_stays_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.service.access.LONG", 300)
    register = Register(tmp_path)
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    texts = [register.issue("ada", "analyst")[1] for _ in range(5)]
    monkeypatch.undo()
    again = reopened(register)
    assert [again.accept(text).name for text in texts] == ["ada"] * 5
    again.close()


def test_a_new_file_that_may_not_last_allows_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.service.access.LONG", 300)
    register = Register(tmp_path)
    monkeypatch.setattr("treering.service.access.sync_folder", failing(errno.EIO))
    register.issue("ada", "analyst")
    with pytest.raises(VaultError):
        register.issue("bob", "analyst")
    with pytest.raises(VaultError):
        register.reserve("a", Quota(answers=1), 1, 1.0, 4.0)
    monkeypatch.undo()
    reopened(register).close()


def test_use_is_of_the_last_week(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    register.reserve("a", Quota(answers=9), 2, 1.0, 4.0)
    now, until = time.time(), register.used("a").until
    assert until is not None
    assert WEEK <= until - now <= WEEK + 3600
    monkeypatch.setattr(time, "time", lambda: now + WEEK / 2)
    register.reserve("a", Quota(answers=9), 3, 1.0, 4.0)
    assert register.used("a").answers == 5
    monkeypatch.setattr(time, "time", lambda: until + 1)
    assert register.used("a").answers == 3


def test_tokens_that_ended_long_ago_are_forgotten(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    old, _ = register.issue("old", "analyst", 10.0)
    kept, _ = register.issue("kept", "analyst")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10 + KEPT - 60)
    register = reopened(register)
    assert [each.id for each in register.tokens] == [old.id, kept.id]
    monkeypatch.setattr(time, "time", lambda: now + 10 + KEPT + 60)
    register = reopened(register)
    assert [each.id for each in register.tokens] == [kept.id]
    register.close()


def test_one_process_at_a_time(register: Register) -> None:
    with pytest.raises(VaultBusy, match="a server has this vault's tokens open"):
        Register(register.folder.parent)


def test_a_torn_last_line_is_left_out(register: Register) -> None:
    _, text = register.issue("ada", "analyst")
    register.close()
    with (register.folder / "register.jsonl").open("ab") as file:
        file.write(b'{"used":"a","hour":1,"ans')
    again = Register(register.folder.parent)
    assert again.accept(text)
    again.close()


@pytest.mark.parametrize("line", [b"no json", b"{}", b"[]", b'{"revoked":"nobody","time":1}'])
def test_a_damaged_line_is_refused(register: Register, line: bytes) -> None:
    register.issue("ada", "analyst")
    register.close()
    file = register.folder / "register.jsonl"
    file.write_bytes(line + b"\n" + file.read_bytes())
    with pytest.raises(DamagedVault, match="line 1 of"):
        Register(register.folder.parent)


def failing(number: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_full_disk_makes_no_token_and_reserves_nothing(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", failing(errno.ENOSPC))
        with pytest.raises(VaultError, match="the disk is full"):
            register.issue("ada", "analyst")
        with pytest.raises(VaultError, match="the disk is full"):
            register.reserve("a", Quota(answers=1), 1, 1.0, 4.0)
    assert register.tokens == []
    assert register.used("a").answers == 0
    _, text = register.issue("ada", "analyst")
    again = reopened(register)
    assert again.accept(text)
    again.close()


def test_a_disk_that_does_not_sync_gives_no_token(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    with pytest.raises(VaultError):
        register.issue("ada", "analyst")


def test_settling_never_fails(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    reserved = register.reserve("a", Quota(answers=9), 2, 1.0, 4.0)
    assert reserved is not None
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
    reserved.settle(0.0)
    assert register.used("a").answers == 2, "what was set aside stays so"


def test_threads_share_the_register(register: Register) -> None:
    quota = Quota(answers=50)
    taken: list[bool] = []

    def take() -> None:
        taken.extend(register.reserve("a", quota, 1, 0.01, 100.0) is not None for _ in range(20))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(taken) == 50
    lines = (register.folder / "register.jsonl").read_bytes().splitlines()
    assert len([json.loads(line) for line in lines]) == 50


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "service").write_text("a file")
    with pytest.raises(VaultError, match="cannot open the register"):
        Register(tmp_path)
