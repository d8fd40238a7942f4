"""Threads in an open vault: one commit for all threads that ask at the same time.

`Together` combines work: when several threads want work done at the same time, one of them, the leader, does all of it,
and the others find theirs done. Where the work ends with a wait for the disk, that is one wait for them all. (Known as
flat combining, and for the disk alone as group commit.)

Any thread may be interrupted between any two steps (a user presses Ctrl-C). No other thread may hang because of it, or
get a result that was not kept. So a lock decides who leads, and an interrupt releases it; signals only save time, and a
lost one costs no more than `POLL`; and a job's result is returned only once the job is marked as kept.

`Access` returns a result only when everything it wrote is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from treering.errors import VaultError
from treering.trusted.store import Stage, Store, reached

Result = TypeVar("Result")

DELAY: Final = 0.0003
"""How long, in seconds, the leader waits for the threads of the previous batch, which were released just before."""

POLL: Final = 0.05
"""Seconds after which a waiting thread checks its job without a signal."""

STOPPED: Final = "the thread that worked for several was interrupted: ask again (a question with a key is charged once)"


class Job(Generic[Result]):
    """The work of one thread, and its state."""

    __slots__ = ("_error", "_result", "_signal", "_work", "done", "kept", "taken")

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._error: Exception | None = None
        self._signal = Lock()
        self._signal.acquire()
        self.taken = False
        """Some thread is doing the work, or has done it: no other will."""
        self.kept = False
        """The work is done, and its result is durable."""
        self.done = False
        """The job is finished, whether or not it succeeded."""

    def do(self) -> None:
        """Do the work; an error is kept for the thread that wants it. (What interrupts the working thread is no
        `Exception`.)"""
        try:
            self._result = self._work()
        except Exception as error:
            self._error = error

    def fail(self, error: Exception) -> None:
        """Make this error the outcome."""
        self._error = error

    def outcome(self) -> Result:
        """The result, or raise the error."""
        error, self._error = self._error, None
        try:
            if not self.kept:
                raise error if isinstance(error, VaultError) else VaultError(STOPPED)
            if error is not None:
                raise error
            return self._result
        finally:
            del error, self  # The error refers to this frame: the cycle would keep both alive.

    def wait(self, seconds: float) -> None:
        """Wait for a signal, for at most this many seconds."""
        self._signal.acquire(timeout=seconds)

    def signal(self) -> None:
        """End the wait. (A second signal has no effect.)"""
        with suppress(RuntimeError):
            self._signal.release()


class Together:
    """Does the jobs of all threads that wait, by ``do_all``, in the order in which they came.

    Results are kept once ``do_all`` has returned. If it raises a `VaultError`, every job of the batch fails with it.
    """

    def __init__(self, do_all: Callable[[Sequence[Job[Any]]], None]) -> None:
        self._do_all = do_all
        self._leading = Lock()
        """Held by the leader, the thread that does the jobs of all."""
        self._leader: Job[Any] | None = None
        self._waiting: deque[Job[Any]] = deque()
        self._company = 1
        """The number of jobs in the previous batch."""

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of ``work``, done by this thread or by another."""
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
                    waiting.signal()  # It finds no leader, and leads.
        except BaseException:
            with suppress(ValueError):  # Interrupted: withdraw the job (if a leader has taken it, its result is lost).
                self._waiting.remove(job)
            raise
        return job.outcome()

    def _greet(self) -> None:
        """Signal the leader if as many threads wait as in the previous batch."""
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
            if not own.taken:  # An interrupt can lose a job between the two lists.
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


# -- access to an open vault -------------------------------------------------------------------------------------------


class Access:
    """Does the work of threads in an open vault: one at a time, in commits that those at the same time share."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs = Together(self._do_all)

    def together(self, work: Callable[[], Result]) -> Result:
        """The result of ``work`` in the vault, once everything it wrote is durable. Threads that call this at the same
        time share one commit. (The work itself must not call this.)"""
        self._store.alone()
        result = self._store.patiently(lambda: self._jobs.run(lambda: self._store.whole(work)))
        reached(Stage.ANSWERED)
        return result

    def _do_all(self, jobs: Sequence[Job[Any]]) -> None:
        with self._store.alone():
            self._store.check()
            with self._store.transaction():
                for job in jobs:
                    job.do()
