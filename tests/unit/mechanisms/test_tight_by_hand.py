"""The tight profile's small decisions, each against its definition: what a run serves, prices, steps, and blocks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.domain.workload import random_conjunctions
from treering.gate import Noted
from treering.mechanisms import tight as module
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.state import Doubted, Judged, Records, RunState
from treering.mechanisms.tight import Tight, _clip, deviation, measuring_noise
from treering.noise import Gaussian, Laplace
from treering.theory.pmwg.tight import MEASURED_SHARE, growth_potential, query_tail, scaled_for
from treering.theory.sparse import RunScales

SCHEMA = tr.Schema({"a": tr.integers(0, 3), "b": tr.integers(0, 3), "c": tr.categories("x", "y")})
SIZE = 100_000
RARE = 1e-9


def even(rows: int = SIZE) -> list[int]:
    return [cell % SCHEMA.cells for cell in range(rows)]


def skewed(rows: int = SIZE) -> list[int]:
    return [5 if row % 2 else row // 2 % SCHEMA.cells for row in range(rows)]


def made(cells: list[int], **options: Any) -> tuple[tr.PMWG, Tight, TestDatabase]:
    db = TestDatabase(SCHEMA, cells)
    pmwg = tr.PMWG(db, **{"epsilon": 1.0, "delta": 1e-6, "alpha": 0.1, "beta": 0.05, **options})
    assert isinstance(pmwg._engine, Tight)
    pmwg.ask("TRUE")
    return pmwg, pmwg._engine, db


def parsed(*texts: str) -> list[tr.Query]:
    return [tr.parse(text, SCHEMA) for text in texts]


# -- runs --------------------------------------------------------------------------------------------------------------


class Serving:
    """In place of a plan: it serves queries up to a number."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.asked: list[tuple[int, int]] = []

    def serves(self, scales: RunScales, size: int, number: int, query: int) -> bool:
        self.asked.append((size, number))
        return query <= self.last


