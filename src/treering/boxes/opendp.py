"""An OpenDP measurement as a box.

OpenDP itself is not imported here: the measurement is handed to the gate as it is, and the kernel checks it, prices it
by its own privacy map and runs it (``trusted/operations/foreign.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from treering.arrays import Floats
from treering.boxes.base import Progress, Release, SchemaBox, silent
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query, evaluate_many
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, TreeringError
from treering.lazy import missing
from treering.params import probability, whole
from treering.protocols import Gate
from treering.words import counted

Alpha: TypeAlias = Callable[[int, Budget, float], float]
"""(size, budget, beta) → the error, as a share of the rows, that no query exceeds, except with probability beta."""


def from_opendp(measurement: Any, alpha: Alpha | None = None, kind: BudgetKind = "pure") -> ForeignBox:
    """A box made of an OpenDP measurement of the vector of all counts, which releases one value per cell.

    ``measurement`` is an OpenDP measurement, or a function from a `Budget` to one: schedulers, which run a box with a
    different budget each time, need the function. It must take vectors of integers and L1 or L2 distances and be
    private in the sense of MaxDivergence or ZeroConcentratedDivergence. Its cost is what its own privacy map says for
    neighbours that replace one row (2 apart in L1, √2 in L2). OpenDP rounds this up to a float, so a function should
    leave a tiny part of its budget unused. Distances of type f64 are the best; L2 distances in integers cost double,
    because √2 is rounded up to 2.

    ``alpha`` is the accuracy that you have proven for the measurement: a function of (size, budget, beta) that obeys
    the scaling law of `Box`. Without it nothing is guaranteed, and the box refuses to run. ``kind="zcdp"`` says that
    the measurement takes zCDP budgets only.

        def noisy(budget):
            scale = 2.000001 / float(budget.total)
            return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="f64"), scale=scale)

        box = from_opendp(noisy, alpha=lambda size, budget, beta: ...)
    """
    if find_spec("opendp") is None:
        raise TreeringError(missing("from_opendp", "opendp", "opendp"))
    if kind not in ("pure", "zcdp"):
        raise ParameterError("kind", f"must be 'pure' or 'zcdp', not {kind!r}")
    return (ForeignBox if kind == "pure" else ZcdpForeignBox)(measurement, alpha)


class ForeignBox(SchemaBox):
    """The box that `from_opendp` makes. Privacy: by the measurement's own map. Accuracy: as declared by the caller."""

    def __init__(self, measurement: Any, alpha: Alpha | None) -> None:
        super().__init__()
        if not callable(measurement):
            raise ParameterError(
                "measurement", f"must be one, or a function from a budget to one, not {type(measurement).__name__}"
            )
        if alpha is not None and not callable(alpha):
            raise ParameterError("alpha", f"must be a function of size, budget and beta, not {type(alpha).__name__}")
        self._measurement = measurement
        self._alpha = alpha

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The declared accuracy; `GuaranteeError` if none was declared."""
        cells = self.schema.cells
        self._check_kind(budget)
        whole(size, "size")
        chance = float(probability(beta, "beta"))
        if self._alpha is None:
            raise GuaranteeError(
                "nothing is known of this measurement's accuracy: declare what you have proven, "
                "from_opendp(measurement, alpha=function of (size, budget, beta)); HistogramBox has a proven error"
            )
        stated = float(self._alpha(size, budget, chance))
        if math.isnan(stated) or stated < 0:
            raise GuaranteeError(
                f"alpha must be an error of 0 or more, and is {stated} for {counted(size, 'row')} in "
                f"{counted(cells, 'cell')}"
            )
        return stated

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> ForeignRelease:
        """Have the kernel run the measurement on the counts of all cells."""
        self._check_kind(budget)
        self._check(gate)
        error = self.alpha(gate.size, budget, beta)
        progress(0.0, "running a measurement on all counts")
        event = gate.foreign(self._made(budget))
        if len(event.values) != self.schema.cells:  # recorded as failed
            raise TreeringError("the measurement failed when it was run")
        return ForeignRelease(self.schema, event.size, np.array(event.values, dtype=np.float64), error)

    def _made(self, budget: Budget) -> Any:
        # A measurement is callable, too (with the counts), so functions are told apart by `invoke`.
        given = self._measurement
        return given if hasattr(given, "invoke") else given(budget)

    def _check_kind(self, budget: Budget) -> None:
        if self.kind == "zcdp" and budget.kind == "pure":
            raise ParameterError("budget", "must be of kind zcdp for this measurement: promise a delta above 0")


class ZcdpForeignBox(ForeignBox):
    """A `ForeignBox` that takes zCDP budgets only."""

    kind: BudgetKind = "zcdp"


class ForeignRelease(Release):
    """The values that a measurement released, one per cell: a query's answer is their weighted sum."""

    def __init__(self, schema: Schema, size: int, values: Floats, error: float) -> None:
        super().__init__(schema, size)
        self._positions = tuple(position for position, width in enumerate(schema.shape) if width > 1)
        self._values = values.reshape([schema.shape[position] for position in self._positions])
        self._error = error

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        """Sums of the released values; the error is the declared one."""
        scales = np.array([query.scale for query in queries], dtype=np.float64)
        counts = evaluate_many(queries, self._marginal, np.float64) / scales
        return counts / self.size, np.full(len(queries), self._error)

    def _marginal(self, attributes: tuple[int, ...]) -> Floats:
        others = tuple(axis for axis, position in enumerate(self._positions) if position not in attributes)
        return np.asarray(self._values.sum(axis=others))
