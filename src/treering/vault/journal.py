"""The durable journal of one mechanism: what its kernel writes becomes lines of the ledger, secrets a table apart.

*Easy answers.* A comparison below the threshold spends nothing, so it needs no commit of its own; but how many there
were is part of the accuracy's calibration. So they are *leased*: a durable line says "up to K comparisons of this run
are counted" before the first of them leaves. The exact number follows with the next line of the mechanism, and at the
end of the session. If a crash comes first, the whole lease counts. Hence, with A the comparisons whose outcome left and
R those on record after any crash: A ≤ R ≤ A + K. Never too few; at most a lease too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_bytes
from typing import Final

from treering.domain.schema import Schema
from treering.errors import DamagedVault
from treering.gate import Compared, Condensed, Event, RunStarted
from treering.trusted.batches import SALT_BYTES, commitment
from treering.trusted.journal import MemoryJournal, Secret, ends_run, is_easy
from treering.vault.checkpoints import Checkpoints
from treering.vault.codec import decode, encode
from treering.vault.ledger import Ledger, SecretValue
from treering.vault.lines import CHECKPOINT, EVENT, LEASE, Entry, Line, body

FIRST_LEASE: Final = 1024
"""A lease covers so many comparisons, or twice those that are waiting to be recorded."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The events of a mechanism as its lines tell them, and leases that nobody gave back."""

    events: tuple[Event, ...]
    lost: tuple[Compared, ...]
    """Comparisons that may have happened since: one for each open lease."""
    commitments: dict[int, str]
    """Of the secret of each run that is not over."""


def recover(entries: Sequence[Entry], schema: Schema, checkpoints: Checkpoints | None) -> Recovered:
    """Fold a mechanism's lines, from the last checkpoint that can be read on (None: from the beginning)."""
    start, events = _last_checkpoint(entries, schema, checkpoints)
    commitments = {entry.line.plain()["run"]: entry.line.commitment for entry in entries if entry.line.commitment}
    leases: dict[int, Compared] = {}
    for entry in entries[start:]:
        if entry.line.kind == LEASE:
            plain = entry.line.plain()
            leases[plain["run"]] = Compared(plain["size"], plain["run"], plain["asked"], None)
        elif entry.line.kind == EVENT:
            event = decode(entry.line.body, schema)
            events.append(event)
            if isinstance(event, Compared):
                leases.pop(event.run, None)
    live = _live(events)
    return Recovered(
        tuple(events),
        tuple(lease for run, lease in leases.items() if run in live and lease.asked),
        {run: commitments.get(run, "") for run in live},
    )


def _last_checkpoint(
    entries: Sequence[Entry], schema: Schema, checkpoints: Checkpoints | None
) -> tuple[int, list[Event]]:
    if checkpoints is not None:
        for place in range(len(entries) - 1, -1, -1):
            if entries[place].line.kind == CHECKPOINT:
                loaded = checkpoints.load(entries[place].line, schema)
                if loaded is not None:
                    return place + 1, [loaded]
    return 0, []


def _live(events: Iterable[Event]) -> set[int]:
    """The runs that are not over."""
    live: set[int] = set()
    for event in events:
        if isinstance(event, Condensed):
            live = {run.run for run in event.runs}
        elif isinstance(event, RunStarted):
            live.add(event.run)
        elif ends_run(event):
            live.discard(event.run)
    return live


