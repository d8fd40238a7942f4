"""Files of rows, read in blocks: memory does not grow with the file, nor with how far it was compressed.

*Limits.* A file from outside may be compressed a thousandfold, have one line of gigabytes, or be nested so deeply that
a recursive reader ends the process. So lines of JSON are decompressed and looked at a piece at a time, in linear time
and in memory of some `MOST_LINE`, and a reader gets lines that were looked at.

A file of separated texts is read as texts, and the schema says what they mean (`treering.trusted.rows.typed`). Its
delimiter and its encoding are found in its beginning: the delimiter is the one that finds most of the schema's columns
in the header, the encoding is that of its first mark, else UTF-8, else Windows-1252.

Messages name the file, lines, columns of the schema and numbers, never a field. (Which row is refused, and why, is not
private: see `treering.trusted.rows.intake`.)
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as csv_reader

from treering.arrays import Ints
from treering.domain.attribute import Categories
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.rowfile import DELIMITERS, RowFile
from treering.trusted.rows.moments import is_text
from treering.words import counted

BLOCK_BYTES: Final = 2**20
"""How much of a file of texts is read at a time."""
_PAGES: Final = 2**20
"""How many bytes of a column are read at a time: row groups may be as large as their file."""
BATCH_ROWS: Final = 2**17
"""How many rows of a Parquet file are read at a time."""
SEEN_BYTES: Final = 2**20
"""How much of a file is looked at to find its encoding."""

PIECE: Final = 2**20
"""How many bytes are looked at together."""
MOST_LINE: Final = 2**20
"""The most bytes of a line."""
MOST_TEXT: Final = 2**20
"""The most bytes of a text in a file with types: one that stands once may be named by every row."""
MOST_UNPACKED: Final = 2**26
"""How many bytes of a file with types are unpacked at a time, about."""
MOST_DEPTH: Final = 64
"""The most arrays and objects within each other in a line of JSON."""
MOST_COLUMNS: Final = 2**14
"""The most columns of a file."""

_BRACKETS: Final = re.compile(rb'["\\\[\]{}]')
_OPENING: Final = b"[{"
_NEWLINE: Final = ord("\n")

NULLS: Final = ("", "NA", "N/A", "NULL", "null", "NaN", "nan", "None")
"""The texts that mean a missing value, unless they are categories of the schema."""

_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


_BROKEN: Final = (pa.ArrowException, OSError, EOFError, UnicodeError, csv.Error, zlib.error)


class Unreadable(Exception):
    """Why a file cannot be read, in words that quote nothing of it."""


def blocks(file: RowFile, schema: Schema, person: str | None) -> Iterator[pa.Table]:
    """The rows of a file, some at a time: the schema's columns and the column ``person`` of person ids."""
    wanted = (*schema.columns, *([] if person is None or person in schema.columns else [person]))
    readers: dict[str | None, Callable[[], Iterator[Any]]] = {
        **dict.fromkeys((".csv", ".tsv", ".txt"), lambda: _texts(file, schema, wanted)),
        ".parquet": lambda: _parquet(file.path, wanted),
        ".arrow": lambda: _arrow(file.path),
        ".feather": lambda: _arrow(file.path),
        ".jsonl": lambda: _json(file),
        ".ndjson": lambda: _json(file),
    }
    try:
        _check_beginning(file)
        for batch in readers[file.ending]():
            table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
            yield _kept(table, wanted)
        return
    except Unreadable as error:
        problem = str(error)
    except _BROKEN:  # may quote a value: replaced below
        problem = f"it is no file of {str(file.ending).lstrip('.')}, or it is damaged"
        if file.ending in (".jsonl", ".ndjson"):
            problem = _json_trouble(file)
        if file.separated:
            problem = f"it is no separated text in {_named(file)}: another --encoding, or a quote never closed?"
    raise DataError(f"{file.path} cannot be read: {problem}")


_BEGINNINGS: Final = {
    ".parquet": (b"PAR1",),
    ".arrow": (b"ARROW1", b"\xff\xff\xff\xff"),
    ".feather": (b"ARROW1", b"FEA1"),
}
"""How files of these kinds begin."""


