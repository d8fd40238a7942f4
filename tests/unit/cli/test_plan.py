"""`treering plan`: a table for people, JSON for programs, charts as files."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

import treering as tr
from support.cli import refused, treering
from treering.cli.output import count, endless, last_size, number
from treering.cli.plan import Chart, picture
from treering.pictures.svg import Line
from treering.theory.plan import plan

BASE = ("--cells", 128, "--rows", "1e6", "--epsilon", 1, "--delta", "1e-9")


def test_the_table_marks_the_winner_and_says_why() -> None:
    done = treering("plan", *BASE)
    assert done.code == 0
    (best,) = (line for line in done.out.splitlines() if line.startswith("*"))
    assert "Rings" in best
    assert "±1,397" in best
    assert "Best: Rings. It keeps every answer within" in done.out
    assert "To make it: treering create VAULT --schema SCHEMA.toml --epsilon 1 --delta 1e-09" in done.out
    assert "In Python:  Rings(db, ..., pace=)" in done.out
    assert "no guarantee" in done.out


def test_json_is_the_plan() -> None:
    expected = plan(128, 10**6, 1.0, 1e-9, queries=50.0, horizon=1e7)
    got = treering("plan", *BASE, "--queries", 50, "--horizon", "1e7", "--json").json
    assert got == json.loads(expected.to_json())


def test_the_inverse_questions() -> None:
    epsilon = treering("plan", "--cells", 128, "--rows", "1e6", "--delta", "1e-9", "--alpha", 0.01, "--horizon", "none")
    assert "epsilon needed" in epsilon.out
    assert "Best: Rings. It does it with epsilon =" in epsilon.out


def test_growth_and_questions_matter() -> None:
    still = treering("plan", *BASE, "--horizon", "none", "--json").json
    assert (still["grows"], still["best"]) == (False, "Rings")
    assert treering("plan", *BASE, "--queries", "inf", "--json").json["queries"] is None
    assert treering("plan", *BASE, "--declared", "--json").json["adaptive"] is False


SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12), "hour": tr.integers(0, 23)})


@pytest.mark.parametrize(
    ("options", "best"),
    [
        (("--delta", "1e-9"), "Rings"),
        (("--delta", "1e-9", "--queries", "inf"), "ContinualHistogram"),
        (("--delta", "1e-9", "--horizon", "none", "--beta", "0.001"), "Rings"),
        (("--queries", 10_000), "ContinualHistogram"),
    ],
)
def test_the_command_that_is_printed_makes_what_is_recommended(
    options: tuple[object, ...], best: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("late flights.toml")
    given = ("plan", "--schema", "late flights.toml", "--rows", "1e6", "--epsilon", 1, *options)
    found = treering(*given, "--json").json
    assert (found["best"], found["cells"]) == (best, SCHEMA.cells)
    (line,) = (line for line in treering(*given).out.splitlines() if line.startswith("To make it: "))
    assert line == f"To make it: {found['command']}"
    program, *arguments = shlex.split(line.removeprefix("To make it: "))
    assert program == "treering"
    assert treering(*arguments, "--json").json["vault"] == "late flights.treering"
    with tr.Vault.open("late flights.treering") as vault:
        vault.append([{"late": "yes", "month": 1, "hour": 9}] * 200_000)
        row = next(row for row in found["rows"] if row["name"] == best)
        answer = vault.ask("late = 'yes'")
        # A fifth of the rows has at most five times the error.
        assert abs(answer.value - 1) <= answer.error <= 5 * row["alpha"]


@pytest.mark.parametrize("name", [row.name for row in plan(64, 10**6, 1.0, queries=2).rows if row.create])
def test_every_command_of_a_plan_makes_a_vault(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("SCHEMA.toml")
    Path("questions.txt").write_text("late = 'yes'\n\n month >= 6 AND late = 'no'\n")
    found = plan(64, 10**6, 1.0, queries=2)
    command = found.making(found.row(name))
    assert command is not None
    made = treering(*shlex.split(command)[1:], "--json").json
    kind = made["mechanisms"][0]
    assert kind in ("rings", "pmwg", "continual", "scheduler")
    (options,) = (each["options"] for each in tr.Vault.read("VAULT").status()["mechanisms"])
    if "guard" in name:
        assert options["measure_first"] is False
    if "queries" in name or "AnswersBox" in name:
        assert options["queries"] == ["late = 'yes'", "month >= 6 AND late = 'no'"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rows", 10, "--epsilon", 1], "give --schema, or the number of its cells"),
        (["--cells", 9, "--schema", "s.toml", "--rows", 10, "--epsilon", 1], "give --schema, or the number"),
        (["--schema", "no-such.toml", "--rows", 10, "--epsilon", 1], "no-such.toml"),
        (["--cells", 128], "give two of --rows, --epsilon and --alpha"),
        (["--cells", 128, "--rows", 10, "--epsilon", 1, "--alpha", 0.1], "give two of"),
        (["--cells", "many", "--rows", 10, "--epsilon", 1], "'many' is not a number"),
        (["--cells", 2.5, "--rows", 10, "--epsilon", 1], "'2.5' is not a whole number"),
        (["--cells", 1, "--rows", 10, "--epsilon", 1], "cells must be"),
        (["--cells", 9, "--rows", 10, "--epsilon", -1], "epsilon must be"),
        (["--cells", 9, "--rows", 10, "--epsilon", 1, "--horizon", 5], "horizon must be at least"),
        (["--cells", 9, "--rows", 10, "--epsilon", 1, "--beta", 2], "beta must be below 1"),
        (["--cells", 9, "--rows", 10, "--epsilon", 1, "--plot", "x.png"], "ends in .html or .svg"),
        (["--cells", 9, "--rows", 10, "--epsilon", 1, "--plot", "no/where/x.svg"], "does not exist"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[object], says: str) -> None:
    assert says in refused(treering("plan", *arguments))


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.cli.plan._PER_DECADE", 1)


@pytest.mark.usefixtures("few_points")
def test_a_chart_as_svg(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    done = treering("plan", *BASE, "--plot", path)
    assert done.code == 0, done.err
    assert str(path) in done.out
    text = path.read_text()
    ElementTree.fromstring(text)
    assert "ContinualHistogram" in text
    assert "PMWG" in text


@pytest.mark.usefixtures("few_points")
def test_a_chart_as_html_needs_nothing_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "plan.html"
    done = treering(
        "plan", "--cells", 128, "--epsilon", 1, "--delta", "1e-9", "--alpha", 0.01, "--plot", path, "--json"
    )
    assert (done.json["wanted"], done.json["best"]) == ("size", "Rings")
    text = path.read_text()
    assert "ContinualHistogram" in text
    assert re.search(r"<script[^>]*\ssrc=", text) is None


def test_a_curve_with_gaps_is_drawn_in_pieces() -> None:
    curve = Line("a <b>", [1, 10, 100, 1000, 10000], [0.5, None, 0.1, 0.01, None], "#000")
    other = Line("c", [1, 10, 100], [0.2, 0.1, None], "#111", dashes="5 4")
    text = picture(Chart("title & more", (curve, other)))
    shapes = [each for each in ElementTree.fromstring(text).iter() if {"#000", "#111"} & set(each.attrib.values())]
    kinds = [each.tag.partition("}")[2] for each in shapes]
    assert kinds == ["line", "line", "circle", "polyline", "polyline"]  # the legend; a point and a piece; a piece
    assert [each.get("stroke-dasharray") is not None for each in shapes] == [False, True, False, False, True]
    assert "a &lt;b&gt;" in text


def test_an_empty_chart_is_a_chart() -> None:
    ElementTree.fromstring(picture(Chart("nothing", ())))


def test_numbers_as_people_write_them() -> None:
    assert [number(text) for text in ("1000", "1_000", "1,000", "1e3", " 1000 ", 1000)] == [1000.0] * 6
    assert count("2^20") == 2**20
    assert endless("forever") == math.inf
    assert math.isnan(last_size("none"))
    assert last_size("1e7") == 1e7
