"""Noise of a known law, drawn anew from public random numbers: how far what was released may be from the truth.

The numbers come from SHAKE-256 of a stated seed, so they are the same each time, and margins can be recomputed. They
never touch private data.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.theory.continual import Law

_SUMMED: Final = 64
"""A sum of more Laplace numbers than this is drawn as a normal one of the same variance."""


def uniforms(seed: str, number: int) -> Floats:
    """Numbers in (0, 1), as many as wanted."""
    bits = np.frombuffer(hashlib.shake_256(seed.encode()).digest(8 * number), dtype="<u8")
    found: Floats = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return found


def normals(seed: str, rows: int, columns: int) -> Floats:
    """Independent standard normal numbers, by Box and Muller."""
    half = (rows * columns + 1) // 2
    radius, angle = np.split(uniforms(seed, 2 * half), 2)
    radius = np.sqrt(-2.0 * np.log(radius))
    angle = 2.0 * np.pi * angle
    found = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return found[: rows * columns].reshape(rows, columns)


def laplaces(seed: str, rows: int, columns: int) -> Floats:
    """Independent Laplace numbers of scale 1."""
    found = uniforms(seed, rows * columns).reshape(rows, columns) - 0.5
    return -np.sign(found) * np.log1p(-2.0 * np.abs(found))


def group_noise(law: Law, draws: int, groups: int, seed: str) -> Floats:
    """Noise of ``law`` for each of some groups: a row for each draw."""
    found = (
        np.sqrt(law.variance) * normals(f"{seed} normal", draws, groups) if law.variance else np.zeros((draws, groups))
    )
    for place, (weight, scale, number) in enumerate(law.parts):
        if number > _SUMMED:
            found += weight * scale * np.sqrt(2.0 * number) * normals(f"{seed} {place}", draws, groups)
        else:
            for each in range(number):
                found += weight * scale * laplaces(f"{seed} {place} {each}", draws, groups)
    return found
