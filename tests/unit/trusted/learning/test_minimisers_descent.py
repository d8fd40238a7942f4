"""Descent without noise, step by step as the schedules are written."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from treering.arrays import Floats
from treering.domain.loss import Distance, Logistic
from treering.domain.problem import Descent, Net, Problem
from treering.trusted.learning.minimisers import _averaged, accelerated, candidates

CENTRE = np.array([0.9, -0.2])
START = np.array([-0.5, 0.1])


def slope(theta: Floats) -> Floats:
    """That of ½‖θ − centre‖²·(1, 3)."""
    return np.asarray((theta - CENTRE) * np.array([1.0, 3.0]))


@pytest.mark.parametrize("schedule", ["averaged", "strong"])
def test_the_average_of_all_models(schedule: str) -> None:
    """Models of step k count 1, or k + 1 where the problem is strongly convex; the first one counts 1."""
    strong = schedule == "strong"
    problem = Problem(Logistic(), 2, 0.8, 0.5)
    method = Descent("strong" if strong else "averaged", 6, 1.0, step_size=0.3, rise=2.0)
    theta, models, counts = START, [START], [1.0]
    for step in range(1, 7):
        length = 2 / (0.5 * (step + 1)) if strong else 0.3 / (1 + 2.0 * (1 - step / 6))
        theta = theta - length * slope(theta)
        norm = float(np.linalg.norm(theta))
        theta = theta if norm <= 0.8 else theta * 0.8 / norm
        models.append(theta)
        counts.append(step + 1.0 if strong else 1.0)
    expected = np.average(models, axis=0, weights=counts)
    given = START.copy()
    np.testing.assert_allclose(_averaged(problem, method, given, slope), expected, rtol=1e-12)
    assert given.tolist() == START.tolist()


def test_accelerated_descent() -> None:
    problem = Problem(Logistic(), 2, 0.8)
    method = Descent("accelerated", 6, 1.0, step_size=0.2, rise=1.5)
    theta = average = START
    for step in range(1, 7):
        part = 2 / (step + 1)
        done = sum(each**2 for each in range(1, step + 1)) / sum(each**2 for each in range(1, 7))
        between = (1 - part) * average + part * theta
        theta = theta - step * 0.2 / (1 + 1.5 * (1 - done)) * slope(between)
        norm = float(np.linalg.norm(theta))
        theta = theta if norm <= 0.8 else theta * 0.8 / norm
        average = (1 - part) * average + part * theta
    np.testing.assert_allclose(accelerated(problem, method, START, slope), average, rtol=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_net_has_the_points_that_cover_the_ball_and_no_others(dimension: int) -> None:
    """Those of the lattice within half a diagonal of the ball; what lies outside is moved to its surface."""
    problem, pitch = Problem(Distance(), dimension, 0.7), 0.19
    far = 0.7 + pitch * dimension**0.5 / 2
    expected = []
    for place in product(range(-20, 21), repeat=dimension):
        point = pitch * np.array(place)
        norm = float(np.linalg.norm(point))
        if norm <= far:
            expected.append(point * min(1.0, 0.7 / norm) if norm > 0 else point)
    found = candidates(problem, Net(pitch, 1.0))
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert not found.flags.writeable
