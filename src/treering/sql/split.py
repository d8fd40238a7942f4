"""A statement in two stages: what must be released of the rows, and what is made of it.

Every SELECT over the table itself (a *core*) is replaced by a SELECT over a released table, which has a column for
each key and for each figure. What remains, the *outer* statement, names released tables only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from treering.deadline import check as check_deadline, take
from treering.domain.language.items import Item
from treering.domain.language.wants import Wants
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.bounds import check_groups
from treering.sql.conditions import condition, noted
from treering.sql.engine.current import current
from treering.sql.keys import Key, empty, key
from treering.sql.measures import Aggregates, Figure
from treering.sql.nodes import AGGREGATES
from treering.sql.read import Text, read
from treering.sql.sources import People, check_outside, hinted

_PARTS: Final = ("expressions", "having", "order", "qualify", "distinct")
"""The clauses of a core in which keys and aggregates stand."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a released table: the labels of a group, its rows, and whether one of the labels is special."""

    labels: tuple[Any, ...]
    rows: Query
    special: bool


@dataclass(eq=False, slots=True)
class Core:
    """What is released for one SELECT over the table: figures of the groups that its keys make."""

    name: str
    keys: list[Key]
    figures: list[Figure] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    counted: int | None = None
    """The figure that says how many rows a group has: there is one if some group is special."""
    items: list[list[Item]] = field(default_factory=list)
    """For each group, the item of each figure."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the figures should know."""


@dataclass(frozen=True, eq=False, slots=True)
class Statement:
    """A statement, split: ``outer`` is a statement over the tables that the ``cores`` name."""

    text: Text
    schema: Schema
    cores: tuple[Core, ...]
    outer: exp.Expr
    items: tuple[Item, ...]
    """All that is to be released, as one batch: each item once."""
    people: People | None = None
    """Whose the rows are."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know, in plain words."""
        return tuple(dict.fromkeys(note for core in self.cores for note in core.notes))

    @property
    def queries(self) -> tuple[Query, ...] | None:
        """The items as queries, if all are counts: any mechanism can answer them."""
        return tuple(item.query for item in self.items) if all(item.kind == "count" for item in self.items) else None


def split(
    text: str,
    schema: Schema,
    *,
    sums: bool = True,
    people: People | None = None,
    per_person: int | None = None,
    name: str | None = None,
) -> Statement:
    """The two stages of an SQL text about the attributes of ``schema``. Without ``sums``, all that is released are
    counts: any mechanism can answer them. ``people`` are whose the rows are; ``per_person`` is the most rows of each
    that count, which a hint may state, too. ``name`` is the table's; None takes any."""
    try:
        plain, hint = hinted(text) if isinstance(text, str) else (text, None)
        wants = Wants("rows", _one_cap(per_person, hint))
        wants = wants.of(None if people is None else people.column, 1 if people is None else people.limit)
        return _split(read(plain, schema, people, name), schema, sums, people, wants.per_person or 0)
    except RecursionError:
        raise QueryError("the statement is nested too deeply") from None


def _one_cap(given: int | None, hint: int | None) -> int | None:
    if given is not None and hint is not None and given != hint:
        raise QueryError(f"PER_PERSON({hint}) and per_person={given} are two caps: state one")
    return hint if given is None else given


def _split(given: Text, schema: Schema, sums: bool, people: People | None, cap: int) -> Statement:
    outer = given.tree.copy()
    if given.public is not None:
        return Statement(given, schema, (), outer, ())
    cores: list[Core] = []
    with current().together():
        for scope in list(traverse_scope(outer)):
            check_deadline()
            if _about_rows(scope):
                aggregates = Aggregates(schema, sums, people, cap)
                cores.append(_Splitting(scope, schema, f"released_{len(cores)}", aggregates).core())
        check_outside(outer)
    items = tuple(dict.fromkeys(item for core in cores for row in core.items for item in row))
    return Statement(given, schema, tuple(cores), outer, items, people)


def _about_rows(scope: Scope) -> bool:
    tables = [source for source in scope.sources.values() if isinstance(source, exp.Table)]
    if tables and (len(scope.sources) > 1 or scope.expression.args.get("joins")):
        raise QueryError("rows are joined with nothing: group them in a SELECT of its own, and join the groups")
    if tables and scope.external_columns:
        raise QueryError(
            "a SELECT inside another cannot name the outer one's columns: ask for the groups, and join them"
        )
    return bool(tables)


