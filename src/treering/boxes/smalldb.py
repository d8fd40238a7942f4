"""SmallDB: a small synthetic database that answers a class of queries (Blum, Ligett and Roth 2008).

For a class that SmallDB cannot serve, the error message names a box that can (the last section).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.boxes.base import Progress, QueryClass, Rate, Release, SchemaBox, declared, silent
from treering.boxes.histogram import MOST_CELLS
from treering.budget.promise import Budget
from treering.domain.candidates import Atoms, Candidates, collapse
from treering.domain.language.parse import Question
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError
from treering.mechanisms.histogram.hypothesis import MAX_CELLS, rows_of
from treering.params import probability, whole
from treering.protocols import Gate
from treering.theory import smalldb as theory
from treering.theory.static import answer_radius, answers_noise, histogram_noise, histogram_radius, mwem_plan

_USELESS = 0.5
"""The error of the answer ½, which needs no data."""

_USUAL = 0.1
"""The error for which an error message says how many databases an infeasible class would have to enumerate."""


class SmallDB(SchemaBox):
    """Draws a small database whose answers to a class of queries are near the true ones, by the exponential mechanism.

    Formal guarantee. Neighbours replace one row. The draw is ε-DP with scale 2r/ε rows, or ρ-zCDP with scale r/√(2ρ), r
    being the largest spread of a query (1 for counting queries): see `protocols.Gate.draw_rows`. It is exact, never an
    approximation by a Markov chain.
    Accuracy. With probability at least 1 − beta every query of the class is within a + scale·(log|R| + log(1/β))/size,
    R being the candidates and a how near the best one is sure to be: the theorem of `treering.theory.smalldb`. The
    number of synthetic rows is the one that makes this least, among those that can be drawn. (Intervals may be answered
    as differences of prefixes, if twice that bound is less.)

    What can be drawn follows from the class (`treering.domain.candidates`): prefixes (thresholds) of an ordered
    attribute with atoms × rows up to 2^18, all intervals of one with atoms² × rows up to 2^21, and any class with at
    most a million candidates. A class for which a database of no size would have an error below ½ is refused.

    ``queries`` are declared before the run, each a `Query` or its text; only these and their complements are answered.
    """

    def __init__(self, queries: Iterable[Question]) -> None:
        super().__init__()
        self._declared = declared(queries)

    def _prepare(self, schema: Schema) -> None:
        self._class = QueryClass(schema, self._declared)
        self._candidates: Candidates | None = None
        if not len(self._class):
            return
        try:
            self._candidates = Candidates.of(collapse(self._class.queries))
        except ParameterError as error:
            raise GuaranteeError(f"SmallDB cannot serve this class: its {error}. {another_box(self._class)}") from None
        self._choices = self._choose_from(self._candidates)
        self._direct = len(self._choices.rows)
        if (prefixes := self._candidates.prefixes) is not None:
            self._choices += self._choose_from(prefixes, 2)
        if self._choices.floor >= _USELESS:
            raise GuaranteeError(f"{self._infeasible(self._candidates)}. {another_box(self._class)}")

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The theorem's bound at the number of synthetic rows that makes it least."""
        whole(size, "size"), probability(beta, "beta")
        return self._best(size, budget, beta)[1] if self._ready() else 0.0

    @property
    def rate(self) -> Rate | None:
        """The paper's rate, with p = ⅓, for beta up to ½; N counts the atoms. None if every query is constant.

        It holds down to the error at the largest number of synthetic rows that can be drawn: `alpha` is never less.
        """
        candidates = self._ready()
        if candidates is None:
            return None
        power = theory.PAPER_POWER
        return Rate(power, theory.rate(candidates.atoms.number, len(self._class)), power)

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        """Draw a synthetic database: one operation of the gate, which costs the budget."""
        probability(beta, "beta")
        candidates = self._ready()
        self._check(gate)
        if candidates is None:
            return _Small(self._class, None, gate.size, (), 0.0)
        place, error = self._best(gate.size, budget, beta)
        rows = int(self._choices.rows[place])
        prefixes = candidates.prefixes if place >= self._direct else None
        queries = self._class.queries if prefixes is None else prefixes.asked
        progress(0.0, f"drawing {rows:,} synthetic rows")
        drawn = gate.draw_rows(queries, rows, theory.scale(budget, max(self._class.spreads)))
        progress(1.0, "drawn")
        return _Small(self._class, candidates.atoms, gate.size, drawn.cells, error)

    def _ready(self) -> Candidates | None:
        """The candidates; None if every query is constant. Raises if the box is not bound yet."""
        _ = self.schema
        return self._candidates

    def _best(self, size: int, budget: Budget, beta: float) -> tuple[int, float]:
        """The position, among the choices, of the best number of synthetic rows, and the error there."""
        return self._choices.best(theory.noise(size, budget, max(self._class.spreads)), beta)

    def _choose_from(self, candidates: Candidates, factor: int = 1) -> theory.RowChoices:
        rows = theory.numbers_of_rows(candidates.most_rows)
        return theory.RowChoices.of(rows, self._nearest(candidates), candidates.number, factor)

    def _nearest(self, candidates: Candidates) -> theory.Error:
        """The error of the best candidate, as a function of its number of rows."""
        if candidates.method == "prefixes":
            return theory.prefix_error
        if candidates.method == "intervals":
            return theory.interval_error
        atoms, queries = candidates.atoms.number, len(self._class)
        return lambda rows: min(theory.sampling_error(queries, rows), theory.rounding_error(atoms, rows))

    def _infeasible(self, candidates: Candidates) -> str:
        atoms, queries = candidates.atoms.number, len(self._class)
        rows = min(theory.rows_for(queries, _USUAL), math.ceil(theory.rounding_error(atoms, 1) / _USUAL))
        digits = math.floor(theory.log_candidates(atoms, rows) / math.log(10))
        return (
            f"SmallDB cannot serve this class: {queries:,} queries tell {atoms:,} atoms (sets of cells) apart, and for "
            f"an error of {_USUAL:g} it would enumerate the databases of {rows:,} rows, about 10^{digits} of them; "
            f"{candidates.limit}"
        )


