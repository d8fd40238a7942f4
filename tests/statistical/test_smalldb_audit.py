"""SmallDB keeps its promise on a pair of neighbours, where the loss is written out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from fractions import Fraction

import treering as tr
from support.box_audit import BoxAudit
from treering.boxes.base import Box, Release
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.gate import Event, RowsDrawn
from treering.theory import smalldb

SCHEMA = tr.Schema({"late": tr.categories("no", "little", "yes")})
NO, LITTLE, YES = range(3)
CLASS = [Query.where(SCHEMA, late="no"), Query.where(SCHEMA, late=["no", "little"])]
BOX = SmallDB(CLASS).bind(SCHEMA)


def most(drawn: Sequence[int]) -> bool:
    """Four synthetic rows in five are late, the others a little."""
    return drawn.count(YES) >= 0.8 * len(drawn) and drawn.count(NO) == 0


def chance(true: Sequence[int], budget: Budget) -> float:
    """The probability of `most`, by listing all synthetic databases."""
    rows = int(BOX._choices.rows[BOX._best(len(true), budget, 0.05)[0]])
    scale, total, likely = smalldb.scale(budget), 0.0, 0.0
    for drawn in itertools.combinations_with_replacement(range(3), rows):
        gaps = (
            abs(sum(cell <= last for cell in true) - Fraction(len(true), rows) * sum(cell <= last for cell in drawn))
            for last in (NO, LITTLE)
        )
        weight = math.exp(-max(gaps) / scale)
        total += weight
        likely += weight * most(drawn)
    return likely / total


class TestSmallDB(BoxAudit):
    """One of two rows that are a little late becomes late: that most synthetic ones are late is likelier then."""

    schema = SCHEMA
    left, right = (LITTLE,) * 2 + (YES,) * 6, (LITTLE,) + (YES,) * 7
    samples = 2000

    def make(self) -> Box:
        return SmallDB(CLASS)

    def outcome(self, release: Release, events: Sequence[Event]) -> Hashable:
        (event,) = events
        assert isinstance(event, RowsDrawn)
        return most(event.cells)

    def event(self, budget: Budget) -> tuple[float, float]:
        return chance(self.right, budget), chance(self.left, budget)
