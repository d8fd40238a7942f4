"""The noise of released numbers, drawn anew from its law: which series it comes from, and what each number takes of it.

A `Drawing` needs no mechanism any more: it can be drawn while others ask. Its sources are all that a later one needs to
draw the same numbers again, also when the series have grown.

The seed holds a digest of what was released, so that every release has draws of its own, independent of its noise as
far as SHAKE-256 is random. One error and n draws of its law are then n + 1 numbers of which each is as likely as any
other to be the k-th smallest: the k-th smallest of the draws is a margin of k/(n + 1), exactly, however few there are.
(Draws that were the same for all would give some statements 94% for ever, and others 96%.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from treering.answer import Estimate
from treering.arrays import Floats
from treering.domain.query import Query
from treering.theory.continual import Law
from treering.theory.draws import group_noise, normals
from treering.theory.rings import NORMAL

COUNTS: Final = -1
"""The numbers of a series are counts of rows."""
PERSONS: Final = -2
"""They are counts of persons, or of some rows of each."""


class Source(NamedTuple):
    """A series that released numbers come from: public."""

    series: int
    """The number of the series."""
    position: int
    """The attribute that is summed; `COUNTS`, or `PERSONS`."""
    law: Law
    """The law of the noise of each group, in rows, when the numbers were released."""


class Portion(NamedTuple):
    """What one released number takes of a series."""

    place: int
    """The place of the number among all."""
    query: Query
    """The groups that it adds up, as a query about the series' joint classes."""
    weight: float
    """How much the series counts, beside others that know the same number."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The noise of one series, and the numbers that it is in."""

    source: Source
    shape: tuple[int, ...]
    """The numbers of classes of the series' attributes."""
    portions: Sequence[Portion]

    def add_to(self, found: Floats, salt: str) -> None:
        """Add the noise to the numbers: a row for each draw."""
        number, position, law = self.source
        draws, groups = len(found), int(np.prod(self.shape, dtype=np.int64))
        kind = {COUNTS: "counts", PERSONS: "persons"}.get(position, "sums")
        drawn = group_noise(law, draws, groups, f"{kind} of series {number} {salt}")
        if position == COUNTS:
            drawn -= drawn.mean(axis=1, keepdims=True)  # As the estimate is centred: the total is public.
        table = drawn.reshape(draws, *self.shape)
        sums: dict[tuple[int, ...], Floats] = {}
        for place, query, weight in self.portions:
            if query.attributes not in sums:
                others = tuple(axis + 1 for axis in range(len(self.shape)) if axis not in query.attributes)
                sums[query.attributes] = table.sum(axis=others).reshape(draws, query.joint)
            weights = query.weights().ravel()
            chosen = np.flatnonzero(weights)
            found[:, place] += weight * (sums[query.attributes][:, chosen] @ weights[chosen] / query.scale)


@dataclass(frozen=True, slots=True)
class Drawing:
    """The noise of some released numbers, ready to be drawn."""

    streams: Sequence[Stream]
    others: Sequence[int]
    """The places of quantiles and averages: their noise is taken for normal, with their margins."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The series that the numbers come from."""
        return tuple(stream.source for stream in self.streams)

    def draw(self, released: Sequence[Estimate], draws: int) -> Floats:
        """The noise of ``released``, by public random numbers: a row for each draw, a column for each number."""
        found = np.zeros((draws, len(released)))
        if draws:
            salt = digest(released)
            for stream in self.streams:
                stream.add_to(found, salt)
            margins = [released[place].margin or 0.0 for place in self.others]
            found[:, self.others] = normals(f"quantiles {salt}", draws, len(self.others)) * (np.array(margins) / NORMAL)
        return found


def digest(released: Sequence[Estimate]) -> str:
    """A digest of the readings of released numbers, to a millionth: rounding in floating point does not change it."""
    readings = np.array([np.nan if each.raw is None else each.raw for each in released], dtype="<f8")
    return hashlib.sha256((np.round(readings, 6) + 0.0).tobytes()).hexdigest()
