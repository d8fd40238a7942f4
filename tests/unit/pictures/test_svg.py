"""The chart writer, and the pictures in docs/."""

from __future__ import annotations

import doctest
import re
from xml.etree import ElementTree

import pytest

from experiments import erm_picture, rings_picture, schedulers_picture, terminal_picture
from experiments.erm_logistic import END, compared
from experiments.pmwg_picture import DRAWN, TARGET
from experiments.schedulers_flights import CASES
from treering.pictures import svg
from treering.pictures.svg import HEIGHT, PANEL_WIDTH, Band, Dots, Line, Panel, Series, render, ticks

NAMESPACE = "{" + "http" + "://www.w3.org/2000/svg}"

SERIES: tuple[Series, ...] = (
    Band("band", (1.0, 2.0, 3.0), (0.1, 0.2, 0.2), (0.3, 0.4, 0.6), "pink"),
    Line("line <a> & b", (1.0, 2.0, 3.0), (0.2, 0.3, 0.4), "black", dashes="4 2"),
    Dots("dots", (1.5, 2.5), (0.25, 0.35), "blue"),
)


def drawn(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{NAMESPACE}text")]


def points(element: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in element.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def test_a_chart_is_well_formed_and_says_what_it_shows() -> None:
    root = drawn(render("a < b", [Panel("left", "time", "share", SERIES), Panel("right", "time", "share", SERIES)]))
    assert root.tag == f"{NAMESPACE}svg"
    assert root.attrib["width"] == str(2 * PANEL_WIDTH)
    assert {"a < b", "left", "right", "time", "share", "band", "line <a> & b", "dots"} <= set(texts(root))
    assert len(list(root.iter(f"{NAMESPACE}polygon"))) == 2
    assert len(list(root.iter(f"{NAMESPACE}polyline"))) == 2
    assert len(list(root.iter(f"{NAMESPACE}circle"))) == 1 + 2 * 2  # one in the legend


def test_higher_values_are_drawn_higher_and_all_within_the_frame() -> None:
    root = drawn(render("t", [Panel("p", "x", "y", SERIES)]))
    (line,) = root.iter(f"{NAMESPACE}polyline")
    across, down = zip(*points(line), strict=True)
    assert list(across) == sorted(across)
    assert list(down) == sorted(down, reverse=True)
    (band,) = root.iter(f"{NAMESPACE}polygon")
    assert all(0 < x < PANEL_WIDTH and 0 < y < HEIGHT for x, y in [*points(line), *points(band)])


def test_limits_of_y_are_kept() -> None:
    panel = Panel("p", "x", "y", SERIES, y_limits=(0.0, 2.0))
    assert panel.y_range() == (0.0, 2.0)
    assert Panel("p", "x", "y", SERIES).y_range() == pytest.approx((0.1, 0.6))
    assert {"0.5", "1.5", "2"} <= set(texts(drawn(render("t", [panel]))))


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.137, 0.141), (-3.0, 250.0), (1e6, 2.5e6), (109.119, 336.776)])
def test_ticks_are_few_round_and_within(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((20.0, 3000.0), [10.0, 100.0, 1000.0, 10000.0]),
        ((1e-5, 1e-3), [1e-5, 1e-4, 1e-3]),
        ((0.1, 0.1), [0.1, 1.0]),
        ((), [1.0, 10.0]),
    ],
)
def test_a_logarithmic_axis_spans_whole_powers_of_ten(values: tuple[float, ...], expected: list[float]) -> None:
    panel = Panel("p", "x", "y", [Dots("d", values, values, "black")], x_log=True, y_log=True)
    assert panel.x_range() == panel.y_range() == (expected[0], expected[-1])
    assert ticks(*panel.x_range(), log=True) == pytest.approx(expected, rel=1e-12)
    drawn(render("t", [panel]))


def test_equal_ratios_are_equally_far_apart_on_logarithmic_axes() -> None:
    line = Line("l", (1.0, 10.0, 100.0), (1e-6, 1e-3, 1.0), "black")
    root = drawn(render("t", [Panel("p", "x", "y", [line], x_log=True, y_log=True)]))
    (shape,) = root.iter(f"{NAMESPACE}polyline")
    across, down = zip(*points(shape), strict=True)
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.11)
    assert down[0] - down[1] == pytest.approx(down[1] - down[2], abs=0.11)
    assert {"1e-6", "0.001", "1", "10", "100"} <= set(texts(root))


def test_one_axis_may_be_logarithmic_and_the_other_not() -> None:
    root = drawn(render("t", [Panel("p", "x", "y", SERIES, y_log=True)]))
    assert {"1", "1.5", "2", "2.5", "3", "0.1"} <= set(texts(root))


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_a_logarithmic_axis_refuses_what_has_no_logarithm(least: float) -> None:
    panel = Panel("p", "x", "y", [Line("l", (1.0, 2.0), (least, 1.0), "black")], y_log=True)
    with pytest.raises(ValueError, match="above 0"):
        render("t", [panel])


