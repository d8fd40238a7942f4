"""Which identifiers are one person, which are none, and how many rows of a person are admitted."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from support.coded import taken
from support.mechanism_contract import SCHEMA
from treering.errors import DamagedVault, DataError
from treering.trusted.rows.frames import Places
from treering.trusted.rows.intake import PERSON
from treering.trusted.rows.persons import DIGEST, People, Persons, excess, halves

FITTING = {"origin": "JFK", "month": 1, "late": "no"}


def persons(limit: int = 2) -> Persons:
    return Persons("who", limit, b"key")


def digest(name: Any) -> bytes:
    (found,) = persons().digests([name]).to_pylist()
    assert isinstance(found, bytes)
    return found


@pytest.mark.parametrize(
    "names",
    [
        (7, 7.0, "7", "7.0", "7.00", Decimal(7), Decimal("7.0"), np.int8(7), np.float32(7), np.float64(7), b"7"),
        (-7, -7.0, "-7", "-7.0"),
        (0, 0.0, "0", "0.0"),
        (7.5, "7.5", Decimal("7.5"), np.float64(7.5)),
        ("ann", b"ann", np.str_("ann")),
        (date(2013, 3, 10), "2013-03-10"),
        (time(11, 12), "11:12:00"),
        (UUID(int=7), str(UUID(int=7))),
    ],
    ids=str,
)
def test_identifiers_of_one_person(names: tuple[Any, ...]) -> None:
    assert len({digest(name) for name in names}) == 1


DIFFERENT = [7, -7, "07", "7.05", "7.", "7,0", " 7", "7.0 ", "+7", "7e0", 70, "ann", "Ann", "", "\udc80", 7.25, 0.5]


def test_identifiers_of_different_persons() -> None:
    assert len({digest(name) for name in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (pa.string(), ["ann", "7.0", "-7.00", "7.0\n", "7.0.0", "", "\u0667.0", "a\0b", ".0", "x7.0"]),
        (pa.large_string(), ["ann", "7.0", "8"]),
        (pa.string_view(), ["ann", "7.0", "8"]),
        (pa.int8(), [7, -7, 0]),
        (pa.uint64(), [7, 2**64 - 1]),
        (pa.float64(), [7.0, 7.5, -0.0, 1e-7]),
        (pa.float32(), [7.0, 7.5]),
        (pa.float16(), [np.float16(7), np.float16(7.5)]),
        (pa.decimal128(9, 2), [Decimal("7.00"), Decimal("7.50")]),
        (pa.bool_(), [True, False]),
        (pa.binary(), [b"7", b"\xff"]),
        (pa.date32(), [date(2013, 3, 10)]),
        (pa.timestamp("us"), [datetime(2013, 3, 10, 11)]),
    ],
    ids=str,
)
def test_a_column_has_the_persons_of_its_values(kind: pa.DataType, names: list[Any]) -> None:
    """However it is cut, and with or without a dictionary."""
    expected = [digest(name) for name in (*names, *names)]
    column = pa.chunked_array([pa.array(names, kind), pa.array(names, kind)])
    assert persons().digests(column).to_pylist() == expected
    assert persons().digests(column.combine_chunks().slice(1)).to_pylist() == expected[1:]
    assert persons().digests(column).type == DIGEST
    if not pa.types.is_float16(kind) and not pa.types.is_string_view(kind):
        coded = column.dictionary_encode()
        assert persons().digests(coded).to_pylist() == expected
        entries = pa.concat_arrays([pa.nulls(1, kind), pa.array(names, kind)])
        unused = pa.DictionaryArray.from_arrays(pa.array([1] * 2, pa.int8()), entries)
        assert persons().digests(unused).to_pylist() == expected[:1] * 2


@pytest.mark.parametrize(
    "name", [None, float("nan"), np.nan, np.float32("nan"), Decimal("nan"), Decimal("inf"), pd.NaT, pd.NA, [7], {}, ()]
)
def test_what_is_no_person(name: Any) -> None:
    with pytest.raises(
        DataError, match="row 1, column 'who': there is no person; nothing of the batch was taken"
    ) as caught:
        persons().digests(["ann", name])
    assert (caught.value.row, caught.value.column) == (1, "who")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["ann", None, "bob"]),
        pa.array([7, None]),
        pa.array([7.5, float("nan"), None]),
        pa.array(["ann", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([None, "ann"])),
        pa.array([[7], None]).slice(0),
        pa.array([[7], [8]]),
        pa.nulls(2),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_with_rows_of_no_person(column: pa.Array) -> None:
    bad = 0 if pa.types.is_nested(column.type) or pa.types.is_null(column.type) else 1
    with pytest.raises(DataError, match=f"row {40 + bad}, column 'who': there is no person") as caught:
        persons().digests(column, Places(40))
    assert caught.value.row == 40 + bad


def test_the_rows_need_a_column_of_persons() -> None:
    table = pa.table({"origin": ["JFK"], "month": [1], "late": ["no"], "who": ["ann"]})
    rows, intake = taken(table, SCHEMA, persons())
    assert rows.column_names[-1] == PERSON
    assert rows.column(PERSON).to_pylist() == [digest("ann")]
    assert taken([{**FITTING, "who": "ann"}], SCHEMA, persons())[0].equals(rows)
    assert intake.rows == 1
    for absent in (table.drop_columns(["who"]), table.append_column("who", table["who"])):
        with pytest.raises(DataError, match="the rows need one column 'who' that says whose they are") as caught:
            taken(absent, SCHEMA, persons())
        assert caught.value.column == "who"
    for bad in ([FITTING], [7]):
        with pytest.raises(DataError, match="row 0, column 'who': there is no person"):
            taken(bad, SCHEMA, persons())


# -- limits ------------------------------------------------------------------------------------------------------------


def column(*names: int) -> pa.Array:
    """Digests that are easy to make; two of them in eight have the same first half."""
    listed = [(name // 2).to_bytes(8, "little") + (name % 2).to_bytes(8, "little") for name in names]
    return pa.array(listed, DIGEST)


NAMES = st.lists(st.integers(0, 7), max_size=12)


@given(before=NAMES, blocks=st.lists(NAMES, max_size=5), limit=st.integers(1, 4))
@settings(deadline=None)
def test_earlier_rows_are_admitted_up_to_the_limit(before: list[int], blocks: list[list[int]], limit: int) -> None:
    """As a plain count of each person's rows says, whichever halves their digests share."""
    people, coming = persons(limit), People()
    people.take_up(column(*before))
    known = Counter(before)
    for block in blocks:
        expected = []
        for name in block:
            expected.append(known[name] < limit)
            known[name] += expected[-1]
        assert people.admitted(column(*block), coming).tolist() == expected
    every = halves(column(*range(8)))
    assert coming.rows(every).tolist() == [(known - Counter(before))[name] for name in range(8)]
    people.take_up(coming)
    if max(known.values(), default=0) > limit:
        with pytest.raises(DamagedVault):
            people.check()
    else:
        people.check()


