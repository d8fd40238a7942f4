"""The words of a predicate: split by sqlglot's tokenizer, and checked one by one before anything is parsed.

Columns and literals are looked up here and keep their place in the text, so that an error message can point at the word
that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import ClassVar, Final, TypeAlias

from sqlglot import Token, TokenError, Tokenizer, TokenType

from treering.domain.attribute import Categories
from treering.domain.calendar import EXTRACTED, UNITS, DatePart
from treering.domain.language.condition import Literal, brief, close_matches
from treering.domain.schema import Schema
from treering.domain.text import identifier, reserved
from treering.errors import QueryError

MAX_DEPTH: Final = 100
"""The greatest depth of nested parentheses and NOTs."""

SUPPORTED: Final = (
    "A predicate compares columns with values by =, <>, <, <=, >, >=, [NOT] IN, [NOT] BETWEEN and IS [NOT] NULL, "
    "and joins comparisons by AND, OR, NOT and parentheses."
)

_KEYWORDS: Final = {
    "AND": TokenType.AND,
    "OR": TokenType.OR,
    "NOT": TokenType.NOT,
    "IN": TokenType.IN,
    "BETWEEN": TokenType.BETWEEN,
    "IS": TokenType.IS,
    "NULL": TokenType.NULL,
    "TRUE": TokenType.TRUE,
    "FALSE": TokenType.FALSE,
    "<=": TokenType.LTE,
    ">=": TokenType.GTE,
    "<>": TokenType.NEQ,
    "!=": TokenType.NEQ,
}

_QUOTED: Final = """'[^']*'|"[^"]*\""""

_VALUE: Final = TokenType.VALUES
"""Stands for an operand."""
_END: Final = TokenType.SENTINEL
"""Stands for the end of the text."""

_NUMERIC: Final = (TokenType.NUMBER, TokenType.DOT)
_START: Final = frozenset({_VALUE, TokenType.NOT, TokenType.L_PAREN})
_OPERAND: Final = frozenset({_VALUE, TokenType.L_PAREN})
_COMPARISONS: Final = (TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE)
_NEXT: Final = frozenset(
    {*_COMPARISONS, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.BETWEEN, TokenType.IS}
    | {TokenType.R_PAREN, _END}
)
_AFTER: Final = {
    TokenType.L_PAREN: _START,
    TokenType.AND: _START,
    TokenType.OR: _START,
    **dict.fromkeys(_COMPARISONS, _OPERAND),
    TokenType.BETWEEN: _OPERAND,
    TokenType.IN: frozenset({TokenType.L_PAREN}),
    TokenType.IS: frozenset({TokenType.NULL, TokenType.NOT}),
    TokenType.COMMA: frozenset({_VALUE}),
    TokenType.R_PAREN: _NEXT,
    TokenType.NULL: _NEXT,
    _VALUE: _NEXT,
}
"""The kinds of words that may follow each kind. (What follows NOT depends on the word before; lists after IN have
their own rules: see `_expected`.)"""


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute of the schema, by position; or what is made of its dates: ``unit`` is that of date_trunc, ``part``
    that of EXTRACT."""

    position: int
    unit: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """A column or a literal, and where it stands in the text."""

    value: Column | Literal
    start: int
    end: int


Word: TypeAlias = Operand | Token


def complaint(text: str, start: int, end: int, problem: str, *, syntax: bool = False) -> QueryError:
    """A `QueryError` that shows the line of the text and marks the characters from ``start`` up to ``end``.

    ``syntax`` adds what predicates may consist of.
    """
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start) if "\n" in text[start:] else len(text)
    first, last = max(first, start - 60), min(last, start + 60)
    line = "".join(character if character.isprintable() else " " for character in text[first:last])
    marks = " " * (start - first) + "^" * max(1, min(end, last) - start)
    return QueryError(f"{problem}\n  {line}\n  {marks}" + (f"\n{SUPPORTED}" if syntax else ""))


def read(text: str, schema: Schema) -> list[Word]:
    """The words of a predicate, at least one, in an order that is allowed."""
    words = list(_operands(text, tokens(text), schema))
    if not words:
        raise QueryError(f"the predicate is empty; TRUE matches every row. {SUPPORTED}")
    _check_order(text, words)
    return words


class _Words(Tokenizer):
    """sqlglot's tokenizer without comments, with the keywords of predicates only: a column may be called date."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = _KEYWORDS
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = []


