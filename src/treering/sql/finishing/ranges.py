"""What a number can be at all, whatever the rows are; and numbers as they are shown, held within that.

A count is from 0 to all rows, a sum of values from 0 to 500 is no less than 0, their average is from 0 to 500, and the
share of some rows among others is from 0 to 1. The number in such a range that is nearest to an estimate is no further
from the truth than the estimate, so its margin is no wider.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from sqlglot import exp

from treering.arrays import Floats
from treering.domain.query import Query
from treering.sql.finishing.lineage import inner, origin, outputs, sources
from treering.sql.measures import Figure
from treering.sql.split import Statement

Range: TypeAlias = tuple[float, float]

_ANY: Final[Range] = (-math.inf, math.inf)
_DUST: Final = 1e-9
"""What rounding errors may come to, as a share of a number."""
_DIGITS: Final = 12
"""The digits of a number that is known exactly, but for rounding errors."""
_VALUES: Final = (exp.Max, exp.Min, exp.Avg, exp.Median, exp.Paren, exp.Cast, exp.TryCast, exp.Nullif, exp.Window)
"""Aggregates and functions whose value lies between values of what they are of."""


class _Linear(NamedTuple):
    """A sum of released figures of one core, each times a number, and a constant."""

    core: str
    weights: dict[int, float]
    constant: float


class Ranges:
    """The ranges of the columns of a statement, over ``size`` rows."""

    def __init__(self, statement: Statement, size: int) -> None:
        self._outer, self._size = statement.outer, size
        self._cores = {core.name: core for core in statement.cores}

    def of(self, place: int) -> Range:
        """The range of the column at a place."""
        found = [self._range(select, columns[place]) for select, columns in outputs(self._outer)]
        return min(low for low, _ in found), max(high for _, high in found)

    def _range(self, select: exp.Select, node: exp.Expr) -> Range:
        node = node.unalias().unnest()
        if (linear := self._linear(select, node)) is not None:
            return self._of_linear(linear)
        if isinstance(node, exp.Query):
            found = [self._range(query, columns[0]) for query, columns in outputs(node.unnest())]
            return min(low for low, _ in found), max(high for _, high in found)
        if isinstance(node, exp.Column):
            return self._of_column(select, node)
        if isinstance(node, exp.Round):
            low, high = self._range(select, node.this)
            return (math.floor(low) if math.isfinite(low) else low), (math.ceil(high) if math.isfinite(high) else high)
        if isinstance(node, exp.Mul) and (factor := _constant(node.left) or _constant(node.right)):
            return _scaled(self._range(select, node.right if _constant(node.left) else node.left), factor)
        if isinstance(node, exp.Div):
            return self._of_quotient(select, node.left, node.right)
        if isinstance(node, exp.Sum):
            low, high = self._range(select, node.this)
            return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)
        return self._range(select, node.this) if isinstance(node, _VALUES) else _ANY

    def _of_column(self, select: exp.Select, column: exp.Column) -> Range:
        source = sources(select).get(column.table)
        query = None if source is None else inner(source)
        if query is None or query.find(exp.Query) is None:
            return _ANY
        found = [
            self._range(below, node)
            for below, columns in outputs(query)
            for node in columns
            if node.alias_or_name == column.name
        ]
        return (min(low for low, _ in found), max(high for _, high in found)) if len(found) == 1 else _ANY

    # -- sums of figures ----------------------------------------------------------------------------------------------

    def _linear(self, select: exp.Select, node: exp.Expr) -> _Linear | None:
        """An expression as a sum of figures; None if it is none, or of several cores."""
        node = node.unalias().unnest()
        if isinstance(node, exp.Column):
            found = origin(select, node)
            if found is None or not found.name.startswith(("m", "s")):
                return None
            return _Linear(found.table, {int(found.name[1:]): 1.0}, 0.0)
        if isinstance(node, exp.Cast | exp.TryCast | exp.Nullif):
            return self._linear(select, node.this)
        if isinstance(node, exp.Neg):
            return _times(self._linear(select, node.this), -1.0)
        if isinstance(node, exp.Mul | exp.Div):
            factors = _constant(node.left), _constant(node.right)
            if factors[1]:
                factor = factors[1] if isinstance(node, exp.Mul) else 1 / factors[1]
                return _times(self._linear(select, node.left), factor)
            return _times(self._linear(select, node.right), factors[0] or 0.0) if isinstance(node, exp.Mul) else None
        if isinstance(node, exp.Add | exp.Sub):
            sides = [self._linear(select, side) for side in (node.left, node.right)]
            return _plus(sides[0], sides[1] if isinstance(node, exp.Add) else _times(sides[1], -1.0))
        number = _constant(node)
        return None if number is None else _Linear("", {}, number)

    def _of_linear(self, linear: _Linear) -> Range:
        if not linear.weights:
            return linear.constant, linear.constant
        core = self._cores[linear.core]
        if len(core.rows) == 1 and all(core.items[0][each].query.constant for each in linear.weights):
            return _ANY  # It is known exactly.
        rates = self._rates(linear)
        if rates is None:
            return _ANY
        low = linear.constant + self._size * math.fsum(min(0.0, low) for low, _ in rates.values())
        return low, linear.constant + self._size * math.fsum(max(0.0, high) for _, high in rates.values())

    def _rates(self, linear: _Linear) -> dict[Query, Range] | None:
        """What a row of each condition can add to a sum of figures; None if a figure is no sum over rows."""
        found: dict[Query, Range] = {}
        for number, weight in linear.weights.items():
            figure: Figure = self._cores[linear.core].figures[number]
            if figure.kind in ("count", "persons"):
                ends = (weight, weight) if figure.weights is None else (min(0.0, weight), max(0.0, weight))
            elif figure.kind == "sum":
                ends = (-abs(weight), abs(weight))
            else:
                return None
            low, high = found.get(figure.condition, (0.0, 0.0))
            found[figure.condition] = low + ends[0], high + ends[1]
        return found

    # -- quotients ----------------------------------------------------------------------------------------------------

    def _of_quotient(self, select: exp.Select, above: exp.Expr, below: exp.Expr) -> Range:
        top, bottom = self._linear(select, above), self._linear(select, below)
        if top is not None and bottom is not None and (found := self._of_means(top, bottom)) is not None:
            return found
        if top is not None and top.constant == 0 and _is_part(select, top, below, self):
            (factor,) = top.weights.values()
            return _scaled((0.0, 1.0), factor)
        low, high = self._range(select, above)
        least, most = self._range(select, below)
        if low >= 0 and least >= 0:
            return (low / most if most > 0 else 0.0), (high / least if least > 0 else math.inf)
        return _ANY

    def _of_means(self, top: _Linear, bottom: _Linear) -> Range | None:
        """The range of a sum of figures over a count of the same group: each condition's rows are among those."""
        if top.core != bottom.core or top.constant or bottom.constant or len(bottom.weights) != 1:
            return None
        ((number, weight),) = bottom.weights.items()
        counted, rates = self._cores[bottom.core].figures[number], self._rates(top)
        if counted.kind != "count" or counted.weights is not None or weight <= 0 or rates is None:
            return None
        low = high = 0.0
        for condition, (least, most) in rates.items():
            if condition & counted.condition != condition:
                return None
            every = condition == counted.condition
            low, high = low + (least if every else min(0.0, least)), high + (most if every else max(0.0, most))
        return low / weight, high / weight

    def counts(self, linear: _Linear) -> bool:
        """Whether a sum of figures is one number of rows, times something."""
        figures = self._cores[linear.core].figures if linear.core else []
        return len(linear.weights) == 1 and all(figures[each].kind == "count" for each in linear.weights)

    def same(self, select: exp.Select, node: exp.Expr, linear: _Linear) -> bool:
        """Whether an expression is the one figure that a sum of figures is of."""
        other = self._linear(select, node)
        return other is not None and (other.core, {*other.weights}) == (linear.core, {*linear.weights})


