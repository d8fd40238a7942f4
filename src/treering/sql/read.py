"""An SQL text as a tree in a plain form: one table, no CTEs, every column named with its table.

sqlglot reads the text in the dialect it looks like, and only nodes of an allow-list are let through. Views over the
table that select no aggregates (``WITH late AS (SELECT * FROM flights WHERE …)``) are merged into the SELECT that uses
them, so what is left of the table stands in the FROM of a SELECT that groups or aggregates, or is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlglot import ErrorLevel, ParseError, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.qualify import qualify

from treering.deadline import check as check_deadline, take
from treering.domain.language.parse import LETTER
from treering.domain.schema import Schema
from treering.domain.text import MAX_LENGTH
from treering.errors import QueryError
from treering.sql import catalogue, sources
from treering.sql.bounds import check_correlated, check_expansion, check_tokens
from treering.sql.nodes import MAX_NODES, check
from treering.sql.opening import SELECTS, opening
from treering.sql.sources import People, marked
from treering.sql.spelling import TROUBLE
from treering.sql.steps import bucketed

if TYPE_CHECKING:
    import pyarrow as pa

TABLE: Final = "table_of_rows"
"""The name that the one table has in a tree."""

MAX_COPIED: Final = 10 * MAX_NODES
"""The most nodes that are copied to put CTEs in their places: each step of a chain is copied with those before it."""

_DIALECTS: Final = {
    "mysql": re.compile("`"),
    "tsql": re.compile(r"\[\w[\w ]*\]|\bSELECT\s+TOP\b", re.IGNORECASE),
    "postgres": re.compile(r"\b(TO_CHAR|TO_TIMESTAMP|TO_DATE|DATE_PART)\s*\(", re.IGNORECASE),
}
"""What gives a dialect away; DuckDB's has no such marks."""


@dataclass(frozen=True, slots=True)
class Text:
    """A statement as it was written, and the tree that was made of it."""

    original: exp.Expr
    """The tree as it was written, with the table called `TABLE`: it says what columns are called."""
    tree: exp.Expr
    explain: bool
    """Whether the statement begins with EXPLAIN: nothing is to be released."""
    public: Mapping[str, pa.Table] | None = None
    """The public tables that it is about; None: it is about the rows."""


def read(text: str, schema: Schema, people: People | None = None, name: str | None = None) -> Text:
    """The tree of a statement about the attributes of ``schema``, and about persons where they are known; of a table
    that is called ``name``: None takes any name."""
    if not isinstance(text, str):
        raise QueryError(f"a statement is a text, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the statement has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    take(LETTER * len(text))
    begin = opening(text)
    asks = begin.word in catalogue.SHOWS
    if not begin.empty and begin.word not in SELECTS and not asks:
        raise QueryError("only SELECT statements are answered: rows are added with append")
    try:
        given = _inlined(_parsed(catalogue.shown(begin.body, name) if asks else begin.body, name))
        if catalogue.is_public(given):
            return _about_public(given, catalogue.tables(schema, name), begin.explain)
        original = _one_table(given, name)
        check(original)
        check_expansion(original, len(sources.columns(schema)))
        check_deadline()
        marks = original.copy() if people is None else marked(original.copy(), people.column)
        tree = _qualified(marks, schema, people)
        check_correlated(tree)
        return Text(original, tree, begin.explain)
    except RecursionError:
        raise QueryError("the statement is nested too deeply") from None


def _about_public(tree: exp.Expr, public: Mapping[str, pa.Table], explain: bool) -> Text:
    """A statement about public tables."""
    check(tree)
    check_expansion(tree, max(table.num_columns for table in public.values()))
    return Text(tree, catalogue.resolved(tree.copy(), public), explain, public)


def _parsed(text: str, name: str | None) -> exp.Expr:
    """The one SELECT of a text, of allowed nodes only."""
    dialect = Dialect.get_or_raise(next((name for name, mark in _DIALECTS.items() if mark.search(text)), "duckdb"))
    try:
        tokens = dialect.tokenize(text)
        check_tokens(tokens)
        check_deadline()
        trees = [tree for tree in dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text) if tree]
    except QueryError:
        raise
    except TROUBLE as error:
        raise QueryError(f"the statement cannot be read: {_short(error)}") from None
    if len(trees) != 1:
        raise QueryError("one statement at a time" if trees else "the statement is empty: SELECT COUNT(*) FROM t, say")
    tree = _bare(trees[0])
    if not isinstance(tree, exp.Query):
        raise QueryError("only SELECT statements are answered: rows are added with append")
    catalogue.constants(tree, name)
    _simplify(tree)
    _check_tables(tree)
    check(tree)
    return tree


