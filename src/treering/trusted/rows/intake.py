"""Rows as they come become typed tables, checked, in blocks.

Frames that speak Arrow (pandas, polars, DuckDB) and files are read by columns, a list of dicts value by value. Only an
attribute without a cell for some value refuses it: one without ``other`` what is not listed or lies outside, one
without ``missing`` what is null. (Which row is refused, and why, is not private.) A bad row is reported by position and
column, never by its content; an exception of a library that quotes a value is neither passed on nor chained.

Typed tables share no memory with the frame that they come from, which may change or go.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Flags
from treering.domain.axis import Scalar
from treering.domain.schema import Schema
from treering.errors import DataError, ParameterError
from treering.rowfile import RowFile
from treering.trusted import registry
from treering.trusted.rows.checks import PERSON, Check, ColumnIntake, Plan, plan_of
from treering.trusted.rows.digests import RowsDigest
from treering.trusted.rows.frames import Places, as_table, check_columns, comes_as_dicts, hint
from treering.trusted.rows.moments import is_text
from treering.trusted.rows.typed import NOT_A_NUMBER, array_of, check_type, decoded
from treering.trusted.rows.views import flags_in, valid_in
from treering.trusted.sealed import Sealed

if TYPE_CHECKING:
    from treering.trusted.rows.persons import People, Persons

__all__ = ["PERSON", "ColumnIntake", "DroppedRows", "Intake", "OnInvalid", "batch_schema", "dropping", "typed_blocks"]

OnInvalid: TypeAlias = Literal["refuse", "drop"]
"""What becomes of rows that do not fit the schema."""

BLOCK_ROWS: Final = 2**18
"""The most rows of a block: small enough for a core's cache, large enough that the cost of calls does not matter."""
THREADS: Final = min(4, os.cpu_count() or 1)
"""How many blocks are typed at a time."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class DroppedRows(UserWarning):
    """Rows that did not fit the schema were left out, as ``on_invalid="drop"`` asks. Their number is public."""


def dropping(on_invalid: OnInvalid) -> bool:
    """Whether rows that do not fit are left out; refuses what says neither."""
    if on_invalid not in ("refuse", "drop"):
        raise ParameterError("on_invalid", 'must be "refuse" or "drop"')
    return on_invalid == "drop"


class Intake(Sealed):
    """PRIVATE: what was read of some rows, for the steward alone. It grows while they are read."""

    __slots__ = ("columns", "dropped", "people", "rows")

    def __init__(self) -> None:
        self.rows = 0
        """The rows that were taken."""
        self.dropped = 0
        """The rows that were left out: they do not fit the schema, or exceed the limit of their person."""
        self.columns: dict[str, ColumnIntake] = {}
        """By attribute, what was read that is none of its regular values, in rows that were left out, too."""
        self.people: People | None = None
        """The persons whose rows were taken, where they are counted: for `Persons.take_up`, once the rows are kept."""

    def to_dict(self) -> dict[str, Any]:
        """PRIVATE: the counts as plain values, for the steward alone."""
        columns = {
            name: {"unlisted": each.unlisted, "missing": each.missing, "outside": each.outside}
            for name, each in self.columns.items()
        }
        return {"rows": self.rows, "dropped": self.dropped, "columns": columns}


def batch_schema(schema: Schema, persons: bool) -> pa.Schema:
    """The Arrow schema of the tables of `typed_blocks`."""
    plan = plan_of(schema)
    return plan.with_persons if persons else plan.fields


def typed_blocks(
    frame: Any,
    schema: Schema,
    persons: Persons | None,
    *,
    drop: bool,
    intake: Intake,
    read: RowsDigest | None = None,
) -> Iterator[pa.Table]:
    """The rows of a frame, or of a file, as typed tables, in order; at least one table, which may have no rows. Where
    persons are counted, the column `PERSON` comes last.

    A row that does not fit, or exceeds the limit of its person, is an error that names its position; with ``drop`` it
    is left out, and counted. ``read`` is the digest of all rows that fit, those beyond a limit included.
    """
    plan = plan_of(schema)
    intake.columns = {name: ColumnIntake() for name in schema.names} | intake.columns
    some = False
    for block in _blocks(frame, plan, persons):
        some = True
        yield _taken(block, plan, persons, drop=drop, intake=intake, read=read)
    if not some:
        yield batch_schema(schema, persons is not None).empty_table()


@dataclass(frozen=True, repr=False, eq=False)
class _Block(Sealed):
    """PRIVATE: some rows, typed and checked."""

    table: pa.Table
    bad: list[Flags | None]
    """For each attribute, which rows do not fit; None if all do."""
    counts: list[ColumnIntake]
    places: Places


def _taken(
    block: _Block, plan: Plan, persons: Persons | None, *, drop: bool, intake: Intake, read: RowsDigest | None
) -> pa.Table:
    """The rows of a block that are taken."""
    for name, count in zip(plan.schema.names, block.counts, strict=True):
        intake.columns[name].add(count)
    table, chosen = block.table, None
    bad = [flags for flags in block.bad if flags is not None]
    if bad:
        unfit = np.logical_or.reduce(bad)
        if unfit.any():
            if not drop:
                raise _refusal(block, plan, int(unfit.argmax()))
            chosen = np.flatnonzero(~unfit)
            table = table.filter(pa.array(~unfit))
    if read is not None:
        read.add(table)
    if persons is not None and table.num_rows:
        intake.people = intake.people or persons.nobody()
        within = persons.admitted(table.column(PERSON).combine_chunks(), intake.people)
        if not within.all():
            if not drop:
                first = int(within.argmin())
                row = first if chosen is None else int(chosen[first])
                raise persons.beyond(block.places.shown(row), block.places.row(row))
            table = table.filter(pa.array(within))
    intake.rows += table.num_rows
    intake.dropped += block.table.num_rows - table.num_rows
    return table


def _refusal(block: _Block, plan: Plan, row: int) -> DataError:
    pairs = zip(plan.schema.attributes.items(), block.bad, strict=True)
    name, attribute = next(named for named, flags in pairs if flags is not None and flags[row])
    return DataError(
        f"{block.places.shown(row)}, column {name!r}: the value is not among {attribute.describe()}{hint(attribute)}; "
        "nothing of the batch was taken",
        row=block.places.row(row),
        column=name,
    )


# -- blocks ------------------------------------------------------------------------------------------------------------


def _blocks(frame: Any, plan: Plan, persons: Persons | None) -> Iterator[_Block]:
    if isinstance(frame, RowFile):
        return _of_file(frame, plan, persons)
    if comes_as_dicts(frame):
        rows = list(frame)
        starts = range(0, len(rows), BLOCK_ROWS)
        return (_of_dicts(rows[start : start + BLOCK_ROWS], plan, persons, start) for start in starts)
    return _of_frame(frame, plan, persons)


def _of_frame(frame: Any, plan: Plan, persons: Persons | None) -> Iterator[_Block]:
    table = as_table(frame)
    _check(table, plan, persons, texts=False)
    starts = range(0, table.num_rows, BLOCK_ROWS)

    def work(start: int) -> _Block:
        return _of_table(table.slice(start, BLOCK_ROWS), plan, persons, Places(start), shared=True)

    return _in_order(work, starts) if len(starts) > 1 else map(work, starts)


def _of_file(file: RowFile, plan: Plan, persons: Persons | None) -> Iterator[_Block]:
    shared = file.ending in (".arrow", ".feather")  # They are mapped into memory.

    def work(piece: tuple[int, pa.Table]) -> _Block:
        start, table = piece
        places = Places(start, file, plan.schema)
        with _about(file):
            _check(table, plan, persons, texts=file.separated)
            return _of_table(table, plan, persons, places, shared=shared, texts=file.separated)

    return _in_order(
        work, _numbered(registry.part("blocks")(file, plan.schema, None if persons is None else persons.column))
    )


def _numbered(tables: Iterable[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    """Tables of at most `BLOCK_ROWS` rows, each with the number of rows before it."""
    before = 0
    for table in tables:
        for start in range(0, max(1, table.num_rows), BLOCK_ROWS):
            yield before + start, table.slice(start, BLOCK_ROWS)
        before += table.num_rows


@contextmanager
def _about(file: RowFile) -> Iterator[None]:
    """Name the file in an error about its columns. (One about a row names it already.)"""
    try:
        yield
    except DataError as error:
        if error.row is not None:
            raise
        problem = DataError(f"{file.path}: {error}", column=error.column)
    else:
        return
    raise problem


def _in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results of work on items, which is done in threads, in their order. An error of the items themselves comes
    after the results of those before it."""
    pending: deque[Future[Result]] = deque()
    source, error = iter(items), None
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            while True:
                try:
                    pending.append(pool.submit(work, next(source)))
                except StopIteration:
                    break
                except DataError as problem:
                    error = problem
                    break
                if len(pending) > THREADS:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        if error is not None:
            raise error
    finally:  # Neither an open file nor an error that refers to it outlives this: its reader has threads of its own.
        del error
        if isinstance(source, Generator):
            source.close()


