"""PRIVATE: the statements that an engine is asked: what lies past a watermark, and how many rows each group has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from treering.domain.axis import Axis, Scalar, scalar_of
from treering.domain.schema import Schema
from treering.errors import EngineError
from treering.trusted.dialect import Dialect
from treering.trusted.distinct import few_valued as by_samples
from treering.trusted.engines.columns import digits, strict, typed_rows, unfit, unreadable
from treering.trusted.engines.spelling import Relation
from treering.trusted.engines.watermark import Counts
from treering.trusted.rows.lens import Key, key_of, value_of
from treering.trusted.rows.tally import MOST_LINES, Grouping
from treering.trusted.rows.typed import field_of, kept, stored

_PLACE, _LEAF, _PERSON = "order:", "leaf:", "person:"
"""The names of the order value, of the number of a row's interval, and of its person. (No field of a scalar ends in a
colon.)"""


def refreshed(relation: Relation, schema: Schema, order: str, after: int | None) -> Counts:
    """What lies past a watermark; None: all rows."""
    checked, place = strict(schema), placed(relation, order)
    scalars = list(dict.fromkeys(kept(scalar_of(*each)) for each in checked))
    rows = typed_rows(relation, relation.within(place, after, None), scalars, {_PLACE: place}, unreadable(schema))
    spelling = relation.connection.spelling
    arms = [f"WHEN {unfit(*each, spelling)} THEN {number}" for number, each in enumerate(checked)]
    bad = f"CASE {' '.join(arms)} END" if arms else "0"
    new = f"(SELECT {spelling.dialect.quoted(_PLACE)} AS o, {bad} AS bad FROM {rows} AS t)"
    numbers = [f"count(CASE WHEN bad = {number} THEN 1 END) AS bad{number}" for number in range(len(arms))]
    found = ", ".join(["count(*) AS every", "count(o) AS past", "min(o) AS low", "max(o) AS high", *numbers])
    text = f"SELECT {found} FROM {new} AS n"
    if after is not None:
        text = f"SELECT * FROM ({text}) AS n CROSS JOIN {_before(relation, place, after)}"
    line = fetched(relation, text, scalars).to_pylist()[0]
    unplaced, below, top = (
        (line["every"] - line["past"], 0, None) if after is None else (line["unplaced"], line["below"], line["top"])
    )
    dropped = {name: line[f"bad{number}"] for number, (name, _) in enumerate(checked)}
    below, top = line.get("below", 0), line.get("top")
    return Counts(unplaced, below, top, line["past"], line["low"] or 0, line["high"] or 0, dropped)


def _before(relation: Relation, place: str, after: int) -> str:
    """The rows at or below a watermark, and those without an order value: each condition by itself, which an index
    serves."""
    below = f"SELECT count(*) AS below, max({place}) AS top FROM {relation.within(place, None, after)} AS t"
    unplaced = f"SELECT count(*) AS unplaced FROM {relation.rows} AS t WHERE {place} IS NULL"
    return f"({below}) AS b CROSS JOIN ({unplaced}) AS u"


def distinct(relation: Relation, order: str, after: int | None, last: int) -> int:
    """How many different order values there are past a watermark and up to ``last``."""
    place = placed(relation, order)
    text = f"SELECT count(DISTINCT {place}) AS places FROM {relation.within(place, after, last)} AS t"
    return int(relation.connection.fetch(text).to_pylist()[0]["places"])


def placed(relation: Relation, order: str) -> str:
    """The order value of a row, in SQL."""
    spelling = relation.connection.spelling
    name = spelling.dialect.quoted(order)
    return digits(name, spelling) if relation.columns[order].kind == "field" else name


def grouped(
    relation: Relation,
    schema: Schema,
    grouping: Grouping,
    order: str,
    bounds: Sequence[int | None],
    few: frozenset[str],
    *,
    fitting: bool,
) -> tuple[pa.Table, list[Key]]:
    """Rows by interval and keys, and the keys; an interval lies between two neighbouring bounds, which are order
    values. The values of the columns ``few`` are keys. ``fitting``: rows that do not fit are left out."""
    place, dialect = placed(relation, order), relation.connection.spelling.dialect
    inner = [dialect.literal(bound + 1) for bound in bounds[1:-1] if bound is not None]
    leaf = dialect.looked_up(place, inner, [str(number) for number in range(len(inner) + 1)])
    rows, scalars = _rows(relation, schema, grouping, order, bounds, {_LEAF: leaf}, fitting=fitting)
    keys = grouping.keys(few, dialect)
    named = {f"k{number}": key.expression for number, key in enumerate(keys)}
    if inner:
        named["leaf"] = dialect.quoted(_LEAF)
    by = f" GROUP BY {', '.join(named)}" if named else ""
    found = [*named, "count(*) AS rows"]
    if unit := grouping.unit(dialect):
        named["u"] = unit
        found.append("CAST(coalesce(sum(u), 0) AS BIGINT) AS total")
    listed = ", ".join(f"{expression} AS {name}" for name, expression in named.items()) or "1 AS one"
    joined = f"{rows} AS r{_joins(grouping.axes, keys, dialect)}"
    limit = f" LIMIT {MOST_LINES + 1}" if few else ""
    text = f"SELECT {', '.join(found)} FROM (SELECT {listed} FROM {joined}) AS g{by}{limit}"
    return fetched(relation, text, scalars), keys


def _rows(
    relation: Relation,
    schema: Schema,
    grouping: Grouping,
    order: str,
    bounds: Sequence[int | None],
    others: Mapping[str, str],
    *,
    fitting: bool,
) -> tuple[str, list[Scalar]]:
    """The typed rows between the first and the last bound, with ``others``; and the scalars that are read."""
    spelling, checked = relation.connection.spelling, strict(schema) if fitting else []
    scalars = list(dict.fromkeys([*grouping.scalars, *(kept(scalar_of(*each)) for each in checked)]))
    within = relation.within(placed(relation, order), bounds[0], bounds[-1])
    rows = typed_rows(relation, within, scalars, others, unreadable(schema) if fitting else [])
    if checked:
        bad = " OR ".join(unfit(*each, spelling) for each in checked)
        rows = f"(SELECT * FROM {rows} AS t WHERE NOT ({bad}))"
    return rows, scalars


def _joins(axes: Sequence[Axis], keys: Sequence[Key], dialect: Dialect) -> str:
    """The joins with the listed values of axes, where their keys have some."""
    joins = []
    for number, (axis, key) in enumerate(zip(axes, keys, strict=True)):
        if key.listed is not None:
            values = zip(key.listed["value"].to_pylist(), key.listed["piece"].to_pylist(), strict=True)
            lines = ", ".join(f"({dialect.literal(value)}, {piece})" for value, piece in values)
            name = dialect.quoted(f"listed{number}")
            condition = f"{name}.value = {value_of(axis.scalar, dialect)}"
            joins.append(f" LEFT JOIN (VALUES {lines}) AS {name}(value, piece) ON {condition}")
    return "".join(joins)


# -- persons -----------------------------------------------------------------------------------------------------------


def first_rows(
    relation: Relation,
    schema: Schema,
    grouping: Grouping,
    order: str,
    bounds: Sequence[int | None],
    person: str,
    each: int,
    *,
    fitting: bool,
) -> tuple[pa.Table, list[Key]]:
    """The first rows, up to ``each``, of each person and keys: the person, the keys, the order value as ``position``,
    and the keys' meaning. ``person`` is a column; ``fitting`` is as in `grouped`."""
    dialect = relation.connection.spelling.dialect
    others = {_PLACE: placed(relation, order), _PERSON: _text(relation, person)}
    rows, scalars = _rows(relation, schema, grouping, order, bounds, others, fitting=fitting)
    keys = grouping.keys(frozenset(), dialect)
    named = {"person": dialect.quoted(_PERSON), **{f"k{number}": key.expression for number, key in enumerate(keys)}}
    by, unit = ", ".join(named), grouping.unit(dialect) or "0"
    named |= {"o": dialect.quoted(_PLACE), "u": unit}
    listed = ", ".join(f"{expression} AS {name}" for name, expression in named.items())
    inner = f"SELECT {listed} FROM {rows} AS r{_joins(grouping.axes, keys, dialect)}"
    if each == 1 and unit == "0":
        text = f"SELECT {by}, min(o) AS position, 1 AS rows, 0 AS total FROM ({inner}) AS g GROUP BY {by}"
    else:
        number = f"row_number() OVER (PARTITION BY {by} ORDER BY o) AS n"
        text = f"SELECT {by}, o AS position, 1 AS rows, u AS total FROM (SELECT g.*, {number} FROM ({inner}) AS g) AS h"
        text += f" WHERE n <= {each}"
    return fetched(relation, text, scalars), keys