@pytest.mark.parametrize("already", [0, 7])
def test_a_run_serves_as_many_as_it_can(already: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, engine, _ = made(even())
    run = RunState(0, 3, RunScales(1.0, 1.0, None))
    engine.state.asked = already
    for last in range(12):
        for wanted in range(1, 10):
            plan = Serving(already + last)
            monkeypatch.setattr(engine, "plan", plan)
            assert engine._served(run, wanted) == min(last, wanted)
            assert set(plan.asked) == {(SIZE, 3)}
            assert len(plan.asked) <= 1 + math.ceil(math.log2(wanted + 1))
            if last >= wanted:
                assert len(plan.asked) == 1


def test_blocks_grow_while_nothing_is_hard() -> None:
    pmwg, engine, db = made(even(20_000), epsilon=100.0, measure_first=False, alpha=0.3, beta=RARE)
    assert engine._block == 256
    for query, block in zip(parsed("a = 1", "a = 2", "b = 3"), (2048, 8192, 8192), strict=True):
        assert pmwg.ask(query).kind == "easy"
        assert engine._block == block
    db.append_cells([5] * 180_000)
    assert pmwg.ask("a = 0 AND b = 2").kind == "hard"
    assert engine._block == 1


def test_a_block_is_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of known and unknown queries mixed: each gets its own answer, in order."""
    monkeypatch.setattr(module, "_FIRST_BLOCK", 5)
    pmwg, engine, db = made(even(10 * SIZE), measure_first=False, alpha=0.3, beta=RARE)
    queries = parsed("a = 1", "TRUE", "a <= 1", "FALSE", "b = 2", "c = 'x'", "a = 1 AND b = 0")
    answers = pmwg.ask_many(queries)
    for query, answer in zip(queries, answers, strict=True):
        assert answer.value == pytest.approx(db.rows.cells.count(query) / db.size)
        assert answer.error == (0.0 if query.constant else 0.3)
    assert engine.state.asked == 5


# -- prices ------------------------------------------------------------------------------------------------------------


def test_the_price_of_a_measurement_is_that_of_its_noise() -> None:
    _, engine, _ = made(even())
    (query,) = parsed("a = 1")
    for asked, more in ((0, 0), (0, 1), (3, 5), (100, 28)):
        engine.state.asked = asked
        noise = measuring_noise("zcdp", 0.1, 0.05, SIZE, asked + more)
        assert engine._due(query, SIZE, more) == engine.gate.cost_of_measuring([query], noise).rho
    assert engine._due(query, SIZE) == engine._due(query, SIZE, 0)


def test_the_price_of_a_run_is_that_of_its_scales() -> None:
    _, engine, _ = made(even())
    plan, engine.state.runs = engine._plan, 4
    for more in (0, 3):
        request, cost = engine._run(plan, SIZE, 9.0, more)
        scales = plan.scales(SIZE, 5 + more, 9.0)
        assert (request.threshold_scale, request.query_scale) == (scales.threshold, scales.query)
        assert scales.answer is not None
        assert request.answer == Gaussian(scales.answer)
        assert cost == engine.gate.cost_of_run(request).rho
    assert engine._log_queries() == math.log(scaled_for(engine.state.asked))


def test_the_price_of_many_is_their_number_times_the_dearest() -> None:
    """While no run can be worthwhile; what is known, asked twice or constant counts for nothing."""
    pmwg, engine, _ = made(even(), alpha=0.2)
    queries = parsed("a = 1", "a = 2", "b = 1", "c = 'x'")
    due = engine._due(queries[0], SIZE, 4)
    assert engine.price_many([*queries, queries[0], *parsed("TRUE")]) == 4 * due
    pmwg.ask(queries[0])
    assert engine.price_many(queries) == 3 * engine._due(queries[1], SIZE, 3)
    assert engine.price_many(queries[:2]) == engine.price(queries[1]) == engine._due(queries[1], SIZE)
    assert engine.price_many(queries[:1]) == engine.price_many(parsed("TRUE")) == engine.price_many([]) == 0


def test_the_price_of_many_is_that_of_runs_if_a_run_may_begin() -> None:
    pmwg, engine, _ = made(even(), alpha=0.2)
    queries, plan, state = parsed("a = 1", "a = 2", "b = 1"), engine._plan, engine.state
    number = engine._log_queries() if plan.renewals else None
    cheapest, due = plan.cost_of_run(SIZE, 1, number), float(engine._due(queries[0], SIZE, 3))
    first = math.ceil(0.99 * cheapest / due) - 3
    prices = {}
    for state.streak in (first - 1, first + 1):
        prices[state.streak] = engine.price_many(queries)
    assert prices[first - 1] == 3 * engine._due(queries[0], SIZE, 3)
    later = None if number is None else number + math.log1p(3 / (state.asked + 500))
    assert prices[first + 1] == 3 * engine._run(plan, SIZE, later, 3)[1]
    state.streak, state.patience = first + 1, 2
    assert engine.price_many(queries) == prices[first - 1]
    state.streak = 0
    state.measured = 0.99 * engine._measuring_share - 2.9 * due
    assert engine.price_many(queries) > prices[first - 1]
    state.measured = 0.99 * engine._measuring_share - 3.1 * due
    assert engine.price_many(queries) == prices[first - 1]
    assert pmwg.spent == 0


def test_guarding_alone_many_cost_a_run_each() -> None:
    _, engine, _ = made(even(10 * SIZE), measure_first=False, alpha=0.3)
    queries, plan = parsed("a = 1", "a = 2"), engine._plan
    number = engine._log_queries() if plan.renewals else None
    later = None if number is None else number + math.log1p(2 / 500)
    assert engine.price_many(queries) == 2 * engine._run(plan, 10 * SIZE, later, 2)[1]


def test_measuring_has_half_of_the_budget_and_not_a_bit_more() -> None:
    _, engine, _ = made(even(), alpha=0.2)
    (query,), state = parsed("a = 1"), engine.state
    assert engine._measuring_share == float(engine.gate.budget.total) / 2
    due = float(engine._due(query, SIZE))
    for state.measured, measured in (
        (engine._measuring_share - due, True),
        (math.nextafter(engine._measuring_share, 1) - due + 1e-12, False),
    ):
        assert (engine._choice(engine._plan, query, SIZE)[0] is None) == measured


def test_a_run_is_begun_from_the_first_streak_that_pays_for_it() -> None:
    """To a measurement: where the estimate of its cost does not decide, the exact one does."""
    _, engine, _ = made(even(), alpha=0.2)
    (query,), plan, state = parsed("a = 1"), engine._plan, engine.state
    due = engine._due(query, SIZE)
    request, cost = engine._run(plan, SIZE, engine._log_queries() if plan.renewals else None)
    needed = math.ceil(state.patience * cost / due)
    assert needed > 200
    for state.streak, expected in ((needed - 1, (None, due)), (needed + 1, (request, cost))):
        assert engine._choice(plan, query, SIZE) == expected


def test_a_run_that_the_budget_does_not_pay_for_is_not_begun() -> None:
    _, engine, _ = made(even(20_000), alpha=0.05)
    (query,), plan = parsed("a = 1"), engine._plan
    _, cost = engine._run(plan, 20_000, engine._log_queries() if plan.renewals else None)
    assert cost > engine.gate.budget.total
    engine.state.streak = 10**12
    assert engine._choice(plan, query, 20_000) == (None, engine._due(query, 20_000))


def test_what_is_payable() -> None:
    """From what is left, and from the half that is for measurements; or else by a run."""
    _, engine, _ = made(even(), alpha=0.2)
    (query,), plan, state = parsed("a = 1"), engine._plan, engine.state
    due = float(engine._due(query, SIZE))
    left = float(engine.gate.budget.total - engine.gate.spent)
    assert engine._payable(plan, query, SIZE)
    run = plan.cost_of_run(SIZE, 1, engine._log_queries() if plan.renewals else None)
    assert due < run
    state.measured = engine._measuring_share - due / 2
    assert engine._payable(plan, query, SIZE) == (run < left)
    state.measured = 0.0
    engine._measure_first = False
    assert engine._payable(plan, query, SIZE) == (run < left)


# -- steps -------------------------------------------------------------------------------------------------------------


def test_a_step_moves_the_histogram_to_its_target_and_the_potential_by_its_bound() -> None:
    _, engine, _ = made(skewed())
    (query,) = parsed("a = 0 AND b = 2")
    present = engine.hypothesis.answer(query)
    for target, low, high in ((0.5, 0.45, 0.55), (0.01, 0.005, 0.02)):
        found = engine._step(query, target, low, high, present)
        assert found is not None
        step, change = found
        assert isinstance(step, Step)
        worse = high if step.rate > 0 else low
        assert (step.rate > 0) == (target < present) or (step.rate < 0) == (target > present)
        assert change == pytest.approx(step.rate * worse + step.log_normaliser)
        assert step == engine.hypothesis.plan(query, target)


def test_no_step_is_taken_to_where_the_histogram_is_or_where_it_cannot_be() -> None:
    _, engine, _ = made(skewed())
    (query,) = parsed("a = 0 AND b = 2")
    present = engine.hypothesis.answer(query)
    assert engine._step(query, present, present - 0.1, present + 0.1, present) is None
    assert engine._step(query, -0.5, -0.6, -0.4, present) is None
    assert engine._step(query, 1.5, 1.4, 1.6, present) is None


def test_a_step_that_would_lift_the_potential_too_far_goes_to_the_nearest_end() -> None:
    _, engine, _ = made(skewed(), alpha=0.2)
    (query,), state = parsed("a = 0 AND b = 2"), engine.state
    present = engine.hypothesis.answer(query)
    bold = engine._step(query, 0.25, 0.2, 0.6, present)
    assert bold is not None
    assert bold[0] == engine.hypothesis.plan(query, 0.25)
    state.potential = engine._plan.ceiling(SIZE, 0)
    timid = engine._step(query, 0.58, 0.2, 0.6, present)
    assert timid is not None
    assert timid[0] == engine.hypothesis.plan(query, 0.2)
    assert timid[1] < 0
    state.potential = -timid[1] / 2
    assert engine._step(query, 0.2, 0.2, 0.6, present) is None
    state.potential = -timid[1]
    assert engine._step(query, 0.2, 0.2, 0.6, present) is not None


# -- growth and records ------------------------------------------------------------------------------------------------


def test_growth_between_questions() -> None:
    _, engine, _ = made(even())
    potential = engine.potential
    assert potential == engine.state.potential == pytest.approx(math.log(SCHEMA.cells))
    assert engine._grown_potential(SIZE) == pytest.approx(potential)
    expected = growth_potential(potential, 0.2, SCHEMA.cells, 0.025)
    assert engine._grown_potential(SIZE * 5 // 4) == pytest.approx(expected)


def test_what_is_certified() -> None:
    _, engine, _ = made(even())
    engine.state.hard = 2
    assert engine._certified(engine._plan, 2 * SIZE) == engine._plan.ceiling(2 * SIZE, 2)
    engine._measure_first = False
    assert engine._certified(engine._plan, 2 * SIZE) == engine._grown_potential(2 * SIZE)
    engine.state.size = 0
    assert engine._certified(engine._plan, SIZE) == engine.state.potential


def test_the_backlog_is_what_came_after_the_last_summary() -> None:
    pmwg, engine, db = made(skewed(), alpha=0.05, beta=RARE)
    assert engine.backlog == 0
    pmwg.ask_many(random_conjunctions(SCHEMA, 60, np.random.default_rng(3)))
    steps = engine.hypothesis.steps
    assert engine.backlog == steps * SCHEMA.cells > 0
    engine.condense()
    assert engine.backlog == 0
    again = tr.PMWG(db, 1.0, 1e-6, alpha=0.05, beta=RARE)
    assert isinstance(again._engine, Tight)
    assert (again._engine.backlog, again._engine.hypothesis.steps) == (0, steps)
    assert (again._engine.state, again._engine._plan.start) == (engine.state, SIZE)
    assert again._engine.state is not engine.state
    pmwg.ask_many(random_conjunctions(SCHEMA, 60, np.random.default_rng(4)))
    assert engine.backlog == (engine.hypothesis.steps - steps) * SCHEMA.cells > 0


def test_patience_doubles_with_each_halt_up_to_a_limit() -> None:
    _, engine, _ = made(skewed(10 * SIZE), measure_first=False, alpha=0.2, beta=RARE)
    for patience in (2, 4, 8, 16, 32, 64, 64):
        query = tr.parse("a = 0 AND b = 2", SCHEMA)
        engine.ask_many([query], [])
        engine.records = Records(0.2)
        engine.hypothesis = type(engine.hypothesis)(SCHEMA)
        engine.state.potential = math.log(SCHEMA.cells)
        assert (engine.state.patience, engine.state.streak, engine.state.run) == (patience, 0, None)


def test_a_bad_measurement_ends_a_streak() -> None:
    _, engine, _ = made(even())
    for good, streak in ((True, 7), (False, 0)):
        engine.state.streak = 7
        engine._follow(Noted(Judged(good=good)))
        assert engine.state.streak == streak
    engine._follow(Noted(Doubted()))
    assert engine.state.doubts == 1


# -- noise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "number"), [(0, 1), (1, 2), (2, 4), (3, 4), (4, 8), (1000, 1024)])
def test_the_noise_of_measurements(asked: int, number: int) -> None:
    rows, tail = MEASURED_SHARE * 0.1 * 5000, query_tail(0.05, math.log(number)) + math.log(2)
    pure, rho = (measuring_noise(kind, 0.1, 0.05, 5000, asked) for kind in ("pure", "zcdp"))
    assert isinstance(pure, Laplace)
    assert isinstance(rho, Gaussian)
    assert pure.scale == pytest.approx((rows - 0.5) / tail, rel=1e-12)
    assert rho.scale == pytest.approx(rows / math.sqrt(2 * (tail + math.log(2))), rel=1e-12)


def test_a_size_too_small_has_the_smallest_noise() -> None:
    tail = query_tail(0.05, 0.0) + math.log(2)
    pure, rho = (measuring_noise(kind, 1e-9, 0.05, 1, 0) for kind in ("pure", "zcdp"))
    assert pure.scale == pytest.approx(1e-6 / tail)
    assert rho.scale == pytest.approx(1e-6 / math.sqrt(2 * (tail + math.log(2))))


def test_deviations_and_clips() -> None:
    assert deviation(Laplace(3.0)) == pytest.approx(3 * math.sqrt(2))
    assert deviation(Gaussian(3.0)) == 3.0
    assert [_clip(share) for share in (-0.5, 0.0, 0.25, 1.0, 1.5)] == [0.0, 0.0, 0.25, 1.0, 1.0]


def test_prices_are_fractions_of_the_budget() -> None:
    pmwg, engine, _ = made(even())
    assert pmwg._prospect(parsed("a = 1")) == 0.1
    assert isinstance(engine.price_many(parsed("a = 1", "a = 2")), Fraction)
    assert pmwg.price("a = 1") == engine._due(parsed("a = 1")[0], SIZE)


@pytest.mark.parametrize("options", [{}, {"delta": 0.0}])
def test_a_refusal_names_the_first_doubling_that_can_start(options: dict[str, Any]) -> None:
    pmwg = tr.PMWG(
        TestDatabase(SCHEMA, [0, 1, 2]), **{"epsilon": 1.0, "delta": 1e-6, "alpha": 0.1, "beta": 0.05, **options}
    )
    needed = next(3 << power for power in range(1, 40) if pmwg._can_start(3 << power))
    assert needed > 6
    with pytest.raises(tr.GuaranteeError, match=f"3 rows cannot pay for one answer, {needed:,} can"):
        pmwg.ask("a = 1")


def test_of_an_empty_table_nothing_is_known() -> None:
    pmwg = tr.PMWG(TestDatabase(SCHEMA), 1.0, 1e-6, alpha=0.1, beta=0.05)
    assert pmwg._prospect(parsed("a = 1")) == math.inf
    with pytest.raises(tr.GuaranteeError, match="row"):
        pmwg.price("a = 1")
