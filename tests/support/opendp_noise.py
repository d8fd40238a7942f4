"""OpenDP's noise on the counts of all cells, of the scale that a budget buys."""

from __future__ import annotations

import math
from typing import Final

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import Measurement, enable_features

from treering.budget.promise import Budget
from treering.noise import Gaussian, Laplace, Noise

enable_features("contrib")

_HAIR: Final = 1 + 1e-9
"""OpenDP rounds its maps up."""


def affordable(budget: Budget) -> Noise:
    """What costs the budget, but for a hair."""
    if budget.kind == "pure":
        return Laplace(2 / float(budget.total) * _HAIR)
    return Gaussian(1 / math.sqrt(float(budget.total)) * _HAIR)


def noisy_counts(budget: Budget, cells: int) -> Measurement:
    """A measurement that adds it to so many counts."""
    vectors, noise = vector_domain(atom_domain(T="i64"), size=cells), affordable(budget)
    if isinstance(noise, Laplace):
        return make_laplace(vectors, l1_distance(T="f64"), scale=noise.scale)
    return make_gaussian(vectors, l2_distance(T="f64"), scale=noise.scale)
