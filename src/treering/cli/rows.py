"""`treering append` and `treering refresh`: new rows for a vault, from files or from the table that they stay in.

Files are CSV, Parquet, Arrow or lines of JSON, by the end of their names. Error messages of their readers are not
passed on, because they might quote a row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from treering.errors import DataError, TreeringError
from treering.words import counted

if TYPE_CHECKING:
    from treering.domain.schema import Schema
    from treering.vault.vault import Vault

_APPEND_EXAMPLES = """Examples:

\b
  treering append flights.treering january.parquet february.csv
  treering append flights.treering march.csv --on-invalid drop
  treering append flights.treering april.csv --key april         safe to run twice
"""
_REFRESH_EXAMPLES = """Examples:

\b
  treering refresh flights.treering
  treering refresh flights.treering --on-invalid drop
  PGPASSWORD=... treering refresh flights.treering      or have the password in ~/.pgpass
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_APPEND_EXAMPLES)(append)
    app.command(epilog=_REFRESH_EXAMPLES)(refresh)


def append(
    vault: VaultPath,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Rows: .csv, .csv.gz, .parquet, .arrow, .feather or .jsonl.")
    ],
    on_invalid: OnInvalidFlag = "refuse",
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A name for this work: done twice, it counts once.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Take in rows from files. Costs nothing.

    Each file is taken in whole or not at all: if one is refused, those before it are in.
    """
    invalid = refuse_or_drop(on_invalid)
    for path in files:
        suffix(path)
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {path}")
    made = origin(vault)
    if made["source"] is not None:
        raise typer.BadParameter(f"rows of {vault} stay in {table_of(made)}: add them there, then `treering refresh`")
    taken: list[dict[str, Any]] = []
    with writing(vault) as opened, progress("appending", "rows") as advance, _telling(taken):
        start = opened.size
        for place, path in enumerate(files, start=1):
            table = read_table(path, opened.schema, made["person"])
            advance(opened.size - start, opened.size - start + table.num_rows)
            name = None if key is None else key if len(files) == 1 else f"{key}:{place}"
            with _located(path):
                taken.append({"file": str(path), **_came(opened, partial(opened.append, table, invalid, name))})
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
def _located(path: Path) -> Iterator[None]:
    """Name the file, and the line, in an error about its rows."""
    from treering.vault.intake import located

    try:
        yield
    except DataError as error:
        problem = located(error, path, suffix(path))
    else:
        return
    raise problem


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
    rows = [[each[what], f"{each['rows']:,}", f"{each['dropped']:,}", f"{each['size']:,}"] for each in taken]
    out.table([what, "rows", "dropped", "size"], rows, right=(1, 2, 3))
    out.line(f"{vault} has {counted(size, 'row')}.", "bold")


# -- reading and writing files -----------------------------------------------------------------------------------------


SUFFIXES: Final = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson")

_NULLS: Final = ("", "NA", "N/A", "NULL", "null", "NaN", "nan", "None")
"""The texts that mean a missing value in a CSV file, unless they are categories of the schema."""


def suffix(path: Path) -> str:
    """The suffix of a file's name, which says how the file is read."""
    kind = next((each for each in SUFFIXES if path.name.lower().endswith(each)), None)
    if kind is None:
        raise typer.BadParameter(f"{path} must end in one of {', '.join(SUFFIXES)}")
    return kind


def read_table(path: Path, schema: Schema | None = None, person: str | None = None) -> Any:
    """A file's rows as an Arrow table; with a ``schema``, only its columns and the column ``person`` of person ids."""
    kind = suffix(path)
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}")
    import pyarrow as pa

    from treering.vault.intake import unreadable

    with suppress(pa.ArrowException, OSError):  # may quote a value: replaced, outside this block
        return _READERS[kind](path, schema, person)
    raise unreadable(path, kind)


def write_table(table: Any, path: Path) -> None:
    """Write rows as CSV or Parquet."""
    from pyarrow import csv, parquet

    if path.name.lower().endswith(".parquet"):
        parquet.write_table(table, path)
    else:
        csv.write_csv(table, path)


def check_output(path: Path) -> None:
    """Raise if ``path`` has another suffix than .parquet or .csv, or if its folder does not exist."""
    if not path.name.lower().endswith((".parquet", ".csv")):
        raise typer.BadParameter(f"{path.name} must end in .parquet or .csv")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder of {path} does not exist")


def _csv(path: Path, schema: Schema | None, person: str | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    from treering.domain.attribute import Categories

    types: dict[str, Any] = {} if person is None else {person: pa.string()}
    categories: set[str] = set()
    for name, attribute in (schema.attributes if schema is not None else {}).items():
        if isinstance(attribute, Categories) and isinstance(attribute.values[0], str):
            types[name] = pa.string()  # a code such as 007 is a text
            categories |= {str(value) for value in attribute.values}
    nulls = [word for word in _NULLS if word not in categories]
    convert = csv.ConvertOptions(column_types=types, null_values=nulls, strings_can_be_null=True)
    return _kept(path, csv.read_csv(path, convert_options=convert), schema, person)


def _parquet(path: Path, schema: Schema | None, person: str | None) -> Any:
    from pyarrow import parquet

    if schema is None:
        return parquet.ParquetFile(path).read()  # also where a name is there twice
    return parquet.read_table(path, columns=_wanted(path, parquet.read_schema(path).names, schema, person))


def _arrow(path: Path, schema: Schema | None, person: str | None) -> Any:
    from pyarrow import feather

    return _kept(path, feather.read_table(path), schema, person)


def _json(path: Path, schema: Schema | None, person: str | None) -> Any:
    from pyarrow import json

    return _kept(path, json.read_json(path), schema, person)


def _kept(path: Path, table: Any, schema: Schema | None, person: str | None) -> Any:
    return table if schema is None else table.select(_wanted(path, table.column_names, schema, person))


def _wanted(path: Path, names: list[str], schema: Schema, person: str | None) -> list[str]:
    """The columns to keep, each of which the file may have only once. The vault reports those that are missing."""
    wanted = (*schema.names, *([] if person is None else [person]))
    for name in wanted:
        if names.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} more than once", column=name)
    return [name for name in wanted if name in names]


_READERS: Final[dict[str, Callable[[Path, Schema | None, str | None], Any]]] = {
    ".csv": _csv,
    ".csv.gz": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".jsonl": _json,
    ".ndjson": _json,
}
