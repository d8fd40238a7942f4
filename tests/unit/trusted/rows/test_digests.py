"""The digest of typed rows: the same for the same rows, however they lie in memory, and another for others."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from treering.trusted.rows import digests
from treering.trusted.rows.digests import RowsDigest
from treering.trusted.rows.persons import DIGEST

KINDS = {
    "text": pa.string(),
    "flag": pa.bool_(),
    "code": pa.int64(),
    "number": pa.float64(),
    "moment": pa.timestamp("us"),
    "person:": DIGEST,
}
ROW = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(max_size=3),
        "flag": st.none() | st.booleans(),
        "code": st.none() | st.integers(-(2**63), 2**63 - 1) | st.just(0),
        "number": st.none() | st.floats(allow_nan=False) | st.just(0.0),
        "moment": st.none() | st.datetimes() | st.just(datetime(1970, 1, 1)),
        "person:": st.none() | st.binary(min_size=16, max_size=16) | st.just(bytes(16)),
    }
)


def made(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in KINDS.items()})


def digest(*tables: pa.Table, salt: bytes = b"salt") -> str:
    whole = RowsDigest()
    for table in tables:
        whole.add(table)
    assert whole.rows == sum(table.num_rows for table in tables)
    return whole.keyed(salt)


@given(rows=st.lists(ROW, max_size=20), data=st.data())
@settings(max_examples=100, deadline=None)
def test_equal_rows_have_equal_digests_however_they_are_cut(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    table = made(rows)
    expected = digest(table)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    pieces = [table.slice(start, stop - start) for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    assert digest(*pieces) == expected
    assert digest(pa.concat_tables(pieces)) == expected
    assert digest(*(made(piece.to_pylist()) for piece in pieces)) == expected
    padded = pa.concat_tables([made(rows[:3]), table, table]).combine_chunks()
    assert digest(padded.slice(len(rows[:3]), len(rows))) == expected
    file = io.BytesIO()
    pq.write_table(pa.concat_tables(pieces), file, row_group_size=7, compression="zstd")
    assert digest(pq.read_table(file)) == expected


@given(rows=st.lists(ROW, min_size=1, max_size=6), data=st.data())
@settings(max_examples=200, deadline=None)
def test_different_rows_have_different_digests(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    place, name = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.sampled_from(list(KINDS)))
    other = data.draw(ROW)[name]
    changed = [*rows[:place], {**rows[place], name: other}, *rows[place + 1 :]]
    same = made(rows).equals(made(changed)) and repr(other) == repr(rows[place][name])
    assert (digest(made(rows)) == digest(made(changed))) == same
    assert digest(made(rows)) != digest(made([*rows, rows[0]]))
    assert digest(made(rows)) != digest(made(rows[1:]))


def test_texts_are_told_apart_by_where_they_end() -> None:
    columns = [
        ["ab", "c"],
        ["a", "bc"],
        ["abc", ""],
        ["", "abc"],
        ["abc", None],
        [None, "abc"],
        ["abc"],
        ["ab", "c", ""],
    ]
    assert len({digest(pa.table({"x": pa.array(column, pa.string())})) for column in columns}) == len(columns)


def test_columns_are_told_apart_by_name_type_and_place() -> None:
    column = pa.array([0, 1])
    tables = [
        pa.table({"x": column, "y": column}),
        pa.table({"x": column}),
        pa.table({"y": column, "x": column}),
        pa.table({"x": column, "y": column.cast(pa.float64())}),
        pa.table({"x": column, "y": column.cast(pa.timestamp("us"))}),
    ]
    assert len({digest(table) for table in tables}) == len(tables)


def test_rows_come_in_their_order() -> None:
    assert digest(pa.table({"x": [1, 2]})) != digest(pa.table({"x": [2, 1]}))


def test_what_lies_under_nulls_does_not_matter() -> None:
    mask = pa.py_buffer(bytes([0b1101]))
    text = pa.Array.from_buffers(
        pa.string(), 4, [mask, pa.py_buffer(np.array([0, 1, 3, 4, 5], np.int32)), pa.py_buffer(b"azzbc")]
    )
    number = pa.Array.from_buffers(pa.float64(), 4, [mask, pa.py_buffer(np.array([1.0, np.nan, 2.0, 3.0]))])
    flag = pa.Array.from_buffers(pa.bool_(), 4, [mask, pa.py_buffer(bytes([0b1111]))])
    person = pa.Array.from_buffers(DIGEST, 4, [mask, pa.py_buffer(bytes(range(64)))])
    table = pa.table({"text": text, "number": number, "flag": flag, "person": person})
    again = pa.table({name: pa.array(table[name].to_pylist(), table[name].type) for name in table.column_names})
    assert digest(table) == digest(again)
    assert digest(table.slice(1)) == digest(again.slice(1))
    assert digest(table) != digest(again.set_column(1, "number", pa.array([1.0, 0.0, 2.0, 3.0])))


def test_no_rows_have_one_digest() -> None:
    assert digest() == digest(made([])) == digest(made([]), made([]))


def test_it_needs_the_salt() -> None:
    table = made([])
    assert digest(table, salt=b"a") != digest(table, salt=b"b")
    assert repr(RowsDigest()) == "<RowsDigest>"


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(1000)
    table = pa.table({"x": numbers, "y": numbers * 0.5, "z": pa.array(list(map(str, numbers.tolist())))})
    alone = digest(table)
    monkeypatch.setattr(digests, "MANY", 1)
    assert digest(table) == digest(table.slice(0, 400), table.slice(400)) == alone
