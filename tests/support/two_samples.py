"""A two-sample test with stated rates of error: `same_law` is the test, `same_law_miss_rate` its power.

Two samples of n draws over k outcomes have frequencies p̂ and q̂, with mean m. The statistic is x = n·KL(p̂‖m) +
n·KL(q̂‖m) = 2n·JSD(p̂, q̂), half of the G-test's. As in ``support.goodness``, the rates are bounds, no approximations.

- *False alarms.* If both come from p, x is at most n·KL(p̂‖p) + n·KL(q̂‖p), as m minimises that sum. Each term's moment
  generating function is at most that of a gamma variable of shape k−1 (Agrawal 2020, arXiv 1904.02291), and they are
  independent: x has the tail that ``support.goodness`` states for 2(k−1)+1 outcomes.
- *Misses.* √JSD is a metric (Endres and Schindelin 2003) and JSD(p̂, p) ≤ ½KL(p̂‖p). So if draws from p and q are taken
  for the same, √A + √B ≥ √(2n·JSD(p, q)) − √x for A = n·KL(p̂‖p) and B = n·KL(q̂‖q), and A + B has the tail above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from support.goodness import FALSE_ALARM, Masses, critical, divergence


def same_law(left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether two samples of equal size, counts of each outcome, may have one law."""
    counts = np.array([left, right], dtype=np.float64)
    draws = counts[0].sum()
    assert draws == counts[1].sum()
    return bool(2 * draws * spread(*(counts / draws)) < _critical(len(left)))


def same_law_miss_rate(left: Masses, right: Masses, draws: int, outcomes: int) -> float:
    """An upper bound on the chance that so many draws of each are taken for the same.

    They may be tested with more outcomes than these, of which these are groups: that only adds to the distance.
    """
    free = 2 * (outcomes - 1)
    beyond = math.sqrt(2 * draws * spread(left, right)) - math.sqrt(_critical(outcomes))
    y = max(0.0, beyond) ** 2 / 2
    return math.exp(free - y + free * math.log(y / free)) if y > free else 1.0


def spread(left: Masses, right: Masses) -> float:
    """The Jensen–Shannon divergence, in nats."""
    mean = (left + right) / 2
    return (divergence(left, mean) + divergence(right, mean)) / 2


def _critical(outcomes: int) -> float:
    return critical(2 * (outcomes - 1) + 1, FALSE_ALARM)
