"""What to measure for a question: the public policy of `Rings`.

What is known is used if it is sharp enough. Series that could answer and are not current are brought up to date, the
sharpest first. For what is still missing a series is opened over the groups that the batch tells apart, at the price
that the wish needs or, without one, at the usual one. All of it is computed from public values, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.language.items import Item
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.domain.sums import Sums
from treering.errors import BudgetExceeded, GuaranteeError, ParameterError
from treering.mechanisms.series.ring import UNFIT, Opened, Ring, reduced_to, sharp, sharp_sum
from treering.mechanisms.series.shelf import Shelf
from treering.protocols import Gate
from treering.theory import rings as theory
from treering.theory.continual import Law
from treering.theory.series import rooted
from treering.theory.sums import noise_price
from treering.words import counted, readable, rows

MANY: Final = 100
"""The pace from which on questions are taken to share nothing."""

REMEMBERED: Final = 2**18
"""The most bytes of a batch whose spreads are remembered: others hold memory for as long as they are."""


class Needs(NamedTuple):
    """What a batch of items needs to know: how many rows match each of the ``counts``; for attributes, by their
    positions, the sums over the rows that match; and how many rows are in the ``cells`` of some groups, which one
    series must tell."""

    counts: Sequence[Query]
    sums: Mapping[int, Sequence[Query]] = MappingProxyType({})
    cells: Sequence[tuple[Query, ...]] = ()


def needs_of(items: Sequence[Item], *, pure: bool) -> Needs:
    """What items need that is not public. (Unless the promise is pure, the rows that are summed are counted with their
    sum.)"""
    counts: dict[Query, None] = {}
    sums: dict[int, dict[Query, None]] = {}
    cells: dict[tuple[Query, ...], None] = {}
    for item in items:
        if item.by_cells:
            cells[tuple(query for query in item.cells() if not query.constant)] = None
            continue
        if item.kind != "count" and not nothing(item.query):
            sums.setdefault(item.position, {})[item.query] = None
        if (item.kind == "count" or (pure and item.kind != "sum")) and not item.query.constant:
            counts[item.query] = None
    listed = {position: list(queries) for position, queries in sums.items()}
    return Needs(list(counts), listed, [each for each in cells if each])


def nothing(query: Query) -> bool:
    """Whether no row can match."""
    return query.constant and int(query.weights()) == 0


class Steps(NamedTuple):
    """The series to bring up to date, and those to open."""

    stale: list[Ring]
    fresh: list[Ring]
    since: int | None = None
    """The size since which rows are asked about."""

    @property
    def moves(self) -> bool:
        """Whether some series is moved or opened."""
        return bool(self.stale or self.fresh)

    @property
    def price(self) -> Fraction:
        """What it costs those rows that pay most, but for rounding."""
        opening = sum((each.opened.price for each in self.fresh), Fraction(0))
        return opening + sum((ring.series.next_price for ring in self.stale), Fraction(0))


class Policy:
    """Decides what to measure for a batch, from the series that there are and from what is left."""

    def __init__(self, gate: Gate, shelf: Shelf, pace: int) -> None:
        self._gate, self._shelf, self._pace = gate, shelf, pace

    @property
    def _rings(self) -> Sequence[Ring]:
        return self._shelf.rings

    @property
    def _least_left(self) -> Fraction:
        return self._gate.budget.total - self._gate.spent

    def usual(self, left: Fraction, opened: int, *, whole: bool = False) -> Fraction:
        """The price of a series that nobody had a wish for, after some were opened."""
        price = theory.whole_price if whole else theory.usual_price
        return price(self._gate.budget.total, left, opened, self._pace)

    @property
    def _pure(self) -> bool:
        return self._gate.budget.kind == "pure"

    def steps(self, needs: Needs, wanted: float | None, since: int | None) -> Steps:
        """Which series to bring up to date, and which to open, so that each query can be answered: from public values.

        Sums come first: the counts that they bring are then there for the rest. Counts have their own series, and are
        not summed from cells of the same batch. Nothing is charged here; steps that the budget does not cover raise.
        """
        steps = Steps([], [], since)
        for position, queries in needs.sums.items():
            self._plan_sums(position, queries, wanted, since, steps)
        self._plan_counts(needs.counts, wanted, since, steps)
        self._plan_cells(needs.cells, wanted, since, steps)
        return steps

    def second(self, left: Fraction) -> Fraction:
        """The most that the second step of quantiles costs, if the first leaves this much."""
        dearest = max((ring.series.next_price for ring in self._rings), default=Fraction(0))
        return min(left, max(dearest, self.usual(left, len(self._rings))))

    def _plan_cells(
        self, asked: Sequence[tuple[Query, ...]], wanted: float | None, since: int | None, steps: Steps
    ) -> None:
        """Add to a plan what the cells of groups need: for each group one series, current and sharp, that tells them
        all."""
        if not asked:
            return
        size, missing = self._gate.size, dict[Query, None]()
        rings = [*self._rings, *steps.fresh]
        able_of = self._able([query for cells in asked for query in cells], wanted, since, rings)
        for cells in asked:
            able = [ring for ring in able_of[cells[0]] if all(ring in able_of[query] for query in cells[1:])]
            fit = [ring for ring in able if all(sharp(query, [ring], size, wanted, since) for query in cells)]
            fit.sort(key=lambda ring: (ring.next_variance(cells[0], size, since), ring.number))
            fresh = {each.number for each in steps.fresh}
            if any(ring.series.size == size or ring in steps.stale or ring.number in fresh for ring in fit):
                continue
            if fit:
                steps.stale.append(fit[0])
            else:
                missing |= dict.fromkeys(cells)
        for batch in batches(list(missing)):
            self._add_opening(batch, Groups.atoms(batch), wanted, steps, None)

    def _plan_counts(self, asked: Sequence[Query], wanted: float | None, since: int | None, steps: Steps) -> None:
        """Add to a plan what the counts of queries need."""
        size, missing = self._gate.size, list[Query]()
        rings = [*self._rings, *steps.fresh]
        current = {ring.number for ring in self._rings if ring.series.size == size or ring in steps.stale}
        current |= {each.number for each in steps.fresh}
        able_of = self._able(asked, wanted, since, rings)
        # Those with the fewest series come first: what they need is then there for the others.
        for query in sorted(asked, key=lambda each: len(able_of[each])):
            able = able_of[query]
            if len(able) > 1:
                able.sort(key=lambda ring: (ring.next_variance(query, size, since), ring.number))
            known = [ring for ring in able if ring.number in current]
            for ring in able:
                if sharp(query, known, size, wanted, since):
                    break
                if ring.number not in current:
                    steps.stale.append(ring)
                    current.add(ring.number)
                    known.append(ring)
            if not sharp(query, known, size, wanted, since):
                missing.append(query)
        if missing and since:
            raise self._too_wide(missing, wanted)
        self._add_openings(missing, wanted, steps)

    def _able(
        self, asked: Sequence[Query], wanted: float | None, since: int | None, rings: Sequence[Ring]
    ) -> dict[Query, list[Ring]]:
        """The series that can answer each query.

        Without a wish, and before there are ``pace`` series, those that a query would have to sum very many groups of
        do not count: it gets a series of its own.
        """
        size = self._gate.size
        reaching = [ring for ring in rings if ring.reaches(since, size)]
        able = {query: [ring for ring in reaching if ring.covers(query)] for query in asked}
        if wanted is not None or since or len(rings) >= self._pace or self._least_left <= 0 or not any(able.values()):
            return able
        usual = self.usual(self._least_left, len(rings))
        own = _spreads(tuple(asked), self._pace)
        most = {ring: ring.most_spread(usual) for each in able.values() for ring in each}
        return {
            query: [ring for ring in each if ring.spread(query) <= most[ring] * own[query]]
            for query, each in able.items()
        }

    def _add_openings(self, missing: Sequence[Query], wanted: float | None, steps: Steps) -> None:
        """Add the series that must be opened for the counts of some queries, and their prices."""
        found, schema = portions(missing, self._pace), self._gate.schema
        if wanted is None and tell_all(found, schema):
            self._add_opening(missing, Groups.marginal(schema), None, steps, None, whole=True)
            return
        for batch, groups in found:
            self._add_opening(batch, groups, wanted, steps, None)

    def _add_opening(
        self,
        batch: Sequence[Query],
        groups: Groups,
        wanted: float | None,
        steps: Steps,
        sums: Sums | None,
        *,
        whole: bool = False,
    ) -> None:
        """Add a series over some groups, or of the ``whole`` table, for a batch of queries, at the price it takes."""
        left = self._least_left - sum((each.opened.price for each in steps.fresh), Fraction(0))
        number = len(self._rings) + len(steps.fresh)
        if wanted is None:
            price = self.usual(left, number, whole=whole)
        elif sums is None:
            price = self._price(batch, groups, wanted)
        else:
            price = self._sum_price(batch, groups, wanted, sums)
        if price <= 0 or price > left:
            raise self._unaffordable(batch, groups, wanted, price, left, sums)
        self._check_worth(batch, groups, price, sums)
        steps.fresh.append(self._shelf.made(Opened(number, groups, price, tuple(batch), sums)))

    def _price(self, batch: Sequence[Query], groups: Groups, wanted: float) -> Fraction:
        """What it takes for every query of a batch to be within what is wanted, given what is known already.

        At least as much as the dearest series that knows one of them (the usual price, if that is more than is left):
        otherwise a question asked again and again with the same wish would open ever smaller ones.
        """
        kind, classes = self._gate.budget.kind, groups.classes
        left, prices = self._least_left, list[Fraction]()
        for query in batch:
            reduced = reduced_to(groups, query, classes)
            known = [ring for ring in self._rings if ring.covers(query)]
            dearest = max((ring.count_price for ring in known), default=Fraction(0))
            least = dearest if dearest <= left else self.usual(left, len(self._rings))
            rest = theory.missing(wanted, [ring.next_variance(query, self._gate.size) for ring in known], kind)
            prices.append(max(theory.price_of(rest, theory.spectrum(reduced), groups.number, kind), least))
        return max(prices)

    # -- sums ---------------------------------------------------------------------------------------------------------

    def _plan_sums(
        self, position: int, asked: Sequence[Query], wanted: float | None, since: int | None, steps: Steps
    ) -> None:
        """Add to a plan what the sums of an attribute over the rows of queries need."""
        size, missing = self._gate.size, list[Query]()
        sums = self._shelf.sums(position)
        rings = [ring for ring in self._rings if ring.reaches(since, size)]
        for query in asked:
            able = [ring for ring in rings if ring.sums_up(sums, query) and self._fits(ring, query, wanted, since)]
            able.sort(key=lambda ring: (ring.next_sum_variance(query, size, since), ring.number))
            known = [ring for ring in able if ring.series.size == size or ring in steps.stale]
            for ring in able:
                if sharp_sum(query, known, size, wanted, since):
                    break
                if ring not in known:
                    steps.stale.append(ring)
                    known.append(ring)
            if not sharp_sum(query, known, size, wanted, since):
                missing.append(query)
        if missing and since:
            raise self._too_wide(missing, wanted)
        for batch in batches(missing):
            self._add_opening(batch, sum_groups(batch, position, self._gate.schema), wanted, steps, sums)

    def _fits(self, ring: Ring, query: Query, wanted: float | None, since: int | None) -> bool:
        """Whether a series is no far worse for a sum than one of its own would be: see `_able`."""
        if wanted is not None or since or len(self._rings) >= self._pace or self._least_left <= 0:
            return True
        usual = self.usual(self._least_left, len(self._rings))
        return theory.chosen_groups(ring.reduced(query)) <= ring.most_spread(usual if self._pure else usual / 2)

    def _sum_price(self, batch: Sequence[Query], groups: Groups, wanted: float, sums: Sums) -> Fraction:
        """`_price` for sums: a row at a bound of the range adds as much as ``wanted`` counts."""
        kind, size = self._gate.budget.kind, self._gate.size
        prices: list[Fraction] = []
        for query in batch:
            known = [ring for ring in self._rings if ring.sums_up(sums, query)]
            dearest = max((ring.series.price.total for ring in known), default=Fraction(0))
            rest = theory.missing(wanted, [ring.next_sum_variance(query, size) for ring in known], kind)
            plain = theory.plain_spectrum(reduced_to(groups, query, groups.classes))
            alone = theory.price_of(rest, plain, max(2, groups.number), kind)
            prices.append(max(2 * alone if kind == "zcdp" else alone, dearest))
        return max(prices)

    # -- refusals -----------------------------------------------------------------------------------------------------

    def _margins(self, batch: Sequence[Query], groups: Groups, price: Fraction, sums: Sums | None) -> list[float]:
        """The margin, in rows, that each query of a batch has in the first answer of a series."""
        classes, budget = groups.classes, Budget(self._gate.budget.kind, price)
        reduced = [reduced_to(groups, query, classes) for query in batch]
        if sums is None:
            law = theory.first_law(budget, groups.number)
            return [theory.margin(law, theory.spectrum(query)) for query in reduced]
        law = _sum_law(budget, sums, groups.number)
        return [theory.margin(law, theory.plain_spectrum(query)) for query in reduced]

    def _check_worth(self, batch: Sequence[Query], groups: Groups, price: Fraction, sums: Sums | None) -> None:
        """Refuse to pay for an answer whose margin is all rows there are."""
        size, least = self._gate.size, min(self._margins(batch, groups, price, sums))
        if least >= size:
            raise GuaranteeError(
                f"with what is left of epsilon a {'count' if sums is None else 'sum'} is known within "
                f"{rows(least)}, and the table has {size:,}; it takes at least "
                f"{counted(math.floor(least) + 1, 'row')}, or a larger epsilon"
            )

    def _unaffordable(
        self,
        batch: Sequence[Query],
        groups: Groups,
        wanted: float | None,
        price: Fraction,
        left: Fraction,
        sums: Sums | None,
    ) -> BudgetExceeded:
        """The refusal of a batch that ``left`` does not pay for, with what would do."""
        budget = self._gate.budget
        remedy = "questions that were answered before stay free"
        if wanted is not None and left > 0:
            best = max(self._margins(batch, groups, left, sums))
            at = math.ceil(self._gate.size * best / wanted)
            remedy = (
                f"with all that is left a margin of {rows(best)} can be had instead of {readable(wanted)}, and "
                f"the same share of the rows from {counted(at, 'row')} on"
            )
        return BudgetExceeded(
            budget.unit, spent=budget.total - left, requested=price, total=budget.total, remedy=remedy
        )

    def _too_wide(self, missing: Sequence[Query], wanted: float | None) -> ParameterError:
        return ParameterError(
            "within" if wanted is not None else "since",
            f"cannot be had for {len(missing)} of the queries: the rows of a period that is over are counted once",
        )


def sum_groups(batch: Sequence[Query], position: int, schema: Schema) -> Groups:
    """The groups of a series of sums for some queries; one group if they tell no rows apart."""
    if any(query.attributes for query in batch):
        return Groups.atoms(batch)
    return Groups.over(schema, [position], [np.zeros(schema.shape[position], dtype=np.int64)])


def _sum_law(price: Budget, sums: Sums, groups: int) -> Law:
    """The law of the noise of a group's sum, in rows, in the first answer of a series at this price."""
    return theory.first_law(noise_price(price, sums.reach), max(2, sums.numbers(groups))).scaled(1 / sums.reach)


