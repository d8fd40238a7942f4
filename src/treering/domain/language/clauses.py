"""The clauses of an SQL statement: one SELECT with measures and grouped attributes, and nothing else.

The words are sqlglot's tokens, read by a grammar without recursion; the predicate after WHERE is left to
`treering.domain.language.parse`, which has its own limits of length and depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from sqlglot import Token, TokenType

from treering.domain.attribute import Bins, Integers
from treering.domain.language.condition import brief
from treering.domain.language.measures import Count, Mean, Measure, Quantile, Sum
from treering.domain.language.parse import parse
from treering.domain.language.words import column, complaint, tokens
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Grid
from treering.domain.text import MAX_LENGTH, identifier, reserved
from treering.errors import QueryError

SUPPORTED: Final = (
    "Supported is SELECT COUNT(*), COUNT, SUM, AVG, MEDIAN, MIN or MAX(attribute), PERCENTILE_CONT or PERCENTILE_DISC"
    "(share) WITHIN GROUP (ORDER BY attribute), or grouped attributes, each with AS name if you like, FROM any name "
    "[WHERE predicate] [GROUP BY attributes]: "
    "SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month."
)

_CLAUSES: Final = re.compile(
    "CROSS|EXCEPT|EXISTS|FETCH|FROM|FULL|GROUP|HAVING|INNER|INTERSECT|JOIN|LEFT|LIMIT|NATURAL|OFFSET|ORDER|OUTER|QUALIFY|"
    "RIGHT|SELECT|UNION|USING|WHERE|WINDOW|WITH",
    re.IGNORECASE,
)
"""Words that begin a clause which cannot be part of a predicate."""

_NAMES: Final = (TokenType.VAR, TokenType.IDENTIFIER)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Measured:
    """A selected measure, such as COUNT(*) or AVG of an attribute, with the name of its column."""

    name: str
    measure: Measure


@dataclass(frozen=True, slots=True)
class Key:
    """A selected attribute that is grouped by, with the name of its column."""

    name: str
    position: int


Chosen: TypeAlias = Measured | Key

_MEASURES: Final[dict[str, Callable[[str], Measure]]] = {
    "COUNT": Count,
    "SUM": Sum,
    "AVG": Mean,
    "MEDIAN": lambda column: Quantile(column, 0.5),
    "MIN": Quantile.least,
    "MAX": Quantile.greatest,
}
_PERCENTILES: Final = ("PERCENTILE_CONT", "PERCENTILE_DISC")


@dataclass(frozen=True, slots=True)
class Select:
    """The clauses of a statement."""

    selected: tuple[Chosen, ...]
    where: Query
    groups: tuple[int, ...]
    """The positions of the attributes grouped by, in the order written."""


def select(text: str, schema: Schema) -> Select:
    """The clauses of a statement; any other form is a `QueryError` that shows what is supported."""
    if not isinstance(schema, Schema):
        raise QueryError(f"a statement is about a Schema, not about {type(schema).__name__}")
    if not isinstance(text, str):
        raise QueryError(f"a statement is a text, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the statement has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    words = tokens(text)
    if words and words[-1].token_type is TokenType.SEMICOLON:
        words.pop()
    if not words:
        raise QueryError(f"the statement is empty. {SUPPORTED}")
    return _Reader(text, schema, words).statement()


class _Reader:
    """Reads one statement from left to right."""

    def __init__(self, text: str, schema: Schema, words: list[Token]) -> None:
        self._text = text
        self._schema = schema
        self._words = words
        self._place = 0

    def statement(self) -> Select:
        self._expect("SELECT")
        selected = self._listed(self._item)
        self._expect("FROM")
        self._name("the name of a table")
        where = self._where() if self._take("WHERE") else Query.all(self._schema)
        groups: list[int] = []
        if self._take("GROUP"):
            self._expect("BY")
            groups = self._listed(lambda: self._column(self._next("an attribute to group by")))
        if self._place < len(self._words):
            raise self._refused(self._words[self._place], "this cannot stand here")
        return Select(self._checked(selected, groups), where, tuple(dict.fromkeys(groups)))

    # -- clauses ------------------------------------------------------------------------------------------------------

    def _item(self) -> Chosen:
        """One selected item."""
        token = self._next("COUNT(*), AVG(attribute), another measure or an attribute")
        if token.token_type in _NAMES and self._sees(TokenType.L_PAREN):
            return self._aggregate(token)
        if token.token_type is TokenType.STAR:
            raise self._refused(token, "rows are private; they can be counted, not listed")
        position = self._column(token)
        return Key(self._alias(self._schema.names[position]), position)

    def _aggregate(self, function: Token) -> Chosen:
        self._place += 1
        word = function.text.upper() if function.token_type is TokenType.VAR else ""
        if word in _PERCENTILES:
            return self._percentile(word)
        if word not in _MEASURES:
            raise self._refused(function, f"functions such as {brief(function.text)} are not supported")
        token = self._next("an attribute")
        if word == "COUNT" and token.token_type is TokenType.STAR:
            measure: Measure = Count()
        else:
            measure = _MEASURES[word](self._measured(token, word))
        self._close()
        return Measured(self._alias(str(measure)), measure)

    def _percentile(self, word: str) -> Chosen:
        """PERCENTILE_CONT(share) WITHIN GROUP (ORDER BY attribute), after its first parenthesis."""
        share = self._next("a share between 0 and 1")
        self._close()
        self._expect("WITHIN")
        self._expect("GROUP")
        self._open()
        self._expect("ORDER")
        self._expect("BY")
        name = self._measured(self._next("an attribute"), word)
        self._close()
        if share.token_type is not TokenType.NUMBER or not 0 < float(share.text) < 1:
            raise self._refused(share, "a share between 0 and 1 is expected here")
        written = f"{word}({share.text}) WITHIN GROUP (ORDER BY {identifier(name)})"
        return Measured(self._alias(written), Quantile(name, float(share.text)))

    def _measured(self, token: Token, word: str) -> str:
        """The attribute that a measure is about, which must have what it takes."""
        name = self._schema.names[self._column(token)]
        attribute = self._schema.attributes[name]
        if word != "COUNT" and not isinstance(attribute, Integers | Bins):
            raise self._refused(
                token, f"{word} takes numbers, and {identifier(name)} has none: it takes integers, bins or numbers"
            )
        if word == "SUM" and Grid.of(attribute) is None:
            raise self._refused(token, f"bins have no sum: declare {identifier(name)} by numbers(low, high, step=…)")
        return name

    def _open(self) -> None:
        token = self._next("(")
        if token.token_type is not TokenType.L_PAREN:
            raise self._refused(token, "an opening parenthesis is expected here")

    def _close(self) -> None:
        token = self._next(")")
        if token.token_type is not TokenType.R_PAREN:
            raise self._refused(token, "a closing parenthesis is expected here")

    def _alias(self, name: str) -> str:
        if not self._take("AS"):
            return name
        return self._name("a name").text

    def _where(self) -> Query:
        first = self._place
        while self._place < len(self._words):
            token = self._words[self._place]
            if self._is(token, "GROUP") and self._is(self._after(), "BY"):
                break
            extracting = self._place > 2 and self._is(self._words[self._place - 3], "EXTRACT")
            if (
                token.token_type is TokenType.VAR
                and _CLAUSES.fullmatch(token.text)
                and not self._known(token)
                and not (extracting and self._is(token, "FROM"))
            ):
                raise self._refused(token, f"{token.text.upper()} is not supported here")
            self._place += 1
        if first == self._place:
            raise self._refused(self._words[first - 1], "a predicate is expected after WHERE")
        start, end = self._words[first].start, self._words[self._place - 1].end + 1
        try:
            return parse(self._text[start:end], self._schema)
        except QueryError as error:
            raise QueryError(f"in WHERE: {error}") from None

    def _checked(self, selected: list[Chosen], groups: list[int]) -> tuple[Chosen, ...]:
        """The selected items, checked against the attributes grouped by."""
        for item in selected:
            if isinstance(item, Key) and item.position not in groups:
                name = identifier(self._schema.names[item.position])
                raise QueryError(f"{name} is selected but not grouped by: add GROUP BY {name}. {SUPPORTED}")
        if all(isinstance(item, Key) for item in selected):
            raise QueryError(
                f"a statement selects COUNT(*) or another measure, as groups alone tell nothing. {SUPPORTED}"
            )
        names = [item.name for item in selected]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise QueryError(f"two columns are called {brief(twice)}: give them different names with AS")
        return tuple(selected)

    # -- words --------------------------------------------------------------------------------------------------------

    def _listed(self, read: Callable[[], Item]) -> list[Item]:
        """One or more items, with commas between them."""
        found = [read()]
        while self._sees(TokenType.COMMA):
            self._place += 1
            found.append(read())
        return found

    def _column(self, token: Token) -> int:
        if token.token_type not in _NAMES or (not self._known(token) and self._reserved(token)):
            raise self._refused(token, "an attribute is expected here")
        if self._sees(TokenType.L_PAREN):
            raise self._refused(token, "an attribute is expected here, not a function")
        return column(self._text, token, self._schema).position

    def _known(self, token: Token) -> bool:
        return token.text.lower() in {name.lower() for name in self._schema.names}

    def _reserved(self, token: Token) -> bool:
        return token.token_type is TokenType.VAR and reserved(token.text)

    def _name(self, wanted: str) -> Token:
        token = self._next(wanted)
        if token.token_type not in _NAMES or self._reserved(token):
            raise self._refused(token, f"{wanted} is expected here")
        return token

    def _next(self, wanted: str) -> Token:
        if self._place >= len(self._words):
            raise self._refused(self._words[-1], f"after this the text ends too early; {wanted} is expected")
        self._place += 1
        return self._words[self._place - 1]

    def _sees(self, kind: TokenType) -> bool:
        return self._place < len(self._words) and self._words[self._place].token_type is kind

    def _after(self) -> Token | None:
        return self._words[self._place + 1] if self._place + 1 < len(self._words) else None

    def _is(self, token: Token | None, word: str) -> bool:
        return token is not None and token.token_type is TokenType.VAR and token.text.upper() == word

    def _take(self, word: str) -> bool:
        """Skip a word if it is the next one; whether it was."""
        found = self._place < len(self._words) and self._is(self._words[self._place], word)
        self._place += found
        return found

    def _expect(self, word: str) -> None:
        token = self._next(word)
        if not self._is(token, word):
            raise self._refused(token, f"{word} is expected here")

    def _refused(self, token: Token, problem: str) -> QueryError:
        return QueryError(f"{complaint(self._text, token.start, token.end + 1, problem)}\n{SUPPORTED}")
