"""The newcomer's path: the demonstration, then the four commands that README and demonstration suggest, as printed.

`make newcomer` runs this with an environment that `make setup` has just made, for the newest Python of the machine: its
folder is in the variable NEWCOMER. Without it, the environment of the tests is a newcomer's, too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.markdown import blocks
from support.repository import ROOT

PROGRAM = ".venv/bin/treering"


def suggested() -> list[str]:
    """The commands of the README's second block."""
    (_, second, *_) = [block for block in blocks((ROOT / "README.md").read_text()) if block.info == "sh"]
    return second.code.splitlines()


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which the demonstration ran, as far as the middle of May, and what it printed."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / ".venv").symlink_to(ROOT / os.environ.get("NEWCOMER", Path(sys.executable).parents[1]))
    return folder, run(f"{PROGRAM} demo --days 134", folder)


def run(command: str, folder: Path) -> str:
    """What a command prints; it must succeed."""
    # Without the environment's programs on the path, as a newcomer has it.
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demonstration_tells_a_story_and_leaves_a_report(visited: tuple[Path, str]) -> None:
    folder, told = visited
    asked = re.search(r"([\d,]+) questions were asked. ([\d,]+) of them were about nothing new", told)
    assert asked is not None
    assert int(asked[1].replace(",", "")) > int(asked[2].replace(",", "")) > 0
    assert "of the promise is spent" in told
    assert re.search(r"An answer of the last day: [\d,]+ ± [\d,]+ flights of \w+ were late; in truth [\d,]+\.", told)
    assert re.search(r"[\d.]+% of them were within their margin", told)
    assert re.search(r"(No answer was|[\d,]+ answers were) beyond its error", told)
    page = (folder / "demo" / "report.html").read_text()
    assert page.count("<svg") == 7  # six charts, and the rings
    assert len(page) < 1_000_000
    assert '<meta name="viewport" content="width=device-width' in page  # it fits a phone
    assert not re.search(r'<(script|link|img)[^>]*(src|href)="', page)


def test_the_next_commands_are_those_of_the_readme(visited: tuple[Path, str]) -> None:
    folder, told = visited
    printed = [line.strip() for line in told.splitlines() if line.startswith(f"  {PROGRAM}")]
    assert printed == suggested()
    assert len(printed) == 4
    answers = [run(command, folder) for command in printed]
    assert "Promise: epsilon 1, delta 1e-06" in answers[0]
    assert margin(answers[1]) < 300
    assert len(re.findall(r"^ *\d+ +[\d,]+ ± [\d,]+", answers[2], flags=re.M)) == 12
    assert "Free" in answers[1]
    assert "Free" in answers[2]
    assert margin(answers[3]) <= 201  # what was wished for, and the rounding
    assert "Cost rho" in answers[3]


def margin(told: str) -> int:
    """The margin of an answer as it is shown."""
    found = re.search(r"[\d,]+ rows ± ([\d,]+) of 122,128", told)
    assert found is not None
    return int(found[1].replace(",", ""))


def test_it_may_be_run_again_but_leaves_other_folders_alone(visited: tuple[Path, str]) -> None:
    folder, _ = visited
    mine = folder / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    done = subprocess.run(
        [f"{folder}/{PROGRAM}", "demo", "--out", "mine"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "not of the demonstration's making" in done.stderr
    assert (mine / "thesis.txt").read_text() == "precious"


def test_json_has_every_figure_of_the_summary(visited: tuple[Path, str]) -> None:
    folder, _ = visited
    plain = json.loads(run(f"{PROGRAM} demo --days 134 --json", folder))
    assert set(plain) == {
        *("size", "asked", "known", "spent", "remaining", "unit", "answers", "auc", "seconds", "vault", "report"),
        "next",
    }
    assert plain["size"] == 122_128
    assert plain["answers"].keys() == {"dashboard", "analyst"}
    for told in plain["answers"].values():
        assert told["within_margin"] > 0.5 * told["asked"] > 0
        assert told["largest_margin"] < 0.005 < told["largest_error"] < 0.02
    assert plain["next"] == suggested()