def _is_part(select: exp.Select, top: _Linear, below: exp.Expr, ranges: Ranges) -> bool:
    """Whether a number of rows is divided by a sum that it is part of: COUNT(*) / SUM(COUNT(*)) OVER ()."""
    window = below.unnest()
    while isinstance(window, exp.Cast | exp.TryCast | exp.Nullif):
        window = window.this.unnest()
    if not isinstance(window, exp.Window) or not isinstance(window.this, exp.Sum) or window.args.get("spec"):
        return False
    return ranges.counts(top) and ranges.same(select, window.this.this, top)


def _constant(node: exp.Expr) -> float | None:
    node = node.unnest()
    if isinstance(node, exp.Neg):
        found = _constant(node.this)
        return None if found is None else -found
    return float(node.to_py()) if isinstance(node, exp.Literal) and not node.is_string else None


def _times(linear: _Linear | None, factor: float) -> _Linear | None:
    if linear is None:
        return None
    weights = {number: weight * factor for number, weight in linear.weights.items()}
    return _Linear(linear.core, weights, linear.constant * factor)


def _plus(first: _Linear | None, second: _Linear | None) -> _Linear | None:
    if first is None or second is None or (first.core and second.core and first.core != second.core):
        return None
    numbers = {*first.weights, *second.weights}
    weights = {each: first.weights.get(each, 0.0) + second.weights.get(each, 0.0) for each in numbers}
    return _Linear(first.core or second.core, weights, first.constant + second.constant)


