"""Who may work in an open vault, and when what they wrote is durable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from treering.errors import VaultError
from treering.trusted.counts import Counts
from treering.vault.ledger import Ledger
from treering.vault.lock import WriterLock
from treering.vault.together import Job, Together

Result = TypeVar("Result")


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

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With the vault to oneself."""
        self._check_own()
        with self._lock:
            self._check_open()
            yield

    def together(self, work: Callable[[], Result]) -> Result:
        """The result of some work in the vault, once all that it wrote is durable: with the work of all threads that
        want some at the same time, and with one commit for them all."""
        self._check_own()
        return self._jobs.run(lambda: self._whole(work))

    def _do_all(self, jobs: Sequence[Job[Any]]) -> None:
        with self._lock:
            self._check_open()
            with self._ledger.transaction():
                for job in jobs:
                    job.do()

    def _whole(self, work: Callable[[], Result]) -> Result:
        # A transaction of its own within the one of all: the ledger sees which work ended in an error.
        with self._ledger.transaction():
            return work()

    def _check_own(self) -> None:
        if self.foreign:
            raise VaultError("this vault was opened by another process: a forked child must open its own")

    def _check_open(self) -> None:
        if not self._writer.held:
            raise VaultError("the vault is closed: open it again")
        self._ledger.check_usable()
