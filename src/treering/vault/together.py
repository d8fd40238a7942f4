"""Work that several threads want done at the same time: one of them does all of it, and the others find theirs done.

Where the work ends with a wait for the disk, that is one wait for them all. (Known as flat combining, and for the disk
alone as group commit.)

Any thread may be interrupted between any two steps (a user presses Ctrl-C), and nobody may hang or be told a result
that was not kept because of it. So who leads is decided by a lock, which an interrupt gives back; signals only save
time, and one that is lost costs no more than `POLL`; and a job counts for nothing until it is said to be kept.

Who may work in an open vault, and when what they wrote is durable.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from treering.errors import TreeringError, VaultError
from treering.trusted.counts import Counts
from treering.vault.files import WriterLock
from treering.vault.ledger import TORN, Ledger

Result = TypeVar("Result")

DELAY: Final = 0.0003
"""Seconds for which one who leads waits for those who were there the last time: they were let go just before."""

POLL: Final = 0.05
"""Seconds after which one who waits looks for itself."""

STOPPED: Final = "the thread that worked for several was interrupted: ask again (what has a key is never charged twice)"


class Job(Generic[Result]):
    """What one thread wants to have done."""

    __slots__ = ("_error", "_result", "_signal", "_work", "done", "kept", "taken")

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._error: Exception | None = None
        self._signal = Lock()
        self._signal.acquire()
        self.taken = False
        """Some thread does it, or has done it: no other will."""
        self.kept = False
        """It is done, and what came of it stands."""
        self.done = False
        """Nothing more will come of it."""

    def do(self) -> None:
        """Do it, for whomever: an error is theirs. (What interrupts the thread that does it is no `Exception`.)"""
        try:
            self._result = self._work()
        except Exception as error:
            self._error = error

    def fail(self, error: Exception) -> None:
        """Let nothing come of it but an error."""
        self._error = error

    def outcome(self) -> Result:
        """What came of it."""
        error, self._error = self._error, None
        try:
            if not self.kept:
                raise error if isinstance(error, VaultError) else VaultError(STOPPED)
            if error is not None:
                raise error
            return self._result
        finally:
            del error, self  # An error knows this frame: together they would outlive both.

    def wait(self, seconds: float) -> None:
        """Wait for a signal, or so long."""
        self._signal.acquire(timeout=seconds)

    def signal(self) -> None:
        """End the wait. (Twice is once.)"""
        with suppress(RuntimeError):
            self._signal.release()


class Together:
    """Does the jobs of all threads that are there, by ``do_all``, in the order in which they came.

    Results are kept when `do_all` has returned. If that raises a `VaultError`, it is everybody's.
    """

    def __init__(self, do_all: Callable[[Sequence[Job[Any]]], None]) -> None:
        self._do_all = do_all
        self._leading = Lock()
        """Held by the thread that works for all."""
        self._leader: Job[Any] | None = None
        self._waiting: deque[Job[Any]] = deque()
        self._company = 1
        """How many jobs there were the last time."""

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of some work, done by this thread or by another."""
        job = Job(work)
        self._waiting.append(job)
        try:
            while not job.done and self._leading.locked():
                self._greet()
                job.wait(POLL)
            if not job.done:
                with self._leading:
                    if not job.taken:
                        self._lead(job)
                for waiting in tuple(self._waiting)[:1]:
                    waiting.signal()  # It finds nobody leading, and leads.
        except BaseException:
            with suppress(ValueError):  # Nobody works for one who has gone (or whoever has taken it does in vain).
                self._waiting.remove(job)
            raise
        return job.outcome()

    def _greet(self) -> None:
        """Let the leader know if all are there that it waits for."""
        leader = self._leader
        if leader is not None and len(self._waiting) >= self._company:
            leader.signal()

    def _lead(self, own: Job[Any]) -> None:
        if len(self._waiting) < self._company:
            self._leader = own
            own.wait(DELAY)
            self._leader = None
        jobs: list[Job[Any]] = []
        try:
            while self._waiting:
                self._take(self._waiting.popleft(), jobs)
            if not own.taken:  # An interrupt can lose a job between two lists.
                self._take(own, jobs)
            self._company = len(jobs)
            self._do_all(jobs)
            for job in jobs:
                job.kept = True
        except VaultError as error:
            for job in jobs:
                job.fail(VaultError(str(error)))
            raise
        finally:
            for job in jobs:
                job.done = True
                job.signal()

    def _take(self, job: Job[Any], jobs: list[Job[Any]]) -> None:
        job.taken = True
        jobs.append(job)


# -- access ------------------------------------------------------------------------------------------------------------


class Access:
    """The way into an open vault: one thread at a time, of the process that opened it."""

    def __init__(self, counts: Counts, writer: WriterLock, ledger: Ledger) -> None:
        self._lock = counts.lock
        self._writer = writer
        self._ledger = ledger
        self._process = os.getpid()
        self._jobs = Together(self._do_all)

    @property
    def foreign(self) -> bool:
        """Whether this is a forked child, for whom the vault is its parent's."""
        return os.getpid() != self._process

    def alone(self) -> AbstractContextManager[object]:
        """The vault to oneself. Within, `check` comes first. (A lock as it is: an interrupt cannot keep it.)"""
        if self.foreign:
            raise VaultError("this vault was opened by another process: a forked child must open its own")
        return self._lock

    def check(self) -> None:
        """Refuse a vault that is closed, or was stopped."""
        if not self._writer.held:
            raise VaultError("the vault is closed: open it again")
        self._ledger.check_entry()

    def together(self, work: Callable[[], Result]) -> Result:
        """The result of some work in the vault, once all that it wrote is durable: with the work of all threads that
        want some at the same time, and with one commit for them all. (The work itself may not ask the vault.)"""
        self.alone()
        return self._jobs.run(lambda: self._whole(work))

    def _do_all(self, jobs: Sequence[Job[Any]]) -> None:
        with self.alone():
            self.check()
            with self._ledger.transaction():
                for job in jobs:
                    job.do()

    def _whole(self, work: Callable[[], Result]) -> Result:
        """The work of one thread among others': an error stops the vault if it comes after something was written."""
        self._ledger.check_usable()
        before = self._ledger.waiting
        try:
            return work()
        except TreeringError:
            raise
        except BaseException:
            if self._ledger.waiting > before:
                self._ledger.fail(TORN)
            raise
