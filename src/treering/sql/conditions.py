"""Conditions of SQL as queries.

The predicates of ``domain/language`` are tried first: they know bins, and SQL's three truth values. What they do not
know (LIKE, functions, arithmetic, a comparison of two columns) is worked out for each of the attributes' public values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from operator import and_, or_
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from treering.deadline import check as check_deadline
from treering.domain.calendar import Dated, Dates, read_moment
from treering.domain.language.parse import parse, understood
from treering.domain.query import MAX_TABLE, Query, alike
from treering.domain.schema import Schema
from treering.errors import QueryError, TimeLimit
from treering.sql.duck import written
from treering.sql.values import Evaluated, attribute_of, constants, evaluated, position_of

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
    return conditions([node], schema, negated=negated)[0]


def conditions(nodes: Sequence[exp.Expr], schema: Schema, *, negated: bool = False) -> list[Query]:
    """The rows for which each condition is true (``negated``: false).

    Formal Guarantees
        The time is linear in the size of the conditions, but for tables of joint values, and what is to be worked out
        is worked out in one run for each set of attributes.
    """
    if any(node.find(exp.Query) for node in nodes):
        raise QueryError("a condition on rows cannot ask about other rows: ask the inner SELECT first")
    try:
        parts = [_part(node, negated) for node in nodes]
        leaves = [leaf for part in parts for leaf in _leaves(part)]
        texts = _Texts([leaf.node for leaf in leaves], schema)
        for leaf in leaves:
            check_deadline()
            leaf.read(texts, schema)
        _work_out([leaf for leaf in leaves if leaf.refusal is not None], schema)
        return [_query(part, schema) for part in parts]
    except RecursionError:
        raise QueryError("the condition is nested too deeply") from None


# -- a condition as AND and OR of comparisons --------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Leaf:
    """A condition that is no AND, OR or NOT: a predicate about attributes, or worked out for their values."""

    node: exp.Expr
    negated: bool
    text: str = ""
    """The predicate, if there is one."""
    refusal: QueryError | None = None
    """Why there is none."""
    rows: Query | None = None
    """The rows, if they have been worked out."""

    def read(self, texts: _Texts, schema: Schema) -> None:
        """Find the predicate, or why there is none."""
        try:
            text = texts.text(self.node)
            self.text = f"NOT ({text})" if self.negated else text
            understood(self.text, schema, {})
        except QueryError as refusal:
            self.refusal = refusal


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """The AND (``every``) or the OR of its parts."""

    every: bool
    parts: tuple[_Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Otherwise:
    """The rows that a part does not have: those of IS NOT TRUE, which is never unknown."""

    part: _Part


_Part: TypeAlias = _Leaf | _Chain | _Otherwise


def _part(node: exp.Expr, negated: bool) -> _Part:
    """A condition, or its negation, with NOT pushed down to what is compared."""
    node = node.unnest()
    while isinstance(node, exp.Not):
        node, negated = node.this.unnest(), not negated
    if isinstance(node, exp.Connector):
        every = isinstance(node, exp.And) != negated
        return _Chain(every, tuple(_part(each, negated) for each in _links(node)))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean) and is_predicate(node.this):
        inner = _part(node.this, not node.expression.this)
        return _Otherwise(inner) if negated else inner
    if isinstance(node, exp.Column):
        node = exp.EQ(this=node.copy(), expression=exp.true())
    return _Leaf(node, negated)


def _links(node: exp.Connector) -> list[exp.Expr]:
    """The parts of a AND b AND c …, which sqlglot nests to the left as deep as it is long."""
    links: list[exp.Expr] = []
    rest: list[exp.Expr] = [node]
    while rest:
        each = rest.pop().unnest()
        if type(each) is type(node):
            rest += [each.expression, each.this]
        else:
            links.append(each)
    return links


def _leaves(part: _Part) -> Iterator[_Leaf]:
    rest = [part]
    while rest:
        each = rest.pop()
        if isinstance(each, _Leaf):
            yield each
        else:
            rest += reversed(each.parts) if isinstance(each, _Chain) else [each.part]


# -- what is worked out ------------------------------------------------------------------------------------------------


def _work_out(leaves: Sequence[_Leaf], schema: Schema) -> None:
    """Find the rows of conditions that are no predicates; refused as the predicate was if that fails."""
    booleans = [exp.cast(exp.paren(leaf.node.copy()), "BOOLEAN") for leaf in leaves]
    for leaf, outcome in zip(leaves, evaluated(booleans, schema), strict=True):
        check_deadline()
        untold = isinstance(outcome, Evaluated) and not outcome.known.all() and not isinstance(leaf.node, _PATTERNS)
        if isinstance(outcome, QueryError) or untold:
            assert leaf.refusal is not None
            raise leaf.refusal
        wanted = pc.fill_null(pc.equal(outcome.values, not leaf.negated), False)
        flags = np.asarray(wanted.to_numpy(), dtype=np.int64)
        shape = [schema.shape[each] for each in outcome.positions]
        leaf.rows = Query.of_table(schema, outcome.positions, flags.reshape(shape), 1)


# -- one query ---------------------------------------------------------------------------------------------------------


def _query(part: _Part, schema: Schema) -> Query:
    """The rows of a part: all predicates of a chain are read together, so that x >= 0 AND x < 15 is one set."""
    check_deadline()
    if isinstance(part, _Otherwise):
        return ~_query(part.part, schema)
    if isinstance(part, _Leaf):
        return part.rows if part.rows is not None else _alone(part, schema)
    texts = [_predicate(each) for each in part.parts]
    plain = [(each, text) for each, text in zip(part.parts, texts, strict=True) if text is not None]
    rest = [_query(each, schema) for each, text in zip(part.parts, texts, strict=True) if text is None]
    word = " AND " if part.every else " OR "
    try:
        together = [parse(word.join(f"({text})" for _, text in plain), schema, finer=True)] if plain else []
    except TimeLimit:
        raise
    except QueryError:
        together = [_piecewise(each, schema) for each, _ in plain]
    return _joined(part.every, [*together, *rest])


def _predicate(part: _Part) -> str | None:
    """A part as one predicate; None if something in it was worked out."""
    if isinstance(part, _Leaf):
        return part.text if part.refusal is None else None
    if isinstance(part, _Otherwise):
        return None
    texts = [_predicate(each) for each in part.parts]
    if any(text is None for text in texts):
        return None
    return (" AND " if part.every else " OR ").join(f"({text})" for text in texts)


def _piecewise(part: _Part, schema: Schema) -> Query:
    """The rows of predicates that cannot be read together, each by itself."""
    check_deadline()
    if isinstance(part, _Chain):
        return _joined(part.every, [_piecewise(each, schema) for each in part.parts])
    return _query(part, schema)


def _alone(leaf: _Leaf, schema: Schema) -> Query:
    """The rows of a predicate; worked out for the attributes' values if cells cannot tell it."""
    try:
        return parse(leaf.text, schema, finer=True)
    except QueryError as refusal:
        leaf.refusal = refusal
        _work_out([leaf], schema)
        assert leaf.rows is not None
        return leaf.rows