def tokens(text: str) -> list[Token]:
    """The tokens of a text by sqlglot: only the words of predicates are keywords, and there are no comments."""
    # In every dialect sqlglot drops what is between {# and #}, as a comment of a template language: refuse it.
    for match in re.finditer(f"{_QUOTED}|({{#)", text):
        if match[1]:
            raise complaint(text, *match.span(), f"{match[1]!r} is not supported", syntax=True)
    try:
        return _Words().tokenize(text)
    except TokenError:
        quotes = (match.start() for match in re.finditer(f"{_QUOTED}|(['\"])", text) if match[1])
        start = next(quotes, len(text) - 1)
        raise complaint(text, start, start + 1, "this quote is never closed") from None


def _operands(text: str, tokens: Sequence[Token], schema: Schema) -> Iterator[Word]:
    """The tokens, with columns, literals and signed numbers turned into operands."""
    position = 0
    while position < len(tokens):
        token = tokens[position]
        following = tokens[position + 1].token_type if position + 1 < len(tokens) else _END
        if token.token_type in _NUMERIC or (token.token_type is TokenType.DASH and following in _NUMERIC):
            operand, position = _number(text, tokens, position)
            yield operand
            continue
        if token.token_type is TokenType.VAR and _FUNCTIONS.fullmatch(token.text) and following is TokenType.L_PAREN:
            operand, position = _dated(text, tokens, position, schema)
            yield operand
            continue
        position += 1
        if token.token_type is TokenType.VAR and _TYPES.fullmatch(token.text) and following is TokenType.STRING:
            continue
        if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            yield Operand(column(text, token, schema, following is TokenType.L_PAREN), token.start, token.end + 1)
        elif token.token_type is TokenType.STRING:
            yield Operand(token.text, token.start, token.end + 1)
        elif token.token_type in (TokenType.TRUE, TokenType.FALSE):
            yield Operand(token.token_type is TokenType.TRUE, token.start, token.end + 1)
        elif token.token_type in _AFTER or (token.token_type is TokenType.NOT and token.text != "!"):
            yield token
        else:
            word = text[token.start : token.end + 1]
            raise complaint(text, token.start, token.end + 1, f"{word!r} is not supported", syntax=True)


def _number(text: str, tokens: Sequence[Token], position: int) -> tuple[Operand, int]:
    """The number that starts at a token, and the position after it."""
    start = tokens[position].start
    sign = tokens[position].token_type is TokenType.DASH
    position += sign
    first = tokens[position].start
    while position < len(tokens) and tokens[position].token_type in _NUMERIC:
        end = tokens[position].end + 1
        position += 1
        if position < len(tokens) and tokens[position].start > end:
            break
    word = text[first:end]
    if word == ".":
        raise complaint(text, start, end, "'.' is not supported: a column's name stands alone", syntax=True)
    if not re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", word, re.ASCII):
        raise complaint(text, start, end, "this is not a number")
    try:
        value = Decimal(word)
    except InvalidOperation:
        raise complaint(text, start, end, "this number is too large or too small") from None
    return Operand(value.copy_negate() if sign else value, start, end), position


_FUNCTIONS: Final = re.compile("date_trunc|extract", re.IGNORECASE)
_TYPES: Final = re.compile("date|timestamp", re.IGNORECASE)
"""The words that may stand before a text to say that it is a date."""


def _dated(text: str, tokens: Sequence[Token], position: int, schema: Schema) -> tuple[Operand, int]:
    """date_trunc('month', column) or EXTRACT(month FROM column), and the position after it."""
    call = tokens[position : position + 6]
    truncating = call[0].text.lower() == "date_trunc"
    shape = [TokenType.STRING, TokenType.COMMA] if truncating else [TokenType.VAR, TokenType.VAR]
    fits = len(call) == 6 and [each.token_type for each in call[2:4]] == shape
    fits = fits and call[4].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
    if not fits or call[5].token_type is not TokenType.R_PAREN or (not truncating and call[3].text.lower() != "from"):
        form = "date_trunc('month', day)" if truncating else "EXTRACT(month FROM day)"
        raise complaint(text, call[0].start, call[-1].end + 1, f"this is written {form}")
    word = call[2].text.lower()
    known = UNITS if truncating else EXTRACTED
    if word not in known:
        raise complaint(text, call[2].start, call[2].end + 1, f"this is one of {', '.join(known)}")
    found = _source(text, call[4], schema, "" if truncating else word)
    value = Column(found, unit=word) if truncating else Column(found, part=word)
    return Operand(value, call[0].start, call[5].end + 1), position + 6