# -- columns -----------------------------------------------------------------------------------------------------------


def _check(table: pa.Table, plan: Plan, persons: Persons | None, *, texts: bool) -> None:
    """Refuse a table whose columns are not those of the schema, or of other types."""
    if persons is not None:
        persons.column_in(table)
    check_columns(table.column_names, plan.schema)
    for scalar in plan.scalars:
        check_type(table.schema.field(scalar.column).type, scalar, texts=texts)


def _of_table(
    table: pa.Table, plan: Plan, persons: Persons | None, places: Places, *, shared: bool, texts: bool = False
) -> _Block:
    """The rows of a table, whose columns were checked. ``shared``: others may change what lies in its memory."""
    arrays, unfit = [], []
    try:
        digests = None if persons is None else persons.digests(persons.column_in(table), places)
        for scalar in plan.scalars:
            source = _whole(table.column(scalar.column))
            values = array_of(_readable(source), scalar)
            arrays.append(_own(values, source) if shared else values)
            unfit.append(partial(_unfit, source, values, scalar, texts=texts))

        def bad(check: Check, count: ColumnIntake) -> Flags | None:
            return check.bad(arrays[check.place], unfit[check.place], count)

        return _checked(arrays, bad, digests, plan, places)
    except pa.ArrowException:  # may quote a value
        pass
    raise DataError("the rows cannot be read: is a column damaged, or are its texts beyond 2 GB?")


