"""The rings of the demonstration's report."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from treering.demo.report import months, rings

YEAR = [(day, 920 * day) for day in range(120, 366)]


def test_there_is_a_ring_for_each_month_and_a_core() -> None:
    assert months(YEAR) == [
        ("to April", 920 * 120),
        *zip(
            ("May", "June", "July", "August", "September", "October", "November", "December"),
            (920 * day for day in (151, 181, 212, 243, 273, 304, 334, 365)),
            strict=True,
        ),
    ]


def test_rings_can_be_told_apart() -> None:
    """Each is wide enough to see, even on a phone, differs in shade from its neighbours, and has its name in it."""
    drawn = ElementTree.fromstring(rings(months(YEAR)))
    assert drawn.get("viewBox") == "0 0 520 520"
    assert drawn.get("width") is None  # as wide as the page
    groups = list(reversed(drawn.findall("g")))
    circles = [group.find("circle") for group in groups]
    radii = [float(circle.attrib["r"]) for circle in circles if circle is not None]
    assert len(radii) == 9
    assert min(outer - inner for inner, outer in pairwise(radii)) > 0.018 * 520
    shades = [circle.attrib["fill"] for circle in circles if circle is not None]
    assert all(shade != other for shade, other in pairwise(shades))
    for group, inner, outer in zip(groups, [0.0, *radii], radii, strict=False):
        text, title = group.find("text"), group.find("title")
        assert text is not None
        assert title is not None
        assert re.fullmatch(rf"{text.text}: [\d,]+ flights", title.text or "")
        if inner:
            assert 260 - outer < float(text.attrib["y"]) < 260 - inner + 1
            assert 5 < float(text.attrib["font-size"]) < outer - inner


def test_areas_are_in_proportion() -> None:
    drawn = ElementTree.fromstring(rings([("one", 100), ("two", 400)]))
    outer, inner = (float(circle.attrib["r"]) for circle in drawn.iter("circle"))
    assert inner / outer == pytest.approx(0.5, abs=0.001)
