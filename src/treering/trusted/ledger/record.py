"""The record: the lines of a ledger sorted into the vault's origin, mechanisms, batches, parts and idempotency keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from treering.budget.promise import Budget, Promise
from treering.domain.axis import refines
from treering.domain.schema import Schema
from treering.errors import DamagedVault
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.gone import Gone
from treering.trusted.ledger.lines import (
    CHECKPOINT,
    CREATED,
    ERASED,
    ERASING,
    EVENT,
    LEASE,
    MECHANISM,
    PART,
    REFINED,
    REWRITTEN,
    ROWS,
    Entry,
    Line,
    body,
)
from treering.trusted.ledger.named import BatchList, Part, PartList
from treering.trusted.ledger.shares import Shares, Spec


@dataclass(frozen=True, slots=True)
class Origin:
    """How a vault was created: the first line of its ledger, which never changes."""

    identity: str
    schema: Schema
    promise: Promise
    person: str | None = None
    source: Mapping[str, str] | None = None
    """The table in an engine where the rows stay: its ``address`` ("": none), ``identity`` and ``order`` column."""
    commitment: str = ""
    """The commitment to the key of digests of persons and keys, if there is one."""
    name: str = "rows"
    """What the table is called, in SQL for example."""
    called: bool = False
    """Whether the steward gave it that name; otherwise it is the folder's."""
    key: str | None = None
    """The column that says which row is which, if there is one."""

    def line(self) -> Line:
        """The first line of a ledger."""
        promise = self.promise
        return Line(
            CREATED,
            body(
                identity=self.identity,
                schema=self.schema.to_dict(),
                epsilon=str(Fraction(str(promise.epsilon))),
                delta=str(Fraction(str(promise.delta))),
                rows_per_person=promise.rows_per_person,
                aside=str(Fraction(str(promise.aside))),
                person=self.person,
                source=None if self.source is None else dict(self.source),
                name=self.name,
                called=self.called,
                key=self.key,
            ),
            commitment=self.commitment,
        )

    @classmethod
    def of(cls, line: Line) -> Origin:
        """The origin that the first line states."""
        plain = line.plain()
        epsilon, delta, aside = (Fraction(plain[name]) for name in ("epsilon", "delta", "aside"))
        promise = Promise(epsilon, delta or 0.0, plain["rows_per_person"], aside=aside)
        schema = Schema.from_dict(plain["schema"])
        rest = (plain[name] for name in ("name", "called", "key"))
        return cls(plain["identity"], schema, promise, plain["person"], plain["source"], line.commitment, *rest)

    def budget(self, spec: Spec) -> Budget:
        """The budget that a mechanism's share is."""
        return self.promise.budget.share(spec.share)

    def aside(self, number: int) -> Fraction:
        """What a mechanism, by its number, has of what is set aside for discoveries: the first has all of it."""
        return Fraction(0) if number else self.promise.failure


def mechanism_line(new: Spec, lowered: Mapping[str, Fraction]) -> Line:
    """The line of the ledger that adds a mechanism, with the shares that were lowered for it."""
    moved = {name: str(share) for name, share in lowered.items()}
    return Line(MECHANISM, body(**new.to_dict(), **({"shares": moved} if moved else {})))


def refined_line(schema: Schema, following: Sequence[str]) -> Line:
    """The line of the ledger with the next version of the schema, and the mechanisms that see the rows through it."""
    return Line(REFINED, body(schema=schema.to_dict(), following=list(following)))


@dataclass(slots=True)
class Record:
    """A fold over the lines of a ledger: public."""

    origin: Origin
    created: int
    """When the vault was created, in microseconds since 1970."""
    schema: Schema
    """The newest version of the schema."""
    versions: int = 1
    """How many versions of the schema there were."""
    lenses: dict[str, Schema] = field(default_factory=dict)
    """The version that a mechanism keeps, by its name, for those that do not follow the newest."""
    shares: Shares = field(default_factory=Shares)
    batches: BatchList = field(default_factory=BatchList)
    parts: PartList = field(default_factory=PartList)
    gone: Gone = field(default_factory=Gone)
    """The positions of rows that were erased."""
    changed: bool = False
    """Whether any row was erased or corrected."""
    coming: int = 0
    """The number of the last part that may be there without a line."""
    lines: list[list[Entry]] = field(default_factory=list)
    """The lines of each mechanism: events, leases and checkpoints."""
    checkpoints: list[Line] = field(default_factory=list)
    keys: dict[str, Line | Entry] = field(default_factory=dict)
    """For each idempotency key, the line that it was used for, as a `Line` or as read from the ledger."""
    head: bytes = b""
    seq: int = 0

    @classmethod
    def of(cls, entries: Iterable[Entry], folder: Folder) -> Record:
        """The record of the lines of the ledger in this folder."""
        rest = iter(entries)
        first = next(rest, None)
        if first is None or first.line.kind != CREATED:
            raise folder.unfinished()
        origin = Origin.of(first.line)
        record = cls(origin, first.time, origin.schema, head=first.hash, seq=first.seq)
        for entry in rest:
            record.add(entry)
        return record

    @property
    def size(self) -> int:
        """The number of rows that ever came: that of the last position."""
        return self.batches.size

    @property
    def rows(self) -> int:
        """The number of rows that are there."""
        return self.size - len(self.gone)

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The mechanisms, with the shares that they have now."""
        return self.shares.specs

    def add(self, entry: Entry) -> None:
        """Add the next line."""
        kind = entry.kind
        if kind == ROWS:
            self.batches.learn(entry)
        elif kind in (EVENT, LEASE, CHECKPOINT):
            self.lines[entry.mechanism].append(entry)
            if kind == CHECKPOINT:
                self.checkpoints.append(entry.line)
        elif kind == MECHANISM:
            self._add_mechanism(entry.line.plain())
        elif kind == PART:
            self.parts.add(Part.of(entry))
        elif kind in (ERASING, ERASED, REWRITTEN):
            self._change(kind, entry)
        elif kind == REFINED:
            plain = entry.line.plain()
            self.refine(Schema.from_dict(plain["schema"]), plain["following"])
        if entry.key:
            if entry.key in self.keys:
                raise DamagedVault(f"the idempotency key {entry.key!r} is on record twice: restore a backup")
            self.keys[entry.key] = entry
        self.head, self.seq = entry.hash, entry.seq

    def lens(self, name: str) -> Schema:
        """The version of the schema that a mechanism sees."""
        return self.lenses.get(name, self.schema)

    def refine(self, schema: Schema, following: Sequence[str]) -> None:
        """Take up the next version of the schema; mechanisms other than those ``following`` keep theirs."""
        if not refines(schema, self.schema):
            raise DamagedVault("a version of the schema on record does not refine the one before: restore a backup")
        for spec in self.specs:
            if spec.name not in following:
                self.lenses.setdefault(spec.name, self.schema)
        self.schema = schema
        self.versions += 1

    def _change(self, kind: str, entry: Entry) -> None:
        plain = entry.line.plain()
        if kind == ERASING:
            self.coming = self.parts.last + plain["parts"]
        elif kind == ERASED:
            self.gone.add(plain["gone"])
            self.changed = True
        else:
            self.batches.rewrite(plain["batch"], entry.commitment)

    def _add_mechanism(self, plain: Mapping[str, Any]) -> None:
        new = Spec.from_dict(plain)
        lowered = {name: Fraction(share) for name, share in plain.get("shares", {}).items()}
        if problem := self.shares.problem(new, lowered):
            raise DamagedVault(f"{problem}: restore a backup")
        self.shares.add(new, lowered)
        self.lines.append([])
