"""Attacks: one for every mechanism, on a pair of neighbouring streams that is hard for it.

Each attack runs the real mechanism, as a caller would, on made-up streams that differ in one row, and looks at what it
released. `attack.find(samples)` is a lower bound on the epsilon that the mechanism really has: above the claim it
proves a bug, with the stated confidence; below the claim it proves nothing (`treering.audit.bounds`).

Databases are tiny, because an attack can see a difference only where one row matters. A small audited bound on a
correct mechanism does not mean that the attack is weak: much of the budget is for queries that the attack does not ask.

The claimed epsilons are small enough to be exceeded: no attack claims more than its samples could prove
(`Attack.reach`). Some attacks take ``spent``, the epsilon that the runs really use: if that is more than the claim, the
attack must accuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

import numpy as np

from treering.answer import Answer
from treering.audit.bounds import Audit, SamplesDone, audit, clopper_pearson_lower, clopper_pearson_upper
from treering.audit.neighbours import Stream, grow, neighbour, worst_pair
from treering.boxes.answers import AnswersBox
from treering.boxes.base import Box, Release
from treering.boxes.histogram import HistogramBox
from treering.boxes.mwem import MWEM
from treering.boxes.smalldb import SmallDB
from treering.budget.minimising import minimising
from treering.budget.promise import Budget, Promise
from treering.domain.attribute import categories
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures, Minimise, Net, Problem
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import BudgetExceeded, ParameterError
from treering.gate import Measured, Selected
from treering.mechanisms.continual import ContinualHistogram
from treering.mechanisms.pmwg import PMW, PMWG
from treering.mechanisms.sparse import ATG, NATG, NSG
from treering.params import at_least
from treering.protocols import Gate
from treering.schedulers.improver import BBImprover
from treering.schedulers.scheduler import BBScheduler
from treering.theory.pmwg import static_size
from treering.trusted.store import GrowingDatabase

CONFIDENCE: Final = 1 - 1e-7
"""The confidence of each attack: a mechanism that keeps its promise is accused with probability 1e-7 at most."""

SCHEMA: Final = Schema({"late": categories("no", "little", "yes")})
NO, LITTLE, YES = range(3)
LATE: Final = Query.where(SCHEMA, late="yes")
IN_TIME: Final = Query.where(SCHEMA, late="no")

Program: TypeAlias = Callable[[Stream], Hashable]
"""One fresh run of a mechanism on a stream: returns what it released, as something hashable."""


@dataclass(frozen=True)
class Attack:
    """One way to tell two neighbours apart by what a mechanism released.

    Formal guarantee: if the mechanism is (``epsilon``, ``delta``)-differentially private for databases that differ in
    one row, replaced, then `find` exceeds ``epsilon`` with probability at most 1 − `CONFIDENCE`.
    """

    mechanism: str
    words: str
    """A short description of the attack."""
    epsilon: float
    """The claimed epsilon."""
    delta: float
    """The claimed delta."""
    pair: tuple[Stream, Stream]
    """The two neighbouring streams, left and right."""
    run: Program
    samples: int
    """The default number of runs on each side."""

    def reach(self, samples: int | None = None) -> float:
        """The largest bound that ``samples`` runs a side can give: all tested runs on one side hit, none on the other.

        An attack whose reach is not above its claim cannot accuse, whatever the mechanism does.
        """
        number = samples or self.samples
        tested = number - number // 2
        alpha = (1 - CONFIDENCE) / 2
        likely = clopper_pearson_lower(tested, tested, alpha) - self.delta
        return math.log(likely / clopper_pearson_upper(0, tested, alpha)) if likely > 0 else 0.0

    def find(self, samples: int | None = None, progress: SamplesDone | None = None) -> Audit:
        """The lower bound on epsilon from ``samples`` runs on each side, with its evidence."""
        return audit(self.run, *self.pair, samples or self.samples, CONFIDENCE, self.delta, progress)


class Asking(Protocol):
    """A mechanism that answers queries."""

    def ask(self, query: Query) -> Answer:
        """The answer to a query."""


def asked(make: Callable[[GrowingDatabase], Asking], questions: tuple[Query, ...], above: float) -> Program:
    """A program that asks one question after each batch: the kinds of the answers, and whether each is above ``above``
    rows."""

    def run(stream: Stream) -> Hashable:
        mechanism: Asking | None = None
        seen: list[Hashable] = []
        for database, question in zip(grow(stream), questions, strict=True):
            mechanism = make(database) if mechanism is None else mechanism
            try:
                answer = mechanism.ask(question)
            except BudgetExceeded:
                seen.append("refused")
            else:
                seen.append((answer.kind, answer.value * answer.size > above))
        return tuple(seen)

    return run


def worst(*gaps: int) -> tuple[Stream, Stream]:
    """`worst_pair` over the cells YES and NO."""
    return worst_pair(SCHEMA, inside=YES, outside=NO, gaps=gaps)


def arriving(*batches: tuple[int, ...]) -> tuple[Stream, Stream]:
    """The stream of these batches, and the one whose first row is YES instead."""
    left = Stream(SCHEMA, batches)
    return left, neighbour(left, 0, 0, YES)


def pure(epsilon: float) -> Budget:
    """The pure budget of this epsilon."""
    return Promise(epsilon).budget


def chosen(attacks: list[Attack], names: list[str]) -> list[Attack]:
    """The attacks on the mechanisms with these names, or all if there are none; case is ignored."""
    known = {attack.mechanism.lower(): attack.mechanism for attack in attacks}
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise ParameterError("mechanism", f"must be one of {', '.join(known.values())}, not {unknown[0]!r}")
    wanted = {name.lower() for name in names} or known.keys()
    return [attack for attack in attacks if attack.mechanism.lower() in wanted]


# -- all attacks -------------------------------------------------------------------------------------------------------


FOUR: Final = arriving((NO, NO, YES, YES))
GROWING: Final = arriving((NO,) * 20 + (YES,) * 20, (NO,) * 40)


def attacks() -> list[Attack]:
    """All attacks, one for every mechanism."""
    return [
        atg(),
        natg(),
        nsg(),
        pmw(),
        pmwg(),
        continual(),
        histogram_box(),
        answers_box(),
        mwem(),
        small_db(),
        scheduler(),
        improver(),
        erm(),
    ]


# -- sparse vector -----------------------------------------------------------------------------------------------------


def atg() -> Attack:
    """When does it halt? Two queries whose counts are one higher on the right, then one whose count is one lower.

    The worst case for sparse vector is silence on the first two and a halt at the third.
    """
    epsilon = 2.0

    def run(stream: Stream) -> Hashable:
        mechanism: ATG | None = None
        for time, database in enumerate(grow(stream)):
            mechanism = ATG(database, 0.5, epsilon) if mechanism is None else mechanism
            if mechanism.ask((LATE, LATE, ~LATE)[time]):
                return time
        return None

    return Attack("ATG", "three questions as rows arrive", epsilon, 0.0, worst(-1, -1, 0), run, 1500)


def natg() -> Attack:
    """As `atg`, and on which side of ½ the numeric answer lies."""
    epsilon = 2.5

    def run(stream: Stream) -> Hashable:
        mechanism: NATG | None = None
        for time, database in enumerate(grow(stream)):
            mechanism = NATG(database, 0.5, epsilon) if mechanism is None else mechanism
            answer = mechanism.ask((LATE, LATE, ~LATE)[time])
            if answer is not None:
                return time, int(np.sign(answer - 0.5))
        return None

    return Attack("NATG", "three questions, and the number's side", epsilon, 0.0, worst(-1, -1, 0), run, 1500)


def nsg() -> Attack:
    """Adaptive queries: once a numeric answer is known, it is the estimate of the queries that follow."""
    epsilon = 2.5

    def run(stream: Stream) -> Hashable:
        mechanism: NSG | None = None
        known: float | None = None
        seen: list[bool | None] = []
        for database in grow(stream):
            mechanism = NSG(database, 0.4, epsilon, hard=2) if mechanism is None else mechanism
            if mechanism.halted:
                break
            answer = mechanism.ask(LATE) if known is None else mechanism.ask(LATE, known)
            known = known if answer is None else answer
            seen.append(None if answer is None else answer > 0.5)
        return tuple(seen)

    return Attack("NSG", "four adaptive questions as rows arrive", epsilon, 0.0, worst(0, 0, 0, 0), run, 1000)


# -- private multiplicative weights, trees -----------------------------------------------------------------------------


def pmw() -> Attack:
    """How many of four queries are easy, if the histogram is about as far off as the guard tolerates."""
    epsilon, alpha, beta = 1.5, 0.5, 0.05
    size = static_size(SCHEMA.cells, pure(epsilon), alpha, beta, 4)
    late = int(0.7683 * size)  # one row below where the guard finds the query hard
    pair = arriving((NO,) * (size - late) + (YES,) * late)

    def run(stream: Stream) -> Hashable:
        (database,) = grow(stream)
        mechanism = PMW(database, epsilon=epsilon, delta=0.0, alpha=alpha, beta=beta, queries=4)
        answers = mechanism.ask_many((LATE, LATE, LATE, IN_TIME))
        return sum(answer.kind == "easy" for answer in answers)

    return Attack("PMW", f"four questions about {size} rows", epsilon, 0.0, pair, run, 300)


def pmwg() -> Attack:
    """Four measured queries that all differ between the sides: how many answers are nearer to the right's."""
    epsilon = 1.5
    questions = (LATE, ~IN_TIME, IN_TIME, ~LATE)

    def run(stream: Stream) -> Hashable:
        (database,) = grow(stream)
        answers = PMWG(database, epsilon=epsilon, alpha=0.5, beta=0.05).ask_many(questions)
        rising, falling = answers[:2], answers[2:]
        return sum(each.value > 0.5 for each in rising) + sum(each.value < 0.5 for each in falling)

    pair = arriving((NO,) * 24 + (YES,) * 24)
    return Attack("PMWG", "four questions about 48 rows", epsilon, 0.0, pair, run, 500)