def beyond(relation: Relation, order: str, last: int | None, person: str, limit: int) -> tuple[int, int]:
    """How many rows up to an order value are of no person, and how many persons have more than ``limit`` of them."""
    rows = relation.within(placed(relation, order), None, last)
    persons = f"SELECT {_text(relation, person)} AS person, count(*) AS n FROM {rows} AS t GROUP BY 1"
    nobody = "sum(CASE WHEN person IS NULL THEN n ELSE 0 END)"
    many = f"sum(CASE WHEN person IS NOT NULL AND n > {limit} THEN 1 ELSE 0 END)"
    found = fetched(relation, f"SELECT {nobody} AS nobody, {many} AS many FROM ({persons}) AS p", []).to_pylist()[0]
    return int(found["nobody"] or 0), int(found["many"] or 0)


def _text(relation: Relation, person: str) -> str:
    """A person as a text; empty texts of files without types are no person."""
    spelling = relation.connection.spelling
    text = f"CAST({spelling.dialect.quoted(person)} AS {spelling.string})"
    return f"nullif({text}, '')" if relation.columns[person].kind == "field" else text


def few_valued(relation: Relation, grouping: Grouping) -> frozenset[str]:
    """The columns that seem to have few distinct values, by samples of files: their values, as they are, are keys."""
    columns = {field_of(axis.scalar): axis.scalar.column for axis in grouping.axes if axis.scalar.part is None}
    if not relation.extents:
        return frozenset()
    few = by_samples([Path(each.file) for each in relation.extents], list(dict.fromkeys(columns.values())))
    return frozenset(name for name, column in columns.items() if column in few)


