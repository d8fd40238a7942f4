"""BROKEN ON PURPOSE: mechanisms that claim an epsilon they do not give. Never point one at real rows.

They are the audit's negative controls: an audit that does not catch them proves nothing about the mechanisms it passes.
Each has the interface of the mechanism it imitates and one defect, named in its first line. They read exact counts, so
none of them takes a database: they take an `Exposed` stream, which the auditor made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from treering.audit.neighbours import Stream
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import Halted
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.params import exact
from treering.trusted.noise import draw_laplace

_BLOCK: Final = 4096


class Exposed:
    """A made-up stream after some of its batches, with its exact counts in the open."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._time = 0

    @property
    def schema(self) -> Schema:
        """The universe."""
        return self._stream.schema

    @property
    def size(self) -> int:
        """The number of rows."""
        return self._stream.sizes[self._time]

    def exact_count(self, query: Query) -> int:
        """What no mechanism may see without noise, in units of 1/scale rows."""
        return self._stream.counts(query)[self._time]

    def advance_to(self, time: int) -> None:
        """Let the batches up to number ``time`` arrive."""
        self._time = time


def expose(stream: Stream) -> Iterator[Exposed]:
    """One exposed stream, seen after each batch: `treering.audit.neighbours.grow`, for broken mechanisms."""
    exposed = Exposed(stream)
    for time in range(len(stream.batches)):
        exposed.advance_to(time)
        yield exposed


class _Run:
    """A sparse-vector run with its secrets in the open; correct, unless its owner tampers with it."""

    def __init__(self, threshold_scale: float, query_scale: float) -> None:
        self._threshold_scale = threshold_scale
        self._query_scale = query_scale
        self.redraw()

    def redraw(self) -> None:
        self._threshold = _draw(self._threshold_scale)

    def exceeds(self, gap: int, scale: int) -> bool:
        return gap + _draw(self._query_scale * scale) >= scale * self._threshold


class _Sparse:
    """What the sparse-vector controls share: 1/s1 = ε'/2 and 2/s2 = ε'/2, the paper's split of a run's part ε'."""

    def __init__(self, db: Exposed, threshold: float, run_epsilon: float) -> None:
        self._db = db
        self._share = threshold
        self.threshold_scale = 2 / run_epsilon
        self.query_scale = 4 / run_epsilon
        self.halted = False

    def _begin(self) -> _Run:
        return _Run(self.threshold_scale, self.query_scale)

    def _gap(self, query: Query, estimate: float | None) -> int:
        """How far the count, or its distance from the estimate, is above the threshold."""
        gap = self._offset(query, 0.0 if estimate is None else estimate)
        return (gap if estimate is None else abs(gap)) - self._bar(query)

    def _offset(self, query: Query, estimate: float) -> int:
        return self._db.exact_count(query) - round(estimate * self._db.size * query.scale)

    def _bar(self, query: Query) -> int:
        return round(self._share * self._db.size * query.scale)

    def _check_alive(self) -> None:
        if self.halted:
            raise Halted(f"{type(self).__name__} has given its last answer; make a new one")


class FreshThresholdATG(_Sparse):
    """DEFECT: a fresh noisy threshold at every time step, as in the paper's pseudocode of ATG (erratum E1).

    One draw for the whole run hides that all its counts moved by one. A fresh draw hides it for one time step only, so
    the loss of a long silence grows with its length: at ε = 0.1 (s1 = 20, s2 = 40) and counts at the threshold, 100
    silent steps lose about 1.67.
    """

    def __init__(self, db: Exposed, threshold: float, epsilon: float) -> None:
        super().__init__(db, threshold, float(exact(epsilon, "epsilon")))
        self._run = self._begin()
        self._size = db.size

    def ask(self, query: Query, estimate: float | None = None) -> bool:
        """Is the query's share of the rows (or its distance from the estimate) above the threshold?"""
        self._check_alive()
        if self._db.size != self._size:
            self._run.redraw()
            self._size = self._db.size
        self.halted = self._run.exceeds(self._gap(query, estimate), query.scale)
        return self.halted


