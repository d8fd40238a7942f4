"""Rows of a database beside a plain list of them, which is counted one by one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import treering as tr
from support.row_lives import groups_of
from treering.arrays import Ints
from treering.domain.groups import Groups
from treering.domain.numeric import Numbers
from treering.domain.schema import Schema
from treering.domain.sums import Grid, Sums, of_codes, summable, sums_of
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.tally import Codes, Elsewhere, Engine, Grouping, Lines, Piece
from treering.trusted.rows.typed import typed

SCHEMA = Schema(
    {
        "a": tr.integers(0, 3),
        "x": tr.numbers(0, 3, edges=[0, 1, 2, 3]),
        "y": tr.numbers(-2, 2, step=0.5, edges=[-2, 0, 2]),
    }
)
"""x has 3 steps, and y has 8."""
WIDE = Schema({**{f"w{place}": tr.integers(0, 999) for place in range(5)}, **SCHEMA.attributes})
"""More than 2^57 cells."""
EVERY = tuple(range(len(SCHEMA.names)))

_NUMBERS = {
    "x": [(-1.0, tr.BELOW), (0.0, 0.0), (0.4, 0.4), (1.5, 1.5), (2.6, 2.6), (99.0, tr.ABOVE), (None, None)],
    "y": [(-7.5, tr.BELOW), (-2.0, -2.0), (-0.2, -0.2), (0.0, 0.0), (1.9, 1.9), (2.5, tr.ABOVE), (None, None)],
}
"""Values, and the cells that they are in."""


class Row(NamedTuple):
    """One row, as it is counted."""

    cell: int
    units: tuple[int, ...]
    """u of its numbers."""


class Value(NamedTuple):
    """One row, as it comes."""

    a: int
    x: int
    y: int

    def fields(self) -> dict[str, object]:
        return {"a": self.a, **{name: _NUMBERS[name][getattr(self, name)][0] for name in _NUMBERS}}

    @property
    def row(self) -> Row:
        cell = SCHEMA.cell({"a": self.a, **{name: _NUMBERS[name][getattr(self, name)][1] for name in _NUMBERS}})
        return Row(cell, tuple(_unit(name, _NUMBERS[name][getattr(self, name)][0]) for name in _NUMBERS))


def _unit(name: str, value: float | None) -> int:
    grid = Grid.of(SCHEMA.attributes[name])
    assert grid is not None
    if value is None:
        return 0
    steps = math.floor((min(max(value, grid.low), grid.high) - grid.low) / grid.step + 0.5)
    return 2 * steps - grid.steps


VALUES = st.lists(
    st.builds(Value, st.integers(0, 3), *(st.integers(0, len(each) - 1) for each in _NUMBERS.values())), max_size=7
)


def table(values: Sequence[Value]) -> pa.Table:
    """Rows in the types in which they are kept."""
    kinds = {"a": pa.int64(), "x": pa.float64(), "y": pa.float64()}
    fields = [each.fields() for each in values]
    return typed(pa.table({name: pa.array([each[name] for each in fields], kinds[name]) for name in kinds}), SCHEMA)


def numeric(schema: Schema) -> list[int]:
    """The positions of the attributes of `numbers`: cells do not tell their values."""
    return [place for place, each in enumerate(schema.attributes.values()) if isinstance(each, Numbers)]


def middles(schema: Schema, cell: int) -> tuple[int, ...]:
    """u of the middle of a cell, for each attribute of `numbers`."""
    codes = np.unravel_index(cell, schema.shape)
    attributes = list(schema.attributes.values())
    return tuple(int(of_codes(attributes[place])[codes[place]]) for place in numeric(schema))


def ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


class Beside:
    """Rows, and a plain list of them."""

    def __init__(self, rows: Rows | None = None, folder: Path | None = None) -> None:
        self.rows = Rows(SCHEMA) if rows is None else rows
        self.plain: list[Row] = []
        self.folder = folder
        self.edges = {0}
        """The positions at which intervals may begin and end: not within rows that were taken in elsewhere."""

    def single(self, cells: Sequence[int]) -> None:
        """Rows given by their cells."""
        self.rows.add_cells(ints(cells))
        self._taken([Row(cell, middles(self.rows.schema, cell)) for cell in cells])

    def elsewhere(self, cells: Sequence[int]) -> None:
        """Rows that stay where they are, given by their cells."""
        self.rows.add_elsewhere(Away(ints(cells)), len(cells))
        self.plain += [Row(cell, middles(self.rows.schema, cell)) for cell in cells]
        self.edges.add(len(self.plain))

    def typed(self, values: Sequence[Value]) -> None:
        """Rows as they come."""
        self.rows.add(table(values))
        self._taken([value.row for value in values])

    def filed(self, values: Sequence[Value]) -> None:
        """Rows as they come, in a file."""
        assert self.folder is not None
        path = self.folder / f"{len(list(self.folder.iterdir())):08d}.parquet"
        pq.write_table(table(values), path, row_group_size=2)
        self.rows.add_file(path, len(values))
        self._taken([value.row for value in values])

    def _taken(self, rows: Sequence[Row]) -> None:
        self.edges |= {len(self.plain) + number for number in range(len(rows) + 1)}
        self.plain += rows

    def check(self, groups: Groups, edges: Sequence[int], sums: Sums | None = None) -> None:
        """The tally is the recount."""
        assert tallied(self.rows, groups, edges, sums) == self.recount(groups, edges, sums)

    def recount(self, groups: Groups, edges: Sequence[int], sums: Sums | None) -> dict[tuple[int, int], int]:
        """The numbers by interval and place, one row after another; those that are not 0."""
        schema, found = self.rows.schema, Counter[tuple[int, int]]()
        for leaf, (start, end) in enumerate(pairwise(edges)):
            part = self.plain[start:end]
            for row, group in zip(part, groups_of(groups, schema, [row.cell for row in part]), strict=True):
                if group < 0:
                    continue
                if sums is None:
                    found[leaf, group] += 1
                    continue
                if sums.counts:
                    found[leaf, group] += sums.reach
                found[leaf, group + (groups.number if sums.counts else 0)] += self._unit(row, sums)
        return {key: number for key, number in found.items() if number}

    def _unit(self, row: Row, sums: Sums) -> int:
        schema = self.rows.schema
        position = next(each for each in summable(schema) if sums_of(schema, each, counts=sums.counts) == sums)
        if position in numeric(schema):
            return row.units[numeric(schema).index(position)]
        code = np.unravel_index(row.cell, schema.shape)[position]
        return int(of_codes(schema.attributes[schema.names[position]])[code])

    def check_cells(self) -> None:
        """The counts of all cells, and marginals of them, are the recount."""
        cells = np.unravel_index(ints([row.cell for row in self.plain]), SCHEMA.shape)
        for kept in (EVERY, (0,), (1, 2)):
            truth = np.zeros([SCHEMA.shape[place] for place in kept], dtype=np.int64)
            np.add.at(truth, tuple(cells[place] for place in kept), 1)
            assert np.array_equal(self.rows.cells.marginal(kept), truth)


def tallied(rows: Rows, groups: Groups, edges: Sequence[int], sums: Sums | None) -> dict[tuple[int, int], int]:
    """A tally by interval and place; its lines are in their order, each place once."""
    leaf, place, number = (each.tolist() for each in rows.tally(groups, edges, sums))
    keys = list(zip(leaf, place, strict=True))
    assert keys == sorted(set(keys))
    return {key: each for key, each in zip(keys, number, strict=True) if each}


class Away(Elsewhere):
    """Rows in an engine, as far as anybody sees: one in each of some cells, or ``counts`` in each."""

    def __init__(self, cells: Ints, counts: Ints | None = None) -> None:
        self.cells = cells
        self.counts = np.ones_like(cells) if counts is None else counts

    def lines(self, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int]) -> Lines:
        found = []
        for piece in pieces:
            assert isinstance(piece.content, Away)
            assert not any(piece.first < edge < piece.last for edge in edges)
            place, units = grouping.of_codes(Codes(piece.content.cells), slice(None))
            leaf, counts = np.full(len(place), bisect_right(edges, piece.first) - 1), piece.content.counts
            found.append(Lines(leaf, place, counts, units * counts))
        return Lines(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def firsts(self, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int], each: int) -> Any:
        raise NotImplementedError("whose these rows are is not known")


def in_folder(folder: Path) -> Rows:
    """Rows that read files of this folder."""
    engine = Engine(folder)
    return Rows(SCHEMA, lambda: engine)
