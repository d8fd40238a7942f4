"""BBScheduler: the same accuracy for ever, in both profiles."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.scheduler_boxes import CellsBox, OneQueryBox, Spoilt, ZcdpBox
from treering.boxes.base import Box, Rate
from treering.boxes.histogram import HistogramBox
from treering.gate import Reserved
from treering.schedulers.scheduler import BBScheduler
from treering.theory import schedule

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
QUERIES = [tr.parse(text, SCHEMA) for text in ("a = 1", "a = 0 AND b <= 1", "b = 2")]
NEVER = 1e-9
OPTIONS: dict[str, dict[str, Any]] = {
    "tight, pure": {"epsilon": 1.0},
    "tight, zCDP": {"epsilon": 1.0, "delta": 1e-6},
    "paper, pure": {"epsilon": 1.0, "profile": "paper"},
    "paper, zCDP": {"epsilon": 1.0, "delta": 0.01, "profile": "paper"},
}
START = 100_000


def cells(size: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, SCHEMA.cells, size)


def database(size: int, seed: int = 0) -> TestDatabase:
    return TestDatabase(SCHEMA, cells(size, seed))


def truth(db: TestDatabase) -> list[float]:
    return [db.rows.cells.count(query) / db.size for query in QUERIES]


def plan(options: dict[str, Any], box: Box, start: int, beta: float) -> schedule.FixedSchedule:
    epsilon, delta = options["epsilon"], options.get("delta", 0.0)
    if "profile" in options:
        rate = box.rate
        assert rate is not None
        return schedule.fixed(start, epsilon, delta, beta, rate.p, rate.g, profile="paper")
    return schedule.fixed_for(box.alpha, start, tr.Promise(epsilon, delta).budget, beta, centred=True)


@pytest.mark.parametrize("name", OPTIONS)
def test_epochs_are_those_of_the_schedule_and_errors_hold_within_alpha(name: str) -> None:
    """Over a growth by three, in steps that hit and miss the epochs' sizes."""
    options, box = OPTIONS[name], CellsBox()
    db = database(START)
    scheduler = BBScheduler(db, box, beta=NEVER, **options)
    planned = plan(options, box, START, NEVER)
    assert scheduler.guarantee.alpha == planned.alpha < 1
    grown = 0
    while db.size < 3 * START:
        answers = scheduler.ask_many(QUERIES)
        for answer, true in zip(answers, truth(db), strict=True):
            assert abs(answer.value - true) <= answer.error
            assert answer.error <= scheduler.alpha_at(db.size) + 1e-12 <= scheduler.guarantee.alpha + 2e-12
        assert scheduler.guarantee.alpha == planned.alpha
        assert scheduler.next_epoch == planned.next_size(db.size)
        due = scheduler.next_epoch - db.size
        db.append_cells(cells(due if grown % 2 else max(1, due - 1), grown))
        grown += 1
    for epoch in scheduler.epochs:
        expected = planned.epoch(epoch.index)
        assert (epoch.size, epoch.epsilon, epoch.rho) == (expected.size, expected.epsilon, expected.rho)
        assert (epoch.beta, epoch.alpha, epoch.error) == (expected.beta, expected.alpha, None)
    assert [epoch.index for epoch in scheduler.epochs] == list(range(len(scheduler.epochs)))
    assert len(scheduler.epochs) >= 4


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_charged_is_the_epochs_budgets_and_no_more(name: str) -> None:
    options = OPTIONS[name]
    db = database(START)
    scheduler = BBScheduler(db, CellsBox(), beta=NEVER, **options)
    budget = tr.Promise(options["epsilon"], options.get("delta", 0.0)).budget
    scheduler.ask(QUERIES[0])
    for _ in range(60):
        assert scheduler.next_epoch is not None
        db.append_cells([0] * (scheduler.next_epoch - db.size))
        if db.size > 5 * START:
            break
    parts = [event.part for event in db.journal.events() if isinstance(event, Reserved)]
    assert len(parts) == len(scheduler.epochs) > 4
    if name == "paper, zCDP":  # pure epochs in a zCDP ledger
        assert {part.kind for part in parts} == {"pure"}
        assert scheduler.spent == pytest.approx(float(sum(part.total**2 / 2 for part in parts)))
    else:
        assert {part.kind for part in parts} == {budget.kind}
        assert scheduler._gate.spent == sum(part.total for part in parts)
    assert 0 < scheduler.spent < budget.total
    assert scheduler.remaining == pytest.approx(float(budget.total) - scheduler.spent)