class NoiselessNATG(_Sparse):
    """DEFECT: the numeric answer of NATG is released without noise, as if finding the query had paid for it."""

    def __init__(self, db: Exposed, threshold: float, epsilon: float) -> None:
        super().__init__(db, threshold, float(exact(epsilon, "epsilon")))
        self._run = self._begin()

    def ask(self, query: Query, estimate: float | None = None) -> float | None:
        """None below the threshold; the exact share of the first query above."""
        self._check_alive()
        self.halted = self._run.exceeds(self._gap(query, estimate), query.scale)
        return self._db.exact_count(query) / (query.scale * self._db.size) if self.halted else None


class DoubleQueryNSG(_Sparse):
    """DEFECT: both one-sided queries, f − f(y) and f(y) − f, are always asked, and one run is paid for (erratum E2).

    If the first one halts the run, the second goes to a new run, whose cost and numeric answer nobody counts. A number
    takes nine tenths of epsilon here, so that two of them are visibly more than one.
    """

    def __init__(self, db: Exposed, threshold: float, epsilon: float) -> None:
        budget = float(exact(epsilon, "epsilon"))
        super().__init__(db, threshold, 0.1 * budget)
        self.answer_scale = 1 / (0.9 * budget)
        self._run = self._begin()

    def ask(self, query: Query, estimate: float) -> tuple[float | None, float | None]:
        """For each side, None or the noisy share. The first question with an answer is the last."""
        self._check_alive()
        offset = self._offset(query, estimate)
        return self._side(query, offset), self._side(query, -offset)

    def _side(self, query: Query, offset: int) -> float | None:
        if not self._run.exceeds(offset - self._bar(query), query.scale):
            return None
        self.halted = True
        self._run = self._begin()
        noisy = self._db.exact_count(query) + _draw(self.answer_scale * query.scale)
        return noisy / (query.scale * self._db.size)


class ExactUpdatePMWG(_Sparse):
    """DEFECT: the public histogram of PMWG learns the exact answer to a hard query; only the number released has noise.

    All that is computed from released numbers is free. Here it is computed from a true count, which every later answer
    tells. One hard query is paid for, half of epsilon for the run and half for its number; after it the histogram
    answers.
    """

    def __init__(self, db: Exposed, threshold: float, epsilon: float) -> None:
        budget = float(exact(epsilon, "epsilon"))
        super().__init__(db, threshold, budget / 2)
        self.answer_scale = 2 / budget
        self._run = self._begin()
        self._histogram = Hypothesis(db.schema)
        self._hard = False

    def ask(self, query: Query) -> float:
        """The share by the histogram, if that is close; the noisy share of the first query for which it is not."""
        share = self._histogram.answer(query)
        if self._hard or not self._run.exceeds(self._gap(query, share), query.scale):
            return share
        self._hard = True
        unit = query.scale * self._db.size
        count = self._db.exact_count(query)
        # Half a grid unit short of what no histogram with positive cells can answer.
        self._histogram.project(query, min(max(count, 0.5), unit - 0.5) / unit)
        return (count + _draw(self.answer_scale * query.scale)) / unit


class HalfScaleLaplace:
    """DEFECT: Laplace noise of scale 1/(2ε) where ε needs 1/ε, a slip between add-or-remove and replace neighbours."""

    def __init__(self, db: Exposed, epsilon: float) -> None:
        self._db = db
        self.scale = 1 / (2 * float(exact(epsilon, "epsilon")))

    def ask(self, query: Query) -> float:
        """The noisy share; one question is the whole epsilon."""
        noisy = self._db.exact_count(query) + _draw(self.scale * query.scale)
        return noisy / (query.scale * self._db.size)


def _draw(scale: float) -> int:
    return next(_endless(scale))


@cache
def _endless(scale: float) -> Iterator[int]:
    """Draws one by one, made in vectors: an audit needs millions."""

    def draws() -> Iterator[int]:
        while True:
            yield from draw_laplace(scale, _BLOCK).tolist()

    return draws()
