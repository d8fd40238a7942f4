"""Margins of noise that is drawn in whole rows: the exact law of questions about few groups, added up."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from treering.theory.continual import Law
from treering.theory.rings import Spectrum, margin

SCALES = [*np.arange(0.25, 1.0, 0.05).tolist(), *np.arange(1.0, 3.0, 0.25).tolist()]


def law_of(weights: list[Fraction], scale: float) -> dict[Fraction, float]:
    """The exact law of a weighted sum of independent discrete Gaussians, but for tails below 1e-13."""
    reach = int(8 * scale) + 4
    whole = np.arange(-reach, reach + 1)
    chances = np.exp(-(whole**2) / (2 * scale**2))
    chances /= chances.sum()
    found: dict[Fraction, float] = {Fraction(0): 1.0}
    for weight in weights:
        added: defaultdict[Fraction, float] = defaultdict(float)
        for value, chance in found.items():
            for number, own in zip(whole.tolist(), chances.tolist(), strict=True):
                if chance * own > 1e-13:
                    added[value + weight * number] += chance * own
        found = added
    return found


def kept(law: dict[Fraction, float], margin: float) -> float:
    return math.fsum(chance for value, chance in law.items() if abs(value) <= margin)


@pytest.mark.parametrize(("chosen", "groups"), [(1, 1), (1, 2), (2, 2), (1, 3), (2, 4), (1, 5)])
@pytest.mark.parametrize("centred", [True, False])
def test_margins_hold_on_the_grid_of_whole_rows(chosen: int, groups: int, centred: bool) -> None:
    mean = Fraction(chosen, groups) if centred and chosen < groups else Fraction(0)
    weights = [1 - mean] * chosen + ([-mean] * (groups - chosen) if mean else [])
    spectrum: Spectrum = tuple((abs(float(each)), 1) for each in weights)
    without = 1.0
    for scale in SCALES[: len(SCALES) if groups < 5 else 12]:
        law = law_of(weights, scale)
        assert kept(law, margin(Law(scale**2, step=1.0), spectrum)) >= 0.95
        without = min(without, kept(law, margin(Law(scale**2), spectrum)))
    assert without < 0.93  # As it was, without the half step.


def test_the_step_goes_with_the_law() -> None:
    law = Law(4.0, step=1.0) + Law(9.0)
    assert (law.variance, law.step, law.scaled(0.5).step) == (13.0, 1.0, 0.5)
    assert margin(Law(4.0, step=1.0), ((0.5, 2), (0.0, 0))) == pytest.approx(margin(Law(4.0), ((0.5, 2),)) + 0.25)
