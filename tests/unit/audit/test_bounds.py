"""The lower bound: above the truth no more often than stated, large for what leaks, and strict about its input."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from treering.audit import audit, lower_bound
from treering.audit.bounds import clopper_pearson_lower, clopper_pearson_upper
from treering.errors import ParameterError


def randomised_response(truth: float, generator: np.random.Generator) -> Callable[[int], int]:
    """Says the bit with probability ``truth``: exactly log(truth/(1−truth))-DP."""
    return lambda bit: bit if generator.random() < truth else 1 - bit


def test_the_bound_approaches_the_truth_from_below() -> None:
    generator = np.random.default_rng(1)
    truth = math.log(3)
    few, many = (
        lower_bound(randomised_response(0.75, generator), 0, 1, samples, confidence=0.999) for samples in (200, 40_000)
    )
    assert 0 <= few < many < truth
    assert many > 0.9 * truth


def test_it_exceeds_the_truth_as_rarely_as_stated() -> None:
    """At confidence 80 % at most a fifth of the audits may; 300 audits exceed 30 % with probability below 1e-4."""
    generator = np.random.default_rng(2)
    mechanism = randomised_response(0.6, generator)
    wrong = sum(lower_bound(mechanism, 0, 1, 200, confidence=0.8) > math.log(1.5) for _ in range(300))
    assert wrong <= 90


def test_it_exceeds_the_truth_as_rarely_as_stated_in_a_vast_outcome_space() -> None:
    """Every outcome is new: an event fitted to the samples it is tested on would find an infinite ratio."""
    fresh = count()
    assert lower_bound(lambda bit: (bit, next(fresh)), 0, 0, 1000, confidence=0.9) == 0


def test_choosing_and_testing_use_different_samples() -> None:
    """In the first half the sides look different, in the second they are the same: nothing is found."""
    calls = count()

    def run(bit: int) -> int:
        return bit if next(calls) < 1000 else 0

    assert lower_bound(run, 0, 1, samples=1000, confidence=0.9) == 0


def test_the_event_may_favour_either_side_and_consist_of_many_outcomes() -> None:
    generator = np.random.default_rng(3)

    def leak(bit: int) -> int:
        return int(generator.integers(5)) if bit == 0 else int(generator.integers(10))

    found = audit(leak, 1, 0, samples=4000, confidence=0.99)
    assert found.favours == "left"
    assert found.outcomes == 5
    assert found.left_hits == pytest.approx(1000, abs=150)
    assert found.right_hits == 0
    mirrored = audit(leak, 0, 1, samples=4000, confidence=0.99)
    assert (mirrored.favours, mirrored.outcomes, mirrored.left_hits) == ("right", 5, 0)


def test_the_bound_is_the_stated_formula() -> None:
    generator = np.random.default_rng(4)
    found = audit(randomised_response(0.7, generator), 0, 1, samples=1001, confidence=0.98, delta=0.05)
    assert found.tested == 501
    likely, unlikely = max(found.left_hits, found.right_hits), min(found.left_hits, found.right_hits)
    expected = math.log((clopper_pearson_lower(likely, 501, 0.01) - 0.05) / clopper_pearson_upper(unlikely, 501, 0.01))
    assert found.epsilon == pytest.approx(expected, rel=1e-12)
    assert found.outcomes == 1
    assert (found.samples, found.confidence, found.delta) == (1001, 0.98, 0.05)


def test_delta_forgives_what_is_rarer_than_it() -> None:
    """The secret is given away one time in twenty: not pure, but (0, 1/20)-DP."""
    generator = np.random.default_rng(5)

    def sometimes(bit: int) -> int | None:
        return bit if generator.random() < 0.05 else None

    assert lower_bound(sometimes, 0, 1, samples=20_000, confidence=0.999) > 1
    assert lower_bound(sometimes, 0, 1, samples=20_000, confidence=0.999, delta=0.05) == 0


def test_the_sides_take_turns_and_progress_is_told() -> None:
    seen: list[int] = []
    told: list[tuple[int, int]] = []

    def run(bit: int) -> int:
        seen.append(bit)
        return 0

    assert lower_bound(run, 0, 1, 20, confidence=0.9, progress=lambda done, total: told.append((done, total))) == 0
    assert seen == [0, 1] * 20
    assert told == [(2 * index + 2, 40) for index in range(20)]


@pytest.mark.parametrize(
    ("samples", "confidence", "delta", "named"),
    [
        (1000, 0.0, 0.0, "confidence"),
        (1000, 1.0, 0.0, "confidence"),
        (1000, math.nan, 0.0, "confidence"),
        (1000, 0.9, -0.1, "delta"),
        (1000, 0.9, 1.0, "delta"),
        (1000, 0.9, math.nan, "delta"),
        (11, 0.95, 0.0, "samples must be an integer, at least 12 "),
        (0, 0.95, 0.0, "samples"),
        (True, 0.95, 0.0, "samples"),
        (1000.0, 0.95, 0.0, "samples"),
    ],
)
def test_bad_parameters_are_named_before_anything_runs(
    samples: int, confidence: float, delta: float, named: str
) -> None:
    def run(bit: int) -> int:
        raise AssertionError(f"ran on {bit}")

    with pytest.raises(ParameterError, match=named):
        lower_bound(run, 0, 1, samples, confidence, delta)


@pytest.mark.parametrize(("confidence", "delta"), [(0.95, 0.0), (0.9, 0.3), (1 - 1e-9, 0.0)])
def test_the_fewest_samples_allowed_can_find_something(confidence: float, delta: float) -> None:
    with pytest.raises(ParameterError, match="at least") as refusal:
        lower_bound(lambda bit: bit, 0, 1, 1, confidence, delta)
    fewest = int(str(refusal.value).split("at least ")[1].split()[0])
    assert lower_bound(lambda bit: bit, 0, 1, fewest, confidence, delta) > 0
    with pytest.raises(ParameterError, match="samples"):
        lower_bound(lambda bit: bit, 0, 1, fewest - 1, confidence, delta)


def test_outcomes_must_be_hashable() -> None:
    outcomes: list[int] = []
    with pytest.raises(ParameterError, match="run must return something hashable"):
        lower_bound(lambda _: (1, outcomes), 0, 1, 100, confidence=0.9)
