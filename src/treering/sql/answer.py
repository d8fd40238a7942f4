"""An SQL text answered by a mechanism: the one way from text to table.

The first stage is `split`, and asking a mechanism for the statement's items; `answer` is the second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from treering.answer import Estimate
from treering.arrays import Floats
from treering.domain.schema import Schema
from treering.errors import QueryError, TimeLimit
from treering.shown import ALONE, HOLDING, MARK, NOTES, TOGETHER, show_tables
from treering.sql.duck import run, written
from treering.sql.engine.current import current
from treering.sql.finishing.finish import Released, draws_for, finish, rehearse
from treering.sql.finishing.taint import taint
from treering.sql.read import TABLE
from treering.sql.split import Statement, split
from treering.sql.values import arrow_type
from treering.words import counted

__all__ = ["Statement", "answer", "draws_for", "explained", "rehearse", "split"]

ONE_BY_ONE: Final = (
    "How the errors of these answers depend on each other is not known: the margin of a number that is worked out adds "
    "up what each of their errors may change. That holds for sums and differences, and to first order for quotients."
)
"""A note on margins."""


def answer(statement: Statement, told: Sequence[Estimate], noise: Floats | None, size: int) -> pa.Table:
    """The table that answers a statement, from what is known of its items at a ``size``.

    ``noise`` are draws of the noise of that, as many as `draws_for` says; None where its law is not known, but only
    that all answers keep their errors together.
    """
    show_tables()
    try:
        with current().together():
            found = finish(statement, Released(statement.items, told, noise, size), column_names(statement))
    except RecursionError:
        raise QueryError("the statement is nested too deeply") from None
    held = TOGETHER if taint(statement.outer).selects else ALONE
    notes = [*statement.notes, *([ONE_BY_ONE] if noise is None and draws_for(statement) else [])]
    said = json.dumps(notes, ensure_ascii=False).encode()
    return found.replace_schema_metadata({MARK: str(size).encode(), HOLDING: held, NOTES: said})


def looked_up(statement: Statement) -> pa.Table:
    """The table that answers a statement about public tables."""
    return run(statement.outer, statement.text.public or {})


def column_names(statement: Statement) -> list[str]:
    """What the columns are called: as DuckDB would call them."""
    original, schema, outer = statement.text.original, statement.schema, statement.outer
    person = None if statement.people is None else statement.people.column
    named = _written_names(original, schema)
    if named is not None:
        return named
    try:
        found = list(run(written(original), {TABLE: _empty(schema, person)}).schema.names)
    except TimeLimit:
        raise
    except QueryError:  # What is told of cells may be of another type than a row's value: a bin's label, say.
        select = original if isinstance(original, exp.Select) else original.find(exp.Select)
        found = [node.alias_or_name or node.sql() for node in select.expressions] if select else []
    assert isinstance(outer, exp.Query)
    own = outer.named_selects
    return found if len(found) == len(own) else own


def _written_names(original: exp.Expr, schema: Schema) -> list[str] | None:
    """The names of a SELECT's columns if all stand in the statement: aliases, and columns written as in the schema."""
    if not isinstance(original, exp.Select) or original.args.get("with_"):
        return None
    known = {*schema.names, *schema.columns}
    if all(isinstance(each, exp.Alias) or _is_column(each, known) for each in original.expressions):
        return [str(each.alias_or_name) for each in original.expressions]
    return None


def _is_column(node: exp.Expr, known: set[str]) -> bool:
    return isinstance(node, exp.Column) and node.name in known


def _empty(schema: Schema, person: str | None) -> pa.Table:
    """A table of no rows with the schema's columns, and that of persons."""
    columns = {name: pa.array([], type=arrow_type(schema.attributes[name])) for name in schema.names}
    sources = {name: pa.array([], type=pa.timestamp("us")) for name in schema.columns if name not in columns}
    persons = {} if person is None else {person: pa.array([], type=pa.string())}
    return pa.table({**persons, **columns, **sources})


def explained(
    statement: Statement,
    mechanism: str,
    price: float,
    remaining: float,
    unit: str,
    widths: Mapping[int, float] | None = None,
) -> pa.Table:
    """What a statement would release, what is then made of it, and the price: a table with one row. ``widths`` are the
    margins that counts would have with so many rows of each person."""
    caps = {} if widths is None else {"caps": ["; ".join(f"{cap}: ± {wide:,.0f}" for cap, wide in widths.items())]}
    released = "; ".join(
        f"{counted(len(core.rows), 'group')}, {counted(len(core.figures), 'number')} each" for core in statement.cores
    )
    return pa.table(
        {
            "released": [released],
            "numbers": [len(statement.items)],
            "mechanism": [mechanism],
            "price": [price],
            "remaining": [remaining],
            "unit": [unit],
            **caps,
            "then": [written(statement.outer)],
        }
    )
