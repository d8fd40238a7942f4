"""Rows that are held out: which ones, what counts of them cost, and that nothing is learnt from them.

Chances: a uniform subset is tested by chi-square at 10^-9.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import treering as tr
from support.learning import gate, store
from treering.budget.promise import Budget
from treering.domain.loss import Logistic, Squared
from treering.domain.problem import CellFeatures, Descent, Minimise, NoisyMoments, Perturbation, Problem
from treering.domain.tally import Tally
from treering.gate import Minimised, Tallied
from treering.noise import Gaussian, Laplace
from treering.trusted.kernel import Kernel
from treering.trusted.learning.holding import split
from treering.trusted.learning.points import entries_of_cells
from treering.trusted.rows.kept import Rows
from treering.trusted.samplers.coins import subset

FEATURES = np.array([[1.0, 0.0], [0.0, 1.0]])
REQUEST = Minimise(Problem(Logistic(), 2, 4.0), Descent("accelerated", 2, 10.0, 0.1))
HITS = Tally((1.0, -1.0), "margins", (0.0,))
RICH = Budget("zcdp", Fraction(10))


def opened(rows: int = 1_000, budget: Budget = RICH) -> Kernel:
    """Half of the rows are (1, 0) with label 1, half (0, 1) with label −1: `HITS` is right for all of them."""
    kernel = gate(np.tile(FEATURES, (rows // 2, 1)), np.tile([1.0, -1.0], rows // 2), Logistic(), budget)
    kernel.mark()
    return kernel


@pytest.mark.parametrize(("size", "number"), [(5, 2), (4, 1), (3, 3)])
def test_every_subset_is_equally_likely(size: int, number: int) -> None:
    draws = 3_000
    found = Counter(tuple(subset(size, number)) for _ in range(draws))
    every = list(combinations(range(size), number))
    assert set(found) <= set(every)
    expected = draws / len(every)
    statistic = sum((found[each] - expected) ** 2 / expected for each in every)
    assert statistic <= (chi2.isf(1e-9, len(every) - 1) if len(every) > 1 else 0)


def test_what_is_held_out_is_not_learnt_from() -> None:
    points = store(np.eye(4), np.array([1.0, -1.0, 1.0, -1.0]), Logistic())
    for _ in range(20):
        learnt, held = split(points.entries(), 1)
        assert (learnt.size, held.size) == (3, 1)
        both = np.vstack([learnt.grid, held.grid])
        assert np.array_equal(both[np.lexsort(both.T)], points.entries().grid[np.lexsort(points.entries().grid.T)])
        assert np.array_equal(held.moments.square + learnt.moments.square, points.entries().moments.square)


def test_rows_of_cells_are_held_out_by_number() -> None:
    """Of 3 rows in one cell and 1 in another, the latter is held out once in four times."""
    schema = tr.Schema({"origin": tr.categories("EWR", "JFK"), "late": tr.categories("no", "yes")})
    features = CellFeatures(schema, ["origin"], [[1.0, 0.0], [0.0, 1.0]], tr.parse("late = 'yes'", schema))
    rows = Rows(schema)
    rows.add_cells(np.array([0, 0, 0, 3]))
    entries = entries_of_cells(rows, features)
    draws, last = 2_000, 0
    for _ in range(draws):
        learnt, held = split(entries, 1)
        assert (learnt.size, held.size) == (3, 1)
        assert learnt.weights is not None
        assert held.weights is not None
        assert (learnt.weights + held.weights).tolist() == [3, 0, 0, 1]
        last += int(held.weights[3])
    assert abs(last - draws / 4) < 6.2 * (draws * 3 / 16) ** 0.5


def test_counts_are_of_the_held_out_rows_and_cost_nothing_more() -> None:
    kernel = opened()
    event = kernel.minimise(REQUEST, (0, 1_000), held=100)
    assert (event.held, event.entries, event.rows) == (100, 900, (0, 1_000))
    spent = kernel.spent
    assert spent == kernel.budget.amount(event.cost) > 0
    counted = kernel.tally(HITS, Gaussian(6.0))
    assert counted.values.shape == (2,)
    assert abs(int(counted.values[1]) - 100) < 6 * 8
    assert abs(int(counted.values[0])) < 6 * 8
    assert kernel.spent == spent
    assert counted.drawn.rho == Fraction(1, 36)
    again = Kernel(kernel._desk.rows, RICH, kernel._desk.journal)
    assert again.spent == spent


def test_the_widest_noise_that_can_be_drawn_is_taken_for_counts() -> None:
    kernel = opened()
    kernel.minimise(REQUEST, (0, 1_000), held=100)
    assert kernel.tally(HITS, Gaussian(2.0**48)).values.shape == (2,)
    with pytest.raises(tr.ParameterError, match=r"at most 2\^48"):
        kernel.tally(HITS, Gaussian(2.0**49))


class Loud(Gaussian):
    """Noise that could have other methods."""


def test_noise_for_counts_is_taken_by_exact_type() -> None:
    kernel = opened()
    kernel.minimise(REQUEST, (0, 1_000), held=100)
    events = len(kernel.history)
    with pytest.raises(tr.ParameterError, match="must be Laplace or Gaussian"):
        kernel.tally(HITS, Loud(50.0))
    assert len(kernel.history) == events


def test_all_counts_together_may_cost_what_the_model_did() -> None:
    kernel = opened()
    event = kernel.minimise(REQUEST, (0, 1_000), held=100)
    noise = Gaussian(float(2 / event.cost.rho) ** 0.5 * (1 + 1e-9))
    kernel.tally(HITS, noise)
    kernel.tally(HITS, noise)
    events = len(kernel.history)
    with pytest.raises(tr.BudgetExceeded):
        kernel.tally(HITS, noise)
    assert len(kernel.history) == events


def test_rows_are_forgotten_with_the_next_model_and_with_the_gate() -> None:
    kernel = opened()
    with pytest.raises(tr.Halted, match="no rows are held out"):
        kernel.tally(HITS, Gaussian(50.0))
    kernel.minimise(REQUEST, (0, 1_000), held=100)
    again = Kernel(kernel._desk.rows, RICH, kernel._desk.journal)
    with pytest.raises(tr.Halted, match="no rows are held out"):
        again.tally(HITS, Gaussian(50.0))
    kernel.minimise(REQUEST, (0, 1_000))
    with pytest.raises(tr.Halted, match="no rows are held out"):
        kernel.tally(HITS, Gaussian(50.0))
    kernel.minimise(REQUEST, (0, 1_000), held=100)
    kernel.mend()
    with pytest.raises(tr.Halted, match="no rows are held out"):
        kernel.tally(HITS, Gaussian(50.0))


def test_a_pure_room_takes_laplace_noise_alone() -> None:
    kernel = opened(budget=Budget("pure", Fraction(10)))
    method = Perturbation("laplace", 2.0**12, 2.0**-12, 30, 1.0)
    event = kernel.minimise(Minimise(REQUEST.problem, method), (0, 1_000), held=10)
    assert event.cost.epsilon is not None
    with pytest.raises(tr.ParameterError, match="delta > 0"):
        kernel.tally(HITS, Gaussian(100.0))
    kernel.tally(HITS, Laplace(float(2 / event.cost.epsilon) * (1 + 1e-9)))
    with pytest.raises(tr.BudgetExceeded):
        kernel.tally(HITS, Laplace(1e6))


@pytest.mark.parametrize("held", [-1, 501, 1.0, True, "1"])
def test_a_number_of_rows_that_is_none_is_refused_for_free(held: Any) -> None:
    kernel = opened()
    with pytest.raises(tr.ParameterError, match="held"):
        kernel.minimise(REQUEST, (0, 1_000), held=held)
    with pytest.raises(tr.ParameterError, match="held"):
        kernel.minimise(REQUEST, held=1)  # without an interval
    assert kernel.spent == 0


class Greedy(Tally):
    """It could count a row in many groups."""


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Greedy((1.0, -1.0), "margins", (0.0,)), "no subclass"),
        (Tally((1.0,), "margins", (0.0,)), "theta"),
        (Tally((1.0, 1.0), "distances", (0.0,)), "signs"),
    ],
)
def test_requests_are_not_taken_at_their_word(request_: Tally, words: str) -> None:
    kernel = opened()
    kernel.minimise(REQUEST, (0, 1_000), held=10)
    with pytest.raises(tr.ParameterError, match=words):
        kernel.tally(request_, Gaussian(50.0))
    assert not any(isinstance(event, Tallied) for event in kernel.history)


def test_numbers_have_misses_and_no_margins() -> None:
    kernel = gate(np.tile(FEATURES, (50, 1)), np.tile([0.5, -0.5], 50), Squared(), RICH)
    kernel.mark()
    kernel.minimise(Minimise(Problem(Squared(), 2), NoisyMoments(5.0)), (0, 100), held=50)
    with pytest.raises(tr.ParameterError, match="numbers"):
        kernel.tally(HITS, Gaussian(50.0))
    counted = kernel.tally(Tally((0.5, 0.5), "misses", (0.25, 0.75)), Gaussian(5.0))
    assert abs(counted.values - np.array([25, 0, 25])).max() < 5 * 8 + 25
    assert isinstance(kernel.history[-2], Minimised)
