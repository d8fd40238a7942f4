"""HistogramBox, AnswersBox and MWEM under the suite that every box inherits."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.box_contract import BoxContract
from support.mechanism_contract import SCHEMA
from support.random_queries import weighted
from treering.boxes.answers import AnswersBox
from treering.boxes.base import Box
from treering.boxes.histogram import HistogramBox
from treering.boxes.mwem import MWEM
from treering.domain.query import Query
from treering.domain.workload import marginals, random_conjunctions

GENERATOR = np.random.default_rng(20)
MIXED = (
    *random_conjunctions(SCHEMA, 40, GENERATOR),
    *(weighted(GENERATOR, SCHEMA) for _ in range(5)),
    *(~query for query in random_conjunctions(SCHEMA, 5, GENERATOR)),
    Query.all(SCHEMA),
    Query.none(SCHEMA),
)
"""Queries of every kind."""
DECLARED = (*marginals(SCHEMA, 1), *marginals(SCHEMA, 2)[:20])
RARE = Query.where(SCHEMA, origin="EWR", month=7, late="no")
NOT_QUERIES: tuple[tuple[dict[str, Any], str], ...] = tuple(
    ({"queries": bad}, "queries") for bad in ([], (), "late = 'yes'", 17, [3], [None], RARE)
)


class TestHistogramBox(BoxContract):
    queries = MIXED
    outside = None
    tied = False
    bad_parameters = tuple(({"noise": bad}, "noise") for bad in ("gaussian", "", 3, True))

    def make(self, **options: Any) -> Box:
        return HistogramBox(**options)


class TestHistogramBoxWithLaplaceNoise(BoxContract):
    queries = MIXED
    outside = None
    tied = False

    def make(self, **options: Any) -> Box:
        return HistogramBox(**{"noise": "laplace", **options})


class TestHistogramBoxOfAClass(BoxContract):
    queries = MIXED
    outside = RARE
    bad_parameters = NOT_QUERIES

    def make(self, **options: Any) -> Box:
        return HistogramBox(**{"queries": MIXED, **options})


class TestAnswersBox(BoxContract):
    queries = MIXED
    outside = RARE
    synthetic = False
    bad_parameters = NOT_QUERIES

    def make(self, **options: Any) -> Box:
        return AnswersBox(**{"queries": MIXED, **options})


class TestMWEM(BoxContract):
    queries = DECLARED
    outside = RARE
    repetitions = 12
    population = 50_000
    bad_parameters = (
        *NOT_QUERIES,
        *(({"rounds": bad}, "rounds") for bad in (0, -1, 1.5, "9", True, 4097)),
    )

    def make(self, **options: Any) -> Box:
        return MWEM(**{"queries": DECLARED, "rounds": 12, **options})