def _joined(every: bool, queries: Iterable[Query]) -> Query:
    """The AND or the OR of queries: first of those about the same attributes, as arrays."""
    groups: dict[tuple[int, ...], list[Query]] = {}
    for query in alike(list(queries)):
        groups.setdefault(query.attributes, []).append(query)
    merged = [_merged(every, group) for group in groups.values()]
    merged.sort(key=lambda query: query.joint)
    rows = merged[0]
    for query in merged[1:]:
        check_deadline()
        rows = rows & query if every else rows | query
    return rows


def _merged(every: bool, queries: list[Query]) -> Query:
    """The AND or the OR of queries about the same attributes."""
    first = queries[0]
    if len(queries) == 1:
        return first
    if first.joint > MAX_TABLE:
        return reduce(and_ if every else or_, queries)
    table = first.weights().copy()
    for query in queries[1:]:
        check_deadline()
        (np.minimum if every else np.maximum)(table, query.weights(), out=table)
    return Query.of_table(first.schema, first.attributes, table, 1)


# -- a comparison as a predicate ---------------------------------------------------------------------------------------


class _Texts:
    """Conditions as predicates about attributes by their names, with constants worked out: all in one run."""

    def __init__(self, nodes: Sequence[exp.Expr], schema: Schema) -> None:
        self._schema = schema
        listed = [each for node in nodes for each in _constants(node)]
        self._values: dict[int, Any] = dict(zip(map(id, listed), constants(listed) if listed else [], strict=True))

    def text(self, node: exp.Expr) -> str:
        """A condition as a predicate."""
        return written(_whole_days(self.plain(node), self._schema))

    def plain(self, node: exp.Expr) -> exp.Expr:
        """A condition about attributes by their names, without computed constants."""
        schema = self._schema
        named = (attribute_of(each, schema) for each in node.find_all(exp.Column))
        zone = next((each for each in named if isinstance(each, Dated) and each.tz is not None), None)
        return self._replaced(node, zone)

    def _replaced(self, node: exp.Expr, zone: Dated | None) -> exp.Expr:
        """A copy of a node in which columns, texts and constants are what predicates have."""
        schema = self._schema
        if isinstance(node, exp.Column):
            return exp.column(exp.to_identifier(schema.names[position_of(node, schema)], quoted=True))
        if isinstance(node, exp.Literal) and node.is_string:
            return exp.Literal.string(_without_utc(node.name) if zone is None else _local(node.name, zone))
        if id(node) in self._values:
            return _literal(self._values[id(node)])
        if isinstance(node, _COMPUTED) and not isinstance(node, _PREDICATES):
            return self._copied(_day(node, schema), zone) if _day(node, schema) is node else _day(node, schema)
        return self._copied(node, zone)

    def _copied(self, node: exp.Expr, zone: Dated | None) -> exp.Expr:
        return type(node)(**{name: self._argument(value, zone) for name, value in node.args.items()})

    def _argument(self, value: Any, zone: Dated | None) -> Any:
        if isinstance(value, list):
            return [self._argument(each, zone) for each in value]
        return self._replaced(value, zone) if isinstance(value, exp.Expr) else value


