"""Growth rings, for the demonstration's report and for the server's page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from treering.demo.report import months
from treering.pictures.rings import MOST, Ring, drawn, merged, said

YEAR = months([(day, 920 * day) for day in range(120, 366)])


def circles(picture: str, kind: str) -> list[ElementTree.Element]:
    """The circles of one class, from the core outwards."""
    found = ElementTree.fromstring(picture).iter("circle")
    return [circle for circle in found if kind in circle.attrib["class"].split()][::-1]


def radii(picture: str) -> list[float]:
    return [float(circle.attrib["r"]) for circle in circles(picture, "wood")]


def test_there_is_a_ring_for_each_month_and_a_core() -> None:
    names = ("to April", "May", "June", "July", "August", "September", "October", "November", "December")
    assert [ring.name for ring in YEAR] == list(names)
    assert [ring.rows for ring in YEAR] == [920 * days for days in (120, 31, 30, 31, 31, 30, 31, 30, 31)]


def test_rings_can_be_told_apart() -> None:
    """Each is wide enough to see, even on a phone, differs in shade from its neighbours, and has its name in it."""
    picture = drawn(YEAR, noun="flight", named=True)
    root = ElementTree.fromstring(picture)
    assert root.get("viewBox") == "0 0 520 520"
    assert root.get("width") is None  # as wide as the page
    outside = radii(picture)
    assert len(outside) == 9
    assert min(outer - inner for inner, outer in pairwise(outside)) > 0.018 * 520
    shades = [circle.attrib["class"] for circle in circles(picture, "wood")]
    assert all(shade != other for shade, other in pairwise(shades))
    for group, inner, outer in zip(root.findall("g")[::-1], [0.0, *outside], outside, strict=False):
        text, title = group.find("text"), group.find("title")
        assert text is not None
        assert title is not None
        assert re.fullmatch(rf"{text.text}: [\d,]+ flights", title.text or "")
        if inner:
            assert 260 - outer < float(text.attrib["y"]) < 260 - inner + 1
            assert 5 < float(text.attrib["font-size"]) < outer - inner


def test_areas_are_in_proportion() -> None:
    inner, outer = radii(drawn([Ring("one", 100), Ring("two", 300)]))
    assert inner / outer == pytest.approx(0.5, abs=0.001)


def test_the_newest_rows_are_seen_however_few_they_are() -> None:
    inner, outer = radii(drawn([Ring("old", 10**9), Ring("new", 1)], width=500))
    assert outer - inner > 5
    assert outer <= 250


def test_what_is_left_is_so_much_of_the_way_around() -> None:
    picture = drawn([Ring("old", 100, 0.25), Ring("new", 300, 1.0)], width=400)
    core, ring = circles(picture, "left")
    assert core.attrib["stroke-dasharray"] == "25.00 100"
    assert ring.attrib["stroke-dasharray"] == "100.00 100"
    assert core.attrib["pathLength"] == "100"
    inner, outer = radii(picture)
    assert float(ring.attrib["r"]) == pytest.approx((inner + outer) / 2, abs=0.01)
    assert float(ring.attrib["stroke-width"]) == pytest.approx(outer - inner, abs=0.01)
    assert not circles(drawn([Ring("old", 100)]), "left")


def test_many_batches_become_few_rings_and_no_row_is_lost() -> None:
    batches = [Ring(f"day {day}", 100 + day % 7, 1 - day / 1000) for day in range(365)]
    few = merged(batches)
    assert len(few) == MOST
    assert sum(ring.rows for ring in few) == sum(ring.rows for ring in batches)
    assert few[-1] == batches[-1]
    assert few[0].name.startswith("day 0 to day ")
    assert [ring.left for ring in few] == sorted((ring.left for ring in few), key=lambda left: -(left or 0.0))


def test_two_rings_as_one_have_what_the_poorer_has_left() -> None:
    assert Ring("a", 1, 0.5) + Ring("b", 2, 0.75) == Ring("a to b", 3, 0.5)
    assert Ring("a to b", 3, 0.5) + Ring("c", 1, 0.9) == Ring("a to c", 4, 0.5)
    assert Ring("a", 1) + Ring("a", 2) == Ring("a", 3)


def test_batches_without_rows_have_no_ring() -> None:
    assert merged([Ring("none", 0), Ring("some", 3)]) == [Ring("some", 3)]


def test_names_are_escaped() -> None:
    picture = drawn([Ring("<script>", 1, 0.5)], named=True)
    assert "<script>" not in picture
    assert said(Ring("<script>", 1, 0.5)) in (ElementTree.fromstring(picture).findtext("g/title") or "")
