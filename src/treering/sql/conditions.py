"""Conditions of SQL as queries.

The predicates of ``domain/language`` are tried first: they know bins, and SQL's three truth values. What they do not
know (LIKE, functions, arithmetic, a comparison of two columns) is worked out for each of the attributes' public values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Final

import numpy as np
from sqlglot import exp

from treering.domain.calendar import Dated, Dates, read_moment
from treering.domain.language.parse import parse
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.duck import run, written
from treering.sql.values import attribute_of, computed, position_of

_PREDICATES: Final = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)
_COMPUTED: Final = (exp.Func, exp.Add, exp.Sub, exp.Mul, exp.Div)
_PATTERNS: Final = (exp.Like, exp.ILike)
_ENDS: Final = (exp.LTE, exp.LT, exp.GT, exp.Between)
_LAST: Final = re.compile(r"\d{4}-\d{2}-\d{2} 23:59:59(?:\.9+0*)?")
"""The last second of a day, which tools write where they mean the day's end."""

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
    if not known.all() and not isinstance(node, _PATTERNS):
        raise QueryError(f"{node.sql()} cannot be told of the values that are not listed")
    wanted = np.array([value is (not negated) for value in values], dtype=np.int64)
    return Query.of_table(schema, positions, wanted.reshape([schema.shape[each] for each in positions]), 1)


def _written(node: exp.Expr, schema: Schema, negated: bool) -> str:
    """A condition as a predicate about attributes."""
    text = written(_whole_days(_plain(node, schema), schema))
    return f"NOT ({text})" if negated else text


def _plain(node: exp.Expr, schema: Schema) -> exp.Expr:
    """A condition about attributes by their names, with constants worked out."""

    def plain(each: exp.Expr) -> exp.Expr:
        if isinstance(each, exp.Column):
            return exp.column(exp.to_identifier(schema.names[position_of(each, schema)], quoted=True))
        if isinstance(each, exp.Literal) and each.is_string:
            return exp.Literal.string(_UTC.sub(r"\1 \2", each.name) if zone is None else _local(each.name, zone))
        if isinstance(each, _COMPUTED) and not isinstance(each, _PREDICATES):
            return _value(each) if each.find(exp.Column) is None else _day(each, schema)
        return each

    named = (attribute_of(each, schema) for each in node.find_all(exp.Column))
    zone = next((each for each in named if isinstance(each, Dated) and each.tz is not None), None)
    return node.copy().transform(plain)


def _local(text: str, attribute: Dated) -> str:
    """An instant as the clocks of an attribute's zone show it; any other text as it is."""
    moment = read_moment(text)
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        return text
    return str(attribute.local(moment) or text)


def _whole_days(node: exp.Expr, schema: Schema) -> exp.Expr:
    """A condition in which the last second of a day is the day's end, where that bounds an attribute of dates."""

    def whole(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, _ENDS) or not _ends_a_day(each, schema):
            return each
        name = "high" if isinstance(each, exp.Between) else "expression"
        end = exp.Literal.string(f"{each.args[name].name[:10]} 23:59:59.999999")
        if isinstance(each, exp.LT):
            return exp.LTE(this=each.this, expression=end)
        each.set(name, end)
        return each

    return node.transform(whole)


def _ends_a_day(node: exp.Expr, schema: Schema) -> bool:
    """Whether a comparison is of an attribute of dates with the last second of a day."""
    end = node.args["high"] if isinstance(node, exp.Between) else node.expression
    if not isinstance(end, exp.Literal) or not _LAST.fullmatch(end.name) or read_moment(end.name) is None:
        return False
    return isinstance(node.this, exp.Column) and isinstance(attribute_of(node.this, schema), Dates)


def noted(select: exp.Expr, schema: Schema) -> Iterator[str]:
    """What a reader should know of how the conditions of a SELECT are understood."""
    for each in select.find_all(*_PATTERNS, *_ENDS):
        if not isinstance(each.this, exp.Column) or each.this.name.lower() not in map(str.lower, schema.names):
            continue
        name = schema.names[position_of(each.this, schema)]
        attribute = schema.attributes[name]
        if isinstance(each, _PATTERNS):
            if attribute.other:
                yield f"{each.key.upper()} looks at the values that are listed: others of {name} are left out."
        elif isinstance(attribute, Dates) and (plain := _plain(each, schema)) != _whole_days(plain, schema):
            yield f"{name} is known by {attribute.by}: 23:59:59 stands for the end of the day."


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