class _Small(Release):
    """The synthetic database of a `SmallDB`."""

    def __init__(self, served: QueryClass, atoms: Atoms | None, size: int, cells: Sequence[int], error: float) -> None:
        super().__init__(served.schema, size)
        self._class, self._atoms = served, atoms
        self._rows = np.zeros(0, dtype=np.int64) if atoms is None else atoms.of(cells)
        values = np.zeros(0)
        if atoms is not None:
            counts = np.bincount(self._rows, minlength=atoms.number)
            scales = np.array([query.scale for query in served.queries], dtype=np.float64)
            values = (atoms.weights @ counts) / (scales * len(self._rows))
        self._values: Floats = values
        self._errors = np.full(len(values), error)

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        return self._class.shares(queries, "SmallDB", self._values, self._errors)

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        """Independent draws from the synthetic database, each turned into a uniformly random cell of its atom.

        No query of the class tells the cells of an atom apart, so nothing is known about their distribution.
        """
        whole(rows, "rows", 0)
        if self._atoms is None:
            return rows_of(self.schema, generator.integers(0, self.schema.cells, rows))
        chosen = self._rows[generator.integers(0, len(self._rows), rows)]
        return rows_of(self.schema, _cells_within(self._atoms, chosen, generator))


def _cells_within(atoms: Atoms, chosen: Ints, generator: np.random.Generator) -> Ints:
    """A uniformly random cell of each of these atoms."""
    order = np.argsort(atoms.labels, kind="stable")
    sizes = np.bincount(atoms.labels, minlength=atoms.number)
    joint = order[(np.cumsum(sizes) - sizes)[chosen] + generator.integers(0, sizes[chosen])]
    codes: dict[int, Ints] = {}
    for position in reversed(atoms.attributes):
        joint, codes[position] = np.divmod(joint, atoms.schema.shape[position])
    cells = np.zeros(len(chosen), dtype=np.int64)
    for position, size in enumerate(atoms.schema.shape):
        code = codes[position] if position in codes else generator.integers(0, size, len(chosen))
        cells = cells * size + code
    return cells


# -- the box to use instead, for error messages ------------------------------------------------------------------------


_SIZE: Final = 10**6
_BETA: Final = 0.05
_BUDGET: Final = Budget("pure", Fraction(1))


def another_box(served: QueryClass) -> str:
    """A sentence that names the box whose proven error is least for this class, a million rows and an epsilon of 1:
    HistogramBox, AnswersBox or MWEM."""
    cells, queries = served.schema.cells, len(served)
    errors = {
        "AnswersBox": answer_radius(answers_noise(_BUDGET, served.spreads), _BETA / queries) / _SIZE,
    }
    if cells <= MOST_CELLS:
        errors["HistogramBox"] = histogram_radius(histogram_noise(_BUDGET), cells, _BETA) / _SIZE
    if cells <= MAX_CELLS:
        errors["MWEM"] = mwem_plan(cells, queries, max(served.spreads), _SIZE, _BUDGET, _BETA).alpha(cells, _SIZE)
    best = min(errors, key=errors.__getitem__)
    return f"{best} would do: its error for a million rows and an epsilon of 1 is at most {errors[best]:.2g}"
