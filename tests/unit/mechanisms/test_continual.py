"""ContinualHistogram: exact where the noise is nothing, honest about its errors, small, and hard to misuse."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.drawing import draw_by
from treering.budget.promise import Promise
from treering.domain.groups import MOST_GROUPS
from treering.errors import VaultError
from treering.gate import Advanced, Event, SegmentBegun, SegmentCondensed, SegmentEnded
from treering.mechanisms.continual import MAX_CELLS, ContinualHistogram
from treering.noise import Noise
from treering.theory import continual
from treering.trusted.journal import MemoryJournal

SCHEMA = tr.Schema({"a": tr.integers(0, 2), "one": tr.integers(5, 5), "b": tr.integers(0, 3)})
TABLE = tr.Query.weighted(SCHEMA, np.linspace(0, 1, 12), resolution=100)
QUERIES = [
    tr.parse("a = 1", SCHEMA),
    tr.parse("a <= 1 AND b IN (0, 3)", SCHEMA),
    tr.parse("a = 0 OR b = 2", SCHEMA),
    TABLE,
]
SHARP: dict[str, Any] = {"epsilon": 1e12, "beta": 1e-9}
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["trees", "square roots"])
ROWS = st.lists(st.integers(0, SCHEMA.cells - 1), max_size=5)


def share(query: tr.Query, cells: Sequence[int]) -> float:
    weights = np.zeros(SCHEMA.shape)
    weights += query.weights().reshape([n if i in query.attributes else 1 for i, n in enumerate(SCHEMA.shape)])
    return float(weights.reshape(-1)[list(cells)].mean() / query.scale)


def noiseless(_noise: Noise, _factor: int, count: int) -> npt.NDArray[np.int64]:
    return np.zeros(count, dtype=np.int64)


# -- answers -----------------------------------------------------------------------------------------------------------


@settings(max_examples=16, deadline=None)
@given(st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=30), st.sampled_from([0.0, 1e-6]))
def test_without_noise_answers_are_the_truth_after_any_batches(
    batches: list[tuple[list[int], bool]], delta: float
) -> None:
    """About all rows, and since every boundary; whether asked in between or not."""
    db = TestDatabase(SCHEMA, [3])
    histogram = ContinualHistogram(db, delta=delta, **SHARP)
    cells = [3]
    for rows, ask in batches:
        db.append_cells(rows)
        cells += rows
        if not ask:
            continue
        for since in (None, *histogram.boundaries):
            if since == db.size:
                continue
            for query, answer in zip(QUERIES, histogram.ask_many(QUERIES, since=since), strict=True):
                assert answer.value == pytest.approx(share(query, cells[since or 0 :]), abs=1e-9)
                assert answer.size == len(cells) - (since or 0)
                assert answer.kind == "measured"
                assert 0 < answer.error < 0.1


def test_it_starts_with_all_rows_there_are_and_then_every_append_is_a_batch() -> None:
    db = TestDatabase(SCHEMA, [0] * 100)
    histogram = ContinualHistogram(db, **SHARP)
    db.append_cells([1] * 50)
    assert (histogram.batches, histogram.boundaries, histogram.spent) == (0, (0,), 0.0)
    histogram.ask("a = 0")
    assert (histogram.batches, histogram.boundaries) == (1, (0,))
    for batches in range(2, 6):
        db.append_cells([1] * 10)
        db.append_cells([])
        assert histogram.batches == batches
    assert histogram.boundaries == (0, 150, 160, 170, 180)


def test_rows_that_nobody_told_of_are_taken_in_by_the_next_question() -> None:
    db = TestDatabase(SCHEMA, [0] * 100)
    histogram = ContinualHistogram(db, **SHARP)
    histogram.ask("a = 0")
    db.rows.add_cells(np.full(100, 11))
    assert histogram.guarantee.size == 200
    assert histogram.batches == 1
    assert histogram.ask("a = 0").value == pytest.approx(0.5)
    assert histogram.batches == 2


def test_answers_agree_with_each_other() -> None:
    """A query and its complement sum to 1, and what is constant is exact: whatever the noise."""
    db = TestDatabase(SCHEMA, [0] * 4000 + [5] * 6000 + [9] * 5000)
    histogram = ContinualHistogram(db, 0.5)
    for _ in range(6):
        db.append_cells([3] * 1000)
        query, rest = histogram.ask_many(["b IN (0, 1)", "NOT (b IN (0, 1))"])
        assert 0 < query.value < 1
        assert query.value + rest.value == pytest.approx(1, abs=1e-12)
        assert query.error == pytest.approx(rest.error)
        for constant, value in (("TRUE", 1.0), ("a <= 2", 1.0), ("a = 1 AND a = 2", 0.0)):
            answer = histogram.ask(constant)
            assert (answer.value, answer.error) == (value, 0.0)


def test_errors_follow_the_support_and_none_is_above_alpha() -> None:
    db = TestDatabase(SCHEMA, [0] * 5000)
    histogram = ContinualHistogram(db, 1.0, 1e-9)
    sizes = ["a = 0 AND b = 0", "b = 0", "a = 0", "b <= 1"]  # 1, 3, 4 and 6 of 12 cells
    for _ in range(4):
        errors = [answer.error for answer in histogram.ask_many(sizes)]
        assert errors == sorted(errors)
        assert errors[0] < 0.6 * errors[-1]
        assert errors[-1] <= histogram.guarantee.alpha
        db.append_cells([1])


def test_the_guarantee_is_the_theorem_and_improves_as_one_over_the_size() -> None:
    db = TestDatabase(SCHEMA, [0] * 5000)
    histogram = ContinualHistogram(db, 1.0, 1e-9, beta=0.01)
    before = histogram.guarantee
    histogram.ask("a = 0")
    at_start = histogram.guarantee
    assert at_start == before
    assert (at_start.epsilon, at_start.delta, at_start.beta, at_start.size) == (1.0, 1e-9, 0.01, 5000)
    budget = Promise(1.0, 1e-9).budget
    assert at_start.alpha == pytest.approx(continual.alpha(budget, 12, 5000, 0.01, 1), rel=1e-5)
    db.append_cells([0] * 1_000_000)
    assert histogram.guarantee.alpha == pytest.approx(continual.alpha(budget, 12, 1_005_000, 0.01, 2), rel=1e-5)
    assert histogram.guarantee.alpha < at_start.alpha / 80
    assert "2 batches" in histogram.guarantee.statement


def test_all_is_charged_at_once_and_next_to_nothing_is_left() -> None:
    for delta in (0.0, 1e-6):
        db = TestDatabase(SCHEMA, [0] * 5000)
        histogram = ContinualHistogram(db, 0.7, delta)
        total = float(Promise(0.7, delta).budget.total)
        assert (histogram.spent, histogram.remaining) == (0.0, total)
        histogram.ask("a = 0")
        spent = histogram.spent
        assert total * (1 - 1e-12) < spent <= total
        assert histogram.remaining < 1e-12
        for _ in range(20):
            db.append_cells([1])
            histogram.ask("a = 0")
        assert histogram.spent == spent
        assert not histogram.halted


def test_answers_are_free_and_touch_nothing_private() -> None:
    db = TestDatabase(SCHEMA, [0] * 100)
    histogram = ContinualHistogram(db, **SHARP)
    histogram.ask("a = 0")
    db.append_cells([1, 2])
    events, touched = db.journal.events(), db.touched
    for since in (None, 0, 100):
        histogram.ask_many(QUERIES, since=since)
    assert (db.journal.events(), db.touched) == (events, touched)
    db.append_cells([1])
    assert db.touched > touched


# -- since -------------------------------------------------------------------------------------------------------------


def test_since_speaks_of_the_rows_after_a_size() -> None:
    db = TestDatabase(SCHEMA, [0] * 300)
    histogram = ContinualHistogram(db, **SHARP)
    histogram.ask("TRUE")
    for cell in (4, 4, 9, 0):
        db.append_cells([cell] * 100)
    answer = histogram.ask("a = 1", since=400)
    assert answer.value == pytest.approx(1 / 3)
    assert (answer.size, answer.count) == (300, 100)
    assert histogram.ask("a = 1", since=0) == histogram.ask("a = 1")


def test_a_size_that_is_no_boundary_is_refused_with_the_two_nearest() -> None:
    db = TestDatabase(SCHEMA, [0] * 1000)
    histogram = ContinualHistogram(db, **SHARP)
    histogram.ask("TRUE")
    for _ in range(40):
        db.append_cells([1] * 10)
    below, above = histogram.boundaries[1:3]
    assert above - below > 10  # long ago, not every batch is told apart
    with pytest.raises(tr.ParameterError, match=f"{below:,} or {above:,}") as caught:
        histogram.ask("a = 0", since=below + 5)
    assert caught.value.parameter == "since"
    with pytest.raises(tr.ParameterError, match="since must be a size at which a batch ended.*: 1,390$"):
        histogram.ask("a = 0", since=1400)
    with pytest.raises(tr.ParameterError, match="1,390"):
        histogram.ask("a = 0", since=10**9)


@pytest.mark.parametrize("since", [-1, 1.0, "0", True, float("nan")])
def test_what_is_no_size_is_refused(since: Any) -> None:
    db = TestDatabase(SCHEMA, [0] * 100)
    histogram = ContinualHistogram(db, **SHARP)
    for _ in range(2):
        spent, events = histogram.spent, db.journal.events()
        with pytest.raises(tr.ParameterError, match="since must be an integer of at least 0"):
            histogram.ask("a = 0", since=since)
        assert (histogram.spent, db.journal.events()) == (spent, events)
        histogram.ask("a = 0")


def test_there_is_nothing_to_ask_since_before_the_start() -> None:
    db = TestDatabase(SCHEMA, [0] * 100)
    histogram = ContinualHistogram(db, **SHARP)
    with pytest.raises(tr.ParameterError, match="since must be 0 before the first answer"):
        histogram.ask("a = 0", since=100)
    assert histogram.spent == 0
    assert histogram.ask("a = 0", since=0).size == 100


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_start_that_promises_nothing_is_refused_with_the_size_that_would_do() -> None:
    db = TestDatabase(SCHEMA, [0] * 100)
    histogram = ContinualHistogram(db, 0.01)
    with pytest.raises(tr.GuaranteeError, match="at least ([0-9,]+) rows") as caught:
        histogram.ask("a = 0")
    assert (histogram.spent, db.touched) == (0, 0)
    words = str(caught.value).split()
    needed = int(words[words.index("least") + 1].replace(",", ""))
    db.append_cells([0] * (needed - 101))
    with pytest.raises(tr.GuaranteeError, match="at least"):
        histogram.ask("a = 0")
    db.append_cells([0])
    assert histogram.ask("a = 0 AND b = 0").error < 1


def test_a_universe_too_large_is_refused_with_advice() -> None:
    wide = tr.Schema({"a": tr.integers(0, 4), "b": tr.integers(1, MAX_CELLS // 4)})
    with pytest.raises(tr.ParameterError, match="5,242,880 cells.*Rings") as caught:
        ContinualHistogram(TestDatabase(wide, [0]), 1.0)
    assert caught.value.parameter == "db"
    assert MAX_CELLS == MOST_GROUPS


def test_an_epsilon_too_small_for_any_database_is_refused() -> None:
    with pytest.raises(tr.ParameterError, match="epsilon is too small"):
        ContinualHistogram(TestDatabase(SCHEMA, [0]), 1e-300)


# -- what goes wrong on the way ----------------------------------------------------------------------------------------


class Failing(MemoryJournal):
    """A journal whose disk is full at times, for one kind of event."""

    __slots__ = ("full", "kind")

    def __init__(self, kind: type[Event]) -> None:
        super().__init__()
        self.full, self.kind = False, kind

    def write(self, event: Event) -> None:
        if self.full and isinstance(event, self.kind):
            raise VaultError("the disk is full")
        super().write(event)


@KINDS
@pytest.mark.parametrize("kind", [Advanced, SegmentBegun, SegmentCondensed, SegmentEnded])
@pytest.mark.parametrize("batches", [0, 1, 2, 3, 6, 16])
def test_a_batch_that_was_interrupted_is_finished_later(kind: type[Event], batches: int, delta: float) -> None:
    """Wherever it was: appending goes on; a question that finds trouble says so, and no answer is about other rows than
    it says; afterwards all is as if nothing had been."""
    db = TestDatabase(SCHEMA, [0] * 100, Failing(kind))
    histogram = ContinualHistogram(db, delta=delta, **SHARP)
    cells = [0] * 100
    for batch in range(batches):
        histogram.ask("a = 0")
        db.append_cells([batch % 12] * 10)
        cells += [batch % 12] * 10
    assert isinstance(db.journal, Failing)
    db.journal.full = True
    for cell in (11, 0, 7):
        db.append_cells([cell] * 50)
        cells += [cell] * 50
        with suppress(VaultError):
            answer = histogram.ask("a = 1")
            assert answer.size == db.size
            assert answer.value == pytest.approx(share(QUERIES[0], cells), abs=1e-9)
        assert ContinualHistogram(db, delta=delta, **SHARP).state == histogram.state
    db.journal.full = False
    for _ in range(3):
        for since in (None, *(each for each in histogram.boundaries if each < db.size)):
            answer = histogram.ask("a = 1", since=since)
            assert answer.value == pytest.approx(share(QUERIES[0], cells[since or 0 :]), abs=1e-9)
        db.append_cells([4] * 10)
        cells += [4] * 10
    assert ContinualHistogram(db, delta=delta, **SHARP).state == histogram.state


# -- memory ------------------------------------------------------------------------------------------------------------


def test_memory_is_cells_times_the_logarithm_of_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mechanism, kernel and journal together, over 2,000 batches of a tree. Noise takes no memory, and is left out to
    save time.

    Kept for each cell: 4 estimates a level, as many again in the last condensation, and as many nodes since; 11 levels.
    All nodes ever released would be 4,000. (What is kept of each batch, its rows among it, is little here.)
    """
    draw_by(monkeypatch, noiseless)
    wide = tr.Schema({"a": tr.integers(1, 64), "b": tr.integers(1, 128)})
    tracemalloc.start()
    try:
        db = TestDatabase(wide, [0] * 100)
        histogram = ContinualHistogram(db, 1.0)
        histogram.ask("a = 1")
        peaks = {}
        for batch in range(2, 2001):
            db.append_cells([batch % wide.cells])
            if batch in (250, 500, 1000, 2000):
                tracemalloc.reset_peak()
            peaks[batch] = tracemalloc.get_traced_memory()[1]
        vector = 8 * wide.cells
        assert peaks[2000] < 16 * vector * 11
        assert peaks[2000] < 2 * peaks[250]
        assert len(db.journal.events()) < 3 * 4 * 11
        assert histogram.ask("a <= 32").value > 0
    finally:
        tracemalloc.stop()


@KINDS
def test_what_condensing_left_gives_the_same_bits_as_the_whole_history(delta: float) -> None:
    """As live, and as a fold over all that was ever written."""
    written: list[Event] = []

    class Copying(MemoryJournal):
        __slots__ = ()

        def write(self, event: Event) -> None:
            super().write(event)
            written.append(event)

    db = TestDatabase(SCHEMA, [0] * 1000, Copying())
    histogram = ContinualHistogram(db, 1.0, delta)
    histogram.ask("a = 0")
    for batch in range(200):
        db.append_cells([batch % SCHEMA.cells])
    assert sum(isinstance(event, Advanced) for event in written) == 201
    assert len(db.journal.events()) < (205 if delta else 60)
    assert ContinualHistogram(db, 1.0, delta).state == histogram.state
    whole = TestDatabase(SCHEMA, [0] * 1200)
    assert isinstance(whole.journal, MemoryJournal)
    whole.journal._events = written
    again = ContinualHistogram(whole, 1.0, delta)
    assert again.state == histogram.state
    assert again.boundaries == histogram.boundaries
