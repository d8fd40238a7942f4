"""Which identifiers are one person, which are none, and how many rows of a person are admitted."""

from __future__ import annotations

from collections import Counter
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from treering.errors import DamagedVault, DataError
from treering.trusted.rows.persons import Persons, excess


def persons(limit: int = 2) -> Persons:
    return Persons("who", limit, b"key")


def digest(name: Any) -> bytes:
    (found,) = persons()._digests([name])
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


def test_identifiers_of_different_persons() -> None:
    names = [7, -7, "07", "7.05", "7.", "7,0", " 7", "7.0 ", "+7", "7e0", 70, "ann", "Ann", "", "\udc80", 7.25, 0.5]
    assert len({digest(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "name", [None, float("nan"), np.nan, np.float32("nan"), Decimal("nan"), Decimal("inf"), pd.NaT, pd.NA, [7], {}, ()]
)
def test_what_is_nobody(name: Any) -> None:
    with pytest.raises(
        DataError, match="row 1, column 'who': there is no person; nothing of the batch was taken"
    ) as it:
        persons()._digests(["ann", name])
    assert (it.value.row, it.value.column) == (1, "who")


def test_the_column_of_persons_is_split_off() -> None:
    table = pa.table({"x": [1, 2], "who": ["ann", "bob"], "y": [3, 4]})
    rest, digests = persons().split(table)
    assert rest.column_names == ["x", "y"]
    assert digests == [digest("ann"), digest("bob")]
    dicts = [{"x": 1, "who": "ann"}, {"who": "bob", "x": 2}]
    assert persons().split(dicts) == ([{"x": 1}, {"x": 2}], digests)
    for absent in (table.drop_columns(["who"]), table.append_column("who", table["who"])):
        with pytest.raises(DataError, match="the rows need one column 'who' that says whose they are") as caught:
            persons().split(absent)
        assert caught.value.column == "who"
    for bad in ([{"x": 1}], [7]):
        with pytest.raises(DataError, match="row 0, column 'who': there is no person"):
            persons().split(bad)


def test_earlier_rows_are_admitted_up_to_the_limit() -> None:
    people, coming = persons(3), Counter[bytes]()
    people.take_up({b"a": 2, b"b": 3})
    people.take_up({b"a": 0})
    assert people.within([b"a", b"a", b"b", b"c"], coming).tolist() == [True, False, False, True]
    assert people.within([b"c", b"c", b"c", b"a"], coming).tolist() == [True, True, False, False]
    assert coming == {b"a": 3, b"b": 1, b"c": 4}
    assert people.counted == {b"a": 2, b"b": 3}
    assert people.within([], coming).tolist() == []


def test_rows_on_record_beyond_the_limit_are_refused() -> None:
    people = persons(2)
    people.take_up({b"a": 2, b"b": 1})
    people.check()
    people.take_up({b"b": 2})
    with pytest.raises(DamagedVault, match="a person has more than 2 rows on record, which is rows_per_person"):
        people.check()
    persons().check()


def test_the_error_for_a_row_too_many_names_the_row_and_not_the_person() -> None:
    error = excess("rows.csv, line 9", 7, persons(1))
    assert str(error).startswith("rows.csv, line 9: its person has 1 row already, which is rows_per_person;")
    assert (error.row, error.column) == (7, "who")
