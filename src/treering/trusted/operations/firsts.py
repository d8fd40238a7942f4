"""PRIVATE: the first rows of each person, by group: which of the rows count where at most so many of a person do.

A `Book` has seen all rows up to a size, and knows how many rows of each person counted, in each group and in all: in
sorted arrays, as `People` keeps the rows of each. New rows are looked up in it: a leaf of new rows reads these alone.

Small tables are read here. For files and large tables DuckDB finds the first rows of each person and group in one
statement: the least position, where one row counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from treering.arrays import Flags, Ints, Words
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import Capped
from treering.errors import DataError, EngineError
from treering.trusted.rows.checks import PERSON
from treering.trusted.rows.kept import Need, Rows
from treering.trusted.rows.persons import DIGEST, People, halves
from treering.trusted.rows.tally import SMALL, Codes, Elsewhere, Engine, Grouping, Numbers, Piece, Statement
from treering.trusted.rows.typed import field_of
from treering.trusted.sealed import Sealed

_ODD: Final = tuple(np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64))


class Firsts(NamedTuple):
    """PRIVATE: rows that may count: with their persons' digests, groups, positions, and what they count for."""

    words: Words
    place: Ints
    """The group; −1 for none."""
    position: Ints
    unit: Ints

    def within(self, flags: Flags) -> Firsts:
        """Some of them."""
        if flags.all():
            return self
        return Firsts(self.words[:, flags], self.place[flags], self.position[flags], self.unit[flags])


class Book(Sealed):
    """PRIVATE: which rows counted so far."""

    __slots__ = ("_all", "_capped", "_each", "_groups", "flags", "size")

    def __init__(self, groups: Groups, capped: Capped) -> None:
        self._groups, self._capped = groups, capped
        self._forget()

    def _forget(self) -> None:
        binding = self._capped.most < min(self._capped.limit, self._capped.each * self._groups.number)
        self._each, self._all = People(), People() if binding else None
        """How many rows of each person counted in each group; and in all, where that has a cap of its own."""
        self.size = 0
        """How many rows were seen; −1 while some are taken up."""
        self.flags = 0
        """How many rows counted."""

    def counts(self, groups: Groups, capped: Capped) -> bool:
        """Whether this is the book of a series of these groups."""
        return capped == self._capped and same_groups(groups, self._groups)

    def uncounted(self, edges: tuple[int, ...]) -> tuple[int, ...]:
        """The edges of the intervals that are read to count those between these edges."""
        return edges if self.size == edges[0] or not edges[0] else (0, *edges)

    def count(self, rows: Rows, edges: tuple[int, ...]) -> Numbers:
        """What counts in each interval between two neighbouring edges: intervals, places, and numbers, without zeros.

        Rows before the first edge are read only if they were not seen, or more than these were.
        """
        need = Need(self._groups, self.uncounted(edges), self._capped)
        waiting = None if rows.ahead is None else rows.ahead.take(need)
        found: Any = rows.counting(need)() if waiting is None else waiting
        if self.size != edges[0]:
            self._forget()
        self.size = -1
        chosen = self._taken_up(found)
        self.size = edges[-1]
        return self._added(*chosen, edges)

    def _taken_up(self, found: Firsts) -> tuple[Ints, Ints, Ints]:
        """The positions, groups and numbers of those rows that count."""
        words, place, position, unit = found.within(found.place >= 0)
        by_key = _Sorted.of(_keys(words, place), position)
        if self._all is None and not self._each.known and by_key.single:  # Nothing came before: every row counts.
            self._each.add_counted(by_key.digests, by_key.sizes)
            self.flags += len(place)
            return position, place, unit
        within = by_key.ranks + by_key.spread(self._each.rows(by_key.digests)) < self._capped.each
        if self._all is not None:
            within = self._within_all(words, position, by_key.order, within)
        numbers = by_key.sums(within)
        self._each.add_counted(by_key.digests[:, numbers > 0], numbers[numbers > 0])
        chosen = by_key.order[within]
        self.flags += len(chosen)
        return position[chosen], place[chosen], unit[chosen]

    def _within_all(self, words: Words, position: Ints, order: Ints, within: Flags) -> Flags:
        """Which of some rows, in this order, count in all groups together."""
        assert self._all is not None
        chosen = order[within]
        by_person = _Sorted.of(words[:, chosen], position[chosen])
        more = by_person.ranks + by_person.spread(self._all.rows(by_person.digests)) < self._capped.most
        numbers = by_person.sums(more)
        self._all.add_counted(by_person.digests[:, numbers > 0], numbers[numbers > 0])
        counted = np.zeros(len(position), dtype=np.bool_)
        counted[chosen[by_person.order[more]]] = True
        return counted[order]

    def _added(self, position: Ints, place: Ints, unit: Ints, edges: tuple[int, ...]) -> Numbers:
        leaf = np.searchsorted(np.asarray(edges), position) - 1
        if len(leaf) and int(leaf.min()) < 0:
            leaf, place, unit = (each[leaf >= 0] for each in (leaf, place, unit))
        groups, keys = self._groups.number, leaf * self._groups.number + place
        if (len(edges) - 1) * groups <= max(_FEW, len(keys)):
            total = np.zeros((len(edges) - 1) * groups, dtype=np.int64)
            np.add.at(total, keys, unit)
            occupied = np.flatnonzero(total)
            return occupied // groups, occupied % groups, total[occupied]
        occupied, of = np.unique(keys, return_inverse=True)
        total = np.zeros(len(occupied), dtype=np.int64)
        np.add.at(total, of.reshape(-1), unit)
        return occupied // groups, occupied % groups, total


