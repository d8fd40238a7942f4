"""ATG, NATG and NSG, one comparison at a time: what the gate is asked, and what is made of its reply."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from treering.budget.cost import FREE
from treering.gate import FINE, Compared, Crossing, RunEnded, RunRequest, RunStarted
from treering.mechanisms.sparse import SparseState
from treering.noise import Laplace
from treering.theory.sparse import nsg_accuracy, scales_for
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 4)})
SIZE = 1000
WEIGHTED = tr.Query.weighted(SCHEMA, [0.25, 0.5, 0.75, 0.5], attributes=["month"])
LATE = tr.parse("late = 'yes'", SCHEMA)
QUERIES = [LATE, WEIGHTED, tr.parse("month = 2", SCHEMA)]


def database(size: int = SIZE) -> TestDatabase:
    return TestDatabase(SCHEMA, [row % SCHEMA.cells for row in range(size)])


class Comparing:
    """In place of the gate's comparisons: those at ``crossings``, counted through all calls, are above."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *crossings: int, value: int | None = None) -> None:
        self.crossings, self.value, self.asked = crossings, value, 0
        self.calls: list[tuple[list[tr.Query], list[int], list[int] | None, int | None]] = []
        monkeypatch.setattr(Kernel, "first_exceeding", lambda _, *given: self._compared(*given))

    def _compared(
        self,
        run: int,
        queries: Sequence[tr.Query],
        bars: Sequence[int],
        estimates: Sequence[int] | None,
        reach: int | None,
    ) -> Compared:
        self.calls.append((list(queries), list(bars), None if estimates is None else list(estimates), reach))
        places = [each - self.asked for each in self.crossings if self.asked <= each < self.asked + len(queries)]
        number = places[0] + 1 if places else len(queries)
        self.asked += number
        return Compared(SIZE, run, number, Crossing(number - 1, self.value) if places else None)


# -- comparisons -------------------------------------------------------------------------------------------------------


def test_thresholds_and_estimates_are_in_the_units_of_their_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    comparing = Comparing(monkeypatch)
    sparse = tr.NSG(database(), 0.3, 1.0, 2)
    scale = WEIGHTED.scale
    assert scale > 1
    assert sparse.ask_many(QUERIES) == [None] * 3
    assert sparse.ask_many(QUERIES, [0.5, 0.125, 0]) == [None] * 3
    assert sparse.ask(LATE, 0.7504) is None
    bars = [300, 300 * scale, 300]
    assert comparing.calls == [
        (QUERIES, bars, None, None),
        (QUERIES, bars, [500, 125 * scale, 0], None),
        ([LATE], [300], [750], None),
    ]
    assert sparse.state.asked == 7
    assert sparse.ask_many([]) == []


