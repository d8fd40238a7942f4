"""Which columns of a statement depend on released numbers, and where it selects by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, build_scope

from treering.errors import QueryError
from treering.sql.nodes import AGGREGATES


@dataclass(frozen=True, slots=True)
class Taint:
    """What of a statement's result rests on noise."""

    columns: tuple[bool, ...]
    """For each column of the result, whether it does."""
    selects: bool
    """Whether rows are chosen by noisy numbers somewhere: HAVING, ORDER BY … LIMIT, QUALIFY, a maximum."""


def taint(outer: exp.Expr) -> Taint:
    """The taint of a statement over released tables, whose noisy columns are called m0, m1, …"""
    scope = build_scope(outer)
    if scope is None:
        raise QueryError("the statement cannot be understood")
    finder = _Finder()
    columns = finder.columns(scope)
    return Taint(tuple(columns), finder.selects)


class _Finder:
    def __init__(self) -> None:
        self.selects = False

    def columns(self, scope: Scope) -> list[bool]:
        """For each column of a SELECT, whether it depends on noise."""
        if scope.union_scopes:
            sides = [self.columns(each) for each in scope.union_scopes]
            if len(set(map(len, sides))) > 1:
                raise QueryError("the SELECTs that are put together have different numbers of columns")
            self._look_at_limit(scope.expression, any(any(side) for side in sides))
            return [any(flags) for flags in zip(*sides, strict=True)]
        noisy = self._noisy(scope)
        select = scope.expression
        outputs = [self._rests_on(node, noisy) for node in select.expressions]
        chooses = self._chooses(select, outputs, noisy)
        self.selects |= chooses
        return [flag or (chooses and _aggregates(node)) for flag, node in zip(outputs, select.expressions, strict=True)]

    def _chooses(self, select: exp.Expr, outputs: list[bool], noisy: set[tuple[str, str]]) -> bool:
        """Whether a SELECT chooses rows by noisy numbers."""
        clauses = [select.args.get(name) for name in ("where", "having", "qualify")]
        clauses += select.find_all(exp.Max, exp.Min, exp.ArgMax, exp.ArgMin)
        if any(clause is not None and self._rests_on(clause, noisy) for clause in clauses):
            return True
        order = select.args.get("order")
        if order is None or not (select.args.get("limit") or select.args.get("offset")):
            return False
        names = {node.alias_or_name: flag for node, flag in zip(select.expressions, outputs, strict=True)}
        return self._rests_on(order, noisy) or any(names.get(each.name, False) for each in _bare(order))

    def _look_at_limit(self, node: exp.Expr, noisy: bool) -> None:
        self.selects |= noisy and bool(node.args.get("order")) and bool(node.args.get("limit"))

    def _noisy(self, scope: Scope) -> set[tuple[str, str]]:
        """The noisy columns of a SELECT's sources, each with the name of its source; inner SELECTs as ("", "")."""
        found: set[tuple[str, str]] = set()
        for name, source in scope.sources.items():
            if isinstance(source, Scope):
                flags = self.columns(source)
                found |= {(name, each) for each, flag in zip(_names(source), flags, strict=True) if flag}
        for inner in scope.subquery_scopes:
            if any(self.columns(inner)):
                found.add(("", ""))
        return found

    def _rests_on(self, node: exp.Expr, noisy: set[tuple[str, str]]) -> bool:
        if ("", "") in noisy and node.find(exp.Query):
            return True
        return any(
            (column.table.startswith("released_") and column.name.startswith("m"))
            or (column.table, column.name) in noisy
            for column in node.find_all(exp.Column)
        )


def _names(scope: Scope) -> list[str]:
    query = scope.expression
    assert isinstance(query, exp.Query)
    return query.named_selects


def _bare(node: exp.Expr) -> Iterator[exp.Column]:
    return (column for column in node.find_all(exp.Column) if not column.table)


def _aggregates(node: exp.Expr) -> bool:
    return any(type(each) in AGGREGATES for each in node.walk())
