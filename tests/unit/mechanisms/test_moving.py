"""The paper's own noise for ATG, NATG and NSG: its scales at every size, its cost, its conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

import treering as tr
from support.databases import TestDatabase
from treering.gate import FINE, RunStarted
from treering.mechanisms.moving import PaperNoise
from treering.theory.sparse import nsg_accuracy, paper_atg_loss, paper_natg_loss, paper_noise, paper_nsg_beta, run_cost

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
NO, YES = 0, 1
LATE = tr.parse("late = 'yes'", SCHEMA)
QUARTER = tr.Query.weighted(SCHEMA, [0.5, 0.75])


def database(late: int = 300, punctual: int = 700) -> TestDatabase:
    return TestDatabase(SCHEMA, [YES] * late + [NO] * punctual)


def root(size: int) -> float:
    """Silent but for gaps of many rows at 1,000: 4t/ξ_t is 0.04 rows."""
    return 1e5 * math.sqrt(size / 1000)


SIZES = st.integers(1, 10**9)


@given(start=SIZES, grown=SIZES, coefficient=st.floats(1e-3, 1e3), p=st.floats(0, 1), spread=st.floats(0.01, 1))
def test_the_noise_is_the_papers_at_every_size(
    start: int, grown: int, coefficient: float, p: float, spread: float
) -> None:
    def xi(size: int) -> float:
        return paper_noise(size, coefficient, p)

    noise = PaperNoise(xi, lambda size: spread / size)
    scales = noise.scales(start, numeric=True)
    assert scales.answer is not None
    # What the kernel derives: the theorem's loss, and an eighth of it for the answer.
    loss = spread * xi(start) / start
    assert run_cost(scales.threshold, scales.query) == pytest.approx(loss, rel=1e-12)
    assert 1 / scales.answer == pytest.approx(loss / 8, rel=1e-12)
    for size in (start, start + grown):
        reach, unit = noise.reach(size, start, scales) / FINE, size / xi(size)
        assert spread <= reach * (1 + 1e-12)
        for scale, times in ((scales.threshold, 2), (scales.query, 4), (scales.answer, 8)):
            assert times * unit * (1 - 1e-9) <= reach * scale <= times * unit * (1 + 1e-9) + scale / FINE


def test_a_run_costs_the_theorems_loss() -> None:
    db = database()
    atg, natg = (make(db, 0.5, 200.0, xi=root) for make in (tr.ATG, tr.NATG))
    atg.ask(LATE), natg.ask(LATE)
    assert atg.spent == pytest.approx(paper_atg_loss(1000, root(1000)), rel=1e-12)
    assert natg.spent == pytest.approx(paper_natg_loss(1000, root(1000), 1000, root(1000)), rel=1e-12)


def test_a_smaller_sensitivity_costs_less() -> None:
    alarm = tr.ATG(database(), 0.5, 200.0, xi=root, sensitivity=lambda size: 0.25 / size)
    assert alarm.ask(QUARTER) is True  # a share of 0.575
    assert alarm.spent == pytest.approx(0.25 * root(1000) / 1000, rel=1e-12)


def test_nsg_goes_on_while_the_promise_pays() -> None:
    """Runs at 1,000 rows cost 9/8·100 each; at 4,000 rows half of that."""
    db = database()
    sparse = tr.NSG(db, 0.25, 300.0, xi=root)
    assert sparse.ask_many([LATE, ~LATE]) == pytest.approx([0.3, 0.7], abs=0.01)
    assert sparse.spent == pytest.approx(225)
    with pytest.raises(tr.BudgetExceeded):
        sparse.ask(LATE)
    assert not sparse.halted
    assert sparse.spent == pytest.approx(225)
    db.append_cells([YES] * 900 + [NO] * 2100)
    assert sparse.ask(LATE) == pytest.approx(0.3, abs=0.01)
    assert sparse.spent == pytest.approx(225 + 9 / 8 * 50)
    assert [event.size for event in db.journal.events() if isinstance(event, RunStarted)] == [1000, 1000, 4000]
    assert tr.NSG(db, 0.25, 300.0, 3, xi=root).halted  # the same journal, and three were asked for


def test_one_run_lives_through_growth_and_answers_on_its_finer_grid() -> None:
    db = database()
    alarm = tr.NATG(db, 0.5, 200.0, xi=root)
    assert alarm.ask(LATE) is None
    db.append_cells([YES] * 3000)
    assert alarm.ask("late = 'no'", estimate=0.2) is None
    assert alarm.ask(LATE) == pytest.approx(0.825, abs=0.005)
    assert (alarm.halted, alarm.state.asked) == (True, 3)


@pytest.mark.parametrize(("queries", "beta"), [(10, 0.05), (1000, 1e-6)])
@pytest.mark.parametrize("hard", [None, 3])
def test_accuracy_is_within_the_papers_theorem(queries: int, beta: float, hard: int | None) -> None:
    """But for two rows of rounding, which the paper's real numbers do not need."""
    db = database(3000, 7000)

    def xi(size: int) -> float:
        return 5 * math.sqrt(size)

    sparse = tr.NSG(db, 0.5, 1000.0, hard, queries=queries, beta=beta, xi=xi)
    for more in (0, 30_000):
        db.append_cells([NO] * more)
        stated, size = sparse.guarantee.alpha, db.size
        needed = 8 / xi(size) * math.log((queries + 2 * (hard or queries) + 1) / beta)
        assert paper_nsg_beta(needed, [xi(size)], [queries], [hard or queries]) == pytest.approx(beta)
        assert 0.2 * needed < stated <= needed + 2 / size
        sparse.ask(LATE)  # a run begins at the first size, and lives on


