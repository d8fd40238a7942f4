"""Which columns of a statement depend on released numbers, and where noise has a part in what rows there are.

What is safe is listed: clauses and expressions that let noise change numbers, and nothing else. Whatever is not listed
chooses rows by noisy numbers, if a noisy number stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, build_scope

from treering.errors import QueryError
from treering.sql.measures import undated
from treering.sql.nodes import AGGREGATES

_SMOOTH_NAMES = "Paren Alias Add Sub Mul Div IntDiv Neg Cast TryCast Coalesce Nullif Round Floor Ceil Abs Sqrt Ln Log "
_SMOOTH_NAMES += (
    "Exp Pow Concat ConcatWs DPipe Sum Avg Count Stddev StddevSamp StddevPop Variance VariancePop Lag Lead "
)
_SMOOTH_NAMES += "FirstValue LastValue NthValue"

_SMOOTH: Final = frozenset(getattr(exp, name) for name in _SMOOTH_NAMES.split())
"""Expressions of noisy numbers that choose nothing by them. (Window functions: where their order is exact.)"""

_PICKING: Final = (exp.ArgMax, exp.ArgMin)

_CLAUSES: Final = frozenset(
    {"expressions", "from_", "joins", "where", "having", "qualify", "order", "limit", "offset", "distinct", "group"}
)
"""The clauses of a SELECT that are understood."""


class Level(IntEnum):
    """How much of a column is noise."""

    EXACT = 0
    NOISY = 1
    """It is worked out from noisy numbers, or from rows that were chosen by them."""
    PLACED = 2
    """It is taken from, or counts, places in an order that noise has part in: no margin is known."""


Levels = Mapping[tuple[str, str], Level]
"""The level of each column, by the names of its source and itself; of a result's column, the first is empty."""


@dataclass(frozen=True, slots=True)
class Taint:
    """What of a statement's result rests on noise."""

    levels: tuple[Level, ...]
    """For each column of the result, how much of it does."""
    selects: bool
    """Whether noisy numbers decide somewhere what rows there are, or which of two numbers is taken."""
    conditions: frozenset[int]
    """The parts of WHERE clauses that rest on noise, by their identity in the tree."""

    @property
    def columns(self) -> tuple[bool, ...]:
        """For each column of the result, whether it rests on noise."""
        return tuple(level > Level.EXACT for level in self.levels)


def taint(outer: exp.Expr) -> Taint:
    """The taint of a statement over released tables, whose noisy columns are called m0, m1, …, and s0, s1, …"""
    scope = build_scope(outer)
    if scope is None:
        raise QueryError("the statement cannot be understood")
    finder = _Finder()
    levels, _ = finder.result(scope, {}, root=True)
    return Taint(tuple(levels), finder.selects, frozenset(finder.conditions))


class _Finder:
    def __init__(self) -> None:
        self.selects = False
        self.conditions: set[int] = set()

    def result(self, scope: Scope, around: Levels, *, root: bool = False) -> tuple[list[Level], bool]:
        """The levels of a SELECT's columns, and whether its rows are chosen by noise."""
        if scope.union_scopes:
            levels, chosen = self._union(scope, around, root=root)
        else:
            levels, chosen = self._select(scope, around, root=root)
        self.selects |= chosen
        return levels, chosen

    def _union(self, scope: Scope, around: Levels, *, root: bool) -> tuple[list[Level], bool]:
        sides = [self.result(each, around) for each in scope.union_scopes]
        if len({len(levels) for levels, _ in sides}) > 1:
            raise QueryError("the SELECTs that are put together have different numbers of columns")
        levels = [max(flags) for flags in zip(*(levels for levels, _ in sides), strict=True)]
        node = scope.expression
        plain = isinstance(node, exp.Union) and not node.args.get("distinct")
        expressions = _Expressions(_named(scope, levels), {}, any_chosen=False)
        chosen = any(chosen for _, chosen in sides) or (not plain and any(levels))
        return levels, chosen or self._ordered(node, expressions, levels, root=root) or expressions.chose

    def _select(self, scope: Scope, around: Levels, *, root: bool) -> tuple[list[Level], bool]:
        levels, chosen = dict(around), False
        for name, source in scope.sources.items():
            if isinstance(source, Scope):
                own, by_noise = self.result(source, around)
                levels |= {(name, each): level for (_, each), level in _named(source, own).items()}
                chosen |= by_noise
            else:
                levels[name, "*"] = Level.NOISY
        inner = {id(each.expression): self.result(each, levels) for each in scope.subquery_scopes}
        select = scope.expression
        known = _Expressions(levels, inner, any_chosen=chosen)
        chosen |= self._joined(select, known) | self._conditional(select, known)
        known.any_chosen = chosen
        outputs = [known.level(node) for node in select.expressions]
        named = _Expressions({**levels, **_named(scope, outputs)}, inner, any_chosen=chosen)
        later = [select.args.get(name) for name in ("having", "qualify")]
        chosen |= any(named.level(clause) > Level.EXACT for clause in later if clause is not None)
        chosen |= self._ordered(select, named, outputs, root=root)
        if distinct := select.args.get("distinct"):
            chosen |= any(outputs) if distinct.args.get("on") is None else named.level(distinct) > Level.EXACT
        return outputs, chosen or known.chose or named.chose

    @staticmethod
    def _joined(select: exp.Expr, known: _Expressions) -> bool:
        """Whether noise has part in how rows are joined or grouped, or stands in a clause that is not understood."""
        clauses = [
            each for join in select.args.get("joins") or () for name, each in join.args.items() if name != "this"
        ]
        group = select.args.get("group")
        clauses.append(select.expressions if group is not None and group.args.get("all") else group)
        clauses += [value for name, value in select.args.items() if name not in _CLAUSES]
        nodes = [node for clause in clauses for node in _nodes(clause)]
        return any(known.level(node) > Level.EXACT for node in nodes if node.find(*AGGREGATES) is None)

    def _conditional(self, select: exp.Expr, known: _Expressions) -> bool:
        """Whether noise has part in what WHERE chooses; what does is kept among the conditions."""
        where = select.args.get("where")
        if where is None:
            return False
        parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        noisy = {id(part) for part in parts if known.level(part) > Level.EXACT}
        self.conditions |= noisy
        return bool(noisy)

    @staticmethod
    def _ordered(node: exp.Expr, named: _Expressions, outputs: list[Level], *, root: bool) -> bool:
        """Whether rows are cut off after a noisy order; an order inside another SELECT may be cut off there."""
        cut = [node.args.get(name) for name in ("limit", "offset")]
        if any(named.level(each) > Level.EXACT for each in cut if each is not None):
            return True
        order = node.args.get("order")
        if order is None or (root and not any(cut) and not _on(node)):
            return False
        whole = max(outputs, default=Level.EXACT)
        return any(_order_level(each.this, named, outputs, whole) > Level.EXACT for each in order.expressions)


