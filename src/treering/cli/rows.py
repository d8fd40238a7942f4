"""`treering append` and `treering refresh`: new rows for a vault, from files or from the table that they stay in; and
`treering erase` and `treering correct`: rows that must go, or were wrong.

Files are separated texts, Parquet, Arrow or lines of JSON, by the end of their names. They are opened by the trusted
base only, a block of rows at a time. (`read_sample` reads what is public.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.output import (
    JsonFlag,
    OnInvalidFlag,
    Output,
    VaultPath,
    origin,
    progress,
    refuse_or_drop,
    table_of,
    writing,
)
from treering.errors import ParameterError, TreeringError
from treering.words import counted

if TYPE_CHECKING:
    from treering.rowfile import RowFile
    from treering.vault.changing import Change
    from treering.vault.vault import Vault

_APPEND_EXAMPLES = """Examples:

\b
  treering append flights.treering january.parquet february.csv
  treering append flights.treering march.csv --on-invalid drop
  treering append flights.treering may.csv --check               what would be taken in, and nothing is
  treering append flights.treering april.csv --key april         safe to run twice
"""
_REFRESH_EXAMPLES = """Examples:

\b
  treering refresh flights.treering
  treering refresh flights.treering --on-invalid drop
  PGPASSWORD=... treering refresh flights.treering      or have the password in ~/.pgpass
"""

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
    app.command(epilog=_APPEND_EXAMPLES)(append)
    app.command(epilog=_REFRESH_EXAMPLES)(refresh)
    app.command(epilog=_ERASE_EXAMPLES)(erase)
    app.command(epilog=_CORRECT_EXAMPLES)(correct)


def append(
    vault: VaultPath,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help=".csv, .tsv, .txt, .jsonl (all also .gz), .parquet, .arrow, .feather."),
    ],
    on_invalid: OnInvalidFlag = "refuse",
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help=r"What separates fields, if it is not found: ; or \t.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="The encoding of texts, if it is not found: cp1252, for example.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A name for this work: done twice, it counts once.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read the files and say what they hold; take in nothing.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Take in rows although the same ones came before.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Take in rows from files. Costs nothing.

    Each file is taken in whole or not at all: if one is refused, those before it are in. A file with just the rows of
    an earlier append is refused, unless --again, or a --key of their own, says that they are new ones.

    For each column it says how many values were unlisted, missing or outside. These are exact counts of private rows:
    they are for the steward who has the rows, and are kept nowhere.
    """
    invalid = refuse_or_drop(on_invalid)
    given = [row_file(path, delimiter, encoding) for path in files]
    made = origin(vault)
    if made["source"] is not None:
        raise typer.BadParameter(f"rows of {vault} stay in {table_of(made)}: add them there, then `treering refresh`")
    taken: list[dict[str, Any]] = []
    if check:
        with writing(vault) as opened, progress("reading", "rows"):
            taken = [{"file": str(file.path), **opened.check(file, invalid).to_dict()} for file in given]
        Output(as_json).result({"files": taken}, lambda out: _show_check(out, taken))
        return
    with writing(vault) as opened, progress("appending", "rows") as advance, _telling(taken):
        start = opened.size
        for place, file in enumerate(given, start=1):
            name = None if key is None else key if len(files) == 1 else f"{key}:{place}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what was dropped is in the result
                came = opened.take_in(file, invalid, name, again=again or key is not None)
            read = {} if came.known or opened.intake is None else opened.intake.to_dict()
            taken.append({"file": str(file.path), **read, **came._asdict()})
            advance(opened.size - start, opened.size - start)
        size = opened.size
    Output(as_json).result({"size": size, "files": taken}, lambda out: _show(out, vault, "file", taken, size))


def refresh(vault: VaultPath, on_invalid: OnInvalidFlag = "refuse", as_json: JsonFlag = False) -> None:
    """Take in the new rows of the table that they stay in. Costs nothing.

    For a vault made with --table. New are the rows whose order value is larger than all that were taken in before. They
    come in together or not at all, and none comes in twice, however often this runs. A table that lost rows since the
    last time, or gained some further down, is refused with exit code 1; rows that do not fit the schema, with 2.
    """
    invalid = refuse_or_drop(on_invalid)
    made = origin(vault)
    if made["source"] is None:
        raise typer.BadParameter(f"{vault} has no table of its own: `treering append` takes in rows from files")
    with writing(vault) as opened, progress("refreshing", "rows"):
        plain = {"table": table_of(made), **_came(opened, partial(opened.refresh, invalid))}
    Output(as_json).result(plain, lambda out: _show(out, vault, "table", [plain], plain["size"]))