def _bare(tree: exp.Expr) -> exp.Expr:
    """A statement without the parentheses around it; ORDER BY and LIMIT behind them are about its result."""
    while type(tree) is exp.Subquery:
        behind = {name: value for name, value in tree.args.items() if value and name != "this"}
        if not behind.keys() <= {"order", "limit", "offset"}:
            raise QueryError("behind the parentheses around a statement stand ORDER BY, LIMIT and OFFSET only")
        if not behind:
            tree = tree.this
            continue
        inner = exp.Subquery(this=_bare(tree.this), alias=exp.TableAlias(this=exp.to_identifier("inside", quoted=True)))
        tree = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner), **behind)
    return tree


def _simplify(tree: exp.Expr) -> None:
    """Write N'JFK' as 'JFK', FETCH NEXT 3 ROWS ONLY as LIMIT 3, width_bucket as a CASE, and FROM (VALUES …) as a
    SELECT."""
    for bucket in list(tree.find_all(exp.WidthBucket)):
        bucket.replace(bucketed(bucket))
    for values in list(tree.find_all(exp.Values)):
        if isinstance(values.parent, exp.From | exp.Join):
            values.replace(exp.Subquery(this=_listed(values), alias=values.args.get("alias")))
    for text in list(tree.find_all(exp.National)):
        text.replace(exp.Literal.string(text.name))
    for fetch in list(tree.find_all(exp.Fetch)):
        options = fetch.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise QueryError("FETCH takes a number of rows, without PERCENT and TIES")
        fetch.replace(exp.Limit(expression=fetch.args.get("count") or exp.Literal.number(1)))


def _listed(values: exp.Values) -> exp.Expr:
    """The rows of VALUES as SELECTs that are put together, two by two; DuckDB calls the columns col0, col1, …"""
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    if len(set(map(len, rows))) != 1:
        raise QueryError("the rows of VALUES have as many values each")
    selects: list[exp.Expr] = [
        exp.Select(expressions=[exp.alias_(each, f"col{number}", quoted=True) for number, each in enumerate(row)])
        for row in rows
    ]
    while len(selects) > 1:
        pairs = [selects[first : first + 2] for first in range(0, len(selects), 2)]
        selects = [
            exp.Union(this=pair[0], expression=pair[1], distinct=False) if len(pair) > 1 else pair[0] for pair in pairs
        ]
    return selects[0]


def _short(error: Exception) -> str:
    """sqlglot's first complaint, without its terminal colours."""
    said = error.errors[0].get("description") if isinstance(error, ParseError) and error.errors else str(error)
    near = error.errors[0].get("highlight") if isinstance(error, ParseError) and error.errors else None
    return f"{said}, near {near!r}" if near else f"{said}"


def _check_tables(tree: exp.Expr) -> None:
    if any(not isinstance(table.this, exp.Identifier) for table in tree.find_all(exp.Table)):
        raise QueryError("FROM names the table, or a SELECT in parentheses; table functions are not answered")


# -- one table, and no CTEs --------------------------------------------------------------------------------------------


