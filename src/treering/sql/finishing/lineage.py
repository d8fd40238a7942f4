"""A statement as DuckDB works it out over released tables: where rows and numbers come from, and what noise may do.

A SELECT without aggregates, GROUP BY and DISTINCT has a row for each row of its sources that it keeps: its rows can be
followed to the groups that were released, and its columns to released numbers.

Sums and differences are of readings, which are unbiased. What is compared, ordered or written as text is the number
that is shown, so that a reader sees why a row is there. Nothing that noise can bring about ends in an error: a quotient
by a count that is not above 0, the root of a negative number, and what cannot be cast are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from typing import Any, Final, NamedTuple, TypeAlias

from sqlglot import exp

from treering.sql.finishing.taint import taint
from treering.sql.measures import undated
from treering.sql.nodes import AGGREGATES

RELEASED: Final = "released_"
"""What the names of released tables begin with."""

ROW: Final = "row"
"""The column of a released table that numbers its rows."""

_COMPARING: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between)
_SHOWING: Final = (*_COMPARING, exp.In, exp.Ordered, exp.Concat, exp.ConcatWs, exp.DPipe, exp.Mod, exp.IntDiv)
"""What takes a released number as it is shown."""

_PASSING: Final = (
    *(exp.Paren, exp.Alias, exp.Cast, exp.TryCast, exp.Round, exp.Nullif, exp.Add, exp.Mul, exp.Div, exp.Coalesce),
    *(exp.Sum, exp.Avg, exp.Max, exp.Min, exp.Median, exp.Window, exp.Filter, exp.Greatest),
)
"""What is at least 0 if all its parts are."""

Counts: TypeAlias = AbstractSet[tuple[str, str]]
"""The columns of released tables that count rows, each with the name of its table."""

_AFTER: Final = ("order", "limit", "offset")


class Followed(NamedTuple):
    """A statement with more columns, behind its own."""

    tree: exp.Expr
    margins: dict[int, int]
    """For each column that is a released number, the place of its margin."""
    rows: list[int]
    """The places of the numbers of the rows that a row comes from."""


def sources(select: exp.Select) -> dict[str, exp.Expr]:
    """What a SELECT selects from, by name; not what it only compares with."""
    found: dict[str, exp.Expr] = {}
    first = select.args.get("from_")
    joins = [join.this for join in select.args.get("joins") or () if join.kind not in ("SEMI", "ANTI")]
    for source in [*([first.this] if first is not None else []), *joins]:
        found[source.alias_or_name] = source
    return found


def keeps_rows(query: exp.Expr) -> bool:
    """Whether a query is a SELECT with a row for each row of its sources that it keeps."""
    if not isinstance(query, exp.Select) or query.args.get("distinct") or query.args.get("group"):
        return False
    return query.args.get("from_") is not None and not any(_aggregates(node) for node in query.expressions)


def outputs(query: exp.Expr) -> list[tuple[exp.Select, list[exp.Expr]]]:
    """The SELECTs that a query puts together, each with its columns."""
    return [(select, select.expressions) for select in _selects(query) if isinstance(select, exp.Select)]


def inner(source: exp.Expr) -> exp.Expr | None:
    """The query of a subquery that is selected from."""
    return source.unnest() if isinstance(source, exp.Subquery) else None


def origin(select: exp.Expr, node: exp.Expr) -> exp.Column | None:
    """The column of a released table that an expression of a SELECT is, maybe through SELECTs that keep rows."""
    column = node.unalias().unnest()
    if not isinstance(column, exp.Column) or not isinstance(select, exp.Select):
        return None
    source = sources(select).get(column.table)
    if isinstance(source, exp.Table):
        return column if source.name.startswith(RELEASED) else None
    query = None if source is None else inner(source)
    if query is None or not keeps_rows(query) or _renamed(source):
        return None
    below = _output(query, column.name)
    return None if below is None else origin(query, below)


def direct(outer: exp.Expr, node: exp.Expr) -> exp.Column | None:
    """The released number that a column of the result shows, if it does nothing but that."""
    if not keeps_rows(outer):
        return None
    found = origin(outer, undated(node.unalias().unnest()))
    return found if found is not None and found.name.startswith("m") else None


def followed(outer: exp.Expr) -> Followed:
    """The statement with what is shown in the place of released numbers that stand by themselves, and behind its
    columns the margins of these, and the numbers of the rows that each row comes from."""
    tree = outer.copy()
    width = len(_selected(tree))
    margins: dict[int, int] = {}
    if isinstance(tree, exp.Select) and keeps_rows(tree):
        for place, node in enumerate(list(tree.expressions)):
            if direct(tree, node) is None:
                continue
            column = undated(node.unalias().unnest())
            assert isinstance(column, exp.Column)
            margin = carried(tree, column, "e")
            if column is node.unalias().unnest():
                column.replace(carried(tree, column, "s"))
            margins[place] = width + len(margins)
            tree.append("expressions", exp.alias_(margin, f"margin_of_{place}", quoted=True))
    behind = width + len(margins)
    return Followed(tree, margins, list(range(behind, behind + numbered(tree))))


def unchosen(outer: exp.Expr) -> exp.Expr:
    """The statement without what chooses rows of the result by noisy numbers, as far as that changes no number."""
    tree = outer.copy()
    _leave_out(tree, taint(tree).conditions)
    return tree


def _leave_out(query: exp.Expr, conditions: frozenset[int]) -> None:
    if isinstance(query, exp.SetOperation):
        _pop(query, *_AFTER)
        if isinstance(query, exp.Union) and not query.args.get("distinct"):
            for side in (query.this, query.expression):
                _leave_out(side.unnest(), conditions)
        return
    distinct = query.args.get("distinct")
    if not isinstance(query, exp.Select) or (distinct is not None and distinct.args.get("on") is not None):
        return
    windows = any(_windows(node) for node in query.expressions)
    _pop(query, *_AFTER, "qualify")
    if windows or distinct is not None:
        return
    if not keeps_rows(query):
        _pop(query, "having")
        return
    _leave_out_conditions(query, conditions)
    for source in sources(query).values():
        if (below := inner(source)) is not None:
            _leave_out(below, conditions)


def _leave_out_conditions(select: exp.Select, conditions: frozenset[int]) -> None:
    where = select.args.get("where")
    if where is None:
        return
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    kept = [part for part in parts if id(part) not in conditions]
    select.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)


def _pop(query: exp.Expr, *clauses: str) -> None:
    for clause in clauses:
        query.set(clause, None)


def numbered(query: exp.Expr) -> int:
    """Append to a query the numbers of the rows that its rows come from; how many these are."""
    if isinstance(query, exp.Union) and not query.args.get("distinct"):
        return _numbered_sides(query)
    if not isinstance(query, exp.Select) or not keeps_rows(query):
        return 0
    found: list[exp.Expr] = []
    for name, source in sources(query).items():
        below = inner(source)
        if isinstance(source, exp.Table):
            found.append(_column(ROW, name))
        elif below is not None and not _renamed(source):
            found += [_column(f"{ROW}_{place}", name) for place in range(numbered(below))]
    for place, node in enumerate(found):
        query.append("expressions", exp.alias_(node, f"{ROW}_{place}", quoted=True))
    return len(found)


def _numbered_sides(query: exp.Union) -> int:
    """The numbers of a UNION ALL: which side it is, then those of the sides."""
    sides = [side.unnest() for side in (query.this, query.expression)]
    numbers = [numbered(side) for side in sides]
    for place, (side, number) in enumerate(zip(sides, numbers, strict=True)):
        for select in _selects(side):
            for missing in range(number, max(numbers)):
                select.append("expressions", exp.alias_(exp.null(), f"{ROW}_{missing}", quoted=True))
            select.append("expressions", exp.alias_(exp.convert(place), f"{ROW}_{max(numbers)}", quoted=True))
    return max(numbers) + 1


def _selects(query: exp.Expr) -> Iterator[exp.Expr]:
    """The SELECTs that a query puts together."""
    if isinstance(query, exp.SetOperation):
        yield from _selects(query.this.unnest())
        yield from _selects(query.expression.unnest())
    else:
        yield query


def _selected(query: exp.Expr) -> list[exp.Expr]:
    """The columns of a query."""
    return next(_selects(query)).expressions


def carried(select: exp.Select, column: exp.Column, letter: str) -> exp.Column:
    """The column that stands beside a released number under another letter, carried up to a SELECT that shows it."""
    source = sources(select)[column.table]
    if isinstance(source, exp.Table):
        return _column(f"{letter}{column.name[1:]}", column.table)
    query = inner(source)
    assert isinstance(query, exp.Select)
    below = _output(query, column.name)
    assert below is not None
    number = below.unalias().unnest()
    assert isinstance(number, exp.Column)
    name = f"{letter} of {column.name}"
    if _output(query, name) is None:
        query.append("expressions", exp.alias_(carried(query, number, letter), name, quoted=True))
    return _column(name, column.table)


def _output(query: exp.Expr, name: str) -> exp.Expr | None:
    return next((node for node in _selected(query) if node.alias_or_name == name), None)


def _renamed(source: exp.Expr | None) -> bool:
    """Whether the columns of a subquery are renamed where it is selected from."""
    return isinstance(source, exp.Subquery) and bool(source.alias_column_names)


def _windows(node: exp.Expr) -> bool:
    """Whether an expression has a window function, in no SELECT of its own."""
    return isinstance(node, exp.Window) or any(
        _windows(child) for child in node.iter_expressions() if not isinstance(child, exp.Query)
    )


def _aggregates(node: exp.Expr) -> bool:
    """Whether an expression aggregates, other than as a window function, in no SELECT of its own."""
    below: Any = node.this.iter_expressions() if isinstance(node, exp.Window) else node.iter_expressions()
    if type(node) in AGGREGATES:
        return True
    return any(_aggregates(child) for child in below if not isinstance(child, exp.Query))


def _column(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


# -- arithmetic on readings --------------------------------------------------------------------------------------------


def workable(tree: exp.Expr, counts: Counts, *, margins: bool = False, strict: bool = False) -> exp.Expr:
    """The statement, changed so that it can be worked out over readings. (In place.)

    With ``margins``, which released tables then have, a quotient by a released count that is not above its margin is
    null: there may be no rows at all. A ``strict`` one ends in an error where a cast fails.
    """
    for cast in list(tree.find_all(exp.Cast)):
        _uncast(cast, strict=strict)
    for column in list(tree.find_all(exp.Column)):
        select = column.find_ancestor(exp.Select)
        if isinstance(_around(column), _SHOWING) and isinstance(select, exp.Select) and _is_number(select, column):
            column.replace(carried(select, column, "s"))
    for node in list(tree.find_all(exp.Div, exp.Sqrt, exp.Ln, exp.Log)):
        if not (margins and isinstance(node, exp.Div) and _above_margin(node, counts)):
            _guard(node, counts)
    return tree


def divides(tree: exp.Expr) -> bool:
    """Whether a statement has quotients, roots or logarithms, which noise can leave without a value."""
    return any(
        not isinstance(node.expression if isinstance(node, exp.Div) else node.this, exp.Literal)
        for node in tree.find_all(exp.Div, exp.Sqrt, exp.Ln, exp.Log)
    )


def _uncast(cast: exp.Cast, *, strict: bool) -> None:
    """Leave a reading as it is where it would be cast to an integer: it is rounded at the end. Other casts may fail."""
    column, select = cast.this.unnest(), cast.find_ancestor(exp.Select)
    number = isinstance(column, exp.Column) and isinstance(select, exp.Select) and _is_number(select, column)
    if number and cast.to.this in exp.DataType.INTEGER_TYPES:
        cast.replace(column)
    elif number and cast.to.this in exp.DataType.TEXT_TYPES:
        assert isinstance(select, exp.Select)
        column.replace(carried(select, column, "s"))
    elif not strict and not isinstance(cast.this, exp.Literal) and not isinstance(cast, exp.TryCast):
        cast.replace(exp.TryCast(this=cast.this, to=cast.to))


def _is_number(select: exp.Select, column: exp.Column) -> bool:
    found = origin(select, column)
    return found is not None and found.name.startswith("m")


def _around(node: exp.Expr) -> exp.Expr | None:
    parent = node.parent
    return _around(parent) if isinstance(parent, exp.Paren) else parent


def _guard(node: exp.Expr, counts: Counts) -> None:
    if isinstance(node, exp.Div):
        if not isinstance(node.expression, exp.Literal):
            node.set("expression", _nonzero(node.expression, positive=_at_least_zero(node.expression, counts)))
    elif isinstance(node, exp.Sqrt):
        node.set("this", _least_zero(node.this))
    else:
        for name in ("this", "expression"):
            if isinstance(part := node.args.get(name), exp.Expr) and not isinstance(part, exp.Literal):
                node.set(name, _nonzero(part, positive=True))


def _above_margin(node: exp.Div, counts: Counts) -> bool:
    """Let a quotient be null where its divisor, if that is a released count, is not above its margin."""
    divisor = node.expression.unnest()
    while isinstance(divisor, exp.Nullif | exp.Cast | exp.TryCast):
        divisor = divisor.this.unnest()
    select = node.find_ancestor(exp.Select)
    found = origin(select, divisor) if isinstance(select, exp.Select) else None
    if found is None or not isinstance(select, exp.Select) or not isinstance(divisor, exp.Column):
        return False
    if (found.table, found.name) not in counts:
        return False
    above = exp.GT(this=divisor.copy(), expression=carried(select, divisor, "e"))
    node.set("expression", exp.case().when(above, divisor.copy()))
    return True


def _nonzero(node: exp.Expr, *, positive: bool) -> exp.Expr:
    """A number; null where it is 0 or, if it should be positive, below."""
    return exp.Nullif(this=_least_zero(node) if positive else node.copy(), expression=exp.Literal.number(0))


def _least_zero(node: exp.Expr) -> exp.Expr:
    return exp.Greatest(this=node.copy(), expressions=[exp.Literal.number(0)], ignore_nulls=True)


def _at_least_zero(node: exp.Expr, counts: Counts) -> bool:
    """Whether a number without noise would be at least 0, by what it is made of."""
    if isinstance(node, exp.Column):
        return _column_at_least_zero(node, counts)
    if isinstance(node, exp.Count | exp.Abs):
        return True
    if isinstance(node, exp.Query):
        return isinstance(query := node.unnest(), exp.Select) and _at_least_zero(query.expressions[0], counts)
    if isinstance(node, exp.Literal):
        return not node.is_string
    parts = [node.this, *node.expressions] if isinstance(node, exp.Coalesce | exp.Greatest) else [node.this]
    if isinstance(node, exp.Add | exp.Mul | exp.Div):
        parts.append(node.expression)
    return isinstance(node, _PASSING) and all(_at_least_zero(part, counts) for part in parts)


def _column_at_least_zero(column: exp.Column, counts: Counts) -> bool:
    select = column.find_ancestor(exp.Select)
    source = sources(select).get(column.table) if isinstance(select, exp.Select) else None
    if isinstance(source, exp.Table):
        return (source.name, f"m{column.name[1:]}") in counts
    query = None if source is None else inner(source)
    if not isinstance(query, exp.Select):
        return False
    below = next((each for each in query.expressions if each.alias_or_name == column.name), None)
    return below is not None and _at_least_zero(below, counts)
