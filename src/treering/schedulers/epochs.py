"""Epochs: what a scheduler writes down when it reruns its box, and what it knows from that.

The record of an epoch is `EpochBegan`, the reservation with what the box asked for in it, and then `EpochOpened` or
`EpochFailed`. A record that stops before its end is that of an epoch whose run never finished. A release that turns out
to be broken when it is asked fails its epoch later on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from treering.budget.promise import Budget
from treering.errors import TreeringError
from treering.gate import Event, Noted, ReservationEnded, Reserved

UNFINISHED: Final = "its run has not finished"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One rerun of the box. Everything in it is public."""

    index: int
    """Its number in the schedule. Epochs that a batch jumped over have none here, and their budget is unspent."""
    size: int
    """The size of the database that the box was run on."""
    epsilon: float | None
    """What was charged for it if the box ran under pure differential privacy."""
    rho: float | None
    """What was charged for it if the box ran under zCDP. (Neither: the box could not even be started.)"""
    beta: float
    """The chance that one of its errors does not hold."""
    alpha: float
    """The error that the box's answers keep to at this size."""
    error: str | None = None
    """Why it answers nothing; None if it does."""


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """A note: the box is about to run."""

    index: int
    size: int
    until: int
    """The size at which the epoch after it is due."""
    beta: float
    alpha: float


@dataclass(frozen=True, slots=True)
class EpochOpened:
    """A note: the box has released something to answer from."""

    index: int


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """A note: the box has raised, or released something unusable."""

    index: int
    message: str


class Timeline:
    """All epochs so far: a fold over the gate's history, so that a replayed scheduler has the live one's."""

    def __init__(self, history: Iterable[Event] = ()) -> None:
        self._epochs: list[Epoch] = []
        self.until = 0
        """The size at which the next one is due."""
        for event in history:
            self.follow(event)

    def follow(self, event: Event) -> None:
        """Take in what has happened. The events within a run say nothing about its epoch."""
        if isinstance(event, Reserved) and self._epochs:
            self._epochs[-1] = _charged(self._epochs[-1], event.part)
        elif isinstance(event, Noted):
            note = event.note
            if isinstance(note, EpochBegan):
                self._epochs.append(Epoch(note.index, note.size, None, None, note.beta, note.alpha, UNFINISHED))
                self.until = note.until
            elif isinstance(note, EpochOpened):
                self._settle(note.index, None)
            elif isinstance(note, EpochFailed):
                self._settle(note.index, note.message)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """Oldest first, failed ones included."""
        return tuple(self._epochs)

    @property
    def last(self) -> Epoch | None:
        """The latest one."""
        return self._epochs[-1] if self._epochs else None

    @property
    def start(self) -> int | None:
        """The size at which the first one was opened: what the schedule starts from."""
        return self._epochs[0].size if self._epochs else None

    @property
    def standing(self) -> Epoch | None:
        """The latest one that has not failed."""
        return next((epoch for epoch in reversed(self._epochs) if epoch.error is None), None)

    def _settle(self, index: int, error: str | None) -> None:
        place = next(place for place in reversed(range(len(self._epochs))) if self._epochs[place].index == index)
        self._epochs[place] = replace(self._epochs[place], error=error)


def _charged(epoch: Epoch, part: Budget) -> Epoch:
    amount = float(part.total)
    return replace(epoch, epsilon=amount) if part.kind == "pure" else replace(epoch, rho=amount)


def record_of(history: Sequence[Event], index: int) -> tuple[Budget, Sequence[Event]]:
    """What an epoch's run could spend, and what the gate gave it: all between the reservation's two ends."""
    began = next(place for place in reversed(range(len(history))) if _begins(history[place], index))
    reserved = history[began + 1] if began + 1 < len(history) else None
    if not isinstance(reserved, Reserved):
        raise TreeringError(f"the record of epoch {index} is damaged: nothing was reserved for it")
    events: list[Event] = []
    for event in history[began + 2 :]:
        if isinstance(event, ReservationEnded):
            break
        events.append(event)
    return reserved.part, events


def _begins(event: Event, index: int) -> bool:
    return isinstance(event, Noted) and isinstance(event.note, EpochBegan) and event.note.index == index
