"""All ways that a sampler can go: the exact probability of everything that it may draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

Options: TypeAlias = Sequence[tuple[Any, Fraction]]
Law: TypeAlias = dict[Any, Fraction]

AGAIN: Final = "again"
UNDECIDED: Final = "undecided"


class Fork(Exception):
    def __init__(self, options: Options) -> None:
        self.options = options


class Again(Exception):
    """What was drawn is not kept."""


class Choices:
    """Makes the choices that it was told, then asks."""

    def __init__(self, told: Sequence[Any]) -> None:
        self._left = list(told)

    def among(self, options: Options) -> Any:
        if not self._left:
            raise Fork(options)
        return self._left.pop(0)


def law(play: Callable[[Choices], Any], depth: int) -> Law:
    """The exact probability of every outcome that comes within ``depth`` choices, and of none of them."""
    found: Law = defaultdict(Fraction)
    open_: list[tuple[tuple[Any, ...], Fraction]] = [((), Fraction(1))]
    while open_:
        told, mass = open_.pop()
        try:
            found[play(Choices(told))] += mass
        except Again:
            found[AGAIN] += mass
        except Fork as fork:
            if len(told) == depth:
                found[UNDECIDED] += mass
            else:
                open_ += [((*told, value), mass * share) for value, share in fork.options if share]
    assert sum(found.values()) == 1
    return found
