"""What releases lose, exactly: computed from their noise laws and from how far their values move.

`Transparent` lets a gate release true values, and says which noise each release would have got. From the values on two
neighbours, and the laws, follow the largest log-ratio (`pure_loss`) and the Rényi divergences (`renyi`), by sums over
the integers and no theorem about sensitivities.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from support.drawing import draw_by
from treering.arrays import Ints
from treering.noise import Gaussian, Laplace, Noise

ORDERS = (1.25, 2.0, 3.5, 16.0)
"""Orders of Rényi divergences."""


@dataclass(frozen=True)
class Seen:
    """One release without its noise."""

    noise: Noise
    values: tuple[int, ...]


class Transparent:
    """Collects the noise that releases would have got; their values are released without it."""

    def __init__(self) -> None:
        self._noises: list[Noise] = []
        self.releases: list[Seen] = []

    def draw(self, noise: Noise, factor: int, count: int) -> Ints:
        """In place of a draw."""
        assert factor == 1
        self._noises.append(noise)
        return np.zeros(count, dtype=np.int64)

    def note(self, released: Sequence[Ints]) -> None:
        """These were released, in the order of their draws."""
        assert len(released) == len(self._noises)
        for noise, values in zip(self._noises, released, strict=True):
            self.releases.append(Seen(noise, tuple(int(value) for value in values)))
        self._noises.clear()


@contextmanager
def transparent() -> Iterator[Transparent]:
    """Releases of groups in the block are true values."""
    seen = Transparent()
    with pytest.MonkeyPatch.context() as patch:
        draw_by(patch, seen.draw)
        yield seen


def moved(left: Sequence[Seen], right: Sequence[Seen]) -> list[tuple[Noise, int]]:
    """How far each released number moves that moves at all, and its noise, which must not depend on the data."""
    assert [(each.noise, len(each.values)) for each in left] == [(each.noise, len(each.values)) for each in right]
    return [
        (one.noise, abs(a - b))
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one.values, other.values, strict=True)
        if a != b
    ]


def pure_loss(moves: Sequence[tuple[Noise, int]]) -> float:
    """The largest log-ratio of the two probabilities of one transcript."""
    return math.fsum(_laplace_loss(noise, shift) for noise, shift in moves)


def renyi(moves: Sequence[tuple[Noise, int]], order: float) -> float:
    """The Rényi divergence of the two laws of all releases."""
    return math.fsum(_renyi(noise, shift, order) for noise, shift in moves)


def renyi_of(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64], order: float) -> float:
    """The larger Rényi divergence of two distributions over finitely many outcomes, either way round."""
    sums = [float(np.sum(one**order * other ** (1 - order))) for one, other in ((left, right), (right, left))]
    return math.log(max(sums)) / (order - 1)


@cache
def _logs(noise: Noise, reach: int) -> npt.NDArray[np.float64]:
    """The logarithms of the probabilities of −reach … reach."""
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    if isinstance(noise, Gaussian):
        logs = -((values / noise.scale) ** 2) / 2
    else:
        assert isinstance(noise, Laplace)
        logs = -np.abs(values) / noise.scale
    return np.asarray(logs - np.log(np.sum(np.exp(logs))))


@cache
def _laplace_loss(noise: Noise, shift: int) -> float:
    logs = _logs(noise, shift + math.ceil(100 * noise.scale))
    return float(np.max(np.abs(logs[shift:] - logs[:-shift])))


@cache
def _renyi(noise: Noise, shift: int, order: float) -> float:
    logs = _logs(noise, math.ceil(order * shift + 40 * noise.scale))
    exponents = order * logs[:-shift] + (1 - order) * logs[shift:]
    top = float(exponents.max())
    return (top + math.log(float(np.sum(np.exp(exponents - top))))) / (order - 1)
