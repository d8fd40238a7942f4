"""Rows encoded as cell numbers.

Anything that speaks Arrow (pandas, polars, DuckDB) is encoded by columns, a list of dicts row by row. A bad row is
reported by position and column, never by its content; an exception of a library that quotes a value is neither passed
on nor chained.

*Columns* (`encode_column`). One Arrow column becomes the codes of its attribute, vectorised: the codes, and which rows
do not fit (None: all fit). Codes of rows that do not fit are arbitrary but harmless.

*Short texts* (`find`). In large batches a general hash table would take half of the time. A text of at most seven bytes
is one 64-bit number, its bytes behind its length: equal numbers are equal texts, so a look-up needs no comparison of
bytes. Attributes with a longer category, and small batches, go through Arrow's own look-up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Array, Flags, Ints
from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.calendar import Dated
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.trusted.rows.moments import dated_code, dated_codes, is_dated
from treering.trusted.rows.texts import encodable
from treering.trusted.rows.units import decimals_as_doubles, half_steps
from treering.trusted.sealed import Sealed

Faults: TypeAlias = Iterator[tuple[int, str]]
Where: TypeAlias = Callable[[int], str]

BLOCK_ROWS: Final = 2**18
"""The rows of a block: small enough for a core's cache, large enough that the cost of calls does not matter."""

INVALID: Final = -1
"""The cell of a row, or the code of a value, that does not fit."""

NEEDS_ZONE: Final = (
    ": the schema has to say in which time zone they are dated, by tz='America/New_York' or tz='UTC', for example, in "
    "dates()"
)
"""The end of a message about instants that have no date, because the schema names no time zone."""


@dataclass(frozen=True, repr=False, eq=False)
class Rows(Sealed):
    """PRIVATE: rows, each with its cell and, for each attribute whose sums are stored, its u (``domain/sums.py``)."""

    cells: Ints
    sums: tuple[Ints, ...]

    def chosen(self, which: Ints | Flags) -> Rows:
        """Some of the rows."""
        return Rows(self.cells[which], tuple(column[which] for column in self.sums))

    def fitting(self) -> tuple[Rows, int]:
        """The rows that fit, and how many do not."""
        fits = self.cells != INVALID
        return (self, 0) if fits.all() else (self.chosen(fits), int((~fits).sum()))


def encode(frame: Any, schema: Schema, *, drop: bool) -> tuple[Ints, int]:
    """The cell of every row that fits, and how many rows were left out because they do not (only with ``drop``)."""
    rows, dropped = encode_rows(frame, schema, drop=drop)
    return rows.cells, dropped


def encode_rows(frame: Any, schema: Schema, *, drop: bool) -> tuple[Rows, int]:
    """The rows that fit, and how many were left out because they do not (only with ``drop``)."""
    return encode_all(frame, schema, drop=drop).fitting()


def encode_all(frame: Any, schema: Schema, *, drop: bool, where: Where = "row {}".format, texts: bool = False) -> Rows:
    """Every row; its cell is `INVALID` if it does not fit (only with ``drop``: else it is an error).

    ``where`` names a row, given by its number in the frame, in that error. ``texts``: all columns are texts of a file,
    which stand for the values that the schema wants (`treering.trusted.rows.texts`).
    """
    given = frame if comes_as_dicts(frame) else as_table(frame)
    cells, bad, faults = _encode_dicts(given, schema) if comes_as_dicts(given) else _encode_table(given, schema, texts)
    if bad and not drop:
        row, column = next(faults)
        raise DataError(
            f"{where(row)}, column {column!r}: the value is not among {schema.attributes[column].describe()}"
            f"{hint(schema.attributes[column])}; nothing of the batch was taken",
            row=row,
            column=column,
        )
    return Rows(cells, half_steps(given, schema, texts=texts))


def comes_as_dicts(frame: Any) -> bool:
    """Whether rows are given as a sequence of dicts."""
    return isinstance(frame, Sequence) and not isinstance(frame, str | bytes)


def hint(attribute: Attribute) -> str:
    """What the schema lacks for values that do not fit, for the end of a message."""
    absent = [f"{flag}=True" for flag, on in (("other", attribute.other), ("missing", attribute.missing)) if not on]
    return f" (values outside and nulls need {' and '.join(absent)} in the schema)" if absent else ""


NO_HEADER: Final = "if a file has no header, its first row was taken for the names of columns"
"""Why columns may be missing. Then the names of the columns found are values of a row: no message shows them."""


def shown(names: Collection[str], schema: Schema) -> str:
    """Names of columns for a message: those of the schema, which are public, as they are; of others, how many."""
    known = [repr(name) for name in names if name in schema.columns]
    unknown = len(names) - len(known)
    number = f"{unknown:,} column{'s' if unknown > 1 else ''} that the schema does not name"
    return ", ".join([*known, number] if unknown else known)


