"""Weighted counts of groups over intervals of rows are those of the rows, wherever the rows come from.

``test_charges`` has lives of every kind, with the same check of every value; here are the stores, and what goes wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ibis
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from support.drawing import draw_by
from support.row_lives import GROUPS, PLENTY, SCHEMA, SHARP, Life, account, agrees, combined
from treering.arrays import Ints
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.errors import ParameterError
from treering.gate import Marked, Ones, Root, SegmentBegun, Span
from treering.noise import Laplace
from treering.trusted.cells import DENSE_CELLS
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.memory.database import GrowingDatabase
from treering.trusted.operations import segment as segment_module
from treering.trusted.operations.segment import Tallies
from treering.trusted.rows.intake import DroppedRows

NOISE = SHARP["pure"]
ALL, BY_B, ONE, *_ = GROUPS


def released(gate: Kernel, groups: Groups, spans: Sequence[Span]) -> list[int]:
    return [int(value) for value in gate.combine(groups, spans, NOISE).values]


def cuts(edges: Sequence[int]) -> list[Span]:
    """A span between each two neighbouring edges, with weights of both signs."""
    weights = [(-1) ** number * (number + 1) for number in range(len(edges) - 1)]
    return [Span(*each) for each in zip(edges, edges[1:], weights, strict=False)]


# -- where rows come from ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, SCHEMA.cells - 1), min_size=1, max_size=5), min_size=1, max_size=12),
    st.sampled_from(GROUPS),
    st.randoms(use_true_random=False),
)
def test_appended_rows(batches: list[list[int]], groups: Groups, generator: Any) -> None:
    db = GrowingDatabase(SCHEMA)
    gate = db.open_gate(PLENTY["pure"])
    edges = [0]
    for batch in batches:
        db.append_cells(batch)
        if generator.random() < 0.7:
            gate.mark()
            edges.append(db.size)
    spans = cuts(sorted({*edges, db.size}))
    generator.shuffle(spans)
    rows = [cell for batch in batches for cell in batch]
    for chosen in (spans, spans[:1], spans[1:] or spans):
        assert released(gate, groups, chosen) == combined(groups, SCHEMA, rows, chosen)


WIDE = tr.Schema({name: tr.integers(1, 1000) for name in "abc"})


def test_rows_in_a_universe_that_is_not_kept_as_an_array() -> None:
    assert WIDE.cells > DENSE_CELLS
    generator = np.random.default_rng(3)
    db = GrowingDatabase(WIDE)
    gate = db.open_gate(PLENTY["pure"])
    low = Query.where(WIDE, a=range(1, 400))
    groups = Groups.of([low & Query.where(WIDE, b=range(1, 500)), ~low])
    rows: list[int] = []
    edges = [0]
    for number in (50, 7, 200):
        batch = generator.integers(0, WIDE.cells, number)
        db.append_cells(batch)
        rows += batch.tolist()
        gate.mark()
        edges.append(db.size)
    assert released(gate, groups, cuts(edges)) == combined(groups, WIDE, rows, cuts(edges))
    marginal = Groups.marginal(WIDE, ["c"])
    assert released(gate, marginal, cuts(edges)) == combined(marginal, WIDE, rows, cuts(edges))


def test_many_appends_between_two_marks() -> None:
    life = Life("pure", [0, 1])
    life.gate.mark()
    for _ in range(9):
        life.append([3, 3, 4, 5])
    life.gate.mark()
    life.append([0])
    for groups in GROUPS:
        life.combine(groups, [Span(2, 38, 5), Span(38, 39, -1)])


@pytest.fixture
def connection() -> Any:
    made = ibis.duckdb.connect()
    made.raw_sql("CREATE TABLE rows (id BIGINT, a BIGINT, b BIGINT)")
    yield made
    made.disconnect()


def insert(connection: Any, first: int, rows: Sequence[tuple[int, int]]) -> None:
    values = ", ".join(f"({first + number}, {a}, {b})" for number, (a, b) in enumerate(rows))
    connection.raw_sql(f"INSERT INTO rows VALUES {values}")


def test_rows_that_stay_in_their_engine(connection: Any) -> None:
    """A refresh takes in counts by cell; a leaf is what it took in. Rows that do not fit have no position."""
    first = [(0, 0), (1, 2), (1, 2), (0, 1)]
    insert(connection, 1, first)
    db = GrowingDatabase.from_table(connection.table("rows"), SCHEMA)
    gate = db.open_gate(PLENTY["pure"])
    segment = gate.begin_segment(ALL, NOISE, 10).segment
    assert gate.advance(segment, [Ones(1)]).values[0].tolist() == [1, 1, 0, 0, 0, 2]
    insert(connection, 5, [(1, 0), (7, 7), (1, 0)])
    with pytest.warns(DroppedRows):
        db.refresh(on_invalid="drop")
    assert db.size == 6
    ones, both = gate.advance(segment, [Ones(1), Ones(2)]).values
    assert ones.tolist() == [0, 0, 0, 2, 0, 0]
    assert both.tolist() == [1, 1, 0, 2, 0, 2]
    insert(connection, 8, [(0, 2)])
    db.refresh()
    rows = [0, 5, 5, 1, 3, 3, 2]
    spans = cuts([0, 4, 6, 7])
    for groups in GROUPS:
        assert released(gate, groups, spans) == combined(groups, SCHEMA, rows, spans)


# -- rows told apart ---------------------------------------------------------------------------------------------------


def test_marks_are_for_good_and_leaves_for_as_long_as_their_segment() -> None:
    db = TestDatabase(SCHEMA, [0, 1])
    gate = db.open_gate(PLENTY["pure"])
    assert gate.mark() == Marked(2)
    gate.mark()
    db.append_cells([2])
    segment = gate.begin_segment(ALL, NOISE, 5, start=2).segment
    gate.advance(segment, [])
    db.append_cells([3])
    assert released(gate, ALL, [Span(2, 3, 1)]) == [0, 0, 1, 0, 0, 0]
    gate.end_segment(segment)
    with pytest.raises(
        ParameterError, match=r"told apart; the nearest are 4, 2, 0|told apart; the nearest are 2, 4, 0"
    ):
        gate.combine(ALL, [Span(2, 3, 1)], NOISE)
    assert released(gate, ALL, [Span(2, 4, 1)]) == [0, 0, 1, 1, 0, 0]
    assert gate._desk.charges.sizes == {2}
    db.append_cells([4])
    with pytest.raises(ParameterError, match="told apart"):  # The size of the last release was not marked.
        gate.combine(ALL, [Span(4, 5, 1)], NOISE)


def test_what_one_gate_tells_apart_another_does_not() -> None:
    db = TestDatabase(SCHEMA, [0, 1])
    one = db.open_gate(PLENTY["pure"])
    two = Kernel(db.rows, PLENTY["pure"], MemoryJournal())
    one.mark()
    db.append_cells([2, 3])
    with pytest.raises(ParameterError, match="told apart"):
        two.combine(ALL, [Span(0, 2, 1)], NOISE)
    two.mark()
    db.append_cells([4])
    assert released(one, ALL, [Span(2, 5, 1)]) == [0, 0, 1, 1, 1, 0]
    assert released(two, ALL, [Span(4, 5, 1), Span(0, 4, 2)]) == [2, 2, 2, 2, 1, 0]
    assert account(one)[0] == 0
    assert account(two)[0] > 0


def test_a_segment_may_begin_at_any_size_that_is_told_apart() -> None:
    life = Life("zcdp", [0, 1, 2])
    now = life.begin_segment(ALL, 4, 3)  # with the rows to come
    life.append([3])
    then = life.begin_segment(ONE, 4, 3)
    life.advance(now, [Ones(1)])
    life.append([4])
    life.advance(now, [Ones(2)])
    life.advance(then, [Ones(1), Ones(1)])
    inner = life.begin_segment(BY_B, 2, 4)  # where a leaf of another segment ended
    life.end_segment(now)
    life.advance(inner, [Ones(1)])
    assert life.agrees()
    life.restart()


def test_one_leaf_has_at_least_one_new_row() -> None:
    life = Life("pure", [0])
    segment = life.begin_segment(ALL, 2, 0)
    life.advance(segment, [Ones(1)])
    with pytest.raises(ParameterError, match="no new rows since its last leaf, which ends at 1"):
        life.gate.advance(segment, [Ones(1)])


def test_records_of_what_was_released() -> None:
    life = Life("zcdp", [0, 5])
    segment = life.begin_segment(ONE, 4096**2, 0)
    life.advance(segment, [Root(1)])
    begun, advanced = life.gate.history
    assert isinstance(begun, SegmentBegun)
    assert (begun.size, begun.segment, begun.start, begun.room) == (2, 0, 0, 4096**2)
    assert advanced is life.journal.record[-1]
    life.append([1])
    event = life.gate.condense_segment(segment, "so far")
    assert (event.size, event.edges.tolist(), event.drawn.tolist(), event.note) == (3, [0, 2], [4096**2], "so far")
    assert [*life.gate.history] == [begun, event]
    ended = life.gate.end_segment(segment, "over")
    assert [*life.gate.history] == [ended]
    assert (ended.segment, ended.note, [(each.start, each.end) for each in ended.charges]) == (0, "over", [(0, 2)])


# -- interruptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_a_leaf_whose_release_was_interrupted_is_counted_again(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """The leaf is longer when it is released at last. Rows that paid for the first attempt do not pay again."""
    life = Life("pure", [0, 1])
    segment = life.begin_segment(ALL, 5, 0)
    if known:
        life.advance(segment, [Ones(1)])
        life.append([2, 2])

    def interrupt(_: Tallies, *__: Any) -> Ints:
        raise KeyboardInterrupt

    history = life.gate.history
    with monkeypatch.context() as patch:
        patch.setattr(segment_module.Tallies, "weighted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            life.gate.advance(segment, [Ones(1)])
    assert life.gate.history == history
    paid = account(life.gate)
    assert paid[-2] > 0
    life.append([5])
    life.advance(segment, [Ones(2 if known else 1), Ones(1)])
    assert account(life.gate)[-3] == paid[-2]
    assert account(life.gate)[-2] == paid[-2]
    # What was never released costs nothing after a restart.
    gate = life.db.open_gate(life.gate.budget)
    assert agrees(gate, life.journal.record)


def test_a_combination_that_was_interrupted_tells_nothing_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life("pure", [0, 1])

    def interrupt(*_: object) -> Ints:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        draw_by(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            life.gate.combine(ALL, [Span(0, 2, 1)], NOISE)
    life.append([2])
    assert life.gate._desk.charges.sizes == set()
    life.combine(ALL, [Span(0, 3, 1)])


def test_noise_is_fresh_in_every_release() -> None:
    """Equal requests, also of the same leaves, get other noise. The correlation of 1,000 independent pairs is nearly a
    Gaussian of deviation 0.03: it is beyond 0.3 with a probability below 1e-20."""
    db = GrowingDatabase(WIDE)
    db.append_cells([0])
    gate = db.open_gate(Budget("pure", Fraction(10)))
    groups = Groups.marginal(WIDE, ["a"])
    one, two = (gate.combine(groups, [Span(0, 1, 1)], Laplace(100.0)).values for _ in range(2))
    segment = gate.begin_segment(groups, Laplace(100.0), 2).segment
    three, four = gate.advance(segment, [Ones(1), Ones(1)]).values
    drawn = [values.tolist() for values in (one, two, three, four)]
    for first in range(4):
        for second in range(first):
            assert drawn[first] != drawn[second]
            assert abs(float(np.corrcoef(drawn[first], drawn[second])[0, 1])) < 0.3
