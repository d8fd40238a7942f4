"""Boxes and the planner: a batch against one question at a time, a plan against one of the bounds it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from benchmarks.harness import Result, ratio
from treering.boxes.histogram import HistogramBox
from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.domain.workload import random_conjunctions
from treering.theory.plan import plan
from treering.theory.pmwg import tight_alpha
from treering.trusted.memory.database import GrowingDatabase


def results() -> Iterator[Result]:
    """5,000 questions in a batch, and 1,000 of them one by one; a plan at new parameters, and PMWG's bound alone."""
    schema = Schema({name: integers(0, 5) for name in "abc"})
    generator = np.random.default_rng(6)
    db = GrowingDatabase(schema)
    db.append_cells(generator.integers(0, schema.cells, 100_000))
    release = HistogramBox().release(db, 1.0)
    queries = random_conjunctions(schema, 5000, generator)
    yield ratio(
        "HistogramBox, a batch of 5,000 / 1,000 one by one",
        lambda: release.ask_many(queries),
        lambda: [release.ask(query) for query in queries[:1000]],
        limit=1,
    )
    sizes = count(1_000_000)
    yield ratio(
        "a plan / PMWG's worst-case bound",
        lambda: plan(4096, next(sizes), 1.0, 1e-9, queries=100_000),
        lambda: tight_alpha(next(sizes), 4096, 1.0, 1e-9, 0.005, 1.0),
        limit=5,
    )
