"""Statements whose result is nothing but columns of one released table: they need no DuckDB."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from treering.sql.finishing.lineage import RELEASED

_COLUMN: Final = re.compile(r"[km][0-9]+")
_TYPES: Final = frozenset({pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us")})
"""The types that DuckDB hands back as they were."""


class Plain(NamedTuple):
    """The columns of a released table that a statement selects."""

    table: str
    columns: list[str]

    @classmethod
    def of(cls, outer: exp.Expr) -> Plain | None:
        """What a statement over released tables selects; None if it does anything else."""
        if not isinstance(outer, exp.Select) or _parts(outer) != {"expressions", "from_"}:
            return None
        source = outer.args["from_"].this
        if not isinstance(source, exp.Table) or _parts(source) != {"this"} or not source.name.startswith(RELEASED):
            return None
        nodes = [node.unalias() for node in outer.expressions]
        if not all(isinstance(node, exp.Column) and node.table == source.name for node in nodes):
            return None
        names = [node.name for node in nodes]
        return cls(source.name, names) if all(_COLUMN.fullmatch(name) for name in names) else None

    def types(self, empty: pa.Table) -> list[pa.DataType] | None:
        """The types of the columns in a released table without rows; None if DuckDB would change one."""
        found = [empty.schema.field(name).type for name in self.columns]
        return found if _TYPES.issuperset(found) else None

    def result(self, released: pa.Table) -> tuple[pa.Table, dict[int, int]]:
        """The columns of a released table, numbers as they are shown, and behind them the margins of these; and, for
        each number, the place of its margin."""
        numbers = [place for place, name in enumerate(self.columns) if name.startswith("m")]
        shown = [f"s{name[1:]}" if name.startswith("m") else name for name in self.columns]
        behind = [f"e{self.columns[place][1:]}" for place in numbers]
        columns = [released.column(name) for name in [*shown, *behind]]
        table = pa.Table.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])
        return table, {place: len(shown) + number for number, place in enumerate(numbers)}


def _parts(node: exp.Expr) -> set[str]:
    """The parts of a node that say something."""
    return {name for name, value in node.args.items() if value}
