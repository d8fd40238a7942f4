"""What is compared on: growing tables whose truth is known, and the questions that are asked as they grow.

A case is a number of cells, of questions, of rows at the end, and a seed, of the data and the questions alone. The
table has `BATCHES` batches: a fifth of the rows, then the rest in even parts. After each batch an even part of the
questions is asked: conjunctions of one to three random sets of values. A hundred, all different, are asked one by one,
as a person does; ten thousand, all different, five hundred after each batch, as lists, as a report does. A million are
drawn from a pool of ten thousand with repetition, fifty thousand after each batch: on 128 cells there are no more than
20,200 such conjunctions. Rows are drawn from a mixture of distributions in which attributes are independent, so that
together they are not; the mixture drifts with time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

import treering as tr
from treering.domain.query import evaluate_many
from treering.domain.workload import random_conjunctions

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EPSILON, DELTA = 1.0, 1e-6
RHO: Final = float(tr.Promise(EPSILON, DELTA).budget.total)
"""What this promise comes to in zCDP: everyone who composes in zCDP has it."""
BATCHES: Final = 20
SHAPES: Final = {2**7: (2, 2, 4, 8), 2**12: (2, 4, 8, 8, 8), 2**17: (2, 4, 8, 8, 16, 16)}
QUESTIONS: Final = (10**2, 10**4, 10**6)
SIZES: Final = (10**4, 10**5, 10**6)
TOGETHER: Final = 1000
POOL: Final = 10**4
_PARTS: Final = 5


@dataclass(frozen=True)
class Case:
    """A growing table and its questions."""

    cells: int
    questions: int
    size: int
    seed: int

    @property
    def together(self) -> bool:
        """Whether the questions after a batch are asked as one list."""
        return self.questions > TOGETHER

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The case as columns of a table of results."""
        return str(self.cells), str(self.questions), str(self.size), str(self.seed)

    @cached_property
    def schema(self) -> tr.Schema:
        """Attributes a, b, c, … of integers from 0 on."""
        names = (chr(ord("a") + place) for place in range(len(SHAPES[self.cells])))
        return tr.Schema({name: tr.integers(0, size - 1) for name, size in zip(names, SHAPES[self.cells], strict=True)})

    @cached_property
    def batches(self) -> list[Ints]:
        """The rows of each batch, as cells."""
        generator = np.random.default_rng([self.seed, self.cells, self.size])
        first = self.size // 5
        ends = np.linspace(first, self.size, BATCHES, dtype=np.int64)
        rows = np.diff(ends, prepend=0)
        parts = [[generator.dirichlet(np.full(size, 0.5)) for size in self.schema.shape] for _ in range(_PARTS)]
        weights = generator.dirichlet(np.ones(_PARTS), size=2)
        drift = np.linspace(0, 1, BATCHES)[:, None]
        mixtures = (1 - drift) * weights[0] + drift * weights[1]
        return [
            self._drawn(int(number), mixture, parts, generator) for number, mixture in zip(rows, mixtures, strict=True)
        ]

    def _drawn(self, rows: int, mixture: Floats, parts: list[list[Floats]], generator: np.random.Generator) -> Ints:
        numbers = generator.multinomial(rows, mixture)
        codes = [
            np.concatenate(
                [generator.choice(size, number, p=part[place]) for number, part in zip(numbers, parts, strict=True)]
            )
            for place, size in enumerate(self.schema.shape)
        ]
        return generator.permutation(np.ravel_multi_index(codes, self.schema.shape).astype(np.int64))

    @cached_property
    def pool(self) -> list[tr.Query]:
        """The different questions."""
        wanted = min(self.questions, POOL)
        generator = np.random.default_rng([self.seed, self.cells, wanted, 1])
        found: dict[tr.Query, None] = {}
        while len(found) < wanted:
            found |= dict.fromkeys(random_conjunctions(self.schema, wanted - len(found), generator))
        return list(found)

    @property
    def repeating(self) -> bool:
        """Whether a question may be asked again."""
        return self.questions > POOL

    @cached_property
    def places(self) -> list[Ints]:
        """The questions that are asked after each batch, by their places in the pool."""
        order = np.arange(self.questions)
        if self.repeating:
            order = np.random.default_rng([self.seed, self.cells, self.questions, 2]).integers(
                POOL, size=self.questions
            )
        return np.array_split(order, BATCHES)

    @cached_property
    def different(self) -> list[tuple[Ints, Ints]]:
        """For each batch the different ones among its questions, by their places in the pool, and which each one is."""
        return [np.unique(places, return_inverse=True) for places in self.places]

    def read(self, batch: int, table: npt.NDArray[np.generic]) -> Floats:
        """The answers that a table of all cells gives to the questions after a batch."""
        places, which = self.different[batch]
        return read(self.schema, table, [self.pool[place] for place in places.tolist()])[which]

    @cached_property
    def histograms(self) -> list[Ints]:
        """How many rows there are in each cell after each batch."""
        counted = np.stack([np.bincount(batch, minlength=self.cells) for batch in self.batches])
        return list(np.cumsum(counted, axis=0))

    @cached_property
    def sizes(self) -> list[int]:
        """How many rows there are after each batch."""
        return [int(each.sum()) for each in self.histograms]

    @cached_property
    def truths(self) -> list[Floats]:
        """The counts of the questions that are asked after each batch."""
        return [self.read(batch, table) for batch, table in enumerate(self.histograms)]


def read(schema: tr.Schema, table: npt.NDArray[np.generic], queries: list[tr.Query]) -> Floats:
    """The sums of the cells of each query in a table of all cells."""
    cube = np.asarray(table, dtype=np.float64).reshape(schema.shape)
    kept: dict[tuple[int, ...], Floats] = {}

    def marginal(attributes: tuple[int, ...]) -> Floats:
        if attributes not in kept:
            kept[attributes] = cube.sum(axis=tuple(set(range(cube.ndim)) - set(attributes)))
        return kept[attributes]

    return evaluate_many(queries, marginal, np.float64)