def _check_beginning(file: RowFile) -> None:
    """Refuse a file that is empty, or of another kind than its name says."""
    with file.path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        raise Unreadable("it is empty")
    if start.startswith(b"PK\x03\x04"):
        raise Unreadable("it is a zip file, or a spreadsheet: save the rows as CSV")
    if file.ending in _BEGINNINGS and not start.startswith(_BEGINNINGS[file.ending]):
        raise Unreadable("it does not begin as a file of that kind does")


def _json_trouble(file: RowFile) -> str:
    """The first line that is no JSON object, by its number."""
    with _bytes(file.path) as stream:
        for number, line in enumerate(io.BufferedReader(JsonLines(stream)), 1):
            try:
                fits = not line.strip() or isinstance(json.loads(line), dict)
            except (ValueError, RecursionError):
                fits = False
            if not fits:
                return f"line {number:,} is no JSON object"
    return "a column has values of several types"


def line_of(file: RowFile, schema: Schema, row: int) -> int:
    """The line of a file of texts on which a row, counted from 0, ends."""
    with _opened(file) as stream:
        reader = csv.reader(stream, delimiter=delimiter_of(file, schema))
        filled = (reader.line_num for fields in reader if fields)
        return next(islice(filled, row + 1, None), row + 2)


def _kept(table: pa.Table, wanted: tuple[str, ...]) -> pa.Table:
    """The wanted columns, each of which a file may have only once. (Absent ones are reported with the first rows.)"""
    names = table.column_names
    _check_once(names, wanted)
    return table.select([name for name in wanted if name in names])


# -- separated texts ---------------------------------------------------------------------------------------------------


def _texts(file: RowFile, schema: Schema, wanted: tuple[str, ...]) -> Iterator[Any]:
    """All fields as texts, null where they mean a missing value."""
    header = header_of(file, schema)
    listed = {
        value
        for attribute in schema.attributes.values()
        if isinstance(attribute, Categories)
        for value in attribute.values
    }
    _check_once(header, wanted)
    ragged: list[str] = []

    def report(row: csv_reader.InvalidRow) -> str:
        line = "" if row.number is None else f"line {row.number}: "
        ragged.append(f"{line}{counted(row.actual_columns, 'field')} where the header has {row.expected_columns}")
        return "error"

    convert = csv_reader.ConvertOptions(
        column_types={name: pa.string() for name in wanted},
        include_columns=[name for name in wanted if name in header],
        null_values=[word for word in NULLS if word not in listed],
        strings_can_be_null=True,
    )
    parse = csv_reader.ParseOptions(
        delimiter=delimiter_of(file, schema), newlines_in_values=True, invalid_row_handler=report
    )
    read = csv_reader.ReadOptions(
        use_threads=False,
        block_size=BLOCK_BYTES,
        column_names=header,
        skip_rows=1,
        encoding=encoding_of(file).removesuffix("-sig"),
    )
    if not convert.include_columns:
        raise Unreadable(
            f"its first line names none of the columns {', '.join(wanted)}: has it a header, is --delimiter right?"
        )
    try:
        with pa.input_stream(str(file.path), compression="gzip" if _zipped(file.path) else None) as stream:
            yield from csv_reader.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid:
        if ragged:
            raise Unreadable(ragged[0]) from None
        raise


def header_of(file: RowFile, schema: Schema) -> list[str]:
    """The names in the first line."""
    names = _split(_first_line(file), delimiter_of(file, schema))
    check_columns(len(names))
    return names


def delimiter_of(file: RowFile, schema: Schema) -> str:
    """The delimiter that is given, or with which the first line names most of the schema's columns."""
    if file.delimiter is not None:
        return file.delimiter
    line = _first_line(file)
    usual = "\t" if file.ending == ".tsv" else ","

    def columns(delimiter: str) -> int:
        try:
            return len(set(_split(line, delimiter)) & set(schema.columns))
        except csv.Error:  # A long line is one field that is too long, if this is not its delimiter.
            return 0

    return max((usual, *DELIMITERS), key=columns)


def encoding_of(file: RowFile) -> str:
    """The encoding that is given, or that the file's beginning has."""
    if file.encoding is not None:
        return file.encoding
    with _bytes(file.path) as stream:
        seen = stream.read(SEEN_BYTES)
    for mark, encoding in _MARKS:
        if seen.startswith(mark):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(seen)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _named(file: RowFile) -> str:
    """The encoding for a message about a file that may be no text at all."""
    try:
        return encoding_of(file)
    except _BROKEN:
        return "any encoding"


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _first_line(file: RowFile) -> str:
    with _opened(file) as stream:
        return first_line(stream)


