"""What can be typed: words for completion, and examples, from the schema alone."""

from __future__ import annotations

from typing import Any, Final

from treering.domain.attribute import Attribute, Categories, Integers, Ordered
from treering.domain.schema import Schema
from treering.domain.text import identifier, literal
from treering.shown import BARS

MOST_VALUES: Final = 1000
"""The most values of an attribute that are offered."""
_WORDS: Final = (
    *("SELECT", "COUNT(*)", "SUM(", "AVG(", "FROM t", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "AS"),
    *("AND", "OR", "NOT", "IN (", "BETWEEN", "IS NULL", "IS NOT NULL", "EXPLAIN"),
)


def words(schema: Schema) -> dict[str, Any]:
    """Attributes with their values, as they are typed, and words of SQL."""
    return {"attributes": attributes(schema, values=True), "words": list(_WORDS)}


def attributes(schema: Schema, *, values: bool = False) -> list[dict[str, Any]]:
    """The attributes in words, and their values if these are wanted."""
    return [
        {
            "name": identifier(name),
            "describes": attribute.describe() + (", or missing" if attribute.missing else ""),
            **({"values": values_of(attribute)} if values else {}),
        }
        for name, attribute in schema.attributes.items()
    ]


def values_of(attribute: Attribute) -> list[str]:
    """The values that one may compare an attribute with: categories, or the bounds of cells.

    >>> from treering.domain.attribute import bins, categories
    >>> values_of(categories("EWR", "O'Hare")), values_of(bins([0, 15, 60]))
    (["'EWR'", "'O''Hare'"], ['0', '15', '60'])
    """
    if isinstance(attribute, Categories):
        return [literal(value) for value in attribute.values[:MOST_VALUES]]
    if isinstance(attribute, Ordered):
        bounds = attribute.regular + (not isinstance(attribute, Integers))  # above the last integer there is nothing
        return [attribute.bound(place) for place in range(min(bounds, MOST_VALUES))]
    return []


def examples(schema: Schema) -> list[str]:
    """Some questions that this schema can answer: a condition, two together, and a table that can be drawn.

    >>> from treering.domain.attribute import bins, categories
    >>> examples(Schema({"origin": categories("EWR", "JFK"), "delay": bins([0, 15, 60])}))
    ["origin = 'EWR'", "origin = 'EWR' AND delay >= 15", 'SELECT origin, COUNT(*) AS n FROM t GROUP BY origin']
    """
    ways = [way for name, attribute in schema.attributes.items() if (way := _condition(identifier(name), attribute))]
    groups = [identifier(name) for name, attribute in schema.attributes.items() if attribute.size <= BARS]
    both = [" AND ".join(ways[:2])] if len(ways) > 1 else []
    return [*ways[:1], *both, *(f"SELECT {name}, COUNT(*) AS n FROM t GROUP BY {name}" for name in groups[:1])]


def _condition(name: str, attribute: Attribute) -> str:
    values = values_of(attribute)
    if isinstance(attribute, Categories):
        return f"{name} = {values[0]}"
    return f"{name} >= {values[len(values) // 2]}" if values else ""