def _order_level(node: exp.Expr, named: _Expressions, outputs: list[Level], whole: Level) -> Level:
    """The level of what rows are ordered by: an expression, the number of a column, or ALL."""
    if isinstance(node, exp.Literal) and not node.is_string:
        place = int(node.to_py()) - 1
        return outputs[place] if 0 <= place < len(outputs) else whole
    return whole if isinstance(node, exp.Var) else named.level(node)


@dataclass(slots=True)
class _Expressions:
    """The expressions of one SELECT."""

    levels: Levels
    inner: Mapping[int, tuple[list[Level], bool]]
    """What is known of the SELECTs that stand in its expressions, by their identity."""
    any_chosen: bool
    """Whether the rows that it is about were chosen by noise."""
    chose: bool = field(default=False)
    """Whether an expression has chosen by noise which of several numbers it is."""

    def level(self, node: exp.Expr) -> Level:
        """The level of an expression."""
        if isinstance(node, exp.Query):
            return self._of_query(node)
        if isinstance(node, exp.Column):
            return self._of_column(node)
        if isinstance(node, exp.Window):
            return self._of_window(node)
        if isinstance(node, exp.Case) and (days := undated(node)) is not node:
            return self.level(days)
        if isinstance(node, exp.Filter | exp.Case | exp.If):
            return self._of_choice(node)
        below = self._below(_children(node))
        if below is Level.EXACT:
            return Level.NOISY if self.any_chosen and type(node) in AGGREGATES else Level.EXACT
        if type(node) not in _SMOOTH:
            self.chose = True
        return Level.PLACED if isinstance(node, _PICKING) else below

    def _below(self, nodes: Iterator[exp.Expr]) -> Level:
        return max([self.level(each) for each in nodes], default=Level.EXACT)

    def _of_query(self, node: exp.Query) -> Level:
        levels, chosen = self.inner.get(id(node.unnest()), ([Level.NOISY], True))
        return max([*levels, Level.NOISY if chosen else Level.EXACT])

    def _of_column(self, column: exp.Column) -> Level:
        """The level of a column; one that nobody knows is taken for noisy."""
        released = self.levels.get((column.table, "*"))
        if released is not None:
            return released if column.name.startswith(("m", "s")) else Level.EXACT
        return self.levels.get((column.table, column.name), Level.NOISY)

    def _of_choice(self, node: exp.Expr) -> Level:
        """The level of what depends on conditions: FILTER, CASE, IF."""
        cases = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        conditions = [node.expression] if isinstance(node, exp.Filter) else [each.this for each in cases]
        if isinstance(node, exp.Case) and node.this is not None:
            conditions.append(node.this)
        noisy = self._below(iter(conditions)) > Level.EXACT
        self.chose |= noisy
        results = [node.this] if isinstance(node, exp.Filter) else [each.args["true"] for each in cases]
        results += [each for name in ("default", "false") if (each := node.args.get(name)) is not None]
        return max(self._below(iter(results)), Level.NOISY if noisy else Level.EXACT)

    def _of_window(self, node: exp.Window) -> Level:
        arranged = [each for name, value in node.args.items() if name != "this" for each in _nodes(value)]
        if node.args.get("alias") is not None or self._below(iter(arranged)) > Level.EXACT:
            self.chose = True
            return Level.PLACED
        return self.level(node.this)


def _named(scope: Scope, levels: list[Level]) -> dict[tuple[str, str], Level]:
    """The levels of a result's columns, by their names."""
    query = scope.expression
    assert isinstance(query, exp.Query)
    return {("", name): level for name, level in zip(query.named_selects, levels, strict=True)}


def _on(node: exp.Expr) -> bool:
    """Whether it is a SELECT DISTINCT ON: the first row of each group, in an order, is kept."""
    distinct = node.args.get("distinct")
    return isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None


def _children(node: exp.Expr) -> Iterator[exp.Expr]:
    for value in node.args.values():
        yield from _nodes(value)


def _nodes(value: Any) -> Iterator[exp.Expr]:
    listed = value if isinstance(value, list) else [value]
    return (each for each in listed if isinstance(each, exp.Expr))
