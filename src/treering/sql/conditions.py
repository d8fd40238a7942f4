"""Conditions of SQL as queries.

The predicates of ``domain/language`` are tried first: they know bins, and SQL's three truth values. What they do not
know (LIKE, functions, arithmetic, a comparison of two columns) is worked out for each of the attributes' public values.
"""

from __future__ import annotations

import numpy as np
from sqlglot import exp

from treering.domain.language.parse import parse
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.duck import written
from treering.sql.values import computed, position_of

_PREDICATES = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)


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
    except QueryError as error:
        refusal = error
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
        if isinstance(each, exp.Cast) and isinstance(each.this, exp.Literal):
            return each.this
        return each

    text = written(node.copy().transform(plain))
    return f"NOT ({text})" if negated else text
