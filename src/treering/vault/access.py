"""Who may work in an open vault, and when what they wrote is durable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from treering.errors import TreeringError, VaultError
from treering.trusted.counts import Counts
from treering.vault.ledger import Ledger
from treering.vault.lock import WriterLock


class Access:
    """The way into an open vault: one thread at a time, of the process that opened it."""

    def __init__(self, counts: Counts, writer: WriterLock, ledger: Ledger) -> None:
        self._lock = counts.lock
        self._writer = writer
        self._ledger = ledger
        self._process = os.getpid()

    @property
    def foreign(self) -> bool:
        """Whether this is a forked child, for whom the vault is its parent's."""
        return os.getpid() != self._process

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With nothing in the vault that is not durable."""
        with self._entered():
            self._ledger.settle()
            yield

    @contextmanager
    def answering(self) -> Iterator[None]:
        """All that is written within becomes durable together. The disk is waited for after others are let in.

        So the present state may not be durable yet. What leaves because of it leaves when that state is, and with it
        all that came before.
        """
        try:
            with self._entered(), self._ledger.unsettled():
                yield
        except TreeringError as error:
            self._ledger.settle(error)
            raise
        self._ledger.settle()

    @contextmanager
    def _entered(self) -> Iterator[None]:
        if self.foreign:
            raise VaultError("this vault was opened by another process: a forked child must open its own")
        with self._lock:
            if not self._writer.held:
                raise VaultError("the vault is closed: open it again")
            self._ledger.check_usable()
            yield
