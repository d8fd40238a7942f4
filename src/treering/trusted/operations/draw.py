"""A synthetic database, drawn by the exponential mechanism (see ``operations/synthesis.py``)."""

from __future__ import annotations

from typing import Any, NamedTuple

from treering.budget.cost import Cost
from treering.domain.query import Query
from treering.gate import RowsDrawn
from treering.trusted.operations.base import Desk, Operation
from treering.trusted.operations.select import selecting
from treering.trusted.operations.synthesis import Synthesis


class Draw(NamedTuple):
    """A checked request."""

    queries: tuple[Query, ...]
    rows: int
    scale: float
    synthesis: Synthesis


class Drawing(Operation[Draw, RowsDrawn]):
    """Rows with probability ∝ e^{score/scale}. Cost: ε = 2r/scale with r the largest spread of a query in rows;
    ε²/8-zCDP."""

    __slots__ = ()
    event = RowsDrawn
    cells = True

    def check(self, desk: Desk, *request: Any) -> Draw:
        """Refuse queries, a number of rows or a scale that cannot be."""
        queries, rows, scale = request
        asked, _, _ = desk.check_queries(queries)
        return Draw(asked, rows, scale, Synthesis(asked, rows, desk.size, scale))

    def price(self, checked: Draw, desk: Desk) -> Cost:
        """That of the exponential mechanism: its score, a maximum over the queries, moves by at most the largest r."""
        return selecting(checked.queries, checked.scale)

    def perform(self, checked: Draw, cost: Cost, desk: Desk) -> RowsDrawn:
        """Draw the rows."""
        counts = desk.cells.count_many(checked.synthesis.asked).tolist()
        return RowsDrawn(desk.size, cost, checked.queries, checked.rows, checked.synthesis.draw(counts))
