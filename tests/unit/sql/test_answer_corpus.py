"""The statements that tools and people write: from exact answers they give what DuckDB gives on the rows."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from support.corpus import SCHEMA, Asked, answered, far, rows, statements, truth
from support.exact_sql import numbers_of
from treering.errors import QueryError
from treering.sql.answer import split

REFUSED = [each for each in statements() if each.refused is not None]


def test_the_corpus_is_large_and_from_many_tools() -> None:
    tools = Counter(each.tool for each in statements())
    assert {"Metabase", "Superset", "Grafana", "Tableau", "Power BI", "Looker", "dbt", "people"} <= set(tools)
    assert min(tools.values()) >= 10
    assert len(answered()) >= 150
    assert len({each.sql for each in statements()}) == len(statements()) >= 200


@pytest.mark.parametrize("asked", answered(), ids=str)
def test_from_exact_answers_a_statement_gives_what_duckdb_gives_on_the_rows(asked: Asked) -> None:
    ours, theirs = rows().sql(asked.sql), truth(asked)
    assert numbers_of(ours).column_names == theirs.column_names
    assert far(ours, theirs, asked) == []
    if re.search(r"ORDER BY [^()]*$", asked.sql, re.IGNORECASE) and not asked.empty:
        label = theirs.column_names[0]
        first, wanted = ([str(each)[:10] for each in table[label].to_pylist()] for table in (ours, theirs))
        assert first == wanted


@pytest.mark.parametrize("asked", REFUSED, ids=str)
def test_what_cannot_be_answered_is_refused_with_what_could_be(asked: Asked) -> None:
    with pytest.raises(QueryError, match=asked.refused):
        split(asked.sql, SCHEMA)


def test_a_wrong_number_a_wrong_label_and_a_row_too_few_are_noticed() -> None:
    asked = Asked("SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin", "", "")
    ours, theirs = rows().sql(asked.sql), truth(asked)
    assert far(ours, theirs, asked) == []
    for wrong in ("SELECT origin, COUNT(*) + 1 AS n", "SELECT lower(origin) AS origin, COUNT(*) AS n"):
        assert len(far(ours, truth(Asked(f"{wrong} FROM flights GROUP BY origin", "", "")), asked)) >= 3
    assert len(far(ours.slice(1), theirs, asked)) == 1
