"""Synthetic databases for any class of few atoms: all multisets of so many atoms, listed and scored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice
from typing import Final

import numpy as np

from treering.arrays import Ints
from treering.domain.atoms import Atoms
from treering.errors import ParameterError
from treering.trusted.sealed import Sealed

_MOST_SCORE: Final = 2**62
"""Size × rows × the queries' common resolution stays below this, so that no score overflows."""

_BLOCK: Final = 2**18
"""So many counts are scored together."""


def unit(atoms: Atoms) -> int:
    """The grid that all queries' weights are on."""
    return math.lcm(*(query.scale for query in atoms.queries))


def check_scores(atoms: Atoms, size: int, rows: int) -> None:
    """Refuse, on public quantities, scores that would not fit into 64 bits."""
    if size * rows * unit(atoms) >= _MOST_SCORE:
        raise ParameterError(
            "rows", f"times size times the queries' resolution ({unit(atoms):,}) must stay below 2^62: use fewer rows"
        )


class Multisets(Sealed):
    """PRIVATE: all candidates by their scores, max_f |rows·C_f(x) − size·C_f(y)| on the queries' common grid, as
    ``layers`` draws them: one direction, the score."""

    __slots__ = ("_order", "_rows", "_sorted", "_width", "levels")

    def __init__(self, atoms: Atoms, true: Sequence[int], size: int, rows: int) -> None:
        self._rows = rows
        self._width = atoms.number
        scores = _scores(atoms, np.asarray(true, dtype=np.int64), size, rows)
        self._order = np.argsort(scores, kind="stable")
        self._sorted = scores[self._order]
        self.levels: Sequence[int] = self._sorted[np.diff(self._sorted, prepend=-1) > 0].tolist()

    def count(self, level: int) -> int:
        """How many candidates have a score of at most this."""
        return int(np.searchsorted(self._sorted, level, side="right"))

    def member(self, rank: int, level: int) -> list[int]:
        """One of them, by its rank: its count in each atom."""
        place = int(self._order[rank])
        chosen = islice(_choices(self._width, self._rows), place, place + 1)
        counts: list[int] = _counts(np.array(list(chosen), dtype=np.int64), self._width, self._rows)[0].tolist()
        return counts


def listing(atoms: int, rows: int) -> Iterator[Ints]:
    """All multisets, in a fixed order and in blocks: a line for each, its count in each atom."""
    width = min(rows, atoms - 1)
    numbers = chain.from_iterable(_choices(atoms, rows))
    left, step = math.comb(atoms + rows - 1, rows), max(1, _BLOCK // atoms)
    while left:
        lines = min(step, left)
        block = np.fromiter(islice(numbers, lines * width), dtype=np.int64, count=lines * width)
        yield _counts(block.reshape(lines, width), atoms, rows)
        left -= lines


def _choices(atoms: int, rows: int) -> Iterator[tuple[int, ...]]:
    """A multiset is a row of stars (rows) and bars (between atoms): the places of whichever are fewer."""
    return combinations(range(atoms + rows - 1), min(rows, atoms - 1))


def _counts(places: Ints, atoms: int, rows: int) -> Ints:
    """From places of bars, or of stars, to counts."""
    lines = len(places)
    if rows >= atoms - 1:
        ends = np.full((lines, 1), atoms + rows - 1)
        counts: Ints = np.diff(np.hstack([np.full((lines, 1), -1), places, ends]), axis=1) - 1
        return counts
    # The number of bars before a star is the atom it is in.
    chosen = places - np.arange(rows) + atoms * np.arange(lines)[:, np.newaxis]
    return np.bincount(chosen.reshape(-1), minlength=lines * atoms).reshape(lines, atoms)


def _scores(atoms: Atoms, true: Ints, size: int, rows: int) -> Ints:
    """In the order of `listing`."""
    if not atoms.queries:
        return np.zeros(math.comb(atoms.number + rows - 1, rows), dtype=np.int64)
    factors = unit(atoms) // np.array([query.scale for query in atoms.queries], dtype=np.int64)
    targets = (rows * true * factors)[:, np.newaxis]
    # Rows times resolution is far below 2^53, so products of floats are exact, and much faster than of integers.
    weights = (atoms.weights * factors[:, np.newaxis]).astype(np.float64)
    parts = [
        np.abs(targets - size * (weights @ counts.T.astype(np.float64)).astype(np.int64)).max(axis=0)
        for counts in listing(atoms.number, rows)
    ]
    return np.concatenate(parts)
