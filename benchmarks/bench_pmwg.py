"""PMWG end to end: a batch of easy queries, one at a time, growth in between; memory.

Every mechanism here has met its hard query: the histogram is a vector over all cells, no longer just "uniform". After
that all queries are easy, and each is new.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Action, Result, ratio
from benchmarks.memory_pmwg import peak_of
from benchmarks.reference_pmwg import DensePMWG
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.workload import random_conjunctions
from treering.mechanisms.pmwg import PMWG
from treering.trusted.memory.database import GrowingDatabase

ROWS: Final = 4_000_000
ALPHA: Final = 0.1

QUERIES: Final = 10_000
SAMPLE: Final = 100
"""So many queries of the reference are timed against `QUERIES` of ours: a ratio of 1 means 100 times faster."""

CALLS: Final = 9
"""How often a comparison calls a side that takes long enough to be timed by one call."""


def results() -> Iterator[Result]:
    """Speed against dense numpy and against the size of the universe; then memory."""
    yield from _throughput()
    yield from _independence()
    yield _memory()


def _throughput() -> Iterator[Result]:
    """Five attributes of 16 values, conjunctions over three of them.

    In a batch an answer is some 200 times cheaper than by dense numpy: medians of 0.51 and 0.55 at a load of 5. The
    second row says how many a second there are if each waits for the one before.
    """
    schema = Schema({name: integers(0, 15) for name in "abcde"})
    warm = Warm.make(schema, 2 * CALLS * QUERIES)
    # An error of 1 makes every query easy, without anything to learn first.
    dense = DensePMWG(schema, warm.rows, alpha=1.0, scale=1.0, generator=np.random.default_rng(5))
    sample = _conjunctions(schema, SAMPLE, np.random.default_rng(6))
    yield ratio(
        "PMWG, 10,000 easy queries, N=2^20 / 100 by dense numpy",  # One is at least a hundred times cheaper.
        lambda: warm.ask_many(QUERIES),
        lambda: [dense.ask(query) for query in sample],
        limit=1,
    )
    yield ratio(
        "PMWG, 100 easy queries one by one, N=2^20 / by dense numpy",
        lambda: warm.ask_singly(SAMPLE),
        lambda: [dense.ask(query) for query in sample],
        limit=None,
        count=SAMPLE,
    )


def _independence() -> Iterator[Result]:
    """Three attributes of 16 values, and a fourth that no query names and that fills up the universe."""
    small, large = (
        Warm.make(Schema({**{name: integers(0, 15) for name in "abc"}, "rest": integers(1, rest)}), 50_000)
        for rest in (1, 2**12)
    )
    against: list[tuple[str, Action, Action]] = [
        ("1,000 easy queries", lambda: large.ask_many(1000), lambda: small.ask_many(1000)),
        ("one easy query", large.ask, small.ask),
        ("1,000 rows and a query", large.append_and_ask, small.append_and_ask),
    ]
    for name, ours, reference in against:
        yield ratio(f"PMWG, {name}, N=2^24 / N=2^12", ours, reference, limit=2)


def _memory() -> Result:
    """At the peak, in vectors of doubles over all cells."""
    start = time.perf_counter()
    ours = peak_of("pmwg")
    between = time.perf_counter()
    reference = peak_of("vector")
    end = time.perf_counter()
    return Result(
        "PMWG, memory at its peak, N=2^26 / a vector of doubles", 3, (ours / reference,), between - start, end - between
    )


@dataclass(frozen=True)
class Warm:
    """A mechanism that has learnt all there is to learn, with its caches filled, and what it is to be asked."""

    database: GrowingDatabase
    rows: npt.NDArray[np.int64]
    mechanism: PMWG
    queries: Iterator[Query]

    @classmethod
    def make(cls, schema: Schema, queries: int) -> Warm:
        """Rows lie in the lower half of the first attribute four times as often as in the upper; all else is even."""
        generator = np.random.default_rng(3)
        rows = generator.integers(0, schema.cells, ROWS)
        rows[: ROWS * 3 // 5] %= schema.cells // 2
        database = GrowingDatabase(schema)
        database.append_cells(rows)
        mechanism = PMWG(database, epsilon=1.0, delta=1e-9, alpha=ALPHA, beta=0.05, measure_first=False)
        mechanism.ask(Query.where(schema, a=range(8)))
        asked = _conjunctions(schema, queries, generator)
        warm = cls(database, generator.permutation(rows), mechanism, itertools.cycle(asked))
        mechanism.ask_many(asked[:1000])
        warm.check()
        return warm

    def check(self) -> None:
        """Nothing here is hard but the first query."""
        if self.mechanism.hard_queries != 1:
            raise AssertionError("one query must be hard: the first")

    def ask(self) -> None:
        """One query."""
        self.mechanism.ask(next(self.queries))
        self.check()

    def ask_singly(self, count: int) -> None:
        """Queries that each wait for the one before."""
        for _ in range(count):
            self.ask()

    def ask_many(self, count: int) -> None:
        """A batch."""
        self.mechanism.ask_many(list(itertools.islice(self.queries, count)))
        self.check()

    def append_and_ask(self) -> None:
        """A thousand rows, then one query."""
        start = self.database.size % (ROWS - 1000)
        self.database.append_cells(self.rows[start : start + 1000])
        self.ask()


def _conjunctions(schema: Schema, count: int, generator: np.random.Generator) -> list[Query]:
    """Conjunctions over three attributes of 16 values."""
    sixteens = Schema({name: attribute for name, attribute in schema.attributes.items() if attribute.size == 16})
    drawn = random_conjunctions(sixteens, count, generator, ways=(3, 3))
    return [Query(schema, query.attributes, masks=query.masks) for query in drawn]
