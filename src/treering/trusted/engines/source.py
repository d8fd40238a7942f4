"""The source of rows that stay in an engine: which rows a refresh takes in, and how rows taken in are counted.

The engines are DuckDB (also for Parquet and CSV files), PostgreSQL and Spark.

A table grows at one end: its order column is a unique integer, and new rows have larger values than all before. The
watermark is the largest order value taken in so far, and how many rows the table had up to it. A refresh counts the
rows past it, and those that do not fit; nothing else is looked at. What is counted later is an interval of order values
between two refreshes, and must have as many rows as then.

A table is an address (``addresses``), which is connected to anew for each reading, or an Ibis table on a caller's
connection (``live``). Either way it has an `identity`, the same over every connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

from treering.domain.attribute import Categories
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, ParameterError, SchemaError, TreeringError
from treering.trusted.engines.addresses import Address
from treering.trusted.engines.columns import check_column
from treering.trusted.engines.spelling import Relation
from treering.trusted.engines.statements import (
    beyond,
    check_lens,
    distinct,
    few_valued,
    first_rows,
    grouped,
    refreshed,
)
from treering.trusted.engines.tables import Stretch
from treering.trusted.engines.watermark import Columns, Counts, Increment, Watermark, repeated
from treering.trusted.rows.frames import NO_HEADER
from treering.trusted.rows.tally import MOST_LINES, Grouping, Lines
from treering.trusted.rows.typed import stored
from treering.words import counted

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    Table: TypeAlias = ir.Table

Result = TypeVar("Result")

COUNTED_ROWS: Final = 2**20
"""Up to this many new rows, their distinct order values are counted to see that none repeats. For more rows that would
cost more than all else; see `Source` for why leaving it out is safe."""

MOST_LISTED: Final = 2**12
"""The most categories of an attribute that are written into a statement."""


class _Place(Protocol):
    """Where a table is: at an address, or on a caller's connection."""

    def open(self, schema: Schema, order: str) -> AbstractContextManager[Relation]: ...

    def identity(self, relation: Relation) -> str: ...


