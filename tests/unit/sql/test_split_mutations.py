"""Statements that are not well written: each is answered, or refused with a `QueryError`; nothing else happens."""

from __future__ import annotations

import os

from support.corpus import SCHEMA, rows, statements
from support.mutations import mutations
from treering.errors import QueryError
from treering.sql.answer import split

NUMBER = int(os.environ.get("STATEMENTS", "400"))
SHORT = 100
"""How many items a statement has at most that is worked out to its end, for speed."""


def test_a_statement_with_mistakes_is_answered_or_refused() -> None:
    answered, said = 0, set[str]()
    for text in mutations([each.sql for each in statements()], NUMBER, seed=21):
        try:
            if len(split(text, SCHEMA).items) <= SHORT:
                rows().sql(text)
            answered += 1
        except QueryError as error:
            said.add(str(error)[:20])
    assert answered >= NUMBER // 20
    assert "" not in said
    assert len(said) >= min(NUMBER // 20, 20)
