"""Lives of real mechanisms through the ledger's text: every event bit for bit, and replay gives the live state."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.events import through_text
from support.mechanism_contract import SCHEMA, rows
from support.opendp_noise import noisy_counts
from treering.boxes.answers import AnswersBox
from treering.boxes.base import Box
from treering.boxes.histogram import HistogramBox
from treering.boxes.mwem import MWEM
from treering.boxes.replay import RecordedGate
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.loss import Distance, Logistic, Squared
from treering.domain.problem import CellFeatures
from treering.domain.query import Query
from treering.domain.workload import marginals, prefixes, random_conjunctions
from treering.gate import (
    Advanced,
    Combined,
    Compared,
    Condensed,
    Event,
    ForeignReleased,
    HistogramReleased,
    Marked,
    Measured,
    Minimised,
    Noted,
    ReservationEnded,
    Reserved,
    RowsDrawn,
    RunEnded,
    RunRequest,
    RunStarted,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
    Selected,
    Span,
)
from treering.mechanisms.paper import Updated
from treering.mechanisms.state import Corrected, Grown, Judged, Learned
from treering.noise import Laplace
from treering.schedulers.epochs import EpochBegan, EpochFailed, EpochOpened

Kinds = set[type[Any]]
WEIGHTED = Query.weighted(SCHEMA, np.linspace(0, 1, SCHEMA.cells))


def kinds(events: Any) -> Kinds:
    """The types of events, and of what was noted."""
    return {type(event) for event in events} | {type(each.note) for each in events if isinstance(each, Noted)}


def questions(count: int, seed: int = 0) -> list[Query]:
    generator = np.random.default_rng(seed)
    conjunctions = random_conjunctions(SCHEMA, count, generator)
    return [*conjunctions, *(~query for query in conjunctions[:5]), WEIGHTED]


def database(size: int) -> TestDatabase:
    return TestDatabase(SCHEMA, rows(size))


def lived(db: TestDatabase, mechanism: Any, asked: int = 40, growth: int = 200) -> None:
    """Questions and growth in turn."""
    for query in questions(asked):
        if mechanism.halted:
            break
        mechanism.ask(query)
        db.append_cells(rows(growth))


# -- PMWG --------------------------------------------------------------------------------------------------------------


def tight(db: Any) -> tr.PMWG:
    return tr.PMWG(db, epsilon=1.0, delta=1e-6, alpha=0.1, beta=0.05)


def guarded(db: Any) -> tr.PMWG:
    return tr.PMWG(db, epsilon=1.0, delta=1e-6, alpha=0.3, beta=0.05, measure_first=False)


def pure(db: Any) -> tr.PMWG:
    return tr.PMWG(db, epsilon=1.0, alpha=0.2, beta=0.05)


def paper(db: Any) -> tr.PMWG:
    return tr.PMWG(db, epsilon=1.0, alpha=0.9, beta=0.05, profile="paper")


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (tight, {Measured, Noted, Grown, Judged, Learned}),
        (guarded, {RunStarted, Compared, Noted, Grown}),
        (pure, {Measured, Noted, Grown, Judged, Learned}),
        (paper, {RunStarted, Compared, Noted, Grown}),
    ],
)
def test_pmwg_replays_from_text(make: Callable[[Any], tr.PMWG], seen: Kinds) -> None:
    db = database(40_000)
    live = make(db)
    lived(db, live)
    assert kinds(through_text(db)) >= seen
    again = make(db)
    assert (again.state, again.spent) == (live.state, live.spent)
    assert again._engine.hypothesis.fingerprint() == live._engine.hypothesis.fingerprint()
    query = questions(1, seed=9)[0]
    if not again.halted:
        again.ask(query)
        assert make(db).state == again.state != live.state


def test_hard_answers_of_pmwg_replay_from_text() -> None:
    """A guard over a database that is all in one corner finds the uniform histogram wrong at once."""
    db = TestDatabase(SCHEMA, [17] * 10**6)
    live = guarded(db)
    live.ask_many(marginals(SCHEMA, 1))
    assert kinds(through_text(db)) >= {RunStarted, Compared, Corrected}
    again = guarded(db)
    assert live.hard_queries == again.hard_queries > 0
    assert again._engine.hypothesis.fingerprint() == live._engine.hypothesis.fingerprint()


def test_hard_answers_of_the_paper_replay_from_text() -> None:
    """Its noise is large: it takes a large epsilon to see a hard query, and soon more than its theorem allows."""

    def make(db: Any) -> tr.PMWG:
        return tr.PMWG(db, epsilon=10_000.0, alpha=0.05, beta=0.05, profile="paper")

    db = TestDatabase(SCHEMA, [17] * 10**5)
    live = make(db)
    live.ask_many(marginals(SCHEMA, 2))
    assert kinds(through_text(db)) >= {RunStarted, Compared, Updated}
    again = make(db)
    assert live.hard_queries == again.hard_queries > 0
    assert again._engine.hypothesis.fingerprint() == live._engine.hypothesis.fingerprint()


@pytest.mark.parametrize("make", [tight, guarded])
def test_a_condensed_pmwg_replays_from_text(make: Callable[[Any], tr.PMWG]) -> None:
    db = database(40_000)
    live = make(db)
    lived(db, live)
    live.condense()
    (event,) = through_text(db)
    assert type(event) is Condensed
    again = make(db)
    assert (again.state, again.spent) == (live.state, live.spent)
    assert again._engine.hypothesis.fingerprint() == live._engine.hypothesis.fingerprint()


# -- sparse vector, continual counting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda db: tr.ATG(db, threshold=0.4, epsilon=1.0),
        lambda db: tr.NATG(db, threshold=0.4, epsilon=1.0),
        lambda db: tr.NSG(db, threshold=0.4, epsilon=1.0, hard=3),
    ],
)
def test_sparse_vector_replays_from_text(make: Callable[[Any], Any]) -> None:
    db = database(5_000)
    live = make(db)
    for query in questions(40):
        if live.halted:
            break
        live.ask(query)
        through_text(db)
        again = make(db)
        assert (again.state, again.spent, again.halted) == (live.state, live.spent, live.halted)
    assert kinds(db.journal.events()) == {RunStarted, Compared}
    assert live.state.hard > 0


@pytest.mark.parametrize(
    ("delta", "kinds_seen"),
    [
        (0.0, {SegmentBegun, Advanced, SegmentCondensed, SegmentEnded}),
        (1e-6, {SegmentBegun, Advanced, SegmentEnded}),
    ],
    ids=["trees", "square roots"],
)
def test_the_continual_histogram_replays_from_text(delta: float, kinds_seen: Kinds) -> None:
    def make(db: Any) -> tr.ContinualHistogram:
        return tr.ContinualHistogram(db, epsilon=1.0, delta=delta)

    db = database(1_000)
    live = make(db)
    live.ask("late = 'yes'")
    seen: Kinds = set()
    for seed in range(40):
        db.append_cells(rows(5, seed))
        seen |= kinds(through_text(db))
        # Gone before the next append, or it would cut leaves of its own.
        assert make(db).state == live.state
        assert make(db).ask_many(questions(5)) == live.ask_many(questions(5))
    assert seen == kinds_seen


def test_groups_and_marks_replay_from_text() -> None:
    budget = Budget("pure", Fraction(1))
    db = database(1_000)
    gate = db.open_gate(budget)
    gate.mark()
    db.append_cells(rows(500))
    groups = Groups.of([tr.parse("late = 'yes' AND month = 3", SCHEMA), tr.parse("late = 'no'", SCHEMA)])
    gate.combine(groups, [Span(0, 1_000, 2), Span(1_000, 1_500, -1)], Laplace(10.0))
    assert kinds(through_text(db)) == {Marked, Combined}
    again = db.open_gate(budget)
    assert again.spent == gate.spent
    assert [again.left(row) for row in (1, 1_001, 1_501)] == [gate.left(row) for row in (1, 1_001, 1_501)]
    assert gate.left(1) < gate.left(1_001) < gate.left(1_501) == 1
    again.combine(groups, [Span(1_000, 1_500, 1)], Laplace(10.0))


# -- boxes and schedulers ----------------------------------------------------------------------------------------------

CLASS = [*marginals(SCHEMA, 1), *random_conjunctions(SCHEMA, 10, np.random.default_rng(3)), WEIGHTED]
BOXES: list[tuple[Callable[[], Box], type[Event]]] = [
    (HistogramBox, HistogramReleased),
    (lambda: AnswersBox(CLASS), Measured),
    (lambda: MWEM(CLASS, 3), Selected),
    (lambda: SmallDB(prefixes(SCHEMA, "month")), RowsDrawn),
]


@pytest.mark.parametrize("scheduler", [tr.BBScheduler, tr.BBImprover])
@pytest.mark.parametrize(("box", "event"), BOXES)
def test_schedulers_replay_from_text(scheduler: Any, box: Callable[[], Box], event: type[Event]) -> None:
    def make() -> Any:
        return scheduler(db, box(), epsilon=4.0, delta=1e-6)

    db = database(40_000)
    live = make()
    asked = prefixes(SCHEMA, "month")[:3] if event is RowsDrawn else CLASS
    live.ask_many(asked)
    for _ in range(2):
        db.append_cells(rows(live.next_epoch - db.size))
    through_text(db)
    assert kinds(db.journal.events()) >= {event, Reserved, ReservationEnded, EpochBegan, EpochOpened}
    again = make()
    assert (again.state, again.spent, len(again.epochs)) == (live.state, live.spent, 3)
    assert again.ask_many(asked) == live.ask_many(asked)


class _Failing(HistogramBox):
    """Begins a run, and then fails."""

    def run(self, gate: Any, *_: Any) -> Any:
        gate.begin_run(RunRequest(100.0, 200.0, Laplace(50.0)))
        raise RuntimeError("no ≤ yes \ud800 \n \u2028")


def test_a_failed_epoch_replays_from_text() -> None:
    db = database(40_000)
    live = tr.BBScheduler(db, _Failing(), epsilon=4.0)
    with pytest.raises(tr.GuaranteeError):
        live.ask("late = 'yes'")
    assert kinds(through_text(db)) >= {RunStarted, RunEnded, EpochFailed}
    again = tr.BBScheduler(db, _Failing(), epsilon=4.0)
    assert again.state == live.state
    assert "no ≤ yes \ud800 \n \u2028" in str(again.epochs[0].error)


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (Logistic(), {}),
        (Squared(), {"delta": 0.0, "regularisation": 0.1}),
        (Distance(), {"method": "net"}),
        (Distance(), {"method": "descent"}),
    ],
)
def test_ermg_replays_from_text(loss: Any, options: dict[str, Any]) -> None:
    target = None if loss.labels == "none" else tr.parse("late = 'yes'", SCHEMA)
    features = CellFeatures(SCHEMA, ["origin"], [[1.0, 0.0], [0.0, 1.0], [-0.6, 0.6]], target)

    def make() -> tr.ERMG:
        return tr.ERMG(db, loss, **{"epsilon": 1.0, "delta": 1e-9, "features": features, **options})

    db = database(20_000)
    live = make()
    live.update()
    assert live.next_epoch is not None
    db.append_cells(rows(live.next_epoch - db.size))
    assert kinds(through_text(db)) >= {Minimised, Reserved, EpochBegan, EpochOpened}
    again = make()
    assert (again.state, again.spent, again.model.theta) == (live.state, live.spent, live.model.theta)
    assert len(again.epochs) == 2


def test_a_foreign_release_replays_from_text() -> None:
    budget = Budget("pure", Fraction(1))
    db = database(1_000)
    gate = db.open_gate(budget)
    released = gate.foreign(noisy_counts(budget, SCHEMA.cells))
    (again,) = through_text(db)
    assert type(again) is ForeignReleased
    recorded = RecordedGate(SCHEMA, db.size, budget, [again])
    assert recorded.foreign(None).values == released.values
    assert db.open_gate(budget).spent == gate.spent > 0
