"""Parameters of statements: bound as values among the tokens of a statement, never pasted into its text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from sqlglot import ErrorLevel, Token, TokenType
from sqlglot.dialects.dialect import Dialect

from treering.dbapi.exceptions import DataError, InterfaceError, ProgrammingError
from treering.errors import QueryError
from treering.sql.bounds import check_tokens
from treering.sql.spelling import TROUBLE

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]


def bound(statement: str, parameters: Parameters | None) -> str:
    """A statement with a value in the place of each ``?`` or ``:name``.

    The text is split into tokens, and each place becomes the token of a literal. So a value can hold quotes, comments
    or statements, and stays one literal. What is written from the parsed tree is read and checked like any other text.

    >>> bound("SELECT COUNT(*) FROM t WHERE ward = ?", ["O'Neill -- x"])
    "SELECT COUNT(*) FROM t WHERE ward = 'O''Neill -- x'"
    """
    if not isinstance(statement, str):
        raise InterfaceError(f"a statement is a text, not {type(statement).__name__}")
    if not parameters:
        return statement
    dialect = Dialect.get_or_raise("duckdb")
    try:
        tokens = dialect.tokenize(statement)
        check_tokens(tokens)
        filled = list(_filled(tokens, parameters))
        trees = [tree for tree in dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(filled, statement) if tree]
    except QueryError as error:
        raise ProgrammingError(str(error)) from error
    except TROUBLE:
        raise ProgrammingError("the statement cannot be read: parameters are ? or :name") from None
    if len(trees) != 1:
        raise ProgrammingError("one statement at a time")
    return trees[0].sql(dialect="duckdb")


def _filled(tokens: Sequence[Token], parameters: Parameters) -> Iterator[Token]:
    """The tokens, with literals in the places of parameters."""
    if isinstance(parameters, Mapping):
        return _named(tokens, parameters)
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InterfaceError("parameters are a sequence of values, or a mapping of names to values")
    return _numbered(tokens, parameters)


def _numbered(tokens: Sequence[Token], values: Sequence[Any]) -> Iterator[Token]:
    places = sum(token.token_type == TokenType.PLACEHOLDER for token in tokens)
    if places != len(values):
        raise InterfaceError(f"the statement has {places} places for values, and {len(values)} were given")
    rest = iter(values)
    for token in tokens:
        if token.token_type == TokenType.PLACEHOLDER:
            yield from literal(next(rest))
        else:
            yield token


def _named(tokens: Sequence[Token], values: Mapping[str, Any]) -> Iterator[Token]:
    rest = iter(tokens)
    for token in rest:
        if token.token_type == TokenType.PLACEHOLDER:
            raise InterfaceError("a mapping of parameters goes with places such as :name, not with ?")
        if token.token_type != TokenType.COLON:
            yield token
            continue
        name = next(rest, None)
        if name is None or name.text not in values:
            raise InterfaceError("each :name in the statement needs a parameter of that name")
        yield from literal(values[name.text])


def literal(value: Any) -> list[Token]:
    """A value as the tokens of a literal of SQL."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):  # of numpy
        value = value.item()
    if value is None:
        return [Token(TokenType.NULL, "NULL")]
    if isinstance(value, bool):
        return [Token(TokenType.TRUE, "TRUE") if value else Token(TokenType.FALSE, "FALSE")]
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, datetime):
        return [Token(TokenType.STRING, value.isoformat(sep=" "))]
    if isinstance(value, date):
        return [Token(TokenType.STRING, value.isoformat())]
    if isinstance(value, str):
        return [Token(TokenType.STRING, value)]
    raise DataError(f"a parameter is a text, a number, a boolean, a date or None, not {type(value).__name__}")


def _number(value: float | Decimal) -> list[Token]:
    if not math.isfinite(value):
        raise DataError("a parameter is a finite number: NaN and infinity have no place in a statement")
    number = Token(TokenType.NUMBER, format(abs(value), "f") if isinstance(value, Decimal) else repr(abs(value)))
    return [Token(TokenType.DASH, "-"), number] if value < 0 else [number]
