"""The durable journal of one mechanism: its kernel's events become lines of the ledger, secrets a table of their own.

*Easy answers.* A comparison below the threshold spends nothing, so it needs no commit of its own; but how many there
were is part of the accuracy's calibration. So they are *leased*: a durable line says "up to K comparisons of this run
are counted" before the outcome of the first one leaves. The exact number follows with the next line of the mechanism,
and at the end of the session. After a crash before that, the whole lease counts. Hence, with A the comparisons whose
outcome left and R those on record after any crash: A ≤ R ≤ A + K. Never too few, and at most a lease too many.
(docs/durability.md has the proof.)
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from treering.gate import Compared, Condensed, Event, RunEnded, RunStarted
from treering.trusted.journal import MemoryJournal, Secret, ends_run, is_easy, live_runs
from treering.trusted.ledger.checkpoints import Checkpoints
from treering.trusted.ledger.codec.events import EventCodec
from treering.trusted.ledger.ledger import Ledger
from treering.trusted.ledger.lines import CHECKPOINT, EVENT, LEASE, Entry, Line, SecretValue, body, opened, seal

FIRST_LEASE: Final = 1024
"""The comparisons of a lease: this many, or twice those still to be recorded if that is more."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A mechanism's state according to its lines: its events, and leases that were not returned."""

    events: tuple[Event, ...]
    lost: tuple[Compared, ...]
    """Comparisons that may have happened after the last event: one record for each open lease."""
    commitments: dict[str, str]
    """The commitment to the secret of each run in progress, by the secret's name."""


def recover(entries: Sequence[Entry], codec: EventCodec, checkpoints: Checkpoints | None) -> Recovered:
    """The state that a mechanism's lines give, from its last readable checkpoint on; from its first line, if no
    checkpoint can be read or ``checkpoints`` is None."""
    start, events = _last_checkpoint(entries, codec, checkpoints)
    commitments = {entry.line.plain()["run"]: entry.commitment for entry in entries if entry.commitment}
    leases: dict[int, Compared] = {}
    with without_collections():
        for entry in entries[start:]:
            if entry.kind == LEASE:
                plain = entry.line.plain()
                leases[plain["run"]] = Compared(plain["size"], plain["run"], plain["asked"], None)
            elif entry.kind == EVENT:
                event = codec.decode(entry.body)
                events.append(event)
                if isinstance(event, Compared):
                    leases.pop(event.run, None)
            elif entry.kind == CHECKPOINT:
                leases.clear()  # Comparisons up to then are on record, whether or not the checkpoint can be read.
    live = live_runs(events)
    return Recovered(
        tuple(events),
        tuple(lease for run, lease in leases.items() if run in live and lease.asked),
        {secret_name(entries[0].mechanism, run): commitments.get(run, "") for run in live},
    )


