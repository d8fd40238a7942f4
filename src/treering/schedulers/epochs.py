"""Epochs: the reruns of a scheduler's box, opened when they are due, recorded in the journal, and replayed from it.

- `Epoch`, `Timeline`: the epochs so far. The record of an epoch in the journal is `EpochBegan`, the reservation with
  the events of the box's run in it, and then `EpochOpened` or `EpochFailed`. A record without its end is that of a run
  that never finished. A release that turns out to be broken when it is asked fails its epoch later on.
- `Timetable`: the interface of a schedule; `treering.theory.schedule` makes them.
- `check`, `shares`, `rebuild`: the release of a box, checked: a box may be the user's own program, and may return
  anything.
- `Supply`: which box runs in which epoch.
- `Keeper`: opens each epoch when it is due, records it, and knows which one answers now.

Threads. The gate's lock, and no other, is held while an epoch is opened: rows that arrive meanwhile wait, and so does a
query that needs the new epoch. Answers come from one immutable value, `Present`, which is published after the gate's
transaction has ended, that is, when everything in it is durable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from treering.arrays import Floats
from treering.boxes.base import Box, Progress, Release
from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, QueryError, TreeringError
from treering.gate import Event, Noted, ReservationEnded, Reserved
from treering.protocols import Gate
from treering.words import counted

UNFINISHED: Final = "its run has not finished"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One rerun of the box. Everything in it is public."""

    index: int
    """The epoch's number in the schedule. Numbers that a batch jumped over are missing; their budget is unspent."""
    size: int
    """The size of the database that the box was run on."""
    epsilon: float | None
    """What was charged if the box ran under pure differential privacy."""
    rho: float | None
    """What was charged if the box ran under zCDP. (If both are None, the box could not be started.)"""
    beta: float
    """The probability that some answer is outside its error."""
    alpha: float
    """The bound on the errors of the box's answers at this size."""
    error: str | None = None
    """Why this epoch answers no queries; None if it does."""


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """NOTE: the box is about to run."""

    index: int
    size: int
    until: int
    """The size at which the next epoch is due."""
    beta: float
    alpha: float


@dataclass(frozen=True, slots=True)
class EpochOpened:
    """NOTE: the box has made a release, which answers from now on."""

    index: int


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """NOTE: the box has raised, or its release is unusable."""

    index: int
    message: str


class Timeline:
    """All epochs so far: a fold over the gate's history, so that replay gives the same epochs."""

    def __init__(self, history: Iterable[Event] = ()) -> None:
        self._epochs: list[Epoch] = []
        self.until = 0
        """The size at which the next epoch is due."""
        for event in history:
            self.follow(event)

    def follow(self, event: Event) -> None:
        """Update the epochs by an event of the gate. The events of a box's run change nothing here."""
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
        """The epochs so far, oldest first, failed ones included."""
        return tuple(self._epochs)

    @property
    def last(self) -> Epoch | None:
        """The latest epoch, failed or not."""
        return self._epochs[-1] if self._epochs else None

    @property
    def start(self) -> int | None:
        """The size at which the first epoch was opened, where the schedule starts."""
        return self._epochs[0].size if self._epochs else None

    @property
    def standing(self) -> Epoch | None:
        """The latest epoch that has not failed."""
        return next((epoch for epoch in reversed(self._epochs) if epoch.error is None), None)

    def _settle(self, index: int, error: str | None) -> None:
        place = next(place for place in reversed(range(len(self._epochs))) if self._epochs[place].index == index)
        self._epochs[place] = replace(self._epochs[place], error=error)


def _charged(epoch: Epoch, part: Budget) -> Epoch:
    amount = float(part.total)
    return replace(epoch, epsilon=amount) if part.kind == "pure" else replace(epoch, rho=amount)


def record_of(history: Sequence[Event], index: int) -> tuple[Budget, Sequence[Event]]:
    """The budget of an epoch's run, and the events of the run: those between the two ends of its reservation."""
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


# -- the interface of a schedule ---------------------------------------------------------------------------------------


