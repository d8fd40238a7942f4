"""Tables in files: CSV, Parquet, Arrow and lines of JSON, by the end of the name.

No message of a reader is passed on: it might quote a row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from treering.errors import DataError

if TYPE_CHECKING:
    from treering.domain.schema import Schema

SUFFIXES: Final = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson")

_NULLS: Final = ("", "NA", "N/A", "NULL", "null", "NaN", "nan", "None")
"""What stands for a missing value in a CSV file, unless it is a category."""


def suffix(path: Path) -> str:
    """The kind of a file."""
    kind = next((each for each in SUFFIXES if path.name.lower().endswith(each)), None)
    if kind is None:
        raise typer.BadParameter(f"{path.name} must end in one of {', '.join(SUFFIXES)}")
    return kind


def read_table(path: Path, schema: Schema | None = None, person: str | None = None) -> Any:
    """A file's rows as an Arrow table; with a schema, only the columns that it has, and the one that says whose a row
    is."""
    kind = suffix(path)
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}")
    import pyarrow as pa

    try:
        return _READERS[kind](path, schema, person)
    except (pa.ArrowException, OSError):
        raise DataError(f"{path} cannot be read as {kind.lstrip('.')}") from None


def write_table(table: Any, path: Path) -> None:
    """Write rows as CSV or Parquet."""
    from pyarrow import csv, parquet

    if path.name.lower().endswith(".parquet"):
        parquet.write_table(table, path)
    else:
        csv.write_csv(table, path)


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written."""
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

    wanted = _wanted(path, parquet.read_schema(path).names, schema, person)
    return parquet.read_table(path, columns=None if schema is None else wanted)


def _arrow(path: Path, schema: Schema | None, person: str | None) -> Any:
    from pyarrow import feather

    return _kept(path, feather.read_table(path), schema, person)


def _json(path: Path, schema: Schema | None, person: str | None) -> Any:
    from pyarrow import json

    return _kept(path, json.read_json(path), schema, person)


def _kept(path: Path, table: Any, schema: Schema | None, person: str | None) -> Any:
    return table.select(_wanted(path, table.column_names, schema, person))


def _wanted(path: Path, names: list[str], schema: Schema | None, person: str | None) -> list[str]:
    """The columns to keep, each of them once; what is absent is for the vault to complain about."""
    wanted = dict.fromkeys(names) if schema is None else (*schema.names, *([] if person is None else [person]))
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