class Source:
    """A table in an engine that only grows.

    A refresh is one statement, so one snapshot of the engine. Public are the schema, the order column, how many rows
    there are, and how many of them do not fit.

    A wrong count is refused, if rows are only ever inserted or deleted: a row is taken in once, when it is first seen
    past the watermark; one that is inserted or deleted at or below it changes the number of rows there, which each
    refresh counts again, and each statement that counts rows those of its intervals. (Two changes go unseen: as many
    rows inserted as deleted between two refreshes, and rows changed in place. A table is only as append-only as its
    owner keeps it.) All of this holds for repeated order values too. They are refused because sooner or later they
    would lead to such a refusal: in any batch, if there are more rows than integers between the smallest and the
    largest value; exactly, for up to `COUNTED_ROWS` new rows.
    """

    def __init__(self, place: _Place, schema: Schema, order: str, address: str | None) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError(f"a table is read by a Schema, not by {type(schema).__name__}")
        if not isinstance(order, str):
            raise ParameterError("order", "must be the name of a column")
        self._place = place
        self._reading = threading.Lock()
        self._many: set[str] = set()
        """Columns that were found to have many values."""
        self.schema: Final = schema
        """The universe: public."""
        self.order: Final = order
        """The name of the order column: public."""
        self.address: Final = address
        """The address of the table; None for a table on a caller's connection."""
        columns, known_as = attempt("looked at", self._look)
        self.columns: Final = columns
        """Name and type of each column that is read, as they were when the source was made."""
        self.identity: Final = known_as
        """A name of the table, equal for two sources of the same table."""

    @classmethod
    def of(cls, table: Table | str, schema: Schema, order: str = "id") -> Source:
        """The source of an Ibis table, or of the table at an address (see `trusted.engines.addresses`).

        ``order`` is the name of the order column.
        """
        if isinstance(table, str):
            address = Address.parse(table)
            return cls(address, schema, order, address.text)
        if type(table).__module__.partition(".")[0] != "ibis":  # It takes a second to load.
            raise ParameterError("table", f"must be an Ibis table or an address, not {type(table).__name__}")
        from treering.trusted.engines.live import LiveTable

        return cls(attempt("looked at", lambda: LiveTable(table)), schema, order, None)

    def increment(self, after: Watermark | None, on_invalid: Literal["refuse", "drop"] = "refuse") -> Increment:
        """What lies past the watermark ``after`` (None: all rows), and the next watermark.

        The source keeps no state: after a failure, the same watermark gives the same rows again and those that came
        since. An engine that fails, or a table that did not only grow at its end, raises `EngineError`; rows that do
        not fit raise `DataError`, which names columns and numbers of rows, or are left out and counted with
        ``on_invalid="drop"``.
        """
        if on_invalid not in ("refuse", "drop"):
            raise ParameterError("on_invalid", 'must be "refuse" or "drop"')
        if after is not None:
            self._check_columns(after.columns)
        counts = attempt("read", lambda: self._read(after))
        if on_invalid == "refuse" and any(counts.unfit.values()):
            raise counts.refusal(self.schema)
        return Increment.past(after, counts, self.columns)

    def count(self, grouping: Grouping, bounds: Sequence[int | None], *, fitting: bool) -> Lines:
        """PRIVATE: the rows of all intervals between neighbouring ``bounds``, which are order values, grouped.
        ``fitting``: those that do not fit are left out."""

        def counting() -> Lines:
            with self._opened() as relation:
                given = relation, self.schema, grouping, self.order, bounds
                few = few_valued(relation, grouping) - self._many
                lines, keys = grouped(*given, few, fitting=fitting)
                if few and lines.num_rows > MOST_LINES:
                    self._many |= few
                    lines, keys = grouped(*given, frozenset(), fitting=fitting)
                return grouping.of_lines(lines, keys)

        return attempt("read", counting)

    def first_rows(
        self, grouping: Grouping, bounds: Sequence[int | None], person: str, each: int, *, fitting: bool
    ) -> tuple[pa.Table, Lines]:
        """PRIVATE: the first rows, up to ``each``, of each person and group between two order values: persons and
        order values; and their groups and numbers."""

        def finding() -> tuple[pa.Table, Lines]:
            with self._opened() as relation:
                self._check_person(relation, person)
                given = relation, self.schema, grouping, self.order, bounds, person, each
                lines, keys = first_rows(*given, fitting=fitting)
                return lines, grouping.of_lines(lines, keys)

        return attempt("read", finding)

    def check_person(self, person: str) -> None:
        """Refuse a column that does not say whose a row is."""

        def looking() -> None:
            with self._opened() as relation:
                self._check_person(relation, person)

        attempt("looked at", looking)

    def check_limit(self, person: str, limit: int, mark: Watermark) -> None:
        """Refuse rows up to a watermark of which a person has more than ``limit``, or that are of no person. (It tells
        the steward how many, and not who.)"""

        def counting() -> tuple[int, int]:
            with self._opened() as relation:
                self._check_person(relation, person)
                return beyond(relation, self.order, mark.value, person, limit)

        nobody, many = attempt("read", counting)
        if nobody:
            raise DataError(f"{counted(nobody, 'row')} have no person in column {person!r}: nothing was taken in")
        if many:
            raise DataError(
                f"{counted(many, 'person')} would have more than {counted(limit, 'row')}, which is rows_per_person: "
                "nothing was taken in"
            )

    def _check_person(self, relation: Relation, person: str) -> None:
        if person not in relation.columns:
            raise DataError(f"the table has no column {person!r} that says whose a row is", column=person)
        column = relation.columns[person]
        if column.kind not in ("text", "field", "integer", "wide"):
            raise DataError(
                f"the column {person!r} has type {column.type}: a person is an integer or a text, which is the same "
                "whenever it is read",
                column=person,
            )

    def stretch(self, after: Watermark | None, mark: Watermark) -> Stretch:
        """The rows past the watermark ``after``, up to ``mark``."""
        return Stretch(lambda: self, after, mark)

    @contextmanager
    def _opened(self) -> Iterator[Relation]:
        """The table, connected and checked, for one statement: one at a time."""
        with self._reading, self._place.open(self.schema, self.order) as relation:
            self._check(relation)
            self._check_columns(_columns(relation, self.schema, self.order))
            yield relation

    def _look(self) -> tuple[Columns, str]:
        with self._reading, self._place.open(self.schema, self.order) as relation:
            self._check(relation)
            check_lens(relation, self.schema)
            return _columns(relation, self.schema, self.order), self._place.identity(relation)

    def _read(self, after: Watermark | None) -> Counts:
        """The counts of one statement, checked; order values must be distinct, if they are few enough to count."""
        with self._opened() as relation:
            counts = refreshed(relation, self.schema, self.order, None if after is None else after.value)
            counts.check(after, self.order)
            if 0 < counts.past <= COUNTED_ROWS:
                different = distinct(relation, self.order, None if after is None else after.value, counts.last)
                if different < counts.past:
                    raise repeated(self.order)
                if different > counts.past:
                    raise EngineError("rows came late while the table was read, and nothing was taken in: try again")
            return counts

    def _check(self, relation: Relation) -> None:
        """Refuse a table whose columns cannot hold the schema's values, or cannot be ordered."""
        columns, schema = relation.columns, self.schema
        absent = [name for name in (*schema.columns, self.order) if name not in columns]
        if absent:
            raise DataError(
                f"the table has no column {', '.join(map(repr, absent))} among its {len(columns):,} ({NO_HEADER})",
                column=absent[0],
            )
        for scalar in stored(schema):
            check_column(scalar, columns[scalar.column])
        for name, attribute in schema.attributes.items():
            if isinstance(attribute, Categories) and attribute.regular > MOST_LISTED:
                raise SchemaError(
                    f"column {name!r}: an engine takes at most {MOST_LISTED:,} categories, not {attribute.regular:,}"
                )
        meant = {scalar.kind for scalar in stored(schema) if scalar.column == self.order}
        if columns[self.order].kind not in ("integer", "field") or meant & {"text", "boolean", "moment"}:
            raise DataError(
                f"the order column {self.order!r} has type {columns[self.order].type}: rows are told apart by a unique "
                "integer that only grows, such as an identity column",
                column=self.order,
            )

    def _check_columns(self, columns: Columns) -> None:
        changed = sorted({name for name, _ in set(columns) ^ set(self.columns)})
        if changed:
            raise EngineError(
                f"columns of the table have another type than before: {', '.join(map(repr, changed))}; "
                "nothing was taken in"
            )


def _columns(relation: Relation, schema: Schema, order: str) -> Columns:
    return tuple((name, relation.columns[name].type) for name in dict.fromkeys((order, *schema.columns)))


def attempt(verb: str, action: Callable[[], Result]) -> Result:
    """Run ``action``. An engine's exception may quote a value of a row, so another replaces it, outside the block that
    caught it."""
    try:
        return action()
    except TreeringError:
        raise
    except Exception as error:
        problem = type(error).__name__
    raise EngineError(
        f"the table could not be {verb} ({problem} in the engine), and nothing was taken in: once the engine is well, "
        "try again"
    )
