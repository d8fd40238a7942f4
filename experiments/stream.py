"""A growing database together with the truth about it, and what came of the answers: only an experiment may compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import treering as tr
from treering.domain.query import evaluate_many


class Stream:
    """A growing database, and exact counts of the same rows beside it."""

    def __init__(self, schema: tr.Schema) -> None:
        self.database = tr.GrowingDatabase(schema)
        self._counts = np.zeros(schema.cells, dtype=np.int64)
        self._marginals: dict[tuple[int, ...], npt.NDArray[np.int64]] = {}

    @property
    def schema(self) -> tr.Schema:
        """The universe."""
        return self.database.schema

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows there are in each cell."""
        return self._counts

    def append(self, cells: npt.NDArray[np.int64], frame: Any = None) -> None:
        """Take in rows as cell numbers; with a ``frame`` of the same rows the database gets that, and encodes it."""
        if frame is None:
            self.database.append_cells(cells)
        else:
            self.database.append(frame)
        self._counts += np.bincount(cells, minlength=len(self._counts))
        self._marginals.clear()

    def shares(self, queries: Sequence[tr.Query]) -> npt.NDArray[np.float64]:
        """The true answers."""
        counts = evaluate_many(queries, self._marginal, np.int64)
        shares: npt.NDArray[np.float64] = counts / np.array([query.scale * self.database.size for query in queries])
        return shares

    def _marginal(self, attributes: tuple[int, ...]) -> npt.NDArray[np.int64]:
        if attributes not in self._marginals:
            others = tuple(axis for axis in range(len(self.schema.shape)) if axis not in attributes)
            self._marginals[attributes] = self._counts.reshape(self.schema.shape).sum(axis=others)
        return self._marginals[attributes]


class Tally:
    """What came of a stream of answers, compared with the truth."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.worst_error = 0.0
        self.worst_excess = -1.0
        """The largest error less its bound: no answer broke its bound while this is at most 0."""
        self.widest_bound = 0.0

    @property
    def answered(self) -> int:
        """How many answers there were."""
        return self.kinds.total()

    def add(self, answers: Sequence[tr.Answer], truths: npt.NDArray[np.float64]) -> None:
        """Count answers to queries whose true shares these are; there may be fewer answers than truths."""
        for answer, truth in zip(answers, truths.tolist(), strict=False):
            error = abs(answer.value - truth)
            self.kinds[answer.kind] += 1
            self.worst_error = max(self.worst_error, error)
            self.worst_excess = max(self.worst_excess, error - answer.error)
            self.widest_bound = max(self.widest_bound, answer.error)

    def describe_kinds(self) -> str:
        """How many answers of each kind, the most frequent first."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.most_common())


class Spender(Protocol):
    """A mechanism, as far as its budget goes."""

    @property
    def spent(self) -> float:
        """What has been charged."""

    @property
    def remaining(self) -> float:
        """What may still be."""


def spent_share(mechanism: Spender) -> float:
    """What was spent, as a share of the budget."""
    return mechanism.spent / (mechanism.spent + mechanism.remaining)
