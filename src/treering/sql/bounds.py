"""What a statement may be like for its tree to be rearranged in about a second: checked before that is done.

`check_tokens` looks at a text before it is parsed. `check_expansion` looks at a tree before names are put in their
places: ``SELECT *`` stands for columns, and a name for the expression that it is an alias of, which may have names in
it in turn: ``a + a AS b, b + b AS c, …`` doubles with each step. `check_correlated` looks at SELECTs that name columns
of a SELECT around them: DuckDB rearranges each together with all others, and needs minutes for sixty. `check_groups`
looks at what a SELECT groups by.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.optimizer.scope import traverse_scope

from treering.errors import QueryError
from treering.sql.nodes import MAX_NODES

MAX_TOKENS: Final = 8_000
"""The most words and signs of a statement."""
MAX_OPEN: Final = 50
"""The most parentheses, brackets and CASEs that are open at once."""
MAX_SOURCES: Final = 64
"""The most tables and SELECTs in FROM and JOIN, CTEs put in their places."""
MAX_COLUMNS: Final = 500
"""The most columns of a SELECT: each is followed through the others."""
MAX_GROUPS: Final = 10_000
"""The most groups of one core."""
MAX_CORRELATED: Final = 16
"""The most SELECTs in a statement that name columns of SELECTs around them."""
MAX_NESTED: Final = 4
"""The most of these within each other."""

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})


def check_tokens(tokens: list[Token]) -> None:
    """Refuse a statement that would take long to parse."""
    if len(tokens) > MAX_TOKENS:
        raise QueryError(f"the statement has {len(tokens):,} words and signs; at most {MAX_TOKENS:,} are read")
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_OPEN:
            raise QueryError(f"the statement is nested too deeply: at most {MAX_OPEN} parentheses are open at once")


def check_groups(groups: int) -> None:
    """Refuse more groups than are answered at once."""
    if groups > MAX_GROUPS:
        raise QueryError(
            f"the statement has {groups:,} groups; at most {MAX_GROUPS:,} are answered at once: group by fewer "
            "attributes, or by fewer values"
        )


def check_expansion(tree: exp.Expr, columns: int) -> None:
    """Refuse a statement about a table of so many ``columns`` that grows too large when names are put in their places.

    (The size is an upper bound: every name is taken for the largest expression that it could stand for.)
    """
    sources = Counter(type(node) for node in tree.find_all(exp.Table, exp.Subquery, exp.Values))
    if sources[exp.Table] + sources[exp.Values] > MAX_SOURCES:
        raise QueryError(f"the statement joins or puts together more than {MAX_SOURCES} tables, CTEs in their places")
    _Sizes(columns).outputs(tree)


def check_correlated(tree: exp.Expr) -> None:
    """Refuse a statement, its columns named with their tables, with too many SELECTs that depend on those around
    them."""
    scopes = [scope for scope in traverse_scope(tree) if scope.external_columns]
    if len(scopes) > MAX_CORRELATED:
        raise QueryError(
            f"more than {MAX_CORRELATED} SELECTs inside others name columns of the outer ones: join the groups instead"
        )
    around = {id(scope.expression) for scope in scopes}
    for scope in scopes:
        if _inside(scope.expression, around) > MAX_NESTED:
            raise QueryError(
                f"more than {MAX_NESTED} SELECTs stand inside each other that name columns of the outer ones: join the "
                "groups instead"
            )


def _inside(node: exp.Expr | None, around: set[int]) -> int:
    """How many of some nodes a node stands in, itself included."""
    depth = 0
    while node is not None:
        depth += id(node) in around
        node = node.parent
    return depth


@dataclass(slots=True)
class _Outputs:
    """The columns that something in FROM has: how many, the size of each that has a name, and that of the largest."""

    width: int
    sizes: dict[str, int]
    largest: int


class _Sizes:
    """The sizes of a statement's expressions once all names in them have been put in their places."""

    def __init__(self, columns: int) -> None:
        self._table = _Outputs(columns, {}, 1)
        self._total = 0

    def outputs(self, node: exp.Expr | None) -> _Outputs:
        """The columns of a table, a SELECT or a join."""
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.SetOperation):
            left, right = self.outputs(node.this), self.outputs(node.expression)
            sizes = {name: max(size, right.largest) for name, size in left.sizes.items()}
            return _Outputs(left.width, sizes, max(left.largest, right.largest))
        inner = self.outputs(node.this) if isinstance(node, exp.Subquery) else self._table
        joins = node.args.get("joins") if node is not None else None
        return _joined([inner, *(self.outputs(join.this) for join in joins)]) if joins else inner

    def _select(self, select: exp.Select) -> _Outputs:
        origin = select.args.get("from_")
        items = [*([origin] if origin is not None else []), *(select.args.get("joins") or [])]
        source = _joined([self.outputs(item.this) for item in items])
        sizes = dict(source.sizes)
        found = _Outputs(0, {}, 1)
        for item in select.expressions:
            if item.is_star and not isinstance(item, exp.Count):
                found.width += source.width
                found.sizes |= source.sizes
                found.largest = max(found.largest, source.largest)
                self._add(source.width + sum(source.sizes.values()))
                continue
            size = self._size(item, sizes)
            found.width += 1
            found.largest = max(found.largest, size)
            if name := item.alias_or_name.lower():
                found.sizes[name] = sizes[name] = max(size, sizes.get(name, 1))
        if found.width > MAX_COLUMNS:
            raise QueryError(f"a SELECT has at most {MAX_COLUMNS} columns, not {found.width:,}")
        for name, clause in select.args.items():
            if name not in ("expressions", "from_"):
                for each in clause if isinstance(clause, list) else [clause]:
                    self._size(each, sizes)
        return found

    def _size(self, node: object, sizes: dict[str, int]) -> int:
        """The size of an expression; SELECTs within it are looked at by themselves."""
        size = 0
        rest = [node]
        while rest:
            each = rest.pop()
            if not isinstance(each, exp.Expr):
                continue
            if isinstance(each, exp.Query):
                self.outputs(each)
            elif isinstance(each, exp.Column):
                size += sizes.get(each.name.lower(), 1)
            else:
                size += 1
                rest += each.iter_expressions()
        self._add(size)
        return min(size, 2 * MAX_NODES)

    def _add(self, size: int) -> None:
        self._total += size
        if self._total > 2 * MAX_NODES:
            raise QueryError(
                "the statement becomes too long when names are put in their places: name fewer columns of columns"
            )


def _joined(outputs: list[_Outputs]) -> _Outputs:
    sizes: dict[str, int] = {}
    for each in outputs:
        for name, size in each.sizes.items():
            sizes[name] = max(size, sizes.get(name, 1))
    return _Outputs(sum(each.width for each in outputs), sizes, max((each.largest for each in outputs), default=1))