def _constants(node: exp.Expr) -> Iterator[exp.Expr]:
    """The largest computed expressions without columns in a condition, each once."""
    dependent: set[int] = set()
    for column in node.find_all(exp.Column):
        above: exp.Expr | None = column
        while above is not None and id(above) not in dependent:
            dependent.add(id(above))
            above = None if above is node else above.parent
    rest = [node]
    while rest:
        each = rest.pop()
        if isinstance(each, _COMPUTED) and not isinstance(each, _PREDICATES) and id(each) not in dependent:
            yield each
        else:
            rest += each.iter_expressions()


def _literal(value: Any) -> exp.Expr:
    """The value of a constant; its refusal is raised where it is needed."""
    if isinstance(value, QueryError):
        raise value
    return exp.convert(str(value) if isinstance(value, date) else value)


def _without_utc(text: str) -> str:
    """A moment as Grafana writes it, without its Z; any other text as it is."""
    return _UTC.sub(r"\1 \2", text)


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
    attributes = {name.lower() for name in schema.names}
    nodes = [each for each in select.find_all(*_PATTERNS, *_ENDS) if isinstance(each.this, exp.Column)]
    nodes = [each for each in nodes if each.this.name.lower() in attributes]
    texts = _Texts([each for each in nodes if not isinstance(each, _PATTERNS)], schema)
    for each in nodes:
        check_deadline()
        name = schema.names[position_of(each.this, schema)]
        attribute = schema.attributes[name]
        if isinstance(each, _PATTERNS):
            if attribute.other:
                yield f"{each.key.upper()} looks at the values that are listed: others of {name} are left out."
        elif isinstance(attribute, Dates) and (plain := texts.plain(each)) != _whole_days(plain.copy(), schema):
            yield f"{name} is known by {attribute.by}: 23:59:59 stands for the end of the day."


def _day(node: exp.Expr, schema: Schema) -> exp.Expr:
    """A column of days in the place of its cast to a date; anything else as it is."""
    inner = node.this.unnest() if isinstance(node, exp.Cast | exp.Date | exp.TsOrDsToDate) else None
    if not isinstance(inner, exp.Column) or (isinstance(node, exp.Cast) and node.to.this != exp.DType.DATE):
        return node
    attribute = attribute_of(inner, schema)
    is_day = isinstance(attribute, Dates) and attribute.by == "day"
    return exp.column(exp.to_identifier(schema.names[position_of(inner, schema)], quoted=True)) if is_day else node
