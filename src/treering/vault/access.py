"""Who may work in an open vault, and when what they wrote is durable."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from treering.errors import TreeringError, VaultError
from treering.trusted.counts import Counts
from treering.vault.ledger import TORN, Ledger
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
