"""An SQL text answered by a mechanism: the one way from text to table.

The first stage is `split`, and asking a mechanism for the statement's items; `answer` is the second.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from treering.answer import Answer, Estimate
from treering.arrays import Floats
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.shown import ALONE, HOLDING, MARK, NOTES, TOGETHER, show_tables
from treering.sql.duck import run, written
from treering.sql.finish import Released, draws_for, finish
from treering.sql.read import TABLE
from treering.sql.split import Statement, split
from treering.sql.taint import taint
from treering.sql.values import arrow_type
from treering.theory.draws import normals
from treering.theory.rings import NORMAL
from treering.words import counted

__all__ = ["Statement", "answer", "draws_for", "explained", "split", "told_by"]


def answer(statement: Statement, told: Sequence[Estimate], noise: Floats | None, size: int) -> pa.Table:
    """The table that answers a statement, from what is known of its items at a ``size``.

    ``noise`` are draws of the noise of that, as many as `draws_for` says. Where its law is not known, each item's noise
    is taken for an independent normal one with the item's margin.
    """
    if noise is None:
        deviations = np.array([(each.margin or 0.0) / NORMAL for each in told])
        noise = normals("independent answers", draws_for(statement), len(told)) * deviations
    show_tables()
    found = finish(statement, Released(statement.items, told, noise), column_names(statement))
    held = TOGETHER if taint(statement.outer).selects else ALONE
    said = json.dumps(statement.notes, ensure_ascii=False).encode()
    return found.replace_schema_metadata({MARK: str(size).encode(), HOLDING: held, NOTES: said})


def told_by(answers: Sequence[Answer]) -> list[Estimate]:
    """Answers to counting queries as counts of rows."""
    return [
        Estimate(
            each.count,
            max(0, each.count - _rounded(each.margin, each.size)),
            min(each.size, each.count + _rounded(each.margin, each.size)),
            _rounded(each.error, each.size),
        )
        for each in answers
    ]


def _rounded(share: float, size: int) -> int:
    return math.ceil(share * size + 0.5) if share else 0


def column_names(statement: Statement) -> list[str]:
    """What the columns are called: as DuckDB would call them."""
    original, schema = statement.text.original, statement.schema
    try:
        found = run(written(original), {TABLE: _empty(schema)})
    except QueryError:  # What is told of cells may be of another type than a row's value: a bin's label, say.
        select = original if isinstance(original, exp.Select) else original.find(exp.Select)
        return [node.alias_or_name or node.sql() for node in select.expressions] if select else []
    return list(found.schema.names)


def _empty(schema: Schema) -> pa.Table:
    """A table of no rows with the schema's columns."""
    columns = {name: pa.array([], type=arrow_type(schema.attributes[name])) for name in schema.names}
    sources = {name: pa.array([], type=pa.timestamp("us")) for name in schema.columns if name not in columns}
    return pa.table({**columns, **sources})


def explained(statement: Statement, mechanism: str, price: float, remaining: float, unit: str) -> pa.Table:
    """What a statement would release, what is then made of it, and the price: a table with one row."""
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
            "then": [written(statement.outer)],
        }
    )
