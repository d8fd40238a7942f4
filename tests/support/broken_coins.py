"""BROKEN ON PURPOSE: samplers that are wrong in one place, for tests that have to see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treering.trusted.samplers import coins
from treering.trusted.samplers.coins import Words


def keeps_minus_zero(top: int, bottom: int, word: Words) -> int:
    """0 counts for both signs."""
    size = _size(top, word) // bottom
    return size if word() & 1 else -size


def rounds_up(top: int, bottom: int, word: Words) -> int:
    """The quotient is rounded the other way."""
    while True:
        size = -(-_size(top, word) // bottom)
        if word() & 1:
            return size
        if size:
            return -size


def keeps_every_remainder(top: int, bottom: int, word: Words) -> int:
    """Within each multiple of the numerator all values are equally likely."""
    while True:
        drawn = coins._below(top, word)
        while coins._decays(1, 1, word):
            drawn += top
        size = drawn // bottom
        if word() & 1:
            return size
        if size:
            return -size


def forgets_the_rest(top: int, bottom: int, word: Words) -> int:
    """e^{−γ} is taken for e^{−⌊γ⌋}."""
    while True:
        drawn = coins._signed(top // bottom + 1, 1, word)
        if all(coins._decays(1, 1, word) for _ in range(_exponent(drawn, top, bottom))):
            return drawn


def _size(top: int, word: Words) -> int:
    while True:
        drawn = coins._below(top, word)
        if coins._decays(drawn, top, word):
            while coins._decays(1, 1, word):
                drawn += top
            return drawn


def _exponent(drawn: int, top: int, bottom: int) -> int:
    scale = top // bottom + 1
    return int((abs(drawn) * scale * bottom**2 - top**2) ** 2 // (2 * top**2 * scale**2 * bottom**2))


LAPLACE: Final[list[Callable[[int, int, Words], int]]] = [keeps_minus_zero, rounds_up, keeps_every_remainder]
GAUSSIAN: Final[list[Callable[[int, int, Words], int]]] = [forgets_the_rest]
