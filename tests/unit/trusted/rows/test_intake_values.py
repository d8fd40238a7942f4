"""Which values are taken, as what, and how they are counted: against the axes, value by value."""

from __future__ import annotations

import csv
import math
from collections import deque
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.coded import cells_of, code_of, plain_code, sums_of, taken
from support.engines import DATED_TEXTS
from support.golden import TEXTS
from support.schemas import schemas
from treering.domain.attribute import Attribute, bins, categories, integers
from treering.domain.axis import EMPTY, Axis
from treering.domain.calendar import Dated, DatePart, dates
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.rowfile import RowFile
from treering.trusted.rows.files import NULLS
from treering.trusted.rows.intake import ColumnIntake, Intake, batch_schema, typed_blocks
from treering.trusted.rows.typed import typed

FLAGS: list[dict[str, Any]] = [{}, {"missing": True}, {"other": True}, {"other": True, "missing": True}]


def counts_of(column: ColumnIntake) -> tuple[int, int, int]:
    return column.unlisted, column.missing, column.outside


def values_for(attribute: Attribute) -> st.SearchStrategy[Any]:
    """Values of the type that an attribute's column has, near its own and elsewhere."""
    if isinstance(attribute, Dated):
        return st.none() | st.datetimes() | st.datetimes(datetime(2012, 1, 1), datetime(2014, 1, 1))
    axis = Axis.of("x", attribute)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "text": st.text(max_size=3),
        "boolean": st.booleans(),
        "code": st.integers(-(2**63), 2**63 - 1),
        "integer": st.integers(-(2**63), 2**63 - 1),
        "number": st.floats(),
    }
    near = list(axis.listed) or [*axis.cuts.tolist(), *(np.asarray(axis.cuts) - 1).tolist()]
    return st.none() | st.sampled_from(near) | kinds[axis.scalar.kind]


ARROW = {"text": pa.string(), "boolean": pa.bool_(), "code": pa.int64(), "integer": pa.int64(), "number": pa.float64()}


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_what_fits_and_how_it_is_counted_is_what_the_axes_say(data: st.DataObject) -> None:
    """For tables and dicts alike; what is dropped is what an axis has no class for."""
    schema = data.draw(schemas(most_attributes=3, most_values=6))
    names = list(schema.columns)
    first = {attribute.column or name: attribute for name, attribute in schema.attributes.items()}
    if len(first) < len(schema.names):
        return  # Attributes of one column, for which one kind of value would not do.
    rows = data.draw(st.lists(st.fixed_dictionaries({name: values_for(first[name]) for name in names}), max_size=9))
    kinds = {
        name: pa.timestamp("us") if isinstance(each, Dated) else ARROW[Axis.of(name, each).scalar.kind]
        for name, each in first.items()
    }
    table = pa.table({name: pa.array([row[name] for row in rows], kinds[name]) for name in names})
    codes = {name: [plain_code(first[name], row[name]) for row in rows] for name in names}
    fits = [all(codes[name][place] != EMPTY for name in names) for place in range(len(rows))]
    expected = cells_of(typed(table, schema), schema)
    assert (expected != EMPTY).tolist() == fits
    for frame in (table, rows, table.to_pandas(types_mapper=pd.ArrowDtype)):
        found, intake = taken(frame, schema, drop=True)
        assert found.schema == batch_schema(schema, False)
        assert cells_of(found, schema).tolist() == expected[fits].tolist()
        assert (intake.rows, intake.dropped) == (sum(fits), len(rows) - sum(fits))
        for name, attribute in schema.attributes.items():
            source = attribute.column or name
            assert counts_of(intake.columns[name]) == odd(attribute, [row[source] for row in rows])
        if not all(fits) and not isinstance(frame, pd.DataFrame):
            with pytest.raises(DataError, match=f"row {fits.index(False)}, column ") as caught:
                taken(frame, schema)
            bad = next(name for name, each in codes.items() if each[fits.index(False)] == EMPTY)
            assert (caught.value.row, schema.attributes[str(caught.value.column)].column or caught.value.column) == (
                fits.index(False),
                bad,
            )


def odd(attribute: Attribute, values: list[Any]) -> tuple[int, int, int]:
    """How many values are unlisted, missing and outside."""
    absent = [value is None or value != value for value in values]
    rest = [value for value, gone in zip(values, absent, strict=True) if not gone]
    if isinstance(attribute, DatePart):
        return 0, sum(absent), 0
    strange = sum(attribute.regular_code(value) is None for value in rest)
    return (strange, sum(absent), 0) if Axis.of("x", attribute).by_list else (0, sum(absent), strange)


