"""What a statement aggregates, as queries to be released and an expression of what they give.

COUNT, and SUM and AVG of expressions of attributes, are *linear*: sums over the rows of a weight that depends on the
row's cell. A linear aggregate becomes one weighted query and one count, and the arithmetic that puts them together is
left to the second stage: AVG is a quotient there, and its margin that of a quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from typing import Final, TypeGuard

import numpy as np
from sqlglot import exp

from treering.deadline import take
from treering.domain.attribute import Bins, Categories
from treering.domain.calendar import Dates
from treering.domain.language.items import QUANTIFIED, Item, ItemKind
from treering.domain.language.measures import EXTREME, Mean, Quantile, Sum, notes_of
from treering.domain.numeric import Numbers
from treering.domain.query import MAX_TABLE, RESOLUTION, Query, too_large
from treering.domain.schema import Schema
from treering.domain.sums import Grid, valued
from treering.domain.text import identifier
from treering.errors import QueryError
from treering.sql.conditions import condition, conditions, is_predicate
from treering.sql.sources import People, counts_persons
from treering.sql.values import attribute_of, computed, position_of, positions_of


@dataclass(frozen=True, eq=False, slots=True)
class Weights:
    """A weight in [0, 1] for each joint value of some attributes, in whole steps of 1/resolution; rows without a value
    have weight 0."""

    positions: tuple[int, ...]
    steps: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    resolution: int


@dataclass(frozen=True, eq=False, slots=True)
class Figure:
    """A number that is released about each group: an `Item` of those rows of it that match ``condition``, each with
    its weight, or with 1."""

    condition: Query
    weights: Weights | None = None
    kind: ItemKind = "count"
    position: int = -1
    level: float = 0.5
    cap: int = 0
    """The most rows of each person that count; 0: all."""

    def of(self, group: Query) -> Item:
        """The item of a group."""
        chosen = group & self.condition
        query = chosen if self.weights is None else _weighed(chosen, self.weights)
        return Item(self.kind, query, self.position, self.level, cap=self.cap)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells figures apart."""
        weighed = id(self.weights) if self.weights else 0
        return self.condition, self.kind, self.position, self.level, self.cap, weighed


def _weighed(chosen: Query, weights: Weights) -> Query:
    schema = chosen.schema
    union = tuple(sorted({*chosen.attributes, *weights.positions}))
    shape = [schema.shape[each] for each in union]
    if math.prod(shape) > MAX_TABLE:
        raise too_large(schema, union)
    table = np.broadcast_to(_along(chosen.weights(), chosen.attributes, union, schema), shape)
    table = table * _along(weights.steps, weights.positions, union, schema)
    return Query.of_table(schema, union, np.ascontiguousarray(table), weights.resolution)


