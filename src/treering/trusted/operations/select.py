"""Selection: one query, drawn by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from treering.arrays import Ints
from treering.budget.cost import Cost, exponential
from treering.domain.query import Query
from treering.errors import ParameterError
from treering.gate import Selected
from treering.params import exact_scale
from treering.trusted.operations.base import Desk, Operation, gaps, integers
from treering.trusted.samplers import select


class Choice(NamedTuple):
    """A checked request."""

    queries: tuple[Query, ...]
    scales: Ints
    scale: float
    estimates: Ints | None


class Selecting(Operation[Choice, Selected]):
    """One index, drawn exactly with probability ∝ e^{score/scale}, the score in rows: count, or |count − estimate|."""

    __slots__ = ()
    event = Selected
    cells = True

    def check(self, desk: Desk, *request: Any) -> Choice:
        """Refuse queries of another schema, and estimates that are no integers."""
        queries, scale, estimates = request
        asked, scales, _ = desk.check_queries(queries)
        if not asked:
            raise ParameterError("queries", "must name at least one candidate")
        known = None if estimates is None else integers(estimates, "estimates", len(asked))
        return Choice(asked, scales, scale, known)

    def price(self, checked: Choice, desk: Desk) -> Cost:
        """That of the exponential mechanism."""
        return selecting(checked.queries, checked.scale)

    def perform(self, checked: Choice, cost: Cost, desk: Desk) -> Selected:
        """The draw."""
        return Selected(desk.size, cost, checked.queries, _drawn(checked, desk))


def selecting(queries: Sequence[Query], scale: float) -> Cost:
    """The exponential mechanism, over scores that move by at most the largest r of the queries: ε = 2r/scale, and
    ε²/8-zCDP."""
    return exponential(max(Fraction(query.spread, query.scale) for query in queries), exact_scale(scale, "scale"))


def _drawn(checked: Choice, desk: Desk) -> int:
    unit = math.lcm(*checked.scales.tolist())
    scores = gaps(desk.cells.count_many(checked.queries), checked.estimates).tolist()
    finer = [score * (unit // query.scale) for score, query in zip(scores, checked.queries, strict=True)]
    return select.exponential(finer, exact_scale(checked.scale, "scale") * unit)