@given(st.lists(NAMES, max_size=40))
@settings(deadline=None)
def test_people_are_counted_in_few_runs(blocks: list[list[int]]) -> None:
    people, other = People(), People()
    for place, block in enumerate(blocks):
        (people if place % 3 else other).add(halves(column(*block)))
    people.merge(other)
    lengths = [len(rows) for _, rows in people._runs]
    assert all(one >= 2 * two for one, two in pairwise(lengths))
    total = Counter(name for block in blocks for name in block)
    assert people.rows(halves(column(*range(9)))).tolist() == [total[name] for name in range(9)]
    assert people.most == max(total.values(), default=0)


def test_digests_may_be_a_part_of_another_column() -> None:
    people = People()
    people.add(halves(column(1, 1, 2, 3, 3).slice(1, 3)))
    assert people.rows(halves(column(1, 2, 3))).tolist() == [1, 1, 1]
    assert halves(pa.Array.from_buffers(DIGEST, 0, [None, None])).shape == (2, 0)


def test_rows_on_record_beyond_the_limit_are_refused() -> None:
    people = persons(2)
    people.take_up(pa.chunked_array([column(1, 1), column(2)]))
    people.check()
    people.take_up(column(2, 2))
    with pytest.raises(DamagedVault, match="a person has more than 2 rows on record, which is rows_per_person"):
        people.check()
    persons().check()


def test_the_error_for_a_row_too_many_names_the_row_and_not_the_person() -> None:
    error = excess("rows.csv, line 9", 7, persons(1))
    assert str(error).startswith("rows.csv, line 9: its person has 1 row already, which is rows_per_person;")
    assert (error.row, error.column) == (7, "who")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30), st.integers(1, 3))
@settings(deadline=None)
def test_dropping_keeps_the_first_rows_of_each_person(arrivals: list[tuple[str, bool]], limit: int) -> None:
    """A row that does not fit the schema uses nothing of its person's limit."""
    people = persons(limit)
    frame = [{**FITTING, "who": who, "month": 1 if fits else 13} for who, fits in arrivals]
    kept: Counter[str] = Counter()
    for who, fits in arrivals:
        kept[who] = min(limit, kept[who] + fits)
    table, intake = taken(frame, SCHEMA, people, drop=True)
    assert table.num_rows == intake.rows == sum(kept.values())
    assert intake.dropped == len(arrivals) - intake.rows
    assert Counter(table.column(PERSON).to_pylist()) == {digest(who): rows for who, rows in kept.items() if rows}
    people.take_up(intake.people)
    again, _ = taken(frame, SCHEMA, people, drop=True)
    fitting = Counter(who for who, fits in arrivals if fits)
    assert again.num_rows == sum(min(limit - kept[who], fitting[who]) for who in kept)


def test_a_refusal_counts_no_row() -> None:
    people = persons(1)
    with pytest.raises(DataError, match="row 1: its person has 1 row already") as caught:
        taken([{**FITTING, "who": 1}] * 2, SCHEMA, people)
    assert caught.value.row == 1
    assert taken([{**FITTING, "who": 1}], SCHEMA, people)[1].rows == 1


def test_the_first_row_beyond_a_limit_is_named_among_all() -> None:
    months = (99, 1, 2, 98, 3)
    frame = [{**FITTING, "month": month, "who": "ann"} for month in months]
    assert taken(frame, SCHEMA, persons(2), drop=True)[1].dropped == 3
    with pytest.raises(DataError, match="row 2: its person has 1 row already") as caught:
        taken([frame[1], {**frame[2], "who": "bob"}, frame[4]], SCHEMA, persons(1))
    assert caught.value.row == 2


def test_persons_without_a_limit_are_the_same_persons() -> None:
    people = persons(1)
    table, intake = taken([{**FITTING, "who": "ann"}] * 3, SCHEMA, people.unlimited())
    assert intake.rows == 3
    assert set(table.column(PERSON).to_pylist()) == {digest("ann")}


def test_digests_depend_on_the_key() -> None:
    (one,), (other,) = (Persons("who", 1, key).digests(["ann"]).to_pylist() for key in (b"k" * 32, b"l" * 32))
    assert one != other
    assert all(len(each) == 16 and b"ann" not in each for each in (one, other))