@contextmanager
def _opened(file: RowFile) -> Iterator[Any]:
    with _bytes(file.path) as stream, io.TextIOWrapper(stream, encoding=encoding_of(file), newline="") as text:
        yield text


def _bytes(path: Path) -> Any:
    return gzip.open(path, "rb") if _zipped(path) else path.open("rb")


def _zipped(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


# -- files with types --------------------------------------------------------------------------------------------------


def _parquet(path: Path, wanted: tuple[str, ...]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=_PAGES) as opened:
        check_columns(opened.metadata.num_columns)
        schema = opened.schema_arrow
        _check_once(schema.names, wanted)
        columns = [name for name in wanted if name in schema.names]
        texts = [name for name in columns if is_text(schema.field(name).type)]
        if opened.metadata.num_rows == 0:
            yield schema.empty_table()
    # A text that many rows name is there once.
    with pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False, buffer_size=_PAGES) as opened:
        for batch in opened.iter_batches(_rows_at_a_time(opened.metadata, columns), columns=columns):
            yield from _unpacked(batch)


def _rows_at_a_time(metadata: Any, columns: list[str]) -> int:
    """How many rows of a Parquet file have no more than `MOST_UNPACKED` bytes, as its footer says."""
    most = BATCH_ROWS
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        size = sum(each.total_uncompressed_size for each in chunks if each.path_in_schema in columns)
        most = min(most, MOST_UNPACKED * group.num_rows // max(1, size))
    return max(1, most)


def _unpacked(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that stay small when every row has its texts to itself."""
    longest = max(
        (_longest(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)), default=0
    )
    rows = max(1, MOST_UNPACKED // max(1, longest))
    for start in range(0, max(1, batch.num_rows), rows):
        yield batch.slice(start, rows)


def _longest(name: str, column: pa.Array) -> int:
    """The bytes of a column's longest text; refused beyond `MOST_TEXT`."""
    texts = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not is_text(texts.type):
        return 0
    plain = texts.cast(pa.large_string()) if pa.types.is_string_view(texts.type) else texts
    longest = pc.max(pc.binary_length(plain)).as_py() or 0
    if longest > MOST_TEXT:
        raise Unreadable(f"column {name!r} has a text of more than {MOST_TEXT:,} bytes")
    return int(longest)


def _check_once(names: list[str], wanted: tuple[str, ...]) -> None:
    for name in wanted:
        if names.count(name) > 1:
            raise Unreadable(f"it has the column {name!r} more than once")


def _arrow(path: Path) -> Iterator[Any]:
    """Arrow's file format, or its stream format."""
    with path.open("rb") as stream:
        streamed = not stream.read(6).startswith(b"ARROW1")
    with pa.memory_map(str(path)) as source:
        yield from _streamed(source) if streamed else _filed(source)


def _streamed(source: Any) -> Iterator[Any]:
    with pa.ipc.open_stream(source) as opened:
        check_columns(len(opened.schema))
        yield opened.schema.empty_table()
        for batch in opened:
            yield from _unpacked(_valid(batch))


def _filed(source: Any) -> Iterator[Any]:
    with pa.ipc.open_file(source) as opened:
        check_columns(len(opened.schema))
        yield opened.schema.empty_table()
        for place in range(opened.num_record_batches):
            yield from _unpacked(_valid(opened.get_batch(place)))


def _valid(batch: Any) -> Any:
    """A batch whose offsets lie within its buffers: Arrow itself believes them, and would read beyond."""
    batch.validate(full=True)
    return batch


def _json(file: RowFile) -> Iterator[Any]:
    import pyarrow.json as pj

    with _bytes(file.path) as stream, pa.PythonFile(io.BufferedReader(JsonLines(stream)), "r") as lines:
        reader = pj.open_json(lines, read_options=pj.ReadOptions(use_threads=False, block_size=2 * BLOCK_BYTES))
        check_columns(len(reader.schema))
        yield from reader


# -- limits ------------------------------------------------------------------------------------------------------------


def too_long(line: int) -> Unreadable:
    """What is wrong with a line of more than `MOST_LINE` bytes."""
    return Unreadable(f"line {line:,} has more than {MOST_LINE:,} bytes, the most that a line may have")


def check_columns(number: int) -> None:
    """Refuse a file with more than `MOST_COLUMNS` columns."""
    if number > MOST_COLUMNS:
        raise Unreadable(f"it has {number:,} columns, and may have {MOST_COLUMNS:,}")


def first_line(stream: io.TextIOBase) -> str:
    """The first line of a text, if it is not too long."""
    line = stream.readline(MOST_LINE + 1)
    if len(line) > MOST_LINE:
        raise too_long(1)
    return line.rstrip("\r\n")


class JsonLines(io.RawIOBase):
    """The bytes of a stream whose lines are JSON objects, as far as can be seen without reading them as JSON.

    Every line that is not blank begins with { and ends with }, has at most `MOST_LINE` bytes, and is nested at most
    `MOST_DEPTH` deep. No text goes on over the end of a line, and after the } at the end of a line no JSON goes on with
    a {: so nothing is nested over lines either. Anything else raises `Unreadable`.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._partial = b""
        """The beginning of a line whose end was not read yet."""
        self._ready = memoryview(b"")
        self._lines = 0
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill a buffer with bytes of lines that were looked at."""
        while not self._ready and not self._ended:
            self._look()
        number = min(len(target), len(self._ready))
        target[:number] = self._ready[:number]
        self._ready = self._ready[number:]
        return number

    def _look(self) -> None:
        piece = self._stream.read(PIECE)
        self._ended = not piece
        whole = self._partial + piece + (b"\n" if self._ended and self._partial else b"")
        end = whole.rfind(b"\n") + 1
        self._partial = whole[end:]
        if len(self._partial) > MOST_LINE:
            raise too_long(self._lines + whole.count(b"\n") + 1)
        self._check(whole[:end])
        self._ready = memoryview(whole[:end])

    def _check(self, lines: bytes) -> None:
        """Refuse lines, which end with a newline each, that are too long, no objects, or nested too deeply."""
        codes = np.frombuffer(lines, dtype=np.uint8)
        ends = np.flatnonzero(codes == _NEWLINE)
        if not len(ends):
            return
        starts = np.concatenate(([0], ends[:-1] + 1))
        self._refuse(ends - starts > MOST_LINE, too_long)
        first, last = codes[starts], codes[np.maximum(ends - 1, 0)]
        odd = (first != ord("{")) | (last != ord("}"))
        self._refuse(odd, no_object, lambda place: _is_object(lines[starts[place] : ends[place]]))
        deep = _openings(codes, starts) > MOST_DEPTH
        self._refuse(deep, too_deep, lambda place: depth_of(lines[starts[place] : ends[place]]) <= MOST_DEPTH)
        self._lines += len(ends)

    def _refuse(
        self, doubtful: Any, problem: Callable[[int], Unreadable], fits: Callable[[int], bool] = lambda _: False
    ) -> None:
        """Raise for the first of the doubtful lines that does not fit."""
        for place in np.flatnonzero(doubtful).tolist():
            if not fits(place):
                raise problem(self._lines + place + 1)


def no_object(line: int) -> Unreadable:
    """What is wrong with a line that does not hold one object."""
    return Unreadable(f"line {line:,} is no JSON object")


def too_deep(line: int) -> Unreadable:
    """What is wrong with a line that is nested too deeply."""
    return Unreadable(f"line {line:,} is nested more than {MOST_DEPTH} deep, the most that a line may be")


def _is_object(line: bytes) -> bool:
    """Whether a line is blank, or begins and ends as an object does, but for white space."""
    text = line.strip(b" \t\r")
    return not text or (text.startswith(b"{") and text.endswith(b"}"))


def _openings(codes: Any, starts: Ints) -> Ints:
    """How many brackets are opened in each line, those within texts included: no less than how deep it is nested."""
    opened = (codes == ord("[")) | (codes == ord("{"))
    return np.add.reduceat(opened, starts, dtype=np.int64)


def depth_of(line: bytes) -> int:
    """How deep a line of JSON is nested; brackets within texts do not count."""
    depth = deepest = 0
    within, escaped_at = False, -1
    for match in _BRACKETS.finditer(line):
        sign, place = match.group(), match.start()
        if place == escaped_at:
            continue
        if sign == b"\\":
            escaped_at = place + 1 if within else -1
        elif sign == b'"':
            within = not within
        elif not within:
            depth += 1 if sign in _OPENING else -1
            deepest = max(deepest, depth)
    return deepest
