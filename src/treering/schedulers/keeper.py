"""The keeper of the epochs: opens each one when it is due, writes it down, and knows which one answers now.

Threads. The gate's lock is held while an epoch is opened, and nothing else is: rows that arrive meanwhile wait, and so
does a question that would need the new epoch. What answers come from is one immutable value, `Present`, which is
published when the gate's transaction is over, that is, when everything in it is durable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import Any

from treering.boxes.base import Box, Progress, Release
from treering.budget.promise import Budget
from treering.errors import GuaranteeError
from treering.gate import Gate
from treering.schedulers.epochs import (
    Broken,
    Epoch,
    EpochBegan,
    EpochFailed,
    EpochOpened,
    ScheduledEpoch,
    Supply,
    Timeline,
    Timetable,
    check,
    describe,
    rebuild,
)


@dataclass(frozen=True, slots=True)
class Present:
    """What answers come from, until the database has ``until`` rows."""

    order: int = 0
    until: int = 0
    epoch: Epoch | None = None
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What an epoch needs to run; or the trouble that it has."""

    index: int
    given: tuple[Box, Budget] | None
    alpha: float
    beta: float
    trouble: str = ""


class Keeper:
    """Runs the boxes of a plan over a gate.

    ``plan`` makes the plan for a start, or raises `GuaranteeError`. ``own_alpha``: an epoch promises what its box
    proves for the size it runs at. Otherwise it promises what was planned, or what its box proves if that is worse: a
    rate may not reach as far as the plan.
    """

    def __init__(
        self, gate: Gate, boxes: Supply, plan: Callable[[int], Timetable], progress: Progress, *, own_alpha: bool
    ) -> None:
        self._gate = gate
        self._boxes = boxes
        self._make_plan = plan
        self._progress = progress
        self._own_alpha = own_alpha
        self._publishing = Lock()
        self._busy = False
        self._timeline = Timeline(gate.history)
        self._plan: Timetable | None = None
        standing = self._timeline.standing
        release = None if standing is None else self._rebuild(standing)
        self._latest = self._present = Present(0, self._timeline.until, standing, release)

    @property
    def started(self) -> bool:
        """Whether the first epoch was opened, or failed to."""
        return self._timeline.start is not None

    @property
    def plan(self) -> Timetable:
        """The plan; before the start, that of a start now. Made when it is needed, for that may take a while."""
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
        """What answers come from, as far as the keeper was told of growth."""
        return self._present

    def promised(self, planned: ScheduledEpoch, size: int, box: Box | None = None) -> float:
        """The error that an epoch promises if it opens at this size with this box, by default the first one."""
        own = (self._boxes.first if box is None else box).alpha(size, planned.budget, planned.beta)
        return own if self._own_alpha else max(own, planned.alpha)

    def due(self) -> Fraction:
        """What the epoch that a question would open now may cost: nothing if none is due."""
        size = self._gate.size
        if size < self._present.until:
            return Fraction(0)
        return self.plan.epoch(self.plan.index_at(size)).budget.total

    def grown(self) -> None:
        """The database has grown. What cannot be done now is tried again at the next question."""
        if self.started and self._gate.size >= self._present.until:
            with suppress(Exception):
                self._catch_up()

    def standing(self) -> tuple[Epoch, Release, int]:
        """The epoch in force, its release, and the size of the database, which is looked at last.

        Starts the mechanism, or opens an epoch, if that is due.
        """
        while True:
            present, size = self._present, self._gate.size
            if size < present.until or not self._catch_up():
                if present.epoch is None or present.release is None:
                    raise self.nothing()
                return present.epoch, present.release, size

    def nothing(self) -> GuaranteeError:
        """Why there is no answer."""
        if not self._timeline.epochs:
            return GuaranteeError("nothing has been released yet: the first question opens the first epoch")
        last = self._timeline.epochs[-1]
        return GuaranteeError(
            f"epoch {last.index} failed ({last.error}), and there is none before it to answer from; "
            f"the next one opens at {self._latest.until:,} rows"
        )

    def give_up(self, epoch: Epoch, message: str) -> None:
        """A release that is broken after all: its epoch has failed, and the one before answers again."""
        with self._gate.transaction():
            if self._latest.epoch is epoch:
                self._note(EpochFailed(epoch.index, message))
                standing, release = self._last_usable()
                self._latest = Present(self._latest.order + 1, self._latest.until, standing, release)
            latest = self._latest
        self._publish(latest)

    # -- opening ------------------------------------------------------------------------------------------------------

    def _catch_up(self) -> bool:
        """Open the epoch that is due, if any. False within a run: a program that asks on the way must not start one."""
        with self._gate.transaction():
            if self._busy:
                return False
            size = self._gate.size
            if size >= self._latest.until:
                self._open(self.plan, size)
            latest = self._latest
        self._publish(latest)
        return True

    def _publish(self, latest: Present) -> None:
        """Answer from this; unless another thread was faster with what came later."""
        with self._publishing:
            if latest.order > self._present.order:
                self._present = latest

    def _open(self, plan: Timetable, size: int) -> None:
        """Run the box. Whatever happens, the record says it, and the next epoch is another one."""
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
        """The epoch's box and what it promises here; or why there is none. Nothing has been charged yet."""
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
        name = f"epoch {attempt.index} at {size:,} rows"
        self._progress(0.0, f"{name}: {type(box).__name__} runs")
        with self._gate.reserve(budget) as reserved:
            self._timeline.follow(reserved)
            released = box.run(self._gate, budget, attempt.alpha, attempt.beta, self._progress)
        release = check(released, self._gate.schema, size)
        self._progress(1.0, f"{name}: open")
        return release

    def _note(self, note: Any) -> None:
        self._timeline.follow(self._gate.note(note))

    # -- from the record ----------------------------------------------------------------------------------------------

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
