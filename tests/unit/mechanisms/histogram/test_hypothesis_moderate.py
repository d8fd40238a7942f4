"""Only the block of a step is multiplied while floats stay precise; otherwise all cells are made anew."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.histogram.step import Step

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3)})
QUERY = tr.Query.where(SCHEMA, a=1)


@pytest.mark.parametrize(
    ("outside", "inside", "moderate"),
    [
        (1.0, 1.0, True),
        (1.0, 1e20, True),
        (1.0, 1.01e20, False),
        (1.0, 1.0001e-20, True),
        (1.0, 0.99e-20, False),
        (1e-30, 1e-30, True),
        (0.99e-30, 1e-30, False),
        (1e30, 1e30, True),
        (1.01e30, 1e30, False),
        (0.0, 1.0, False),
        (1e-25, 1e-25, True),
        (1e15, 1e15, True),
    ],
)
def test_moderate_steps(outside: float, inside: float, moderate: bool) -> None:
    """The ratio is within 10^20 of one, and the sum of all cells within 10^30."""
    hypothesis = Hypothesis(SCHEMA)
    assert hypothesis._total == 1.0
    assert hypothesis._moderate(Step(QUERY, (outside, inside), 0.0, 0.0)) == moderate


def test_a_moderate_step_leaves_other_cells_alone_and_no_other_does() -> None:
    """The histogram is even at first, and after growth: then every cell is written."""
    hypothesis = Hypothesis(SCHEMA)
    hypothesis.project(QUERY, 0.4)
    assert (hypothesis._total, hypothesis._kept, hypothesis._even) == (1.0, 1.0, 0.0)
    step = hypothesis.project(QUERY, 0.6)
    assert hypothesis._total == pytest.approx(1 / step.factors[0])
    assert hypothesis._total != 1.0
    np.testing.assert_allclose(hypothesis.marginal(["a"]), [0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3])
    hypothesis.grow(0.5)
    assert hypothesis._even == 0.5
    hypothesis.project(QUERY, 0.3)
    assert (hypothesis._total, hypothesis._kept, hypothesis._even) == (1.0, 1.0, 0.0)
    np.testing.assert_allclose(hypothesis.marginal(["a"]), [0.7 / 3, 0.3, 0.7 / 3, 0.7 / 3])