def _inlined(tree: exp.Expr) -> exp.Expr:
    """The tree with every CTE in the place of its name."""
    room = MAX_COPIED
    for clause in reversed(list(tree.find_all(exp.With))):  # the innermost first: their names hide those around them
        if clause.args.get("recursive"):
            raise QueryError("recursive CTEs are not answered")
        owner = clause.parent
        assert owner is not None
        known: dict[str, _Named] = {}
        for cte in clause.expressions:
            room = _put(cte.this, known, room)
            known[cte.alias.lower()] = _Named(cte, sum(1 for _ in cte.this.walk()))
        clause.pop()
        room = _put(owner, known, room)
    return tree


class _Named(NamedTuple):
    """A CTE, and how many nodes it has."""

    cte: exp.CTE
    nodes: int


def _put(tree: exp.Expr, known: dict[str, _Named], room: int) -> int:
    """Replace names of CTEs by their SELECTs, which may have ``room`` nodes together; what is left of that."""
    for table in list(tree.find_all(exp.Table)):
        named = None if table.args.get("db") else known.get(table.name.lower())
        if named is None:
            continue
        check_deadline()
        room -= named.nodes
        if room < 0:
            raise QueryError("the statement is too long when its CTEs are put in their places")
        alias = exp.TableAlias(this=exp.to_identifier(table.alias or table.name, quoted=True))
        if columns := named.cte.args["alias"].args.get("columns"):
            alias.set("columns", [column.copy() for column in columns])
        subquery = exp.Subquery(this=named.cte.this.copy(), alias=alias)
        subquery.set("joins", table.args.get("joins"))
        table.replace(subquery)
    return room


def _one_table(tree: exp.Expr, name: str | None) -> exp.Expr:
    """The tree with its one table called `TABLE`, under the name or alias that it was given."""
    names = dict.fromkeys(table.name.lower() for table in tree.find_all(exp.Table))
    if len(names) > 1:
        raise QueryError(f"there is one table here, so name one only, not {' and '.join(names)}")
    if not names:
        raise QueryError("the statement asks about no table: SELECT COUNT(*) FROM t, say")
    for table in list(tree.find_all(exp.Table)):
        catalogue.check_name(table.name, name)
        alias = exp.TableAlias(this=exp.to_identifier(table.alias or table.name, quoted=True))
        renamed = exp.Table(this=exp.to_identifier(TABLE, quoted=True), alias=alias)
        renamed.set("joins", table.args.get("joins"))
        table.replace(renamed)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    return tree


# -- columns -----------------------------------------------------------------------------------------------------------


def _qualified(tree: exp.Expr, schema: Schema, people: People | None) -> exp.Expr:
    """The tree with stars, ordinals and aliases expanded, and views merged into what uses them."""
    columns = {name.lower(): "VARCHAR" for name in sources.columns(schema)}
    try:
        qualified = qualify(tree, schema={TABLE: columns}, dialect="duckdb", quote_identifiers=True)
        check_deadline()
        merged = merge_subqueries(qualified, leave_tables_isolated=False)
    except TROUBLE as error:
        raise _unknown(str(error), tree, schema, people) from None
    return sources.resolved(merged, schema)


def _unknown(problem: str, tree: exp.Expr, schema: Schema, people: People | None) -> QueryError:
    """The refusal of a column that is not there, with the name that was probably meant."""
    names = {name.lower(): name for name in sources.columns(schema)}
    for word in _names(tree):
        if people is not None and word.lower() == people.column.lower():
            return QueryError(f"{word} says whose a row is: COUNT(DISTINCT {word}) is all that is answered about it")
        if word.lower() not in names and f"'{word.lower()}'" in problem.lower().replace('"', "'"):
            near = difflib.get_close_matches(word.lower(), list(names), n=1)
            hint = f"did you mean {names[near[0]]}?" if near else f"there are: {', '.join(names.values())}"
            return QueryError(f"there is no attribute {word!r}; {hint}")
    return QueryError(f"the statement cannot be understood: {problem}")


def _names(tree: exp.Expr) -> Iterator[str]:
    yield from (column.name for column in tree.find_all(exp.Column))
