"""Which box runs in which epoch."""

from __future__ import annotations

from typing import Any

import pytest

import treering as tr
from support.scheduler_boxes import CellsBox, ZcdpBox
from treering.boxes.base import Box
from treering.boxes.histogram import HistogramBox
from treering.schedulers.epochs import Supply

SCHEMA = tr.Schema({"a": tr.integers(0, 2)})


def test_one_box_for_all_epochs_bound_once() -> None:
    box = CellsBox()
    boxes = Supply(box, SCHEMA, "pure")
    assert boxes.first.bind(SCHEMA) is boxes.at(0) is boxes.at(5)


def test_what_a_box_prepared_for_the_schema_serves_all_epochs() -> None:
    box = HistogramBox(["a = 1"])
    boxes = Supply(box, SCHEMA, "pure")
    assert boxes.first is not box
    assert boxes.at(0) is boxes.at(5) is boxes.first


def test_a_function_gives_each_epoch_its_own() -> None:
    asked: list[int] = []

    def box_of(index: int) -> Box:
        asked.append(index)
        return CellsBox()

    boxes = Supply(box_of, SCHEMA, "pure")
    assert asked == [0]
    assert boxes.at(3) is not boxes.at(4)
    assert asked == [0, 3, 4]


@pytest.mark.parametrize("box", [None, 17, "box", SCHEMA])
def test_what_is_no_box_is_refused(box: Any) -> None:
    with pytest.raises(tr.ParameterError, match="box must be a Box, or a function"):
        Supply(box, SCHEMA, "pure")
    with pytest.raises(tr.ParameterError, match="box must give a Box for epoch 0"):
        Supply(lambda _: box, SCHEMA, "pure")


def test_a_zcdp_box_needs_a_zcdp_budget() -> None:
    with pytest.raises(tr.GuaranteeError, match="ZcdpBox.*delta > 0"):
        Supply(ZcdpBox(), SCHEMA, "pure")
    assert Supply(ZcdpBox(), SCHEMA, "zcdp").at(1)
    assert Supply(CellsBox(), SCHEMA, "zcdp").at(1)
