"""What a column of a table is to an engine, and how the engine spells what turns it into a typed value.

There is one `Spelling` for each engine, in its own file: ``duckdb``, ``postgresql``, ``spark``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from treering.trusted.dialect import Dialect
from treering.trusted.rows.typed import EARLY, LATE

Kind: TypeAlias = Literal[
    "null", "text", "field", "boolean", "integer", "wide", "real", "date", "moment", "instant", "other"
]
"""Kinds of columns. A field is a text of a file without types; a wide one holds integers beyond 64 bits; an instant has
a time zone."""


class Column(NamedTuple):
    """A column of a table in an engine: public."""

    kind: Kind
    type: str
    """The engine's name of its type, for messages and watermarks."""
    plain: str = "{0}"
    """What its values are in SQL: of numbers with a point, doubles, and null for NaN; of dates, microseconds since
    1970."""


@dataclass(frozen=True)
class Spelling:
    """How an engine spells what `treering.trusted.engines.columns` needs."""

    dialect: Dialect
    bytes: str
    """The bytes of a text in UTF-8."""
    matches: str
    """Whether a text matches a pattern."""
    extracted: str
    """What the first group of a pattern matches; empty or null if nothing does."""
    cast: str
    """A text as a value of a type; whatever it is where the text is none."""
    days: str
    """The days since 1970 of a valid date as a text."""
    string: str = "TEXT"
    """The type of texts."""
    fence: str = ""
    """The end of a subquery whose columns are to be worked out once, not wherever they are named."""


class Connection(Protocol):
    """A connection to an engine."""

    @property
    def spelling(self) -> Spelling:
        """How the engine spells what is asked."""

    def columns(self, rows: str) -> Mapping[str, Column]:
        """The columns of the rows that an SQL expression stands for."""

    def fetch(self, text: str) -> pa.Table:
        """PRIVATE: the result of a statement."""


class Extent(NamedTuple):
    """A file of rows, with the least and the greatest order value in it."""

    file: str
    first: int
    last: int


class Relation(NamedTuple):
    """The rows of a table, over a connection that is open."""

    connection: Connection
    rows: str
    """All of them, as SQL has them after FROM."""
    columns: Mapping[str, Column]
    extents: tuple[Extent, ...] = ()
    """The files, where the order values of each are known."""
    read: Callable[[Sequence[str]], str] = str
    """The rows of some of the files, as SQL has them after FROM."""

    def within(self, place: str, after: int | None, last: int | None) -> str:
        """The rows with an order value above ``after``, up to ``last``, as SQL has them after FROM; ``place`` is the
        order value. Files all of whose rows are meant are read as they are: a condition that every row fulfils takes as
        long as all else."""
        if after is None and last is None:
            return self.rows
        meant = [each for each in self.extents if not _misses(each, after, last)]
        whole = [each.file for each in meant if _lies_in(each, after, last)]
        cut = [each.file for each in meant if not _lies_in(each, after, last)]
        sources = [self.read(whole)] if whole else []
        if cut or not whole:
            sources.append(self._condition(self.read(cut) if cut else self.rows, place, after, last))
        if len(sources) == 1:
            return sources[0]
        return f"({' UNION ALL '.join(f'SELECT * FROM {each}' for each in sources)})"

    def _condition(self, rows: str, place: str, after: int | None, last: int | None) -> str:
        literal = self.connection.spelling.dialect.literal
        low = [] if after is None else [f"{place} > {literal(after)}"]
        high = [] if last is None else [f"{place} <= {literal(last)}"]
        return f"(SELECT * FROM {rows} AS f WHERE {' AND '.join(low + high)})"


def _misses(extent: Extent, after: int | None, last: int | None) -> bool:
    return (after is not None and extent.last <= after) or (last is not None and extent.first > last)


def _lies_in(extent: Extent, after: int | None, last: int | None) -> bool:
    return (after is None or extent.first > after) and (last is None or extent.last <= last)


_ENDS: Final = {
    "date": ("DATE '0001-01-01'", "DATE '10000-01-01'"),
    "moment": ("TIMESTAMP '0001-01-01'", "TIMESTAMP '10000-01-01'"),
    "instant": ("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '10000-01-01 00:00:00+00'"),
}


def clipped(kind: str, microseconds: str) -> str:
    """A date, timestamp or instant, which may be infinite, in microseconds since 1970."""
    first, after = _ENDS[kind]
    return f"CASE WHEN {{0}} < {first} THEN {EARLY} WHEN {{0}} >= {after} THEN {LATE} ELSE {microseconds} END"