def _source(text: str, token: Token, schema: Schema, part: str) -> int:
    """The attribute that a function is about: that of the column's part, if there is one, or the one named."""
    for position, (source, attribute) in enumerate(zip(schema.sources, schema.attributes.values(), strict=True)):
        if isinstance(attribute, DatePart) and attribute.part == part and source.lower() == token.text.lower():
            return position
    return column(text, token, schema).position


def column(text: str, token: Token, schema: Schema, call: bool = False) -> Column:
    """The attribute that a token names; ``call``: a parenthesis follows, so it is a function, which is refused."""
    quoted = token.token_type is TokenType.IDENTIFIER
    for position, name in enumerate(schema.names):
        if not call and (name == token.text or (not quoted and name.lower() == token.text.lower())):
            return Column(position)
    start, end, word = token.start, token.end + 1, brief(token.text)
    if call:
        raise complaint(text, start, end, f"functions such as {word} are not supported", syntax=True)
    if not quoted and reserved(token.text):
        raise complaint(text, start, end, f"{token.text.upper()} is not supported", syntax=True)
    close = [identifier(name) for name in close_matches(token.text, schema.names)]
    names = ", ".join(schema.names[:20]) + (", …" if len(schema.names) > 20 else "")
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {names}."
    hint += " A text stands in single quotes." if quoted or _is_category(token.text, schema) else ""
    raise complaint(text, start, end, f"there is no attribute {word!r}; {hint}")


def _is_category(text: str, schema: Schema) -> bool:
    """Whether the text is one that an attribute lists."""
    return any(isinstance(each, Categories) and text in each.values for each in schema.attributes.values())


def _check_order(text: str, words: Sequence[Word]) -> None:
    """Refuse words in the wrong order, parentheses that do not match, and too deep nesting."""
    open_words: list[tuple[Token, int]] = []
    depth = nots = 0
    in_list = False
    previous = TokenType.AND
    expected = _START
    for word in words:
        kind = _VALUE if isinstance(word, Operand) else word.token_type
        if kind not in expected:
            raise _misplaced(text, word, kind, expected)
        if isinstance(word, Token) and kind is TokenType.L_PAREN:
            open_words.append((word, nots + 1))
            depth, nots = depth + nots + 1, 0
            in_list = previous is TokenType.IN
        elif isinstance(word, Token) and kind is TokenType.R_PAREN:
            if not open_words:
                raise complaint(text, word.start, word.end + 1, "this parenthesis was never opened")
            depth, in_list = depth - open_words.pop()[1], False
        nots = nots + 1 if kind is TokenType.NOT and expected >= _START else 0
        if depth + nots > MAX_DEPTH:
            raise complaint(
                text,
                word.start,
                word.end + 1,
                f"more than {MAX_DEPTH} parentheses and NOTs stand inside each other here",
            )
        expected = _expected(kind, previous, expected, in_list)
        previous = kind
    if open_words:
        raise complaint(text, open_words[-1][0].start, open_words[-1][0].end + 1, "this parenthesis is never closed")
    if _END not in expected:
        raise _misplaced(text, words[-1], _END, expected)


def _expected(
    kind: TokenType, previous: TokenType, expected: frozenset[TokenType], in_list: bool
) -> frozenset[TokenType]:
    """The kinds of words that may follow a word of ``kind``; ``expected`` were those that might stand in its place."""
    if in_list and kind is not TokenType.COMMA:
        return frozenset({_VALUE} if kind is TokenType.L_PAREN else {TokenType.COMMA, TokenType.R_PAREN})
    if kind is not TokenType.NOT:
        return _AFTER[kind]
    if previous is TokenType.IS:
        return frozenset({TokenType.NULL})
    return _START if expected >= _START else frozenset({TokenType.IN, TokenType.BETWEEN})


def _misplaced(text: str, word: Word, kind: TokenType, expected: frozenset[TokenType]) -> QueryError:
    end = word.end if isinstance(word, Operand) else word.end + 1
    names = {token: name for name, token in _KEYWORDS.items()}
    if _VALUE in expected:
        wanted = "a column, a value, NOT or (" if expected >= _START else "a column or a value"
    elif _END in expected:
        wanted = "a comparison, AND or OR"
    else:
        symbols = {TokenType.L_PAREN: "(", TokenType.R_PAREN: ")", TokenType.COMMA: ","}
        wanted = " or ".join(sorted({**names, **symbols}[each] for each in expected))
    place = "after this the text ends too early; " if kind is _END else "this cannot stand here; "
    hint = " (To ask for missing values, write IS NULL.)" if kind is TokenType.NULL else ""
    return complaint(text, word.start, end, f"{place}{wanted} is expected.{hint}", syntax=True)