def _along(
    array: np.ndarray[tuple[int, ...], np.dtype[np.int64]], own: tuple[int, ...], union: tuple[int, ...], schema: Schema
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return array.reshape([schema.shape[each] if each in own else 1 for each in union])


Column = Callable[[Figure], exp.Expr]
"""Gives the column of the released table in which a figure will be."""


_FIRST_DAY: Final = date(1970, 1, 1)
_ARITHMETIC: Final = (exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Mul, exp.Add, exp.Sub)


@dataclass(slots=True)
class Aggregates:
    """Turns aggregates into expressions over the columns of released figures."""

    schema: Schema
    sums: bool
    """Whether sums are kept; if not, those of integers are counted value by value."""
    people: People | None = None
    """Whose the rows are."""
    cap: int = 0
    """The most rows of each person that count; 0: all."""
    column: Column = field(init=False)
    notes: list[str] = field(default_factory=list)
    """What a reader of the numbers should know."""
    where: Query = field(init=False)

    def __post_init__(self) -> None:
        self.where = Query.all(self.schema)

    def expression(self, node: exp.Expr) -> exp.Expr:
        """The expression that stands for an aggregate."""
        chosen = self.where
        if isinstance(node, exp.Filter):
            chosen = condition(node.expression.this, self.schema)
            node = node.this
        if isinstance(node, exp.Count):
            return self._count(node, chosen)
        if isinstance(node, exp.CountIf):
            return self._counted(chosen & condition(node.this, self.schema))
        self._note(node)
        if isinstance(node, exp.Sum | exp.Avg):
            return self._sum(node, chosen)
        return self._quantile(node, chosen)

    def _note(self, node: exp.Expr) -> None:
        """Note what the number of a column does not tell: that values are clipped, say."""
        summed = isinstance(node, exp.Sum | exp.Avg)
        column, level = (node.this.unnest(), 0.5) if summed else _quantile_of(node)
        if not isinstance(column, exp.Column) or not 0 < level < 1:
            return
        name = self.schema.names[position_of(column, self.schema)]
        quantile = Quantile(name, level, extreme=isinstance(node, exp.Min | exp.Max))
        measure = Sum(name) if isinstance(node, exp.Sum) else Mean(name) if summed else quantile
        told = notes_of(measure, attribute_of(column, self.schema))
        self.notes += [note for note in told if not note.endswith(", as in SQL.")]  # which is what was asked for

    def _sum(self, node: exp.Sum | exp.Avg, chosen: Query) -> exp.Expr:
        if isinstance(node.this, exp.Distinct):
            raise _refused(node, "values that differ are not summed: leave DISTINCT out")
        summed = node.this.unnest()
        if isinstance(node, exp.Avg) and (binned := self._binned(summed)) is not None:
            return self.column(Figure(chosen, None, "mean", binned))
        total = self._total(summed, chosen)
        return total if isinstance(node, exp.Sum) else _quotient(total, self._counted(chosen & self._valued(summed)))

    def _counted(self, chosen: Query) -> exp.Expr:
        return self.column(Figure(chosen))

    def _count(self, node: exp.Count, chosen: Query) -> exp.Expr:
        counted = node.this
        if isinstance(counted, exp.Distinct):
            return self._persons(node, chosen)
        if counted is None or isinstance(counted, exp.Star):
            return self._counted(chosen)
        return self._counted(chosen & self._there(counted.unnest(), self._present))

    def _persons(self, node: exp.Count, chosen: Query) -> exp.Expr:
        """The number of persons; each has one row at least, so where they have no more, that of rows."""
        if counts_persons(node) and self.people is not None:
            self.cap, cap = 0, self.cap
            try:
                return self.column(Figure(chosen, kind="persons" if self.people.limit > 1 else "count"))
            finally:
                self.cap = cap
        known = "" if self.people is None else f", and COUNT(DISTINCT {self.people.column}) counts persons"
        raise _refused(node, f"how many different values there are is not released: GROUP BY lists them{known}")

    def capped(self, figure: Figure) -> Figure:
        """A figure of those rows that count; refused if there are none like it."""
        if not self.cap:
            return figure
        if figure.kind not in ("count", "sum") or figure.weights is not None:
            raise QueryError(
                "with a cap on the rows of each person, COUNT, SUM and AVG of a column are answered: quantiles and "
                "sums of expressions are of all rows"
            )
        note = f"Of each person at most {self.cap:,} rows count, the first ones in all groups together."
        self.notes += [] if note in self.notes else [note]
        return replace(figure, cap=self.cap)

    def _there(self, node: exp.Expr, simple: Callable[[exp.Expr], Query]) -> Query:
        """The rows for which an expression has a value, by what ``simple`` says of expressions without CASE."""
        if isinstance(node, exp.Cast | exp.TryCast):
            return self._there(node.this.unnest(), simple)
        if (case := self._cased(node)) is not None:
            found = Query.none(self.schema)
            for when, then in branches(case, self.schema):
                found = found | (when & self._there(then.unnest(), simple))
            return found
        if not positions_of(node, self.schema):
            return Query.none(self.schema) if isinstance(node, exp.Null) else Query.all(self.schema)
        return simple(node)

    def _present(self, node: exp.Expr) -> Query:
        return condition(exp.Not(this=exp.Is(this=node.copy(), expression=exp.null())), self.schema)

    # -- quantiles ----------------------------------------------------------------------------------------------------

    def _quantile(self, node: exp.Expr, chosen: Query) -> exp.Expr:
        """MEDIAN, PERCENTILE_CONT and the like; MIN and MAX are extreme quantiles."""
        column, level = _quantile_of(node)
        if column is None:
            raise _refused(node, "counts, sums, averages and quantiles are")
        if not isinstance(column, exp.Column) or not isinstance(attribute_of(column, self.schema), QUANTIFIED):
            raise _refused(node, "quantiles are of a column of numbers or dates")
        if not 0 < level < 1:
            raise _refused(node, "the level of a quantile is between 0 and 1")
        figure = self.column(Figure(chosen, None, "quantile", position_of(column, self.schema), level))
        return dated(figure) if isinstance(attribute_of(column, self.schema), Dates) else figure

    # -- sums ---------------------------------------------------------------------------------------------------------

    def _valued(self, node: exp.Expr) -> Query:
        """The rows that a mean is about: those for which an expression is a known number."""
        return self._there(node, self._known_number)

    def _known_number(self, node: exp.Expr) -> Query:
        if is_predicate(node):
            return self._present(node)
        columns = list(node.find_all(exp.Column))
        if len(columns) == 1 and self._is_summed(columns[0]) and _linear(node):
            return self._numbered(columns[0])
        return self._numbers(node)[0]

    def _total(self, node: exp.Expr, chosen: Query) -> exp.Expr:
        """The sum of an expression over some rows."""
        if isinstance(node, exp.Cast | exp.TryCast):
            return self._total(node.this.unnest(), chosen)
        if (case := self._cased(node)) is not None:
            found = [(when, then.unnest()) for when, then in branches(case, self.schema)]
            return _added([self._total(then, chosen & when) for when, then in found if not _zero(then)])
        if is_predicate(node):
            return self._counted(chosen & condition(node, self.schema))
        if not positions_of(node, self.schema):
            return _times(node.copy(), self._counted(chosen))
        if self._is_summed(node):
            return self._total_of_column(node, chosen)
        scaled = self._scaled(node, chosen)
        return self._total_of_values(node, chosen) if scaled is None else scaled

    def _is_summed(self, node: exp.Expr) -> TypeGuard[exp.Column]:
        """Whether an expression is a column whose sums are kept."""
        return self.sums and isinstance(node, exp.Column) and Grid.of(attribute_of(node, self.schema)) is not None

    def _cased(self, node: exp.Expr) -> exp.Case | None:
        """A CASE of conditions; an IF, COALESCE or CASE of values becomes one where bins stand in it, as these are not
        worked out value by value."""
        if isinstance(node, exp.Case) and node.this is None:
            return node
        binned = any(isinstance(attribute_of(each, self.schema), Bins) for each in node.find_all(exp.Column))
        return as_case(node) if binned else None

    def _binned(self, node: exp.Expr) -> int | None:
        """The position of an attribute of bins, if that is what an expression is."""
        if not isinstance(node, exp.Column):
            return None
        attribute = attribute_of(node, self.schema)
        is_binned = isinstance(attribute, Bins) and not isinstance(attribute, Numbers)
        return position_of(node, self.schema) if is_binned else None

    def _total_of_column(self, node: exp.Column, chosen: Query) -> exp.Expr:
        """The sum of a column of numbers: ``domain/sums.py`` has the formula."""
        position = position_of(node, self.schema)
        grid = Grid.of(attribute_of(node, self.schema))
        assert grid is not None
        rows = chosen & self._numbered(node)
        if self.cap:  # Capped sums count from the lower bound.
            span = Fraction(grid.high) - Fraction(grid.low)
            least = [] if grid.low == 0 else [_times(_number(Fraction(grid.low)), self._counted(rows))]
            return _added([*least, _times(_number(span), self.column(Figure(rows, None, "sum", position)))])
        half = (Fraction(grid.high) - Fraction(grid.low)) / 2
        middle = [] if grid.middle == 0 else [_times(_number(grid.middle), self._counted(rows))]
        return _added([*middle, _times(_number(half), self.column(Figure(rows, None, "sum", position)))])

    def _numbered(self, node: exp.Column) -> Query:
        """The rows whose value in a column of numbers is summed."""
        position = position_of(node, self.schema)
        return Query.conjunction(self.schema, {position: valued(attribute_of(node, self.schema))})

    def _scaled(self, node: exp.Expr, chosen: Query) -> exp.Expr | None:
        """The sum of a column times a constant, or plus one; None for anything else."""
        if isinstance(node, exp.Neg):
            return exp.Neg(this=exp.paren(self._total(node.this.unnest(), chosen)))
        if not isinstance(node, exp.Mul | exp.Div | exp.Add | exp.Sub):
            return None
        left, right = node.left.unnest(), node.right.unnest()
        constant = [not positions_of(each, self.schema) for each in (left, right)]
        if sum(constant) != 1 or (constant[0] and isinstance(node, exp.Div)):
            return None
        inner, other = (right, left) if constant[0] else (left, right)
        total = exp.paren(self._total(inner, chosen))
        if isinstance(node, exp.Mul | exp.Div):
            return exp.paren(type(node)(this=total, expression=exp.paren(other.copy())))
        rest = _times(other.copy(), self._counted(chosen & self._valued(inner)))
        sides = (rest, total) if constant[0] else (total, rest)
        return exp.paren(type(node)(this=sides[0], expression=sides[1]))

    def _total_of_values(self, node: exp.Expr, chosen: Query) -> exp.Expr:
        valued, numbers, positions = self._numbers(node)
        low, span, steps, resolution = _steps(numbers)
        least = [] if low == 0 else [_times(_number(low), self._counted(chosen & valued))]
        if span == 0:
            return _added(least)
        shape = [self.schema.shape[each] for each in positions]
        weights = Weights(positions, np.array(steps, dtype=np.int64).reshape(shape), resolution)
        return _added([*least, _times(_number(span), self.column(Figure(chosen & valued, weights)))])

    def _numbers(self, node: exp.Expr) -> tuple[Query, list[Fraction | None], tuple[int, ...]]:
        """The rows for which an expression is a known number, and the number for each joint value of its attributes."""
        self._check_numbers(node)
        positions, values, known = computed(exp.cast(node.copy(), "DOUBLE"), self.schema)
        numbers = [
            None if value is None or not ok else Fraction(value) for value, ok in zip(values, known, strict=True)
        ]
        flags = np.array([number is not None for number in numbers], dtype=np.int64)
        if not flags.any():
            raise _refused(node, "it is null for every row")
        shape = [self.schema.shape[each] for each in positions]
        return Query.of_table(self.schema, positions, flags.reshape(shape), 1), numbers, positions

    def _check_numbers(self, node: exp.Expr) -> None:
        for position in positions_of(node, self.schema):
            name = self.schema.names[position]
            attribute = self.schema.attributes[name]
            if isinstance(attribute, Bins):
                raise _refused(node, f"{identifier(name)} is known by its bins only here: rings keep sums of numbers()")
            if (
                isinstance(attribute, Categories)
                and isinstance(node, exp.Column)
                and isinstance(attribute.values[0], str)
            ):
                raise _refused(node, f"the categories of {identifier(name)} have no sum")


def dated(days: exp.Expr) -> exp.Expr:
    """The date so many days after the first of 1970, which is how dates are released; null beyond the calendar."""
    least, most = (exp.convert((end - _FIRST_DAY).days) for end in (date.min, date.max))
    there = exp.Between(this=days.copy(), low=least, high=most)
    day = exp.cast(exp.Literal.string(str(_FIRST_DAY)), "DATE")
    return exp.case().when(there, exp.Add(this=day, expression=exp.cast(exp.func("ROUND", days), "INT")))


def undated(node: exp.Expr) -> exp.Expr:
    """The number of days that `dated` has made a date; any other expression as it is."""
    inner = node.find(exp.Column) if isinstance(node, exp.Case) else None
    return inner if inner is not None and node == dated(inner.copy()) else node


def _linear(node: exp.Expr) -> bool:
    """Whether an expression is null exactly where its column is."""
    return all(isinstance(each, _ARITHMETIC) for each in node.walk())


def as_case(node: exp.Expr) -> exp.Case | None:
    """An IF, a COALESCE or a CASE of values as a CASE of conditions; None for anything else."""
    if isinstance(node, exp.If):
        ifs, default = [(node.this, node.args["true"])], node.args.get("false")
    elif isinstance(node, exp.Coalesce):
        *first, default = [node.this, *node.expressions]
        ifs = [(exp.Not(this=exp.Is(this=each.copy(), expression=exp.null())), each) for each in first]
    elif isinstance(node, exp.Case):
        ifs = [(node.this.eq(each.this), each.args["true"]) for each in node.args["ifs"]]
        default = node.args.get("default")
    else:
        return None
    branched = [exp.If(this=when.copy(), true=then.copy()) for when, then in ifs]
    return exp.Case(ifs=branched, default=default.copy() if default is not None else None)


def branches(node: exp.Case, schema: Schema) -> list[tuple[Query, exp.Expr]]:
    """The rows of each branch of a CASE, and what stands there: a row is in the first whose condition is true."""
    rest, found = Query.all(schema), []
    ifs = node.args["ifs"]
    for branch, true in zip(ifs, conditions([branch.this for branch in ifs], schema), strict=True):
        chosen, rest = rest & true, rest & ~true
        take(chosen.memory)
        found.append((chosen, branch.args["true"]))
    return [*found, (rest, node.args.get("default") or exp.null())]


def _quantile_of(node: exp.Expr) -> tuple[exp.Expr | None, float]:
    """The expression that a quantile is of, and its level; no expression if it is no quantile."""
    if isinstance(node, exp.Median):
        return node.this.unnest(), 0.5
    if isinstance(node, exp.Min | exp.Max):
        return node.this.unnest(), EXTREME if isinstance(node, exp.Min) else 1 - EXTREME
    if isinstance(node, exp.Quantile | exp.ApproxQuantile):
        return node.this.unnest(), _level(node.args.get("quantile"))
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileCont | exp.PercentileDisc):
        (ordered,) = node.expression.expressions
        level = _level(node.this.this)
        return ordered.this.unnest(), 1 - level if ordered.args.get("desc") else level
    if isinstance(node, exp.PercentileCont | exp.PercentileDisc) and node.expression is not None:
        return node.this.unnest(), _level(node.expression)
    return None, 0.0