# -- lists of dicts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        (categories("x", **FLAGS[3]), [1, True, b"x", 1.5, ["x"], {}, object(), Decimal(1), pd.NA]),
        (categories(1, 2, **FLAGS[3]), ["1", True, 1.5, 1.0, np.float64(1), Decimal(1), np.bool_(True)]),
        (categories(True, False, **FLAGS[3]), ["true", 1, 0, 1.0, np.int8(1)]),
        (integers(1, 9, **FLAGS[3]), ["1", True, np.bool_(True), Decimal(1), [1], b"1", pd.NA, date(2013, 1, 1)]),
        (bins([1, 9], **FLAGS[3]), ["1", True, Decimal(1), [1], (1,), 1j, np.complex64(1), np.longdouble(1)]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_values_of_another_type_fit_nowhere(attribute: Attribute, wrong: list[Any]) -> None:
    """Not even where there are cells for all values."""
    schema = Schema({"x": attribute})
    good = attribute.value(0)
    for value in wrong:
        with pytest.raises(DataError, match="row 1, column 'x': the value is not among"):
            taken([{"x": good}, {"x": value}], schema)
        table, intake = taken([{"x": value}, {"x": good}, {"x": value}], schema, drop=True)
        assert (table.num_rows, intake.dropped, intake.columns["x"].missing) == (1, 2, 2)


@pytest.mark.parametrize(
    ("attribute", "value", "code"),
    [
        (categories("x", missing=True), float("nan"), 1),
        (categories("x", missing=True), np.str_("x"), 0),
        (categories(7, missing=True), np.int16(7), 0),
        (categories(7, missing=True), np.float64("nan"), 1),
        (categories(True, False), np.bool_(False), 1),
        (integers(1, 9, **FLAGS[3]), np.float32(3), 2),
        (integers(1, 9, **FLAGS[3]), 3.0, 2),
        (integers(1, 9, **FLAGS[3]), 3.5, 11),
        (integers(1, 9, **FLAGS[3]), 30.5, 11),
        (integers(1, 9, **FLAGS[3]), 10**400, 10),
        (integers(1, 9, **FLAGS[3]), -(10**400), 9),
        (integers(1, 9, **FLAGS[3]), 2**63, 10),
        (integers(1, 9, **FLAGS[3]), math.inf, 10),
        (integers(1, 9, **FLAGS[3]), -math.inf, 9),
        (integers(1, 9, **FLAGS[3]), 1e300, 10),
        (bins([1, 9], **FLAGS[3]), 10**400, 2),
        (bins([1, 9], **FLAGS[3]), -(10**400), 1),
        (bins([1, 9], **FLAGS[3]), np.float16(3), 0),
        (bins([1, 9], **FLAGS[3]), 2**53 + 1, 2),
        (categories("x", **FLAGS[3]), "\udc80", 2),
        (categories("x", **FLAGS[3]), "x\udc80", 2),
        (categories(7, **FLAGS[3]), 10**30, 2),
        (categories(7, 2**63 - 1, **FLAGS[3]), 2**63, 3),
        (categories(7, 2**63 - 1, **FLAGS[3]), 2**63 - 1, 1),
        (categories(7, -(2**63), **FLAGS[3]), -(2**63), 1),
    ],
)
def test_values_of_the_right_type_have_their_codes(attribute: Attribute, value: Any, code: int) -> None:
    assert code_of(attribute, value) == code
    schema = Schema({"x": attribute})
    table, _ = taken([{"x": value}, {"x": attribute.value(0)}], schema)
    assert cells_of(table, schema).tolist() == [code, 0]


UNFIT: list[tuple[Any, Any, pa.DataType]] = [
    (lambda **flags: integers(1, 9, **flags), 3.5, pa.float64()),
    (lambda **flags: integers(1, 9, **flags), Decimal("3.5"), pa.decimal128(9, 2)),
    (lambda **flags: categories(7, 8, **flags), 2**63, pa.uint64()),
]


@pytest.mark.parametrize(("make", "value", "kind"), UNFIT)
@pytest.mark.parametrize("flags", FLAGS)
def test_what_cannot_be_kept_is_missing_only_where_everything_has_a_cell(
    make: Any, value: Any, kind: pa.DataType, flags: dict[str, bool]
) -> None:
    attribute = make(**flags)
    schema, column = Schema({"x": attribute}), pa.array([value, 8, None], kind)
    rows = [{"x": value}, {"x": 8}, {"x": None}]
    frames: list[Any] = [pa.table({"x": column})]
    if not isinstance(value, Decimal):
        frames += [rows, pa.table({"x": pa.chunked_array([column[:1], column[1:]])})]
    for frame in frames:
        table, intake = taken(frame, schema, drop=True)
        everything = len(flags) == 2
        kept = 1 + everything + ("missing" in flags)
        assert (table.num_rows, intake.dropped) == (kept, 3 - kept)
        assert counts_of(intake.columns["x"]) == (0, 2, 0)


def test_every_sequence_of_mappings_is_rows() -> None:
    schema = Schema({"x": integers(0, 9)})
    for frame in ([{"x": 1}], ({"x": 1},), deque([{"x": 1}])):
        assert taken(frame, schema)[0].column(0).to_pylist() == [1]


def test_columns_whose_names_are_no_texts_are_not_those_of_the_schema() -> None:
    schema = Schema({"1": integers(0, 9)})
    with pytest.raises(DataError, match="row 0: the columns must be 1; missing: '1'; extra: 1 column"):
        taken([{1: 3}], schema)
    assert taken([{1: "x", "1": 3}], schema)[0].column(0).to_pylist() == [3]


# -- dates -------------------------------------------------------------------------------------------------------------

MOMENTS: list[Any] = [
    *DATED_TEXTS,
    *(None, 7, 2.5, b"2013-01-01", object(), "\udc80", float("nan"), pd.NaT, np.datetime64("NaT")),
    *(date(1, 1, 1), date(9999, 12, 31), date(2013, 3, 1), datetime(2013, 3, 1, 11, 12, 13, 141_516)),
    *(pd.Timestamp("2013-03-01T11:12"), pd.Timestamp("2013-03-01T11:12Z"), np.datetime64("2013-03-01T11:12")),
    datetime(2013, 11, 3, 5, 30, tzinfo=UTC),
    datetime(2013, 11, 3, 5, 30, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-14))),
]


