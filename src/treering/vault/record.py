"""The record: the lines of a ledger sorted into the vault's origin, mechanisms, batches, parts and idempotency keys."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Final

from treering.answer import Answer, Estimate
from treering.budget.promise import Promise
from treering.domain.language.measures import Release, Request
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import DamagedVault, KeyUsed, ParameterError
from treering.trusted.ledger.codec.queries import write_query
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.lines import (
    ANSWERS,
    CHECKPOINT,
    CREATED,
    EVENT,
    LEASE,
    MECHANISM,
    PART,
    ROWS,
    Entry,
    Line,
    SecretValue,
    body,
    opened,
)
from treering.trusted.ledger.named import Batch, BatchList, Part, PartList
from treering.trusted.rows.persons import Persons
from treering.trusted.rows.spool import Form
from treering.vault.kinds import Spec, with_shares

PERSON_KEY: Final = "persons"
"""The name, among the secrets, of the key of persons' digests."""


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
    """The commitment to the key of persons' digests, if there is one."""

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
                person=self.person,
                source=None if self.source is None else dict(self.source),
            ),
            commitment=self.commitment,
        )

    @classmethod
    def of(cls, line: Line) -> Origin:
        """The origin that the first line states."""
        plain = line.plain()
        promise = Promise(Fraction(plain["epsilon"]), Fraction(plain["delta"]) or 0.0, plain["rows_per_person"])
        schema = Schema.from_dict(plain["schema"])
        return cls(plain["identity"], schema, promise, plain["person"], plain["source"], line.commitment)


@dataclass(slots=True)
class Record:
    """A fold over the lines of a ledger."""

    origin: Origin
    created: int
    """When the vault was created, in microseconds since 1970."""
    specs: list[Spec] = field(default_factory=list)
    batches: BatchList = field(default_factory=BatchList)
    parts: PartList = field(default_factory=PartList)
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
        record = cls(Origin.of(first.line), first.time, head=first.hash, seq=first.seq)
        for entry in rest:
            record.add(entry)
        return record

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.batches.size

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
            plain = entry.line.plain()
            shares = {name: Fraction(share) for name, share in plain.get("shares", {}).items()}
            self.specs[:] = with_shares(self.specs, shares)
            self.specs.append(self._checked(Spec.from_dict(plain)))
            self.lines.append([])
        elif kind == PART:
            self.parts.add(Part.of(entry))
        if entry.key:
            if entry.key in self.keys:
                raise DamagedVault(f"the idempotency key {entry.key!r} is on record twice: restore a backup")
            self.keys[entry.key] = entry
        self.head, self.seq = entry.hash, entry.seq

    def _checked(self, new: Spec) -> Spec:
        """A mechanism that may stand beside those before it."""
        if new.name in {each.name for each in self.specs}:
            raise DamagedVault(f"two mechanisms on record are called {new.name!r}: restore a backup")
        if sum(each.share for each in self.specs) + new.share > 1:
            raise DamagedVault("the shares of the mechanisms on record exceed the whole promise: restore a backup")
        return new


def limit_of(record: Record, secrets: Mapping[str, SecretValue]) -> Callable[[], Persons] | None:
    """Makes the limit of rows a person, with the vault's own key and no rows counted; None where there is no such
    limit."""
    if record.origin.person is None:
        return None
    key = bytes.fromhex(opened(PERSON_KEY, record.origin.commitment, secrets))
    return partial(Persons, record.origin.person, record.origin.promise.rows_per_person, key)


def form_of(origin: Origin) -> Form:
    """What the vault keeps of its rows."""
    return Form(origin.schema, persons=origin.person is not None)


# -- idempotency keys --------------------------------------------------------------------------------------------------


def question(queries: Sequence[Query], mechanism: str) -> str:
    """A digest of the queries and the mechanism: an idempotency key is for one question."""
    text = json.dumps([mechanism, [write_query(query) for query in queries]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def answers_line(key: str, asked: str, mechanism: int, answers: Sequence[Answer]) -> Line:
    """The line that records the answers given under a key."""
    plain = [[answer.value, answer.error, answer.size, answer.kind, answer.margin] for answer in answers]
    return Line(ANSWERS, body(asked=asked, answers=plain), mechanism, key)


def recorded_answers(line: Line | Entry, asked: str) -> list[Answer]:
    """The answers recorded under a key; refused if the key was used for something else."""
    plain = json.loads(line.body)
    if line.kind != ANSWERS or plain["asked"] != asked:
        raise KeyUsed(line.key, "a new question")
    return [Answer(*each) for each in plain["answers"]]


def requested(request: Request, mechanism: str) -> str:
    """A digest of a request and the mechanism: an idempotency key is for one request."""
    plain = [mechanism, [repr(each) for each in request.measures], list(request.by), write_query(request.where)]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def release_line(key: str, asked: str, mechanism: int, release: Release) -> Line:
    """The line that records the estimates given under a key; an end without a bound is null."""
    rows = [[_written(each) for each in row] for row in release.rows]
    return Line(ANSWERS, body(asked=asked, size=release.size, estimates=rows), mechanism, key)


def _written(estimate: Estimate) -> list[float | None]:
    ends = [None if math.isinf(end) else end for end in (estimate.low, estimate.high)]
    return [estimate.value, *ends, estimate.error]


def recorded_release(line: Line | Entry, asked: str, request: Request) -> Release:
    """The estimates recorded under a key; refused if the key was used for something else."""
    plain = json.loads(line.body)
    if line.kind != ANSWERS or plain["asked"] != asked:
        raise KeyUsed(line.key, "a new question")
    rows = tuple(tuple(_estimate(*each) for each in row) for row in plain["estimates"])
    return Release(request, plain["size"], rows)


def _estimate(value: float | None, low: float | None, high: float | None, error: float | None) -> Estimate:
    return Estimate(value, -math.inf if low is None else low, math.inf if high is None else high, error)


def recorded_batch(line: Line | Entry) -> Batch:
    """The rows that were appended under a key; refused if the key was used for something else."""
    if line.kind != ROWS:
        raise KeyUsed(line.key, "new rows")
    return Batch.of(line)


def check_key(key: str | None) -> None:
    """Refuse an invalid idempotency key."""
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= 200 or not key.isprintable()):
        raise ParameterError("key", "must be a printable text of 1 to 200 characters")


def options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """A mechanism's options as JSON values; refused if they cannot be written as JSON."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(options), allow_nan=False))
    except (TypeError, ValueError):
        raise ParameterError("options", "must be numbers, texts, and lists of them: the ledger keeps them") from None
    return plain
