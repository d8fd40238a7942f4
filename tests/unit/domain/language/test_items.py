"""Single numbers about some rows."""

from __future__ import annotations

import treering as tr
from treering.domain.language.items import Item
from treering.domain.language.parse import parse

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK"),
        "month": tr.integers(1, 3),
        "delay": tr.numbers(-60, 600, step=1, edges=[0, 15, 60]),
    }
)


def test_the_cells_of_a_column_are_in_the_order_of_its_values() -> None:
    item = Item("quantile", parse("origin = 'JFK'", SCHEMA), position=2)
    wanted = ["delay < 0", "delay >= 0 AND delay < 15", "delay >= 15 AND delay < 60", "delay >= 60"]
    assert item.cells() == [parse(f"origin = 'JFK' AND {each}", SCHEMA) for each in wanted]


def test_what_is_missing_is_in_no_cell() -> None:
    rows = parse("delay IS NULL", SCHEMA)
    assert all(cell.constant for cell in Item("mean", rows, position=2).cells())
    assert [str(cell) for cell in Item("quantile", tr.Query.all(SCHEMA), position=1).cells()] == [
        "month = 1",
        "month = 2",
        "month = 3",
    ]


def test_items_are_told_apart_by_all_that_they_say() -> None:
    every = tr.Query.all(SCHEMA)
    items = [Item("count", every), Item("sum", every, 1), Item("sum", every, 2), Item("quantile", every, 2, 0.9)]
    assert len({*items, *items, Item("quantile", every, 2)}) == 5
