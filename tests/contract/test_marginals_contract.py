"""The marginals box keeps the contract of black boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import treering as tr
from support.box_contract import BoxContract
from support.mechanism_contract import SCHEMA
from treering.boxes.base import Box
from treering.boxes.marginals import MarginalsBox
from treering.domain.query import Query

TEXTS = (
    "origin = 'JFK'",
    "month <= 6",
    "late = 'yes'",
    "origin <> 'LGA' AND late = 'no'",
    "month IN (1, 2, 12) AND origin = 'EWR'",
    "month > 3 OR late = 'yes'",
    "NOT (month = 7 AND late = 'no')",
)
WEIGHTS = np.random.default_rng(5).random((12, 2))
QUERIES = (
    *(tr.parse(text, SCHEMA) for text in TEXTS),
    Query.weighted(SCHEMA, WEIGHTS, attributes=["month", "late"]),
    Query.all(SCHEMA),
    Query.none(SCHEMA),
)


class TestMarginals(BoxContract):
    queries: ClassVar[Sequence[Query]] = QUERIES
    outside: ClassVar[Query | None] = tr.parse("origin = 'JFK' AND month = 3 AND late = 'no'", SCHEMA)
    tied = False
    bad_parameters = (
        ({"ways": 0}, "ways"),
        ({"ways": -1}, "ways"),
        ({"ways": 1.0}, "ways"),
        ({"ways": True}, "ways"),
        ({"ways": 4}, "ways"),
    )

    def make(self, **options: Any) -> Box:
        return MarginalsBox(**{"ways": 2, **options})


class TestSingles(TestMarginals):
    queries = QUERIES[:3]
    outside = tr.parse("origin = 'JFK' AND month = 3", SCHEMA)

    def make(self, **options: Any) -> Box:
        return MarginalsBox(**{"ways": 1, **options})
