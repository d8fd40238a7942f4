"""What a statement groups by: an expression of attributes, as groups of rows with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from treering.arrays import Flags
from treering.domain.attribute import Attribute, Bins
from treering.domain.language.sql import label
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.text import identifier
from treering.errors import QueryError
from treering.sql.conditions import condition, is_predicate
from treering.sql.measures import branches
from treering.sql.values import computed, position_of, positions_of


@dataclass(frozen=True, slots=True)
class Key:
    """The groups of rows that an expression tells apart."""

    labels: tuple[Any, ...]
    groups: tuple[Query, ...]


def key(node: exp.Expr, schema: Schema) -> Key:
    """The groups of an expression of attributes, in the order of their first codes."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return _column(position_of(node, schema), schema)
    if isinstance(node, exp.Case) and node.this is None and _constant_results(node):
        return _cases(node, schema)
    if is_predicate(node):
        true, false = condition(node, schema), condition(node, schema, negated=True)
        return _kept([(True, true), (False, false), (None, ~(true | false))])
    return _values(node, schema)


def _column(position: int, schema: Schema) -> Key:
    attribute = schema.attributes[schema.names[position]]
    codes = np.arange(attribute.size)
    groups = (Query.conjunction(schema, {position: codes == code}) for code in codes)
    return Key(tuple(label(attribute, int(code)) for code in codes), tuple(groups))


def _constant_results(node: exp.Case) -> bool:
    results = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default") or exp.null()]
    return all(isinstance(result, exp.Literal | exp.Null | exp.Boolean | exp.Neg) for result in results)


def _cases(node: exp.Case, schema: Schema) -> Key:
    """CASE WHEN … THEN 'label' …: a row is in the group of the first condition that is true."""
    return _kept([(then.to_py(), rows) for rows, then in branches(node, schema)])


def _values(node: exp.Expr, schema: Schema) -> Key:
    """Any other expression: worked out for the attributes' values."""
    positions = positions_of(node, schema)
    for position in positions:
        name = schema.names[position]
        if isinstance(schema.attributes[name], Bins):
            raise QueryError(
                f"{identifier(name)} is known by its bins only: group by {identifier(name)}, or by CASE WHEN"
            )
    found = computed(node, schema)
    if not found.known.all() and len(positions) != 1:
        raise QueryError(f"{node.sql()} cannot be told of the values that are not listed")
    shape = [schema.shape[position] for position in positions]
    labels = list(found.values)
    if not found.known.all():
        attribute = schema.attributes[schema.names[positions[0]]]
        labels = _with_others(labels, found.known, attribute)
    return _kept(
        [
            (
                each,
                Query.of_table(
                    schema,
                    positions,
                    np.array([_same(other, each) for other in labels], dtype=np.int64).reshape(shape),
                    1,
                ),
            )
            for each in dict.fromkeys(labels)
        ]
    )


def _with_others(labels: list[Any], known: Flags, attribute: Attribute) -> list[Any]:
    return [found if known[code] else label(attribute, code) for code, found in enumerate(labels)]


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _kept(found: list[tuple[Any, Query]]) -> Key:
    """Groups with the same label as one; groups that no row can be in are left out."""
    merged: dict[Any, Query] = {}
    for each, group in found:
        merged[each] = merged[each] | group if each in merged else group
    kept = {each: group for each, group in merged.items() if not empty(group)}
    return Key(tuple(kept), tuple(kept.values()))


def empty(query: Query) -> bool:
    """Whether no row can match."""
    return query.constant and query.masks is None