_FEW: Final = 2**16


def same_groups(one: Groups, other: Groups) -> bool:
    """Whether groups are the same conditions on values."""
    if one.axes != other.axes or one.table is None or other.table is None:
        return one.axes == other.axes and one.table is other.table
    return bool(np.array_equal(one.table, other.table))


def _keys(words: Words, place: Ints) -> Words:
    """A digest for each person and group: two of them are equal as seldom as those of two persons."""
    groups = place.astype(np.uint64)
    return np.stack([half + groups * odd for half, odd in zip(words, _ODD, strict=True)])


class _Sorted(NamedTuple):
    """Rows by digest, those of one digest by position."""

    order: Ints
    digests: Words
    """Each once, in order."""
    starts: Ints
    sizes: Ints

    @classmethod
    def of(cls, words: Words, position: Ints) -> _Sorted:
        order = np.argsort(words[0])
        first = words[0][order]
        if not (first[1:] == first[:-1]).any():
            every = np.arange(len(order))
            return cls(order, np.stack([first, words[1][order]]), every, np.ones_like(every))
        order = np.lexsort((position, words[1], words[0]))
        ordered = words[:, order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
        starts = np.flatnonzero(new)
        return cls(order, ordered[:, starts], starts, np.diff(starts, append=len(order)))

    @property
    def single(self) -> bool:
        """Whether each digest has one row."""
        return len(self.starts) == len(self.order)

    @property
    def ranks(self) -> Ints:
        """How many rows of its digest come before each row."""
        return np.arange(len(self.order)) - self.spread(self.starts)

    def spread(self, numbers: Ints) -> Ints:
        """A number for each digest, for each of its rows."""
        return np.repeat(numbers, self.sizes)

    def sums(self, flags: Flags) -> Ints:
        """How many rows of each digest are flagged."""
        return np.add.reduceat(flags.astype(np.int64), self.starts) if len(self.starts) else self.starts


# -- finding them ------------------------------------------------------------------------------------------------------


def firsts(
    engine: Callable[[], Engine],
    pieces: Sequence[Piece],
    schema: Schema,
    groups: Groups,
    edges: Sequence[int],
    capped: Capped,
) -> Firsts:
    """PRIVATE: the rows between the first and the last edge that may count: at least the first ``each`` of every person
    and group. Raises unless it has seen all rows there."""
    grouping = Grouping(schema, groups, capped.sums)
    within = [piece for piece in pieces if piece.first < edges[-1] and edges[0] < piece.last]
    found = [_by_hand(piece, grouping, capped, edges) for piece in within if _small(piece)]
    others = [piece for piece in within if not _small(piece)]
    if others and isinstance(others[0].content, Elsewhere):
        read: Firsts = others[0].content.firsts(others, grouping, edges, capped.each)
        found.append(read._replace(unit=_units(capped, read.unit)))
    elif others:
        found.append(_by_statement(engine(), others, grouping, capped, edges))
    if not found:
        return Firsts(np.empty((2, 0), dtype=np.uint64), *(np.empty(0, dtype=np.int64) for _ in range(3)))
    words, *rest = zip(*found, strict=True)
    return Firsts(np.concatenate(words, axis=1), *(np.concatenate(each) for each in rest))


def _small(piece: Piece) -> bool:
    content = piece.content
    if isinstance(content, Codes) or (isinstance(content, pa.Table) and PERSON not in content.schema.names):
        raise DataError("these rows have no column of persons: append tables with one")
    return isinstance(content, pa.Table) and piece.rows <= SMALL


def _units(capped: Capped, halves_of: Ints) -> Ints:
    """What rows count for, given their u, from −R to R: the steps above the lower bound."""
    return np.ones_like(halves_of) if capped.sums is None else (halves_of + capped.sums.reach) // 2


def _by_hand(piece: Piece, grouping: Grouping, capped: Capped, edges: Sequence[int]) -> Firsts:
    """All rows of a small table."""
    assert isinstance(piece.content, pa.Table)
    low, high = max(0, edges[0] - piece.first), min(piece.rows, edges[-1] - piece.first)
    table = piece.content.slice(low, high - low)
    place, units = grouping.of_table(table)
    words = halves(table.column(PERSON).combine_chunks())
    return Firsts(words, place, piece.first + low + 1 + np.arange(len(place)), _units(capped, units))


def _by_statement(
    engine: Engine, pieces: Sequence[Piece], grouping: Grouping, capped: Capped, edges: Sequence[int]
) -> Firsts:
    """The first rows of each person and group, of files and large tables. The first statement says which keys there
    are, and how many rows; these are sorted into groups here; the second finds the first rows."""
    statement, keys = Statement(), grouping.keys()
    columns = [PERSON, *(field_of(each) for each in grouping.scalars)]
    source = " UNION ALL ".join(_source(statement, piece, edges, columns) for piece in pieces)
    joins = " ".join(grouping.join(place, key, statement) for place, key in enumerate(keys))
    named = {f"k{place}": key.expression for place, key in enumerate(keys)}
    listed = "".join(f", {expression} AS {name}" for name, expression in named.items())
    unit = f"CAST({grouping.unit() or '0'} AS BIGINT) AS unit"
    rows = f'SELECT "{PERSON}" AS person, position, {unit}{listed} FROM ({source}) AS r {joins}'
    by = f"GROUP BY {', '.join(named)}" if named else ""
    lines = statement.run(engine, f"SELECT count(*) AS rows{''.join(f', {name}' for name in named)} FROM ({rows}) {by}")
    read, span = grouping.of_lines(lines, keys), _span(pieces, edges)
    if int(read.rows.sum()) != span:
        raise EngineError(f"there are other rows than the {span:,} that were taken in: nothing was answered")
    groups = lines.select(list(named)).append_column("place", pa.array(read.place.astype(np.int32)))
    statement.tables["groups"] = groups.filter(pa.array(read.place >= 0))
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM g.{name}" for name in named) or "true"
    grouped = f"({rows}) AS r JOIN groups AS g ON {same}"
    if capped.each == 1:
        total = "0" if capped.sums is None else "arg_min(unit, position)"
        figures = f"person, place, min(position) AS position, {total} AS unit"
        text = f"SELECT {figures} FROM {grouped} GROUP BY person, place"
    else:
        number = "row_number() OVER (PARTITION BY person, place ORDER BY position)"
        text = f"SELECT person, place, position, unit FROM {grouped} QUALIFY {number} <= {capped.each}"
    found = statement.run(engine, text)
    place, position, units = (np.asarray(found.column(name), np.int64) for name in ("place", "position", "unit"))
    return Firsts(halves(_fixed(found.column("person"))), place, position, _units(capped, units))


def _span(pieces: Sequence[Piece], edges: Sequence[int]) -> int:
    """How many rows of some pieces lie between the first and the last edge."""
    return sum(min(piece.last, edges[-1]) - max(piece.first, edges[0]) for piece in pieces)


def _fixed(column: pa.ChunkedArray) -> pa.Array:
    """A column of digests, which an engine has as bytes of any length."""
    whole = column.combine_chunks()
    return whole if whole.type == DIGEST else whole.cast(DIGEST)


def _source(statement: Statement, piece: Piece, edges: Sequence[int], columns: Sequence[str]) -> str:
    """Rows of a file or a table in memory, with their positions."""
    start, end = max(piece.first, edges[0]), min(piece.last, edges[-1])
    listed = ", ".join(f'"{name}"' for name in dict.fromkeys(columns))
    if isinstance(piece.content, pa.Table):
        name, rows = f"rows{piece.first}", piece.content.slice(start - piece.first, end - start)
        statement.tables[name] = rows.append_column("position", pa.array(np.arange(start + 1, end + 1)))
        return f"SELECT {listed}, position FROM {name}"
    statement.parameters[f"file{piece.first}"] = str(piece.content)
    return (
        f"SELECT {listed}, file_row_number + {piece.first + 1} AS position "
        f"FROM read_parquet($file{piece.first}, file_row_number = true) "
        f"WHERE file_row_number >= {start - piece.first} AND file_row_number < {end - piece.first}"
    )