def test_the_papers_numbers() -> None:
    """γ, ε_i and β_i as in the proof."""
    db, box, start, beta = database(40_000), CellsBox(), 40_000, 0.01
    scheduler = BBScheduler(db, box, 5.0, beta=beta, profile="paper")
    scheduler.ask(QUERIES[0])
    db.append_cells(cells(40_000))
    rate = box.rate
    assert rate is not None
    spread = math.log((1 + beta) / beta) / (5.0 * start)
    growth = rate.g ** (1 / 3) * spread ** (1 / 3)
    assert 0 < growth < 1
    for epoch in scheduler.epochs:
        index = epoch.index
        assert epoch.epsilon == pytest.approx(5.0 * growth**2 * (index + 1) / (1 + growth) ** (index + 2))
        assert epoch.beta == pytest.approx((beta / (1 + beta)) ** (index + 1))
        assert epoch.alpha == pytest.approx(rate.g * spread * ((1 + growth) / growth) ** 2)
    assert scheduler.guarantee.alpha == pytest.approx(scheduler.epochs[0].alpha + growth / (1 + growth))


def test_the_tight_profile_promises_more_than_the_papers() -> None:
    for delta in (0.0, 0.01):
        alphas = [
            BBScheduler(database(START), HistogramBox(), 1.0, delta, NEVER, profile).guarantee.alpha
            for profile in ("tight", "paper")
        ]
        assert alphas[0] < 0.5 * alphas[1]


def test_a_jump_over_several_epochs() -> None:
    db = database(START)
    scheduler = BBScheduler(db, HistogramBox(), 1.0, beta=NEVER)
    scheduler.ask(QUERIES[0])
    first = scheduler.spent
    db.append_cells(cells(5 * START))
    assert len(scheduler.epochs) == 2
    last = scheduler.epochs[1]
    assert (last.size, last.error) == (6 * START, None)
    assert last.index > 5
    assert last.epsilon is not None
    assert scheduler.spent == pytest.approx(first + last.epsilon)
    planned = plan({"epsilon": 1.0}, HistogramBox().bind(SCHEMA), START, NEVER)
    assert last.alpha <= planned.epoch(last.index).alpha
    assert all(answer.error <= scheduler.guarantee.alpha for answer in scheduler.ask_many(QUERIES))


