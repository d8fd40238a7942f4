"""The second stage: a statement worked out over released tables, with a margin beside each number.

A number that was released has its margin. Any other is a function of released numbers, and those are the truth plus
noise of a known law: noise is drawn from that law many times, the statement is worked out for each draw, and the margin
is the distance from the result that 95% of the draws keep. Where rows are chosen by noisy numbers, the margins are for
all groups together: 0.05/m for each of m (a union bound), by the ratio of the normal quantiles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from sqlglot import exp

from treering.answer import Estimate
from treering.arrays import Floats
from treering.domain.items import Item
from treering.sql.duck import run, written
from treering.sql.measures import undated
from treering.sql.split import Core, Row, Statement
from treering.sql.taint import Taint, taint

DRAWS: Final = 1000
"""How often noise is drawn; fewer times where the released tables are long."""
MOST_DRAWN: Final = 400_000
"""The most released rows of all draws together."""

_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, eq=False, slots=True)
class Released:
    """What is known of the items of a statement, and draws of its noise."""

    items: tuple[Item, ...]
    told: Sequence[Estimate]
    noise: Floats
    """A row for each draw, a column for each item."""


def draws_for(statement: Statement) -> int:
    """How often noise is to be drawn; 0 if every number of the result is one that was released."""
    if _direct(statement.outer, taint(statement.outer)) is not None:
        return 0
    rows = max(1, sum(len(core.rows) for core in statement.cores))
    return max(100, min(DRAWS, MOST_DRAWN // rows))


def finish(statement: Statement, released: Released, names: Sequence[str]) -> pa.Table:
    """The result, its columns called ``names``, each noisy number followed by its margin."""
    found = taint(statement.outer)
    place = {item: number for number, item in enumerate(released.items)}
    listed = [_Listed.of(core, place, released.told) for core in statement.cores]
    tables = {core.name: each.table(released) for core, each in zip(statement.cores, listed, strict=True)}
    factor = joint(sum(len(core.rows) for core in statement.cores)) if found.selects else 1.0
    margins = _direct(statement.outer, found)
    if margins is not None:
        both = run(written(_with_margins(statement.outer, margins)), tables)
        return _beside(both, _scaled(both, margins, len(names), factor), names)
    result = run(written(statement.outer), tables)
    stacked = {core.name: each.stacked(released) for core, each in zip(statement.cores, listed, strict=True)}
    return _beside(result, _drawn(statement, found, result, stacked, len(released.noise), factor), names)


def _scaled(table: pa.Table, noisy: Iterable[int], names: int, factor: float) -> dict[int, list[float | None]]:
    """The margins of noisy columns, which stand behind all others, times a factor."""
    return {
        column: [None if each is None else each * factor for each in table.column(names + number).to_pylist()]
        for number, column in enumerate(noisy)
    }


# -- released tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listed:
    """A core with the places of its items among those that were released."""

    core: Core
    rows: list[Row]
    """The rows that are shown: special ones only where rows were seen, beyond the noise."""
    places: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    """A row for each group, a column for each figure."""

    @classmethod
    def of(cls, core: Core, place: dict[Item, int], told: Sequence[Estimate]) -> _Listed:
        """A core whose items have these places."""
        wide = joint(len(core.rows))
        shown: list[Row] = []
        listed: list[list[int]] = []
        for row, items in zip(core.rows, core.items, strict=True):
            places = [place[item] for item in items]
            if not row.special or (core.counted is not None and _seen(told[places[core.counted]], wide)):
                shown.append(row)
                listed.append(places)
        return cls(core, shown, np.array(listed, dtype=np.int64).reshape(len(shown), len(core.figures)))

    def table(self, released: Released) -> pa.Table:
        """The keys, each figure's numbers (m0, …) and their margins (e0, …)."""
        columns = self._keys()
        for number in range(len(self.core.figures)):
            told = [released.told[place] for place in self.places[:, number]]
            columns[f"m{number}"] = pa.array([each.value for each in told])
            columns[f"e{number}"] = pa.array([each.margin for each in told], type=pa.float64())
        return _table(columns, len(self.rows))

    def stacked(self, released: Released) -> pa.Table:
        """The keys and numbers with noise drawn anew, for each draw."""
        draws = len(released.noise)
        columns = {name: pa.chunked_array([column] * draws) for name, column in self._keys().items()}
        for number in range(len(self.core.figures)):
            places = self.places[:, number]
            values = [released.told[place].value for place in places]
            known = np.array([math.nan if value is None else float(value) for value in values])
            columns[f"m{number}"] = pa.array((known + released.noise[:, places]).ravel(), from_pandas=True)
        columns["draw"] = pa.array(np.repeat(np.arange(draws), len(self.rows)))
        return pa.table(columns)

    def _keys(self) -> dict[str, Any]:
        return {
            f"k{number}": _label_column([row.labels[number] for row in self.rows])
            for number in range(len(self.core.keys))
        }


def _seen(counted: Estimate, factor: float) -> bool:
    """Whether a count is above its noise, as one of all groups."""
    return (counted.value or 0.0) > (counted.margin or 0.0) * factor


def _label_column(labels: Sequence[Any]) -> pa.Array:
    """Labels as a column; as texts if they are of several types."""
    kinds_of = {type(label) for label in labels if label is not None}
    if len(kinds_of) > 1 and not kinds_of <= {int, float}:
        return pa.array([None if label is None else str(label) for label in labels])
    return pa.array(labels)


