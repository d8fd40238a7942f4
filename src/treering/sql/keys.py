"""What a statement groups by: an expression of attributes, as groups of rows with their labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from treering.deadline import take
from treering.domain.attribute import Attribute, Bins
from treering.domain.calendar import Dates
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.text import identifier
from treering.errors import QueryError
from treering.sql.bounds import check_groups
from treering.sql.conditions import condition, is_predicate
from treering.sql.measures import branches
from treering.sql.steps import stepped
from treering.sql.values import attribute_of, computed, label, position_of, positions_of, special


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that an expression does not tell apart."""

    label: Any
    rows: Query
    special: bool
    """Whether they are out of range, not listed or missing: most tables have none of these."""


Key = tuple[Group, ...]


def key(node: exp.Expr, schema: Schema) -> Key:
    """The groups of an expression of attributes, in the order of their first codes."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return _column(node, schema)
    if isinstance(node, exp.Case) and node.this is None and _constant_results(node):
        return _merged(Group(then.to_py(), rows, special=False) for rows, then in branches(node, schema))
    if is_predicate(node):
        true, false = condition(node, schema), condition(node, schema, negated=True)
        return _merged([Group(True, true, False), Group(False, false, False), Group(None, ~(true | false), True)])
    steps = stepped(node, schema)
    return _values(node, schema) if steps is None else _merged(Group(*each) for each in steps)


def _column(node: exp.Column, schema: Schema) -> Key:
    attribute, position = attribute_of(node, schema), position_of(node, schema)
    check_groups(attribute.size)  # before they are listed, which takes a while for a million
    take(attribute.size**2)
    codes = np.arange(attribute.size)
    listed = [code for code in range(attribute.size) if not _outside_dates(attribute, code)]
    return tuple(
        Group(label(attribute, code), Query.conjunction(schema, {position: codes == code}), code >= attribute.regular)
        for code in listed
    )


def _outside_dates(attribute: object, code: int) -> bool:
    """Whether a code stands for dates before or after the declared ones: they have no one date to be listed by."""
    return isinstance(attribute, Dates) and attribute.regular <= code < attribute.size - 1


def _constant_results(node: exp.Case) -> bool:
    results = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default") or exp.null()]
    return all(isinstance(result, exp.Literal | exp.Null | exp.Boolean | exp.Neg) for result in results)


def _values(node: exp.Expr, schema: Schema) -> Key:
    """Any other expression: worked out for the attributes' values."""
    attributes = _unbinned(node, schema)
    positions, values, known = computed(node, schema)
    if not known.all() and len(positions) != 1:
        raise QueryError(f"{node.sql()} cannot be told of values that are out of range, or not listed")
    shape = [schema.shape[position] for position in positions]
    odd = special(attributes[0]) if len(positions) == 1 else np.zeros(len(values), dtype=np.bool_)
    groups: defaultdict[tuple[type, Any], list[int]] = defaultdict(list)
    for code, value in enumerate(values):
        if known[code] or not _outside_dates(attributes[0], code):
            shown = value if known[code] else label(attributes[0], code)
            if isinstance(shown, list | dict):
                raise QueryError(f"{node.sql()} has several values: group by each of them")
            groups[type(shown), shown].append(code)
    check_groups(len(groups))

    def rows(codes: list[int]) -> Query:
        flags = np.zeros(len(values), dtype=np.int64)
        flags[codes] = 1
        query = Query.of_table(schema, positions, flags.reshape(shape), 1)
        take(query.memory)
        return query

    return tuple(Group(shown, rows(codes), bool(odd[codes].all())) for (_, shown), codes in groups.items())


def _unbinned(node: exp.Expr, schema: Schema) -> list[Attribute]:
    """The attributes of an expression, of which none may be known by bins."""
    positions = positions_of(node, schema)
    attributes = [schema.attributes[schema.names[position]] for position in positions]
    for position, attribute in zip(positions, attributes, strict=True):
        if isinstance(attribute, Bins):
            name = identifier(schema.names[position])
            raise QueryError(f"{name} is known by its bins only: group by {name}, or by CASE WHEN {name} >= …")
    return attributes


def _merged(found: Iterable[Group]) -> Key:
    """Groups with the same label as one; groups that no row can be in are left out."""
    merged: dict[Any, Group] = {}
    for each in found:
        known = merged.get(each.label)
        merged[each.label] = each if known is None else Group(each.label, known.rows | each.rows, known.special)
    return tuple(group for group in merged.values() if not empty(group.rows))


def empty(query: Query) -> bool:
    """Whether no row can match."""
    return query.constant and query.masks is None
