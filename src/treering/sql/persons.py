"""Persons in SQL: COUNT(DISTINCT person), and the cap on the rows of each person that count.

The column of persons is not kept, and no statement shows it, compares it or groups by it. What counts persons is marked
before columns are looked up; a cap is a hint, ``SELECT /*+ PER_PERSON(3) */ …``, or comes with the statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from treering.errors import QueryError

_MARK: Final = "\0person"
"""Stands for the column of persons where they are counted."""

_HINT: Final = re.compile(r"/\*\+\s*PER_PERSON\s*\(\s*([0-9]{1,9})\s*\)\s*\*/", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class People:
    """Whose the rows are."""

    column: str
    """The column of persons."""
    limit: int
    """The most rows that each can have."""


def hinted(text: str) -> tuple[str, int | None]:
    """A text without its hint, and the cap that it states.

    >>> hinted("SELECT /*+ PER_PERSON(3) */ COUNT(*) FROM t")
    ('SELECT  COUNT(*) FROM t', 3)
    """
    caps = {int(each) for each in _HINT.findall(text)}
    if len(caps) > 1:
        raise QueryError("PER_PERSON is stated once: one cap is for the whole statement")
    return _HINT.sub("", text), caps.pop() if caps else None


def marked(tree: exp.Expr, person: str) -> exp.Expr:
    """The tree with COUNT(DISTINCT person) marked: no column stands there any more."""
    for node in list(tree.find_all(exp.Count)):
        named = _counted(node)
        if isinstance(named, exp.Column) and named.name.lower() == person.lower():
            node.set("this", exp.Distinct(expressions=[exp.Literal.string(_MARK)]))
    return tree


def counts_persons(node: exp.Expr) -> bool:
    """Whether an aggregate counts persons."""
    named = _counted(node)
    return isinstance(named, exp.Literal) and named.is_string and named.this == _MARK


def check_outside(tree: exp.Expr) -> None:
    """Refuse persons counted in what is worked out from released numbers."""
    if any(counts_persons(node) for node in tree.find_all(exp.Count)):
        raise QueryError(
            "persons are counted where rows are, by COUNT(DISTINCT …) with WHERE, GROUP BY and HAVING: not as a window "
            "function, and not among released groups (a person may be in several)"
        )


def _counted(node: exp.Expr) -> exp.Expr | None:
    """The one expression of a COUNT(DISTINCT …)."""
    inner = node.this if isinstance(node, exp.Count) else None
    if not isinstance(inner, exp.Distinct) or len(inner.expressions) != 1 or node.expressions:
        return None
    named: exp.Expr = inner.expressions[0].unnest()
    return named
