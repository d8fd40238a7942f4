"""Work that several threads want done at the same time: one of them does all of it, and the others find theirs done.

Where the work ends with a wait for the disk, that is one wait for them all. (Known as flat combining, and for the disk
alone as group commit.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from treering.errors import VaultError

Result = TypeVar("Result")

DELAY: Final = 0.0003
"""Seconds for which one who leads waits for those who were there the last time: they were let go just before."""

STOPPED: Final = "the thread that worked for several was stopped: ask again (with a key, nobody is ever charged twice)"


class Job(Generic[Result]):
    """What one thread wants to have done."""

    __slots__ = ("_error", "_result", "_signal", "_work", "done")

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._error: Exception | None = None
        self._signal = Lock()
        self._signal.acquire()
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
        if self._error is not None:
            raise self._error
        return self._result

    def wait(self, seconds: float = -1) -> None:
        """Wait for a signal."""
        self._signal.acquire(timeout=seconds)

    def signal(self) -> None:
        """End the wait. (Twice is once.)"""
        if self._signal.locked():
            self._signal.release()


class Together:
    """Does the jobs of all threads that are there, by ``do_all``, in the order in which they came.

    A job is done when `do_all` has returned. If that raises an error, it is everybody's.
    """

    def __init__(self, do_all: Callable[[Sequence[Job[Any]]], None]) -> None:
        self._do_all = do_all
        self._lock = Lock()
        self._waiting: list[Job[Any]] = []
        self._leader: Job[Any] | None = None
        self._company = 1
        """How many jobs there were the last time."""

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of some work, done by this thread or by another."""
        job = Job(work)
        try:
            if not self._join(job):
                job.wait()
            if not job.done:
                self._lead(job)
        finally:
            self._leave(job)
        return job.outcome()

    def _join(self, job: Job[Any]) -> bool:
        """Whether it leads."""
        with self._lock:
            self._waiting.append(job)
            if self._leader is None:
                self._leader = job
            elif len(self._waiting) >= self._company:
                self._leader.signal()
            return self._leader is job

    def _lead(self, own: Job[Any]) -> None:
        if len(self._waiting) < self._company:
            own.wait(DELAY)
        jobs: list[Job[Any]] = []
        try:
            with self._lock:
                jobs += self._waiting
                self._waiting.clear()
            self._company = len(jobs)
            self._do_all(jobs)
        except BaseException as error:
            said = str(error) if isinstance(error, VaultError) else STOPPED
            for job in jobs:
                job.fail(VaultError(said))
            raise
        finally:
            for job in jobs:
                job.done = True
                if job is not own:
                    job.signal()

    def _leave(self, job: Job[Any]) -> None:
        """Let the next one lead. Nobody works for one who was interrupted while it waited."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
            if self._leader is job:
                self._leader = next(iter(self._waiting), None)
                if self._leader is not None:
                    self._leader.signal()