@pytest.mark.parametrize("value", [250, 1200, -30])
def test_every_query_has_its_own_reply(value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those after one that was above are compared in the next run, with their own bars and estimates."""
    comparing = Comparing(monkeypatch, 1, 2, value=value)
    sparse = tr.NSG(database(), 0.3, 1.0, 2)
    queries = [LATE, LATE, WEIGHTED, *QUERIES]
    share = min(1.0, max(0.0, value / SIZE))
    narrow = min(1.0, max(0.0, value / (SIZE * WEIGHTED.scale)))
    assert sparse.ask_many(queries, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == [None, share, narrow]
    guesses = [100, 200, 300 * WEIGHTED.scale, 400, 500 * WEIGHTED.scale, 600]
    assert [call[0] for call in comparing.calls] == [queries, queries[2:]]
    assert [call[2] for call in comparing.calls] == [guesses, guesses[2:]]
    assert sparse.state == SparseState(3, 2, None)
    with pytest.raises(tr.Halted, match=r"NSG has given its last answer \(2 above the threshold\)"):
        sparse.ask(LATE)


def test_an_alarm_says_whether_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    Comparing(monkeypatch, 2)
    alarm = tr.ATG(database(), 0.3, 1.0)
    assert alarm.ask_many([LATE] * 5) == [False, False, True]
    assert (alarm.halted, alarm.state) == (True, SparseState(3, 1, None))
    Comparing(monkeypatch, 0, value=None)
    assert tr.NATG(database(), 0.3, 1.0).ask(LATE) is None, "a run that an interrupt ended has no answer"


def test_the_papers_answers_are_on_the_finer_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    comparing = Comparing(monkeypatch, 0, value=250 * FINE)
    sparse = tr.NSG(database(), 0.3, 1000.0, 2, xi=lambda size: 100.0 * size**0.5)
    assert sparse.ask(LATE) == 0.25
    assert comparing.calls[0][3] == FINE


def test_sizes_without_rows_are_refused() -> None:
    for make in (tr.ATG, tr.NATG):
        alarm = make(TestDatabase(SCHEMA), 0.3, 1.0)
        with pytest.raises(tr.GuaranteeError, match="a share of its rows needs at least one"):
            alarm.ask(LATE)
        with pytest.raises(tr.GuaranteeError, match="an accuracy guarantee needs at least one row"):
            _ = alarm.guarantee


@pytest.mark.parametrize("share", [1.0000001, -0.001, 2, "0.5", float("nan")])
def test_a_share_is_between_nothing_and_all(share: Any) -> None:
    with pytest.raises(tr.ParameterError, match="threshold"):
        tr.ATG(database(), share, 1.0)


# -- noise and what it promises ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "hard", "numeric"), [(tr.ATG, 1, False), (tr.NATG, 1, True), (tr.NSG, 3, True)])
@pytest.mark.parametrize(("queries", "beta"), [(1000, 0.05), (7, 0.2)])
def test_the_noise_is_that_of_the_theory_and_so_is_the_promise(
    make: Any, hard: int, numeric: bool, queries: int, beta: float
) -> None:
    db = database()
    options = {"hard": hard} if make is tr.NSG else {}
    sparse = make(db, 0.9, 1.5, queries=queries, beta=beta, **options)
    sparse.ask(LATE)
    scales = scales_for(Fraction(3, 2) / hard, queries, beta, numeric=numeric, hard=hard)
    (started,) = [event for event in db.journal.events() if isinstance(event, RunStarted)]
    answer = None if scales.answer is None else Laplace(scales.answer)
    assert started.request == RunRequest(scales.threshold, scales.query, answer)
    noise = scales.threshold, scales.query, scales.answer
    alpha = nsg_accuracy(*noise, queries, beta, SIZE, hard=hard, weight=None, two_sided=True)
    guarantee = sparse.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.alpha) == (1.5, 0.0, alpha)
    assert (guarantee.beta, guarantee.size) == (beta, SIZE)
    assert f"for up to {queries:,} queries in all" in guarantee.statement
    assert ("a released share is within alpha" in guarantee.statement) == numeric


def test_the_papers_noise_promises_for_the_run_in_progress_and_the_next() -> None:
    """ξ as it is at either size: the wider of the two. Without a number of hard ones, all queries may be."""

    def xi(size: int) -> float:
        return 50.0 if size < 2000 else 80.0

    db = database()
    sparse = tr.NSG(db, 0.9, 1000.0, xi=xi, queries=9)
    paper = sparse._paper
    assert paper is not None
    for run in (False, True):
        if run:
            sparse.ask(LATE)
            db.append_cells([0] * SIZE)
        runs = [(db.size, paper.scales(db.size, numeric=True))]
        runs += [(SIZE, paper.scales(SIZE, numeric=True))] if run else []
        expected = [
            paper.alpha(scales, paper.reach(db.size, start, scales), db.size, 9, 9, 0.05) for start, scales in runs
        ]
        assert sparse.guarantee.alpha == max(expected)
        assert len(set(expected)) == len(runs)
    few = tr.NSG(database(), 0.9, 1000.0, 2, xi=xi, queries=9)
    assert few.guarantee.alpha < tr.NSG(database(), 0.9, 1000.0, xi=xi, queries=9).guarantee.alpha


# -- the fold ----------------------------------------------------------------------------------------------------------


def test_events_are_followed() -> None:
    started = RunStarted(SIZE, FREE, 5, RunRequest(1.0, 2.0))
    state = SparseState().after(started)
    assert state == SparseState(0, 0, started)
    state = state.after(Compared(SIZE, 5, 4, None))
    assert state == SparseState(4, 0, started)
    assert state.after(Compared(SIZE, 5, 3, Crossing(2, None))) == SparseState(7, 1, None)
    assert state.after(RunEnded(SIZE, 5, Fraction(0))) == SparseState(4, 1, None)


def test_it_halts_with_the_last_hard_one_and_resumes_from_the_record() -> None:
    db = database()
    sparse = tr.NSG(db, 0.0, 10_000.0, 2)
    for hard in (1, 2):
        assert not sparse.halted
        assert sparse.ask("TRUE") == pytest.approx(1.0, abs=0.01)
        assert sparse.state.hard == hard
        again = tr.NSG(db, 0.0, 10_000.0, 2)
        assert (again.state, again.halted) == (sparse.state, hard == 2)
    sparse._state = SparseState()
    sparse._resume()
    assert sparse.state == again.state
