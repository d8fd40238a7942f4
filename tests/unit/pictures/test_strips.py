"""Charts whose places across are percentages."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from treering.pictures.rings import Ring
from treering.pictures.strips import Column, bar, budget, columns, short, span_of


def shapes(picture: str, tag: str, kind: str) -> list[ElementTree.Element]:
    found = ElementTree.fromstring(picture).iter(tag)
    return [shape for shape in found if kind in shape.attrib["class"].split()]


def number(shape: ElementTree.Element, name: str) -> float:
    return float(shape.attrib[name].removesuffix("%"))


def texts(picture: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(picture).iter("text")]


def test_each_ring_is_as_wide_as_its_rows_and_as_high_as_what_they_have_spent() -> None:
    picture = budget([Ring("old", 300, 0.25), Ring("new", 100, 1.0)])
    (kept,) = shapes(picture, "rect", "kept")
    old, new = shapes(picture, "rect", "spent")
    assert (number(old, "x"), number(old, "width"), number(new, "x"), number(new, "width")) == (0, 75, 75, 25)
    assert number(old, "height") == pytest.approx(0.75 * number(kept, "height"), abs=0.1)
    assert number(new, "height") == 0
    assert {"50%", "100%", "0", "400"} <= set(texts(picture))


def test_columns_are_stacked_without_gaps_and_fit() -> None:
    first, second = Column("09:00", {"easy": 6, "measured": 2}), Column("10:00", {"measured": 1, "cached": 3})
    picture = columns([first, second], ["measured", "easy", "cached"])
    measured = shapes(picture, "rect", "kind-0")
    (easy,) = shapes(picture, "rect", "kind-1")
    assert number(easy, "height") == pytest.approx(3 * number(measured[0], "height"), abs=0.2)
    assert number(easy, "y") + number(easy, "height") == pytest.approx(number(measured[0], "y"), abs=0.2)
    assert number(easy, "y") >= 17.9
    assert all(number(one, "x") < 50 < number(other, "x") for one, other in [measured])
    assert {"09:00", "10:00"} <= set(texts(picture))
    assert "09:00: 2 measured, 6 easy" in picture


def test_a_single_column_and_one_without_answers_can_be_drawn() -> None:
    picture = columns([Column("now", {})], ["easy"])
    assert "now: none" in picture
    assert "0 answers over time" in picture


def test_the_error_bar_reaches_from_the_lower_end_to_the_upper() -> None:
    whole = bar(30, 10, (0.0, 40.0))
    (filled,) = shapes(whole, "rect", "bar")
    middle = shapes(whole, "line", "whisker")[0]
    assert (number(filled, "x"), number(filled, "width")) == (0, 75)
    assert (number(middle, "x1"), number(middle, "x2")) == (50, 100)


def test_negative_numbers_are_left_of_zero() -> None:
    span = span_of([-10.0, 20.0], [2.0, 4.0])
    assert span == (-12.0, 24.0)
    (filled,) = shapes(bar(-10.0, 2.0, span), "rect", "bar")
    assert number(filled, "x") + number(filled, "width") == pytest.approx(100 * 12 / 36, abs=0.02)


def test_a_span_starts_at_zero_for_counts_whose_margins_reach_below() -> None:
    assert span_of([3.0, 20.0], [9.0, 4.0]) == (0.0, 24.0)
    assert span_of([], []) == (0.0, 0.0)
    assert "NaN" not in bar(0.0, 0.0, (0.0, 0.0))


def test_numbers_of_an_axis() -> None:
    assert [short(value) for value in (0, 12.5, 9999, 10_000, 250_000, 1e6)] == [
        "0",
        "12.5",
        "9,999",
        "10k",
        "250k",
        "1M",
    ]