def tell_all(wanted: Sequence[tuple[Sequence[Query], Groups]], schema: Schema) -> bool:
    """Whether one series of all cells takes the place of those for questions about several sets of attributes: these
    have no fewer groups together, and cells are not too many to be kept by square roots. It answers every count that
    will ever be asked for."""
    sets = {query.attributes for queries, _ in wanted for query in queries}
    return len(sets) > 1 and rooted(schema.cells) and sum(groups.number for _, groups in wanted) >= schema.cells


def batches(queries: Sequence[Query]) -> list[list[Query]]:
    """Queries that are answered by one series: for each set of attributes that lies in no other, all within it."""
    sets = sorted({frozenset(query.attributes) for query in queries}, key=lambda each: (-len(each), sorted(each)))
    widest: list[frozenset[int]] = []
    for each in sets:
        if not any(each < other for other in widest):
            widest.append(each)
    found: dict[frozenset[int], list[Query]] = {each: [] for each in widest}
    for query in queries:
        home = next(each for each in widest if set(query.attributes) <= each)
        found[home].append(query)
    return list(found.values())


def portions(queries: Sequence[Query], pace: int) -> list[tuple[list[Query], Groups]]:
    """The queries that are answered by one series each, with its groups: the batches, and what they tell apart.

    With a pace of `MANY` or more a series is a small part of the budget, and questions are taken to share nothing. One
    that would have to sum many groups is then a series by itself, of two groups: the question and all other rows, which
    is the smallest margin that a price can buy.
    """
    found: list[tuple[list[Query], Groups]] = []
    for batch in batches(queries):
        alone = dict.fromkeys(_alone(batch) if pace >= MANY else ())
        rest = [query for query in batch if query not in alone]
        found += [(rest, Groups.atoms(rest))] if rest else []
        found += [([query], Groups.pair(query)) for query in alone]
    return found


