"""Rows that are erased or corrected while series go on, and what the answers of these are worth then.

A series reads the rows as they are at each release, so a changed row costs nothing (``changes/erasing.py`` has the
proof), and a new series never sees what it said before. A series that has counted it holds a part of that:

*Lemma.* An estimate of a series is Σₖ cₖ·rₖ, where release k counts the rows of leaf s with weight wₖ₋ₛ. Let a row of
leaf s say v₁ at first, then v₂, and so on, and let Fᵢ be the sum of cₖ·wₖ₋ₛ over the releases before it was changed for
the i-th time. The estimate of a query q differs from what it would be, had the row always been as it is now, by
Σᵢ Fᵢ·(q(vᵢ) − q(vᵢ₊₁)), where q is 0 for a row that is gone. For trees all terms of Fᵢ are at least 0, and they add up
to at most 1. For square roots Fᵢ lies between −1 and 1, whichever period the estimate is about
(`treering.theory.series`; the tests add it up). So each change moves the answer to a query with weights between 0 and 1
by at most 1; and a sum by at most what a row adds at one bound of the range less what it adds at the other.

So the margins and errors of a series are wider by a row for each change of a row that it had counted: the true count of
the rows that are there lies within them as likely as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from treering.arrays import Ints
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


class Changing(Protocol):
    """What rows that are erased or corrected do to the answers of a mechanism."""

    def holding(self, positions: Ints) -> list[Held]:
        """The series that have counted rows at these positions, which increase."""

    def change(self, positions: Ints, *, end: bool) -> None:
        """Record that the rows at these positions, which increase, are erased or corrected; with ``end``, the series
        that have counted one of them are over."""

    def recount(self) -> None:
        """The rows that were announced by `change` are erased or corrected now."""


class Unaffected:
    """A mechanism that has counted nothing yet. (See `Changing`.)"""

    def holding(self, positions: Ints) -> list[Held]:
        """None."""
        return []

    def change(self, positions: Ints, *, end: bool) -> None:
        """Nothing is recorded."""

    def recount(self) -> None:
        """Nothing was counted."""


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
