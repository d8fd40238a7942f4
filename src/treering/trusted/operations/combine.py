"""Weighted counts of groups over intervals of rows, once: series, trees and histograms kept current rest on them.

*Formal guarantee.* `Combining` releases, for each of m disjoint groups of cells, Σᵢ wᵢ·(rows of the group in interval
i) plus noise, with integer weights on disjoint intervals. A replaced row of interval i leaves one group and enters
another (or none): two of the m numbers move by |wᵢ| each, and one if m = 1. So the release is 2|wᵢ|/s-DP for Laplace
noise of scale s, and wᵢ²/σ²-zCDP for Gaussian noise of scale σ, for a row of interval i (half of it for m = 1), and
rows outside all intervals are not read. Each interval's rows are charged for their own weight (``budget/rows.py``).

*Sums.* For an attribute whose values are integers u with |u| ≤ R (``domain/sums.py``) the numbers of a group may be
Σᵢ wᵢ·(Σu over its rows in interval i), alone or together with R·Σᵢ wᵢ·(its rows in interval i). Let a row of interval i
be replaced, its u becoming u'. If it stays in its group, that group's sum moves by |wᵢ|·|u' − u| ≤ 2R|wᵢ| and no count
moves. If it leaves one group for another, their sums move by at most R|wᵢ| each and, where they come too, R times their
counts by R|wᵢ| each; if it leaves all groups, or enters one, half of that. So the squared L2 distance is at most
4R²wᵢ², with counts or without: max(4, 1 + 1, 1 + 1 + 1 + 1)·R²wᵢ². The L1 distance is at most 2R|wᵢ| without counts and
4R|wᵢ| with them. Hence 2R²wᵢ²/σ²-zCDP, and 2R|wᵢ|/s-DP or 4R|wᵢ|/s-DP. *A single group has no discount*: its sum moves
by 2R|wᵢ| as well.

*What is enforced here*, on public values alone: groups are disjoint by their form; spans are disjoint, and begin and
end where rows are told apart; no sum can leave 64 bits.

*Time.* Rows are counted by an engine, and the time that takes depends on how many groups of them are occupied
(docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.domain.groups import Groups
from treering.domain.sums import Sums
from treering.errors import ParameterError
from treering.gate import Combined, Span
from treering.noise import Noise
from treering.trusted import pricing
from treering.trusted.cells import MAX_COUNT
from treering.trusted.charges import Charges
from treering.trusted.noise import check_noise, draw
from treering.trusted.operations import groups as checks
from treering.trusted.operations.base import Desk, Operation
from treering.trusted.rows.kept import Need


class Combination(NamedTuple):
    """A checked request."""

    groups: Groups
    spans: tuple[Span, ...]
    noise: Noise
    sums: Sums | None


class Combining(Operation[Combination, Combined]):
    """Weighted counts, or sums, of groups plus noise. Cost for the rows of a span: 2|w|/s pure, w²/σ² zCDP; half of it
    for one group; of sums 2R|w|/s (with counts 4R|w|/s) pure, 2R²w²/σ² zCDP."""

    __slots__ = ()
    event = Combined

    def check(self, desk: Desk, *request: Any) -> Combination:
        """Refuse groups and spans that overlap, and spans that end where rows are not told apart."""
        groups, spans, noise, sums = request
        desk.check_unreserved()
        asked = tuple(spans)
        sets, summed = checks.checked_groups(groups, desk.rows.scalars), checks.checked_sums(sums, desk.rows.scalars)
        check_noise(noise, 1)
        check_spans(desk, asked, checks.reach(summed))
        return Combination(sets, asked, noise, summed)

    def price(self, checked: Combination, desk: Desk) -> Cost:
        """The cost for the rows of the largest weight."""
        groups, spans, noise, sums = checked
        return pricing.combining(groups.number, max(abs(span.weight) for span in spans), noise, sums)

    def needs(self, checked: Combination, desk: Desk) -> list[Need]:
        """The rows of each span."""
        groups, spans, _, sums = checked
        return [Need(groups, (span.start, span.end), sums) for span in spans]

    def charge(self, checked: Combination, cost: Cost, desk: Desk) -> None:
        """Charge the rows of each span for its weight."""
        groups, spans, noise, sums = checked
        desk.charges.combine(groups.number, spans, noise, sums)

    def perform(self, checked: Combination, cost: Cost, desk: Desk) -> Combined:
        """The noisy counts, or sums."""
        groups, spans, noise, sums = checked
        return Combined(desk.size, cost, groups, spans, noise, _noisy(checked, desk), sums)

    def follow(self, event: Combined, charges: Charges) -> None:
        """Charge the rows of each span for its weight."""
        charges.combine(event.groups.number, event.spans, event.noise, event.sums)


def check_spans(desk: Desk, spans: Sequence[Span], unit: int) -> None:
    """Refuse spans that overlap, or that begin or end where rows are not told apart, and sums beyond 64 bits, where a
    row counts for up to ``unit``."""
    if not spans:
        raise ParameterError("spans", "must name at least one interval of rows")
    for span in spans:
        if type(span) is not Span or type(span.weight) is not int or span.weight == 0:
            raise ParameterError("spans", "are Spans, each with an integer weight that is not 0")
        desk.check_edge(span.start, "spans")
        desk.check_edge(span.end, "spans")
        if span.start >= span.end:
            raise ParameterError("spans", "must each hold at least one row")
    ordered = sorted(spans, key=lambda span: span.start)
    if any(left.end > right.start for left, right in pairwise(ordered)):
        raise ParameterError("spans", "overlap: a row would be counted twice")
    if unit * sum(abs(span.weight) * (span.end - span.start) for span in spans) >= MAX_COUNT:
        raise ParameterError("spans", "have weights so large that weight times rows (times steps) reaches 2^61")


def _noisy(checked: Combination, desk: Desk) -> Ints:
    groups, spans, noise, sums = checked
    values = draw(noise, 1, checks.released(groups, sums))
    for span in spans:
        _, place, numbers = desk.rows.tally(groups, (span.start, span.end), sums)
        np.add.at(values, place, span.weight * numbers)
    values.setflags(write=False)
    return values
