"""PMW and PMWG at sizes where a single row shows, and what their guards do there, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, pairwise
from typing import Final, TypeAlias

import numpy as np
import pytest

import treering as tr
from support.exact_runs import Asked, Floats, transcripts
from treering.audit import Stream, neighbour
from treering.budget.convert import epsilon_of
from treering.gate import RunRequest, RunStarted
from treering.mechanisms import pmwg, pmwg as pmw
from treering.mechanisms.adaptive import Adaptive
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.tight import Tight, measuring_noise
from treering.noise import Noise
from treering.protocols import Gate
from treering.theory.pmwg import forever, static
from treering.trusted import noise
from treering.trusted.noise import _sample

Make: TypeAlias = Callable[[tr.GrowingDatabase], Adaptive]

SCHEMA: Final = tr.Schema({"carrier": tr.integers(1, 4), "late": tr.categories("no", "yes")})
FALLS, RISES, STAYS = 0, 3, 6
"""Cells. The right neighbour has a row in the second that the left one has in the first; the third holds the rest."""


def cell(number: int) -> tr.Query:
    """The query that counts one cell."""
    return tr.Query.where(SCHEMA, carrier=1 + number // 2, late=("no", "yes")[number % 2])


def neighbours(sizes: Sequence[int], falls: Sequence[int], rises: Sequence[int], arrival: int) -> tuple[Stream, Stream]:
    """Streams of these sizes, with so many rows in the two cells on the left; ``arrival``: the batch that differs."""
    added = zip(*([counts[0], *(b - a for a, b in pairwise(counts))] for counts in (sizes, falls, rises)), strict=True)
    batches = tuple((FALLS,) * out + (RISES,) * in_ + (STAYS,) * (rows - out - in_) for rows, out, in_ in added)
    left = Stream(SCHEMA, batches)
    assert left.sizes == tuple(sizes)
    assert batches[arrival][:1] == (FALLS,)
    return left, neighbour(left, arrival, 0, RISES)


def twice_measured(delta: float, alpha: float, beta: float, size: int, questions: int) -> float:
    """The epsilon of which so many first measurements, at one size, are the half that measuring may spend."""
    noises = [first_noise(delta, alpha, beta, size, asked) for asked in range(questions)]
    spent = (
        epsilon_of(sum(1 / each.scale**2 for each in noises), delta)
        if delta
        else sum(2 / each.scale for each in noises)
    )
    return spent * (1 + 1e-9)


def first_noise(delta: float, alpha: float, beta: float, size: int, asked: int) -> Noise:
    """The noise of a measurement after ``asked`` others."""
    return measuring_noise("zcdp" if delta else "pure", alpha, beta, size, asked)


# -- what a guard compares, while the histogram is uniform -------------------------------------------------------------


@dataclass(frozen=True)
class Guarded:
    """A mechanism's first run: its noise, and the share that it is compared with."""

    request: RunRequest
    threshold: float
    two_sided: bool

    @classmethod
    def of(cls, make: Make, size: int) -> Guarded:
        """What ``make`` begins with at this size."""
        database = tr.GrowingDatabase(SCHEMA)
        database.append_cells(np.arange(size) % SCHEMA.cells)
        mechanism = make(database)
        mechanism.ask(cell(STAYS))
        engine = mechanism._engine
        if isinstance(engine, Tight):
            assert engine.plan is not None
            return cls(first_run(engine.gate), engine.plan.guard.threshold, two_sided=True)
        return cls(first_run(mechanism._gate), 2 / 3 * mechanism._alpha, two_sided=False)

    def louder(self, factor: float) -> Guarded:
        """The same with more noise, or less."""
        threshold, query = factor * self.request.threshold_scale, factor * self.request.query_scale
        return replace(self, request=RunRequest(threshold, query, self.request.answer))

    def count(self, size: int, gap: int) -> int:
        """The count of one cell that is ``gap`` above what makes it too far off."""
        return round(size / SCHEMA.cells) + round(self.threshold * size) + gap

    def comparisons(self, size: int, count: int, query: tr.Query) -> list[Asked]:
        """What is compared for one query: both sides together, or one after the other."""
        unit = size * query.scale
        off = count - round(Hypothesis(query.schema).answer(query) * unit)
        bar = round(self.threshold * unit)
        sides = (abs(off),) if self.two_sided else (off, -off)
        return [Asked(side - bar, query.scale) for side in sides]

    def first_hard(self, stream: Stream, asked: Sequence[tuple[int, tr.Query]]) -> Floats:
        """The probability that each of the questions, (batch, query), is the first hard one; last: that none is."""
        each = [self.comparisons(stream.sizes[time], stream.counts(query)[time], query) for time, query in asked]
        halts = transcripts(
            [one for part in each for one in part], self.request.threshold_scale, self.request.query_scale
        )
        width = len(each[0])
        return np.array([*halts[:-1].reshape(-1, width).sum(axis=1), halts[-1]])


def first_run(gate: Gate) -> RunRequest:
    """The noise of the first run that a mechanism began."""
    return next(event.request for event in gate.history if isinstance(event, RunStarted))


# -- speed -------------------------------------------------------------------------------------------------------------

_forever = cache(forever)
_static = cache(static)
_FIRST_BLOCK, _LARGEST_BLOCK = 8, 4096


@cache
def _stock(kind: Noise) -> Iterator[int]:
    def draws() -> Iterator[int]:
        block = _FIRST_BLOCK
        while True:
            yield from _sample(kind, block)
            block = min(2 * block, _LARGEST_BLOCK)

    return draws()


def make_runs_cheap(monkeypatch: pytest.MonkeyPatch, louder: float = 1.0) -> None:
    """Thousands of short runs with equal parameters: plan once for all of them, and draw their noise in vectors.

    A plan depends on nothing but public parameters. The noise is `draw`'s as ever, and no draw is handed out twice.
    With ``louder`` it is so many times what the mechanism asked for: a mechanism whose calibration is wrong.
    """

    def sample(kind: Noise, count: int) -> list[int]:
        return list(islice(_stock(replace(kind, scale=louder * kind.scale)), count))

    monkeypatch.setattr(pmwg, "forever", _forever)
    monkeypatch.setattr(pmw, "static", _static)
    monkeypatch.setattr(noise, "_sample", sample)
