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


def read_table(path: Path, schema: Schema | None = None) -> Any:
    """A file's rows as an Arrow table; with a schema, only the columns that it has."""
    kind = suffix(path)
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}")
    import pyarrow as pa

    try:
        return _READERS[kind](path, schema)
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


def _csv(path: Path, schema: Schema | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    from treering.domain.attribute import Categories

    types: dict[str, Any] = {}
    categories: set[str] = set()
    for name, attribute in (schema.attributes if schema is not None else {}).items():
        if isinstance(attribute, Categories) and isinstance(attribute.values[0], str):
            types[name] = pa.string()  # a code such as 007 is a text
            categories |= {str(value) for value in attribute.values}
    nulls = [word for word in _NULLS if word not in categories]
    convert = csv.ConvertOptions(column_types=types, null_values=nulls, strings_can_be_null=True)
    return _kept(csv.read_csv(path, convert_options=convert), schema)


def _parquet(path: Path, schema: Schema | None) -> Any:
    from pyarrow import parquet

    names = set(parquet.read_schema(path).names)
    return parquet.read_table(path, columns=None if schema is None else [n for n in schema.names if n in names])


def _arrow(path: Path, schema: Schema | None) -> Any:
    from pyarrow import feather

    return _kept(feather.read_table(path), schema)


def _json(path: Path, schema: Schema | None) -> Any:
    from pyarrow import json

    return _kept(json.read_json(path), schema)


def _kept(table: Any, schema: Schema | None) -> Any:
    """Only the columns of the schema; what is absent is for the vault to complain about."""
    if schema is None:
        return table
    return table.select([name for name in schema.names if name in table.column_names])


_READERS: Final[dict[str, Callable[[Path, Schema | None], Any]]] = {
    ".csv": _csv,
    ".csv.gz": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".jsonl": _json,
    ".ndjson": _json,
}
