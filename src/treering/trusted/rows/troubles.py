"""What is wrong with a file of rows, and on which line a row stands: told in numbers of lines and fields, never in
values. Files are read line by line, in bounded memory."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Final

from treering.words import counted

_TEXTS: Final = (".csv", ".csv.gz", ".jsonl", ".ndjson")
_BEGINNINGS: Final = {
    ".parquet": (b"PAR1",),
    ".arrow": (b"ARROW1", b"\xff\xff\xff\xff"),
    ".feather": (b"ARROW1", b"FEA1"),
}
_OTHERS: Final = {
    b"PK\x03\x04": "a zip file, or a spreadsheet",
    b"\x1f\x8b": "compressed by gzip",
    b"PAR1": "a Parquet file",
}
_MISSING: Final = ("NA", "N/A", "NULL", "NONE")
_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}


def trouble(path: Path, kind: str) -> str:
    """Why a file cannot be read, by the suffix of its name; empty if nothing is found."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError:
        return "it cannot be opened"
    if not start:
        return "it is empty"
    if kind in _BEGINNINGS:
        known = start.startswith(_BEGINNINGS[kind])
        return "" if known else f"it does not begin as a file of that kind does{_looks_like(start)}"
    if kind != ".csv.gz" and (other := _looks_like(start)):
        return other.removeprefix("; ")
    try:
        return _csv_trouble(path) if kind.startswith(".csv") else _json_trouble(path)
    except (OSError, EOFError, zlib.error):  # what gzip raises
        return "it is not, or not wholly, compressed by gzip"


def line_of(path: Path, kind: str, row: int) -> int | None:
    """The line on which a row, counted from 0, stands or ends; None if the file has no lines, or not so many rows."""
    if kind not in _TEXTS:
        return None
    try:
        with _opened(path) as file:
            if not kind.startswith(".csv"):
                return _nth((number for number, line in enumerate(file, 1) if line.strip()), row)
            reader = csv.reader(_text(file))
            return _nth((reader.line_num for fields in reader if fields), row + 1)  # after the header
    except (OSError, EOFError, ValueError, csv.Error, zlib.error):
        return None


def text_line(path: Path, kind: str, column: str) -> int | None:
    """The first line on which a column of numbers has something else; None if it cannot be said."""
    if not kind.startswith(".csv"):
        return None
    try:
        with _opened(path) as file:
            reader = csv.reader(_text(file))
            place = next(reader).index(column)
            return next((reader.line_num for fields in reader if fields and not _number(fields[place])), None)
    except (OSError, EOFError, ValueError, IndexError, StopIteration, csv.Error, zlib.error):
        return None


def _number(text: str) -> bool:
    """Whether a field is a number, or missing."""
    try:
        float(text or "0")
    except ValueError:
        return text.upper() in _MISSING
    return True


def _nth(numbers: Iterator[int], place: int) -> int | None:
    return next((number for each, number in enumerate(numbers) if each == place), None)


def _opened(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def _text(file: BufferedIOBase) -> Iterator[str]:
    """The lines of a file; the mark at the beginning that some programs write is left out."""
    for number, line in enumerate(file):
        yield line.decode("utf-8-sig" if number == 0 else "utf-8")


def _looks_like(start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "; it is in UTF-16: save it as UTF-8"
    return next((f"; it looks like {what}" for mark, what in _OTHERS.items() if start.startswith(mark)), "")


def _csv_trouble(path: Path) -> str:
    with _opened(path) as file:
        reader = csv.reader(_text(file), strict=True)
        header: list[str] = []
        try:
            for fields in reader:
                header = header or fields
                if fields and len(fields) != len(header):
                    return (
                        f"line {reader.line_num:,} has {counted(len(fields), 'field')}, and the header has "
                        f"{len(header):,}"
                    )
        except UnicodeDecodeError:
            return f"line {reader.line_num + 1:,} is not in UTF-8 (in Latin-1, perhaps): save it as UTF-8"
        except csv.Error:
            return f"up to line {reader.line_num:,} a quote is not closed, or stands within a field"
    separator = next((name for mark, name in _SEPARATORS.items() if len(header) == 1 and mark in header[0]), "")
    return f"its fields seem to be separated by {separator}, and not by commas" if separator else ""


def _json_trouble(path: Path) -> str:
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                fits = not line.strip() or isinstance(json.loads(line), dict)
            except ValueError:
                fits = False
            if not fits:
                return f"line {number:,} is no JSON object"
    return "a column has values of several types"