class ScheduledEpoch(Protocol):
    """One epoch of a schedule."""

    @property
    def index(self) -> int:
        """The epoch's number, from 0 on."""

    @property
    def size(self) -> int:
        """The size of the database at which the epoch is due."""

    @property
    def budget(self) -> Budget:
        """What the epoch's run may cost."""

    @property
    def beta(self) -> float:
        """The probability with which some answer may be outside its error."""

    @property
    def alpha(self) -> float:
        """The error that the box promises at that size."""


class Timetable(Protocol):
    """A schedule: when epochs open, and what each may cost, for all time to come."""

    @property
    def start(self) -> int:
        """The size at which epoch 0 opens."""

    def epoch(self, index: int) -> ScheduledEpoch:
        """The epoch with this number."""

    def index_at(self, size: int) -> int:
        """The number of the latest epoch that opens at this size or before."""

    def next_size(self, size: int) -> int:
        """The smallest size above this one at which an epoch opens."""

    def alpha_at(self, size: int) -> float:
        """The bound on the error of answers at this size, staleness included, if every epoch opens when it is due."""


# -- checked releases --------------------------------------------------------------------------------------------------


MOST_WORDS: Final = 500
"""How many characters of a box's error message are kept."""


class Broken(Exception):
    """A release that cannot be used. Raised and caught within ``schedulers``."""


def check(release: Any, schema: Schema, size: int) -> Release:
    """The release, if it is one about this schema and size and one test query raises nothing unexpected."""
    if not isinstance(release, Release):
        raise Broken(f"the box returned {type(release).__name__}, not a Release")
    if release.schema != schema:
        raise Broken("the box's release is about another schema")
    if release.size != size:
        raise Broken(f"the box's release is about {release.size!r} rows, not {size:,}")
    first = np.zeros(schema.shape[0], dtype=np.bool_)
    first[0] = True
    # The test query may be outside the box's class, which is no fault.
    with suppress(QueryError):
        shares(release, [Query.conjunction(schema, {0: first})])
    return release


def shares(release: Release, queries: Sequence[Query]) -> tuple[Floats, Floats]:
    """A release's shares and their errors, checked: finite numbers, one for each query, and no error below 0.

    Raises `QueryError` if a query is outside the box's class, and `Broken` if the release fails in any other way.
    """
    try:
        values, errors = release.shares(queries)
        return _numbers(values, len(queries), "shares"), _numbers(errors, len(queries), "errors", least=0.0)
    except (TreeringError, MemoryError, Broken):
        raise
    except Exception as error:
        raise Broken(f"the box's release could not answer: {describe(error)}") from error


def _numbers(values: Any, length: int, what: str, least: float = -np.inf) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (length,):
        raise Broken(f"the box's release gave {what} of shape {array.shape} for {counted(length, 'query', 'queries')}")
    if not (np.isfinite(array) & (array >= least)).all():
        raise Broken(f"the box's release gave {what} that are no finite numbers{'' if least < 0 else ' of at least 0'}")
    return array


def rebuild(box: Box, schema: Schema, history: Sequence[Event], epoch: Epoch) -> Release:
    """The release of a recorded epoch: the box, run again over the recorded events of the gate."""
    part, events = record_of(history, epoch.index)
    gate = RecordedGate(schema, epoch.size, part, events)
    try:
        return check(box.run(gate, part, epoch.alpha, epoch.beta), schema, epoch.size)
    except Exception as error:
        raise TreeringError(
            f"the release of epoch {epoch.index} cannot be made again from the record: {describe(error)}. "
            "It takes the same box, which must be a deterministic function of what the gate gives it"
        ) from error


def describe(error: BaseException) -> str:
    """An error as one line for the journal. A box sees public values only, so its messages are public."""
    text = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}".removesuffix(": ")
    return text if len(text) <= MOST_WORDS else text[:MOST_WORDS] + "…"


# -- the box of each epoch ---------------------------------------------------------------------------------------------


BoxOrFunction: TypeAlias = Box | Callable[[int], Box]
"""A box, or a function from an epoch's index to its box: then the query class may change from epoch to epoch. The
function must be deterministic, because replay calls it again."""


