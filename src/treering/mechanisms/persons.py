"""Persons: how many persons match, and rows of which at most so many of each person count; kept current.

Where a person may have k rows, a count of rows is k times as wide as where each has one. How many *persons* match is
known far better: a person raises a flag in a group once, for ever. A question opens a series over the groups that are
asked about together (``mechanisms/series/families.py``), and from then on these groups are known, and nothing else: a
person may be in several, so they do not add up.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from treering.answer import Guarantee
from treering.budget.promise import Budget, Promise
from treering.domain.groups import Groups
from treering.domain.language.items import Item, under_one_lens
from treering.domain.query import Query
from treering.domain.sums import Sums, sums_of
from treering.errors import BudgetExceeded, GuaranteeError
from treering.gate import PersonsCounted
from treering.mechanisms.base import Answering
from treering.mechanisms.plan import Plan, Stale, wished
from treering.mechanisms.series.counted import PersonsFindings
from treering.mechanisms.series.drawing import Drawing, Source
from treering.mechanisms.series.families import Family, Want, families
from treering.mechanisms.series.policy import Steps
from treering.mechanisms.series.ring import KeptRing, KeptRings, Opened, Ring
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.shelf import Shelf
from treering.mechanisms.series.tree import TreeSeries
from treering.params import Number, probability, whole
from treering.protocols import Database
from treering.theory import rings as theory
from treering.theory.sums import kept_price
from treering.words import counted, rows

_ONE: Final = ((1.0, 1),)
"""The weights of one group."""

CAPS: Final = (1, 3, 10)
"""The caps that `Persons.widths` tells of, beside none."""


class Persons(Answering):
    """Numbers of persons, and of rows with at most so many of each, paid for once and kept current, for ever.

    *Formal guarantee.* Privacy: (epsilon, delta)-DP for the whole transcript, for ever, for databases that differ in
    the values of the rows of one person, who has at most ``rows_per_person`` (``operations/persons.py``). That a person
    has rows, how many, and when they came is not protected. Accuracy: as of `Rings`.

    - ``epsilon``: a `Promise` with ``rows_per_person``, or ε
    - ``beta``, ``pace``: as of `Rings`
    """

    follows_schema = True
    notes = (KeptRings, KeptRing, Opened, *RootSeries.notes, *TreeSeries.notes)

    def __init__(
        self, db: Database, epsilon: Number | Promise, delta: Number = 0.0, beta: Number = 0.05, pace: int = 25
    ) -> None:
        self._beta = float(probability(beta, "beta"))
        self._pace = whole(pace, "pace")
        super().__init__(db, Promise.of(epsilon, delta))
        self._lock = threading.RLock()
        self._resume()

    def _resume(self) -> None:
        """See `Mechanism._resume`."""
        self._shelf = Shelf(self._gate, self._beta)
        found = [event for event in self._gate.history if isinstance(event, PersonsCounted)]
        self._everyone = found[-1] if found else None

    @property
    def limit(self) -> int:
        """The most rows that a person can have."""
        return self._promise.rows_per_person

    def plan(self, items: Sequence[Item], within: float | None = None) -> Plan:
        """See `Answering.plan`. Rows that are new since a series was last asked pay its price where they are the first
        of their persons; to open a series, all persons do."""
        with self._lock:
            if self._torn:
                with self._taking_up():
                    pass
            items = under_one_lens(items)
            size = self._rows_to_share() if items else self._gate.size
            wanted = None if within is None else wished(within, size)
            steps = Steps([], [])
            for family in families(items, self.limit):
                self._add(family, wanted, steps)
            told = self._everyone is not None and self._everyone.size == self._gate.size
            free = not steps.stale and not steps.fresh and (told or not _about_persons(items))
            known = self._findings(items) if free else None
            return Plan(items, within, steps.price, known, self._revision, steps=steps)

    def execute(self, plan: Plan) -> PersonsFindings:
        """See `Answering.execute`."""
        with self._lock:
            if self._torn or plan.revision != self._revision:
                raise Stale
            with self._taking_up():
                return self._executed(plan)

    def _executed(self, plan: Plan) -> PersonsFindings:
        self._shelf.move(plan.steps.stale, plan.steps.fresh)
        stale = self._everyone is None or self._everyone.size != self._gate.size
        if stale and _about_persons(plan.items):
            with self._gate.transaction():
                self._everyone = self._gate.count_persons()
        return self._findings(plan.items)

    def _findings(self, items: Sequence[Item]) -> PersonsFindings:
        persons = 0 if self._everyone is None else self._everyone.persons
        return PersonsFindings(self._told, self._gate.budget.kind, self._gate.size, persons, items, self.limit)

    @property
    def _revision(self) -> object:
        return self._shelf, self._shelf.moves, self._gate.size

    def drawing(self, items: Sequence[Item], sources: Sequence[Source]) -> Drawing:
        """The noise of what was told of these items, when the series were these ``sources``."""
        with self._lock:
            return self._findings(items).drawing(sources)

    # -- what to measure ----------------------------------------------------------------------------------------------

    def sums(self, family: Family) -> Sums | None:
        """What a family adds up, other than rows."""
        position = family.want.position
        return None if position < 0 else sums_of(self._gate.schema, position, counts=False)

    def able(self, family: Family, query: Query, rings: Sequence[Ring]) -> list[Ring]:
        """The series that tell one of a family's questions."""
        sums = self.sums(family)
        return [ring for ring in rings if family.told(ring, query, sums)]

    def _told(self, family: Family, query: Query) -> list[Ring]:
        """All series that tell one of a family's questions, whether or not they are current."""
        return self.able(family, query, self._shelf.rings)

    def _add(self, family: Family, wanted: float | None, steps: Steps) -> None:
        """Add to a plan what a family needs: what is known, if that is sharp enough; then series that are brought up to
        date; then a new one."""
        size, missing = self._gate.size, list[Query]()
        for query in family.queries:
            able = self.able(family, query, self._shelf.rings)
            able.sort(key=lambda ring: (ring.next_law(size).deviation, ring.number))
            known = [ring for ring in able if ring.series.size == size or ring in steps.stale]
            for ring in able:
                if _sharp(known, size, wanted):
                    break
                if ring not in known:
                    steps.stale.append(ring)
                    known.append(ring)
            if not _sharp(known, size, wanted):
                missing.append(query)
        if missing:
            asked = family.queries if family.bound else tuple(missing)
            self._open(Family(family.want, asked), wanted, steps)

    def _open(self, family: Family, wanted: float | None, steps: Steps) -> None:
        budget, number = self._gate.budget, len(self._shelf.rings) + len(steps.fresh)
        left = budget.total - self._gate.spent - sum((each.opened.price for each in steps.fresh), Fraction(0))
        price = theory.usual_price(budget.total, left, number, self._pace)
        if wanted is not None:
            price = self._price(family, wanted)
        if price <= 0 or price > left:
            raise BudgetExceeded(
                budget.unit,
                spent=budget.total - left,
                requested=price,
                total=budget.total,
                remedy="questions that were answered before stay free",
            )
        self._check_worth(family, price)
        groups = Groups.of(family.queries)
        kept = family.capped(price, self.sums(family))
        steps.fresh.append(self._shelf.made(Opened(number, groups, price, family.queries, kept)))

    def _price(self, family: Family, wanted: float) -> Fraction:
        """What it takes for every question of a family to be within what is wanted, given what is known already; and at
        least as much as what knows it."""
        kind, size, unit = self._gate.budget.kind, self._gate.size, Fraction(1)
        ratio = kept_price(Budget(kind, unit), family.capped(unit, self.sums(family))).total
        reach = family.capped(unit, self.sums(family)).reach
        prices: list[Fraction] = []
        for query in family.queries:
            known = self.able(family, query, self._shelf.rings)
            rest = theory.missing(wanted, [ring.next_law(size).deviation ** 2 for ring in known], kind)
            counts = theory.price_of(rest * reach, _ONE, max(2, len(family.queries)), kind)
            prices += [counts / ratio, *(ring.opened.price for ring in known)]
        return max(prices)

    def margin(self, family: Family, price: Fraction) -> float:
        """The margin, in rows or persons, of the first answer of a series for a family at this price."""
        kept = family.capped(price, self.sums(family))
        law = theory.first_law(kept_price(Budget(self._gate.budget.kind, price), kept), max(2, len(family.queries)))
        return theory.margin(law.scaled(1 / kept.reach) if kept.reach > 1 else law, _ONE)

    def widths(self, groups: int) -> dict[int, float]:
        """For several caps on the rows of each person, the margin of counts of so many groups that are asked next."""
        budget, one = self._gate.budget, Query.all(self._gate.schema)
        price = theory.usual_price(budget.total, budget.total - self._gate.spent, len(self._shelf.rings), self._pace)
        caps = sorted({min(cap, self.limit) for cap in CAPS} | {self.limit})
        return {cap: self.margin(Family(Want(cap, cap, self.limit), (one,) * groups), price) for cap in caps}

    def _check_worth(self, family: Family, price: Fraction) -> None:
        """Refuse to pay for an answer whose margin is all rows there are."""
        least, size = self.margin(family, price), self._gate.size
        if least >= size:
            raise GuaranteeError(
                f"with what is left of epsilon this is known within {rows(least)}, and the table has {size:,}; it "
                f"takes at least {counted(math.floor(least) + 1, 'row')}, a smaller cap, or a larger epsilon"
            )

    # -- the public state ---------------------------------------------------------------------------------------------

    @property
    def halted(self) -> bool:
        """False: there is always something left to ask with."""
        return False

    @property
    def state(self) -> tuple[int, str]:
        """The public state: how many series there are, and a fingerprint of them."""
        return len(self._shelf.rings), self._shelf.fingerprint()

    @property
    def spare(self) -> Fraction:
        """What the series that are open do not need, now or ever."""
        used = max(self._shelf.prices, self._gate.spent) * (1 + Fraction(1, 2**64))
        return max(Fraction(0), self._gate.budget.total - used)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the present size for the next new question about one condition."""
        size = self._rows()
        left = self._gate.budget.total - self._gate.spent
        price = theory.usual_price(self._gate.budget.total, left, len(self._shelf.rings), self._pace)
        one = Family(Want(1, self.limit, self.limit), (Query.all(self._gate.schema),))
        return Guarantee(
            float(self._promise.epsilon),
            float(self._promise.delta),
            1.0 if price <= 0 else min(1.0, self.margin(one, price) / size),
            self._beta,
            size,
            "each answer alone is within its margin with 95%, and all answers ever given, however chosen, are within "
            "their own errors together; alpha is the margin of the next new question about one condition",
        )

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`."""
        size = self._gate.size
        listed = [(ring, ring.described(self._gate.schema, size)) for ring in self._shelf.rings]
        return {
            **super().describe(),
            "persons": None if self._everyone is None else self._everyone.persons,
            "series": [
                {
                    "attributes": list(each.attributes),
                    "groups": each.groups,
                    "price": each.price,
                    "answers": each.answers,
                    "size": each.size,
                    "margin": each.margin,
                    "sums": each.sums,
                }
                for _, each in listed
            ],
            "left": {"oldest": self.left(1), "newest": self.left(max(1, size)), "next": self.left(size + 1)},
        }

    @property
    def backlog(self) -> int | None:
        """See `Mechanism.backlog`."""
        return 0 if self._shelf.due else None

    def condense(self) -> None:
        """See `Mechanism.condense`."""
        with self._lock:
            self._shelf.condense()


def _about_persons(items: Sequence[Item]) -> bool:
    return any(item.kind == "persons" for item in items)


def _sharp(known: Sequence[Ring], size: int, wanted: float | None) -> bool:
    """Whether some series together are as sharp about a group as is wanted."""
    if not known or wanted is None:
        return bool(known)
    laws = [ring.next_law(size) for ring in known]
    if any(law.parts for law in laws):
        return min(theory.margin(law, _ONE) for law in laws) <= wanted * (1 + 1e-6)
    precision = math.fsum(1 / law.deviation**2 for law in laws)
    return theory.NORMAL / math.sqrt(precision) <= wanted * (1 + 1e-6)
