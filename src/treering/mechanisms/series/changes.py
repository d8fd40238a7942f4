"""Rows that are erased or corrected while series go on, and what the answers of these are worth then.

A series reads the rows as they are at each release, so a changed row costs nothing (``trusted/erasing.py``), and a new
series never sees what it said before. A series that has counted it holds a part of that:

*Lemma.* An estimate of a series is Σₖ cₖ·rₖ, where release k counts the rows of leaf s with weight wₖ₋ₛ, and Σₖ cₖ·wₖ₋ₛ
is 1 if the estimate is about leaf s and 0 if it is not. A row of leaf s that said v₁, then v₂, … then its last, counts
for each of them a part f₁, f₂, …, the sum of cₖ·wₖ₋ₛ over the releases of its time. For trees all terms are at least
0, so the parts are, too, and sum to 1. For square roots the same holds where the estimate is about leaf s; where it is
not, every sum of the first terms lies in [−1, 0] (`treering.theory.series`; the tests add them up). So a changed row
moves the estimate of any query, with weights between 0 and 1, by at most 1 from what it would be had the row never been
otherwise: of a sum, by at most what a row adds at one bound of the range less what it adds at the other.

So the margins and errors of a series are wider by a row for each row that was changed since it counted it: the true
count of the rows that are there lies within them as likely as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from treering.mechanisms.series.view import Reading


@dataclass(frozen=True, slots=True)
class Changed:
    """NOTE: rows were erased or corrected: how many of them each series has counted, the oldest series first; and the
    numbers of the series that were ended for it."""

    counted: tuple[int, ...]
    ended: tuple[int, ...]


class Held(NamedTuple):
    """A series that has counted rows which are to be erased or corrected: public."""

    series: int
    """Its number."""
    attributes: tuple[str, ...]
    """The attributes that its groups tell apart."""
    rows: int
    """How many of the rows it has counted: its margins are wider by as many rows, unless it is ended."""
    margin: float
    """The margin of the count of one of its groups as it is now, in rows."""


def widened(reading: Reading, by: float) -> Reading:
    """A reading whose true value may lie as much further off."""
    if not by:
        return reading
    value, margin, error, wide = reading
    return Reading(value, margin + by, error + by, wide + by)


class Part(NamedTuple):
    """What one series says about a query."""

    reading: Reading
    variance: float
    changed: int
    """How many rows were changed since it counted them."""


def levels(parts: Sequence[Part]) -> list[tuple[int, list[Part]]]:
    """For each number of changed rows, the series that have at most as many. What is told is the sharpest of these,
    which is public: margins do not depend on what was released."""
    found = sorted({part.changed for part in parts})
    return [(most, [part for part in parts if part.changed <= most]) for most in found]
