"""The broken learner has the defect that it names, and no other."""

from __future__ import annotations

import numpy as np
import pytest

from support.broken_learning import HalfSensitivityLearner, HonestLearner
from treering.budget.minimising import minimising
from treering.domain.loss import HuberHinge
from treering.domain.problem import Problem

PROBLEM = Problem(HuberHinge(), 1, 1.0, 2.0)
ENTRIES = np.ones((4, 1)), np.array([1.0, -1.0, 1.0, 1.0])


def test_the_honest_one_pays_epsilon_and_the_broken_one_twice_that() -> None:
    for kind, lost in ((HonestLearner, 1.5), (HalfSensitivityLearner, 3.0)):
        price = minimising(PROBLEM, kind(PROBLEM, *ENTRIES, 1.5).method, 4).epsilon
        assert price is not None
        assert float(price) == pytest.approx(lost)
        assert price <= lost


def test_both_release_the_minimiser_with_noise() -> None:
    for kind in (HonestLearner, HalfSensitivityLearner):
        assert kind(PROBLEM, *ENTRIES, 1e6).release()[0] == pytest.approx(0.25, abs=0.01)
