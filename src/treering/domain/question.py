"""A query, or its text: every public method that takes one takes the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from treering.domain.language.parse import parse
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError

Question: TypeAlias = Query | str


def understand(question: Question, schema: Schema) -> Query:
    """The query meant, about this schema."""
    if isinstance(question, str):
        return parse(question, schema)
    if not isinstance(question, Query):
        raise QueryError(f"a query is asked as a Query or as its text, not as {type(question).__name__}")
    if question.schema != schema:
        raise QueryError("the query is about another schema than this database")
    return question


def understand_all(questions: Iterable[Question], schema: Schema) -> list[Query]:
    """`understand` for a batch; a bad one is named by its position."""
    if isinstance(questions, str):
        raise QueryError("a batch is a list of queries, not one text")
    queries: list[Query] = []
    for position, question in enumerate(questions):
        # The usual case, without a call: a batch has thousands.
        if isinstance(question, Query) and question.schema is schema:
            queries.append(question)
            continue
        try:
            queries.append(understand(question, schema))
        except QueryError as error:
            raise QueryError(f"query {position}: {error}") from None
    return queries
