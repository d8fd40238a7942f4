"""Rows → typed tables: the same from every kind of frame, and refusals that say where and never what."""

from __future__ import annotations

import traceback
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import treering.trusted.rows.intake as intake_module
from support.coded import coded
from treering.domain.attribute import OTHER, Attribute, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.trusted.rows.intake import Intake, typed_blocks

OPEN = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA", other=True, missing=True),
        "month": integers(1, 12, other=True, missing=True),
        "delay": bins([-1440, 0, 15, 60, 1440], other=True, missing=True),
    }
)
STRICT = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA"),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440]),
    }
)
ROWS: list[dict[str, Any]] = [
    {"origin": "JFK", "month": 1, "delay": -1440.0},
    {"origin": "BOS", "month": 13, "delay": 2000.0},
    {"origin": None, "month": None, "delay": None},
    {"origin": "LGA", "month": 12, "delay": 1440.0},
    {"origin": "EWR", "month": 0, "delay": 15.0},
    {"origin": "", "month": -7, "delay": float("inf")},
    {"origin": "jfk", "month": 6, "delay": float("nan")},
]


def expected(schema: Schema, rows: list[dict[str, Any]]) -> list[int]:
    def listed(attribute: Attribute, value: Any) -> Any:
        if value is None or value != value:
            return None
        return OTHER if isinstance(value, str) and attribute.regular_code(value) is None else value

    return [
        schema.cell({name: listed(attribute, row[name]) for name, attribute in schema.attributes.items()})
        for row in rows
    ]


def arrow(rows: list[dict[str, Any]], text: pa.DataType | None = None) -> pa.Table:
    return pa.table(
        {
            "origin": pa.array([row["origin"] for row in rows], text or pa.string()),
            "month": pa.array([row["month"] for row in rows], pa.int64()),
            "delay": pa.array([row["delay"] for row in rows], pa.float64()),
        }
    )


FRAMES: dict[str, Any] = {
    "dicts": ROWS,
    "tuple of dicts": tuple(ROWS),
    "arrow": arrow(ROWS),
    "arrow large strings": arrow(ROWS, pa.large_string()),
    "arrow string views": arrow(ROWS, pa.string_view()),
    "arrow dictionary": arrow(ROWS).set_column(0, "origin", arrow(ROWS)["origin"].dictionary_encode()),
    "arrow record batch": arrow(ROWS).to_batches()[0],
    "arrow chunks": pa.concat_tables([arrow(ROWS[:2]), arrow(ROWS[2:3]), arrow(ROWS[3:])]),
    "other column order": arrow(ROWS).select(["delay", "month", "origin"]),
    "pandas": pd.DataFrame(ROWS),
    "pandas with an index of its own": pd.DataFrame(ROWS, index=[9, 8, 7, 6, 5, 4, 3]),
    "pandas categorical": pd.DataFrame(ROWS).astype({"origin": "category"}),
    "polars": pl.DataFrame(ROWS),
    "polars categorical": pl.DataFrame(ROWS).with_columns(pl.col("origin").cast(pl.Categorical)),
    "float months": arrow(ROWS).set_column(1, "month", arrow(ROWS)["month"].cast(pa.float64())),
    "small ints": arrow(ROWS).set_column(1, "month", arrow(ROWS)["month"].cast(pa.int8())),
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_frame_gives_the_same_cells(name: str) -> None:
    cells, dropped = coded(FRAMES[name], OPEN, drop=False)
    assert cells.tolist() == expected(OPEN, ROWS)
    assert cells.dtype == np.int64
    assert dropped == 0


def test_numpy_scalars_in_dicts() -> None:
    row = {"origin": np.str_("JFK"), "month": np.int32(3), "delay": np.float32(15)}
    assert coded([row], STRICT)[0].tolist() == [STRICT.cell({"origin": "JFK", "month": 3, "delay": 15})]


@pytest.mark.parametrize("name", [name for name in FRAMES if name != "other column order"])
def test_drop_takes_the_rest_and_says_how_many(name: str) -> None:
    cells, dropped = coded(FRAMES[name], STRICT, drop=True)
    assert cells.tolist() == expected(STRICT, [ROWS[0], ROWS[3]])
    assert dropped == 5


@pytest.mark.parametrize("name", FRAMES)
def test_the_first_bad_row_is_named(name: str) -> None:
    with pytest.raises(DataError, match="row 1, column 'origin'") as caught:
        coded(FRAMES[name], STRICT, drop=False)
    assert (caught.value.row, caught.value.column) == (1, "origin")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1440.0001, -1440.0001, None])
