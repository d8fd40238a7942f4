"""HistogramBox, AnswersBox and MWEM keep their promise on the pair of neighbours that is hardest for each."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import ClassVar

import treering as tr
from support.box_audit import BoxAudit, reaches
from treering.boxes.answers import AnswersBox
from treering.boxes.base import Box, Release
from treering.boxes.histogram import HistogramBox
from treering.boxes.mwem import MWEM
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query
from treering.gate import Event, Measured, Selected
from treering.theory.static import answers_noise, histogram_noise, mwem_plan

SCHEMA = tr.Schema({"late": tr.categories("no", "little", "yes")})
NO, LITTLE, YES = range(3)
LATE, AT_ALL, IN_TIME = (Query.where(SCHEMA, late=values) for values in ("yes", ["little", "yes"], "no"))


class TestHistogramBox(BoxAudit):
    """A row moves from "no" to "yes": fewer there and more here is an event whose loss is the whole ε."""

    schema = SCHEMA
    left, right = (NO, NO, YES, YES), (NO, YES, YES, YES)

    def make(self) -> Box:
        return HistogramBox()

    def outcome(self, release: Release, events: Sequence[Event]) -> Hashable:
        late, in_time = (share * release.size for share in release.shares([LATE, IN_TIME])[0].tolist())
        return late > 2.5, in_time < 1.5

    def event(self, budget: Budget) -> tuple[float, float]:
        noise = histogram_noise(budget)
        return reaches(noise, 0) ** 2, reaches(noise, 1) ** 2


class TestAnswersBox(BoxAudit):
    """Both answers rise by one: both as high as on the right is an event whose loss is the whole ε."""

    schema = SCHEMA
    left, right = (NO, NO, YES, YES), (NO, YES, YES, YES)

    def make(self) -> Box:
        return AnswersBox([LATE, AT_ALL])

    def outcome(self, release: Release, events: Sequence[Event]) -> Hashable:
        return tuple(share * release.size > 2.5 for share in release.shares([LATE, AT_ALL])[0].tolist())

    def event(self, budget: Budget) -> tuple[float, float]:
        noise = answers_noise(budget, (Fraction(1), Fraction(1)))
        return reaches(noise, 0) ** 2, reaches(noise, 1) ** 2


class TestMWEM(BoxAudit):
    """One round: the row moves the scores of two queries apart, and the answer of the one selected.

    The estimates are 3 and 3, a third of the rows each; the scores 2 and 1 on the left, 3 and 0 on the right.
    """

    schema = SCHEMA
    left, right = (YES,) * 5 + (NO,) * 4, (YES,) * 6 + (NO,) * 3
    epsilon = Fraction(5, 2)
    visible = 0.2
    louder: ClassVar[dict[BudgetKind, int]] = {"pure": 10, "zcdp": 40}

    def make(self) -> Box:
        return MWEM([LATE, IN_TIME], rounds=1)

    def outcome(self, release: Release, events: Sequence[Event]) -> Hashable:
        selected, measured = events
        assert isinstance(selected, Selected)
        assert isinstance(measured, Measured)
        return selected.index, measured.values[0] > 5.5 if selected.index == 0 else measured.values[0] < 3.5

    def event(self, budget: Budget) -> tuple[float, float]:
        planned = mwem_plan(SCHEMA.cells, 2, Fraction(1), 9, budget, 0.05, rounds=1)
        chosen = [1 / (1 + math.exp(-lead / planned.selection_scale)) for lead in (3, 1)]
        return chosen[0] * reaches(planned.noise, 0), chosen[1] * reaches(planned.noise, 1)
