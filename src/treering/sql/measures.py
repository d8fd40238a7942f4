"""What a statement aggregates, as queries to be released and an expression of what they give.

COUNT, and SUM and AVG of expressions of attributes, are *linear*: sums over the rows of a weight that depends on the
row's cell. A linear aggregate becomes one weighted query and one count, and the arithmetic that puts them together is
left to the second stage: AVG is a quotient there, and its margin that of a quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from sqlglot import exp

from treering.domain.attribute import Bins, Categories
from treering.domain.query import MAX_TABLE, RESOLUTION, Query, too_large
from treering.domain.schema import Schema
from treering.domain.text import identifier
from treering.errors import QueryError
from treering.sql.conditions import condition, is_predicate
from treering.sql.values import computed, positions_of


@dataclass(frozen=True, eq=False, slots=True)
class Weights:
    """A weight in [0, 1] for each joint value of some attributes, in whole steps of 1/resolution; rows without a value
    have weight 0."""

    positions: tuple[int, ...]
    steps: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    resolution: int


@dataclass(frozen=True, eq=False, slots=True)
class Measure:
    """The rows of a group that match ``condition``, each with its weight, or with 1: what is released of a group."""

    condition: Query
    weights: Weights | None = None

    def of(self, group: Query) -> Query:
        """The query of a group."""
        chosen = group & self.condition
        return chosen if self.weights is None else _weighed(chosen, self.weights)


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


Column = Callable[[Measure], exp.Expr]
"""Gives the column of the released table in which a measure will be."""


@dataclass(slots=True)
class Aggregates:
    """Turns aggregates into expressions over the columns of released measures."""

    schema: Schema
    column: Column
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
        if isinstance(node, exp.Sum | exp.Avg):
            if isinstance(node.this, exp.Distinct):
                raise _refused(node, "values that differ are not summed: leave DISTINCT out")
            summed = node.this.unnest()
            total = self._total(summed, chosen)
            return (
                total if isinstance(node, exp.Sum) else _quotient(total, self._counted(chosen & self._valued(summed)))
            )
        raise _refused(node, "COUNT, SUM and AVG are answered")

    def _counted(self, chosen: Query) -> exp.Expr:
        return self.column(Measure(chosen))

    def _count(self, node: exp.Count, chosen: Query) -> exp.Expr:
        counted = node.this
        if isinstance(counted, exp.Distinct):
            raise _refused(node, "how many different values there are is not released: GROUP BY lists them")
        if counted is None or isinstance(counted, exp.Star):
            return self._counted(chosen)
        return self._counted(chosen & self._there(counted.unnest(), self._present))

    def _there(self, node: exp.Expr, simple: Callable[[exp.Expr], Query]) -> Query:
        """The rows for which an expression has a value, by what ``simple`` says of expressions without CASE."""
        if isinstance(node, exp.Cast | exp.TryCast):
            return self._there(node.this.unnest(), simple)
        if isinstance(node, exp.Case) and node.this is None:
            found = Query.none(self.schema)
            for when, then in branches(node, self.schema):
                found = found | (when & self._there(then.unnest(), simple))
            return found
        if not positions_of(node, self.schema):
            return Query.none(self.schema) if isinstance(node, exp.Null) else Query.all(self.schema)
        return simple(node)

    def _present(self, node: exp.Expr) -> Query:
        return condition(exp.Not(this=exp.Is(this=node.copy(), expression=exp.null())), self.schema)

    # -- sums ---------------------------------------------------------------------------------------------------------

    def _valued(self, node: exp.Expr) -> Query:
        """The rows that a mean is about: those for which an expression is a known number."""
        return self._there(node, lambda each: self._present(each) if is_predicate(each) else self._numbers(each)[0])

    def _total(self, node: exp.Expr, chosen: Query) -> exp.Expr:
        """The sum of an expression over some rows."""
        if isinstance(node, exp.Cast | exp.TryCast):
            return self._total(node.this.unnest(), chosen)
        if isinstance(node, exp.Case) and node.this is None:
            found = [(when, then.unnest()) for when, then in branches(node, self.schema)]
            return _added([self._total(then, chosen & when) for when, then in found if not _zero(then)])
        if is_predicate(node):
            return self._counted(chosen & condition(node, self.schema))
        if not positions_of(node, self.schema):
            return _times(node.copy(), self._counted(chosen))
        return self._total_of_values(node, chosen)

    def _total_of_values(self, node: exp.Expr, chosen: Query) -> exp.Expr:
        valued, numbers, positions = self._numbers(node)
        low, span, steps, resolution = _steps(numbers)
        least = [] if low == 0 else [_times(_number(low), self._counted(chosen & valued))]
        if span == 0:
            return _added(least)
        shape = [self.schema.shape[each] for each in positions]
        weights = Weights(positions, np.array(steps, dtype=np.int64).reshape(shape), resolution)
        return _added([*least, _times(_number(span), self.column(Measure(chosen & valued, weights)))])

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
                raise _refused(node, f"{identifier(name)} is known by its bins only: its sum is not")
            if (
                isinstance(attribute, Categories)
                and isinstance(node, exp.Column)
                and isinstance(attribute.values[0], str)
            ):
                raise _refused(node, f"the categories of {identifier(name)} have no sum")


def branches(node: exp.Case, schema: Schema) -> list[tuple[Query, exp.Expr]]:
    """The rows of each branch of a CASE, and what stands there: a row is in the first whose condition is true."""
    rest, found = Query.all(schema), []
    for branch in node.args["ifs"]:
        true = condition(branch.this, schema)
        found.append((rest & true, branch.args["true"]))
        rest = rest & ~true
    return [*found, (rest, node.args.get("default") or exp.null())]


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