def test_a_bad_bin_value(bad: float | None) -> None:
    table = pa.table({"origin": ["EWR", "JFK"], "month": [1, 2], "delay": pa.array([0.0, bad], pa.float64())})
    with pytest.raises(DataError, match="row 1, column 'delay'.*missing=True"):
        coded(table, STRICT, drop=False)


@pytest.mark.parametrize("bad", [0, 13, 2.5, 2**63, 2**64 - 1, -(2**63), np.nan])
def test_a_bad_integer(bad: float) -> None:
    kind = pa.float64() if isinstance(bad, float) else pa.uint64() if bad >= 2**63 else pa.int64()
    table = pa.table({"origin": ["EWR", "JFK"], "month": pa.array([1, bad], kind), "delay": [0.0, 1.0]})
    with pytest.raises(DataError, match="row 1, column 'month'"):
        coded(table, STRICT, drop=False)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float16(), pa.float32()])
def test_narrow_and_wide_types_hold_what_the_schema_wants(kind: pa.DataType) -> None:
    schema = Schema({"x": integers(-300, 300, other=True), "y": bins([-300, 7, 300], other=True)})
    values = pa.array([5, 7, 120]).cast(kind)
    cells, _ = coded(pa.table({"x": values, "y": values}), schema, drop=False)
    assert cells.tolist() == [schema.cell({"x": v, "y": v}) for v in (5, 7, 120)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int64(), pa.uint64()])
def test_integer_categories_beyond_the_columns_type(kind: pa.DataType) -> None:
    schema = Schema({"x": categories(-5, 7, 1000, other=True, missing=True)})
    values = pa.array([7, 3, None]).cast(kind)
    cells, _ = coded(pa.table({"x": values}), schema, drop=False)
    assert cells.tolist() == [schema.cell({"x": v}) for v in (7, OTHER, None)]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", pa.decimal128(5, 3), pa.decimal256(40, 3)], ids=str)
def test_numbers_of_every_type_are_compared_as_the_doubles_they_are(kind: Any) -> None:
    """A single 0.1 is more than a double 0.1, and a decimal one is the same."""
    edges = [-1.0, 0.1, 0.3, 0.7, 2.0]
    texts = ["-1", "0.099", "0.1", "0.101", "0.3", "0.7", "0.701", "1.999"]
    if isinstance(kind, str):
        narrow = np.array(texts, dtype=kind)
        column, doubles = pa.array(narrow), narrow.astype(float).tolist()
    else:
        column, doubles = pa.array(map(Decimal, texts), kind), [float(text) for text in texts]
    cells, _ = coded(pa.table({"x": column}), Schema({"x": bins(edges, other=True)}), drop=False)
    assert cells.tolist() == [sum(edge <= each for edge in edges[1:-1]) for each in doubles]


@pytest.mark.parametrize("number", [1, 2, 31, 32, 33, 34, 127, 128, 129, 300])
def test_few_bins_and_many(number: int) -> None:
    values = [each / 2 for each in range(2 * number + 1)]
    cells, _ = coded(pa.table({"x": values}), Schema({"x": bins(range(number + 1))}), drop=False)
    assert cells.tolist() == [min(int(each), number - 1) for each in values]


def test_boolean_categories() -> None:
    schema = Schema({"x": categories(True, False, missing=True)})
    cells, _ = coded(pa.table({"x": [False, None, True]}), schema, drop=False)
    assert cells.tolist() == [1, 2, 0]
    assert coded([{"x": False}, {"x": None}], schema)[0].tolist() == [1, 2]


def test_a_column_of_nulls_only() -> None:
    table = pa.table({"origin": pa.nulls(2), "month": [1, 2], "delay": [0.0, 1.0]})
    assert coded(table, OPEN)[0].tolist() == [
        OPEN.cell({"origin": None, "month": m, "delay": d}) for m, d in ((1, 0.0), (2, 1.0))
    ]


def test_a_dictionary_of_many_entries_with_nulls() -> None:
    names = [f"n{i}" for i in range(128)]
    indices = pa.array([0, None, 127, 5], pa.int8())
    schema = Schema({"x": categories("n0", "n127", other=True, missing=True)})
    column = pa.DictionaryArray.from_arrays(indices, names)
    assert coded(pa.table({"x": column}), schema)[0].tolist() == [0, 3, 1, 2]


@pytest.mark.parametrize("empty", [[], pa.table({n: pa.array([], pa.null()) for n in STRICT.names}), arrow([])])
def test_empty_batches_are_fine(empty: Any) -> None:
    cells, dropped = coded(empty, STRICT, drop=False)
    assert len(cells) == 0
    assert dropped == 0


