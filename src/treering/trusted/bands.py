"""Synthetic databases for prefixes and intervals: paths in a band, counted and listed by dynamic programming.

The A atoms of the class stand in a row. C_j of the n true rows and c_j of the m synthetic ones lie in the first j of
them: 0 = c_0 ≤ c_1 ≤ … ≤ c_A = m is a *path*, and every path is a candidate. Let d_j = m·C_j − n·c_j, so d_0 = d_A = 0.
The score of a candidate, times m, is

- for **prefixes** max_j |d_j|. It is at most l exactly if every c_j lies between ⌈(m·C_j − l)/n⌉ and ⌊(m·C_j + l)/n⌋:
  the path stays in a band, and paths in a band are counted from one j to the next.
- for **intervals** max_{i,j} |d_j − d_i| = max(d) − min(d). The atoms stand in a circle; turn it so that it begins at
  the first j with d_j = min(d). Then all d ≥ 0, and d > 0 at the places that came before; the score is at most l
  exactly if d ≤ l as well: a band again, one for each j that it can begin at, and each candidate is in one of them.

All counts are whole numbers, exact however long. They do not fall when l rises, which is what ``layers`` needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

from treering.trusted.sealed import Sealed

Band: TypeAlias = list[tuple[int, int]]
"""The lowest and the highest c_j, for j from 1 to A − 1. The lowest ones do not fall."""


def paths(band: Band) -> int:
    """How many paths 0 ≤ c_1 ≤ … ≤ c_{A−1} stay in the band."""
    if any(lowest > highest for lowest, highest in band):
        return 0
    return deque(_running(band), maxlen=1).pop()[-1]


def path(band: Band, rank: int) -> list[int]:
    """One of them: each rank in range(paths(band)) gives another."""
    found: list[int] = []
    for (lowest, _), running in reversed(list(zip(band, _running(band), strict=True))):
        place = bisect_right(running, rank)
        # What is left is a rank among the partial paths that end at this count.
        rank -= running[place - 1] if place else 0
        found.append(lowest + place)
    return found[::-1]


def _running(band: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """For each j, from the lowest c_j on: how many partial paths end at c_j or lower."""
    floor, running = 0, [1]
    for lowest, highest in band:
        # A partial path that ends at c_j came from any count up to c_j.
        counts = running[lowest - floor : highest - floor + 1]
        counts += [running[-1]] * (highest - lowest + 1 - len(counts))
        floor, running = lowest, list(accumulate(counts))
        yield running


class Prefixes(Sealed):
    """PRIVATE: the candidates for a class of prefixes, by their scores times ``rows``."""

    __slots__ = ("_rows", "_size", "_targets", "levels")

    def __init__(self, cumulative: Sequence[int], size: int, rows: int) -> None:
        """From C_1, …, C_{A−1}."""
        self._targets = [rows * count for count in cumulative]
        self._size, self._rows = size, rows
        steps = range(0, rows * size + 1, size)
        self.levels: Sequence[int] = sorted({abs(target - step) for target in set(self._targets) for step in steps})

    def count(self, level: int) -> int:
        """How many candidates have a score of at most this."""
        return paths(self._band(level))

    def member(self, rank: int, level: int) -> list[int]:
        """One of them, by its rank: its count in each atom."""
        return _differences(path(self._band(level), rank), self._rows)

    def _band(self, level: int) -> Band:
        size, rows = self._size, self._rows
        return [(max(0, -((level - aim) // size)), min(rows, (aim + level) // size)) for aim in self._targets]


class Intervals(Sealed):
    """PRIVATE: the candidates for a class of all intervals, by their scores times ``rows``."""

    __slots__ = ("_rows", "_size", "_turns", "levels")

    def __init__(self, cumulative: Sequence[int], size: int, rows: int) -> None:
        """From C_1, …, C_{A−1}."""
        self._size, self._rows = size, rows
        self.levels: Sequence[int] = range(rows * size + 1)
        self._turns = [self._turn([0, *cumulative], start) for start in range(len(cumulative) + 1)]

    def count(self, level: int) -> int:
        """How many candidates have a score of at most this."""
        return sum(paths(self._band(turn, level)) for turn in self._turns)

    def member(self, rank: int, level: int) -> list[int]:
        """One of them, by its rank: its count in each atom."""
        for start, turn in enumerate(self._turns):
            band = self._band(turn, level)
            number = paths(band)
            if rank < number:
                counts = _differences(path(band, rank), self._rows)
                return counts[len(counts) - start :] + counts[: len(counts) - start]
            rank -= number
        raise AssertionError("a rank is below the count")

    def _turn(self, cumulative: Sequence[int], start: int) -> list[tuple[int, int]]:
        """Begun at one j, each of the others: m·C counted from there, and the highest c with d ≥ 0 (d > 0 before j)."""
        behind = [(self._rows * (count - cumulative[start]), 0) for count in cumulative[start + 1 :]]
        before = [(self._rows * (count - cumulative[start] + self._size), 1) for count in cumulative[:start]]
        return [(aim, (aim - least) // self._size) for aim, least in behind + before]

    def _band(self, turn: Iterable[tuple[int, int]], level: int) -> Band:
        size = self._size
        return [(max(0, -((level - aim) // size)), highest) for aim, highest in turn]


def _differences(cumulative: Sequence[int], rows: int) -> list[int]:
    return [later - earlier for earlier, later in pairwise([0, *cumulative, rows])]
