"""Rows as they are after a change: however the table is cut, and whatever the columns are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from treering.trusted.changes.rewriting import Changes
from treering.trusted.rows.checks import DIGEST

SCHEMA = pa.schema(
    [("number", pa.float64()), ("text", pa.string()), ("flag", pa.bool_()), ("person:", DIGEST), ("key:", DIGEST)]
)


def rows(first: int, last: int, word: str) -> list[dict[str, Any]]:
    return [
        {
            "number": number + len(word) / 8,
            "text": f"{word} {number}" if number % 5 else None,
            "flag": number % 2 == 0,
            "person:": bytes([number] * 16),
            "key:": bytes([255 - number] * 16),
        }
        for number in range(first, last)
    ]


@given(
    st.integers(1, 30), st.sets(st.integers(1, 40), min_size=1), st.booleans(), st.integers(0, 12), st.integers(1, 9)
)
def test_rows_are_changed_in_their_places(size: int, places: set[int], erased: bool, start: int, block: int) -> None:
    positions = np.array(sorted(places), dtype=np.int64)
    kept = rows(0, size, "old")
    new = [rows(place, place + 1, "newer")[0] for place in sorted(places)]
    table = pa.Table.from_pylist([{**each, "person:": None} for each in new], SCHEMA).drop_columns("person:")
    changes = Changes(positions, None if erased else table)
    whole = pa.Table.from_pylist(kept, SCHEMA)
    found = pa.concat_tables(
        changes.applied(whole.slice(first, block), start + first) for first in range(0, size, block)
    )
    assert found.schema == SCHEMA
    expected = []
    for number, row in enumerate(kept):
        place = start + number + 1
        if place not in places:
            expected.append(row)
        elif erased:
            expected.append({**dict.fromkeys(row), "person:": row["person:"]})
        else:
            expected.append({**new[sorted(places).index(place)], "person:": row["person:"], "key:": row["key:"]})
    assert found.to_pylist() == expected


@pytest.mark.parametrize("start", [0, 2, 3, 9])
def test_what_lies_within_an_interval(start: int) -> None:
    changes = Changes(np.array([3, 4, 9]), None)
    assert changes.within(start, 9).tolist() == [each for each in (3, 4, 9) if each > start]