def _check_columns(given: Collection[str], schema: Schema, row: int | None = None) -> None:
    absent = [name for name in schema.columns if name not in given]
    extra = [name for name in given if name not in schema.columns]
    twice = any(list(given).count(name) > 1 for name in schema.columns)
    if absent or twice:  # Others are left out: a table often has more columns than anyone will ask about.
        problems = [
            f"{label}: {shown(names, schema)}" for label, names in (("missing", absent), ("extra", extra)) if names
        ]
        raise DataError(
            f"{'' if row is None else f'row {row}: '}the columns must be {', '.join(schema.columns)}; "
            f"{'; '.join(problems) or 'one is there twice'}{f' ({NO_HEADER})' if absent and row is None else ''}",
            row=row,
            column=next(iter(absent), None),
        )


# -- Arrow -------------------------------------------------------------------------------------------------------------


def as_table(frame: Any) -> pa.Table:
    """Any object that speaks Arrow, as an Arrow table."""
    try:
        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatch):
            return pa.Table.from_batches([frame])
        if type(frame).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame).read_all()
        problem = (
            f"rows come as an Arrow table, a pandas or polars frame or a list of dicts, not as {type(frame).__name__}"
        )
    except Exception:  # whatever the library raises may quote a value, so it is replaced, outside this block
        problem = "the rows cannot be read as columns of one type each: does a column mix types?"
    raise DataError(problem)


def _encode_table(table: pa.Table, schema: Schema, texts: bool) -> tuple[Ints, int, Faults]:
    """The cells (`INVALID` for a row that does not fit), the number of such rows, and lazily their bad columns."""
    _check_columns(table.column_names, schema)
    table = table.select(list(schema.columns))
    for source, attribute in zip(schema.sources, schema.attributes.values(), strict=True):
        if not texts:
            check_type(source, attribute, table.schema.field(source).type)
    cells = np.empty(table.num_rows, dtype=np.int64)
    batches = table.to_batches(max_chunksize=BLOCK_ROWS)
    ends = np.cumsum([batch.num_rows for batch in batches], dtype=np.int64)

    def work(index: int) -> int:
        batch = batches[index]
        return _encode_block(batch, schema, cells[ends[index] - batch.num_rows : ends[index]], texts)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = sum(pool.map(work, range(len(batches))) if len(batches) > 1 else map(work, range(len(batches))))
    return cells, bad, _table_faults(table, schema, cells, texts)


def _encode_block(batch: pa.RecordBatch, schema: Schema, cells: Ints, texts: bool) -> int:
    """Write one block's cells into ``cells``; return the number of rows that do not fit."""
    invalid: Flags | None = None
    for position, (source, attribute) in enumerate(zip(schema.sources, schema.attributes.values(), strict=True)):
        column = batch.column(source)
        codes, bad = encode_column(*(encodable(attribute, column) if texts else (attribute, column)))
        if position == 0:
            cells[:] = codes
        else:
            cells *= attribute.size
            cells += codes
        if bad is not None:
            invalid = bad if invalid is None else invalid | bad
    if invalid is None:
        return 0
    cells[invalid] = INVALID
    return int(invalid.sum())


def _table_faults(table: pa.Table, schema: Schema, cells: Ints, texts: bool) -> Faults:
    for row in np.flatnonzero(cells == INVALID).tolist():
        for source, (name, attribute) in zip(schema.sources, schema.attributes.items(), strict=True):
            value = table.column(source).slice(row, 1).combine_chunks()
            _, bad = encode_column(*(encodable(attribute, value) if texts else (attribute, value)))
            if bad is not None and bad[0]:
                yield row, name


# -- lists of dicts ----------------------------------------------------------------------------------------------------


def _encode_dicts(rows: Sequence[Any], schema: Schema) -> tuple[Ints, int, Faults]:
    cells = np.zeros(len(rows), dtype=np.int64)
    faults: list[tuple[int, str]] = []
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"row {position} is a {type(row).__name__}; each row is a dict", row=position)
        if row.keys() != set(schema.columns):
            _check_columns([str(name) for name in row], schema, position)
    for source, (name, attribute) in zip(schema.sources, schema.attributes.items(), strict=True):
        codes = np.array([_code(attribute, row[source]) for row in rows], dtype=np.int64)
        bad = codes == INVALID
        faults += [(row, name) for row in np.flatnonzero(bad).tolist()]
        cells = np.where(bad | (cells == INVALID), INVALID, cells * attribute.size + codes)
    return cells, int((cells == INVALID).sum()), iter(sorted(faults, key=lambda fault: fault[0]))