def test_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that span many blocks, some of them bad, keep their places."""
    monkeypatch.setattr(intake_module, "BLOCK_ROWS", 10)
    blocks = list(typed_blocks(arrow(ROWS * 20), OPEN, None, drop=False, intake=Intake()))
    assert [block.num_rows for block in blocks] == [10] * 14
    rows = (ROWS * 20)[:137]
    assert coded(arrow(rows), OPEN)[0].tolist() == expected(OPEN, rows)
    good = [row for row in rows if row in (ROWS[0], ROWS[3])]
    cells, dropped = coded(arrow(rows), STRICT, drop=True)
    assert cells.tolist() == expected(STRICT, good)
    assert dropped == 137 - len(good)
    with pytest.raises(DataError, match="row 61, column 'month'"):
        coded(
            arrow([ROWS[0]] * 61 + [{"origin": "JFK", "month": 99, "delay": 0.0}] + [ROWS[0]] * 9), STRICT, drop=False
        )


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (arrow(ROWS).drop(["month"]), "missing: 'month'"),
        (
            arrow(ROWS).drop(["month"]).append_column("extra", pa.array([1] * 7)),
            "missing: 'month'; extra: 1 column that the schema does not name",
        ),
        (pa.Table.from_arrays([pa.array(["JFK"])] * 2, names=["origin", "origin"]), "missing: 'month', 'delay'"),
        (pa.Table.from_arrays([pa.array([1])] * 4, names=["origin", "month", "delay", "month"]), "one is there twice"),
        (arrow(ROWS).set_column(0, "origin", pa.array([1] * 7)), "column 'origin' has Arrow type int64"),
        (arrow(ROWS).set_column(1, "month", pa.array(["1"] * 7)), "column 'month' has Arrow type string"),
        (arrow(ROWS).set_column(1, "month", pa.array([True] * 7)), "column 'month' has Arrow type bool"),
        ([{"origin": "JFK", "month": 1}], "row 0: the columns must be origin, month, delay; missing: 'delay'"),
        ([ROWS[0], {"origin": "JFK", "x": 1}], "row 1: .* extra: 1 column that the schema does not name$"),
        ([ROWS[0], 17], "row 1 is a int"),
        ([{**ROWS[0], "month": "3"}], "row 0, column 'month'"),
        ([{**ROWS[0], "month": True}], "row 0, column 'month'"),
        ([{**ROWS[0], "delay": [1]}], "row 0, column 'delay'"),
        ([{**ROWS[0], "origin": b"JFK"}], "row 0, column 'origin'"),
        ("JFK,1,0", "not as str"),
        (None, "not as NoneType"),
        (42, "not as int"),
    ],
)
def test_frames_that_cannot_be_rows(frame: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        coded(frame, STRICT, drop=False)


def test_the_index_of_a_frame_is_no_column() -> None:
    frame = pd.DataFrame({"origin": ["JFK"], "month": [1], "delay": [0.0]}).set_index("month")
    with pytest.raises(DataError, match="missing: 'month'"):
        coded(frame, STRICT, drop=False)
    index = pd.Index([7], name="month")
    cells, _ = coded(frame.reset_index().set_index(index), STRICT, drop=False)
    assert cells.tolist() == [STRICT.cell({"origin": "JFK", "month": 1, "delay": 0.0})]


def test_columns_that_nobody_asks_about_are_left_out() -> None:
    """As on the command line: a table often has more columns than the schema."""
    rows = [{"origin": "JFK", "month": 1, "delay": 0.0}] * 2
    plain, _ = coded(arrow(rows), STRICT, drop=False)
    extra = arrow(rows).append_column("note", pa.array(["x"] * 2)).append_column("note", pa.array(["y"] * 2))
    for frame in (extra, [{**row, "note": object()} for row in rows]):
        cells, dropped = coded(frame, STRICT, drop=False)
        assert (cells.tolist(), dropped) == (plain.tolist(), 0)


SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"origin": ["JFK", SECRET], "month": [1, 2], "delay": [0.0, 1.0]}),
        pd.DataFrame({"origin": ["JFK", "JFK"], "month": pd.Series([1, SECRET], dtype=object), "delay": [0.0, 1.0]}),
        pd.DataFrame({"origin": pd.Series([7, SECRET], dtype=object), "month": [1, 2], "delay": [0.0, 1.0]}),
        pl.DataFrame({"origin": ["JFK", SECRET], "month": [1, 2], "delay": [0.0, 1.0]}),
        # A file without a header: its first row is taken for the names of columns.
        pa.table({SECRET: ["JFK"], "3": [1], "12.5": [0.0]}),
        pd.DataFrame([["JFK", 1, 0.0]], columns=[SECRET, "3", "12.5"]),
        pl.DataFrame({"origin": ["JFK"], "month": [1], SECRET: [1]}),
        [{SECRET: "JFK", "month": 1, "delay": 0.0}],
        [{"origin": "JFK", "month": 1, SECRET: 1}],
        [{"origin": SECRET, "month": 1, "delay": 0.0}],
        [{"origin": "JFK", "month": SECRET, "delay": 0.0}],
        [{"origin": "JFK", "month": 1, "delay": {SECRET: SECRET}}],
    ],
)
def test_no_error_carries_a_value(frame: Any) -> None:
    with pytest.raises(DataError) as caught:
        coded(frame, STRICT, drop=False)
    error: BaseException | None = caught.value
    assert caught.value.column in (None, *STRICT.names)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    while error is not None:
        assert SECRET not in str(error)
        error = error.__context__ or error.__cause__


def test_a_file_without_a_header_is_recognised() -> None:
    with pytest.raises(DataError) as caught:
        coded(pa.table({"JFK": ["EWR"], "3": [1]}), STRICT, drop=False)
    assert str(caught.value) == (
        "the columns must be origin, month, delay; missing: 'origin', 'month', 'delay'; extra: 2 columns that the "
        "schema does not name (if a file has no header, its first row was taken for the names of columns)"
    )


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "origin": st.none() | st.sampled_from(["EWR", "JFK", "LGA", "", "X"]),
                "month": st.none() | st.integers(-20, 20),
                "delay": st.none() | st.floats() | st.sampled_from([-1440.0, 0.0, 15.0, 60.0, 1440.0]),
            }
        ),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_dicts_and_arrow_agree(rows: list[dict[str, Any]]) -> None:
    assert coded(rows, OPEN)[0].tolist() == coded(arrow(rows), OPEN, drop=False)[0].tolist()
    assert coded(rows, OPEN)[0].tolist() == expected(OPEN, rows)
    strict, dropped = coded(rows, STRICT, drop=True)
    again, dropped_again = coded(arrow(rows), STRICT, drop=True)
    assert strict.tolist() == again.tolist()
    assert dropped == dropped_again == len(rows) - len(strict)


DAY, PLACED = dates("2013-01-01", "2013-12-31"), dates("2013-01-01", "2013-12-31", tz="UTC")
ZONED = pa.timestamp("us", "UTC")
KINDS: dict[str, list[pa.DataType]] = {
    "texts": [pa.string(), pa.large_string(), pa.string_view()],
    "integers": [pa.int8(), pa.uint64(), pa.int64()],
    "reals": [pa.float16(), pa.float64(), pa.decimal128(9, 2), pa.decimal256(40, 2)],
    "booleans": [pa.bool_()],
    "moments": [pa.date32(), pa.date64(), pa.timestamp("s")],
    "others": [pa.binary(), pa.time32("s"), pa.list_(pa.int8())],
}
HELD: list[tuple[Attribute, str, set[str]]] = [
    (categories("x"), "str", {"texts"}),
    (categories(1, 2), "int", {"integers"}),
    (categories(True), "bool", {"booleans"}),
    (integers(1, 9), "int or float", {"integers", "reals"}),
    (bins([0, 1]), "int or float", {"integers", "reals"}),
    (DAY, "dates, timestamps or texts", {"texts", "moments"}),
    (PLACED, "dates, timestamps or texts", {"texts", "moments"}),
]


def refused_or_taken(attribute: Attribute, kind: pa.DataType) -> None:
    """An empty column of a type, handed over."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array([], plain)
    if plain is not kind:
        column = pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), column)
    coded(pa.table({"a": column}), Schema({"a": attribute}))


@pytest.mark.parametrize(("attribute", "wanted", "fitting"), HELD)
def test_a_column_is_of_a_type_that_can_hold_the_values(attribute: Attribute, wanted: str, fitting: set[str]) -> None:
    refused_or_taken(attribute, pa.null())
    for name, kinds in KINDS.items():
        for kind in (*kinds, *(pa.dictionary(pa.int8(), each) for each in kinds)):
            if name in fitting:
                refused_or_taken(attribute, kind)
                continue
            with pytest.raises(DataError, match=f"column 'a' has Arrow type .*, the schema wants {wanted}") as caught:
                refused_or_taken(attribute, kind)
            assert caught.value.column == "a"


def test_instants_need_a_zone_in_the_schema_to_be_dated() -> None:
    refused_or_taken(PLACED, ZONED)
    for kind in (ZONED, pa.dictionary(pa.int8(), ZONED)):
        with pytest.raises(DataError, match="column 'a' has timestamps with a time zone: the schema has to say"):
            refused_or_taken(DAY, kind)
