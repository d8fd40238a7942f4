"""A registry of attacks: one for every mechanism, on a pair of neighbouring streams that is hard for it.

Each attack runs the real mechanism, as a caller would, on made-up streams that differ in one row, and looks at what it
released. `attack.find(samples)` is a lower bound on the epsilon that the mechanism really has: above the claim it is
proof of a bug, but for the confidence; below it proves nothing (`treering.audit.bounds`).

Tiny databases: an attack sees something only where one row matters. A small audited bound on a right mechanism is no
weakness of the attack: much of a promise is kept for questions that the attack does not ask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from treering.answer import Answer
from treering.audit.bounds import Audit, Progress, audit
from treering.audit.confidence import clopper_pearson_lower, clopper_pearson_upper
from treering.audit.neighbours import Stream, grow, neighbour, worst_pair
from treering.budget.promise import Budget, Promise
from treering.domain.attribute import categories
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import BudgetExceeded, ParameterError
from treering.trusted.database import GrowingDatabase

CONFIDENCE: Final = 1 - 1e-7
"""Of each attack: a mechanism that keeps its promise is accused with probability 1e-7 at most."""

SCHEMA: Final = Schema({"late": categories("no", "little", "yes")})
NO, LITTLE, YES = range(3)
LATE: Final = Query.where(SCHEMA, late="yes")
IN_TIME: Final = Query.where(SCHEMA, late="no")

Run: TypeAlias = Callable[[Stream], Hashable]


@dataclass(frozen=True)
class Attack:
    """One way to tell two neighbours apart by what a mechanism released.

    Formal guarantee: if the mechanism is (``epsilon``, ``delta``)-differentially private for databases that differ in
    one row, replaced, then `find` exceeds ``epsilon`` with probability at most 1 − `CONFIDENCE`.
    """

    mechanism: str
    words: str
    """What is attacked, and how."""
    epsilon: float
    delta: float
    pair: tuple[Stream, Stream]
    run: Run
    samples: int
    """How many runs on each side are made if nobody says otherwise."""

    def reach(self, samples: int | None = None) -> float:
        """The largest bound that so many samples can give: all tested runs on one side, none on the other.

        An attack whose reach is not above its claim cannot accuse, whatever the mechanism does.
        """
        number = samples or self.samples
        tested = number - number // 2
        alpha = (1 - CONFIDENCE) / 2
        likely = clopper_pearson_lower(tested, tested, alpha) - self.delta
        return math.log(likely / clopper_pearson_upper(0, tested, alpha)) if likely > 0 else 0.0

    def find(self, samples: int | None = None, progress: Progress | None = None) -> Audit:
        """The lower bound, with its evidence."""
        return audit(self.run, *self.pair, samples or self.samples, CONFIDENCE, self.delta, progress)


class Asking(Protocol):
    """A mechanism that answers questions."""

    def ask(self, query: Query) -> Answer:
        """One answer."""


def asked(make: Callable[[GrowingDatabase], Asking], questions: tuple[Query, ...], above: float) -> Run:
    """One question after each batch: each answer's kind, and whether it is above so many rows."""

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
    """Streams of two cells about half full, with one row in the other cell on the right."""
    return worst_pair(SCHEMA, inside=YES, outside=NO, gaps=gaps)


def arriving(*batches: tuple[int, ...]) -> tuple[Stream, Stream]:
    """These batches; on the right the first row of the first of them is late."""
    left = Stream(SCHEMA, batches)
    return left, neighbour(left, 0, 0, YES)


def pure(epsilon: float) -> Budget:
    """A pure budget."""
    return Promise(epsilon).budget


def chosen(attacks: list[Attack], names: list[str]) -> list[Attack]:
    """The attacks on the mechanisms named, or all; upper and lower case are the same."""
    known = {attack.mechanism.lower(): attack.mechanism for attack in attacks}
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise ParameterError("mechanism", f"must be one of {', '.join(known.values())}, not {unknown[0]!r}")
    wanted = {name.lower() for name in names} or known.keys()
    return [attack for attack in attacks if attack.mechanism.lower() in wanted]
