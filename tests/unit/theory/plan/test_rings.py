"""The row of Rings in a plan: that its numbers are the mechanism's own, and the worst over all batches."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import pytest

import treering as tr
from support.plan_rows import row_of
from treering.budget.promise import Budget, Promise
from treering.domain.groups import FEW_GROUPS
from treering.theory import rings
from treering.theory.continual import prefix_law, windows
from treering.theory.plan import plan
from treering.theory.plan.rings import radius

SCHEMA: Final = tr.Schema({name: tr.integers(1, 12) for name in "abcde"})
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
ONE: Final = ((1.0, 1),)


@KINDS
def test_no_answer_states_more_than_the_plan(delta: float) -> None:
    """Each of five questions, in a series of its own, at the start and after each of twenty batches."""
    asked = ["a = 1", "a < 7 AND b = 1", "c > 8", "d IN (2, 4)", "b < 3 AND c < 5 AND e = 7"]
    row = row_of("Rings", SCHEMA.cells, 50_000, 1.0, delta=delta, queries=len(asked))
    db = tr.GrowingDatabase(SCHEMA)
    db.append_cells([0] * 50_000)
    mechanism = tr.Rings(db, 1.0, delta, pace=len(asked))
    largest = []
    for _ in range(20):
        answers = [mechanism.ask(each) for each in asked]
        largest.append(max(answer.error for answer in answers if answer.error < 1))
        db.append_cells([1] * 500)
    assert len(mechanism.series) == len(asked)
    assert row.alpha / 2 < max(largest) <= row.alpha


@KINDS
@pytest.mark.parametrize("queries", [1, 40, 3000])
def test_the_guarantee_is_the_worst_over_all_batches(delta: float, queries: int) -> None:
    """By the laws of the series themselves, and far beyond where the plan has stopped to look."""
    size, beta = 10**6, 0.01
    row = row_of("Rings", 500, size, 2.0, delta=delta, queries=queries, beta=beta)
    total = Promise(2.0, delta).budget.total
    price = Budget("zcdp" if delta else "pure", Fraction(4, 5) * total / queries)
    worst = 0.0
    for leaf in (*range(1, 120), *range(120, 1200, 37), 2_000, 2_047, 3_000, 8_191):
        share = rings.estimate_share(beta, queries, leaf, windows(price, FEW_GROUPS, leaf)) / 2
        law = prefix_law(price, FEW_GROUPS, leaf)
        worst = max(worst, rings.registered_radius(law, ONE, 1, share) / (size + (leaf - 1) * size // 100))
    assert worst <= row.alpha <= 1.35 * worst


@pytest.mark.parametrize("scale", [None, 2.0**20])
def test_errors_fall_from_where_the_plan_stops(scale: float | None) -> None:
    """Eight times the starting rows are 700 batches."""
    shares = [radius(scale, 2**power - 1, 0.01) / (100 + 2 ** (power - 1) - 1) for power in range(10, 20)]
    assert shares == sorted(shares, reverse=True)


def test_what_is_not_grown_has_one_batch() -> None:
    price = Budget("zcdp", Fraction(4, 500) * Promise(1.0, 1e-9).budget.total)
    law = prefix_law(price, FEW_GROUPS, 1)
    share = rings.estimate_share(0.05, 100, 1, 1) / 2
    row = row_of("Rings", 500, 10**6, 1.0, delta=1e-9, queries=100, horizon=None)
    assert row.alpha >= rings.registered_radius(law, ONE, 1, share) / 10**6
    assert row.alpha == pytest.approx(rings.registered_radius(law, ONE, 1, share) / 10**6, rel=0.2)
    assert row.alpha < row_of("Rings", 500, 10**6, 1.0, delta=1e-9, queries=100).alpha / 2


@pytest.mark.parametrize(("delta", "least", "most"), [(1e-6, 2.45, 2.46), (0.0, 2.9, 6.0)])
def test_the_typical_error_is_that_of_a_margin(delta: float, least: float, most: float) -> None:
    """1.96·√(π/2) times under zCDP; 95% of Laplace noise lie within 3 mean sizes, and a margin is a bound on that."""
    row = row_of("Rings", 500, 10**6, 1.0, delta=delta, queries=50)
    assert row.expected is not None
    margin = float(row.note.split("± ")[1].split(" rows")[0].replace(",", "")) / 10**6
    assert least < margin / row.expected < most


def test_more_questions_are_less_sharp_and_endless_ones_have_no_one_error() -> None:
    alphas = [row_of("Rings", 500, 10**6, 1.0, delta=1e-9, queries=each).alpha for each in (1, 10, 100, 10**6)]
    assert alphas == sorted(alphas)
    endless = row_of("Rings", 500, 10**6, 1.0, delta=1e-9, queries=math.inf)
    assert (endless.verdict, endless.create, endless.expected) == ("no guarantee", None, None)
    assert "less sharp" in endless.note


def test_the_number_of_cells_does_not_matter() -> None:
    few, many = (plan(cells, 10**6, 1.0, 1e-9).row("Rings") for cells in (64, 2**62))
    assert few.alpha == many.alpha
    assert many.runs


def test_a_promise_too_small_for_any_noise_has_no_guarantee() -> None:
    tiny = row_of("Rings", 64, 1000, 1e-9, queries=10**18)
    assert (tiny.verdict, tiny.create, tiny.expected) == ("no guarantee", None, None)
