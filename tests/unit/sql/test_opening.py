"""How statements begin: in linear time, whatever stands before the first word."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

import treering as tr
from treering.sql.opening import opening
from treering.sql.read import read

SCHEMA = tr.Schema({"month": tr.integers(1, 12)})


@pytest.mark.parametrize(
    ("text", "word", "explain", "empty"),
    [
        ("SELECT 1", "SELECT", False, False),
        ("  \n\t select 1", "SELECT", False, False),
        ("-- why\nSELECT 1", "SELECT", False, False),
        ("/* a */ /* -- */ ((SELECT 1))", "SELECT", False, False),
        (";;WITH x AS", "WITH", False, False),
        ("SELECTED", "SELECTED", False, False),
        ("EXPLAIN SELECT 1", "SELECT", True, False),
        ("/* a */ explain /* b */ (SELECT 1)", "SELECT", True, False),
        ("EXPLAIN", "", True, True),
        ("EXPLAIN (ANALYZE) SELECT 1", "EXPLAIN", False, False),
        ("DROP TABLE t", "DROP", False, False),
        ("", "", False, True),
        (" -- nothing", "", False, True),
        ("/* never closed SELECT 1", "", False, False),
        ("'SELECT'", "", False, False),
    ],
)
def test_the_first_word_is_found(text: str, word: str, explain: bool, empty: bool) -> None:
    begin = opening(text)
    assert (begin.word, begin.explain, begin.empty) == (word, explain, empty)


@pytest.mark.parametrize(
    "beginning", ["/**/", "/*", "--\n", "(", ";", " ", "\n", "/* */ ", "-- /*\n", "/*/", "(--\n", "EXPLAIN ", "\u2003"]
)
@pytest.mark.parametrize("end", ["X", "SELECT COUNT(*) FROM t", "", "*/", "'"])
def test_a_long_beginning_takes_no_time(beginning: str, end: str) -> None:
    text = beginning * (60_000 // len(beginning)) + end
    start = time.process_time()
    with suppress(tr.QueryError):
        read(text, SCHEMA)
    assert time.process_time() - start < 5


def test_a_comment_before_a_statement_that_is_none_is_refused() -> None:
    with pytest.raises(tr.QueryError, match="only SELECT"):
        read("/**/" * 16_000 + "X", SCHEMA)
