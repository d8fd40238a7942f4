"""An SQL text as a tree in a plain form: one table, no CTEs, every column named with its table.

sqlglot reads the text in the dialect it looks like, and only nodes of an allow-list are let through. Views over the
table that select no aggregates (``WITH late AS (SELECT * FROM flights WHERE …)``) are merged into the SELECT that uses
them, so what is left of the table stands in the FROM of a SELECT that groups or aggregates, or is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import ErrorLevel, ParseError, exp, parse
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.qualify import qualify

from treering.domain.schema import Schema
from treering.domain.text import MAX_LENGTH
from treering.errors import QueryError
from treering.sql import sources
from treering.sql.duck import TROUBLE
from treering.sql.nodes import ALLOWED

TABLE: Final = "table_of_rows"
"""The name that the one table has in a tree."""

MAX_NODES: Final = 20_000
"""The most nodes of a tree, CTEs put in their places: more would take seconds to rearrange."""

_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\b(?!\s*\()", re.IGNORECASE)
_COMMENTS: Final = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|[(;])*"
_BEGINNING: Final = re.compile(_COMMENTS + r"(?:(SELECT|WITH|FROM)\b|$)", re.IGNORECASE | re.DOTALL)
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


def read(text: str, schema: Schema) -> Text:
    """The tree of a statement about the attributes of ``schema``."""
    if not isinstance(text, str):
        raise QueryError(f"a statement is a text, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the statement has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    body, explain = (_EXPLAIN.sub("", text, count=1), True) if _EXPLAIN.match(text) else (text, False)
    try:
        original = _one_table(_inlined(_parsed(body)))
        return Text(original, _qualified(original.copy(), schema), explain)
    except RecursionError:
        raise QueryError("the statement is nested too deeply") from None


def _parsed(text: str) -> exp.Expr:
    """The one SELECT of a text, of allowed nodes only."""
    if not _BEGINNING.match(text):
        raise QueryError("only SELECT statements are answered: rows are added with append")
    dialect = next((name for name, mark in _DIALECTS.items() if mark.search(text)), "duckdb")
    try:
        trees = [tree for tree in parse(text, dialect=dialect, error_level=ErrorLevel.IMMEDIATE) if tree is not None]
    except TROUBLE as error:
        raise QueryError(f"the statement cannot be read: {_short(error)}") from None
    if len(trees) != 1:
        raise QueryError("one statement at a time" if trees else "the statement is empty: SELECT COUNT(*) FROM t, say")
    (tree,) = trees
    if not isinstance(tree, exp.Query):
        raise QueryError("only SELECT statements are answered: rows are added with append")
    _simplify(tree)
    _check_nodes(tree)
    return tree


def _simplify(tree: exp.Expr) -> None:
    """Write N'JFK' as 'JFK', and FETCH NEXT 3 ROWS ONLY as LIMIT 3."""
    for text in list(tree.find_all(exp.National)):
        text.replace(exp.Literal.string(text.name))
    for fetch in list(tree.find_all(exp.Fetch)):
        options = fetch.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise QueryError("FETCH takes a number of rows, without PERCENT and TIES")
        fetch.replace(exp.Limit(expression=fetch.args.get("count") or exp.Literal.number(1)))


def _short(error: Exception) -> str:
    """sqlglot's first complaint, without its terminal colours."""
    said = error.errors[0].get("description") if isinstance(error, ParseError) and error.errors else str(error)
    near = error.errors[0].get("highlight") if isinstance(error, ParseError) and error.errors else None
    return f"{said}, near {near!r}" if near else f"{said}"


def _check_nodes(tree: exp.Expr) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            raise QueryError("FROM names the table, or a SELECT in parentheses; table functions are not answered")
        if type(node) not in ALLOWED:
            raise QueryError(f"{_called(node)} cannot be answered here: counts, sums, averages and quantiles are")


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()


# -- one table, and no CTEs --------------------------------------------------------------------------------------------


def _inlined(tree: exp.Expr) -> exp.Expr:
    """The tree with every CTE in the place of its name."""
    for clause in list(tree.find_all(exp.With)):
        if clause.args.get("recursive"):
            raise QueryError("recursive CTEs are not answered")
        owner = clause.parent
        assert owner is not None
        known: dict[str, exp.CTE] = {}
        for cte in list(clause.expressions):
            _put(cte.this, known)
            known[cte.alias.lower()] = cte
        clause.pop()
        _put(owner, known)
        if sum(1 for _ in tree.walk()) > MAX_NODES:
            raise QueryError("the statement is too long when its CTEs are put in their places")
    return tree


def _put(tree: exp.Expr, known: dict[str, exp.CTE]) -> None:
    """Replace names of CTEs by their SELECTs."""
    for table in list(tree.find_all(exp.Table)):
        cte = None if table.args.get("db") else known.get(table.name.lower())
        if cte is None:
            continue
        alias = exp.TableAlias(this=exp.to_identifier(table.alias or table.name, quoted=True))
        if columns := cte.args["alias"].args.get("columns"):
            alias.set("columns", [column.copy() for column in columns])
        subquery = exp.Subquery(this=cte.this.copy(), alias=alias)
        subquery.set("joins", table.args.get("joins"))
        table.replace(subquery)


def _one_table(tree: exp.Expr) -> exp.Expr:
    """The tree with its one table called `TABLE`, under the name or alias that it was given."""
    names = dict.fromkeys(table.name.lower() for table in tree.find_all(exp.Table))
    if len(names) > 1:
        raise QueryError(f"there is one table here, so name one only, not {' and '.join(names)}")
    if not names:
        raise QueryError("the statement asks about no table: SELECT COUNT(*) FROM t, say")
    for table in list(tree.find_all(exp.Table)):
        alias = exp.TableAlias(this=exp.to_identifier(table.alias or table.name, quoted=True))
        renamed = exp.Table(this=exp.to_identifier(TABLE, quoted=True), alias=alias)
        renamed.set("joins", table.args.get("joins"))
        table.replace(renamed)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    return tree


# -- columns -----------------------------------------------------------------------------------------------------------


def _qualified(tree: exp.Expr, schema: Schema) -> exp.Expr:
    """The tree with stars, ordinals and aliases expanded, and views merged into what uses them."""
    columns = {name.lower(): "VARCHAR" for name in sources.columns(schema)}
    try:
        qualified = qualify(tree, schema={TABLE: columns}, dialect="duckdb", quote_identifiers=True)
        merged = merge_subqueries(qualified, leave_tables_isolated=False)
    except TROUBLE as error:
        raise _unknown(str(error), tree, schema) from None
    return sources.resolved(merged, schema)


def _unknown(problem: str, tree: exp.Expr, schema: Schema) -> QueryError:
    """The refusal of a column that is not there, with the name that was probably meant."""
    names = {name.lower(): name for name in sources.columns(schema)}
    for word in _names(tree):
        if word.lower() not in names and f"'{word.lower()}'" in problem.lower().replace('"', "'"):
            near = difflib.get_close_matches(word.lower(), list(names), n=1)
            hint = f"did you mean {names[near[0]]}?" if near else f"there are: {', '.join(names.values())}"
            return QueryError(f"there is no attribute {word!r}; {hint}")
    return QueryError(f"the statement cannot be understood: {problem}")


def _names(tree: exp.Expr) -> Iterator[str]:
    yield from (column.name for column in tree.find_all(exp.Column))