class Supply:
    """The boxes of a scheduler, bound to its schema and checked for the kind of its budgets."""

    def __init__(self, box: BoxOrFunction, schema: Schema, kind: BudgetKind) -> None:
        if not isinstance(box, Box) and not callable(box):
            raise ParameterError("box", f"must be a Box, or a function from an epoch to one, not {type(box).__name__}")
        self._schema = schema
        self._kind = kind
        self._box = box
        self.first = self.at(0)
        """The box of the first epoch, which the schedule is made for."""
        if isinstance(box, Box):
            self._box = self.first  # bound once: what it prepared then serves all epochs

    def at(self, index: int) -> Box:
        """The box of the epoch with this number."""
        box = self._box if isinstance(self._box, Box) else self._box(index)
        if not isinstance(box, Box):
            raise ParameterError("box", f"must give a Box for epoch {index}, not {type(box).__name__}")
        if self._kind == "pure" and box.kind == "zcdp":
            raise GuaranteeError(
                f"{type(box).__name__} is private under zCDP only, and would be given a pure epsilon: it needs "
                'delta > 0 and profile="tight", or else take a pure box'
            )
        return box.bind(self._schema)


# -- opening epochs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Present:
    """The epoch and release that answer until the database has ``until`` rows; ``order`` counts these values."""

    order: int = 0
    until: int = 0
    epoch: Epoch | None = None
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An epoch that is about to run: its box and budget are ``given``, or ``trouble`` says why it has none."""

    index: int
    given: tuple[Box, Budget] | None
    alpha: float
    beta: float
    trouble: str = ""


class Keeper:
    """Opens the epochs of a schedule over a gate, by running the box of each.

    ``plan`` makes the schedule for a starting size, or raises `GuaranteeError`. With ``own_alpha``, an epoch promises
    the error that its box proves for the size it runs at. Otherwise it promises the planned error, or the one that its
    box proves if that is larger, as a box's rate may not hold at all sizes of the schedule.
    """

    def __init__(
        self, gate: Gate, boxes: Supply, plan: Callable[[int], Timetable], progress: Progress, *, own_alpha: bool
    ) -> None:
        self._gate = gate
        self._boxes = boxes
        self._make_plan = plan
        self.progress = progress
        """What is called during long runs."""
        self._own_alpha = own_alpha
        self._publishing = Lock()
        self._busy = False
        self._timeline = Timeline(gate.history)
        self._plan: Timetable | None = None
        standing = self._timeline.standing
        release = None if standing is None else self._rebuild(standing)
        self._latest = self._present = Present(until=self._timeline.until, epoch=standing, release=release)

    @property
    def started(self) -> bool:
        """Whether the first epoch was opened, or failed to open."""
        return self._timeline.start is not None

    @property
    def plan(self) -> Timetable:
        """The schedule; before the first epoch, the one that would start now. Made on demand, as it takes a while."""
        start = self._timeline.start or self._gate.size
        if self._plan is None or self._plan.start != start:
            self._plan = self._make_plan(start)
        return self._plan

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The epochs so far, failed ones included."""
        return self._timeline.epochs

    @property
    def present(self) -> Present:
        """What answers come from, as of the last growth that the keeper has handled."""
        return self._present

    def promised(self, planned: ScheduledEpoch, size: int, box: Box | None = None) -> float:
        """The error that an epoch promises if it opens at this size with ``box``, by default the first epoch's."""
        own = (self._boxes.first if box is None else box).alpha(size, planned.budget, planned.beta)
        return own if self._own_alpha else max(own, planned.alpha)

    def due(self) -> Fraction:
        """The budget of the epoch that a query would open now; 0 if none is due."""
        size = self._gate.size
        if size < self._present.until:
            return Fraction(0)
        return self.plan.epoch(self.plan.index_at(size)).budget.total

    def grown(self) -> None:
        """Called when the database has grown: open the epoch that is due. An error is left to the next query."""
        if self.started and self._gate.size >= self._present.until:
            with suppress(Exception):
                self._catch_up()

    def standing(self) -> tuple[Epoch, Release, int]:
        """The epoch that answers now, its release, and the size of the database, which is read after them.

        Opens an epoch first if one is due (the first one, on the first call).
        """
        while True:
            present, size = self._present, self._gate.size
            if size < present.until or not self._catch_up():
                if present.epoch is None or present.release is None:
                    raise self.nothing()
                return present.epoch, present.release, size

    def nothing(self) -> GuaranteeError:
        """The error that says why there is no release to answer from."""
        if not self._timeline.epochs:
            return GuaranteeError("nothing has been released yet: the first question opens the first epoch")
        last = self._timeline.epochs[-1]
        return GuaranteeError(
            f"epoch {last.index} failed ({last.error}), and there is none before it to answer from; "
            f"the next one opens at {counted(self._latest.until, 'row')}"
        )

    def give_up(self, epoch: Epoch, message: str) -> None:
        """Record that the release of ``epoch`` turned out to be broken; the last usable epoch answers again.

        Within a box's run, whose record must not be mixed with this, it is refused.
        """
        with self._gate.transaction():
            if self._busy:
                raise GuaranteeError(f"epoch {epoch.index} failed ({message}), and the next one is being opened")
            if self._latest.epoch is epoch:
                self._note(EpochFailed(epoch.index, message))
                standing, release = self._last_usable()
                self._latest = Present(self._latest.order + 1, self._latest.until, standing, release)
            latest = self._latest
        self._publish(latest)

    # -- opening ------------------------------------------------------------------------------------------------------

    def _catch_up(self) -> bool:
        """Open the epoch that is due, if any. False within a box's run: a box that asks queries must not open one."""
        with self._gate.transaction():
            if self._busy:
                return False
            size = self._gate.size
            if size >= self._latest.until:
                self._gate.prepare()  # First: an epoch that fails is not run again.
                self._open(self.plan, size)
            latest = self._latest
        self._publish(latest)
        return True

    def _publish(self, latest: Present) -> None:
        """Answer from ``latest``, unless another thread has already published a later value."""
        with self._publishing:
            if latest.order > self._present.order:
                self._present = latest

    def _open(self, plan: Timetable, size: int) -> None:
        """Run the box of the epoch that is due. Success or failure is recorded; no epoch is run twice."""
        index = plan.index_at(size)
        attempt = self._prepare(plan, index, size)
        self._note(EpochBegan(index, size, plan.next_size(size), attempt.beta, attempt.alpha))
        before = self._latest
        epoch, release = before.epoch, before.release
        self._busy = True
        try:
            released = self._run(attempt, size)
            self._note(EpochOpened(index))
            epoch, release = self._timeline.last, released
        except BaseException as error:
            self._note(EpochFailed(index, describe(error)))
            if not isinstance(error, Exception):
                raise
        finally:
            self._busy = False
            self._latest = Present(before.order + 1, self._timeline.until, epoch, release)

    def _prepare(self, plan: Timetable, index: int, size: int) -> _Attempt:
        """The epoch's box, budget and promised error; or why there are none. Nothing is charged here."""
        alpha, beta = math.inf, 0.0
        try:
            planned = plan.epoch(index)
            alpha, beta = planned.alpha, planned.beta
            box = self._boxes.at(index)
            promised = self.promised(planned, size, box)
            if not 0 <= promised < math.inf:
                raise Broken(f"the box's alpha is no error: {promised!r}")
        except Exception as error:
            return _Attempt(index, None, alpha, beta, describe(error))
        return _Attempt(index, (box, planned.budget), promised, beta)

    def _run(self, attempt: _Attempt, size: int) -> Release:
        if attempt.given is None:
            raise Broken(attempt.trouble)
        box, budget = attempt.given
        name = f"epoch {attempt.index} at {counted(size, 'row')}"
        self.progress(0.0, f"{name}: {type(box).__name__} runs")
        with self._gate.reserve(budget) as reserved:
            self._timeline.follow(reserved)
            released = box.run(self._gate, budget, attempt.alpha, attempt.beta, self.progress)
        release = check(released, self._gate.schema, size)
        self.progress(1.0, f"{name}: open")
        return release

    def _note(self, note: Any) -> None:
        self._timeline.follow(self._gate.note(note))

    # -- releases made again from the journal -------------------------------------------------------------------------

    def _rebuild(self, epoch: Epoch) -> Release:
        return rebuild(self._boxes.at(epoch.index), self._gate.schema, self._gate.history, epoch)

    def _last_usable(self) -> tuple[Epoch | None, Release | None]:
        """The latest epoch that has not failed, and its release, made again."""
        while (standing := self._timeline.standing) is not None:
            try:
                return standing, self._rebuild(standing)
            except Exception as error:
                self._note(EpochFailed(standing.index, describe(error)))
        return None, None
