from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from treering.errors import GuaranteeError, ParameterError
from treering.theory.sparse import (
    paper_atg_beta,
    paper_atg_loss,
    paper_natg_beta,
    paper_natg_loss,
    paper_noise,
    paper_nsg_beta,
    paper_nsg_loss,
    paper_scales,
    run_cost,
)


@given(st.integers(1, 10**9), st.floats(1e-3, 1e3), st.floats(0, 1))
def test_the_papers_run_costs_the_theorems_loss(size: int, coefficient: float, p: float) -> None:
    xi = paper_noise(size, coefficient, p)
    threshold, query, answer = paper_scales(size, xi)
    assert run_cost(threshold, query) == pytest.approx(paper_atg_loss(size, xi), rel=1e-12)
    assert run_cost(threshold, query) + 1 / answer == pytest.approx(paper_natg_loss(size, xi, size, xi), rel=1e-12)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(1e-3, 1e3), st.floats(0, 1))
def test_a_frozen_scale_never_has_more_noise(start: int, grown: int, coefficient: float, p: float) -> None:
    later = start + grown
    frozen = paper_scales(start, paper_noise(start, coefficient, p))
    moving = paper_scales(later, paper_noise(later, coefficient, p))
    assert all(held <= moved * (1 + 1e-12) for held, moved in zip(frozen, moving, strict=True))


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(1e-3, 1e3), st.floats(0, 1))
def test_a_frozen_number_is_sharper_and_dearer(start: int, grown: int, coefficient: float, p: float) -> None:
    """Comparisons lose what the theorem says. The number loses as much as at the start, where the paper's loses what it
    would at the size of the halt."""
    later = start + grown
    first, last = (paper_noise(size, coefficient, p) for size in (start, later))
    threshold, query, frozen = paper_scales(start, first)
    _, _, moving = paper_scales(later, last)
    assert frozen <= moving * (1 + 1e-12)
    theirs = paper_natg_loss(start, first, later, last)
    ours = run_cost(threshold, query) + 1 / frozen
    assert theirs * (1 - 1e-12) <= ours <= 9 / 8 * theirs * (1 + 1e-12)
    assert ours - theirs == pytest.approx((first / start - last / later) / 8, abs=1e-9 * ours)


def test_a_frozen_scale_has_much_less_noise_when_the_data_double() -> None:
    frozen = paper_scales(1000, paper_noise(1000, 1.0, 0.5))
    moving = paper_scales(4000, paper_noise(4000, 1.0, 0.5))
    assert moving[0] == pytest.approx(2 * frozen[0])


def test_nsg_loss_is_the_corollary() -> None:
    """ξ_t = t^p: n^{p−1} + (9/8)·Σ h_t·t^{p−1}."""
    start, p, hard = 50, 0.5, [2, 0, 3]
    xi = [paper_noise(size, 1.0, p) for size in range(start, start + 3)]
    expected = 50**-0.5 + 9 / 8 * (2 * 50**-0.5 + 3 * 52**-0.5)
    assert paper_nsg_loss(start, xi, hard) == pytest.approx(expected, rel=1e-12)
    assert paper_nsg_loss(start, xi, [0, 0, 0]) == paper_atg_loss(start, xi[0])


def test_natg_loss_at_a_later_size() -> None:
    assert paper_natg_loss(100, 10.0, 400, 20.0) == pytest.approx(0.1 + 0.05 / 8)


def test_nsg_loss_covers_its_runs() -> None:
    """A run from 100 to 102 and one from 102 to 104: each pays its start and its answer."""
    xi = [paper_noise(size, 3.0, 0.25) for size in range(100, 105)]
    runs = paper_natg_loss(100, xi[0], 102, xi[2]) + paper_natg_loss(102, xi[2], 104, xi[4])
    assert runs <= paper_nsg_loss(100, xi, [0, 0, 1, 0, 1])


def test_betas_are_the_theorems() -> None:
    alpha, xi, queries = 0.5, [16.0, 32.0], [3, 5]
    first, last = math.exp(-1), math.exp(-2)
    assert paper_atg_beta(alpha, xi, queries) == pytest.approx(3 * first + 5 * last + first)
    assert paper_natg_beta(alpha, xi, queries) == pytest.approx(3 * first + 5 * last + first + last)
    assert paper_nsg_beta(alpha, xi, queries, [1, 2]) == pytest.approx(first + 5 * first + 9 * last)
    assert paper_nsg_beta(alpha, xi, queries) == pytest.approx(first + 3 * (3 * first + 5 * last))


@pytest.mark.parametrize(
    ("start", "xi"), [(10, [2.0, 1.0]), (10, [1.0, 2.0])], ids=["xi falls", "xi rises faster than size"]
)
def test_schedules_outside_the_theorems_are_refused(start: int, xi: list[float]) -> None:
    with pytest.raises(GuaranteeError, match="xi"):
        paper_nsg_loss(start, xi, [0, 0])
    with pytest.raises(GuaranteeError, match="xi"):
        paper_natg_loss(start, xi[0], start + 1, xi[1])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: paper_noise(10, 1.0, 1.5), "p"),
        (lambda: paper_noise(10, 0.0, 0.5), "coefficient"),
        (lambda: paper_scales(0, 1.0), "size"),
        (lambda: paper_scales(10, math.inf), "xi"),
        (lambda: paper_atg_beta(0.0, [1.0], [1]), "alpha"),
        (lambda: paper_atg_beta(0.1, [], []), "xi"),
        (lambda: paper_atg_beta(0.1, [1.0], [1, 2]), "queries"),
        (lambda: paper_atg_beta(0.1, [1.0], [-1]), "queries"),
        (lambda: paper_nsg_loss(10, [1.0], [-1]), "hard"),
    ],
)
def test_bad_parameters_are_refused_by_name(call: Any, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.parameter == name


def test_accuracy_theorems_refuse_a_falling_xi() -> None:
    with pytest.raises(GuaranteeError, match="not to fall"):
        paper_atg_beta(0.1, [2.0, 1.0], [1, 1])
