"""`treering demo`: a year of real flights in a vault, with a summary and a report."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.output import JsonFlag, Output, progress
from treering.errors import VaultError
from treering.words import reason

if TYPE_CHECKING:
    from treering.demo.story import Story

_EXAMPLES: Final = """Examples:

\b
  treering demo
  treering demo --out elsewhere
"""
_MARK: Final = ".made-by-treering-demo"
"""A folder with this file in it was made by the demonstration, which may replace it."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the vault and the report go.")] = Path("demo"),
    days: Annotated[int, typer.Option(metavar="NUMBER", min=134, max=365, help="How much of the year.")] = 365,
    as_json: JsonFlag = False,
) -> None:
    """See it work: a year of real flights, streamed into a vault.

    All that left New York in 2013, day by day, with thousands of questions and a model on the way.
    """
    from treering.demo.flights import archive
    from treering.demo.report import report, sentences
    from treering.demo.story import live_through_the_year

    archive()  # raises if the flights are missing, before the folder is made
    _make_room(out)
    vault, page = out / "flights.treering", out / "report.html"
    shown = Output(as_json)
    if not as_json:
        shown.line("The flights that left New York in 2013, day by day, into a vault.", "bold")
    with progress("streaming the year", "days") as advance:
        story = live_through_the_year(vault, lambda done, whole, _: advance(done, whole), days)
    page.write_text(report(story), encoding="utf-8")
    shown.result(_plain(story, vault, page), lambda output: _tell(output, sentences(story), story, vault, page))


def _make_room(out: Path) -> None:
    """Make the empty folder ``out``. One that an earlier demonstration made is removed first; any other is an error."""
    if out.exists():
        if not (out / _MARK).is_file():
            raise VaultError(f"{out} exists, and is not of the demonstration's making: give --out a new folder")
        shutil.rmtree(out)
    try:
        out.mkdir(parents=True)
        (out / _MARK).write_text("treering demo made this folder, and may remove it.\n")
    except OSError as error:
        raise VaultError(f"cannot write to {out}: {reason(error)}") from None


def _tell(output: Output, told: list[str], story: Story, vault: Path, page: Path) -> None:
    for sentence in told:
        output.line()
        output.line(sentence)
    output.line()
    output.bar(1 - story.unused, f"{1 - story.unused:.0%} of the promise is spent")
    output.line()
    output.line(f"Done in {story.seconds:.0f} seconds. The report, with charts: {page}")
    output.line("Next, try:", "bold")
    for command in next_commands(vault):
        output.line(f"  {command}")


def next_commands(vault: Path) -> list[str]:
    """Commands to try with the vault, as they can be typed in this shell."""
    program = "treering" if shutil.which("treering") else sys.argv[0]
    return [
        f"{program} status {vault}",
        f"{program} ask {vault} \"origin = 'JFK' AND delay >= 60\"",
        f'{program} ask {vault} --sql "SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month"',
        f"{program} ask {vault} \"carrier = 'B6' AND month = 2 AND delay >= 60\" --within 200",
    ]


def _plain(story: Story, vault: Path, page: Path) -> dict[str, Any]:
    answers = {
        name: {
            "asked": tally.asked,
            "within_margin": tally.inside,
            "beyond_error": tally.beyond,
            "largest_margin": max(tally.margins),
            "largest_error": tally.error,
            "worst": tally.off,
        }
        for name, tally in story.tallies.items()
    }
    return {
        "size": story.status["size"],
        "asked": story.asked,
        "known": story.known,
        "spent": story.status["spent"],
        "remaining": story.status["remaining"],
        "unit": story.status["unit"],
        "answers": answers,
        "auc": story.moments[-1].auc,
        "seconds": story.seconds,
        "vault": str(vault),
        "report": str(page),
        "next": next_commands(vault),
    }