@pytest.mark.parametrize("zone", [None, "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("value", MOMENTS, ids=map(str, range(len(MOMENTS))))
def test_a_date_in_a_dict_is_the_date_in_a_column(zone: str | None, value: Any) -> None:
    attribute = dates("2012-02-28", "2013-03-10", by="day", tz=zone)
    schema = Schema({"x": attribute})
    found, _ = taken([{"x": value}], schema)
    if isinstance(value, str) and value.isprintable():
        column = pa.array([value], pa.string())
    elif isinstance(value, datetime) and not pd.isna(value) and (value.tzinfo is None or zone is not None):
        column = pa.array([value], pa.timestamp("us", None if value.tzinfo is None else "UTC"))
    elif isinstance(value, np.datetime64):
        column = pa.array([value.astype("datetime64[us]").item()], pa.timestamp("us"))
    elif isinstance(value, date) and not isinstance(value, datetime):
        column = pa.array([value])
    else:
        column = pa.nulls(1)
    assert found.equals(typed(pa.table({"x": column}), schema))


CLOCK = r"[T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,10})?)?(Z|[+-][01][0-9](:?[0-6][0-9])?)?"
SHAPED = st.one_of(
    st.datetimes().map(datetime.isoformat),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-11))])).map(datetime.isoformat),
    st.from_regex(rf"[0-9]{{4}}-[01][0-9]-[0-3][0-9]({CLOCK})?"),
    st.text(max_size=12),
)


@given(texts=st.lists(SHAPED, max_size=6), zone=st.sampled_from([None, "UTC", "Australia/Lord_Howe"]))
@settings(max_examples=150, deadline=None)
def test_texts_of_dates_in_dicts_are_read_as_those_in_columns(texts: list[str], zone: str | None) -> None:
    schema = Schema({"x": dates("2012-02-28", "2013-03-10", by="day", tz=zone)})
    found, _ = taken([{"x": text} for text in texts], schema)
    assert found.equals(taken(pa.table({"x": pa.array(texts, pa.string())}), schema)[0])


def test_dates_outside_are_counted_and_never_refused() -> None:
    schema = Schema({"day": dates("2013-01-01", "2013-12-31", column="x"), "hour": dates(part="hour", column="x")})
    far = pa.array([-(2**62), 0, 1_360_000_000, 2**62, None], pa.timestamp("s"))
    table, intake = taken(pa.table({"x": far}), schema)
    assert table.num_columns == 1
    assert counts_of(intake.columns["day"]) == (0, 1, 3)
    assert counts_of(intake.columns["hour"]) == (0, 3, 0)


# -- columns -----------------------------------------------------------------------------------------------------------


