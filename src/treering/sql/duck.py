"""Statements over public values only, as trees: what was released, and the values of the schema.

No text from outside reaches the engine. What is run is written from a tree of allow-listed nodes, by
`treering.sql.spelling`, and worked out by the engine that is in use (`treering.sql.engine.current`).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from treering.sql.engine.current import current
from treering.sql.spelling import TROUBLE, spelled, tree_of, written

__all__ = ["TROUBLE", "run", "written"]


def run(statement: str | exp.Expr, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a SELECT over some tables."""
    tree = tree_of(statement) if isinstance(statement, str) else statement
    return current().run(spelled(tree), tables)
