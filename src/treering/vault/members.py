"""The mechanisms of a vault, side by side under one promise, and the database that each of them sees.

A writer's database is the store's; a reader's is the public record alone (`Shown`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget
from treering.domain.language.parse import understand_all
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, TreeringError
from treering.gate import Event
from treering.mechanisms.base import Answering
from treering.mechanisms.rings import Rings
from treering.protocols import Gate
from treering.trusted.store import Record, Spec, Store, account
from treering.vault.kinds import build

_REPLAYED: Final = 2**29
"""A checkpoint is due when replaying the events since the last would take a quarter of a second, the time that moving
this many cells takes."""

_EVENT: Final = 2**17
"""Reading an event takes as long as moving this many cells of a histogram: some 30 microseconds."""

_WORTHWHILE: Final = 1 / 8
"""On close, make a checkpoint once the debt is above this fraction of what makes one due."""


@dataclass(slots=True)
class Member:
    """A mechanism of a vault, as the ledger specifies it."""

    spec: Spec
    mechanism: Answering
    fresh: Callable[[], int]
    """The number of its events since the last checkpoint."""

    @classmethod
    def of(cls, spec: Spec, store: Store) -> Member:
        """The mechanism with this specification, which continues where its journal ends."""
        mechanism = build(spec, store.database(spec.name), store.origin.promise)
        return cls(spec, mechanism, lambda: store.fresh(spec.name))

    def seen(self, queries: Sequence[Query]) -> list[Query]:
        """The queries as the mechanism sees them: rings look at rows through any lens, others through the version of
        the schema that they were opened with. Refused if that does not tell them."""
        if isinstance(self.mechanism, Rings):
            return list(queries)
        return understand_all(queries, self.mechanism.schema)

    @property
    def debt(self) -> float:
        """The work of replaying the events since the last checkpoint, as a fraction of what makes a checkpoint due."""
        moved = self.mechanism.backlog
        return 0.0 if moved is None else (moved + self.fresh() * _EVENT) / _REPLAYED

    def condense(self, *, closing: bool = False) -> None:
        """Make a checkpoint, if one is due."""
        if self.debt > (_WORTHWHILE if closing else 1):
            self.mechanism.condense()


def chosen(members: Iterable[Member], name: str | None) -> tuple[int, Member]:
    """The mechanism of this name and its number; for None, the first that answers queries."""
    listed = list(members)
    for number, member in enumerate(listed):
        if member.spec.name == name or (name is None and member.mechanism.answers):
            return number, member
    if name is None:
        raise ParameterError("mechanism", "must be added first: this vault has none that answers queries")
    names = ", ".join(member.spec.name for member in listed) or "none"
    raise ParameterError("mechanism", f"{name!r} is not in this vault; there are: {names}")


def fitting(
    members: Sequence[Member], name: str | None, asked: Sequence[Query], within: float | None
) -> tuple[int, Member]:
    """The mechanism that answers a batch, and its number: the one of this name; for None, of those that know the
    answers already the one with the smallest margins; or else one in which the question is paid for already; or else
    rings, or else the first. With a wish: of those that know the answers well enough the one with the smallest margins;
    or else, of those whose answers will be sharp enough, the cheapest.

    All of that is public, and nothing is asked: prices, margins that are promised, and margins of answers that follow
    from earlier releases.
    """
    able = [(number, member) for number, member in enumerate(members) if member.mechanism.answers]
    if name is not None or len(able) < 2:
        number, member = chosen(members, name)
    else:
        number, member = min(able, key=lambda each: _rank(each[1], asked, within))
    member.seen(asked)  # Refused here, before anything is charged.
    return number, member


def measuring(members: Sequence[Member], name: str | None) -> tuple[int, Member, Rings]:
    """The mechanism that answers a request for sums and the like, and its number: the one of this name, or the first
    that can."""
    for number, member in enumerate(members):
        if isinstance(member.mechanism, Rings) and name in (None, member.spec.name):
            return number, member, member.mechanism
    if name is not None:
        chosen(members, name)  # Says which mechanisms there are.
    raise ParameterError("mechanism", "must be of kind 'rings', which keeps sums; add one: vault.add('rings', share)")


def keeps_sums(members: Sequence[Member], name: str | None) -> bool:
    """Whether the mechanism of this name, or any, keeps sums."""
    return any(isinstance(member.mechanism, Rings) and name in (None, member.spec.name) for member in members)


def telling(
    members: Sequence[Member], name: str | None, queries: Sequence[Query] | None, within: float | None
) -> tuple[int, Member, Rings] | None:
    """The rings that tell the numbers of a statement. None if another mechanism answers them, which are ``queries``
    then: see `fitting`."""
    if queries is not None and not isinstance(fitting(members, name, queries, within)[1].mechanism, Rings):
        return None
    return measuring(members, name)


def _rank(member: Member, asked: Sequence[Query], within: float | None) -> tuple[int, float, bool]:
    """How well a mechanism suits a batch: smaller is better."""
    mechanism, other = member.mechanism, member.spec.kind != "rings"
    try:
        asked = member.seen(asked)
        known = mechanism.known_within(asked, within)
        if known is not None:
            return 0, max((answer.margin for answer in known), default=0.0), other
        if within is not None:
            return 1, float(mechanism.price_within(asked, within)), other
        if len(asked) == 1 and mechanism.price_many(asked) == 0:
            return 1, 0.0, other
    except TreeringError:  # It cannot answer now, or not sharply enough, and comes last.
        return 3, 0.0, other
    return 2, 0.0, other


# -- mechanisms of a reader --------------------------------------------------------------------------------------------


def shown(record: Record, events: Iterable[tuple[Event, ...]]) -> list[Answering]:
    """The mechanisms in their state on record, from public values only: for readers."""
    size = record.size
    promise = record.origin.promise
    return [
        build(spec, Shown(record.lens(spec.name), size, each), promise)
        for spec, each in zip(record.specs, events, strict=True)
    ]


class Shown:
    """The database of one mechanism as a reader sees it: the public record, and nothing private."""

    def __init__(self, schema: Schema, size: int, events: tuple[Event, ...]) -> None:
        self.schema = schema
        self.size = size
        self._events = events

    def open_gate(self, budget: Budget) -> Gate:
        """A gate that shows what was released, and releases nothing more."""
        return _ShownGate(self.schema, self.size, budget, self._events)

    def watch(self, grown: Callable[[], None]) -> None:
        """Does nothing: a reader's database does not grow."""


class _ShownGate(RecordedGate):
    def __init__(self, schema: Schema, size: int, budget: Budget, events: tuple[Event, ...]) -> None:
        super().__init__(schema, size, budget, events)
        charges = account(budget, events)
        self._given, self._spent, self._ledger = len(events), charges.spent, charges.ledger

    def left(self, position: int) -> Fraction:
        """What the row at this position may still be charged, by the record."""
        return self._ledger.left(position)