def always(value: float) -> Callable[[int], float]:
    return lambda size: value if size else 0.0


@pytest.mark.parametrize(
    ("xi", "sensitivity", "error", "words"),
    [
        (always(0.0), None, tr.ParameterError, "xi"),
        (always(math.nan), None, tr.ParameterError, "xi"),
        (always(1.0), always(-1.0), tr.ParameterError, "sensitivity"),
        (always(1.0), lambda size: 0.5 / size, tr.QueryError, "more than the sensitivity given"),
    ],
)
def test_noise_that_cannot_be_is_refused_before_anything_is_charged(
    xi: Callable[[int], float], sensitivity: Any, error: type[Exception], words: str
) -> None:
    db = database()
    alarm = tr.ATG(db, 0.9, 1e6, xi=xi, sensitivity=sensitivity)
    with pytest.raises(error, match=words):
        alarm.ask(LATE)
    assert (alarm.spent, db.touched) == (0, 0)


@pytest.mark.parametrize(
    ("xi", "sensitivity", "words"),
    [
        (lambda size: 1e8 / size, None, "xi not to fall"),
        (lambda size: size**1.5, None, "not to rise"),
        (lambda size: 1e3 * size, always(1e-3), "not to rise"),
    ],
)
def test_functions_outside_the_theorems_are_refused_where_they_break_them(
    xi: Callable[[int], float], sensitivity: Any, words: str
) -> None:
    db = database()
    alarm = tr.ATG(db, 0.9, 1e6, xi=xi, sensitivity=sensitivity)
    assert alarm.ask(LATE) is False
    db.append_cells([NO] * 1000)
    touched = db.touched
    with pytest.raises(tr.GuaranteeError, match=words):
        alarm.ask(LATE)
    assert db.touched == touched


def test_parameters_that_do_not_belong_together() -> None:
    with pytest.raises(tr.ParameterError, match="sensitivity belongs to the paper's noise"):
        tr.ATG(database(), 0.5, 1.0, sensitivity=lambda size: 1 / size)
    with pytest.raises(tr.ParameterError, match="hard must say how many"):
        tr.NSG(database(), 0.5, 1.0)


def test_the_reach_covers_the_sensitivity_where_rounding_would_not() -> None:
    """ξ·Δ computed in floats may rise by an ulp; the kernel would refuse a reach below what a row moves."""
    noise = PaperNoise(lambda size: 0.1 * size)
    scales = noise.scales(3, numeric=False)
    for size in (3, 7, 10, 49, 1001):
        assert noise.reach(size, 3, scales) >= FINE * Fraction(1)


@pytest.mark.parametrize(("risen", "allowed"), [(0.0, True), (9e-13, True), (1e-12, True), (1.1e-12, False)])
def test_what_may_not_rise_may_rise_by_rounding_alone(risen: float, allowed: bool) -> None:
    noise = PaperNoise(lambda _: 2.0, lambda size: 0.5 if size == 10 else 0.5 * (1 + risen))
    scales = noise.scales(10, numeric=True)
    if allowed:
        assert noise.reach(20, 10, scales) >= FINE * 20 * Fraction(1, 2)
    else:
        with pytest.raises(tr.GuaranteeError, match="not to rise"):
            noise.reach(20, 10, scales)


def test_the_accuracy_is_that_of_an_estimate_on_either_side_and_a_row_of_rounding() -> None:
    """In units of the reach: noise has these scales there."""
    noise = PaperNoise(lambda size: 5 * math.sqrt(size))
    scales = noise.scales(1000, numeric=False)
    for reach in (FINE, 3 * FINE):
        given = scales.threshold, scales.query, scales.answer, 20, 0.01, 1
        both, one = (nsg_accuracy(*given, hard=4, weight=None, two_sided=sides) for sides in (True, False))
        assert one < both
        assert noise.alpha(scales, reach, 1000, 20, 4, 0.01) == pytest.approx((both * reach / FINE + 1) / 1000)