def _table(columns: dict[str, Any], rows: int) -> pa.Table:
    """A table, also where there is no column: then it has one that nobody names."""
    return pa.table(columns or {"nothing": pa.nulls(rows)})


# -- margins -----------------------------------------------------------------------------------------------------------


def joint(groups: int) -> float:
    """By how much margins for so many groups together are wider than for one.

    >>> [round(1.96 * joint(groups), 2) for groups in (1, 12, 192, 1728)]
    [1.96, 2.87, 3.65, 4.18]
    """
    normal = NormalDist()
    return normal.inv_cdf(1 - (1 - _CONFIDENCE) / (2 * max(1, groups))) / normal.inv_cdf((1 + _CONFIDENCE) / 2)


def _direct(outer: exp.Expr, found: Taint) -> dict[int, exp.Column] | None:
    """For each noisy column the one that has its margin, if every noisy column is a released number."""
    if not isinstance(outer, exp.Select) or outer.args.get("distinct"):
        return None
    margins: dict[int, exp.Column] = {}
    for number, node in enumerate(outer.expressions):
        inner = undated(node.unalias().unnest())
        if not found.columns[number]:
            continue
        if not isinstance(inner, exp.Column) or not inner.table.startswith("released_"):
            return None
        margins[number] = exp.column(f"e{inner.name[1:]}", table=inner.table, quoted=True)
    return margins


def _with_margins(outer: exp.Expr, margins: dict[int, exp.Column]) -> exp.Expr:
    changed = outer.copy()
    assert isinstance(changed, exp.Select)
    for number, column in margins.items():
        changed.append("expressions", exp.alias_(column.copy(), f"margin_of_{number}", quoted=True))
    return changed


def _drawn(
    statement: Statement, found: Taint, result: pa.Table, stacked: dict[str, pa.Table], draws: int, factor: float
) -> dict[int, list[float | None]]:
    """The margins of noisy columns by draws: rows of a draw are found by the columns that are not noisy."""
    columns = [f"c{number}" for number in range(result.num_columns)]
    drawn = run(_for_each_draw(statement, columns, draws), stacked)
    labels = [number for number, noisy in enumerate(found.columns) if not noisy]
    noisy = [number for number, flag in enumerate(found.columns) if flag and _is_number(result.schema.types[number])]
    rows = _by_labels([drawn.column(f"c{number}").to_pylist() for number in labels], drawn)
    wanted = list(zip(*(result.column(number).to_pylist() for number in labels), strict=True)) or [()] * result.num_rows
    margins: dict[int, list[float | None]] = {}
    for number in noisy:
        values = np.array(_numbers(drawn.column(f"c{number}")).to_pylist(), dtype=np.float64)
        said = _numbers(result.column(number)).to_pylist()
        margins[number] = [
            _half_width(values[rows[key]], centre, factor) for key, centre in zip(wanted, said, strict=True)
        ]
    return margins


def _by_labels(columns: list[list[Any]], drawn: pa.Table) -> dict[tuple[Any, ...], list[int]]:
    rows: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    keys = zip(*columns, strict=True) if columns else (() for _ in range(drawn.num_rows))
    for number, key in enumerate(keys):
        rows[key].append(number)
    return rows


def _half_width(values: Floats, centre: float | None, factor: float) -> float | None:
    there = values[np.isfinite(values)]
    if centre is None or not math.isfinite(centre) or len(there) == 0:
        return None
    return float(np.quantile(np.abs(there - centre), _CONFIDENCE, method="higher")) * factor


def _for_each_draw(statement: Statement, columns: Sequence[str], draws: int) -> str:
    """The statement worked out for each draw at once. What chooses rows at its end is left out: the rows are chosen."""
    inner = statement.outer.copy()
    if isinstance(inner, exp.Select):
        for clause in ("order", "limit", "offset", "qualify"):
            inner.set(clause, None)
        if _over_released(inner):
            inner.set("where", None)
    for table in list(inner.find_all(exp.Table)):
        name = exp.to_identifier(table.name, quoted=True)
        own = exp.column("draw", table="s", quoted=True).eq(exp.column("draw", table="draws", quoted=True))
        of_draw = exp.select("*").from_(exp.alias_(exp.Table(this=name), "s", table=True)).where(own)
        table.replace(of_draw.subquery(exp.to_identifier(table.alias or table.name, quoted=True)))
    named = ", ".join(columns)
    return f'SELECT * FROM range({draws}) AS "draws"("draw"), LATERAL ({written(inner)}) AS "r"({named})'


def _over_released(select: exp.Select) -> bool:
    source = select.args["from_"].this
    return isinstance(source, exp.Table) and not any(
        isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window)
        for node in select.find_all(exp.AggFunc)
    )


# -- the result --------------------------------------------------------------------------------------------------------


def _beside(result: pa.Table, margins: dict[int, list[float | None]], names: Sequence[str]) -> pa.Table:
    """The result with its columns called ``names``, and a margin's column after each noisy number."""
    columns: list[Any] = []
    called: list[str] = []
    for number, name in enumerate(names):
        columns.append(result.column(number))
        called.append(name)
        if number in margins:
            columns.append(pa.array(margins[number], type=pa.float64()))
            called.append(f"{name}_margin")
    return pa.Table.from_arrays(columns, names=called)


def _numbers(column: Any) -> Any:
    """A column as floats; of dates, days since 1970."""
    return (column.cast(pa.int32()) if kinds.is_date32(column.type) else column).cast(pa.float64())


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_date32(kind))
