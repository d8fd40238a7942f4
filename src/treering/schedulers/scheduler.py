"""BBScheduler: a box, rerun each time the database has grown by a fixed factor, for answers of fixed accuracy.

SmallDBG is its first instantiation in the paper: `BBScheduler` over `SmallDB`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from treering.boxes.base import Box, Progress
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Promise
from treering.domain.language.parse import Question
from treering.errors import GuaranteeError
from treering.params import Number, Profile, check_profile, probability
from treering.protocols import Database
from treering.schedulers.base import Scheduled, paper_rate, useful
from treering.schedulers.epochs import BoxOrFunction, Present, Supply
from treering.theory import schedule
from treering.theory.schedule import FixedSchedule
from treering.words import counted


class BBScheduler(Scheduled):
    """Answers of the same accuracy for ever: the box is rerun whenever the database has grown by a factor 1 + γ.

    Formal guarantee: as `Scheduled`, and every answer, at every size, is within `guarantee`'s alpha, all together with
    probability at least 1 − beta. (Cummings, Krehbiel, Lai, Tantipongpipat, theorem "BBScheduler".)

    - ``box``: the box, or a function from an epoch's index to its box: then the query class may change from epoch to
      epoch, and the schedule, hence alpha, is made for the first box
    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that any answer, ever, is outside its error
    - ``profile="tight"``: γ and the budgets are optimised for the box's own proven error, so that all epochs have the
      same error; answers are centred (`treering.theory.ageing`), which halves their staleness. Epochs are pure for
      delta = 0, zCDP otherwise
    - ``profile="paper"``: the paper's schedule, exactly as in its proof (errata E4, E5, E8), for a (p, g)-black box;
      epochs are pure. An answer's error is the one that the release states, plus staleness
    - ``progress``: called during long runs, and for each epoch that opens

    >>> import treering as tr
    >>> from treering.boxes.answers import AnswersBox
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    >>> db.append([{"late": "yes"}] * 4000 + [{"late": "no"}] * 6000)
    10000
    >>> scheduler = BBScheduler(db, AnswersBox(["late = 'yes'"]), epsilon=1.0, beta=1e-9)
    >>> answer = scheduler.ask("late = 'yes'")
    >>> abs(answer.value - 0.4) <= answer.error <= scheduler.guarantee.alpha
    True
    >>> size = db.append([{"late": "yes"}] * 90_000)
    >>> [epoch.size for epoch in scheduler.epochs]
    [10000, 100000]
    """

    def __init__(
        self,
        db: Database,
        box: BoxOrFunction,
        epsilon: Number | Promise,
        delta: Number = 0.0,
        beta: Number = 0.05,
        profile: Profile = "tight",
        *,
        progress: Progress | None = None,
    ) -> None:
        check_profile(profile)
        promise, chance = Promise.of(epsilon, delta), float(probability(beta, "beta"))
        boxes = Supply(box, db.schema, "pure" if profile == "paper" else promise.budget.kind)
        plan = _paper(boxes.first, promise, chance) if profile == "paper" else _tight(boxes.first, promise, chance)
        super().__init__(db, boxes, promise, chance, plan, profile, progress)

    def _promised(self, plan: FixedSchedule, present: Present, size: int) -> tuple[float, str]:
        first = plan.epoch(0)
        alpha = plan.alpha + max(0.0, self._keeper.promised(first, first.size) - first.alpha)
        statement = (
            f"every answer is within its error, at most alpha, at every size from {counted(plan.start, 'row')} on; "
            f"an epoch opens whenever the database has grown by {plan.growth:.3g} of its size"
        )
        if present.epoch is not None:
            longest = self._aged_bound(present.epoch, max(size, present.until - 1))
            if longest > alpha:
                alpha = longest
                statement += (
                    f"; epoch {present.epoch.index}, of {counted(present.epoch.size, 'row')}, has to answer until the "
                    f"next one opens at {counted(present.until, 'row')}, and alpha allows for that"
                )
        return alpha, statement


def _tight(box: Box, promise: Promise, beta: float) -> Callable[[int], FixedSchedule]:
    return lambda start: schedule.fixed_for(box.alpha, start, promise.budget, beta, centred=True)


def _paper(box: Box, promise: Promise, beta: float) -> Callable[[int], FixedSchedule]:
    rate = paper_rate(box, promise)
    if (rate.p1, rate.p2) != (rate.p, 0.0):
        raise GuaranteeError(
            f"{type(box).__name__} is no (p, g)-black box, for its rate has p1 other than p, or p2 other than 0: "
            'BBImprover takes it under profile="paper", BBScheduler under profile="tight" only'
        )

    def plan(start: int) -> FixedSchedule:
        return schedule.fixed(start, promise.epsilon, promise.delta, beta, rate.p, rate.g, profile="paper")

    return lambda start: useful(plan, lambda planned: planned.alpha, start)


# -- SmallDBG ----------------------------------------------------------------------------------------------------------


class SmallDBG(BBScheduler):
    """`BBScheduler` over `SmallDB`: a small synthetic database that answers every query of a class, kept current.

    Formal guarantee: that of `BBScheduler`. (Cummings, Krehbiel, Lai, Tantipongpipat, theorem "SmallDBG": α of order
    (log N·log k·log(1/β)/(εn))^{1/5} for k queries and N cells; the tight profile has exponent 1/4.)

    ``queries`` is the class, each a `Query` or its text. The other parameters are those of `BBScheduler`.
    """

    def __init__(
        self,
        db: Database,
        queries: Iterable[Question],
        epsilon: Number | Promise,
        delta: Number = 0.0,
        beta: Number = 0.05,
        profile: Profile = "tight",
        *,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(db, SmallDB(queries), epsilon, delta, beta, profile, progress=progress)
