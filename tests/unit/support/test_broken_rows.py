"""Every broken twin of the charges by row is caught by a check that the real code passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
import pytest

import treering as tr
from support import broken_rows as broken
from support.broken_rows import Shifted, Twin
from support.coded import coded
from support.databases import TestDatabase
from support.exact_losses import ORDERS, Seen, moved, pure_loss, renyi, renyi_of, transparent
from support.exact_runs import Asked, transcripts
from support.row_lives import Keeping, account
from treering.arrays import Floats
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.sums import sums_of
from treering.errors import ParameterError, QueryError
from treering.gate import Advanced, Combined, Ones, Root, RunRequest, Span
from treering.mechanisms.series.root import RootSeries
from treering.noise import Gaussian, Laplace, Noise
from treering.theory import series as theory
from treering.trusted.journal import Secret
from treering.trusted.kernel import Kernel
from treering.trusted.operations.run import named
from treering.trusted.rows.kept import Rows

SCHEMA = tr.Schema({"a": tr.integers(0, 2)})
MANY = Groups.marginal(SCHEMA)
FIRST, SECOND = (Query.where(SCHEMA, a=value) for value in (0, 1))
Kind: TypeAlias = Literal["pure", "zcdp"]
Cells: TypeAlias = tuple[int, ...]
Program: TypeAlias = Callable[[TestDatabase, Kernel, Cells], None]
"""What happens once two rows are there, which are told apart from all later ones; it appends the others."""


def caught(twin: Twin, check: Callable[[], None]) -> None:
    """The check passes for the real code, and fails for its twin."""
    check()
    with pytest.MonkeyPatch.context() as patch:
        twin(patch)
        with pytest.raises(AssertionError):
            check()


def life(program: Program, kind: Kind, cells: Cells) -> tuple[list[Seen], list[Fraction]]:
    """What a program releases about these rows, without noise, and what each of them has paid."""
    journal = Keeping()
    db = TestDatabase(SCHEMA, cells[:2], journal)
    gate = db.open_gate(Budget(kind, Fraction(10**9)))
    gate.mark()
    with transparent() as seen:
        program(db, gate, cells[2:])
        released = [event.values for event in journal.record if isinstance(event, Advanced)]
        once = [event.values for event in journal.record if isinstance(event, Combined)]
        seen.note([values for each in released for values in each] + once)
    return seen.releases, account(gate)[: len(cells)]


def sound(program: Program, kind: Kind, rows: int = 3) -> None:
    """No row can lose more than it has paid, whichever row is replaced in whichever database."""
    lives = {cells: life(program, kind, cells) for cells in product(range(SCHEMA.cells), repeat=rows)}
    for cells, (releases, paid) in lives.items():
        for place, other in product(range(rows), range(SCHEMA.cells)):
            neighbour = (*cells[:place], other, *cells[place + 1 :])
            moves = moved(releases, lives[neighbour][0])
            if kind == "pure":
                assert pure_loss(moves) <= float(paid[place]) + 1e-9
            else:
                assert all(renyi(moves, order) <= order * float(paid[place]) + 1e-9 for order in ORDERS)


def once(groups: Groups, spans: Sequence[Span], noise: Noise) -> Program:
    """One release over spans of all rows."""

    def program(db: TestDatabase, gate: Kernel, rest: Cells) -> None:
        db.append_cells(rest)
        gate.combine(groups, spans, noise)

    return program


# -- costs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "noise"), [("pure", Laplace(2.0)), ("zcdp", Gaussian(2.0))])
def test_one_cost_for_one_group_and_for_several(kind: Kind, noise: Noise) -> None:
    program = once(MANY, [Span(0, 3, 1)], noise)
    caught(broken.one_cost_for_one_group_and_for_several, lambda: sound(program, kind))
    # With one group it would be right.
    with pytest.MonkeyPatch.context() as patch:
        broken.one_cost_for_one_group_and_for_several(patch)
        sound(once(Groups.of([FIRST]), [Span(0, 3, 1)], noise), kind)


def test_the_weight_for_its_square() -> None:
    program = once(MANY, [Span(0, 2, -1), Span(2, 3, 3)], Gaussian(2.0))
    caught(broken.the_weight_for_its_square, lambda: sound(program, "zcdp"))


SUMS = [
    *(("zcdp", Gaussian(2.0), counts) for counts in (False, True)),
    *(("pure", Laplace(2.0), counts) for counts in (False, True)),
    ("zcdp", Laplace(2.0), True),
]


def summed(groups: Groups, noise: Noise, *, counts: bool) -> Program:
    """Sums over two spans: of values 0, 1 and 2, whose u are -2, 0 and 2."""
    sums = sums_of(SCHEMA, 0, counts=counts)

    def program(db: TestDatabase, gate: Kernel, rest: Cells) -> None:
        db.append_cells(rest)
        gate.combine(groups, [Span(0, 2, 1), Span(2, 3, -3)], noise, sums)

    return program


@pytest.mark.parametrize("groups", [Groups.of([FIRST]), Groups.of([FIRST | SECOND]), Groups.of([FIRST, SECOND]), MANY])
@pytest.mark.parametrize(("kind", "noise", "counts"), SUMS)
def test_sums_cost_what_they_lose_at_most(groups: Groups, kind: Kind, noise: Noise, counts: bool) -> None:
    sound(summed(groups, noise, counts=counts), kind)


@pytest.mark.parametrize(("kind", "noise", "counts"), SUMS)
def test_a_single_group_s_sum_at_half_price(kind: Kind, noise: Noise, counts: bool) -> None:
    """One group of all rows: a row that stays in it moves its sum by 2R."""
    everyone = Groups.over(SCHEMA, [0], [np.zeros(3, dtype=np.int64)])
    program = summed(everyone, noise, counts=counts)
    if counts and isinstance(noise, Laplace):  # R times a count that never moves was paid for, too.
        sound(program, kind)
    else:
        caught(broken.a_single_group_s_sum_at_half_price, lambda: sound(program, kind))


def test_counts_that_come_free_under_a_pure_promise() -> None:
    caught(
        broken.counts_that_come_free_under_a_pure_promise,
        lambda: sound(summed(MANY, Laplace(2.0), counts=True), "pure"),
    )


def test_a_reach_of_the_caller_s_own() -> None:
    caught(broken.a_reach_of_the_caller_s_own, lambda: sound(summed(MANY, Gaussian(2.0), counts=False), "zcdp"))


def used_up(db: TestDatabase, gate: Kernel, rest: Cells) -> None:
    """A leaf is released as often as its room lets it."""
    db.append_cells(rest)
    gate.begin_segment(MANY, Gaussian(6000.0), 3 * 4096**2)
    try:
        gate.advance(0, [Root(1)] * 20)
    except ParameterError:
        gate.advance(0, [Root(1)] * 3)


def test_room_by_weights_for_room_by_squares() -> None:
    caught(broken.room_by_weights_for_room_by_squares, lambda: sound(used_up, "zcdp"))


def kept_current(db: TestDatabase, gate: Kernel, rest: Cells) -> None:
    """A series with a leaf for the first two rows, and one for each other: those are in its second segment."""
    series = RootSeries(MANY, Budget("zcdp", Fraction(1)))
    series.advance(gate)
    for cell in rest:
        db.append_cells([cell])
        series.advance(gate)
    series.close(gate)


def test_the_second_segment_at_half_price() -> None:
    caught(broken.the_second_segment_at_half_price, lambda: sound(kept_current, "zcdp", rows=4))


def keeps_to_its_price() -> None:
    """A series costs no row more than its price, in its first segment and in its second."""
    db = TestDatabase(SCHEMA)
    gate = db.open_gate(Budget("zcdp", Fraction(10)))
    price = Budget("zcdp", Fraction(1, 3))
    series = RootSeries(MANY, price)
    for _ in range(3):
        db.append_cells([0])
        series.advance(gate)
        assert max(account(gate)) <= price.total


def test_noise_for_weights_that_were_not_rounded() -> None:
    caught(broken.noise_for_weights_that_were_not_rounded, keeps_to_its_price)


# -- which rows --------------------------------------------------------------------------------------------------------


def overlapping_spans() -> None:
    program = once(MANY, [Span(0, 2, 1), Span(0, 3, 1)], Gaussian(2.0))
    try:
        life(program, "zcdp", (0, 0, 0))
    except ParameterError:
        return  # refused
    sound(program, "zcdp")


def test_spans_that_overlap() -> None:
    caught(broken.spans_that_overlap, overlapping_spans)


def overlapping_groups() -> None:
    try:
        groups = Groups.of([FIRST, FIRST | SECOND, FIRST])
    except QueryError:
        return  # refused
    sound(once(groups, [Span(0, 3, 1)], Laplace(2.0)), "pure")


def test_groups_that_overlap() -> None:
    caught(broken.groups_that_overlap, overlapping_groups)


RUN = RunRequest(100.0, 0.25)
BARS = 1, 2


def forced(gate: Kernel, *, halts: bool) -> None:
    """Ask the run about the rows in the first cell, and about all others, with a threshold that decides it."""
    named(gate._desk, 0)._threshold = Secret(-(10**6) if halts else 10**6)
    gate.first_exceeding(0, [FIRST, ~FIRST], BARS)


def run_law(cells: Cells) -> Floats:
    """The law of what the run says of these three rows. If one leaves the first cell, its two counts move apart, and no
    shift of the threshold is good for both."""
    inside = cells.count(0)
    asked = [Asked(inside - BARS[0]), Asked(3 - inside - BARS[1])]
    return transcripts(asked, RUN.threshold_scale, RUN.query_scale)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_runs_on_the_rows_that_are_there(kind: Kind) -> None:
    db = TestDatabase(SCHEMA)

    def met_by_a_run() -> None:
        """A row comes while a run lasts, is met by it, and has paid for that."""
        start = db.size
        gate = Kernel(db.rows, Budget(kind, Fraction(1000)), Keeping())
        db.append_cells([1, 1])
        gate.begin_run(RUN)
        db.append_cells([0])
        forced(gate, halts=True)
        left, right = run_law((1, 1, 0)), run_law((1, 1, 1))
        paid = float(gate.budget.total - gate.left(start + 3))
        if kind == "pure":
            assert float(np.max(np.abs(np.log(left / right)))) <= paid
        else:
            assert all(renyi_of(left, right, order) <= order * paid for order in ORDERS)

    caught(broken.runs_on_the_rows_that_are_there(lambda: db.size), met_by_a_run)


def silent_run() -> None:
    """A run that has said nothing but "below" is abandoned. In zCDP its law, over all that it may say, is what counts:
    its charge must not depend on what it has said."""
    db = TestDatabase(SCHEMA, [0, 1, 1])
    gate = db.open_gate(Budget("zcdp", Fraction(1000)))
    gate.begin_run(RUN)
    forced(gate, halts=False)
    gate.end_run(0)
    left, right = run_law((0, 1, 1)), run_law((1, 1, 1))
    paid = float(gate.budget.total - gate.left(1))
    assert all(renyi_of(left, right, order) <= order * paid for order in ORDERS)


def test_a_refund_of_a_run_in_zcdp() -> None:
    caught(broken.a_refund_of_a_run_in_zcdp, silent_run)


FRAME = [{"a": 7}, {"a": 0}, {"a": 1}, {"a": 9}, {"a": 2}, {"a": 0}]
"""Rows, two of which do not fit."""


def with_misfits(rows: Rows) -> None:
    """Two batches, of which rows were dropped: a leaf is the rows that were taken in between, and these are the rows
    that pay."""
    taken: list[int] = []
    gate = Kernel(rows, Budget("pure", Fraction(100)), Keeping())
    for part in (FRAME[:3], FRAME[3:]):
        cells, dropped = coded(part, SCHEMA, drop=True)
        assert dropped == 1
        if isinstance(rows, Shifted):
            rows.raw += [each["a"] if each["a"] < 3 else None for each in part]
        rows.add_cells(cells)
        taken += cells.tolist()
        gate.mark()
    with transparent():
        values = gate.combine(MANY, [Span(2, 4, 1)], Laplace(1.0)).values
    assert values.tolist() == np.bincount(taken[2:4], minlength=3).tolist()
    assert [position for position in range(1, 5) if gate.left(position) < 100] == [3, 4]


def test_a_dropped_row_that_shifts_leaves() -> None:
    with_misfits(Rows(SCHEMA))
    with pytest.raises(AssertionError):
        with_misfits(Shifted(SCHEMA))


def restarted() -> None:
    """A condensed record is followed: what each row has left is what it was."""
    db = TestDatabase(SCHEMA, [0, 1, 2])
    gate = db.open_gate(Budget("zcdp", Fraction(1)))
    gate.histogram(Gaussian(10.0))
    gate.mark()
    db.append_cells([0])
    gate.begin_segment(MANY, Gaussian(10.0), 2, start=3)
    gate.advance(0, [Ones(1)])
    gate.combine(MANY, [Span(0, 3, 2)], Gaussian(10.0))
    before = account(gate)
    gate.condense(None)
    assert account(db.open_gate(gate.budget)) == before


def test_a_restart_that_loses_intervals() -> None:
    caught(broken.a_restart_that_loses_intervals, restarted)


# -- noise and variances -----------------------------------------------------------------------------------------------


def stated_variances() -> None:
    """The variance of a window is that of the one unbiased estimate: rows of the inverse of the matrix of weights."""
    db = TestDatabase(SCHEMA)
    price = Budget("zcdp", Fraction(1))
    gate, series = db.open_gate(price), RootSeries(MANY, price)
    with transparent():
        for _ in range(13):
            db.append_cells([0])
            series.advance(gate)
    fading = [1 + sum(1 / each for each in range(1, k + 1)) / 6 for k in range(12)]
    weights = np.array([float(2**12 * math.comb(2 * k, k) / 4**k) / fading[k] for k in range(12)]).round()
    matrix = np.array([[weights[t - s] if s <= t else 0.0 for s in range(12)] for t in range(12)])
    scale = theory.release_noise(price.total, 2**20, MANY.number).scale
    for since in series.boundaries[1:]:
        sums = np.array([float(leaf >= since) for leaf in range(1, 13)])
        exact = scale**2 * float(np.sum((sums @ np.linalg.inv(matrix)) ** 2))
        assert math.isclose(series.window(since).law.deviation ** 2, exact, rel_tol=1e-6)


def test_windows_by_difference() -> None:
    caught(broken.windows_by_difference, stated_variances)


WIDE = tr.Schema({"a": tr.integers(0, 999)})


def measured_again() -> None:
    """A leaf is measured twice, with weights 1 and 2 and noise of scale 50: if it were the same noise, the difference
    would be the truth; if it is not, some of 1,000 groups differ, but with probability below e^{−4,000}."""
    db = TestDatabase(WIDE, [5, 5, 7])
    gate = db.open_gate(Budget("pure", Fraction(1)))
    groups = Groups.marginal(WIDE)
    one, two = (gate.combine(groups, [Span(0, 3, weight)], Laplace(50.0)).values for weight in (1, 2))
    assert not np.array_equal(two - one, np.bincount([5, 5, 7], minlength=1000))
    segment = gate.begin_segment(groups, Laplace(50.0), 3).segment
    one, two = gate.advance(segment, [Ones(1), Ones(1)]).values
    assert not np.array_equal(one, two)


def test_the_same_noise_again() -> None:
    caught(broken.the_same_noise_again, measured_again)
