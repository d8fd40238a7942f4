"""A table that grows a hundredfold never runs dry: new rows pay for new series, at the same price each time.

At every doubling twenty new series are made over the new rows alone, and beside them series over the whole table for as
long as the oldest rows can pay. No row is ever above the promise: by what the gate says of every position, and by a
recount of what is on record.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

import treering as tr
from support.databases import TestDatabase
from support.row_lives import Keeping, account, agrees
from treering.budget.promise import Budget, BudgetKind
from treering.domain.groups import Groups
from treering.errors import BudgetExceeded
from treering.gate import SegmentEnded
from treering.mechanisms.series.base import Series
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.tree import TreeSeries
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
GROUPS = Groups.marginal(SCHEMA)
FIRST, DOUBLINGS = 100, 7
NEW, WHOLE = 20, 2
"""How many series over new rows there are at each doubling, and how many over the whole table are tried."""


class Table:
    """A growing table with one gate, whose budget is shared: four fifths for series over new rows, the rest for those
    over the whole table."""

    def __init__(self, kind: BudgetKind) -> None:
        self.budget = Budget(kind, Fraction(1))
        self.db = TestDatabase(SCHEMA, journal=Keeping())
        self.gate = self.db.open_gate(self.budget)
        self.made = RootSeries if kind == "zcdp" else TreeSeries
        self.living: list[Series] = []
        self.refused = 0
        self.deviations: set[float] = set()

    def grow(self, size: int) -> None:
        """New rows come, and are asked about."""
        before = self.gate.size
        self.gate.mark()
        self.db.append_cells([row % 2 for row in range(before, size)])
        for series in self.living:
            series.advance(self.gate)
        for _ in range(NEW):
            self._ask_new(before)
        for _ in range(WHOLE):
            self._ask_whole()

    def _ask_new(self, start: int) -> None:
        series = self.made(GROUPS, self.budget.share(Fraction(4, 5 * NEW)), start)
        series.advance(self.gate)
        series.close(self.gate)
        window = series.window(start)
        assert (window.start, window.end) == (start, self.gate.size)
        self.deviations.add(window.law.deviation)
        assert abs(window.counts.sum() - (self.gate.size - start)) < 60 * window.law.deviation

    def _ask_whole(self) -> None:
        series = self.made(GROUPS, self.budget.share(Fraction(1, 50)))
        before = account(self.gate)
        try:
            series.advance(self.gate)
        except BudgetExceeded:
            series.close(self.gate)
            assert account(self.gate) == before
            self.refused += 1
        else:
            self.living.append(series)


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
def test_new_rows_pay_for_new_series_at_the_same_price_for_ever(kind: BudgetKind) -> None:
    table = Table(kind)
    table.grow(FIRST)
    for doubling in range(1, DOUBLINGS + 1):
        table.grow(FIRST * 2**doubling)
        # No row is above the promise, exactly; rows to come have all of it.
        paid = account(table.gate)
        assert max(paid) <= 1 == table.budget.total
        assert paid[-1] == 0
        assert table.gate.spent == max(paid)
    assert table.gate.size >= 100 * FIRST
    # The same accuracy at the same price, for the first rows and for the last.
    assert len(table.deviations) == 1
    # Old rows paid for ten series over the whole table, and for no more.
    assert (len(table.living), table.refused) == (10, WHOLE * (DOUBLINGS + 1) - 10)
    assert table.gate.left(1) < Fraction(1, 50)
    for series in table.living:
        assert (series.size, series.boundaries[0]) == (table.gate.size, 0)
    _recounted(table)


def _recounted(table: Table) -> None:
    """What is on record, and all that ever was, add up to what the gate says, and another kernel says the same."""
    journal = table.db.journal
    assert isinstance(journal, Keeping)
    ended = [event for event in table.gate.history if isinstance(event, SegmentEnded)]
    assert len(ended) >= NEW * (DOUBLINGS + 1)
    assert agrees(table.gate, table.gate.history)
    assert agrees(table.gate, journal.record)
    before = account(table.gate)
    assert account(Kernel(table.db.rows, table.budget, journal)) == before
    for series in table.living:
        series.close(table.gate)
    assert agrees(table.gate, journal.record)
    assert all(after <= paid for after, paid in zip(account(table.gate), before, strict=True))


def test_the_whole_table_alone_would_run_dry() -> None:
    """With one budget for all rows, as before, the second round of questions would be refused."""
    db = TestDatabase(SCHEMA, [0, 1] * 50)
    gate = db.open_gate(Budget("zcdp", Fraction(1)))
    price = gate.budget.share(Fraction(1, 25))
    for _ in range(25):
        RootSeries(GROUPS, price).advance(gate)
    db.append_cells([0, 1] * 50)
    with pytest.raises(BudgetExceeded):
        RootSeries(GROUPS, price).advance(gate)
    RootSeries(GROUPS, price, 100).advance(gate)