def _scaled(ends: Range, factor: float) -> Range:
    low, high = sorted(end * factor if math.isfinite(end) else math.copysign(end, end * factor) for end in ends)
    return low, high


# -- numbers as they are shown -----------------------------------------------------------------------------------------


def shown(column: Any, kind: pa.DataType, margins: Floats, limits: Range, *, released: bool) -> Iterator[Any]:
    """A column of a result and its margins, held within what is possible: whole numbers are whole, what is known
    exactly has a margin of 0, and what is undefined is null. ``kind`` is the type that exact numbers would have."""
    if kinds.is_date32(column.type):
        yield column
        yield _nullable(margins)
        return
    values = np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    undefined = ~np.isfinite(values) | np.isinf(margins)
    near = np.clip(np.where(undefined, 0.0, values), *limits)
    if released:
        yield pa.array(column)
    else:
        exact = margins <= _DUST * np.maximum(1.0, np.abs(near))
        margins = np.where(exact, 0.0, margins)
        near = np.where(exact, _rounded(near), near)
        if _is_whole(kind):
            near, margins = _whole(near, margins)
        yield _typed(near, undefined, whole=_is_whole(kind))
    widest = np.maximum(near - limits[0], limits[1] - near)
    yield _nullable(np.where(undefined, np.nan, np.minimum(margins, widest)))


def _whole(values: Floats, margins: Floats) -> tuple[Floats, Floats]:
    """Whole numbers next to some, with the margins that hold all whole numbers that the former ones do."""
    nearest = np.rint(values)
    reach = margins + 1e-6
    ends = nearest - np.ceil(values - reach), np.floor(values + reach) - nearest
    return nearest, np.where(np.isnan(margins), np.nan, np.maximum(0.0, np.maximum(*ends)))


def _rounded(values: Floats) -> Floats:
    """Numbers without the last digits, which rounding errors have made."""
    plain = [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
    return np.where(np.abs(values) < _DUST, 0.0, np.array(plain))


def _typed(values: Floats, undefined: np.ndarray[Any, np.dtype[np.bool_]], *, whole: bool) -> Any:
    fits = not np.any(np.abs(values[~undefined]) >= 2.0**62)
    plain = np.where(undefined, 0.0, values)
    return pa.array(plain.astype(np.int64) if whole and fits else plain, mask=undefined)


def _nullable(margins: Floats) -> Any:
    return pa.array(margins, mask=~np.isfinite(margins), type=pa.float64())


def _is_whole(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or (kinds.is_decimal(kind) and kind.scale == 0))