# -- what an engine does not evaluate ----------------------------------------------------------------------------------


def check_lens(relation: Relation, schema: Schema) -> None:
    """Refuse a table of which the engine does not evaluate an attribute."""
    scalars, dialect = list(stored(schema)), relation.connection.spelling.dialect
    axes = [Axis.of(*each) for each in schema.attributes.items()]
    keys = [key_of(axis, f"listed{number}", dialect) for number, axis in enumerate(axes)]
    listed = ", ".join(f"{key.expression} AS k{number}" for number, key in enumerate(keys))
    rows = typed_rows(relation, relation.rows, scalars, {})
    fetched(relation, f"SELECT {listed} FROM {rows} AS r{_joins(axes, keys, dialect)} LIMIT 0", scalars)


def fetched(relation: Relation, text: str, scalars: Sequence[Scalar]) -> pa.Table:
    """The result of a statement. What the engine says may quote a value, so it is neither passed on nor chained."""
    try:
        return relation.connection.fetch(text)
    except Exception as error:
        problem = type(error).__name__
    name = _unreadable(relation, scalars)
    what = "the table" if name is None else f"column {name!r} of the table"
    raise EngineError(
        f"{what} could not be read ({problem} in the engine), and nothing was taken in: once the engine is well, try "
        "again"
    )


def _unreadable(relation: Relation, scalars: Sequence[Scalar]) -> str | None:
    """The first column that the engine does not read by itself, if it reads anything."""
    if not _works(relation, "SELECT 1 AS one"):
        return None
    quoted = relation.connection.spelling.dialect.quoted
    for scalar in scalars:
        rows = typed_rows(relation, relation.rows, [scalar], {})
        if not _works(relation, f"SELECT count({quoted(field_of(scalar))}) AS n FROM {rows} AS t"):
            return scalar.column
    return None


def _works(relation: Relation, text: str) -> bool:
    try:
        relation.connection.fetch(text)
    except Exception:
        return False
    return True
