"""SmallDB: drawing one of 10^134 synthetic databases by bands, against listing a hundred thousand of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from benchmarks.harness import Result, ratio
from treering.budget.promise import Budget
from treering.domain.attribute import integers
from treering.domain.candidates import Candidates, Listing, collapse
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.workload import prefixes, ranges
from treering.trusted.memory.database import GrowingDatabase

SIZE = 1_000_000


def results() -> Iterator[Result]:
    """Prefixes of 256 values in 200 rows, and intervals of 32 values in 40 rows, against a class that has to be listed:
    four atoms and 82 rows, 98,770 candidates."""
    values = Schema({"v": integers(0, 255)})
    fewer = Schema({"v": integers(0, 31)})
    crossed = Schema({"a": integers(0, 1), "b": integers(0, 1)})
    listed = _draw([Query.where(crossed, a=1), Query.where(crossed, b=1)], 82, "enumeration")
    thresholds = _draw(prefixes(values, "v"), 200, "prefixes")
    intervals = _draw(ranges(fewer, "v"), 40, "intervals")
    yield ratio("SmallDB, 256 prefixes × 200 rows / 10^5 listed", thresholds, listed, limit=3)
    yield ratio("SmallDB, intervals of 32 × 40 rows / 10^5 listed", intervals, listed, limit=3)


def _draw(class_: list[Query], rows: int, method: Listing) -> Callable[[], object]:
    schema = class_[0].schema
    if Candidates.of(collapse(class_)).method != method:
        raise AssertionError(f"the class must be drawn by {method}")
    generator = np.random.default_rng(11)
    database = GrowingDatabase(schema)
    database.append_cells(generator.choice(schema.cells, SIZE, p=generator.dirichlet(np.full(schema.cells, 0.5))))
    gate = database.open_gate(Budget("pure", Fraction(10**9)))
    return lambda: gate.draw_rows(class_, rows, 2.0)