def _alone(batch: Sequence[Query]) -> list[Query]:
    """The queries of a batch that two groups would save three quarters of the variance; one by itself, if it saves any.

    (Where joint values are too many for a table of them, none.)
    """
    groups = Groups.atoms(batch)
    if groups.number > MAX_TABLE:
        return []
    own, most = _spreads_in(batch, groups), UNFIT / 2 if len(batch) > 1 else 0.0
    return [query for query in batch if query.counting and own[query] > most]


def _spreads_in(batch: Sequence[Query], groups: Groups) -> dict[Query, float]:
    """The spread of each query in a series over these groups."""
    classes = groups.classes
    return {query: theory.spread(theory.spectrum(reduced_to(groups, query, classes))) for query in batch}


def _spreads(asked: tuple[Query, ...], pace: int) -> dict[Query, float]:
    """The spread that each query would have in a series opened for this batch. (Of large batches only the last is
    remembered.)"""
    small = sum(query.memory for query in asked) <= REMEMBERED
    return _known_spreads(asked, pace) if small else _last_spreads(asked, pace)


def _new_spreads(asked: tuple[Query, ...], pace: int) -> dict[Query, float]:
    spreads: dict[Query, float] = {}
    for batch, groups in portions(asked, pace):
        spreads |= _spreads_in(batch, groups)
    return spreads


_known_spreads: Final = lru_cache(maxsize=256)(_new_spreads)
_last_spreads: Final = lru_cache(maxsize=1)(_new_spreads)