def _came(vault: Vault, take_in: Callable[[], int]) -> dict[str, Any]:
    """Take in rows: how many came, how many were dropped, and the new size."""
    before, dropped = vault.size, vault.status()["dropped"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was dropped is in the result
        size = take_in()
    return {"rows": vault.size - before, "dropped": vault.status()["dropped"] - dropped, "size": size}


@contextmanager
def _telling(taken: Sequence[dict[str, Any]]) -> Iterator[None]:
    """Add to an error about one file which files are in already: appending those again would count them twice."""
    try:
        yield
    except TreeringError as error:
        if taken:
            error.add_note(f"Taken in before: {', '.join(each['file'] for each in taken)}.")
        raise


def _show(out: Output, vault: Path, what: str, taken: Sequence[dict[str, Any]], size: int) -> None:
    for each in taken:
        if each.get("known"):
            out.line(f"{each[what]} was taken in before, with this key: nothing has changed.")
    rows = [[each[what], f"{each['rows']:,}", f"{each['dropped']:,}", f"{each['size']:,}"] for each in taken]
    out.table([what, "rows", "dropped", "size"], rows, right=(1, 2, 3))
    _show_columns(out, what, taken)
    out.line(f"{vault} has {counted(size, 'row')}.", "bold")


def _show_check(out: Output, taken: Sequence[dict[str, Any]]) -> None:
    rows = [[each["file"], f"{each['rows']:,}", f"{each['dropped']:,}"] for each in taken]
    out.table(["file", "rows", "dropped"], rows, right=(1, 2))
    _show_columns(out, "file", taken)
    out.line("Nothing was taken in.", "bold")


def _show_columns(out: Output, what: str, taken: Sequence[dict[str, Any]]) -> None:
    """Show the columns that have unlisted, missing or outside values."""
    rows = [
        [each[what], name, *(f"{column[kind]:,}" for kind in _KINDS)]
        for each in taken
        for name, column in each.get("columns", {}).items()
        if any(column[kind] for kind in _KINDS)
    ]
    if rows:
        out.line("Values that the schema does not list (exact counts, for you alone):")
        out.table([what, "column", *_KINDS], rows, right=(2, 3, 4))


_KINDS: Final = ("unlisted", "missing", "outside")


# -- erasing and correcting --------------------------------------------------------------------------------------------


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
    Output(as_json).result(told.to_dict(), lambda out: _show_change(out, vault, told, word))


def _show_change(out: Output, vault: Path, told: Change, word: str) -> None:
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


# -- reading and writing files -----------------------------------------------------------------------------------------


def row_file(path: Path, delimiter: str | None = None, encoding: str | None = None) -> RowFile:
    """A file of rows, which must exist; it is not opened."""
    from treering.rowfile import RowFile

    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}")
    try:
        return RowFile(path, "\t" if delimiter in ("\\t", "tab") else delimiter, encoding)
    except ParameterError as error:
        raise typer.BadParameter(str(error)) from None


def read_sample(path: Path, delimiter: str | None = None, encoding: str | None = None) -> Any:
    """The rows of a PUBLIC file as an Arrow table, with the types that its values suggest."""
    from treering.domain.drafting import read

    return read(row_file(path, delimiter, encoding))


def write_table(table: Any, path: Path) -> None:
    """Write rows as CSV or Parquet."""
    from pyarrow import csv, parquet

    if path.name.lower().endswith(".parquet"):
        parquet.write_table(table, path)
    else:
        from treering.shown import harmless

        csv.write_csv(harmless(table), path)


def check_output(path: Path) -> None:
    """Raise if ``path`` has another suffix than .parquet or .csv, or if its folder does not exist."""
    if not path.name.lower().endswith((".parquet", ".csv")):
        raise typer.BadParameter(f"{path.name} must end in .parquet or .csv")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder of {path} does not exist")
