"""Trees as the text that DuckDB reads: from allow-listed nodes only, and such that it reads the same tree."""

from __future__ import annotations

from typing import Final

from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError

from treering.errors import QueryError
from treering.sql.nodes import check

TROUBLE: Final = (SqlglotError, TypeError, ValueError, AttributeError, LookupError)
"""What sqlglot raises for a tree that it did not expect: not always an error of its own."""


def spelled(tree: exp.Expr) -> str:
    """The text of a SELECT for DuckDB.

    Formal Guarantees
        The text is one statement. It is written from a tree of nodes, arguments and words that `treering.sql.nodes`
        lists, and sqlglot reads it as that same tree, every name being quoted. That tree is ``tree``, or its
        translation from another dialect: then each name and each text in it stands in ``tree`` too, so that nothing
        that is quoted there was taken for anything else. (DuckDB's own parser checks again that it is a single SELECT.)
    """
    if not isinstance(tree, exp.Query):
        raise QueryError("the statement cannot be worked out: it is not a single SELECT")
    check(tree, ours=True)
    text = written(tree)
    again = tree_of(text)
    if again == _quoted(tree):
        return text
    check(again, ours=True)
    text = written(again)
    if not _quotations(again) <= _quotations(tree) or tree_of(text) != _quoted(again):
        raise QueryError("the statement cannot be worked out: it would be read in another way than it is meant")
    return text


def _quotations(tree: exp.Expr) -> set[tuple[type[exp.Expr], str]]:
    """The names and texts of a tree."""
    quoted = tree.find_all(exp.Identifier, exp.Literal)
    return {(type(each), each.name) for each in quoted if isinstance(each, exp.Identifier) or each.is_string}


def written(node: exp.Expr) -> str:
    """An expression as DuckDB reads it, without comments, every name quoted; refused if it has no way to say it."""
    try:
        return node.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE, comments=False, identify=True)
    except TROUBLE as error:
        raise QueryError(f"the statement cannot be worked out: {_first_line(error)}") from None
    except RecursionError:
        raise QueryError("the statement is nested too deeply") from None


def tree_of(text: str) -> exp.Expr:
    """The tree of a text of one statement that was written for DuckDB."""
    try:
        trees = parse(text, dialect="duckdb", error_level=ErrorLevel.IMMEDIATE)
    except TROUBLE as error:
        raise QueryError(f"the statement cannot be worked out: {_first_line(error)}") from None
    except RecursionError:
        raise QueryError("the statement is nested too deeply") from None
    if len(trees) != 1 or trees[0] is None:
        raise QueryError("the statement cannot be worked out: it is not a single SELECT")
    return trees[0]


def _quoted(tree: exp.Expr) -> exp.Expr:
    """The tree with every name quoted."""
    copy = tree.copy()
    for name in copy.find_all(exp.Identifier):
        name.set("quoted", True)
    return copy


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
