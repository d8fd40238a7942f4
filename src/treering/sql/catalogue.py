"""The catalogue: what a statement may ask about the table itself, for nothing.

``SHOW TABLES``, ``SHOW COLUMNS FROM x`` and ``DESCRIBE x`` are SELECTs over ``information_schema``, which has two
public tables here. They, and a SELECT of constants such as ``SELECT 1``, are worked out like the second stage of any
statement: from listed nodes, by the limited engine, without the rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final, Self

import pyarrow as pa
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.optimizer.qualify import qualify

from treering.deadline import check as check_deadline
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.bounds import check_correlated, check_tokens
from treering.sql.nodes import AGGREGATES
from treering.sql.spelling import TROUBLE
from treering.sql.values import arrow_type

SHORT: Final = "t"
"""The name that every table has beside its own."""
SHOWS: Final = frozenset({"SHOW", "DESCRIBE", "DESC"})
"""The words that a question about the table begins with."""

_SCHEMA: Final = "information_schema"
_MAIN: Final = "main"
_TYPES: Final = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN", pa.date32(): "DATE"}
_ALL_TABLES: Final = "SELECT table_name AS name FROM information_schema.tables"
_ALL_COLUMNS: Final = (
    "SELECT column_name, data_type AS column_type, is_nullable, column_comment "
    "FROM information_schema.columns ORDER BY ordinal_position"
)
_WHAT: Final = "SHOW TABLES, SHOW COLUMNS FROM x and DESCRIBE x are answered"


def shown(text: str, name: str | None) -> str:
    """The SELECT that a SHOW or DESCRIBE about the table ``name`` stands for.

    >>> shown("SHOW TABLES;", "visits")
    'SELECT table_name AS name FROM information_schema.tables'
    """
    try:
        tokens = Dialect.get_or_raise("mysql" if "`" in text else "duckdb").tokenize(text)
    except TROUBLE:
        raise QueryError(_WHAT) from None
    check_tokens(tokens)
    words = [token.text for token in tokens if token.token_type != TokenType.SEMICOLON]
    match [word.upper() for word in words]:
        case ["SHOW", "TABLES"]:
            return _ALL_TABLES
        case ["SHOW", "COLUMNS", "FROM" | "IN", _] | ["DESCRIBE" | "DESC", "TABLE", _] | ["DESCRIBE" | "DESC", _]:
            check_name(words[-1], name)
            return _ALL_COLUMNS
    raise QueryError(_WHAT)


class TableName(str):
    """What a table is called, and whether a steward has ``given`` it that name: a folder's name is no more than a hint,
    of which only what looks misspelt is refused."""

    given: bool

    def __new__(cls, name: str, given: bool = True) -> Self:
        """The name."""
        made = super().__new__(cls, name)
        made.given = given
        return made


def check_name(called: str, name: str | None) -> None:
    """Refuse a name that is not the table's; None is the name of a table that has none, and takes any."""
    if name is None or called.lower() in (name.lower(), SHORT):
        return
    near = difflib.get_close_matches(called.lower(), [name.lower()])
    if not near and not getattr(name, "given", True):
        return
    hint = f"did you mean {name}?" if near else f"there is {name}"
    raise QueryError(f"there is no table {called[:60]!r}; {hint} ({SHORT} stands for it, too)")


def tables(schema: Schema, name: str | None) -> dict[str, pa.Table]:
    """The public tables, by the names that they have in a tree."""
    title, count = name or SHORT, len(schema.names)
    attributes = schema.attributes.items()
    common = {"table_catalog": title, "table_schema": _MAIN, "table_name": title}
    comment = "private rows: they are counted, summed and averaged, in groups"
    columns = {
        **{key: [value] * count for key, value in common.items()},
        "column_name": [each for each, _ in attributes],
        "ordinal_position": list(range(1, count + 1)),
        "column_default": pa.nulls(count, pa.string()),
        "is_nullable": ["YES" if attribute.missing else "NO" for _, attribute in attributes],
        "data_type": [_TYPES.get(arrow_type(attribute), "DOUBLE") for _, attribute in attributes],
        "column_comment": [attribute.describe() for _, attribute in attributes],
    }
    about = {**common, "table_type": "BASE TABLE", "table_comment": comment}
    return {
        _called("tables"): pa.table({key: [value] for key, value in about.items()}),
        _called("columns"): pa.table(columns),
    }


def constants(tree: exp.Expr, name: str | None) -> None:
    """Write the value of ``version()``, ``current_database()`` and ``current_schema()`` in the places of these."""
    known: Mapping[type[exp.Expr], tuple[str, str]] = {
        exp.CurrentVersion: ("version()", f"treering {version('treering')}"),
        exp.CurrentDatabase: ("current_database()", name or SHORT),
        exp.CurrentSchema: ("current_schema()", _MAIN),
    }
    for call in list(tree.find_all(*known)):
        called, text = known[type(call)]
        value = exp.Literal.string(text)
        call.replace(exp.alias_(value, called, quoted=True) if isinstance(call.parent, exp.Select) else value)


def is_public(tree: exp.Expr) -> bool:
    """Whether a tree is about no rows: about ``information_schema``, or about constants."""
    sources = list(tree.find_all(exp.Table))
    about = [table.text("db").lower() == _SCHEMA for table in sources]
    if any(about) and not all(about):
        raise QueryError(f"the table and {_SCHEMA} do not go into one statement: ask one after the other")
    return all(about) if sources else not any(tree.find_all(exp.Column, exp.Star, *AGGREGATES))


def resolved(tree: exp.Expr, public: Mapping[str, pa.Table]) -> exp.Expr:
    """A tree over public tables with their names in it, every column named with its table."""
    for table in tree.find_all(exp.Table):
        name = _called(table.name.lower())
        if name not in public:
            raise QueryError(f"{_SCHEMA} has the tables 'tables' and 'columns', and no {table.name[:60]!r}")
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    known: dict[str, object] = {name: dict.fromkeys(table.column_names, "VARCHAR") for name, table in public.items()}
    try:
        found = qualify(tree, schema=known, dialect="duckdb", quote_identifiers=True)
    except TROUBLE as error:
        raise QueryError(f"the statement cannot be understood: {str(error).partition(chr(10))[0]}") from None
    check_deadline()
    check_correlated(found)
    return found


def _called(table: str) -> str:
    """What a table of the catalogue is called in a tree: the engine has a catalogue of its own under its name."""
    return f"{_SCHEMA}_{table}"