def test_texts_that_are_no_utf_8_are_missing_and_no_message_shows_them() -> None:
    schema = Schema({"x": categories("a", **FLAGS[3])})
    odd = pa.array([b"a", b"s3cr3t\xff", None, b"b"]).view(pa.string())
    for column in (odd, pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3]), odd)):
        table, intake = taken(pa.table({"x": column}), schema)
        assert table.column(0).to_pylist() == ["a", None, None, "b"]
        assert counts_of(intake.columns["x"]) == (1, 2, 0)
        table.validate(full=True)
    strict = Schema({"x": categories("a", missing=True)})
    with pytest.raises(DataError, match="row 1, column 'x'") as caught:
        taken(pa.table({"x": odd.slice(0, 2)}), strict)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.int32()])
def test_typed_rows_share_no_memory_with_the_frame(kind: pa.DataType) -> None:
    """A frame that changes later must not change what is kept."""
    values = np.array([1, 0, 1, 1, 0, 0, 1, 0] * 8)
    attribute: dict[Any, Attribute] = {pa.string(): categories("0", "1"), pa.bool_(): categories(True, False)}
    schema = Schema({"x": attribute.get(kind, bins([0, 1]) if kind == pa.float64() else integers(0, 1))})
    column = pa.array(values).cast(kind)
    table, _ = taken(pa.table({"x": column}), schema)
    mine = {each.address for each in table.column(0).chunk(0).buffers() if each is not None}
    assert mine.isdisjoint(each.address for each in column.buffers() if each is not None)
    frame = pd.DataFrame({"x": np.array([1, 0, 1])})
    kept, _ = taken(frame, Schema({"x": integers(0, 1)}))
    frame.loc[:, "x"] = 0
    assert kept.column(0).to_pylist() == [1, 0, 1]


def test_what_lies_under_nulls_is_not_looked_at() -> None:
    """Neither values outside, nor texts that are not listed."""
    mask = pa.py_buffer(bytes([0b101]))
    number = pa.Array.from_buffers(pa.float64(), 3, [mask, pa.py_buffer(np.array([1.0, math.nan, 2.0]))])
    whole = pa.Array.from_buffers(pa.int64(), 3, [mask, pa.py_buffer(np.array([1, 99, 2]))])
    text = pa.Array.from_buffers(
        pa.string(), 3, [mask, pa.py_buffer(np.array([0, 1, 3, 4], np.int32)), pa.py_buffer(b"azza")]
    )
    schema = Schema(
        {"n": bins([0, 5], missing=True), "i": integers(0, 5, missing=True), "t": categories("a", missing=True)}
    )
    table, intake = taken(pa.table({"n": number, "i": whole, "t": text}), schema)
    assert table.num_rows == 3
    assert [counts_of(each) for each in intake.columns.values()] == [(0, 1, 0)] * 3


READ: dict[str, Any] = {
    "booleans": {"true": True, "TRUE": True, " f ": False, "1": True, "0": False},
    "codes": {"1": 1, "0": 0, "2": 2, "+7": 7, "007": 7, "-0": 0, str(2**63 - 1): 2**63 - 1},
}
"""The texts among `TEXTS` that mean something to categories of booleans and integers."""


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(("kind", "listed"), [("booleans", (True, False)), ("codes", (7, 0, 2**63 - 1))])
def test_texts_of_a_file_that_cannot_be_read(
    tmp_path: Path, kind: str, listed: tuple[Any, ...], flags: dict[str, Any]
) -> None:
    """They are missing where there are cells for everything, and fit nowhere else. Nulls need a cell of their own."""
    schema, path = Schema({"x": categories(*listed, **flags)}), tmp_path / "rows.csv"
    texts = [text for text in TEXTS if text is None or "\0" not in text]
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("x", "y"), *((text or "", "") for text in texts)])
    nulls = sum(text is None or text in NULLS for text in texts)
    known = [READ[kind][text] for text in texts if text in READ[kind]]
    table, intake = taken(RowFile(path), schema, drop=True)
    fitting = [value for value in known if value in listed or "other" in flags]
    everything, absent = len(flags) == 2, "missing" in flags
    unread = len(texts) - nulls - len(known)
    assert [value for value in table.column(0).to_pylist() if value is not None] == fitting
    assert table.column(0).null_count == absent * nulls + everything * unread
    assert counts_of(intake.columns["x"]) == (len([value for value in known if value not in listed]), nulls + unread, 0)