def continual() -> Attack:
    """One query after each of two batches: is each answer above a count between the two sides'?"""
    epsilon = 2.0
    batch = (NO,) * 4 + (YES,) * 4
    pair = arriving(batch, batch)
    run = asked(lambda database: ContinualHistogram(database, epsilon), (LATE, LATE), above=4.5)
    return Attack("ContinualHistogram", "a question after each of two batches", epsilon, 0.0, pair, run, 600)


# -- boxes and schedulers ----------------------------------------------------------------------------------------------


def boxed(box: Box, epsilon: float, look: Callable[[Release, Gate], Hashable]) -> Program:
    """A program that runs a box once, on the whole stream; ``look`` says what it observes of the release."""
    budget = pure(epsilon)
    bound = box.bind(SCHEMA)

    def run(stream: Stream) -> Hashable:
        *_, database = grow(stream)
        gate = database.open_gate(budget)
        return look(bound.run(gate, budget, 1.0, 0.05), gate)

    return run


def late_and_in_time(late: float, in_time: float) -> Callable[[Release, Gate], Hashable]:
    """Whether the count of late rows is above ``late``, and that of rows in time below ``in_time``."""

    def look(release: Release, _: Gate) -> Hashable:
        found = (release.shares([LATE, IN_TIME])[0] * release.size).tolist()
        return found[0] > late, found[1] < in_time

    return look


