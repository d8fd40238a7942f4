"""DuckDB and files: any schema and rows give the encoder's cells; collations, odd files, odd texts."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from support.engines import expected, histogram
from support.schemas import schemas
from treering.domain.attribute import ABOVE, Attribute, Bins, Categories, Integers, bins, categories, integers
from treering.domain.calendar import Dated, Dates
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, ParameterError
from treering.trusted.engines.addresses import Address
from treering.trusted.engines.source import Source

SCHEMA = Schema({"origin": categories("EWR", "JFK", other=True), "month": integers(1, 12)})
SECRET = "s3cr3t"


def columns(attribute: Attribute, rows: int) -> st.SearchStrategy[pa.Array]:
    """A column of a type that the attribute takes, with values of every kind: listed, near, far, absent."""
    near: list[Any]
    if isinstance(attribute, Categories):
        texts = st.text(st.characters(codec="utf-8"), max_size=3)
        near = list(attribute.values)
        kinds: dict[type, list[tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
            str: [(pa.string(), texts)],
            int: [(pa.int64(), st.integers(-(2**63), 2**63 - 1)), (pa.int16(), st.integers(-(2**15), 2**15 - 1))],
            bool: [(pa.bool_(), st.booleans())],
        }
        options = kinds[type(attribute.values[0])]
    elif isinstance(attribute, Dated):
        near = list(attribute.edges) if isinstance(attribute, Dates) else []
        options = [(pa.date32(), st.dates()), (pa.timestamp("us"), st.datetimes())]
    else:
        if isinstance(attribute, Integers):
            near = [attribute.low - 1, attribute.low, attribute.high, attribute.high + 1, attribute.low + 0.5]
        else:
            assert isinstance(attribute, Bins)
            near = [*attribute.edges, *(edge + 1 for edge in attribute.edges)]
        options = [
            (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
            (pa.uint64(), st.integers(0, 2**64 - 1)),
            (pa.float64(), st.floats()),
            (pa.float32(), st.floats(width=32)),
        ]

    def fits(kind: pa.DataType, value: Any) -> bool:
        try:
            pa.array([value], kind)
        except (pa.ArrowInvalid, OverflowError, TypeError):
            return False
        return True

    def column(kind: pa.DataType, far: st.SearchStrategy[Any]) -> st.SearchStrategy[pa.Array]:
        value = st.none() | st.sampled_from([each for each in near if fits(kind, each)] or [None]) | far
        return st.lists(value, min_size=rows, max_size=rows).map(lambda values: pa.array(values, kind))

    return st.one_of(*(column(kind, far) for kind, far in options))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, pa.Table]:
    schema = draw(schemas())
    rows = draw(st.integers(0, 12))
    return schema, pa.table({name: draw(columns(each, rows)) for name, each in schema.attributes.items()})


@settings(max_examples=40, deadline=None)
@given(case=tables())
def test_any_schema_and_rows_land_in_the_cells_of_the_encoder(case: tuple[Schema, pa.Table]) -> None:
    schema, rows = case
    order = "the order column"
    connection = ibis.duckdb.connect()
    try:
        given_rows = rows.append_column(order, pa.array(range(rows.num_rows), pa.int32()))
        source = Source.of(connection.create_table("given", given_rows), schema, order)
        wanted = expected(rows, schema, drop=True)
        increment = source.increment(None, on_invalid="drop")
        assert histogram(source, drop=True) == wanted
        assert increment.dropped == rows.num_rows - sum(wanted.values())
        if increment.dropped:
            with pytest.raises(DataError):
                source.increment(None)
    finally:
        connection.disconnect()


def live(rows: pa.Table, ddl: str | None = None) -> Any:
    connection = ibis.duckdb.connect()
    connection.con.register("given", rows)
    connection.raw_sql(ddl or "CREATE TABLE rows AS SELECT * FROM given")
    if ddl:
        connection.raw_sql("INSERT INTO rows SELECT * FROM given")
    return connection.table("rows")


def test_a_collation_does_not_make_different_texts_equal() -> None:
    rows = pa.table({"id": [1, 2, 3], "origin": ["JFK", "jfk", "JFK "], "month": [1, 1, 1]})
    table = live(rows, "CREATE TABLE rows (id INT, origin VARCHAR COLLATE NOCASE, month INT)")
    assert histogram(Source.of(table, SCHEMA)) == {12: 1, 24: 2}


def test_texts_with_zero_bytes() -> None:
    schema = Schema({"x": categories("a\0b", "a", other=True)})
    rows = pa.table({"id": [1, 2, 3], "x": ["a\0b", "a", "a\0"]})
    assert histogram(Source.of(live(rows), schema)) == expected(rows, schema)


def test_cells_beyond_what_a_float_can_tell_apart() -> None:
    schema = Schema({f"x{place}": integers(0, 999_999) for place in range(3)})
    rows = pa.table({"id": [1, 2], **{name: [999_999, 999_998] for name in schema.names}})
    found = histogram(Source.of(live(rows), schema))
    assert sorted(found) == [schema.cell(dict.fromkeys(schema.names, n)) for n in (999_998, 999_999)]


def test_many_categories_and_bins() -> None:
    schema = Schema({"x": categories(*map(str, range(700)), other=True), "y": bins(range(301))})
    rows = pa.table({"id": range(900), "x": [str(i) for i in range(900)], "y": [i % 301 for i in range(900)]})
    assert histogram(Source.of(live(rows), schema)) == expected(rows, schema)


def test_a_table_in_memory_is_known_in_its_process() -> None:
    rows = pa.table({"id": [1], "origin": ["JFK"], "month": [1]})
    one, another = live(rows), live(rows)
    assert Source.of(one, SCHEMA).identity == Source.of(one, SCHEMA).identity != Source.of(another, SCHEMA).identity


def test_a_file_is_one_table_by_every_path(tmp_path: Path) -> None:
    path = tmp_path / "a b#1.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS id, 'JFK' AS origin, 1 AS month")
    (tmp_path / "link").symlink_to(path)
    straight = Source.of(f"duckdb://{tmp_path}/a%20b%231.duckdb#s.t", SCHEMA)
    around = Source.of(f"duckdb://{tmp_path}/link#s.t", SCHEMA)
    assert straight.identity == around.identity == f"duckdb:{path}#s.t"
    assert straight.increment(None).rows == 1
    connection = ibis.duckdb.connect(str(path))
    assert Source.of(connection.table("t", database="s"), SCHEMA).identity == straight.identity
    # While somebody writes, the file is theirs; and it is free again when they are done.
    with pytest.raises(EngineError, match="cannot open the database"):
        straight.increment(None)
    connection.disconnect()
    assert straight.increment(None).rows == 1


def test_files_whose_columns_differ_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "origin": ["JFK"], "month": [1]}), tmp_path / "1.parquet")
    source = Source.of(f"parquet://{tmp_path}", SCHEMA)
    mark = source.increment(None).watermark
    for changed in ({"month": [2.7]}, {"month": ["2"]}, {"months": [2]}):
        pq.write_table(pa.table({"id": [2], "origin": ["JFK"], **changed}), tmp_path / "2.parquet")
        with pytest.raises(EngineError, match="differ in the names or types of their columns: .*'month"):
            source.increment(mark)
    pq.write_table(pa.table({"month": [2], "id": [2], "origin": ["JFK"]}), tmp_path / "2.parquet")
    assert source.increment(mark).rows == 1


def test_a_file_without_a_header_shows_nothing_of_its_first_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"1,{SECRET},3\n2,JFK,1\n")
    pq.write_table(pa.table({"1": [2], SECRET: ["JFK"], "3": [1]}), tmp_path / "rows.parquet")
    live_table = live(pa.table({"1": [2], SECRET: ["JFK"], "3": [1]}))
    for table in (f"csv://{tmp_path}/rows.csv", f"parquet://{tmp_path}/rows.parquet", live_table):
        with pytest.raises(
            DataError, match="no column 'origin', 'month', 'id' among its 3 .if a file has no"
        ) as caught:
            Source.of(table, SCHEMA)
        assert caught.value.column == "origin"
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_columns_that_the_schema_does_not_name_are_not_named_in_errors(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "origin": ["JFK"], "month": [1]}), tmp_path / "1.parquet")
    source = Source.of(f"parquet://{tmp_path}", SCHEMA)
    pq.write_table(pa.table({"2": [3], SECRET: ["JFK"], "month": [1]}), tmp_path / "2.parquet")
    with pytest.raises(EngineError, match="columns: 'origin', 3 columns that the schema does not name") as caught:
        source.increment(None)
    assert SECRET not in str(caught.value)
    table = live(pa.table({"id": [2], "origin": ["JFK"], "month": [1], SECRET: [1]}))
    source = Source.of(table, SCHEMA)
    table.get_backend().raw_sql(f"ALTER TABLE rows DROP COLUMN {SECRET}")
    assert source.increment(None).rows == 1


def test_csv_files_match_their_columns_by_name(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,origin,month\n1,JFK,1\n")
    source = Source.of(f"csv://{tmp_path}", SCHEMA)
    (tmp_path / "2.csv").write_text("month,origin,id\n2,EWR,7\n")
    assert histogram(source) == {12: 1, 1: 1}
    (tmp_path / "3.csv").write_text(f"id,origin\n9,{SECRET}\n")
    with pytest.raises(EngineError) as caught:
        source.increment(None)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_what_a_csv_field_means(tmp_path: Path) -> None:
    """Empty is null, quoted empty is a text, and what cannot be read is missing."""
    flags: dict[str, Any] = {"other": True, "missing": True}
    schema = Schema(
        {
            "text": categories("", "007", **flags),
            "whole": integers(0, 2**20 - 4, **flags),
            "real": bins([0, 1, 2], **flags),
            "key": categories(0, 2**63 - 1, **flags),
            "yes": categories(True, **flags),
        }
    )
    lines = [
        ('""', "3", "1.5", "0", "true"),
        ("007", "3.0", "1", "9223372036854775807", "F"),
        ("7", "1e2", "-0.0", "9223372036854775808", "maybe"),
        ("", "", "", "", ""),
        ('"x"', "2.5", "abc", "1.0", '""'),
        ("NULL", "abc", "nan", "x", "1"),
        ("nan", "9007199254740993", "inf", "1", "0"),
        ("é", "nan", " 1 ", " 0 ", " TRUE "),
    ]
    (tmp_path / "a.csv").write_text(
        "id,text,whole,real,key,yes\n" + "\n".join(f"{i},{','.join(line)}" for i, line in enumerate(lines))
    )
    other, none = "other", None
    meant: list[tuple[Any, ...]] = [
        ("", 3, 1.5, 0, True),
        ("007", 3, 1, 2**63 - 1, other),
        (other, 100, 0, none, none),
        (none, none, none, none, none),
        (other, none, none, none, none),
        (other, none, none, none, True),
        (other, ABOVE, ABOVE, other, other),
        (other, none, 1, 0, True),
    ]
    cells = []
    for row in meant:
        cell = 0
        for attribute, value in zip(schema.attributes.values(), row, strict=True):
            code = attribute.other_code if value == "other" else attribute.code(value)
            assert code is not None
            cell = cell * attribute.size + code
        cells.append(cell)
    assert sorted(histogram(Source.of(f"csv://{tmp_path}", schema))) == sorted(set(cells))


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("flights.parquet", "must be duckdb:///"),
        ("sqlite:///x.db#t", "must be duckdb:///"),
        ("parquet://folder", "with an absolute path"),
        ("parquet:///a/*.parquet", "without \\*"),
        ("duckdb:///a.duckdb", "must name its table behind a #"),
        ("parquet:///a#t", "must name its table behind a #, unless it is files"),
        ("postgresql://me:pw@host/db#t", "must not hold a password"),
        ("postgresql://me@host/db?password=pw#t", "must not hold a password"),
        ("postgresql://me@host/db?PASSWORD=pw#t", "must not hold a password"),
        ("postgresql://me@host/db?scram_client_key=pw#t", "must not hold a password"),
        ("postgresql://me@host/db?oauth_client_secret=pw#t", "must not hold a password"),
        ("postgresql://me@host/db?service=pw#t", "must not hold a password"),
        ("postgresql://me:12/pw@host/db#t", "must not hold a password"),
        ("postgresql://me@host:port/db#t", "must be duckdb:///"),
        ("postgresql://me@host/#t", "must be duckdb:///"),
    ],
)
def test_addresses_that_are_none(address: str, match: str) -> None:
    with pytest.raises(ParameterError, match=match) as caught:
        Source.of(address, SCHEMA)
    assert "pw" not in str(caught.value)


def test_places_where_nothing_is(tmp_path: Path) -> None:
    for address, match in (
        (f"duckdb://{tmp_path}/none.duckdb#t", "no DuckDB file"),
        (f"parquet://{tmp_path}", "no file or folder of \\*.parquet"),
        (f"csv://{tmp_path}/none.csv", "no file or folder of \\*.csv"),
        (f"postgresql://me@/db?host={tmp_path}#t", "cannot open the database"),
    ):
        with pytest.raises(EngineError, match=match):
            Source.of(address, SCHEMA)
    nothing: Any = 7
    with pytest.raises(ParameterError, match="must be an Ibis table or an address, not int"):
        Source.of(nothing, SCHEMA)


# -- what a file may reach ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reading",
    [
        *("read_csv('{other}')", "read_text('{other}')", "'{other}'", "glob('{folder}/*')"),
        *("read_parquet('{folder}/x.parquet')", "(SELECT * FROM read_blob('{other}'))", "sniff_csv('{other}')"),
    ],
)
def test_a_view_in_a_duckdb_file_reads_no_other_file(tmp_path: Path, reading: str) -> None:
    other, path = tmp_path / "other.csv", tmp_path / "rows.duckdb"
    other.write_text("id,origin,month\n1,JFK,3\n")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x.parquet")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rows AS SELECT 1 AS id, 'JFK' AS origin, 3 AS month")
        connection.execute("CREATE VIEW inner_view AS SELECT * FROM rows")
        columns = "(SELECT count(*) FROM {}) AS id, 'JFK' AS origin, 3 AS month"
        place = reading.format(other=other, folder=tmp_path)
        connection.execute(f"CREATE VIEW outer_view AS SELECT {columns.format(place)}")
    assert Source.of(f"duckdb://{path}#inner_view", SCHEMA).increment(None).rows == 1
    with pytest.raises(EngineError, match="could not be (looked at|read)"):
        Source.of(f"duckdb://{path}#outer_view", SCHEMA).increment(None)


def test_a_duckdb_file_loads_no_extension_and_attaches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.duckdb"
    duckdb.connect(str(path)).close()
    with Address.parse(f"duckdb://{path}#rows")._duckdb(str(tmp_path / "spills")) as connection:
        for statement in (
            *("LOAD httpfs", "INSTALL httpfs", f"ATTACH '{tmp_path}/new.duckdb'", "SET enable_external_access = true"),
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)


def test_nan_in_parquet_files_of_a_caller_s_own_connection(tmp_path: Path) -> None:
    """Statistics of Parquet files leave NaN out, and DuckDB believes them unless it is told not to."""
    rows = pa.table({"id": range(1000), "delay": [1.0] * 600 + [float("nan")] * 200 + [None] * 200})
    pq.write_table(rows, tmp_path / "rows.parquet")
    backend = ibis.duckdb.connect(disabled_optimizers="join_order")
    schema = Schema({"delay": bins([0, 2, 5], other=True, missing=True)})
    table = backend.read_parquet(tmp_path / "rows.parquet", table_name="rows")
    assert histogram(Source.of(table, schema)) == expected(rows, schema)
    ((disabled,),) = backend.raw_sql("SELECT current_setting('disabled_optimizers')").fetchall()
    assert set(disabled.split(",")) == {"join_order", "statistics_propagation"}
