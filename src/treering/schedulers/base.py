"""Base class of BBScheduler and BBImprover: epochs that open as the database grows, and free answers in between.

The functions below check, before a schedule is used, that it promises something (an error below `Box.worst`), and that
the paper's theorems cover the box and the promise.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from treering.answer import Answer, Guarantee
from treering.boxes.base import Box, Progress, Rate, Release, silent
from treering.budget.promise import Promise
from treering.domain.language.parse import Question
from treering.domain.query import Query
from treering.errors import GuaranteeError, ParameterError
from treering.mechanisms.base import Counting
from treering.params import Profile, whole
from treering.protocols import Database
from treering.schedulers.epochs import (
    Broken,
    Epoch,
    EpochBegan,
    EpochFailed,
    EpochOpened,
    Keeper,
    Present,
    Supply,
    Timetable,
    describe,
    shares,
)
from treering.theory.ageing import aged, aged_bound
from treering.theory.schedule import MOST_ROWS
from treering.theory.schedule.paper import covers
from treering.theory.search import roughly_whole
from treering.words import counted, readable


class Scheduled(Counting):
    """A black box, rerun as the database grows.

    Formal guarantee. *Privacy*: everything ever released is (epsilon, delta)-DP, for databases that differ in one row,
    replaced. Proof: an epoch's run is a program over the gate within a reservation, so it costs at most its budget
    whatever the box does; the budgets of all epochs of the schedule sum to at most that of the promise, and the gate's
    filter would refuse more; answers between epochs are computed from what was released. When an epoch opens depends
    on the size of the database only, which is public.
    *Accuracy*: epoch i fails with probability at most β_i, and Σβ_i ≤ beta. If none fails, every answer ever given is
    within its own ``error``, which counts the rows that came after its epoch (`treering.theory.ageing`).

    The mechanism starts at its first query, from the size that the database has then. From there on an epoch opens
    as soon as the database has grown to its size. A batch that jumps over several epochs opens the last of them only;
    the budget of the others stays unspent. If a box raises or returns something unusable, what its epoch cost is spent,
    the previous epoch goes on answering, and `epochs` says what happened.

    State is a fold over the gate's history: a scheduler made over a journal that is not empty resumes where the
    journal ends, with the same answers, bit for bit.
    """

    notes = (EpochBegan, EpochOpened, EpochFailed)

    def __init__(
        self,
        db: Database,
        boxes: Supply,
        promise: Promise,
        beta: float,
        plan: Callable[[int], Timetable],
        profile: Profile,
        progress: Progress | None,
    ) -> None:
        self._beta = beta
        self._centred = profile == "tight"
        self._staleness = boxes.first.staleness
        super().__init__(db, promise)
        # The keeper holds no reference to this object, so that both are freed, and no longer called by the database,
        # when the last user drops this one.
        self._keeper = Keeper(self._gate, boxes, plan, progress or silent, own_alpha=profile == "tight")
        db.watch(self._keeper.grown)

    @abstractmethod
    def _promised(self, plan: Any, present: Present, size: int) -> tuple[float, str]:
        """The alpha and the statement of `guarantee` when the database has this size."""

    # -- answers ------------------------------------------------------------------------------------------------------

    def ask(self, query: Question) -> Answer:
        """The share of the rows that match ``query`` (a `Query` or its text), with its error.

        Free, and computed from what was released, unless an epoch is due.
        """
        return super().ask(query)

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """`ask` for a batch: all answers come from one epoch."""
        return super().ask_many(queries)

    def _answer(self, queries: Sequence[Query]) -> list[Answer]:
        """See `Counting._answer`."""
        self._rows_to_share()
        while True:
            epoch, release, size = self._keeper.standing()
            try:
                values, errors = shares(release, queries)
            except Broken as broken:
                self._keeper.give_up(epoch, describe(broken))
                continue
            values, errors = aged(queries, values, errors, release.size / size, centred=self._centred)
            return [
                Answer(value, error, size, "synthetic")
                for value, error in zip(values.tolist(), errors.tolist(), strict=True)
            ]

    def _known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """See `Counting._known`."""
        self._rows_to_share()
        return self._answer(queries) if self._keeper.due() == 0 else None

    def _price(self, queries: Sequence[Query]) -> Fraction:
        """See `Counting._price`: an epoch's budget if one is due, else 0."""
        self._rows_to_share()
        return self._keeper.due()

    @property
    def release(self) -> Release:
        """The release that answers now. Its ``.sample(rows, generator)`` draws synthetic rows, if the box has any."""
        release = self._keeper.present.release
        if release is None:
            raise self._keeper.nothing()
        return release

    # -- public state and guarantees ----------------------------------------------------------------------------------

    @property
    def epochs(self) -> list[Epoch]:
        """The epochs opened so far, oldest first; one that failed has an ``error``."""
        return list(self._keeper.epochs)

    @property
    def next_epoch(self) -> int | None:
        """The size at which the next epoch opens; None before the first query, which opens the first epoch."""
        return self._keeper.present.until if self._keeper.started else None

    @property
    def state(self) -> tuple[Epoch, ...]:
        """The public state: the epochs so far."""
        return self._keeper.epochs

    @property
    def halted(self) -> bool:
        """False: the budget lasts for all epochs to come."""
        return False

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`."""
        epochs = [dataclasses.asdict(epoch) for epoch in self.epochs]
        return {**super().describe(), "epochs": epochs, "next_epoch": self.next_epoch}

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """``rows`` synthetic rows, drawn from the present release with ``generator``, which must be given."""
        if generator is None:
            raise ParameterError("generator", "must be given: numpy.random.default_rng(), as rows are drawn at random")
        return self.release.sample(whole(rows, "rows", 0), generator)

    def alpha_at(self, size: int) -> float:
        """The bound on the error of every answer when the database has ``size`` rows, now or later.

        Before the first query, as if it were asked now. If the scheduler was given a function from epochs to boxes,
        the boxes of later epochs are assumed to be as accurate as the first one.
        """
        wanted, now = whole(size, "size"), self._rows()
        if wanted < now:
            raise ParameterError("size", f"must not lie in the past: the database has {counted(now, 'row')}")
        plan, present = self._keeper.plan, self._keeper.present
        if self._keeper.started and wanted < present.until:
            if present.epoch is None:
                raise self._keeper.nothing()
            return self._aged_bound(present.epoch, wanted)
        planned = plan.epoch(plan.index_at(wanted))
        static = self._keeper.promised(planned, planned.size)
        # An epoch opens at its planned size, or at a larger one if a batch jumps over that: then it covers newer rows,
        # and is no less accurate.
        return max(static, plan.alpha_at(wanted) + max(0.0, static - planned.alpha))

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for all answers from now on, however large the database will be."""
        size = self._rows()
        alpha, statement = self._promised(self._keeper.plan, self._keeper.present, size)
        if self._keeper.started and self._keeper.present.epoch is None:
            statement += f"; but nothing is answered yet: {self._keeper.nothing()}"
        promise = self._promise
        return Guarantee(float(promise.epsilon), float(promise.delta), alpha, self._beta, size, statement)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _aged_bound(self, epoch: Epoch, size: int) -> float:
        return aged_bound(epoch.alpha, epoch.size / size, centred=self._centred, staleness=self._staleness)


# -- the least size from which a schedule promises something -----------------------------------------------------------


Planned = TypeVar("Planned")


def useful(
    plan: Callable[[int], Planned], error_of: Callable[[Planned], float], start: int, limit: float = 1.0
) -> Planned:
    """The plan that starts at ``start`` rows, if ``error_of`` it, the largest error it promises, is below ``limit``.

    Otherwise a `GuaranteeError` that names a larger start that would do, found to about a tenth by doubling and
    bisection.
    """

    def error_at(size: int) -> float:
        try:
            return error_of(plan(size))
        except GuaranteeError:
            return float("inf")

    try:
        planned = plan(start)
        found = error_of(planned)
        if found < limit:
            return planned
        from_there = f"from {counted(start, 'row')} on: it could be {readable(found, 3)}"
        problem = f"no error below {limit:.3g} is guaranteed {from_there}"
    except GuaranteeError as refusal:
        problem = str(refusal)
    enough = roughly_whole(lambda size: error_at(size) < limit, start, MOST_ROWS)
    if enough is None:
        raise GuaranteeError(f"{problem}. No start would do: the box's error does not fall with the size")
    raise GuaranteeError(
        f"{problem}. From about {counted(enough, 'row')} on an error below {limit:.3g} is guaranteed; "
        "a larger epsilon would do too"
    )


# -- what the paper's theorems require ---------------------------------------------------------------------------------


def paper_rate(box: Box, promise: Promise) -> Rate:
    """The box's (p, p′, p″, g); `GuaranteeError` if it has none, or if the theorems do not cover the promise."""
    check_covered(promise)
    if box.rate is None:
        raise GuaranteeError(
            f'{type(box).__name__} is no (p, g)-black box, which profile="paper" needs; profile="tight" takes any box'
        )
    return box.rate


def check_covered(promise: Promise) -> None:
    """Raise `GuaranteeError` if the paper's theorems do not cover the promise."""
    if not promise.plain:
        raise GuaranteeError('the paper\'s theorems are for a whole promise, one row a person: use profile="tight"')
    if problems := covers(promise.epsilon, promise.delta):
        raise GuaranteeError(f"the paper's theorem does not cover this promise: {'; '.join(problems)}")