def _code(attribute: Attribute, value: Any) -> int:
    if isinstance(attribute, Dated):
        return dated_code(attribute, value)
    plain = value.item() if isinstance(value, np.generic) else value
    if not accepts(attribute, plain):
        return INVALID
    if plain is None or plain != plain:
        code = attribute.missing_code
    else:
        code = attribute.regular_code(plain)
        code = attribute.outside_code(plain) if code is None else code
    return INVALID if code is None else code


# -- one column: values to codes ---------------------------------------------------------------------------------------


Encoded: TypeAlias = tuple[Array, Flags | None]
"""The codes of values, and which of the values do not fit (None: all fit)."""

Move: TypeAlias = tuple[Flags | None, int | None]
"""Some values (None: none), and their code outside the regular ones (None: they do not fit)."""


def accepts(attribute: Attribute, value: Any) -> bool:
    """Whether a single value has a type that the attribute can hold (None and NaN always)."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    if isinstance(attribute, Categories):
        return type(value) is type(attribute.values[0])
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_type(name: str, attribute: Attribute, given: pa.DataType) -> None:
    """Refuse a column whose type cannot hold the attribute's values."""
    kind = given.value_type if pa.types.is_dictionary(given) else given
    if pa.types.is_null(kind):
        return
    if isinstance(attribute, Dated):
        wanted = "dates, timestamps or texts"
        fits = is_dated(kind)
        if pa.types.is_timestamp(kind) and kind.tz is not None and attribute.tz is None:
            raise DataError(f"column {name!r} has timestamps with a time zone{NEEDS_ZONE}", column=name)
    elif isinstance(attribute, Categories):
        wanted = type(attribute.values[0]).__name__
        fits = {"str": _is_text, "int": pa.types.is_integer, "bool": pa.types.is_boolean}[wanted](kind)
    else:
        wanted = "int or float"
        fits = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not fits:
        raise DataError(f"column {name!r} has Arrow type {given}, the schema wants {wanted}", column=name)


def encode_column(attribute: Attribute, column: pa.Array) -> Encoded:
    """The codes of a block of values, and which of them do not fit (None: all fit)."""
    if pa.types.is_dictionary(column.type):
        return _encode_dictionary(attribute, column)
    missing = np.asarray(column.is_null()) if column.null_count else None
    if pa.types.is_null(column.type):
        return _placed(np.zeros(len(column), dtype=np.int64), (missing, attribute.missing_code))
    if isinstance(attribute, Dated):
        return dated_codes(attribute, column), None
    if isinstance(attribute, Categories):
        codes, unlisted = _category_codes(attribute, _without_views(column))
        return _placed(codes, (unlisted, attribute.other_code), (missing, attribute.missing_code))
    if pa.types.is_decimal(column.type):
        column = decimals_as_doubles(column)
    values = np.asarray(column.fill_null(0) if missing is not None else column)
    if values.dtype.kind == "f":
        # Half and single precision are widened: otherwise the schema's numbers would be rounded to compare.
        values = values.astype(np.float64, copy=False)
        nan = np.isnan(values)
        if nan.any():
            missing = nan if missing is None else missing | nan
    if isinstance(attribute, Integers):
        codes, moves = _integer_codes(attribute, values)
    else:
        assert isinstance(attribute, Bins)
        codes, moves = _bin_codes(attribute, values)
    # Missing values come last: their placeholders may look like a regular value or like one outside.
    return _placed(codes, *moves, (missing, attribute.missing_code))


def _encode_dictionary(attribute: Attribute, column: pa.DictionaryArray) -> Encoded:
    """Encode the dictionary once, then look up codes by index; a null index refers to a null added at its end."""
    entries, indices = _without_views(column.dictionary), column.indices
    if len(entries) > len(column):
        return encode_column(attribute, entries.take(indices))
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(entries))
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
    codes, bad = encode_column(attribute, entries)
    index = np.asarray(indices)
    return codes.take(index), None if bad is None else bad.take(index)


def _placed(codes: Array, *moves: Move) -> Encoded:
    """Give values their codes outside, or mark them as not fitting; a later move wins."""
    bad: Flags | None = None
    for flags, code in moves:
        if flags is None or not flags.any():
            continue
        if code is None:
            bad = flags if bad is None else bad | flags
            continue
        codes = np.where(flags, code, codes)
        bad = None if bad is None else bad & ~flags
    return codes, bad


def _category_codes(attribute: Categories, column: pa.Array) -> Encoded:
    """The position of each value among the categories."""
    if fits(attribute.values, column):
        codes = find(attribute.values, column)
        return codes, codes < 0
    found = pc.index_in(column, value_set=_value_set(attribute, column.type))
    return np.asarray(found.fill_null(0)), np.asarray(found.is_null()) if found.null_count else None