def test_epochs_that_fall_on_one_size_are_one() -> None:
    """With so much budget that γ·n is far below 1, each row opens an epoch; the budgets in between are not spent."""
    db = database(100)
    scheduler = BBScheduler(db, CellsBox(), 1e7, beta=NEVER)
    scheduler.ask(QUERIES[0])
    for _ in range(5):
        db.append_cells([0])
    indices = [epoch.index for epoch in scheduler.epochs]
    assert [epoch.size for epoch in scheduler.epochs] == list(range(100, 106))
    assert all(after - before > 1 for before, after in pairwise(indices))
    assert scheduler.spent == pytest.approx(sum(epoch.epsilon or 0 for epoch in scheduler.epochs))
    assert scheduler.next_epoch == 106


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "size", "problem"),
    [
        ({"epsilon": 1.0}, 100, "error below 1"),
        ({"epsilon": 1.0, "delta": 1e-6}, 100, "error below 1"),
        ({"epsilon": 1.0, "profile": "paper"}, 100, "gamma in .0, 1."),
        ({"epsilon": 1.0, "delta": 1e-6, "profile": "paper"}, 1_000, "gamma in .0, 1."),
        # γ is in (0, 1), but α + γ/(1+γ) is not.
        ({"epsilon": 1.0, "profile": "paper"}, 700, "it could be [12]"),
    ],
)
def test_too_few_rows_are_refused_for_free_with_a_number_that_would_do(
    options: dict[str, Any], size: int, problem: str
) -> None:
    db = database(size)
    scheduler = BBScheduler(db, CellsBox(), **options)
    with pytest.raises(tr.GuaranteeError, match=problem) as refusal:
        scheduler.ask(QUERIES[0])
    with pytest.raises(tr.GuaranteeError, match=problem):
        _ = scheduler.guarantee
    assert (scheduler.spent, db.touched, len(db.journal.events())) == (0, 0, 0)
    advised = re.findall(r"about ([\d,]+) rows", str(refusal.value))
    needed = int(advised[0].replace(",", ""))
    assert needed > size
    db.append_cells(cells(needed - size))
    assert scheduler.guarantee.alpha < 1
    assert scheduler.ask(QUERIES[0]).size == needed
    # And it is not far more than needed.
    fewer = BBScheduler(database(needed // 3), CellsBox(), **options)
    with pytest.raises(tr.GuaranteeError):
        fewer.ask(QUERIES[0])


class OddRate(CellsBox):
    @property
    def rate(self) -> Rate | None:
        return Rate(1.0, 10.0, 2.0, 1.0)


class NoRate(CellsBox):
    @property
    def rate(self) -> Rate | None:
        return None


@pytest.mark.parametrize(
    ("box", "options", "match"),
    [
        (ZcdpBox(), {"epsilon": 1.0}, "ZcdpBox is private under zCDP only.*delta > 0"),
        (ZcdpBox(), {"epsilon": 1.0, "delta": 1e-6, "profile": "paper"}, "zCDP only"),
        (NoRate(), {"epsilon": 1.0, "profile": "paper"}, r"NoRate is no \(p, g\)-black box"),
        (OddRate(), {"epsilon": 1.0, "profile": "paper"}, r"OddRate is no \(p, g\)-black box"),
        (CellsBox(), {"epsilon": 2.0, "delta": 1e-6, "profile": "paper"}, "epsilon must be at most 1"),
        (CellsBox(), {"epsilon": 0.5, "delta": 0.5, "profile": "paper"}, "delta must be below 1/e"),
    ],
)
def test_what_no_schedule_can_be_made_for_is_refused_at_once(box: Any, options: dict[str, Any], match: str) -> None:
    db = database(100)
    with pytest.raises(tr.GuaranteeError, match=match):
        BBScheduler(db, box, **options)
    assert len(db.journal.events()) == 0


@pytest.mark.parametrize("profile", ["loose", "", None])
def test_a_profile_that_is_none_is_refused_by_name(profile: Any) -> None:
    with pytest.raises(tr.ParameterError, match="profile"):
        BBScheduler(database(100), CellsBox(), 1.0, profile=profile)


def test_any_box_will_do_in_the_tight_profile() -> None:
    for box, delta in ((ZcdpBox(), 1e-6), (NoRate(), 0.0), (OddRate(), 0.0)):
        assert BBScheduler(database(START), box, 1.0, delta).ask(QUERIES[0]).size == START


def test_a_box_is_bound_to_the_schema_at_once() -> None:
    with pytest.raises(tr.QueryError):
        BBScheduler(database(100), HistogramBox(["colour = 'red'"]), 1.0)


# -- failures ----------------------------------------------------------------------------------------------------------


def test_the_guarantee_allows_for_an_epoch_that_failed() -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("no luck")

    db = database(START)
    scheduler = BBScheduler(db, Spoilt({1: fail}), 1.0, beta=NEVER)
    scheduler.ask(QUERIES[0])
    before = scheduler.guarantee
    assert "epoch 0" not in before.statement
    assert scheduler.next_epoch is not None
    db.append_cells(cells(scheduler.next_epoch - START))
    after = scheduler.guarantee
    assert "epoch 0, of 100,000 rows, has to answer until the next one opens" in after.statement
    longest = START / (scheduler.next_epoch - 1)
    assert after.alpha == pytest.approx(longest * scheduler.epochs[0].alpha + (1 - longest) / 2)
    assert after.alpha > before.alpha
    db.append_cells(cells(scheduler.next_epoch - 1 - db.size))
    assert scheduler.ask(QUERIES[0]).error == pytest.approx(after.alpha)
    db.append_cells(cells(1))
    assert scheduler.guarantee.alpha == before.alpha
    assert "epoch 0" not in scheduler.guarantee.statement


def test_a_later_box_that_is_worse_than_the_first_says_so() -> None:
    """The schedule is for the first box; a wider one in epoch 1 has the error that it proves."""
    db = database(START)
    wide, narrow = CellsBox(), OneQueryBox(QUERIES[0])
    scheduler = BBScheduler(db, lambda index: narrow if index == 0 else wide, 1.0, beta=NEVER)
    scheduler.ask(QUERIES[0])
    before = scheduler.guarantee.alpha
    assert scheduler.next_epoch is not None
    db.append_cells(cells(scheduler.next_epoch - START))
    answer, true = scheduler.ask(QUERIES[1]), truth(db)[1]
    assert abs(answer.value - true) <= answer.error
    assert answer.error > 2 * before
    assert scheduler.guarantee.alpha >= answer.error


class Boastful(OneQueryBox):
    """Its rate promises more than its own bound proves."""

    @property
    def rate(self) -> Rate | None:
        return Rate(1.0, 0.5, 1.0)


def test_a_rate_that_does_not_reach_so_far_promises_no_more_than_the_box() -> None:
    """What is promised, now and later, is never below what the release will state."""
    db = database(START)
    scheduler = BBScheduler(db, Boastful(QUERIES[0]), 1.0, beta=NEVER, profile="paper")
    planned = schedule.fixed(START, 1.0, 0.0, NEVER, 1.0, 0.5, profile="paper")
    hoped, later = scheduler.guarantee.alpha, scheduler.alpha_at(2 * START)
    first = planned.epoch(0)
    more = Boastful(QUERIES[0]).alpha(START, first.budget, first.beta) - first.alpha
    assert hoped == pytest.approx(planned.alpha + more)
    assert hoped > 1.1 * planned.alpha
    for size in (START, START + 1, 2 * START):
        epoch = planned.epoch(planned.index_at(size))
        own = Boastful(QUERIES[0]).alpha(epoch.size, epoch.budget, epoch.beta)
        assert own > epoch.alpha
        assert scheduler.alpha_at(size) == pytest.approx(planned.alpha_at(size) + own - epoch.alpha)
    assert scheduler.ask(QUERIES[0]).error == scheduler.epochs[0].alpha == scheduler.alpha_at(START) <= hoped
    assert scheduler.epochs[0].alpha > planned.epoch(0).alpha
    db.append_cells(cells(START))
    assert scheduler.ask(QUERIES[0]).error <= min(later, scheduler.guarantee.alpha)


# -- any growth --------------------------------------------------------------------------------------------------------


@given(
    name=st.sampled_from(sorted(OPTIONS)),
    batches=st.lists(st.integers(1, 6_000), min_size=1, max_size=6),
    start=st.integers(8_000, 12_000),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=25, deadline=None)
def test_whatever_the_growth(name: str, batches: list[int], start: int, seed: int) -> None:
    """Each example fails by chance with probability 1e-9 at most, its beta."""
    options = {**OPTIONS[name], "epsilon": 1.0}
    db = database(start, seed)
    scheduler = BBScheduler(db, OneQueryBox(QUERIES[0]), beta=NEVER, **options)
    scheduler.ask(QUERIES[0])
    alpha = scheduler.guarantee.alpha
    total = tr.Promise(options["epsilon"], options.get("delta", 0.0)).budget
    for batch in batches:
        db.append_cells(cells(batch, seed + db.size))
        answer, epoch = scheduler.ask(QUERIES[0]), scheduler.epochs[-1]
        fresh = epoch.size / db.size
        release = scheduler.release.ask(QUERIES[0])
        if "profile" in options:
            assert answer.error == pytest.approx(release.error + (1 - fresh))
        else:
            assert answer.error == pytest.approx(fresh * release.error + (1 - fresh) / 2)
            assert answer.value == pytest.approx(fresh * release.value + (1 - fresh) / 2)
        assert abs(answer.value - truth(db)[0]) <= answer.error + 1e-12 <= alpha + 2e-12
        charges = [total.amount(event.cost) for event in db.journal.events() if isinstance(event, Reserved)]
        assert sum(charges, Fraction(0)) == scheduler._gate.spent <= total.total
        assert len(charges) == len(scheduler.epochs)