class LedgerJournal(MemoryJournal):
    """Implements `treering.trusted.journal.Journal`. Its events are in memory too, for the mechanism's own use.

    Within `transaction` nothing is durable before the end; without one, each event is when the call returns.
    """

    __slots__ = ("_checkpoints", "_leased", "_ledger", "_number", "_pending")

    def __init__(self, ledger: Ledger, number: int, checkpoints: Checkpoints) -> None:
        super().__init__()
        self._ledger = ledger
        self._number = number
        self._checkpoints = checkpoints
        self._pending: Compared | None = None
        """Easy comparisons that a lease covers and no line counts yet."""
        self._leased = 0

    def take_up(self, recovered: Recovered, secrets: dict[str, SecretValue]) -> None:
        """Continue an earlier life. What it may have asked without recording it is recorded now."""
        self._secrets = {run: Secret(0) for run in _begun(recovered.events)}
        for event in recovered.events:
            if isinstance(event, RunStarted):
                super().begin(event, self._secrets[event.run])
            else:
                super().write(event)
        for run, promised in recovered.commitments.items():
            self._secrets[run] = self._opened(run, promised, secrets)
        for lost in recovered.lost:
            self._write(lost)
            super().write(lost)

    # -- the protocol -------------------------------------------------------------------------------------------------

    def write(self, event: Event) -> None:
        """Record an event: durable when this returns, or when the transaction does."""
        if is_easy(event):
            self._count(event)
        elif isinstance(event, Condensed):
            self.settle()
            self._leased = 0  # Recovery looks at lines after the checkpoint only.
            self._ledger.write(self._checkpoints.save(event, self._number))
        else:
            with self._ledger.transaction():
                self.settle()
                self._write(event)
        super().write(event)

    def begin(self, event: RunStarted, secret: Secret) -> None:
        """Record the start of a run, its secret in the private part, and a first lease."""
        salt, value = token_bytes(SALT_BYTES), str(secret.value)
        name = self._name(event.run)
        with self._ledger.transaction():
            self.settle()
            line = Line(EVENT, encode(event), self._number, commitment=commitment(salt, name.encode(), value.encode()))
            self._ledger.write(line, put=SecretValue(name, salt, value))
            self._lease(event.size, event.run, FIRST_LEASE)
        super().begin(event, secret)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group what is written into one durable step."""
        with self._ledger.transaction():
            yield

    # -- easy answers -------------------------------------------------------------------------------------------------

    def settle(self, *, renew: bool = False) -> None:
        """Record the easy comparisons exactly, in place of their lease; and take a new one, if it is to go on."""
        pending, self._pending = self._pending, None
        if pending is not None:
            with self._ledger.transaction():
                self._write(pending)
                self._leased = 0
                if renew:
                    self._lease(pending.size, pending.run, FIRST_LEASE)

    def close(self) -> None:
        """Record what is pending, and give back leases that were not used."""
        with self._ledger.transaction():
            self.settle()
            if self._leased:
                for run in self._secrets:
                    self._lease(0, run, 0)

    def _count(self, event: Compared) -> None:
        with self._ledger.transaction():
            pending = self._pending
            if pending is not None and (pending.run, pending.size) != (event.run, event.size):
                self.settle()
                pending = None
            asked = event.asked + (0 if pending is None else pending.asked)
            self._pending = Compared(event.size, event.run, asked, None)
            if asked > self._leased:
                self._lease(event.size, event.run, max(FIRST_LEASE, 2 * asked))

    def _lease(self, size: int, run: int, asked: int) -> None:
        self._ledger.write(Line(LEASE, body(size=size, run=run, asked=asked), self._number))
        self._leased = asked

    # -- lines --------------------------------------------------------------------------------------------------------

    def _write(self, event: Event) -> None:
        drop = self._name(event.run) if ends_run(event) else None
        self._ledger.write(Line(EVENT, encode(event), self._number), drop=drop)

    def _name(self, run: int) -> str:
        return f"run {self._number}.{run}"

    def _opened(self, run: int, promised: str, secrets: dict[str, SecretValue]) -> Secret:
        """A run's secret, if it is the one that the ledger is bound to."""
        name = self._name(run)
        found = secrets.get(name)
        if found is None or commitment(found.salt, name.encode(), found.value.encode()) != promised:
            raise DamagedVault(f"the secret of {name} is not the one that was written; restore a backup")
        return Secret(int(found.value))


def _begun(events: Iterable[Event]) -> Iterator[int]:
    for event in events:
        if isinstance(event, RunStarted):
            yield event.run
        elif isinstance(event, Condensed):
            yield from (run.run for run in event.runs)