class _Splitting:
    """The splitting of one SELECT over the table."""

    def __init__(self, scope: Scope, schema: Schema, name: str, aggregates: Aggregates) -> None:
        if not isinstance(scope.expression, exp.Select):
            raise QueryError("rows are counted, summed and averaged by a SELECT: write SELECT … FROM the table")
        self._select: exp.Select = scope.expression
        self._schema = schema
        self._core = Core(name, [])
        self._keys: list[exp.Expr] = []
        self._columns: dict[tuple[object, ...], int] = {}
        self._aggregates = aggregates
        aggregates.column = self._measured

    def core(self) -> Core:
        """The core; its SELECT is changed in place to one over the released table."""
        select = self._select
        self._core.notes = list(noted(select, self._schema))
        clause = select.args.get("where")
        where = Query.all(self._schema) if clause is None else condition(clause.this, self._schema)
        self._keys = self._found_keys()
        for node in self._keys:
            self._core.keys.append(key(node, self._schema))
            check_groups(math.prod(map(len, self._core.keys)))
        self._replace_all(select.args.get(part) for part in _PARTS)
        self._check_columns()
        if any(not isinstance(star.parent, exp.Count) for star in select.find_all(exp.Star)):
            raise QueryError("* stands in COUNT(*) only")
        self._core.notes += self._aggregates.notes
        self._list_groups(where)
        self._turn_to_released()
        return self._core

    def _turn_to_released(self) -> None:
        """Change the SELECT to one over the released table: what HAVING says of groups is a WHERE there."""
        select = self._select
        having = select.args.get("having")
        select.set("where", None if having is None else exp.Where(this=having.this))
        select.set("having", None)
        select.set("group", None)
        select.set("from_", exp.From(this=exp.to_table(self._core.name)))

    def _found_keys(self) -> list[exp.Expr]:
        """The expressions grouped by; of a SELECT DISTINCT, those selected."""
        select = self._select
        group = select.args.get("group")
        if group is not None:
            if any(group.args.get(each) for each in ("grouping_sets", "cube", "rollup", "totals")):
                raise QueryError("GROUPING SETS, CUBE and ROLLUP are not answered: take UNION ALL of the groupings")
            if group.args.get("all"):
                return [node.unalias().copy() for node in select.expressions if not _own_aggregates(node)]
            return [node.copy() for node in group.expressions]
        if any(_own_aggregates(node) for node in select.expressions) or select.args.get("having"):
            return []
        if select.args.get("distinct"):
            return [node.unalias().copy() for node in select.expressions]
        raise QueryError("rows are private: they can be counted, summed and averaged, in groups, but not listed")

    def _released(self, node: exp.Expr) -> exp.Expr:
        """An expression with keys and aggregates replaced by columns of the released table."""
        for place, each in enumerate(self._keys):
            if node == each:
                return _column(self._core.name, f"k{place}")
        if isinstance(node, exp.Query):  # A SELECT of its own is split for itself.
            return node
        if isinstance(node, exp.Window):
            for name, value in node.args.items():
                inner = node.this.args.values() if name == "this" else [value]
                self._replace_all(inner)
            return node
        if _is_aggregate(node):
            return self._aggregates.expression(node)
        self._replace_all(node.args.values())
        return node

    def _replace_all(self, parts: Iterable[Any]) -> None:
        for part in list(parts):
            for child in _listed(part):
                changed = self._released(child)
                if changed is not child:
                    child.replace(changed)

    def _measured(self, figure: Figure) -> exp.Expr:
        """The column of a figure."""
        figure = self._aggregates.capped(figure)
        return _column(self._core.name, f"m{self._place(figure)}")

    def _place(self, figure: Figure) -> int:
        """The place of a figure among the core's: each is there once."""
        if figure.key not in self._columns:
            self._columns[figure.key] = len(self._core.figures)
            self._core.figures.append(figure)
        return self._columns[figure.key]

    def _check_columns(self) -> None:
        """Refuse attributes that are neither grouped by nor aggregated."""
        for part in _PARTS:
            for node in _listed(self._select.args.get(part)):
                for column in _own_columns(node):
                    if column.table and column.table != self._core.name:
                        raise QueryError(f"{column.name} is selected but neither grouped by nor aggregated")

    def _list_groups(self, where: Query) -> None:
        """The groups that some row can be in."""
        for parts in itertools.product(*self._core.keys):
            rows = where
            for part in parts:
                rows = rows & part.rows
            _hold(rows, *(part.rows for part in parts))
            if not empty(rows) or not parts:
                row = Row(tuple(part.label for part in parts), rows, any(part.special for part in parts))
                self._core.rows.append(row)
        if self._core.figures and any(row.special for row in self._core.rows):
            self._core.counted = self._place(Figure(Query.all(self._schema)))
        self._core.items = [[_item(figure, row.rows) for figure in self._core.figures] for row in self._core.rows]


def _item(figure: Figure, rows: Query) -> Item:
    """A figure of some rows."""
    item = figure.of(rows)
    _hold(item.query, rows)
    take(item.memory - item.query.memory)
    return item


def _hold(query: Query, *held: Query) -> None:
    """Count the memory of a query, unless it is held already."""
    check_deadline()
    if all(query is not each for each in held):
        take(query.memory)


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return True
    return type(node) in AGGREGATES


def _own_aggregates(node: exp.Expr) -> bool:
    """Whether an expression aggregates rows: other than as a window function, and not in a SELECT of its own."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        return any(_own_aggregates(child) for value in node.this.args.values() for child in _listed(value))
    return _is_aggregate(node) or any(
        _own_aggregates(child) for value in node.args.values() for child in _listed(value)
    )


def _own_columns(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression that stand in no SELECT of its own."""
    if isinstance(node, exp.Column):
        yield node
    elif not isinstance(node, exp.Query):
        for value in node.args.values():
            for child in _listed(value):
                yield from _own_columns(child)


def _listed(value: Any) -> list[exp.Expr]:
    if isinstance(value, exp.Expr):
        return [value]
    return [each for each in value if isinstance(each, exp.Expr)] if isinstance(value, list) else []


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
