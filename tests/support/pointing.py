"""What an error about a predicate points at."""

from __future__ import annotations

import pytest

from treering.domain.language.parse import parse
from treering.domain.schema import Schema
from treering.errors import QueryError


def refusal(text: str, schema: Schema) -> tuple[str, str]:
    """The problem that parsing a text raises, and the word of the text that is marked."""
    with pytest.raises(QueryError) as caught:
        parse(text, schema)
    problem, line, marks, *_ = [*str(caught.value).split("\n"), "", ""]
    return problem, line[marks.find("^") : marks.rfind("^") + 1] if "^" in marks else ""