@given(value=st.floats(allow_nan=False))
def test_a_number_is_read_as_python_reads_it(value: float) -> None:
    schema = Schema({"x": tr.numbers(0, 10)})
    for column in (pa.array([repr(value)]), pa.array([repr(value), "x"])):
        assert typed(pa.table({"x": column}), schema, texts=True).column(0)[0].as_py() == value


@given(text=st.text(alphabet="0123456789+-.eEinfax_ ", max_size=8))
def test_a_text_means_a_number_alone_exactly_if_it_does_beside_others(text: str) -> None:
    """And if it does, it is the number that Python reads."""
    schema = Schema({"x": tr.numbers(0, 10)})
    alone, beside = (
        typed(pa.table({"x": pa.array([text, *more])}), schema, texts=True).column(0)[0].as_py() for more in ([], ["x"])
    )
    assert alone == beside
    if alone is not None:
        assert alone == float(text)


@given(value=st.integers(-(2**65), 2**65), style=st.sampled_from(["{}", " {} ", "{:+}", "{:025}", "{:+025}"]))
def test_a_code_is_read_in_64_bits_or_not_at_all(value: int, style: str) -> None:
    schema = Schema({"x": categories(7, **FLAGS[3])})
    found = typed(pa.table({"x": [style.format(value)]}), schema, texts=True).column(0)[0].as_py()
    digits = style.format(abs(value)).strip().lstrip("+-")
    assert found == (value if -(2**63) <= value < 2**63 else None), digits


# -- sums --------------------------------------------------------------------------------------------------------------

SUMMED = Schema({"a": categories("x", "y"), "v": tr.numbers(-10, 10, step=0.25, edges=[-10, 0, 10], column="w")})
VALUES = [0.1, 0.125, -0.125, -9.9, 10.0, 11.0, -math.inf, math.inf, math.nan, None]
UNITS = [0, 2, 0, -80, 80, 80, -80, 80, 0, 0]


@pytest.mark.parametrize(
    "frame",
    [
        pa.table({"a": ["x"] * 10, "w": pa.array(VALUES, pa.float64())}),
        pa.table({"a": ["x"] * 10, "w": pa.chunked_array([VALUES[:3], VALUES[3:]], pa.float32())}),
        pa.table({"a": ["x"] * 10, "w": pa.array(VALUES, pa.float64()).dictionary_encode()}),
        pd.DataFrame({"a": ["x"] * 10, "w": VALUES}),
        [{"a": "x", "w": value} for value in VALUES],
        [{"a": "x", "w": None if value is None else np.float64(value)} for value in VALUES],
        [{"a": "x", "w": value} for value in (0.1, 0.125, -0.125, -9.9, 10, 11, -(10**400), 10**400, math.nan, None)],
    ],
    ids=["arrow", "single precision, in parts", "dictionary", "pandas", "dicts", "numpy scalars", "integers"],
)
def test_units_are_the_same_from_every_frame(frame: Any) -> None:
    table, intake = taken(frame, SUMMED)
    assert sums_of(table, SUMMED)[0].tolist() == UNITS
    assert counts_of(intake.columns["v"]) == (0, 2, 4)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, -11, 2**62, None], pa.int64()),
        pa.array([3, -11, 100, None], pa.int8()),
        pa.array([3, 2**64 - 1, 2**63, None], pa.uint64()),
        pa.array([Decimal("3.00"), Decimal("-11.5"), Decimal("99999.99"), None], pa.decimal128(10, 2)),
    ],
    ids=str,
)
def test_units_of_other_numbers(column: pa.Array) -> None:
    table, _ = taken(pa.table({"a": ["y"] * 4, "w": column}), SUMMED)
    second = 80 if pa.types.is_uint64(column.type) else -80
    assert sums_of(table, SUMMED)[0].tolist() == [24, second, 80, 0]


# -- all of it ---------------------------------------------------------------------------------------------------------


def test_nothing_of_an_intake_is_shown() -> None:
    _, intake = taken([{"x": 1}], Schema({"x": integers(0, 9)}))
    assert repr(intake) == "<Intake>"
    assert repr(intake.columns["x"]) == "<ColumnIntake>"


def test_an_intake_goes_on_counting() -> None:
    schema, intake = Schema({"x": integers(0, 9, **FLAGS[3])}), Intake()
    for frame in ([{"x": 1}, {"x": None}], pa.table({"x": [77, 5]})):
        assert sum(block.num_rows for block in typed_blocks(frame, schema, None, drop=False, intake=intake)) == 2
    assert (intake.rows, intake.dropped, counts_of(intake.columns["x"])) == (4, 0, (0, 1, 1))
