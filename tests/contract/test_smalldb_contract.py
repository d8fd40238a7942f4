"""SmallDB under the suite that every box inherits: prefixes, intervals, and a class that is enumerated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.box_contract import BoxContract
from support.mechanism_contract import SCHEMA
from treering.boxes.base import Box
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Budget
from treering.domain import candidates
from treering.domain.query import Query
from treering.domain.workload import prefixes, ranges

RARE = Query.where(SCHEMA, origin="EWR", month=7, late="no")
PREFIXES = (*prefixes(SCHEMA, "month"), *(~query for query in prefixes(SCHEMA, "month")[:3]), Query.none(SCHEMA))
INTERVALS = tuple(ranges(SCHEMA, "month"))
CROSSED = (
    Query.where(SCHEMA, late="yes"),
    Query.where(SCHEMA, month=range(3, 9)),
    Query.where(SCHEMA, late="no", month=range(3, 9)),
    Query.weighted(SCHEMA, [0.5, 0.75], attributes=["late"], resolution=8),
    Query.all(SCHEMA),
)
NOT_QUERIES: tuple[tuple[dict[str, Any], str], ...] = tuple(
    ({"queries": bad}, "queries") for bad in ([], (), "late = 'yes'", 17, [3], [None], RARE)
)


class SmallDBContract(BoxContract):
    """A database as good as the bound asks for has few rivals: two draws are often the same, with a large budget."""

    def test_two_runs_differ(self) -> None:
        """Under next to no budget all candidates are alike: that twenty draws agree has a chance below 10^−10."""
        box, budget = self.bound(), Budget("pure", Fraction(1, 10**6))
        databases = [self.database() for _ in range(20)]
        runs = [box.run(db.open_gate(budget), budget, 1.0, 0.5) for db in databases]
        assert not all(self.same(runs[0], other) for other in runs)


class TestSmallDBOfPrefixes(SmallDBContract):
    queries = PREFIXES
    outside = RARE
    bad_parameters = NOT_QUERIES

    def make(self, **options: Any) -> Box:
        return SmallDB(**{"queries": PREFIXES, **options})


class TestSmallDBOfIntervals(SmallDBContract):
    queries = INTERVALS
    outside = Query.where(SCHEMA, month=[1, 3])
    repetitions = 20

    def make(self, **options: Any) -> Box:
        return SmallDB(**{"queries": INTERVALS, **options})


class TestSmallDBByEnumeration(SmallDBContract):
    queries = CROSSED
    outside = RARE
    sizes = (1_000, 10_000, 100_000, 400_000)
    """With so few candidates, the paper's rate holds up to here."""

    @pytest.fixture(autouse=True)
    def fewer_candidates(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A million take a second to list."""
        monkeypatch.setattr(candidates, "MOST_LISTED", 30_000)

    def make(self, **options: Any) -> Box:
        return SmallDB(**{"queries": CROSSED, **options})

    def test_each_synthetic_row_is_anywhere_in_its_atom(self) -> None:
        """The class knows nothing of the origin, nor of the month beyond March to August."""
        table = self.run(self.database(), "pure").sample(3000, np.random.default_rng(5))
        assert set(table.column("origin").to_pylist()) == {"EWR", "JFK", "LGA"}
        assert set(table.column("month").to_pylist()) == set(range(1, 13))
