"""Conditions of SQL as queries.

The predicates of ``domain/language`` are tried first: they know bins, and SQL's three truth values. What they do not
know (LIKE, functions, arithmetic, a comparison of two columns) is worked out for each of the attributes' public values.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

import numpy as np
from sqlglot import exp

from treering.domain.calendar import Dates
from treering.domain.language.parse import parse
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.duck import run, written
from treering.sql.values import attribute_of, computed, position_of

_PREDICATES: Final = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)
_COMPUTED: Final = (exp.Func, exp.Add, exp.Sub, exp.Mul, exp.Div)
_UTC: Final = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2}(?:\.\d+)?)Z")
"""A moment as Grafana writes it. Where moments have no zone, as here, databases ignore the one that is given."""


def is_predicate(node: exp.Expr) -> bool:
    """Whether an expression is true or false by its form."""
    return isinstance(node.unnest(), _PREDICATES)


def condition(node: exp.Expr, schema: Schema, *, negated: bool = False) -> Query:
    """The rows for which a condition is true (``negated``: false)."""
    node = node.unnest()
    if node.find(exp.Query):
        raise QueryError("a condition on rows cannot ask about other rows: ask the inner SELECT first")
    if isinstance(node, exp.Column):
        node = exp.EQ(this=node.copy(), expression=exp.true())
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean) and is_predicate(node.this):
        found = condition(node.this, schema, negated=not node.expression.this)
        return ~found if negated else found  # IS TRUE is never unknown.
    try:
        return parse(_written(node, schema, negated), schema)
    except QueryError as refusal:
        return _by_parts(node, schema, negated, refusal)


def _by_parts(node: exp.Expr, schema: Schema, negated: bool, refusal: QueryError) -> Query:
    """A condition that is no predicate, by its parts or by its values; refused as the predicate was if that fails."""
    if isinstance(node, exp.Not):
        return condition(node.this, schema, negated=not negated)
    if isinstance(node, exp.Connector):
        left, right = (condition(part, schema, negated=negated) for part in (node.left, node.right))
        return left & right if isinstance(node, exp.And) != negated else left | right
    try:
        return _worked_out(node, schema, negated)
    except QueryError:
        raise refusal from None


def _worked_out(node: exp.Expr, schema: Schema, negated: bool) -> Query:
    positions, values, known = computed(exp.cast(exp.paren(node.copy()), "BOOLEAN"), schema)
    if not known.all():
        raise QueryError(f"{node.sql()} cannot be told of the values that are not listed")
    wanted = np.array([value is (not negated) for value in values], dtype=np.int64)
    return Query.of_table(schema, positions, wanted.reshape([schema.shape[each] for each in positions]), 1)


def _written(node: exp.Expr, schema: Schema, negated: bool) -> str:
    """A condition as a predicate about attributes."""

    def plain(each: exp.Expr) -> exp.Expr:
        if isinstance(each, exp.Column):
            return exp.column(exp.to_identifier(schema.names[position_of(each, schema)], quoted=True))
        if isinstance(each, exp.Literal) and each.is_string and zoneless:
            return exp.Literal.string(_UTC.sub(r"\1 \2", each.name))
        if isinstance(each, _COMPUTED) and not isinstance(each, _PREDICATES):
            return _value(each) if each.find(exp.Column) is None else _day(each, schema)
        return each

    zoneless = not any(getattr(attribute_of(each, schema), "tz", None) for each in node.find_all(exp.Column))
    text = written(node.copy().transform(plain))
    return f"NOT ({text})" if negated else text


def _value(node: exp.Expr) -> exp.Expr:
    """The value of an expression without columns, as a literal."""
    (value,) = run(f"SELECT {written(node)} AS v", {})["v"].to_pylist()
    return exp.convert(str(value) if isinstance(value, date) else value)


def _day(node: exp.Expr, schema: Schema) -> exp.Expr:
    """A column of days in the place of its cast to a date; anything else as it is."""
    inner = node.this.unnest() if isinstance(node, exp.Cast | exp.Date | exp.TsOrDsToDate) else None
    if not isinstance(inner, exp.Column) or (isinstance(node, exp.Cast) and node.to.this != exp.DType.DATE):
        return node
    attribute = attribute_of(inner, schema)
    is_day = isinstance(attribute, Dates) and attribute.by == "day"
    return exp.column(exp.to_identifier(schema.names[position_of(inner, schema)], quoted=True)) if is_day else node
