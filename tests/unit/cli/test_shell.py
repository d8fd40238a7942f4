"""`treering shell`: one conversation with an open vault, from a pipe and at a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

import treering as tr
from support.cli import Done
from support.markdown import blocks
from support.repository import ROOT
from support.terminal import terminal
from treering.cli.main import app
from treering.cli.shell import words

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA"),
        "month": tr.integers(1, 12),
        "delay": tr.bins([-1440, 0, 15, 60, 1440], missing=True),
    }
)
ROWS = 24_000
BY_ORIGIN = "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin ORDER BY origin"


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(Path(tmp_path_factory.mktemp("shell")) / "flights.treering")


def made(path: Path) -> Path:
    """A new vault of flights."""
    with tr.Vault.create(path, SCHEMA, epsilon=1.0, delta=1e-6, beta=1e-6) as opened:
        opened.append(
            pa.table(
                {
                    "origin": [("JFK", "EWR", "LGA")[row % 3] for row in range(ROWS)],
                    "month": [row % 12 + 1 for row in range(ROWS)],
                    "delay": [(-5.0, 3.0, 80.0, None)[row % 4] for row in range(ROWS)],
                }
            )
        )
    return path


def piped(vault: Path, *lines: str, options: tuple[str, ...] = ()) -> Done:
    """The shell with lines from a pipe."""
    result = CliRunner().invoke(app, ["shell", str(vault), *options], input="\n".join(lines) + "\n")
    return Done(result.exit_code, result.stdout, result.stderr)


# -- a pipe ------------------------------------------------------------------------------------------------------------


def test_predicates_and_statements_are_answered_in_turn(vault: Path) -> None:
    done = piped(vault, "-- a comment", "", "origin = 'JFK'", BY_ORIGIN + ";", "\\q", "never = 'read'")
    assert (done.code, done.err) == (0, "")
    first, rest = done.out.split(" left.\n", 1)
    assert re.search(r"Price: rho [\d.e-]+ at most\.\n[\d,]+ rows ± \d+ of 24,000  \([\d.]+% ± [\d.]+%\)\nrho", first)
    assert re.search(r"JFK +[\d,]+ ± \d+", rest)
    assert re.search(r"^LGA  █+▒*$", rest, re.MULTILINE)


def test_what_was_asked_before_is_free(vault: Path) -> None:
    piped(vault, BY_ORIGIN)
    done = piped(vault, BY_ORIGIN, "origin = 'EWR'")
    assert done.out.count("Price: nothing.") == 2
    assert len(set(re.findall(r"rho .* left", done.out))) == 1


def test_commands(vault: Path) -> None:
    plan = "\\plan SELECT month, origin, COUNT(*) FROM flights GROUP BY month, origin"
    done = piped(vault, "\\d", "\\status", plan, "\\plan month = 3", "\\help")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^month +the integers 1 to 12 +12$", done.out, re.MULTILINE)
    assert "24,000 rows; rings." in done.out
    assert re.search(r"\[#*\.*\] rho .* of .* spent", done.out)
    assert "36 groups, 1 number each, by rings." in done.out
    assert "One count, by rings." in done.out
    assert "\\export FILE" in done.out


def test_a_plan_releases_nothing(vault: Path) -> None:
    with tr.Vault.open(vault) as opened:
        before = opened.left(opened.size)
    piped(vault, "\\plan delay >= 60 AND month = 2", "EXPLAIN SELECT delay, COUNT(*) FROM flights GROUP BY delay")
    with tr.Vault.open(vault) as opened:
        assert opened.left(opened.size) == before


def test_a_margin_can_be_wished_for(vault: Path) -> None:
    done = piped(
        vault, "\\within 400", "month = 4 AND delay >= 60", "\\within", "\\within 5%", options=("--within", "2%")
    )
    assert done.code == 0
    said = ["± 2% is wanted from now on.", "± 400 is wanted from now on.", "No margin is wanted.", "± 5% is wanted"]
    places = [done.out.index(each) for each in said]
    assert places == sorted(places)
    (margin,) = re.findall(r"rows ± (\d+) of", done.out)
    assert int(margin) <= 401


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_last_table_is_exported(vault: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    done = piped(vault, BY_ORIGIN, f"\\export {path}")
    assert f"3 rows written to {path}." in done.out
    table = csv.read_csv(path) if ending == "csv" else parquet.read_table(path)
    assert table.column_names == ["origin", "n", "n_margin"]
    assert table["origin"].to_pylist() == ["EWR", "JFK", "LGA"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("orgin = 'JFK'", "orgin"),
        ("SELECT * FROM flights", "rows are private"),
        ("\\nothing", "\\help lists"),
        ("\\plan", "takes a question"),
        ("\\within much", "much"),
        ("\\export out.csv", "no table yet"),
    ],
)
def test_the_first_line_that_fails_ends_it_and_is_named(vault: Path, line: str, said: str) -> None:
    done = piped(vault, "\\status", line, "\\help")
    assert done.code == 2
    assert done.err.startswith("treering: line 2: ")
    assert said in done.err
    assert "Traceback" not in done.err
    assert "leave" not in done.out


def test_a_table_is_exported_to_known_files_only(vault: Path) -> None:
    done = piped(vault, BY_ORIGIN, "\\export out.xls")
    assert done.code == 2
    assert ".csv or .parquet" in done.err


# -- a terminal --------------------------------------------------------------------------------------------------------


def test_words_that_are_completed() -> None:
    found = words(SCHEMA)
    assert {"origin", "month", "delay", "'JFK'", "GROUP BY", "\\status"} <= set(found)
    assert len(found) == len(set(found))


def test_at_a_terminal_words_are_completed_and_mistakes_end_nothing(vault: Path, tmp_path: Path) -> None:
    own = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "120"}
    with terminal(["shell", str(vault)], own) as (screen, program):
        screen.read_until("treering>")
        screen.type("ori")
        screen.read_until("origin")
        screen.type("\t = 'JFK'\r")
        screen.read_until("rows ±")
        screen.type("orgin = 'JFK'\r")
        screen.read_until("did you mean")
        screen.type("\\q\r")
        assert program.wait(60) == 0
    assert "origin = 'JFK'" in (tmp_path / "treering" / "history").read_text()


def test_the_transcript_of_the_page_is_what_is_shown(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    (transcript,) = (block.code for block in blocks(page) if block.info == "text" and "treering shell" in block.code)
    typed = re.findall(r"^treering> (.*)$", transcript, re.MULTILINE)
    assert len(typed) >= 4
    own = {"TERM": "dumb", "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "100"}
    with terminal(["shell", str(made(tmp_path / "flights.treering"))], own) as (screen, program):
        shown = screen.read_until("treering> ")
        for line in typed[:-1]:
            screen.type(line + "\r")
            shown += screen.read_until("treering> ")
        screen.type(typed[-1] + "\r")
        assert program.wait(60) == 0
    assert masked(shown + typed[-1]) == masked(transcript.split("\n", 1)[1])


def masked(text: str) -> list[str]:
    """The lines of a transcript, numbers, bars and spaces of any length as one of them."""
    lines = (re.sub(r"[█▒░]+", "█", re.sub(r"\d[\d,.e-]*", "#", line)) for line in text.splitlines())
    return [" ".join(line.replace("─", "").split()) for line in lines if line.strip(" ─")]
