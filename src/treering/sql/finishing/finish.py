"""The second stage: a statement worked out over released tables, with a margin beside each number.

A number that was released has its margin; any other is worked out from readings, and so is its margin (`margins`).
Where noise has part in what rows there are, margins are for all groups together.

A released table has a column for each key (k0, …), and three for each figure: the reading to work with (m0, …), the
number to show (s0, …) and its margin (e0, …). Its rows are numbered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from sqlglot import exp

from treering.answer import Estimate
from treering.arrays import Floats
from treering.deadline import check
from treering.domain.language.items import Item
from treering.sql.duck import run, written
from treering.sql.finishing.lineage import ROW, Counts, direct, divides, followed, numbered, unchosen, workable
from treering.sql.finishing.margins import UNDEFINED, Again, Moves
from treering.sql.finishing.plain import Plain
from treering.sql.finishing.ranges import Ranges, shown
from treering.sql.finishing.taint import Level, Taint, taint
from treering.sql.split import Core, Row, Statement
from treering.theory.rings import joint

DRAWS: Final = 1000
"""How often noise is drawn; fewer times where the released tables are long."""
MOST_DRAWN: Final = 400_000
"""The most released rows of all draws together."""

_DRAWS_TABLE: Final = "draws"

DRAW: Final = "draw"
"""The column that tells draws apart."""


def draws_for(statement: Statement) -> int:
    """How often noise is to be drawn; 0 if every number of the result is one that was released."""
    if not _derived(statement.outer, taint(statement.outer)):
        return 0
    return max(100, min(DRAWS, MOST_DRAWN // _groups(statement)))


def _groups(statement: Statement) -> int:
    return max(1, sum(len(core.rows) for core in statement.cores))


def _derived(outer: exp.Expr, found: Taint) -> list[int]:
    """The columns that are worked out from noisy numbers, and whose margins are too."""
    nodes = outer.expressions if isinstance(outer, exp.Select) else [None] * len(found.levels)
    return [
        place
        for place, (level, node) in enumerate(zip(found.levels, nodes, strict=True))
        if level is Level.NOISY and (node is None or direct(outer, node) is None)
    ]


def finish(statement: Statement, released: Released, names: Sequence[str]) -> pa.Table:
    """The result, its columns called ``names``, each noisy number followed by its margin."""
    return _Finishing(statement, released).table(names)


def rehearse(statement: Statement) -> None:
    """Work a statement out on placeholders: what is bound to fail, whatever the numbers are, fails here, for free."""
    told = [_placeholder(place, item) for place, item in enumerate(statement.items)]
    noise = np.zeros((2, len(told)))
    finishing = _Finishing(statement, Released(statement.items, told, noise, 10 * len(told) + 1000))
    finishing.check()
    finishing.table([f"c{place}" for place in range(len(taint(statement.outer).levels))])


def _placeholder(place: int, item: Item) -> Estimate:
    number = 100 + 7 * place
    whole = item.kind in ("count", "persons") and item.query.counting
    return Estimate(number if whole else number + 0.5, 0.0, 2.0 * number, float(number), float(number), "normal")


@dataclass(frozen=True, slots=True)
class _Result:
    """A result with what stands behind its columns."""

    table: pa.Table
    types: list[pa.DataType]
    """The types that exact numbers would have."""
    margins: dict[int, int]
    rows: list[int]


class _Finishing:
    """The finishing of one statement."""

    def __init__(self, statement: Statement, released: Released) -> None:
        self._statement, self._released = statement, released
        self._taint = taint(statement.outer)
        self._groups = _groups(statement) if self._taint.selects else 1
        place = {item: number for number, item in enumerate(released.items)}
        self._listed = {core.name: Listed.of(core, place, released.told) for core in statement.cores}
        self._counts: Counts = {
            (core.name, f"m{number}")
            for core in statement.cores
            for number, figure in enumerate(core.figures)
            if figure.kind in ("count", "persons")
        }

    def table(self, names: Sequence[str]) -> pa.Table:
        """The result with its columns called ``names``, and a margin's column after each noisy number."""
        result = self._result()
        margins = self._margins(result)
        ranges = Ranges(self._statement, self._released.size)
        columns: list[Any] = []
        called: list[str] = []
        for place, name in enumerate(names):
            column = result.table.column(place)
            called.append(name)
            if self._taint.levels[place] is Level.EXACT or not is_number(result.types[place]):
                columns.append(column)
                continue
            margin = margins.get(place, np.full(len(column), np.nan))
            limits = ranges.of(place)
            columns += shown(column, result.types[place], margin, limits, released=place in result.margins)
            called.append(f"{name}_margin")
        return pa.Table.from_arrays(columns, names=called)

    def check(self) -> None:
        """Raise `QueryError` if the statement ends in an error over these numbers."""
        if self._plain() is not None:
            return
        tables = {name: each.table(self._released, self._groups) for name, each in self._listed.items()}
        _run(workable(self._statement.outer.copy(), self._counts, strict=True), tables)

    def _plain(self) -> _Result | None:
        """The result of a statement that only selects columns of a released table."""
        plain = Plain.of(self._statement.outer)
        if plain is None:
            return None
        listed = self._listed[plain.table]
        types = plain.types(listed.empty(self._released))
        if types is None:
            return None
        table, margins = plain.result(listed.table(self._released, self._groups))
        return _Result(table, types, margins, [])

    def _result(self) -> _Result:
        plain = self._plain()
        if plain is not None:
            return plain
        outer = self._statement.outer
        empty = {name: each.empty(self._released) for name, each in self._listed.items()}
        types = _run(outer, empty).schema.types
        check()
        tables = {name: each.table(self._released, self._groups) for name, each in self._listed.items()}
        tree, margins, rows = followed(outer)
        return _Result(_run(workable(tree, self._counts, margins=True), tables), types, margins, rows)

    def _margins(self, result: _Result) -> dict[int, Floats]:
        """The margins of noisy columns, as far as there are any; NaN for a number that has none."""
        found = {place: numbers(result.table.column(behind)) for place, behind in result.margins.items()}
        derived = [place for place in _derived(self._statement.outer, self._taint) if is_number(result.types[place])]
        if not derived or not result.table.num_rows:
            return found
        check()
        tree = unchosen(self._statement.outer)
        moves = self._moves(corners=taint(tree).selects)
        if moves is None:
            return found
        drawn, rows = self._again(tree, moves)
        check()
        width = len(self._taint.levels)
        labels = [place for place in range(width) if self._tells_rows_apart(result, place)]
        again = Again.of(
            [result.table.column(place) for place in [*labels, *result.rows]],
            [drawn.column(f"c{place}") for place in [*labels, *rows]],
            np.asarray(drawn.column(DRAW), dtype=np.int64),
            result.table.num_rows,
            moves,
        )
        undefined = divides(self._statement.outer)
        for place in derived:
            centres = numbers(result.table.column(place))
            margin, without = again.margins(centres, numbers(drawn.column(f"c{place}")))
            found[place] = np.where(without > UNDEFINED, np.inf, margin) if undefined else margin
        return found

    def _tells_rows_apart(self, result: _Result, place: int) -> bool:
        """Whether rows are found again by a column: it is exact or, where rows have no numbers, at least a text."""
        return self._taint.levels[place] is Level.EXACT or not (result.rows or is_number(result.types[place]))

    def _moves(self, *, corners: bool) -> Moves | None:
        """What the readings are moved by; None if there would be too many moves."""
        told, noise = self._released.told, self._released.noise
        if noise is None:
            errors = np.array([each.error or 0.0 for each in told])
            some = np.flatnonzero(errors)
            if 2 * len(some) * _groups(self._statement) > 2 * MOST_DRAWN:
                return None
            moved = np.zeros((2 * len(some), len(told)))
            moved[2 * np.arange(len(some)), some] = errors[some]
            moved[2 * np.arange(len(some)) + 1, some] = -errors[some]
            return Moves(moved, 0)
        if self._groups == 1:
            return Moves(noise, len(noise))
        scaled = noise * np.array([factor(each, self._groups) for each in told])
        wide = np.array([together(each, self._groups) or 0.0 for each in told])
        return Moves(np.vstack([scaled, wide, -wide]) if corners else scaled, len(noise))

    def _again(self, tree: exp.Expr, moves: Moves) -> tuple[pa.Table, list[int]]:
        """The statement worked out for each of the moves, and the places of the numbers of its rows."""
        width = len(self._taint.levels)
        rows = list(range(width, width + numbered(tree)))
        each = _for_each_draw(workable(tree, self._counts), width + len(rows))
        tables = {name: listed.stacked(self._released, moves.noise) for name, listed in self._listed.items()}
        draws = pa.table({DRAW: np.arange(len(moves.noise))})
        return _run(each, {**tables, _DRAWS_TABLE: draws}), rows


