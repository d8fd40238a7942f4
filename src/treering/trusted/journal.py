"""The journal of one kernel: public events, and secrets in a part of their own, written before anything is released.

A durable journal (``vault/journal.py``) makes each transaction one commit; `MemoryJournal` keeps its events in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Protocol, TypeGuard

from treering.gate import (
    Advanced,
    Compared,
    Condensed,
    Event,
    RunEnded,
    RunStarted,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
)
from treering.trusted.sealed import Sealed


class Secret(Sealed):
    """An integer as sensitive as the rows: a run's threshold noise."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


class Journal(Protocol):
    """Where a kernel writes. The events of a transaction become durable together, at its end, even if it ends in an
    error."""

    def write(self, event: Event) -> None:
        """Record an event. One that ends a run also destroys the run's secret.

        `SegmentCondensed` replaces the earlier releases of its segment, `SegmentEnded` all earlier events of its
        segment, and `Condensed` all earlier events: `events` need not return them.
        """

    def begin(self, event: RunStarted, secret: Secret) -> None:
        """Record the start of a run, and its secret in the private part."""

    def ending(self, run: int) -> None:
        """A run is over, and the event that ends it is written next. Where that does not happen (an interrupt, no
        memory), the record has the run in progress, and must not go on from there: who asked may know that it is over.
        """

    def events(self) -> Sequence[Event]:
        """The public part, oldest first."""

    def secret(self, run: int) -> Secret:
        """The secret of a run that is not over."""

    def transaction(self) -> AbstractContextManager[None]:
        """Group what is written into one durable step."""


class MemoryJournal(Sealed):
    """A journal that lives as long as its process."""

    __slots__ = ("__weakref__", "_events", "_secrets")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._secrets: dict[int, Secret] = {}

    def write(self, event: Event) -> None:
        """Record an event. Consecutive easy comparisons are kept as one event, so that free answers need no memory."""
        if isinstance(event, Advanced):  # By far the most events of a long life, when it is read back.
            self._events.append(event)
            return
        last = self._events[-1] if self._events else None
        if is_easy(event) and is_easy(last) and (event.run, event.size) == (last.run, last.size):
            self._events[-1] = replace(last, asked=last.asked + event.asked)
            return
        if isinstance(event, Condensed):
            self._events = [event]
        elif isinstance(event, SegmentCondensed | SegmentEnded):
            # In one step: an interrupt must not lose what is replaced.
            self._events = [*(each for each in self._events if not _replaces(event, each)), event]
        else:
            self._events.append(event)
        if ends_run(event):
            self._secrets.pop(event.run, None)  # An interrupt may have kept it from being there.

    def begin(self, event: RunStarted, secret: Secret) -> None:
        """Record the start of a run, and its secret in the private part."""
        self._events.append(event)
        self._secrets[event.run] = secret

    def ending(self, run: int) -> None:
        """Does nothing: who goes on from events in memory calls `treering.protocols.Gate.mend` first."""

    def events(self) -> Sequence[Event]:
        """The public part, oldest first."""
        return tuple(self._events)

    def secret(self, run: int) -> Secret:
        """The secret of a run that is not over."""
        return self._secrets[run]

    def transaction(self) -> AbstractContextManager[None]:
        """Does nothing: events in memory are never durable."""
        return nullcontext()


def live_runs(events: Iterable[Event]) -> set[int]:
    """The runs in progress at the end of a history."""
    live: set[int] = set()
    for event in events:
        if isinstance(event, Condensed):
            live = {run.run for run in event.runs}
        elif isinstance(event, RunStarted):
            live.add(event.run)
        elif ends_run(event):
            live.discard(event.run)
    return live


def ends_run(event: Event) -> TypeGuard[RunEnded | Compared]:
    """Whether an event is a run's last."""
    return isinstance(event, RunEnded) or (isinstance(event, Compared) and event.crossing is not None)


def _replaces(event: SegmentCondensed | SegmentEnded, earlier: Event) -> bool:
    """Whether an event stands for an earlier one."""
    if isinstance(event, SegmentEnded) and isinstance(earlier, SegmentBegun):
        return earlier.segment == event.segment
    return isinstance(earlier, Advanced | SegmentCondensed) and earlier.segment == event.segment


def is_easy(event: Event | None) -> TypeGuard[Compared]:
    """Whether an event is easy comparisons only, all below the threshold: they are free, and their run goes on."""
    return isinstance(event, Compared) and event.crossing is None