@contextmanager
def without_collections() -> Iterator[None]:
    """Many objects are made in the block, and all of them stay: looking for garbage among them would take long."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _last_checkpoint(
    entries: Sequence[Entry], codec: EventCodec, checkpoints: Checkpoints | None
) -> tuple[int, list[Event]]:
    if checkpoints is not None:
        for place in range(len(entries) - 1, -1, -1):
            if entries[place].kind == CHECKPOINT:
                loaded = checkpoints.load(entries[place].line, codec)
                if loaded is not None:
                    return place + 1, [loaded]
    return 0, []


class LedgerJournal(MemoryJournal):
    """A `treering.trusted.journal.Journal` that writes to the ledger, and keeps its events in memory for the mechanism.

    In a `transaction` nothing is durable before its end; otherwise each event is durable when the call returns.
    ``number`` is the mechanism's number in the vault.
    """

    __slots__ = ("_checkpoints", "_codec", "_leases", "_ledger", "_number", "_pending")

    def __init__(self, ledger: Ledger, number: int, codec: EventCodec, checkpoints: Checkpoints) -> None:
        super().__init__()
        self._ledger = ledger
        self._number = number
        self._codec = codec
        self._checkpoints = checkpoints
        self._pending: Compared | None = None
        """Easy comparisons that are covered by a lease and not yet recorded by a line of their own."""
        self._leases: dict[int, int] = {}
        """How many comparisons of each run are leased, as `recover` would find."""

    def take_up(self, recovered: Recovered, secrets: Mapping[str, SecretValue], size: int) -> None:
        """Continue from a recovered state, of a vault that has ``size`` rows.

        The comparisons of an open lease, which may have happened, are recorded now, and the run that they belong to
        ends without a refund. The process that held the lease did not give it back: it was killed, or its disk failed.
        Whoever asked may have seen that a comparison could not be answered for want of a commit, and so that it was
        above the threshold: that is the one crossing that the run was charged for. It ends at the present size: rows
        that came after the lease was written may have met it.
        """
        self._secrets = {run: Secret(0) for run in _begun(recovered.events)}
        for event in recovered.events:
            if isinstance(event, RunStarted):
                super().begin(event, self._secrets[event.run])
            else:
                super().write(event)
        for run in self._secrets:
            name = secret_name(self._number, run)
            self._secrets[run] = Secret(int(opened(name, recovered.commitments[name], secrets)))
        with self._ledger.transaction():
            for lost in recovered.lost:
                ended = RunEnded(size, lost.run, Fraction(0))
                self._write(lost, ended)
                for event in (lost, ended):
                    super().write(event)

    @property
    def fresh(self) -> int:
        """The number of events since the last checkpoint."""
        return len(self._events) - bool(self._events and isinstance(self._events[0], Condensed))

    # -- the protocol -------------------------------------------------------------------------------------------------

    def write(self, event: Event) -> None:
        """Record an event: durable when this returns, or when the transaction does."""
        if is_easy(event):
            self._count(event)
        elif isinstance(event, Condensed):
            self.settle()
            line = self._checkpoints.save(event, self._number, self._codec)
            self._leases.clear()  # Recovery reads lines after the checkpoint only.
            self._ledger.write(line)
        else:
            self._write_pending(event)
        super().write(event)
        self._ledger.ahead = False

    def ending(self, run: int) -> None:
        """A run is over, and the event that ends it is written next. If it is not, the vault stops with the run's lease
        open, and the next opening ends the run."""
        self._ledger.ahead = True

    def begin(self, event: RunStarted, secret: Secret) -> None:
        """Record the start of a run, and its secret in the private part."""
        kept, promised = seal(secret_name(self._number, event.run), str(secret.value))
        with self._ledger.transaction():
            self.settle()
            self._ledger.write(Line(EVENT, self._codec.encode(event), self._number, commitment=promised), put=kept)
        super().begin(event, secret)

    def transaction(self) -> AbstractContextManager[None]:
        """Group what is written into one durable step."""
        return self._ledger.transaction()

    # -- easy answers -------------------------------------------------------------------------------------------------

    def settle(self, *, renew: bool = False) -> None:
        """Record the pending easy comparisons exactly, in place of their lease; ``renew`` takes a new lease."""
        pending = self._pending
        if pending is not None:
            with self._ledger.transaction():
                self._write_pending()
                if renew:
                    self._lease(pending.size, pending.run, FIRST_LEASE)

    def close(self) -> None:
        """Record what is pending, and return unused leases."""
        with self._ledger.transaction():
            self.settle()
            for run in [run for run in self._leases if run in self._secrets]:
                self._lease(0, run, 0)
            self._leases.clear()

    def _count(self, event: Compared) -> None:
        with self._ledger.transaction():
            pending = self._pending
            if pending is not None and (pending.run, pending.size) != (event.run, event.size):
                self.settle()
                pending = None
            asked = event.asked + (0 if pending is None else pending.asked)
            self._pending = Compared(event.size, event.run, asked, None)
            if asked > self._leases.get(event.run, 0):
                self._lease(event.size, event.run, max(FIRST_LEASE, 2 * asked))

    def _lease(self, size: int, run: int, asked: int) -> None:
        self._ledger.write(Line(LEASE, body(size=size, run=run, asked=asked), self._number))
        self._leases[run] = asked

    # -- lines --------------------------------------------------------------------------------------------------------

    def _write_pending(self, *events: Event) -> None:
        """Record the pending easy comparisons, in place of their lease, and then these events. (Not one without the
        other: an interrupt may have shown a crossing, and only the lease ends its run then.)"""
        pending = self._pending
        if pending is None:
            self._write(*events)
            return
        with self._ledger.transaction():
            self._write(pending, *events)
            self._leases.pop(pending.run, None)
            self._pending = None

    def _write(self, *events: Event) -> None:
        """Record events, of which at most the last ends a run; no interrupt can separate them."""
        drop: tuple[str, ...] = ()
        last = events[-1]
        if ends_run(last):
            drop = (secret_name(self._number, last.run),)
            self._leases.pop(last.run, None)
        self._ledger.write(*(Line(EVENT, self._codec.encode(event), self._number) for event in events), drop=drop)


def secret_name(mechanism: int, run: int) -> str:
    """The name of a run's threshold noise among the secrets."""
    return f"run {mechanism}.{run}"


def _begun(events: Iterable[Event]) -> Iterator[int]:
    for event in events:
        if isinstance(event, RunStarted):
            yield event.run
        elif isinstance(event, Condensed):
            yield from (run.run for run in event.runs)
