"""Quantiles from noisy counts of cells: exact without noise, covering with it, by their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from treering.theory.continual import Law
from treering.theory.quantiles import cells_between, level_margins, linear_spectrum, point, ratio_end
from treering.theory.rings import NORMAL, margin, spread

COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any)


@given(COUNTS, st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.99]))
def test_without_noise_the_interval_holds_both_percentiles(counts: list[int], level: float) -> None:
    values = np.repeat(np.arange(len(counts)), counts)
    levels = np.cumsum(counts) - level * sum(counts)
    first, last = cells_between(levels.tolist(), [0.0] * len(counts))
    assert first <= np.quantile(values, level, method="inverted_cdf") <= last
    assert first <= np.quantile(values, level) <= last
    cell, part = point(levels.tolist())
    assert (cell, 0 <= part <= 1) == (int(np.quantile(values, level, method="inverted_cdf")), True)


@given(COUNTS, st.floats(0.05, 0.95), st.floats(0, 5), st.data())
def test_noise_within_its_margins_at_the_true_cell_never_loses_it(
    counts: list[int], level: float, width: float, data: st.DataObject
) -> None:
    """Noise elsewhere may be anything: only that at the true cell and at the one before it matters."""
    levels = np.cumsum(counts) - level * sum(counts)
    true = int(np.argmax(levels >= 0))
    noise = np.array([data.draw(st.floats(-100, 100)) for _ in counts])
    noise[[true, max(0, true - 1)]] = [data.draw(st.floats(-width, width)) for _ in range(2)]
    first, last = cells_between((levels + noise).tolist(), [width] * len(counts))
    assert first <= true <= last


def test_the_interval_may_lose_the_cell_if_the_noise_is_beyond_its_margin() -> None:
    assert cells_between([-30.0, -9.0, 40.0], [3.0] * 3) == (2, 2)
    assert cells_between([-30.0, 9.0, 40.0], [3.0] * 3) == (1, 1)
    assert cells_between([5.0], [1.0]) == (0, 0)
    assert cells_between([-50.0, -40.0], [1.0, 1.0]) == (1, 1)


def test_margins_are_those_of_the_weighted_question() -> None:
    """Of twelve groups, cells of 1, 2 and 3: T weighs those up to a cell with 1 − q, the others with −q."""
    law = Law(25.0)
    found = level_margins(law, [1, 2, 3], 12, 0.25)
    for below, width in zip((1, 3, 6), found, strict=True):
        weights = np.array([0.75] * below + [-0.25] * (6 - below) + [0.0] * 6)
        assert width == pytest.approx(NORMAL * 5 * math.sqrt(((weights - weights.mean()) ** 2).sum()))
    assert spread(linear_spectrum((1.0, -2.0), (1, 2), 3)) == pytest.approx(6.0)


@pytest.mark.parametrize("upper", [False, True])
@given(st.lists(st.integers(5, 60), min_size=3, max_size=6), st.floats(0.1, 3))
def test_the_end_of_a_ratio_is_where_its_test_turns(upper: bool, counts: list[int], deviation: float) -> None:
    values, law = np.array([2.0 * place - 3.0 for place in range(len(counts))]), Law(deviation**2)
    numbers, groups = [1] * len(counts), len(counts) + 2
    end = ratio_end(values, np.array(counts, dtype=float), numbers, groups, law, upper=upper)
    if math.isinf(end):
        return
    width = margin(law, linear_spectrum((values - end).tolist(), numbers, groups))
    gap = float((values - end) @ np.array(counts))
    assert abs(gap) == pytest.approx(width, rel=1e-5, abs=1e-6)
    assert (gap <= 0) == upper or abs(gap) < 1e-6


def test_a_ratio_of_possibly_nothing_has_no_ends() -> None:
    values, counts = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    for law in (Law(100.0), Law(0.0, ((1.0, 50.0, 1),))):
        assert ratio_end(values, counts, [1, 1], 3, law, upper=True) == math.inf
        assert ratio_end(values, counts, [1, 1], 3, law, upper=False) == -math.inf


def test_pure_noise_has_wider_ends_that_hold() -> None:
    values, counts = np.array([0.0, 1.0, 4.0]), np.array([1000.0, 2000.0, 500.0])
    law = Law(0.0, ((1.0, 20.0, 1),))
    truth = float(values @ counts) / counts.sum()
    generator, low, high, trials = np.random.default_rng(5), 0, 0, 400
    for _ in range(trials):
        noisy = counts + generator.laplace(0, 20, 3)
        low += ratio_end(values, noisy, [1] * 3, 4, law, upper=False) <= truth
        high += ratio_end(values, noisy, [1] * 3, 4, law, upper=True) >= truth
    assert min(low, high) > 0.94 * trials  # each holds for 97.5%
