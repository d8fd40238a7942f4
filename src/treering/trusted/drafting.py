"""Drafts within a promise: a public program asks a gate to the rows of one file, and writes a schema from the answers.

*Formal guarantee.* The gate has a share of a vault's budget, and half of what is set aside for discoveries. What it has
released is put on record as the first events of the vault's first mechanism, charged to the positions 1 to n; the n
rows of the file are the vault's first rows, at these positions. So the rows have one ledger, and what they paid for the
draft is a part of it. A vault is there with these rows, or not at all: `finish` names its folder last.

What is public of a file beforehand: the names of its columns and, in Parquet and Arrow files, their types.
"""

from __future__ import annotations

import csv
import gzip
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from treering.budget.promise import Budget, Promise
from treering.domain.attribute import Attribute, categories
from treering.domain.axis import Scalar, scalar_of
from treering.domain.calendar import dates
from treering.domain.numeric import numbers
from treering.domain.schema import Schema
from treering.errors import DataError, VaultError
from treering.gate import Event
from treering.protocols import Gate
from treering.rowfile import DELIMITERS, RowFile
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.ledger.disk import sync_folder
from treering.trusted.rows.intake import Intake, typed_blocks
from treering.trusted.rows.kept import Rows


class Column(NamedTuple):
    """A column of a file: public. Of texts, what they say is not known: they are looked at as each of the scalars."""

    name: str
    scalars: tuple[Scalar, ...]


class Drafted(NamedTuple):
    """What was drafted: public."""

    schema: Schema
    events: tuple[Event, ...]
    rows: int


Program = Callable[[Gate, Sequence[Column]], Schema]
"""Makes a schema of what a gate releases."""


def draft(file: RowFile, promise: Promise, share: Fraction, program: Program) -> Drafted:
    """The schema that a program makes of what it has released, and what that was."""
    fields = _fields(file)
    if not fields:
        raise DataError(f"{file.path} has no column of texts, numbers or dates")
    raw = Schema({name: attribute for each in fields.values() for name, attribute in each.items()})
    rows = Rows(raw)
    for table in typed_blocks(file, raw, None, drop=True, intake=Intake()):
        rows.add(table)
    budget = promise.budget
    gate = Kernel(rows, Budget(budget.kind, budget.total * share), MemoryJournal(), aside=promise.failure / 2)
    columns = [
        Column(name, tuple(scalar_of(each, attribute) for each, attribute in raws.items()))
        for name, raws in fields.items()
    ]
    schema = program(gate, columns)
    return Drafted(schema, tuple(gate.history), rows.size)


@contextmanager
def finish(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder for a block that makes a vault in it, which gets its name at the end: after an error there is none."""
    target = Path(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise VaultError(f"{target} exists already: create a vault in a new place, or open this one")
    unnamed = target.with_name(f"{target.name}.drafting")
    shutil.rmtree(unnamed, ignore_errors=True)  # What a crash has left: nobody has seen its schema.
    try:
        yield unnamed
        unnamed.rename(target)
        sync_folder(target.resolve().parent)
    except BaseException:
        shutil.rmtree(unnamed, ignore_errors=True)
        raise


# -- what is public of a file ------------------------------------------------------------------------------------------

_TEXTS: Final = ("text", "number", "moment")


def _fields(file: RowFile) -> dict[str, dict[str, Attribute]]:
    """For each column that can make an attribute, the attributes that it is looked at as."""
    try:
        if file.separated:
            return {name: _raw(name, _TEXTS) for name in _header(file)}
        if file.ending == ".parquet":
            types = pq.read_schema(file.path)
        elif file.ending in (".arrow", ".feather"):
            with pa.memory_map(str(file.path)) as source:
                types = pa.ipc.open_file(source).schema
        else:
            raise DataError(f"{file.path}: a draft is made of separated texts, Parquet or Arrow files")
    except (pa.ArrowException, OSError, UnicodeError, csv.Error):
        problem = DataError(f"{file.path} cannot be read, or it is damaged")
    else:
        found = {each.name: _raw(each.name, _kinds(each.type)) for each in types}
        return {name: raws for name, raws in found.items() if raws}
    raise problem


def _header(file: RowFile) -> list[str]:
    opened = gzip.open if file.path.name.lower().endswith(".gz") else open
    with opened(file.path, "rt", encoding=file.encoding or "utf-8-sig") as stream:
        line = stream.readline(2**20)
    usual = "\t" if file.ending == ".tsv" else ","
    delimiter = file.delimiter or max((usual, *DELIMITERS), key=line.count)
    names = next(csv.reader([line], delimiter=delimiter), [])
    return [name for name in names if name.strip() and names.count(name) == 1]


def _kinds(kind: pa.DataType) -> tuple[str, ...]:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(inner) or pa.types.is_large_string(inner):
        return ("text",)
    if pa.types.is_integer(inner) or pa.types.is_floating(inner):
        return ("number",)
    zoned = pa.types.is_timestamp(inner) and inner.tz is not None
    return ("moment",) if (pa.types.is_date(inner) or pa.types.is_timestamp(inner)) and not zoned else ()


def _raw(name: str, kinds: Sequence[str]) -> dict[str, Attribute]:
    made: dict[str, Callable[[], Attribute]] = {
        "text": lambda: categories("-", other=True, missing=True, column=name),
        "number": lambda: numbers(0, 1, column=name),
        "moment": lambda: dates("2000-01-01", "2000-12-31", by="year", column=name),
    }
    return {f"{name} as {kind}": made[kind]() for kind in kinds}