def histogram_box() -> Attack:
    """A row moves from one cell to another: is one noisy count higher, and the other lower?"""
    run = boxed(HistogramBox(), 2.0, late_and_in_time(2.5, 1.5))
    return Attack("HistogramBox", "two cells that a row moves between", 2.0, 0.0, FOUR, run, 1200)


def answers_box() -> Attack:
    """Two queries whose counts both differ by one between the sides."""
    run = boxed(AnswersBox([LATE, IN_TIME]), 2.0, late_and_in_time(2.5, 1.5))
    return Attack("AnswersBox", "two answers that both move", 2.0, 0.0, FOUR, run, 1200)


def mwem(spent: float = 2.5) -> Attack:
    """One round: which query is selected, and on which side of a threshold its answer lies."""

    def look(_: Release, gate: Gate) -> Hashable:
        selected = next(event.index for event in gate.history if isinstance(event, Selected))
        (value,) = next(event.values for event in gate.history if isinstance(event, Measured))
        return selected, value > 5.5 if selected == 0 else value < 3.5

    pair = arriving((NO,) * 4 + (YES,) * 5)
    run = boxed(MWEM([LATE, IN_TIME], rounds=1), spent, look)
    return Attack("MWEM", "one round of two questions", 2.5, 0.0, pair, run, 1200)


def small_db(spent: float = 2.0) -> Attack:
    """Whether most synthetic rows are late, and none is in time."""
    box = SmallDB([IN_TIME, Query.where(SCHEMA, late=["no", "little"])])
    pair = arriving((LITTLE,) * 2 + (YES,) * 6)

    def look(release: Release, _: Gate) -> Hashable:
        late, in_time = release.shares([LATE, IN_TIME])[0].tolist()
        return late >= 0.8, in_time == 0

    return Attack("SmallDB", "the synthetic rows of two prefixes", 2.0, 0.0, pair, boxed(box, spent, look), 1000)


def scheduler() -> Attack:
    """Two epochs: do the noisy answers of both point to the right side?"""
    epsilon = 1.0
    box = AnswersBox([LATE])
    run = asked(lambda database: BBScheduler(database, box, epsilon, beta=0.05), (LATE, LATE), above=20.5)
    return Attack("BBScheduler", "two epochs of AnswersBox", epsilon, 0.0, GROWING, run, 150)


def improver() -> Attack:
    """As `scheduler`, on more rows, because the improver's first epochs have smaller budgets."""
    epsilon = 1.5
    box = AnswersBox([LATE])
    run = asked(lambda database: BBImprover(database, box, epsilon, 0.0, beta=0.05), (LATE, LATE), above=50.5)
    pair = arriving((NO,) * 50 + (YES,) * 50, (NO,) * 100)
    return Attack("BBImprover", "two epochs of AnswersBox", epsilon, 0.0, pair, run, 300)


def erm(spent: float = 3.0) -> Attack:
    """Logistic regression over cells, by the net: which model of the net is drawn."""
    problem = Problem(Logistic(), 1, 2.0)
    draft = Net(2.0, 1.0)
    budget = pure(spent)
    price = minimising(problem, draft, 2).epsilon
    assert price is not None
    method = replace(draft, scale=at_least(price / budget.total))
    features = CellFeatures(SCHEMA, ["late"], [[1.0], [1.0], [1.0]], LATE)

    def run(stream: Stream) -> Hashable:
        *_, database = grow(stream)
        return database.open_gate(budget).minimise(Minimise(problem, method, features)).theta

    return Attack("ERM", "logistic regression on two rows", 3.0, 0.0, arriving((NO, NO)), run, 2000)