def _checked(
    arrays: list[pa.Array],
    bad: Callable[[Check, ColumnIntake], Flags | None],
    digests: pa.Array | None,
    plan: Plan,
    places: Places,
) -> _Block:
    """Typed arrays as a block; ``bad`` says which of their values do not pass a check, and counts."""
    counts = [ColumnIntake() for _ in plan.checks]
    flags = [bad(check, count) for check, count in zip(plan.checks, counts, strict=True)]
    if digests is None:
        return _Block(pa.Table.from_arrays(arrays, schema=plan.fields), flags, counts, places)
    return _Block(pa.Table.from_arrays([*arrays, digests], schema=plan.with_persons), flags, counts, places)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array without dictionaries."""
    chunks = [decoded(chunk) for chunk in column.chunks]
    return pa.concat_arrays(chunks) if len(chunks) > 1 else chunks[0] if chunks else decoded(column.combine_chunks())


def _readable(values: pa.Array) -> pa.Array:
    """The values; texts that are no UTF-8, which no engine reads, are null."""
    if not is_text(values.type):
        return values
    try:
        values.validate(full=True)
        return values
    except pa.ArrowInvalid:
        pass  # it quotes a value
    return pa.array([_text(each) for each in values.cast(pa.large_binary()).to_pylist()], pa.large_string())


def _text(plain: bytes | None) -> str | None:
    try:
        return None if plain is None else plain.decode()
    except UnicodeDecodeError:
        return None


def _own(values: pa.Array, source: pa.Array) -> pa.Array:
    """The values in memory of their own."""
    mine, given = ({each.address for each in array.buffers() if each is not None} for array in (values, source))
    return values if mine.isdisjoint(given) else pa.concat_arrays([values, values.slice(0, 0)])


def _unfit(source: pa.Array, values: pa.Array, scalar: Scalar, *, texts: bool) -> Flags | None:
    """Which values are null only because they could not be read; None if none is."""
    given = source.is_valid()
    if pa.types.is_floating(source.type):
        given = pc.and_(given, pc.invert(pc.is_nan(source.cast(pa.float64()).fill_null(0.0))))
    elif texts and scalar.kind in ("integer", "number"):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(source))
        given = pc.and_(given, pc.invert(pc.match_substring_regex(words, NOT_A_NUMBER).fill_null(False)))
    if not given.true_count:
        return None
    unfit = flags_in(given) & ~valid_in(values)
    return unfit if unfit.any() else None


# -- lists of dicts ----------------------------------------------------------------------------------------------------


def _of_dicts(rows: Sequence[Any], plan: Plan, persons: Persons | None, start: int) -> _Block:
    digests = None
    if persons is not None:
        ids = [row.get(persons.column) if isinstance(row, Mapping) else None for row in rows]
        digests = persons.digests(ids, Places(start))
    for position, row in enumerate(rows, start):
        if not isinstance(row, Mapping):
            raise DataError(f"row {position} is a {type(row).__name__}; each row is a dict", row=position)
        if not row.keys() >= plan.columns:
            check_columns([name if isinstance(name, str) else "" for name in row], plan.schema, position)
    listed = registry.part("listed")
    found = [listed([row[scalar.column] for row in rows], scalar) for scalar in plan.scalars]

    def bad(check: Check, count: ColumnIntake) -> Flags | None:
        return check.bad_listed(found[check.place], count)

    return _checked([each.values for each in found], bad, digests, plan, Places(start))
