"""Public random numbers: the same each time, and of the law that is named. Nothing here is left to chance."""

from __future__ import annotations

import numpy as np
import pytest

from treering.theory.continual import Law
from treering.theory.draws import group_noise, laplaces, normals, uniforms

MANY = 200_000


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others() -> None:
    assert uniforms("a", 5).tolist() == uniforms("a", 5).tolist()
    assert uniforms("a", 9)[:5].tolist() == uniforms("a", 5).tolist()
    assert uniforms("a", 5).tolist() != uniforms("b", 5).tolist()
    assert uniforms("a", 1)[0] == pytest.approx(0.45, abs=0.55)


def test_uniform_numbers_fill_the_interval_evenly() -> None:
    found = uniforms("even", MANY)
    assert 0 < found.min() < 1e-4
    assert 1 - 1e-4 < found.max() < 1
    shares = np.histogram(found, bins=10, range=(0, 1))[0] / MANY
    assert np.abs(shares - 0.1).max() < 0.003


@pytest.mark.parametrize(
    ("draw", "variance", "fourth", "beyond"),
    [(normals, 1.0, 3.0, 0.0455), (laplaces, 2.0, 24.0, float(np.exp(-2)))],
    ids=["normal", "laplace"],
)
def test_moments_and_tails(draw: object, variance: float, fourth: float, beyond: float) -> None:
    assert callable(draw)
    found = draw("moments", MANY // 4, 4)
    assert found.shape == (MANY // 4, 4)
    assert abs(found.mean()) < 0.02
    assert found.var() == pytest.approx(variance, rel=0.03)
    assert np.mean(found**4) == pytest.approx(fourth, rel=0.08)
    assert np.mean(np.abs(found) > 2) == pytest.approx(beyond, abs=0.003)
    assert np.abs(np.corrcoef(found.T) - np.eye(4)).max() < 0.02


def test_an_odd_number_of_normal_numbers() -> None:
    assert normals("odd", 3, 3).shape == (3, 3)


@pytest.mark.parametrize("number", [1, 3, 65, 1000])
def test_the_noise_of_groups_has_the_variance_of_its_law(number: int) -> None:
    law = Law(variance=4.0, parts=((0.5, 3.0, number),))
    found = group_noise(law, 20_000, 3, f"seed {number}")
    assert found.shape == (20_000, 3)
    assert found.var() == pytest.approx(4.0 + 0.25 * 9.0 * 2.0 * number, rel=0.05)
    assert abs(found.mean()) < 0.05 * found.std()
    assert np.abs(np.corrcoef(found.T) - np.eye(3)).max() < 0.03
