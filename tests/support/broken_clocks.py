"""BROKEN ON PURPOSE: clocks that are wrong in one place, for tests that have to see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

import numpy as np

from treering.arrays import Ints
from treering.trusted.samplers import clocks
from treering.trusted.samplers.clocks import Clocks

_brackets, _clocks = clocks._brackets, clocks._clocks


def starts_afresh(_: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Where the first word does not decide, another number is drawn in place of more bits of the same one."""
    yield from _brackets(int(clocks._words(1)[0]))


def reads_on_but_forgets(word: int) -> Iterator[tuple[Fraction, Fraction]]:
    """The bits after the first word are taken as zeros: the number stays where its first word put it."""
    for _ in _brackets(word):
        ring = clocks._ring(word or 1, clocks._BITS)
        yield ring, ring


def believes_its_floats(scale: float, clocks_: Clocks) -> Ints:
    """What the first word does not decide is taken from the middle of the bounds."""
    middle = (clocks_.low + np.minimum(clocks_.high, 2 * clocks_.low)) / 2
    return np.floor(scale * np.maximum(middle, 0)).astype(np.int64)


def coarse(slack: float) -> Callable[[int], Clocks]:
    """Clocks whose logarithm has steps of 1/4: wrong, unless the slack allows for that."""

    def made(count: int) -> Clocks:
        words = clocks._words(count)
        nonzero = np.maximum(words, 1).astype(np.float64)
        rings = np.round(-4 * np.log(nonzero / 2.0**clocks._BITS)) / 4
        wide = 1 / nonzero + slack * (1 + rings)
        return Clocks(words, rings - wide, np.where(words == 0, np.inf, rings + wide))

    return made


def forgets_the_next_word(count: int) -> Clocks:
    """The upper end of what a word leaves open is taken for its lower end."""
    honest = _clocks(count)
    gap = 1 / np.maximum(honest.words, 1).astype(np.float64)
    return honest._replace(low=honest.low + gap, high=honest.high - gap)


LATER: Final[list[tuple[str, Any]]] = [("_brackets", starts_afresh), ("_brackets", reads_on_but_forgets)]
"""Wrong in what the first word leaves open: the wider the slack, the more."""
FIRST: Final[list[tuple[str, Any]]] = [("_clocks", coarse(0.0)), ("_clocks", forgets_the_next_word)]
"""Wrong in what the first word decides."""