def _integer_codes(attribute: Integers, values: Array) -> tuple[Array, list[Move]]:
    """The offset of each value in the range, and those below, above, or not whole. (NaN is neither; it is missing.)"""
    low, high = values < attribute.low, values > attribute.high
    moves: list[Move] = [(low, attribute.below_code), (high, attribute.above_code)]
    outside = low | high
    if values.dtype.kind == "f":
        broken = (values != np.floor(values)) & ~outside
        moves.append((broken, attribute.unfit_code))
        outside |= broken
    inside = np.where(outside, attribute.low, values) if outside.any() else values
    return inside.astype(np.int64, copy=False) - attribute.low, moves


def _bin_codes(attribute: Bins, values: Array) -> tuple[Array, list[Move]]:
    """The number of inner edges at or below each value: for few edges, comparisons are faster than binary search."""
    first, last = attribute.edges[0], attribute.edges[-1]
    beyond = values > last if attribute.closed else values >= last
    moves: list[Move] = [(values < first, attribute.below_code), (beyond, attribute.above_code)]
    inner = attribute.edges[1:-1]
    if len(inner) > 32:
        return np.searchsorted(np.array(inner), values, side="right"), moves
    codes = np.zeros(len(values), dtype=np.int8)
    for edge in inner:
        codes += values >= edge
    return codes, moves


@lru_cache(maxsize=256)
def _value_set(attribute: Categories, kind: pa.DataType) -> pa.Array:
    """The categories in the column's type; those that it cannot hold become null, which no regular value equals."""

    def held(value: str | int | bool) -> pa.Scalar:
        try:
            return pa.scalar(value, kind)
        except (pa.ArrowInvalid, OverflowError):
            return pa.scalar(None, kind)

    return pa.array([held(value) for value in attribute.values], kind)


def _without_views(column: pa.Array) -> pa.Array:
    """String views as strings: Arrow has few functions for views."""
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


# -- short texts: a compiled look-up -----------------------------------------------------------------------------------


LARGE: Final = 2**17
"""From this many rows in a block on, compiling the look-up pays (it takes a second, once a process)."""

LONGEST: Final = 7
"""The most bytes that fit into 64 bits beside their length."""

_MULTIPLIER: Final = 0x9E3779B97F4A7C15

HashTable: TypeAlias = tuple[
    np.ndarray[tuple[Any, ...], np.dtype[np.uint64]], np.ndarray[tuple[Any, ...], np.dtype[np.int32]], np.uint64
]


def fits(values: tuple[Any, ...], column: pa.Array) -> bool:
    """Whether `find` applies and pays: a large block of plain strings, all categories short."""
    plain = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return bool(plain) and len(column) >= LARGE and all(len(value.encode()) <= LONGEST for value in values)


def find(values: tuple[Any, ...], column: pa.Array) -> np.ndarray[tuple[Any, ...], np.dtype[np.int32]]:
    """The position of each text among the values, −1 if it is none of them; arbitrary if it is null."""
    _, offsets, data = column.buffers()
    wide = np.int64 if pa.types.is_large_string(column.type) else np.int32
    ends = np.frombuffer(offsets, dtype=wide)[column.offset : column.offset + len(column) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    found = np.empty(len(column), dtype=np.int32)
    _compiled()(ends, text, *_table(values), found)
    return found


@lru_cache(maxsize=64)
def _table(values: tuple[Any, ...]) -> HashTable:
    """An open hash table, at most a quarter full: keys, positions (−1: empty), and the shift of its hash."""
    bits = max(2, (4 * len(values) - 1).bit_length())
    keys, positions = np.zeros(2**bits, dtype=np.uint64), np.full(2**bits, -1, dtype=np.int32)
    for position, value in enumerate(values):
        key = int.from_bytes(bytes([len(value.encode())]) + value.encode())
        slot = (key * _MULTIPLIER & (2**64 - 1)) >> (64 - bits)
        while positions[slot] >= 0:
            slot = (slot + 1) % 2**bits
        keys[slot], positions[slot] = key, position
    return keys, positions, np.uint64(64 - bits)


def _look_up(ends: Any, text: Any, keys: Any, positions: Any, shift: Any, found: Any) -> None:
    one, eight = np.uint64(1), np.uint64(8)
    last = np.uint64(len(keys) - 1)
    for row in range(len(found)):
        start, end = ends[row], ends[row + 1]
        if end - start > LONGEST:
            found[row] = -1
            continue
        key = np.uint64(end - start)
        for place in range(start, end):
            key = key << eight | np.uint64(text[place])
        slot = key * np.uint64(_MULTIPLIER) >> shift
        while positions[slot] >= 0 and keys[slot] != key:
            slot = slot + one & last
        found[row] = positions[slot]


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., None]:
    """The look-up, compiled. numba is imported here because that takes a second."""
    from numba import njit

    compiled: Callable[..., None] = njit(nogil=True, cache=True)(_look_up)
    return compiled
