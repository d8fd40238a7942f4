"""Rich at a terminal, plain in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from treering.cli import output as render
from treering.cli.look import show_status
from treering.cli.output import Output
from treering.cli.plan import show
from treering.theory.plan import plan


def terminal() -> tuple[Output, io.StringIO]:
    written = io.StringIO()
    return Output(console=Console(file=written, force_terminal=True, width=140, color_system="truecolor")), written


def test_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(["a", "number"], [["x", "1"], ["longer", "100"]], right=(1,))
    assert capsys.readouterr().out.splitlines() == [
        "a       number",
        "------  ------",
        "x            1",
        "longer     100",
    ]


def test_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    for part in (0.0, 0.5, 1.5):
        Output().bar(part, "spent", width=4)
    assert capsys.readouterr().out.splitlines() == ["[....] spent", "[##..] spent", "[####] spent"]


def test_a_terminal_gets_colours_and_no_markup_of_ours() -> None:
    out, written = terminal()
    out.line("[bold] is text", "bold")
    out.table(["head"], [["[red]x"]], styles=["green"])
    out.bar(0.95, "spent")
    assert "[bold] is text" in written.getvalue()
    assert "[red]x" in written.getvalue()
    assert "\x1b[31m█" in written.getvalue()


def test_the_plan_at_a_terminal() -> None:
    out, written = terminal()
    show(out, plan(128, 10**6, 1.0, 1e-9), "treering create VAULT")
    assert "\x1b[1;32m" in written.getvalue()


def test_rings_are_drawn() -> None:
    out, written = terminal()
    mechanism = {
        "name": "ermg",
        "share": 1.0,
        "spent": 0.1,
        "remaining": 0.9,
        "hard_queries": None,
        "guarantee": {"alpha": None},
        "epochs": [{"size": size} for size in range(10, 40)],
        "next_epoch": 1000,
    }
    top = {"size": 5, "batches": 1, "dropped": 2, "cells": 4, "promise": "epsilon 1", "spent": 0.1, "total": 1.0}
    rest = {"unit": "epsilon", "remaining": 0.9, "mechanisms": [mechanism], "table": None, "head": "a", "entries": 3}
    show_status(out, {**top, **rest})
    text = written.getvalue()
    assert "5 rows in 1 batch;" in text
    assert "Rows stay in" not in text
    assert "((((((((((((((((((((•)))))))))))))))))))) 30 rings" in text
    assert "10, 11, 12, …, 36, 37, 38, 39; the next at 1,000" in text
    assert "no guarantee yet" in text


def test_progress_is_silent_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with render.progress("working", "rows") as advance:
        advance(1, 2)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_a_rate_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with render.progress("working", "rows") as advance:
        advance(1, 2)
        advance(2, 2)
    assert "working" in capsys.readouterr().err
