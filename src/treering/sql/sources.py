"""Columns of the rows that attributes are made of: ``EXTRACT(hour FROM time_hour)`` is the attribute of the hours.

People know the columns of their table. Where several attributes come from one column of dates, an expression of the
column means one of them.
"""

from __future__ import annotations

from sqlglot import exp

from treering.domain.calendar import UNITS, DatePart, Dates
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.values import unit_of


def columns(schema: Schema) -> tuple[str, ...]:
    """The names that a statement may use: attributes, and the columns that they come from."""
    return tuple(dict.fromkeys([*schema.names, *schema.columns]))


def resolved(tree: exp.Expr, schema: Schema) -> exp.Expr:
    """The tree with columns of the rows replaced by attributes."""
    sources = {name.lower() for name in schema.columns}
    names = {name.lower() for name in schema.names}
    for column in list(tree.find_all(exp.Column)):
        source = column.name.lower()
        if source not in sources or not _dated(source, schema):
            continue
        unit = unit_of(column.parent)
        if unit is not None and (part := _part(unit, source, schema)) is not None:
            assert column.parent is not None
            column.parent.replace(_as(part, unit, column))
        elif source not in names:
            column.set("this", exp.to_identifier(_periods(column, source, schema), quoted=True))
    return tree


def _dated(source: str, schema: Schema) -> list[str]:
    """The attributes of dates that come from a column."""
    return [
        name
        for name, column in zip(schema.names, schema.sources, strict=True)
        if column.lower() == source and isinstance(schema.attributes[name], Dates | DatePart)
    ]


def _part(unit: str, source: str, schema: Schema) -> str | None:
    """The attribute of a part of a column's dates."""
    wanted = "weekday" if unit in ("dow", "isodow", "dayofweek", "weekday") else unit
    for name in _dated(source, schema):
        attribute = schema.attributes[name]
        if isinstance(attribute, DatePart) and attribute.part == wanted:
            return name
    return None


def _as(name: str, unit: str, column: exp.Column) -> exp.Expr:
    """An attribute in the place of an EXTRACT; SQL's day of the week has Sunday as 0, ISO's as 7."""
    found = exp.column(exp.to_identifier(name, quoted=True), table=column.args["table"].copy())
    sundays = unit in ("dow", "dayofweek", "weekday")
    return exp.paren(exp.Mod(this=found, expression=exp.Literal.number(7))) if sundays else found


def _periods(column: exp.Column, source: str, schema: Schema) -> str:
    """The attribute that knows a column's dates best."""
    known = {
        name: attribute.by for name in _dated(source, schema) if isinstance(attribute := schema.attributes[name], Dates)
    }
    if not known:
        parts = ", ".join(_dated(source, schema))
        raise QueryError(f"of {column.name} only these are known: {parts}")
    return min(known, key=lambda name: UNITS.index(known[name]))
