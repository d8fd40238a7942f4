"""Who a row's person is: identifiers that lost digits as floats are refused, since one person would be two."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from support.coded import taken
from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.trusted.rows.frames import as_table
from treering.trusted.rows.intake import PERSON
from treering.trusted.rows.persons import Persons

LONG = 1234567890123456789


SCHEMA = Schema({"x": integers(0, 9, other=True, missing=True)})


def digests(frame: Any) -> list[bytes]:
    """The persons of a frame's rows, as the intake finds them."""
    if isinstance(frame, list):
        frame = [{"x": 0, **row} for row in frame]
    elif "x" not in frame.columns if isinstance(frame, pd.DataFrame) else "x" not in as_table(frame).column_names:
        frame = frame.append_column("x", pa.nulls(len(frame)))
    table, _ = taken(frame, SCHEMA, Persons("who", 100, b"key"))
    found: list[bytes] = table.column(PERSON).to_pylist()
    return found


def frames(names: list[Any], kind: str) -> list[tuple[str, Any]]:
    """The same persons, floats of one type, in every form that rows come in."""
    values = np.array(names, dtype=kind)
    arrow = pa.table({"who": pa.array(values), "x": range(len(names))})
    coded = pa.table({"who": pa.array(values).dictionary_encode(), "x": range(len(names))}) if kind != "f2" else arrow
    batch = arrow.to_batches()[0]
    dicts = [{"who": value, "x": place} for place, value in enumerate(values)]
    found: list[tuple[str, Any]] = [("Arrow", arrow), ("batch", batch), ("dictionary", coded), ("dicts", dicts)]
    found.append(("pandas", pd.DataFrame({"who": values, "x": range(len(names))})))
    if kind != "f2":
        found.append(("polars", pl.DataFrame({"who": values, "x": range(len(names))})))
    if kind == "f8":
        found.append(("plain floats", [{"who": float(value), "x": 0} for value in values]))
    return found


@pytest.mark.parametrize(("kind", "bits"), [("f8", 53), ("f4", 24), ("f2", 11)])
def test_floats_that_may_have_lost_digits_are_refused(kind: str, bits: int) -> None:
    for large in (2**bits, -(2**bits), 2 ** (bits + 2)):
        for form, frame in frames([7.0, float(large)], kind):
            with pytest.raises(DataError, match="row 1, column 'who': .* hand over integers or texts") as caught:
                digests(frame)
            assert (caught.value.row, caught.value.column) == (1, "who"), form
            assert str(large) not in str(caught.value)
    for form, frame in frames([7.0, 2.0**bits - 1], kind):
        assert digests(frame) == digests([{"who": 7}, {"who": 2**bits - 1}]), form


def test_an_identifier_does_not_become_another_by_dropna() -> None:
    given = pd.DataFrame({"who": [LONG, None], "x": [1, 2]}).dropna()
    assert given["who"].dtype == float
    with pytest.raises(DataError, match="row 0, column 'who': .* type Int64"):
        digests(given)
    whole = pd.DataFrame({"who": pd.array([LONG, None], dtype="Int64"), "x": [1, 2]}).dropna()
    assert digests(whole) == digests([{"who": LONG}])


def test_a_float_wider_than_a_double() -> None:
    assert digests([{"who": np.longdouble(2**52)}]) == digests([{"who": 2**52}])
    with pytest.raises(DataError, match="row 0, column 'who': .* hand over integers or texts"):
        digests([{"who": np.longdouble(2) ** 70}])


def test_other_identifiers_may_be_as_long_as_they_like() -> None:
    exact = [{"who": LONG}, {"who": str(LONG)}, {"who": Decimal(LONG)}, {"who": np.int64(LONG)}]
    assert len(set(digests(exact))) == 1
    assert len({*digests([{"who": "1e18"}, {"who": 10**18}])}) == 2
    assert digests(pa.table({"who": pa.array([Decimal(LONG)], pa.decimal128(38))})) == digests([{"who": LONG}])


@pytest.mark.parametrize("kind", ["f8", "f4", "f2"])
def test_infinity_is_no_person(kind: str) -> None:
    for _, frame in frames([7.0, float("inf")], kind):
        with pytest.raises(DataError, match="row 1, column 'who': there is no person"):
            digests(frame)
