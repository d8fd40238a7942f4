"""ATG, NATG and NSG: what they answer, how they halt, what the noise is."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.cost import FREE
from treering.gate import Compared, Noted, RunRequest, RunStarted
from treering.mechanisms.sparse import SparseState

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
NO, YES = (SCHEMA.cell({"late": word, "month": 1}) for word in ("no", "yes"))
SHARP = 10_000.0
"""With this epsilon the noise is below one row, and answers are certain for all practical purposes."""


def database(late: int = 300, punctual: int = 700) -> TestDatabase:
    return TestDatabase(SCHEMA, [YES] * late + [NO] * punctual)


def test_atg_says_yes_once() -> None:
    alarm = tr.ATG(database(), threshold=0.25, epsilon=SHARP)
    assert alarm.ask("month = 2") is False
    assert alarm.ask("late = 'yes'") is True
    with pytest.raises(tr.Halted):
        alarm.ask("month = 2")


def test_natg_gives_the_share_once() -> None:
    alarm = tr.NATG(database(), threshold=0.25, epsilon=SHARP)
    assert alarm.ask("month = 2") is None
    assert alarm.ask("late = 'yes'") == pytest.approx(0.3, abs=0.005)
    with pytest.raises(tr.Halted):
        alarm.ask("month = 2")


def test_nsg_restarts_until_its_hard_answers_are_given() -> None:
    sparse = tr.NSG(database(), threshold=0.25, epsilon=SHARP, hard=2)
    answers = sparse.ask_many(["month = 2", "late = 'yes'", "month = 3", "late = 'no'", "late = 'yes'"])
    assert [None if answer is None else round(answer, 1) for answer in answers] == [None, 0.3, None, 0.7]
    assert sparse.halted
    assert (sparse.state.asked, sparse.state.hard, sparse.state.run) == (4, 2, None)


@pytest.mark.parametrize(
    ("estimate", "above"), [(0.3, False), (0.22, False), (0.38, False), (0.19, True), (0.41, True)]
)
def test_with_an_estimate_it_is_two_sided(estimate: float, above: bool) -> None:
    assert tr.ATG(database(), threshold=0.1, epsilon=SHARP).ask("late = 'yes'", estimate=estimate) is above


@pytest.mark.parametrize("threshold", [0, 0.0, 1, 1.0])
def test_thresholds_and_estimates_may_be_nothing_and_everything(threshold: float) -> None:
    alarm = tr.ATG(database(), threshold=threshold, epsilon=SHARP)
    assert alarm.ask("late = 'yes'", estimate=1) is (threshold == 0)
    with pytest.raises(tr.ParameterError):
        tr.ATG(database(), threshold=threshold + 1.5, epsilon=SHARP)


def test_growth_during_a_run_moves_the_threshold() -> None:
    """300 of 1,000 rows are above 0.25; 300 of 1,600 are not; 700 of 2,000 are again. One run sees it all."""
    db = database()
    alarm = tr.ATG(db, threshold=0.25, epsilon=SHARP)
    db.append_cells([NO] * 600)
    assert alarm.ask("late = 'yes'") is False
    db.append_cells([YES] * 400)
    assert alarm.ask("late = 'yes'") is True
    starts = [event for event in db.journal.events() if isinstance(event, RunStarted)]
    assert [start.size for start in starts] == [1600]


def test_weighted_queries() -> None:
    mean_month = tr.Query.weighted(SCHEMA, [month / 12 for month in range(12)], attributes=["month"])
    cells = [SCHEMA.cell({"late": "no", "month": month}) for month in (1, 7, 12)] * 300
    truth = (0 + 6 + 11) / 12 / 3
    assert tr.ATG(TestDatabase(SCHEMA, cells), threshold=truth + 0.02, epsilon=SHARP).ask(mean_month) is False
    answer = tr.NATG(TestDatabase(SCHEMA, cells), threshold=truth - 0.02, epsilon=SHARP).ask(mean_month)
    assert answer == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("hard", [1, 7])
def test_every_run_costs_its_share_exactly(epsilon: float, hard: int) -> None:
    db = database()
    sparse = tr.NSG(db, threshold=0.0, epsilon=epsilon, hard=hard)
    while not sparse.halted:
        sparse.ask("TRUE")
    share = Fraction(str(epsilon)) / hard
    costs = [event.cost.epsilon for event in db.journal.events() if isinstance(event, RunStarted)]
    assert len(costs) == hard
    assert all(cost is not None and share * Fraction(999_999, 10**6) < cost <= share for cost in costs)
    request = next(event.request for event in db.journal.events() if isinstance(event, RunStarted))
    assert request.answer is not None


def test_answers_lie_between_zero_and_one() -> None:
    for seed in range(20):
        answer = tr.NATG(database(late=0), threshold=0.0, epsilon=0.01).ask(
            "TRUE" if seed % 2 else "late = 'yes'", estimate=1.0
        )
        assert answer is None or 0 <= answer <= 1


def test_a_batch_is_journalled_as_one() -> None:
    db = database()
    sparse = tr.NSG(db, threshold=0.9, epsilon=SHARP, hard=2)
    sparse.ask_many(["month = 2"] * 500)
    sparse.ask_many(["month = 3"] * 500)
    assert [type(event) for event in db.journal.events()] == [RunStarted, Compared]
    assert sparse.state.asked == 1000


@pytest.mark.parametrize("estimate", [-0.1, 1.1, float("nan"), "0.5"])
def test_bad_estimates(estimate: Any) -> None:
    db = database()
    alarm = tr.ATG(db, threshold=0.5, epsilon=1.0)
    with pytest.raises(tr.ParameterError, match="estimate"):
        alarm.ask("late = 'yes'", estimate=estimate)
    with pytest.raises(tr.ParameterError, match="estimates must be as many as the queries: 1, not 2"):
        alarm.ask_many(["late = 'yes'"], [0.5, 0.5])
    assert (alarm.spent, db.touched) == (0, 0)


def test_events_of_others_change_nothing() -> None:
    state = SparseState(7, 2, RunStarted(10, FREE, 5, RunRequest(1.0, 2.0)))
    assert state.after(Noted("of somebody else")) is state
