"""Several processes and threads at one vault: one writer, readers that nobody stops, and a child that is refused."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import treering as tr
from support.vaults import asked, frame, guarded, kinds, mechanism, questions, states
from treering.vault.together import Together
from treering.vault.vault import Vault

ROW = {"origin": "JFK", "month": 1, "late": "no"}


class Writer:
    """Another process that has the vault open: it takes a step for each byte it gets, and says what came of it."""

    def __init__(self, place: Path) -> None:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._orders)
            code = 1
            try:
                with Vault.open(place) as vault:
                    os.write(answers, b"%d\n" % vault.size)
                    while os.read(orders, 1) == b"a":
                        os.write(answers, b"%d\n" % vault.append([ROW]))
                code = 0
            finally:
                os._exit(code)
        os.close(orders)
        os.close(answers)
        assert self.said() == 20_000

    def said(self) -> int:
        text = b""
        while not text.endswith(b"\n"):
            text += os.read(self._answers, 16)
        return int(text)

    def append(self) -> int:
        os.write(self._orders, b"a")
        return self.said()

    def end(self) -> int:
        """Let it close the vault; its exit code."""
        os.close(self._orders)
        return self.wait()

    def wait(self) -> int:
        os.close(self._answers)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    guarded(tmp_path / "vault").close()
    return tmp_path / "vault"


def in_child(work: Callable[[], object]) -> int:
    """Fork, work, and leave without ceremony: 0 if nothing was raised."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_readers_look_while_another_process_writes(place: Path) -> None:
    other = Writer(place)
    reader = Vault.read(place)
    before = reader.status()
    assert before["size"] == 20_000
    lines = reader.ledger()
    assert next(lines)["kind"] == "created"
    assert other.append() == 20_001  # while a reader is in the middle of the ledger
    assert len(list(lines)) == before["entries"] - 1
    assert reader.status()["size"] == 20_001
    assert reader.verify(before["head"])["head_found"]
    assert other.end() == 0


def test_a_second_writer_waits_and_then_says_who_has_it(place: Path) -> None:
    other = Writer(place)
    begun = time.monotonic()
    with pytest.raises(tr.VaultBusy, match=rf"number {other.pid}\) has the vault open.*0.3 s.*Vault.read"):
        Vault.open(place, wait=0.3)
    assert time.monotonic() - begun >= 0.3
    assert other.append() == 20_001
    ending = threading.Timer(0.3, other.end)
    ending.start()
    with Vault.open(place, wait=60) as vault:
        assert vault.size == 20_001
    ending.join()


def test_the_lock_dies_with_its_process(place: Path) -> None:
    other = Writer(place)
    os.kill(other.pid, signal.SIGKILL)
    assert other.wait() == -signal.SIGKILL
    with Vault.open(place, wait=0) as vault:
        assert vault.size == 20_000


def test_the_same_process_has_one_writer_too(place: Path) -> None:
    with Vault.open(place):
        with pytest.raises(tr.VaultBusy, match=f"number {os.getpid()}"):
            Vault.open(place, wait=0)
        assert Vault.read(place).status()["size"] == 20_000
    Vault.open(place, wait=0).close()


def test_a_vault_that_could_not_be_opened_is_not_locked(place: Path) -> None:
    with Vault.open(place) as vault:
        vault.append(frame(2**15))
    part = max((place / "parts").iterdir())
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    with pytest.raises(tr.DamagedVault):
        Vault.open(place)
    part.write_bytes(content)
    Vault.open(place, wait=0).close()


def test_a_reader_counts_what_a_writer_has_leased(place: Path) -> None:
    with Vault.open(place) as vault:
        vault.ask_many(questions(300))
        status, seen = vault.status(), Vault.read(place).status()
        del status["guarantee"], seen["guarantee"], status["mechanisms"], seen["mechanisms"]
        assert seen == status


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_share_a_vault(place: Path) -> None:
    vault = Vault.open(place)
    failures: list[BaseException] = []
    barrier = threading.Barrier(6)

    def work(number: int) -> None:
        try:
            barrier.wait(10)
            for step in range(5):
                if number % 3 == 0:
                    vault.append(frame(100, seed=number), key=f"{number} {step}")
                elif number % 3 == 1:
                    vault.ask_many(questions(20, seed=10 * number + step), key=f"{number} {step}")
                else:
                    assert vault.status()["size"] >= 20_000
                    assert next(vault.ledger())["seq"] == 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert vault.size == 21_000
    before, lines = states(vault), kinds(vault)
    assert lines.count("rows") == 11
    assert lines.count("answers") == 10
    vault.close()
    with Vault.open(place) as vault:
        assert states(vault) == before
        vault.verify()


# -- forks -------------------------------------------------------------------------------------------------------------


def test_a_forked_child_is_refused_and_disturbs_nothing(place: Path) -> None:
    with Vault.open(place) as vault:
        vault.ask_many(questions(50))
        before = vault.status()["head"]

        def work() -> None:
            for use in (
                lambda: vault.ask("late = 'yes'"),
                lambda: vault.append(frame(1)),
                vault.status,
                lambda: mechanism(vault).ask("late = 'yes'"),
            ):
                with pytest.raises(tr.TreeringError, match="opened by another process"):
                    use()
            vault.close()  # as the end of a with block would
            assert Vault.read(place).status()["head"] == before

        assert in_child(work) == 0
        assert vault.status()["head"] == before
        vault.ask_many(questions(50, seed=2))
        with pytest.raises(tr.VaultBusy):
            Vault.open(place, wait=0)
        count = asked(vault)
    with Vault.open(place) as vault:
        assert asked(vault) == count
        vault.verify()


def test_a_child_that_lives_on_does_not_hold_the_lock(place: Path) -> None:
    vault = Vault.open(place)
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(done)
        os.read(ready, 1)  # until the parent closes its end
        os._exit(0)
    try:
        vault.close()
        Vault.open(place, wait=0).close()
    finally:
        os.close(done)
        os.close(ready)
        os.waitpid(child, 0)


def test_a_forked_child_is_refused_before_it_waits_for_threads_it_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the parent's threads may have been at work for others: in the child nobody ends that."""
    with guarded(tmp_path / "vault", rows=100) as vault, monkeypatch.context() as patch:
        patch.setattr(vault._store, "_process", -1)
        patch.setattr(Together, "run", lambda *_: pytest.fail("it would wait for ever"))
        with pytest.raises(tr.VaultError, match="a forked child must open its own"):
            vault.ask("late = 'yes'")
