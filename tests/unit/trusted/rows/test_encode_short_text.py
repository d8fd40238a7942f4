"""The fast look-up finds exactly what Arrow's own finds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from string import ascii_letters

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.domain.attribute import categories
from treering.domain.schema import Schema
from treering.trusted.rows import encode as short_text
from treering.trusted.rows.encode import encode

WORDS = st.text(max_size=8) | st.sampled_from(["", "a", "aa", "\0", "a\0", "é", "𝄞", "1234567", "12345678"])


@given(
    values=st.lists(WORDS.filter(lambda word: len(word.encode()) <= 7), min_size=1, max_size=20, unique=True),
    extra=st.lists(st.none() | WORDS, max_size=30),
    start=st.integers(0, 5),
    kind=st.sampled_from([pa.string(), pa.large_string()]),
)
@settings(max_examples=150, deadline=None)
def test_it_agrees_with_arrow(values: list[str], extra: list[str | None], start: int, kind: pa.DataType) -> None:
    column = pa.array([*extra, *values, *extra], kind).slice(start)
    found = short_text.find(tuple(values), column)
    expected = np.asarray(pc.index_in(column, value_set=pa.array(values, kind)).fill_null(-1))
    valid = np.asarray(column.is_valid())
    assert found[valid].tolist() == expected[valid].tolist()


def looked_up(values: tuple[str, ...], texts: Sequence[str]) -> list[int]:
    """What the look-up finds when Python runs it, uncompiled; integers of 64 bits wrap around."""
    plain = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, plain)])
    found = np.full(len(texts), -9, dtype=np.int32)
    with np.errstate(over="ignore"):
        short_text._look_up(ends, np.frombuffer(b"".join(plain), np.uint8), *short_text._table(values), found)
    return found.tolist()


def positions(values: tuple[str, ...], texts: Sequence[str]) -> list[int]:
    return [values.index(text) if text in values else -1 for text in texts]


def test_texts_are_told_apart_by_each_of_their_bytes_and_by_their_length() -> None:
    values = ("", "\0", "a", "ab", "ba", "b", "aa", "1234567", "é", "ab\0")
    texts = [*values, "12345678", "1234568", "0234567", "\0\0", "\0a", "123456", "ab\0\0", "abc", "è", "1" * 40]
    assert looked_up(values, texts) == positions(values, texts)
    assert looked_up(("x",), ["\0" * 8 + "x", "x", ""]) == [-1, 0, -1]


@pytest.mark.parametrize(("number", "every"), [(1, 1), (2, 5), (3, 77)])
def test_texts_that_share_a_slot_are_found_all_the_same(number: int, every: int) -> None:
    """Among so many sets every slot of a table is shared in some, the last among them."""
    for values in list(combinations(ascii_letters, number))[::every]:
        assert looked_up(values, ascii_letters) == positions(values, ascii_letters)


def test_an_empty_column_has_no_buffer_of_text() -> None:
    assert short_text.find(("a",), pa.array([], pa.string())).tolist() == []
    assert short_text.find(("", "a"), pa.array([""] * 3, pa.string())).tolist() == [0, 0, 0]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 100, 256, 257, 5000])
def test_its_table_is_an_eighth_to_a_quarter_full(number: int) -> None:
    """Fuller it would be slow, emptier it would not fit into the cache."""
    values = tuple(map(str, range(number)))
    keys, positions, shift = short_text._table(values)
    assert len(keys) == len(positions) == 2 ** (64 - int(shift))
    assert 4 * number <= len(keys) < 8 * number
    assert sorted(positions[positions >= 0].tolist()) == list(range(number))


def test_when_it_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.array(["a"] * 10)
    assert not short_text.fits(("a",), column)
    monkeypatch.setattr(short_text, "LARGE", 10)
    assert short_text.fits(("a", "1234567"), column)
    assert not short_text.fits(("a", "12345678"), column)
    assert not short_text.fits(("a", "ééééé"), column)
    assert not short_text.fits((1, 2), pa.array([1] * 10))
    assert not short_text.fits(("a",), column.cast(pa.string_view()))


def test_encoding_takes_it_for_large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema({"x": categories("a", "bb", other=True, missing=True)})
    table = pa.table({"x": ["bb", None, "a", "c", ""] * 4})
    slow = encode(table, schema, drop=False)[0]
    monkeypatch.setattr(short_text, "LARGE", 1)
    monkeypatch.setattr(pc, "index_in", lambda *_, **__: pytest.fail("the fast path was not taken"))
    assert encode(table, schema, drop=False)[0].tolist() == slow.tolist() == [1, 3, 0, 2, 2] * 4
