"""BBImprover: a box, rerun as the database grows, so that the error of its answers falls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from treering.boxes.base import Box, Progress, Rate
from treering.budget.promise import Promise
from treering.errors import ParameterError
from treering.params import Number, Profile, check_profile, exact, probability
from treering.protocols import Database
from treering.schedulers.base import Scheduled, paper_rate, useful
from treering.schedulers.epochs import BoxOrFunction, Present, Supply
from treering.theory import schedule
from treering.theory.schedule import ImprovingSchedule
from treering.words import counted

Improving: TypeAlias = Callable[[int], ImprovingSchedule]
"""A function from the starting size to its schedule."""

PAPER_C: Final = 0.05
"""The paper's free parameter: √c·t^{−c} is largest at c = 1/(2·log t), which is 0.05 at 22,000 rows, 0.036 at 10^6."""


class BBImprover(Scheduled):
    """Answers that become more accurate as the database grows: `alpha_at` says how accurate at which size.

    Formal guarantee: as `Scheduled`, and every answer, at every size t, is within ``alpha_at(t)``, all together with
    probability at least 1 − beta. (Cummings, Krehbiel, Lai, Tantipongpipat, theorem "BBImprover".)

    - ``box``: the box, or a function from an epoch's index to its box; the schedule is made for the first box
    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that any answer, ever, is outside its error
    - ``profile="tight"``: the box is rerun at gaps that grow, but slower than the database: for a box of rate p the
      error falls as t^{−p/(1+p/2)} up to logarithms (delta = 0: t^{−p/(1+p)}), with about t^{p/(1+p/2)} runs by size t.
      Epochs are pure for delta = 0, zCDP otherwise
    - ``profile="paper"``: the box is rerun after *every* append (of one row or of a batch), and the error falls as
      t^{−p(½−c)}. For a (p, p′, p″, g)-black box, and delta > 0; epochs are pure
    - ``c``: the free parameter of the paper's profile, by default `PAPER_C`
    - ``progress``: called during long runs, and for each epoch that opens

    >>> import treering as tr
    >>> from treering.boxes.answers import AnswersBox
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    >>> db.append([{"late": "yes"}] * 4000 + [{"late": "no"}] * 6000)
    10000
    >>> improver = BBImprover(db, AnswersBox(["late = 'yes'"]), epsilon=1.0, delta=1e-9, beta=1e-9)
    >>> answer = improver.ask("late = 'yes'")
    >>> abs(answer.value - 0.4) <= answer.error <= improver.alpha_at(10_000)
    True
    >>> improver.alpha_at(1_000_000) < improver.alpha_at(10_000) / 5
    True
    """

    def __init__(
        self,
        db: Database,
        box: BoxOrFunction,
        epsilon: Number | Promise,
        delta: Number,
        beta: Number = 0.05,
        profile: Profile = "tight",
        *,
        c: Number | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_profile(profile)
        promise, chance = Promise.of(epsilon, delta), float(probability(beta, "beta"))
        if profile == "tight":
            if c is not None:
                raise ParameterError("c", "belongs to the paper's profile: the tight one has no free parameter")
            boxes = Supply(box, db.schema, promise.budget.kind)
            plan = _tight(boxes.first, promise, chance)
        else:
            if promise.delta == 0:
                raise ParameterError("delta", "must be above 0 in the paper's profile: its theorem has no pure version")
            boxes = Supply(box, db.schema, "pure")
            free = float(exact(PAPER_C if c is None else c, "c"))
            plan = _paper(self._rate(boxes.first, promise), promise, chance, free)
        super().__init__(db, boxes, promise, chance, self._worthwhile(plan, boxes.first), profile, progress)

    def _rate(self, box: Box, promise: Promise) -> Rate:
        """The rate of the box that the paper's profile plans with."""
        return paper_rate(box, promise)

    def _worthwhile(self, plan: Improving, box: Box) -> Improving:
        """``plan``, but raising where it promises nothing. (The keeper stores it, so it must not refer to ``self``.)"""
        limit = box.worst
        return lambda start: useful(plan, _first_error, start, limit)

    def _promised(self, plan: ImprovingSchedule, present: Present, size: int) -> tuple[float, str]:
        asked = present.until if self._keeper.started and present.epoch is None else size
        return self.alpha_at(asked), (
            f"every answer is within its error, at every size from {counted(plan.start, 'row')} on; "
            f"at {counted(asked, 'row')} that is "
            "at most alpha, at others at most alpha_at(size), which falls as the database grows"
        )


def _tight(box: Box, promise: Promise, beta: float) -> Improving:
    def plan(start: int) -> ImprovingSchedule:
        return schedule.improving_for(box.alpha, start, promise.budget, beta, centred=True, staleness=box.staleness)

    return plan


def _paper(rate: Rate, promise: Promise, beta: float, c: float) -> Improving:
    def plan(start: int) -> ImprovingSchedule:
        rates = (rate.p, rate.p1, rate.p2, rate.g)
        return schedule.improving(start, promise.epsilon, promise.delta, beta, *rates, c, profile="paper")

    return plan


def _first_error(planned: ImprovingSchedule) -> float:
    """The largest error of the schedule: that at its start, from where it falls."""
    return planned.alpha_at(planned.start)
