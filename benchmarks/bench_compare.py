"""The easy path: what a comparison costs must not depend on the size of the universe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from benchmarks.harness import Result, ratio
from treering.budget.promise import Budget
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.gate import RunRequest
from treering.trusted.memory.database import GrowingDatabase

ROWS = 100_000


def results() -> Iterator[Result]:
    """A conjunction over three attributes with 10^3 joint values, in a universe of 2^24 cells against one of 2^12."""
    small, large = _comparison(2**12), _comparison(2**24)
    yield ratio("first_exceeding, one query, N=2^24 / N=2^12", lambda: large(1), lambda: small(1), limit=1.5)
    yield ratio("first_exceeding, 1,000 queries, N=2^24 / N=2^12", lambda: large(1000), lambda: small(1000), limit=1.5)


def _comparison(cells: int) -> Callable[[int], object]:
    """Compares batches of one query with a bar that is never reached; marginals are warm."""
    # Three attributes of ten values each, and a fourth that fills up the universe.
    schema = Schema(
        {"a": integers(0, 9), "b": integers(0, 9), "c": integers(0, 9), "rest": integers(0, cells // 1000 - 1)}
    )
    database = GrowingDatabase(schema)
    database.append_cells(np.random.default_rng(7).integers(0, schema.cells, ROWS))
    gate = database.open_gate(Budget("pure", Fraction(1)))
    run = gate.begin_run(RunRequest(10.0, 20.0)).run
    query = Query.where(schema, a=[1, 2, 3], b=range(5), c=[0, 9])

    def compare(count: int) -> object:
        compared = gate.first_exceeding(run, [query] * count, [ROWS] * count)
        if compared.crossing is not None:
            raise AssertionError("the bar must not be reached")
        return compared

    return compare