def _run(tree: exp.Expr, tables: dict[str, pa.Table]) -> pa.Table:
    return run(written(tree), tables)


def _for_each_draw(tree: exp.Expr, width: int) -> exp.Expr:
    """The statement worked out for each draw at once."""
    for table in list(tree.find_all(exp.Table)):
        name = exp.to_identifier(table.name, quoted=True)
        own = exp.column(DRAW, table="s", quoted=True).eq(exp.column(DRAW, table=_DRAWS_TABLE, quoted=True))
        of_draw = exp.select("*").from_(exp.alias_(exp.Table(this=name), "s", table=True)).where(own)
        table.replace(of_draw.subquery(exp.to_identifier(table.alias or table.name, quoted=True)))
    assert isinstance(tree, exp.Query)
    columns = [exp.to_identifier(f"c{place}", quoted=True) for place in range(width)]
    alias = exp.TableAlias(this=exp.to_identifier("r", quoted=True), columns=columns)
    lateral = exp.Lateral(this=exp.Subquery(this=tree), alias=alias)
    draws = exp.Table(this=exp.to_identifier(_DRAWS_TABLE, quoted=True))
    return exp.select("*").from_(draws).join(exp.Join(this=lateral))


def numbers(column: Any) -> Floats:
    """A column as floats, NaN for null; of dates, days since 1970."""
    plain = column.cast(pa.int32()) if kinds.is_date32(column.type) else column
    return np.array(plain.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column has margins: numbers and dates."""
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_date32(kind))


# -- released tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Released:
    """What is known of the items of a statement at a size, and draws of its noise."""

    items: tuple[Item, ...]
    told: Sequence[Estimate]
    noise: Floats | None
    """A row for each draw, a column for each item; None where the law is not known."""
    size: int


def together(estimate: Estimate, groups: int) -> float | None:
    """The margin that numbers of this many groups keep together; None if none is known.

    Where the law of the noise is known, by `joint`. (A whole number's margin was rounded, by half a row at most.)
    """
    margin = estimate.margin
    if margin is None or estimate.tail == "together":
        return estimate.error
    wide = joint(groups, normal=estimate.tail == "normal")
    if estimate.error == 0 or not isinstance(estimate.value, int):
        return margin * wide
    return float(math.floor((margin + 0.5) * wide + 0.5))


def factor(estimate: Estimate, groups: int) -> float:
    """By how much noise is drawn wider where numbers of this many groups are to keep their margins together."""
    if estimate.tail != "together":
        return joint(groups, normal=estimate.tail == "normal")
    return max(1.0, estimate.error / estimate.margin) if estimate.error and estimate.margin else 1.0


@dataclass(frozen=True, slots=True)
class Listed:
    """A core with the places of its items among those that were released."""

    core: Core
    rows: list[Row]
    """The rows that are shown: special ones only where rows were seen, beyond the noise."""
    places: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    """A row for each group, a column for each figure."""

    @classmethod
    def of(cls, core: Core, place: Mapping[Item, int], told: Sequence[Estimate]) -> Listed:
        """A core whose items have these places."""
        shown: list[Row] = []
        listed: list[list[int]] = []
        for row, items in zip(core.rows, core.items, strict=True):
            places = [place[item] for item in items]
            if not row.special or (core.counted is not None and _seen(told[places[core.counted]], len(core.rows))):
                shown.append(row)
                listed.append(places)
        return cls(core, shown, np.array(listed, dtype=np.int64).reshape(len(shown), len(core.figures)))

    def table(self, released: Released, groups: int) -> pa.Table:
        """The table; margins are for ``groups`` groups together."""
        columns = self._keys()
        for number in range(len(self.core.figures)):
            told = [released.told[place] for place in self.places[:, number]]
            margins = [each.margin if groups == 1 else together(each, groups) for each in told]
            columns[f"m{number}"] = pa.array([each.raw for each in told], type=pa.float64())
            columns[f"s{number}"] = pa.array([each.value for each in told], type=_kind(told))
            columns[f"e{number}"] = pa.array(margins, type=pa.float64())
        columns[ROW] = pa.array(np.arange(len(self.rows)))
        return pa.table(columns)

    def empty(self, released: Released) -> pa.Table:
        """No rows, with the types that numbers of exact rows would have: they say what a result is."""
        columns = {name: column.slice(0, 0) for name, column in self._keys().items()}
        for number in range(len(self.core.figures)):
            kind = _kind([released.told[place] for place in self.places[:, number]])
            columns[f"m{number}"] = pa.array([], type=kind)
        return pa.table(columns or {ROW: pa.array([], type=pa.int64())})

    def stacked(self, released: Released, noise: Floats) -> pa.Table:
        """The keys, and the readings with noise added, for each draw."""
        draws = len(noise)
        columns = {name: pa.chunked_array([column] * draws) for name, column in self._keys().items()}
        for number in range(len(self.core.figures)):
            told = [released.told[place] for place in self.places[:, number]]
            known = np.array([math.nan if each.raw is None else float(each.raw) for each in told])
            moved = (known + noise[:, self.places[:, number]]).ravel()
            columns[f"m{number}"] = pa.array(moved, from_pandas=True)
            whole = pa.types.is_integer(_kind(told))
            rounded = np.maximum(np.rint(moved), 0).astype(np.int64) if whole else moved
            columns[f"s{number}"] = pa.array(rounded, from_pandas=True)
        columns[ROW] = pa.array(np.tile(np.arange(len(self.rows)), draws))
        columns[DRAW] = pa.array(np.repeat(np.arange(draws), len(self.rows)))
        return pa.table(columns)

    def _keys(self) -> dict[str, Any]:
        return {
            f"k{number}": _label_column([row.labels[number] for row in self.rows])
            for number in range(len(self.core.keys))
        }


def _kind(told: Sequence[Estimate]) -> pa.DataType:
    """The type of a figure's numbers: counts are whole."""
    return pa.int64() if all(isinstance(each.value, int) for each in told) else pa.float64()


def _seen(counted: Estimate, groups: int) -> bool:
    """Whether a count is above its noise, as one of some groups."""
    least = together(counted, groups)
    return least is not None and (counted.value or 0.0) > least


def _label_column(labels: Sequence[Any]) -> pa.Array:
    """Labels as a column; as texts if they are of several types."""
    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        return pa.array([None if label is None else str(label) for label in labels])
    return pa.array(labels)
