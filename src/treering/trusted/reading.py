"""What is on record of a vault, beside a writer if there is one: its public state, and whether everything is as it was
written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from treering.budget.promise import Budget
from treering.errors import DamagedVault, ParameterError
from treering.gate import Event
from treering.trusted import registry
from treering.trusted.charges import Charges
from treering.trusted.kernel import follow
from treering.trusted.ledger.checkpoints import Checkpoints
from treering.trusted.ledger.codec.events import codec
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.journal import Recovered, recover
from treering.trusted.ledger.ledger import Ledger, reading, rows_of
from treering.trusted.ledger.lines import ROWS, Entry, SecretValue, check, opened
from treering.trusted.ledger.record import Origin, Record
from treering.trusted.rows.parts import Stored
from treering.trusted.rows.spool import Form
from treering.trusted.sealed import Sealed

if TYPE_CHECKING:
    from treering.trusted.rows.persons import Persons

Notes: TypeAlias = tuple[type[Any], ...]
"""The classes of mechanisms' notes, and of what notes hold: those that a line may name beside the gate's events."""

PERSON_KEY: Final = "persons"
"""The name, among the secrets, of the key of digests of persons and keys."""


def limit_of(record: Record, secrets: Mapping[str, SecretValue]) -> Callable[[], Persons] | None:
    """Makes the limit of rows a person, with the vault's own key and no rows counted; None where there is no such
    limit."""
    origin = record.origin
    if origin.person is None:
        return None
    key = bytes.fromhex(opened(PERSON_KEY, origin.commitment, secrets))
    return partial(registry.part("Persons"), origin.person, origin.promise.rows_per_person, key)


def keys_of(record: Record, secrets: Mapping[str, SecretValue]) -> Callable[[], Persons] | None:
    """Makes what digests keys of rows, with a key of its own; None where rows have none."""
    origin = record.origin
    if origin.key is None:
        return None
    whole = bytes.fromhex(opened(PERSON_KEY, origin.commitment, secrets))
    return partial(registry.part("Persons"), origin.key, 0, blake2b(b"keys of rows", key=whole).digest(), "key")


def form_of(record: Record) -> Form:
    """What the vault keeps of its rows."""
    origin = record.origin
    return Form(origin.schema, persons=origin.person is not None, keys=origin.key is not None)


def account(budget: Budget, events: tuple[Event, ...], aside: Fraction = Fraction(1)) -> Charges:
    """What a history has cost each row: all of it public."""
    charges = Charges(budget, aside)
    for event in events:
        follow(event, charges)
    return charges


class Verified(NamedTuple):
    """What `Reading.verify` has found to be as it was written."""

    record: Record
    head_found: bool | None
    events: list[tuple[Event, ...]]
    """All events of each mechanism, from its first line on."""


class Reading:
    """The record of the vault in a folder, as it is at each call. Never blocked by a writer, and never blocks one."""

    def __init__(self, path: str | PathLike[str], notes: Notes) -> None:
        self._folder, self._notes = Folder(path), notes
        self._folder.check()

    def record(self) -> Record:
        """All lines, checked and sorted."""
        with reading(self._folder.ledger) as connection:
            return Record.of(check(rows_of(connection)), self._folder)

    def events(self, record: Record) -> list[tuple[Event, ...]]:
        """The events of each mechanism, from its last readable checkpoint on. Of easy comparisons that a running writer
        has not recorded yet, all that are leased count."""
        return [_events(each) for each in self._recovered(record, Checkpoints(self._folder.checkpoints))]

    def origin(self) -> Origin:
        """How the vault was created."""
        with reading(self._folder.ledger) as connection:
            return Record.of(islice(check(rows_of(connection)), 1), self._folder).origin

    def lines(self) -> Iterator[Entry]:
        """Every line, checked."""
        with reading(self._folder.ledger) as connection:
            yield from check(rows_of(connection))

    def batches(self, after: int = 0) -> list[Entry]:
        """The lines of appends whose number is above ``after``. They are not checked: `verify` does that."""
        with reading(self._folder.ledger) as connection:
            return [entry for entry in rows_of(connection, after) if entry.kind == ROWS]

    def verify(self, head: str | None = None, size: int | None = None) -> Verified:
        """Check the chain of hashes, every row, part and secret, and that no row has paid more than a mechanism's
        share. ``size`` is the number of rows that a writer has in memory.

        ``head`` is the hash of a line, noted earlier. Raises `DamagedVault` if anything is wrong.
        """
        if head is not None and not (isinstance(head, str) and len(head.strip()) == 64):
            raise ParameterError("head", "must be one that status() showed: 64 hexadecimal digits")
        state = self._state()
        record = state.record
        if head is not None and head.strip().lower() not in state.heads:
            raise DamagedVault(
                "the ledger never had this head: the vault was set back to an earlier state, or it is another vault. "
                "If it answered in between, its promise no longer holds"
            )
        limit = limit_of(record, state.secrets)
        state.stored.check(None if limit is None else limit())
        if size is not None and size != record.size:
            raise DamagedVault("there are other rows in memory than on record: open the vault again")
        whole = self._recovered(record, None)
        origin = record.origin
        for number, (spec, each) in enumerate(zip(record.specs, whole, strict=True)):
            account(origin.budget(spec), _events(each), origin.aside(number)).catch_up()
            for name, promised in each.commitments.items():
                opened(name, promised, state.secrets)
        return Verified(record, None if head is None else True, list(map(_events, whole)))

    def _recovered(self, record: Record, checkpoints: Checkpoints | None) -> list[Recovered]:
        lenses = [record.lens(spec.name) for spec in record.specs]
        pairs = zip(record.lines, lenses, strict=True)
        return [recover(lines, codec(lens, self._notes), checkpoints) for lines, lens in pairs]

    def _state(self) -> _State:
        """One state of the vault. A part that is missing may have been replaced since the ledger was read: then the
        ledger says so now."""
        before: bytes | None = None
        while True:
            with reading(self._folder.ledger) as connection:
                entries = list(check(rows_of(connection)))
                ledger = Ledger(connection)
                secrets, tail = dict(ledger.secrets()), list(ledger.tail())
            record = Record.of(entries, self._folder)
            try:
                stored = Stored(self._folder.parts, form_of(record), record.batches, record.parts, secrets, tail)
            except DamagedVault:
                if record.head == before:
                    raise
                before = record.head
            else:
                return _State(record, {entry.hash.hex() for entry in entries}, secrets, stored)


def _events(recovered: Recovered) -> tuple[Event, ...]:
    return (*recovered.events, *recovered.lost)


@dataclass(frozen=True, repr=False, eq=False)
class _State(Sealed):
    """PRIVATE: one state of a vault: its lines, its secrets, and its rows with the files that hold them, open."""

    record: Record
    heads: set[str]
    secrets: dict[str, SecretValue]
    stored: Stored
