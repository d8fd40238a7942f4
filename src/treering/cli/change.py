"""`treering erase` and `treering correct`: rows that must go, or were wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treering.cli.output import JsonFlag, Output, VaultPath, progress, writing
from treering.cli.rows import row_file
from treering.words import counted

if TYPE_CHECKING:
    from treering.vault.changing import Change
    from treering.vault.vault import Vault

_ERASE_EXAMPLES = """Examples:

\b
  treering erase visits.treering 17 18 --dry-run        what would happen, and nothing does
  treering erase visits.treering 17 18
  treering erase visits.treering --person p7            all rows of a person
  treering erase visits.treering --from requests.txt    a key a line
"""
_CORRECT_EXAMPLES = """Examples:

\b
  treering correct visits.treering corrected.csv --dry-run
  treering correct visits.treering corrected.csv --end  start answers that held these rows anew
"""

DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")]
EndFlag = Annotated[
    bool, typer.Option("--end", help="End series that have counted these rows, instead of widening their margins.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_ERASE_EXAMPLES)(erase)
    app.command(epilog=_CORRECT_EXAMPLES)(correct)


def erase(
    vault: VaultPath,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="The keys of rows, by the --key column.")
    ] = None,
    person: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A person, all of whose rows are erased; may be repeated.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A text file with a key a line.")
    ] = None,
    dry_run: DryRunFlag = False,
    end: EndFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Erase rows for good, all of those named or none. Costs no row anything.

    What the rows said is overwritten in the vault. Backups of it, and copies, are not touched: destroy them. Answers
    that were released are out, and were made so that they would look almost the same had the rows said something else.
    """
    named = [*(keys or []), *_lines(source)]
    if bool(named) == bool(person):
        raise typer.BadParameter("name rows by KEYs (or --from a file), or by --person, and not by both")
    if person:
        _change(vault, lambda opened: partial(opened.erase, persons=person), dry_run, end, as_json, "erased")
    else:
        _change(vault, lambda opened: partial(opened.erase, named), dry_run, end, as_json, "erased")


def correct(
    vault: VaultPath,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The rows as they should be, with their keys.")],
    dry_run: DryRunFlag = False,
    end: EndFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Correct rows to what a file says of them, all of them or none. Costs no row anything.

    The file has the key column and all columns of the schema. What the rows said before is overwritten.
    """
    given = row_file(file)
    _change(vault, lambda opened: partial(opened.correct, given), dry_run, end, as_json, "corrected")


def _lines(source: Path | None) -> list[str]:
    if source is None:
        return []
    if not source.is_file():
        raise typer.BadParameter(f"there is no file {source}")
    return [line.strip() for line in source.read_text(encoding="utf-8").splitlines() if line.strip()]


def _change(
    vault: Path, work: Callable[[Vault], Callable[..., Change]], dry_run: bool, end: bool, as_json: bool, word: str
) -> None:
    with writing(vault) as opened, progress(f"{word}", "rows"):
        told = work(opened)(dry_run=dry_run, end=end)
    Output(as_json).result(told.to_dict(), lambda out: _show(out, vault, told, word))


def _show(out: Output, vault: Path, told: Change, word: str) -> None:
    would = "" if told.done else "would be "
    if told.held:
        what = "end" if told.ended else "go on, with margins wider by as many rows (--end would end them)"
        out.line(f"Series that have counted some of these rows {what}:")
        rows = [
            [name, ", ".join(held.attributes) or "all rows", f"{held.rows:,}", f"{held.margin:,.0f}"]
            for name, held in told.held
        ]
        out.table(["mechanism", "by", "rows", "margin now"], rows, right=(2, 3))
    has = "has" if told.done else "would have"
    rest = f"{vault} {has} {counted(told.size, 'row')}"
    out.line(f"{counted(told.rows, 'row')} {would}{word}, at no cost; {rest}.", "bold")
