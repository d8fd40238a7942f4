"""Who may work in an open vault, and what an error in the work does to it."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from treering.trusted.ledger.ledger import TORN
from treering.trusted.ledger.lines import Line, body
from treering.trusted.store import Store, create, originate
from treering.vault.together import STOPPED, Access, Job, Together

LINE = Line("rows", body(size=1))


class Opened:
    """A store, its ledger, and the work of threads in it."""

    def __init__(self, place: Path) -> None:
        create(place, originate(tr.Schema({"a": tr.integers(0, 1)}), tr.Promise(1.0), None, None, "id"), None, 0)
        with Store.opening(place, (), 0) as self.store:
            self.access = Access(self.store)
        self.ledger = self.store._ledger

    @property
    def written(self) -> int:
        """How many lines are durable, beside the first."""
        return self.ledger.seq - 1


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made = Opened(tmp_path / "vault")
    yield made
    made.store.close()


def writing(opened: Opened, error: BaseException | None = None, *, write: bool = True) -> Callable[[], int]:
    """Work that writes a line and then ends, well or in an error."""

    def work() -> int:
        if write:
            opened.ledger.write(LINE)
            assert opened.ledger.waiting == 1
        if error is not None:
            raise error
        return 7

    return work


def test_work_is_done_in_one_commit(opened: Opened) -> None:
    def work() -> int:
        opened.ledger.write(LINE)
        opened.ledger.write(LINE)
        assert (opened.ledger.waiting, opened.written) == (2, 0)
        return 7

    assert opened.access.together(work) == 7
    assert (opened.ledger.waiting, opened.written) == (0, 2)


def test_a_forked_child_and_a_closed_vault_are_refused(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    work = writing(opened)
    assert not opened.store.foreign
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        assert opened.store.foreign
        for use in (opened.store.alone, lambda: opened.access.together(work)):
            with pytest.raises(tr.VaultError, match="opened by another process"):
                use()
    assert opened.store.alone() is opened.store._rows.lock
    opened.store.check()
    opened.store._lock.release()
    for use in (opened.store.check, lambda: opened.access.together(work)):
        with pytest.raises(tr.VaultError, match="the vault is closed: open it again"):
            use()
    assert opened.written == 0


def test_a_vault_that_an_interrupt_left_in_the_middle_is_refused(opened: Opened) -> None:
    opened.ledger.ahead = True
    with pytest.raises(tr.VaultError, match=f"stopped because {TORN}"):
        opened.store.check()


def test_an_error_of_ours_keeps_what_was_written_and_the_vault_goes_on(opened: Opened) -> None:
    with pytest.raises(tr.ParameterError, match="was refused"):
        opened.access.together(writing(opened, tr.ParameterError("it", "was refused")))
    assert opened.written == 1
    assert opened.access.together(writing(opened)) == 7


@pytest.mark.parametrize("error", [ZeroDivisionError(), MemoryError()])
def test_any_other_error_stops_the_vault_if_something_was_written(opened: Opened, error: Exception) -> None:
    with pytest.raises(type(error)):
        opened.access.together(writing(opened, error, write=False))
    assert opened.access.together(writing(opened)) == 7
    with pytest.raises(tr.VaultError, match=TORN):
        opened.store.whole(writing_in_transaction(opened, error))


def writing_in_transaction(opened: Opened, error: Exception) -> Callable[[], int]:
    """Work of one thread, of which another in the same commit learns nothing but that the vault has stopped."""

    def work() -> int:
        with opened.ledger.transaction():
            with pytest.raises(type(error)):
                opened.store.whole(writing(opened, error))
            opened.store.whole(lambda: 7)
        return 7

    return work


def test_an_error_while_memory_is_ahead_of_the_record_stops_the_vault(opened: Opened) -> None:
    def work() -> int:
        opened.ledger.ahead = True
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened.access.together(work)
    with pytest.raises(tr.VaultError, match=TORN):
        opened.access.together(writing(opened))


def test_a_vault_that_has_stopped_does_no_work(opened: Opened) -> None:
    opened.ledger.fail("the tests say so")
    with pytest.raises(tr.VaultError, match="the tests say so"):
        opened.store.whole(lambda: pytest.fail("nothing is to be done"))


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_a_result_is_returned_once_it_is_kept() -> None:
    job = Job(lambda: 7)
    assert (job.taken, job.kept, job.done) == (False, False, False)
    job.do()
    with pytest.raises(tr.VaultError, match=STOPPED[:40]):
        job.outcome()
    job.kept = True
    assert job.outcome() == 7


def test_an_error_is_kept_for_the_thread_that_wants_it() -> None:
    def refuse() -> int:
        raise tr.ParameterError("it", "was refused")

    for kept, said in ((True, "was refused"), (False, STOPPED[:40])):
        job = Job(refuse)
        job.do()
        job.kept = kept
        with pytest.raises(tr.TreeringError, match=said):
            job.outcome()
    failed = Job(refuse)
    failed.fail(tr.VaultError("the disk is full"))
    with pytest.raises(tr.VaultError, match="the disk is full"):
        failed.outcome()


def test_a_signal_ends_one_wait_and_a_second_has_no_effect() -> None:
    job = Job(lambda: 7)
    job.signal()
    job.signal()
    job.wait(0)
    assert job._signal.locked()
    job.signal()
    assert not job._signal.locked()


def test_whoever_waits_greets_the_leader_when_all_of_the_last_batch_are_there() -> None:
    together = Together(lambda _: None)
    leader, together._company = Job(lambda: 7), 2
    together._greet()
    together._leader = leader
    for number, heard in ((1, False), (2, True), (3, True)):
        together._waiting.append(Job(lambda: 7))
        leader._signal.acquire(blocking=False)
        together._greet()
        assert leader._signal.locked() != heard
        assert len(together._waiting) == number


def test_a_leader_waits_only_for_those_of_the_last_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(Job, "wait", lambda _, seconds: waits.append(seconds))
    done: list[int] = []
    together = Together(lambda jobs: done.append(len(jobs)))
    for waiting, company in ((1, 1), (2, 1), (1, 2), (2, 2)):
        together._company = company
        jobs = [Job(lambda: 7) for _ in range(waiting)]
        together._waiting.extend(jobs)
        together._lead(jobs[0])
        assert together._leader is None
        assert together._company == waiting
        assert all(job.taken and job.kept and job.done and not job._signal.locked() for job in jobs)
    assert done == [1, 2, 1, 2]
    assert len(waits) == 1
    assert 0 < waits[0] < 0.01


def test_an_error_that_was_raised_is_forgotten_with_whoever_caught_it() -> None:
    """It refers to the frame that raised it: that must not refer to it, or both would stay until a collection."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        error = tr.VaultError("the disk is full")
        seen, job = weakref.ref(error), Job(lambda: 7)
        job.fail(error)
        del error
        with pytest.raises(tr.VaultError) as raised:
            job.outcome()
        del raised, job
        assert seen() is None
    finally:
        if collecting:
            gc.enable()


def test_a_thread_that_waits_looks_up_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may be lost with the thread that was to give it."""
    waits: list[float] = []

    def do_all(jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            job.do()

    together = Together(do_all)

    def wait(_: Job[int], seconds: float) -> None:
        waits.append(seconds)
        together._leading.release()  # Whoever led is gone.

    together._leading.acquire()
    monkeypatch.setattr(Job, "wait", wait)
    assert together.run(lambda: 7) == 7
    assert len(waits) == 1
    assert 0 < waits[0] <= 0.1