def _level(node: exp.Expr | None) -> float:
    return float(node.to_py()) if isinstance(node, exp.Literal) and not node.is_string else math.nan


def _zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Null) or (isinstance(node, exp.Literal) and not node.is_string and node.to_py() == 0)


def _times(factor: exp.Expr, column: exp.Expr) -> exp.Expr:
    one = isinstance(factor, exp.Literal) and factor.this == "1"
    return column if one else exp.paren(exp.Mul(this=exp.paren(factor), expression=column))


def _steps(values: list[Fraction | None]) -> tuple[Fraction, Fraction, list[int], int]:
    """Values as ``low`` + ``span``·steps/resolution: exact if their common step is not too small, else rounded."""
    there = [value for value in values if value is not None]
    low, high = min(there), max(there)
    span = high - low
    if span == 0:
        return low, span, [0] * len(values), 1
    denominator = math.lcm(*(value.denominator for value in there))
    resolution = RESOLUTION
    if denominator.bit_length() < 64:
        step = math.gcd(*(int((value - low) * denominator) for value in there))
        whole = int(span * denominator) // step
        resolution = whole if whole <= MAX_TABLE else RESOLUTION
    steps = [0 if value is None else round((value - low) / span * resolution) for value in values]
    return low, span, steps, resolution


def _number(value: Fraction) -> exp.Expr:
    plain = exp.Literal.number(repr(float(abs(value))) if value.denominator != 1 else str(abs(int(value))))
    return exp.Neg(this=plain) if value < 0 else plain


def _added(parts: list[exp.Expr]) -> exp.Expr:
    if not parts:
        return exp.Literal.number(0)
    total = parts[0]
    for part in parts[1:]:
        total = exp.Add(this=total, expression=part)
    return exp.paren(total) if len(parts) > 1 else total


def _quotient(total: exp.Expr, number: exp.Expr) -> exp.Expr:
    """A mean; null if no row counts."""
    divisor = exp.Nullif(this=exp.cast(number, "DOUBLE"), expression=exp.Literal.number(0))
    return exp.paren(exp.Div(this=exp.paren(total), expression=divisor, typed=False, safe=False))


def _refused(node: exp.Expr, problem: str) -> QueryError:
    return QueryError(f"{node.sql()} cannot be answered: {problem}")