def test_a_line_has_gaps_and_a_lone_point_is_a_dot() -> None:
    line = Line("l", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), (None, 0.1, None, 0.2, 0.3, None), "black")
    assert line.pieces() == [[(2.0, 0.1)], [(4.0, 0.2), (5.0, 0.3)]]
    root = drawn(render("t", [Panel("p", "x", "y", [line])]))
    assert [len(points(piece)) for piece in root.iter(f"{NAMESPACE}polyline")] == [2]
    assert len(list(root.iter(f"{NAMESPACE}circle"))) == 1


def test_a_legend_aside_is_a_column_beyond_the_panels() -> None:
    root = drawn(render("t", [Panel("p", "x", "y", SERIES)], size=(500, 300), legend_aside=True))
    labels = {each.text: each for each in root.iter(f"{NAMESPACE}text")}
    entries = [labels[series.label] for series in SERIES]
    assert len({entry.attrib["x"] for entry in entries}) == 1
    down = [float(entry.attrib["y"]) for entry in entries]
    assert down == sorted(set(down))
    assert 500 < float(entries[0].attrib["x"]) < float(root.attrib["width"])
    assert root.attrib["height"] == "300"


def test_a_series_without_a_label_is_drawn_and_not_in_the_legend() -> None:
    series: list[Series] = [Line("", (0.0, 1.0), (0.0, 1.0), "red"), Dots("dots", (0.5,), (0.5,), "blue", radius=3.5)]
    root = drawn(render("t", [Panel("p", "x", "y", series)]))
    assert len(list(root.iter(f"{NAMESPACE}polyline"))) == 1
    assert not [line for line in root.iter(f"{NAMESPACE}line") if line.attrib["stroke"] == "red"]
    assert {circle.attrib["r"] for circle in root.iter(f"{NAMESPACE}circle")} == {"3", "3.5"}


def test_long_numbers_beside_an_axis_get_room() -> None:
    short, long = (
        drawn(render("t", [Panel("p", "x", "y", [Line("l", (0.0, 1.0), (0.0, top), "black")])])) for top in (1, 100_000)
    )
    (first,), (second,) = (list(root.iter(f"{NAMESPACE}polyline")) for root in (short, long))
    assert points(first)[0][0] < points(second)[0][0]
    assert points(first)[1][0] == points(second)[1][0]


def test_an_axis_of_one_value_is_refused() -> None:
    with pytest.raises(ValueError, match="two different values"):
        ticks(0.5, 0.5)


def test_the_examples_in_its_docstrings_run() -> None:
    outcome = doctest.testmod(svg)
    assert outcome.attempted >= 3
    assert outcome.failed == 0


def test_the_picture_of_the_documentation_is_what_the_command_draws() -> None:
    root = drawn(TARGET.read_text(encoding="utf-8"))
    assert {f"{text}: {note}" for text, note in DRAWN.items()} <= set(texts(root))
    assert {"answer ± error", "measured answer", "hypothesis, before it is asked", "truth"} <= set(texts(root))
    assert [len(points(line)) for line in root.iter(f"{NAMESPACE}polyline")] == [246] * 4


def test_the_picture_of_margins_is_what_the_command_draws() -> None:
    root = drawn(rings_picture.TARGET.read_text(encoding="utf-8"))
    panels = {"margin (dashes: error), median", "how far off answers are, median"}
    assert {rings_picture.TITLE, *rings_picture.COLOURS, *panels} <= set(texts(root))
    assert [len(points(line)) for line in root.iter(f"{NAMESPACE}polyline")] == [246] * 8


def test_the_picture_of_the_schedulers_is_what_the_command_draws() -> None:
    root = drawn(schedulers_picture.TARGET.read_text(encoding="utf-8"))
    words = texts(root)
    assert {schedulers_picture.TITLE, "staleness, halved", "guarantee", "an epoch opens"} <= set(words)
    for case in CASES:
        (title,) = [text for text in words if text.startswith(f"{case.name}: ")]
        assert title.endswith(" epochs")
    assert [len(points(line)) for line in root.iter(f"{NAMESPACE}polyline")] == [335] * 9


def test_the_picture_of_learning_is_what_the_command_draws() -> None:
    root = drawn(erm_picture.TARGET.read_text(encoding="utf-8"))
    kinds = {"random model", "ERMG, paper", "ERMG, tight", "static, private", "non-private"}
    assert {erm_picture.TITLE, "rows to come", "rows so far; dashes: proven", *kinds} <= set(texts(root))
    assert [len(points(line)) for line in root.iter(f"{NAMESPACE}polyline")] == [len(compared(END))] * 10


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plan", ["mechanism", "PMWG"]),
        ("status", ["rings keeps current", "model"]),
        ("ask", ["origin", "EWR", "JFK", "LGA"]),
    ],
)
def test_the_pictures_of_a_terminal_show_the_commands_and_fetch_nothing(name: str, words: list[str]) -> None:
    picture = (terminal_picture.IMAGES / f"terminal_{name}.svg").read_text(encoding="utf-8")
    shown = " ".join(texts(drawn(picture))).replace("\N{NO-BREAK SPACE}", " ")
    assert all(word in shown for word in [f"treering {name}", *words])
    assert not re.search(r"url\(\W*http|@font-face|href=", picture)
