"""One column at a time, in DuckDB: every value falls into the cell, and adds the units, that typed rows have for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any, Final

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa
import pytest

import treering as tr
from support.coded import cells_of, sums_of
from treering.domain.attribute import Attribute, bins, categories, integers
from treering.domain.schema import Schema
from treering.errors import DataError, SchemaError
from treering.trusted.engines import binning
from treering.trusted.engines.binning import Counted, check_table, distinct_places, grouped_by_value, statement
from treering.trusted.rows.typed import typed

NAN, INFINITY = math.nan, math.inf
TEXTS: Final = ("EWR", "JFK ", "jfk", "", "it's", "é", "e\u0301", "a\0b")
EDGES: Final = [-100.5, -0.1, 0.0, 0.1 + 0.2, 7.0, 100.0]
REALS: Final = [*EDGES, -0.3, 0.3, 6.999, 100.5, -101.0, NAN, None, INFINITY, -INFINITY, 5e-324, -0.0, 1e308, 3.0, 12.0]
WHOLES: Final = [1, 12, 0, 13, -1, None, 6, -101, -100, 7, 99, 100, 101, 127, -128]

COLUMNS: Final[dict[str, tuple[Any, pa.Array]]] = {
    "texts": (lambda **open: categories(*TEXTS, **open), pa.array([*TEXTS, "JFK", "ewr", "É", "a", None])),
    "codes": (lambda **open: categories(7, 0, -(2**63), **open), pa.array([7, 0, -(2**63), 8, None], pa.int64())),
    "short codes": (lambda **open: categories(7, 300, -300, **open), pa.array([7, 44, -44, None], pa.int8())),
    "flags": (lambda **open: categories(True, **open), pa.array([True, False, None])),
    "integers": (lambda **open: integers(1, 12, **open), pa.array(WHOLES, pa.int8())),
    "integers as reals": (lambda **open: integers(-3, 12, **open), pa.array(REALS, pa.float64())),
    "bins of reals": (lambda **open: bins(EDGES, **open), pa.array(REALS, pa.float64())),
    "bins of singles": (lambda **open: bins([-1, 0.1, 0.7], **open), pa.array([0.1, 0.7, -1, 0, NAN, None], "f4")),
    "bins of integers": (lambda **open: bins([-100.5, 0, 7, 100], **open), pa.array(WHOLES, pa.int16())),
    "bins of many integers": (lambda **open: bins([-(2**40), 0, 2**40], **open), pa.array(WHOLES, pa.int64())),
    "days": (
        lambda **_: tr.dates("2013-01-01", "2013-03-31", by="month"),
        pa.array([date(2012, 12, 31), date(2013, 1, 1), date(2013, 2, 28), date(2013, 3, 31), date(2013, 4, 1), None]),
    ),
    "bins of decimals": (
        lambda **open: bins([0, 0.1, 7], **open),
        pa.array([None, *map(Decimal, ("0.10", "0.09", "-0.01", "7.00", "6.99"))], pa.decimal128(9, 2)),
    ),
}


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    made = ibis.duckdb.connect()
    yield made
    made.disconnect()


def counted(connection: Any, column: pa.Array, schema: Schema) -> dict[int, tuple[int, ...]]:
    """The cells by DuckDB, with their rows and sums."""
    table = connection.create_table("given", pa.table({"id": range(len(column)), "x": column}), overwrite=True)
    check_table(table, schema, "id")
    lines = connection.to_pyarrow(statement(table, schema, "id", None)).to_pylist()
    sums = [name for name in lines[0] if name.startswith("s")]
    return {
        line["key"]: (line["rows"], *(line[name] for name in sums)) for line in lines if line["part"] == Counted.CELL
    }


def encoded(column: pa.Array, schema: Schema) -> dict[int, tuple[int, ...]]:
    rows = typed(pa.table({"x": column}), schema)
    sums = sums_of(rows, schema)
    found: dict[int, list[int]] = {}
    for place, cell in enumerate(cells_of(rows, schema).tolist()):
        total = found.setdefault(cell, [0] * (1 + len(sums)))
        for column_of, add in enumerate((1, *(int(each[place]) for each in sums))):
            total[column_of] += add
    return {cell: tuple(total) for cell, total in found.items()}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("open_ended", [True, False], ids=["open", "strict"])
def test_every_value_has_the_cell_of_typed_rows(connection: Any, name: str, open_ended: bool) -> None:
    """For the first column, what does not fit is cell -1: as axes call it."""
    make, column = COLUMNS[name]
    schema = Schema({"x": make(other=open_ended, missing=open_ended)})
    assert counted(connection, column, schema) == encoded(column, schema)


@pytest.mark.parametrize("name", ["bins of integers", "integers"])
def test_bins_of_integers_have_the_same_cells_by_value_and_by_bin(
    connection: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binning, "FEW_GROUPS", 0)
    make, column = COLUMNS[name]
    for open_ended in (True, False):
        schema = Schema({"x": make(other=open_ended, missing=open_ended)})
        assert counted(connection, column, schema) == encoded(column, schema)


UNITS: Final[dict[str, tuple[Attribute, pa.Array]]] = {
    "reals": (
        tr.numbers(-5, 20, step=0.01, edges=[0, 0.3, 10]),
        pa.array(
            [0.0, 0.005, 0.015, 0.285, 1.005, 19.995, 20.0, 20.1, -5.0, -4.995, -6.0, NAN, None, INFINITY, -1e308]
        ),
    ),
    "singles": (tr.numbers(0, 3, step=0.1, edges=[1, 2]), pa.array([0.05, 0.15, 2.95, 3, NAN, None, 1.25], "f4")),
    "integers": (tr.numbers(-100, 100, edges=[-7, 0]), pa.array([0, -100, 100, 101, -101, None, 7, 32000], pa.int16())),
    "large steps": (
        tr.numbers(-(2**50), 2**50, step=2**40, edges=[0, 2**49]),
        pa.array([0, 2**62, -(2**62), 2**39, 2**39 - 1, 3 * 2**39, None, -(2**39)], pa.int64()),
    ),
    "decimals": (
        tr.numbers(0, 10, step=0.05, edges=[1, 5]),
        pa.array([None, *map(Decimal, ("0.025", "0.024", "0.075", "9.975", "10.001", "-3"))], pa.decimal128(9, 3)),
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_every_value_adds_the_units_of_typed_rows(connection: Any, name: str) -> None:
    attribute, column = UNITS[name]
    schema = Schema({"x": attribute})
    table = connection.create_table("rows", pa.table({"id": range(len(column)), "x": column}), overwrite=True)
    found = connection.to_pyarrow(table.select("id", units=binning._half_steps(table.x, attribute))).sort_by("id")
    (units,) = sums_of(typed(pa.table({"x": column}), schema), schema)
    assert found["units"].to_pylist() == units.tolist()
    assert counted(connection, column, schema) == encoded(column, schema)


# -- a statement and its lines -----------------------------------------------------------------------------------------


TWO = Schema({"a": categories("x", "y"), "b": integers(1, 3), "c": tr.numbers(0, 10, step=1, edges=[0, 5])})


def lines_of(connection: Any, ids: list[int | None], after: int | None) -> tuple[Counter[Any], dict[int, Any]]:
    rows = {"id": pa.array(ids, pa.int64()), "a": ["x", "y", "z", "y", "x"][: len(ids)]}
    table = connection.create_table(
        "two", pa.table({**rows, "b": [1, 3, 2, 9, 2][: len(ids)], "c": [1, 2, 3, 4, 5]}), overwrite=True
    )
    lines = connection.to_pyarrow(statement(table, TWO, "id", after)).to_pylist()
    cells = Counter({line["key"]: line["rows"] for line in lines if line["part"] == Counted.CELL})
    others = {line["part"]: (line["key"], line["rows"]) for line in lines if line["part"] != Counted.CELL}
    assert all(line["s0"] == 0 for line in lines if line["part"] != Counted.CELL)
    return cells, others


def test_the_lines_of_a_first_reading(connection: Any) -> None:
    """A row that does not fit counts for its first bad column; the smallest order value comes with the unplaced."""
    cells, others = lines_of(connection, [7, 9, 8, 4, None], None)
    sizes = TWO.shape
    first = (0 * sizes[1] + 0) * sizes[2]
    assert sum(cells.values()) == 5
    assert (cells[-1], cells[-2]) == (1, 1)
    assert {first <= cell < TWO.cells for cell in cells if cell >= 0} == {True}
    assert others == {Counted.PAST: (9, 5), Counted.UNPLACED: (4, 1)}


def test_the_lines_of_a_later_reading(connection: Any) -> None:
    cells, others = lines_of(connection, [7, 9, 8, 4, None], 7)
    assert sum(cells.values()) == 2
    assert others == {Counted.PAST: (9, 2), Counted.BELOW: (7, 2), Counted.UNPLACED: (0, 1)}


@pytest.mark.parametrize(("after", "last", "number"), [(None, 9, 4), (None, 8, 3), (4, 9, 3), (4, 8, 2), (9, 9, 0)])
def test_different_order_values_past_the_watermark(connection: Any, after: int | None, last: int, number: int) -> None:
    table = connection.create_table("ids", pa.table({"id": [4, 4, 7, 8, 8, 9, 9, None]}), overwrite=True)
    assert connection.to_pyarrow(distinct_places(table, "id", after, last)).as_py() == number


# -- which columns are grouped by value, and which are refused ---------------------------------------------------------


def test_literals_are_as_wide_as_engines_make_them() -> None:
    for number in (0, 1, -1, 62, 63, 2**31 - 1, 1 - 2**31):
        assert binning._whole(number).type() == dt.int32
        assert binning._whole(number).op().value == number
    for number in (2**31, -(2**31), 2**53, -(2**62)):
        assert binning._whole(number).type() == dt.int64
        assert binning._whole(number).op().value == number


def spans(schema: Schema, **columns: str) -> dict[str, tuple[int, int]]:
    return grouped_by_value(ibis.table(columns, name="rows"), schema)


def test_the_span_of_values_that_have_a_code() -> None:
    """Without a cell for values above, the last bin has both of its ends; with one, it has not."""
    for edges, closed, open_span in (([0, 5, 10], (0, 10), (0, 9)), ([-0.5, 5, 10.5], (0, 10), (0, 10))):
        assert spans(Schema({"x": bins(edges)}), x="int64") == {"x": closed}
        assert spans(Schema({"x": bins(edges, other=True)}), x="int64") == {"x": open_span}
    assert spans(Schema({"x": bins([0, 5, 10]), "y": integers(-3, 4)}), x="float64", y="float64") == {"y": (-3, 4)}
    named = Schema({"x": bins([0, 5, 10], column="z")})
    assert spans(named, z="int64") == {"x": (0, 10)}


def test_bins_are_grouped_by_value_up_to_few_groups() -> None:
    """A column of integers has two values more than its span: below it, and above."""
    assert binning.FEW_GROUPS == 2**15
    for high, fits in ((2**15 - 3, True), (2**15 - 2, False)):
        assert bool(spans(Schema({"x": bins([0, 5, high])}), x="int64")) == fits
    both = Schema({"x": bins([0, 5, 2**14 - 3]), "y": categories("a", "b")})
    assert spans(both, x="int64", y="string")
    wider = Schema({"x": bins([0, 5, 2**14 - 2]), "y": categories("a", "b")})
    assert not spans(wider, x="int64", y="string")


def test_columns_that_cannot_hold_the_values_are_refused() -> None:
    fitting: list[tuple[Attribute, list[str], list[str]]] = [
        (categories("x"), ["string"], ["int64", "boolean", "date"]),
        (categories(1, 2), ["int8", "uint64"], ["float64", "string", "boolean"]),
        (categories(True), ["boolean"], ["int8", "string"]),
        (integers(1, 3), ["int8", "uint64", "float32", "decimal(9, 2)"], ["string", "boolean", "date"]),
        (bins([0, 1]), ["int8", "float64", "decimal(9, 2)"], ["string", "boolean"]),
        (tr.dates("2013-01-01", "2013-12-31"), ["date", "timestamp", "string"], ["int64", "time"]),
        (tr.dates("2013-01-01", "2013-12-31", tz="UTC"), ["date", "timestamp('UTC')"], ["float64"]),
    ]
    for attribute, kinds, others in fitting:
        for kind in kinds:
            check_table(ibis.table({"id": "int64", "x": kind}, name="t"), Schema({"x": attribute}), "id")
        for kind in others:
            with pytest.raises(DataError, match="column 'x' has type .*, the schema wants") as caught:
                check_table(ibis.table({"id": "int64", "x": kind}, name="t"), Schema({"x": attribute}), "id")
            assert caught.value.column == "x"
    zoned = ibis.table({"id": "int64", "x": dt.Timestamp(timezone="UTC")}, name="t")
    with pytest.raises(DataError, match="column 'x' has timestamps with a time zone: the schema has to say"):
        check_table(zoned, Schema({"x": fitting[5][0]}), "id")


@pytest.mark.parametrize(("kind", "fits"), [("int8", True), ("int64", True), ("uint32", True), ("uint64", False)])
def test_an_order_column_is_of_integers_of_64_bits(kind: str, fits: bool) -> None:
    schema = Schema({"x": categories("a")})
    table = ibis.table({"id": kind, "x": "string", "f": "float64"}, name="t")
    if fits:
        check_table(table, schema, "id")
    for order in ["f", "x", *([] if fits else ["id"])]:
        with pytest.raises(DataError, match=f"the order column '{order}' has type") as caught:
            check_table(table, schema, order)
        assert caught.value.column == order


def test_what_is_written_into_a_statement_has_a_limit() -> None:
    for kind, most, more in (
        ("string", categories(*map(str, range(4096))), categories(*map(str, range(4097)))),
        ("int64", bins(range(4097)), bins(range(4098))),
    ):
        table = ibis.table({"id": "int64", "x": kind}, name="t")
        check_table(table, Schema({"x": most}), "id")
        with pytest.raises(SchemaError, match="takes at most 4,096 categories or bins of an attribute, not 4,097"):
            check_table(table, Schema({"x": more}), "id")
