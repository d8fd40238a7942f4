"""Draws of noise against as many of OpenDP's, the field's vetted sampler: from one draw to what a large release takes.

A hard answer takes three single draws, each at a scale of its own, so a new scale is the case that counts there. What a
series of 2,000 groups releases is one block.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

from benchmarks.harness import Result, ratio
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.noise import FEW, draw

SCALE: Final = 1000 / 3
BLOCK: Final = 2000
KINDS: Final[tuple[tuple[str, Callable[[float], Noise]], ...]] = (("Laplace", Laplace), ("Gaussian", Gaussian))

enable_features("contrib")


def results() -> Iterator[Result]:
    """One draw at a new scale, one at the same scale, the most that are drawn one by one, and a block; a block also at
    the scale of sums with weights of twelve bits. In time of the processor."""
    for name, kind in KINDS:
        fresh = map(kind, (SCALE + step / 2**20 for step in itertools.count()))
        same, large = itertools.repeat(kind(SCALE)), itertools.repeat(kind(2.0**12 * 10**6))
        yield _compared(f"one {name} draw at a new scale / OpenDP's", fresh, 1, limit=0.12)
        yield _compared(f"one {name} draw / OpenDP's", same, 1, limit=0.15)
        yield _compared(f"{FEW} {name} draws / OpenDP's", same, FEW, limit=0.36)
        yield _compared(f"{BLOCK:,} {name} draws / OpenDP's", same, BLOCK, limit=0.018)
        yield _compared(f"{BLOCK:,} {name} draws at a scale of 2^12 million / OpenDP's", large, BLOCK, limit=0.024)


def _compared(name: str, noises: Iterator[Noise], count: int, limit: float) -> Result:
    return ratio(
        name,
        lambda: draw(next(noises), 1, count),
        lambda: _theirs(next(noises), count),
        limit=limit,
        clock=time.process_time,
        count=count,
    )


def _theirs(noise: Noise, count: int) -> object:
    return np.array(_measurement(noise)(np.zeros(count, dtype=np.int64)), dtype=np.int64)


@lru_cache(maxsize=8)
def _measurement(noise: Noise) -> Any:
    """OpenDP's measurement that adds ``noise`` to a vector; building one takes as long as a call."""
    vectors = vector_domain(atom_domain(T="i64"))
    if isinstance(noise, Laplace):
        return make_laplace(vectors, l1_distance(T="i64"), scale=noise.scale)
    return make_gaussian(vectors, l2_distance(T="i64"), scale=noise.scale)
