"""A few draws of noise against as many of OpenDP's, which is what `draw` would otherwise call.

A hard answer takes three single draws, each at a scale of its own, so a new scale is the case that counts.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from benchmarks.harness import Result, ratio
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.noise import FEW, _measurement, draw

SCALE: Final = 1000 / 3
KINDS: Final[tuple[tuple[str, Callable[[float], Noise]], ...]] = (("Laplace", Laplace), ("Gaussian", Gaussian))


def results() -> Iterator[Result]:
    """One draw at a new scale, one at the same scale, and the most that are ours. In time of the processor."""
    for name, kind in KINDS:
        fresh = map(kind, (SCALE + step / 2**20 for step in itertools.count()))
        same = itertools.repeat(kind(SCALE))
        yield _compared(f"one {name} draw at a new scale / OpenDP's", fresh, 1, limit=0.12)
        yield _compared(f"one {name} draw / OpenDP's", same, 1, limit=0.15)
        yield _compared(f"{FEW} {name} draws / OpenDP's", same, FEW, limit=0.75)


def _compared(name: str, noises: Iterator[Noise], count: int, limit: float) -> Result:
    return ratio(
        name,
        lambda: draw(next(noises), 1, count),
        lambda: _theirs(next(noises), count),
        limit=limit,
        clock=time.process_time,
    )


def _theirs(noise: Noise, count: int) -> object:
    return np.array(_measurement(noise)(np.zeros(count, dtype=np.int64)), dtype=np.int64)
