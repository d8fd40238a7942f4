"""MarginalsBox and OpenDP's measurements keep their promise on the pair of neighbours that is hardest for each."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction

import numpy as np

import treering as tr
from support.box_audit import BoxAudit, reaches
from support.opendp_noise import affordable, noisy_counts
from treering.arrays import Floats
from treering.boxes.base import Box, Progress, Release, silent
from treering.boxes.marginals import MarginalsBox
from treering.boxes.opendp import from_opendp
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.gate import Event, ForeignReleased, HistogramReleased
from treering.protocols import Gate

PAIR = tr.Schema({"late": tr.categories("no", "yes"), "origin": tr.categories("EWR", "JFK")})
IN_TIME_FROM_EWR, LATE_FROM_JFK = 0, 3


class _Unfitted(Release):
    """Nothing: the audit looks at the events."""

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        return np.zeros(len(queries)), np.ones(len(queries))


class _Measuring(Box):
    """A marginals box without its fit, which is a function of the noisy marginals alone, and slow."""

    def __init__(self, box: MarginalsBox) -> None:
        self.box = box

    def bind(self, schema: Schema) -> Box:
        return _Measuring(self.box.bind(schema))

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return self.box.alpha(size, budget, beta)

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        self.box._measure(gate, budget, progress)
        return _Unfitted(gate.schema, gate.size)


class TestMarginalsBox(BoxAudit):
    """A row moves from one value to the other in both marginals: four counts, each on its side, lose the whole ε."""

    schema = PAIR
    left = (IN_TIME_FROM_EWR,) * 3 + (LATE_FROM_JFK,) * 2
    right = (IN_TIME_FROM_EWR,) * 2 + (LATE_FROM_JFK,) * 3
    epsilon = Fraction(3)
    samples = 2000

    def make(self) -> Box:
        return _Measuring(MarginalsBox(1))

    def outcome(self, release: Release, events: Sequence[Event]) -> Hashable:
        outcomes = []
        for event in events:
            assert isinstance(event, HistogramReleased)
            first, second = event.counts.tolist()
            outcomes += [first < 2.5, second > 2.5]
        assert len(outcomes) == 4
        return all(outcomes)

    def event(self, budget: Budget) -> tuple[float, float]:
        noises = MarginalsBox(1).bind(PAIR).plan.noises(budget)
        likely = math.prod(reaches(noise, 0) ** 2 for noise in noises)
        return likely, math.prod(reaches(noise, 1) ** 2 for noise in noises)


SCHEMA = tr.Schema({"late": tr.categories("no", "little", "yes")})
NO, LITTLE, YES = range(3)


class TestForeign(BoxAudit):
    """A row moves from "no" to "yes": fewer there and more here is an event whose loss is the whole ε."""

    schema = SCHEMA
    left, right = (NO, NO, YES, YES), (NO, YES, YES, YES)

    def make(self) -> Box:
        return from_opendp(lambda budget: noisy_counts(budget, SCHEMA.cells), alpha=lambda *_: 0.5)

    def outcome(self, release: Release, events: Sequence[Event]) -> Hashable:
        (event,) = events
        assert isinstance(event, ForeignReleased)
        return event.values[YES] > 2.5, event.values[NO] < 1.5

    def event(self, budget: Budget) -> tuple[float, float]:
        noise = affordable(budget)
        return reaches(noise, 0) ** 2, reaches(noise, 1) ** 2
