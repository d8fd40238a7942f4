"""Counting by GROUP BY: the numbers that counts of cells give, over Arrow and over Parquet, for any intervals."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.grouped import place_of
from support.schemas import queries, schemas
from treering.arrays import Ints
from treering.domain.attribute import Attribute
from treering.domain.axis import name_of
from treering.domain.calendar import DatePart
from treering.domain.groups import Groups
from treering.domain.sums import Grid, Sums, summable, sums_of, valued
from treering.mechanisms.histogram.hypothesis import rows_of
from treering.trusted import distinct as distinct_module
from treering.trusted.operations.groups import reach, released
from treering.trusted.rows import tally as tally_module
from treering.trusted.rows.tally import Codes, Engine, Piece, tally
from treering.trusted.rows.typed import typed

MEMORY = Engine()
FLIGHTS = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA", other=True, missing=True),
        "month": tr.integers(1, 12, other=True, missing=True),
        "fare": tr.numbers(0, 500, step=0.01, edges=[0, 50, 100, 500]),
        "hour": tr.dates(part="hour", column="time"),
        "day": tr.dates("2013-01-01", "2013-12-31", by="month", column="time"),
    }
)


def flights(rows: int, seed: int = 1) -> pa.Table:
    """Rows of all sorts."""
    generator = np.random.default_rng(seed)
    moments = generator.integers(1_350_000_000, 1_400_000_000, rows).astype("datetime64[s]")
    return pa.table(
        {
            "origin": pa.array(
                np.array(["EWR", "JFK", "LGA", "SFO", None])[generator.integers(0, 5, rows)], pa.string()
            ),
            "month": pa.array(generator.integers(-1, 15, rows), mask=generator.random(rows) < 0.1),
            "fare": pa.array(generator.normal(100, 120, rows), mask=generator.random(rows) < 0.1),
            "time": pa.array(moments, pa.timestamp("s"), mask=generator.random(rows) < 0.1),
        }
    )


def code_of(attribute: Attribute, value: Any) -> int:
    """The oracle of one value: its code by the attribute's own rules, in Python."""
    if isinstance(attribute, DatePart) and value is not None:
        value = attribute.part_of(value)
    if value is None:
        code = attribute.missing_code
    else:
        code = attribute.regular_code(value)
        code = attribute.outside_code(value) if code is None else code
    assert code is not None
    return code


def units_of(attribute: Attribute, values: Sequence[Any]) -> list[int]:
    """The oracle of u: half steps of each value, 0 where it is missing or not added up."""
    grid = Grid.of(attribute)
    assert grid is not None
    summed = valued(attribute)
    return [
        0
        if value is None or not summed[code_of(attribute, value)]
        else int(grid.half_steps(np.array([float(value)]))[0])
        for value in values
    ]


def counted(schema: tr.Schema, table: pa.Table, edges: Sequence[int], groups: Groups, sums: Sums | None) -> Ints:
    """The oracle: rows one by one."""
    columns = {
        name: table.column(attribute.column or name).to_pylist() for name, attribute in schema.attributes.items()
    }
    codes = {
        name: np.array([code_of(attribute, value) for value in columns[name]])
        for name, attribute in schema.attributes.items()
    }
    place = place_of(groups, schema, np.stack([codes[name] for name in schema.names]))
    found = np.zeros((len(edges) - 1, released(groups, sums)), dtype=np.int64)
    for leaf, (start, end) in enumerate(pairwise(edges)):
        for row in range(start, end):
            if place[row] < 0:
                continue
            if sums is None or sums.counts:
                found[leaf, place[row]] += reach(sums)
            if sums is not None:
                name = name_of(sums.scalar, schema)
                (unit,) = units_of(schema.attributes[name], columns[name][row : row + 1])
                found[leaf, place[row] + (groups.number if sums.counts else 0)] += unit
    return found


def tallied(
    engine: Engine, rows: Sequence[Piece], schema: tr.Schema, groups: Groups, edges: Sequence[int], sums: Sums | None
) -> Ints:
    """The tally as an array of intervals by numbers."""
    found = np.zeros((len(edges) - 1, released(groups, sums)), dtype=np.int64)
    leaf, place, number = tally(lambda: engine, rows, schema, groups, edges, sums)
    assert len(np.unique(leaf * found.shape[1] + place)) == len(leaf)
    found[leaf, place] = number
    return found


def pieces(table: pa.Table, schema: tr.Schema, cuts: Sequence[int], folder: Path | None = None) -> list[Piece]:
    """The rows in several pieces, in files if there is a folder."""
    whole, made = typed(table, schema), list[Piece]()
    for start, end in zip([0, *cuts], [*cuts, whole.num_rows], strict=True):
        content: pa.Table | Path = whole.slice(start, end - start)
        if folder is not None:
            path = folder / f"{len(made):08d}.parquet"
            pq.write_table(content, path, row_group_size=64)
            content = path
        made.append(Piece(start, end - start, content))
    return made


GROUPS = {
    "all": Groups((), np.zeros((), dtype=np.int64)),
    "origins": Groups.marginal(FLIGHTS, ["origin"]),
    "winter": Groups.pair(tr.parse("month IN (12, 1, 2) AND origin = 'JFK'", FLIGHTS)),
    "some": Groups.of([tr.parse("origin = 'JFK'", FLIGHTS), tr.parse("origin = 'LGA' AND fare >= 100", FLIGHTS)]),
    "hours": Groups.marginal(FLIGHTS, ["hour", "day"]),
    "cells": Groups.marginal(FLIGHTS, ["origin", "month", "fare", "day"]),
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("summed", [None, "fare", "month"])
@pytest.mark.parametrize("edges", [(0, 900), (100, 101), (250, 610), tuple(range(0, 901, 30)), (0, 7, 300, 301, 900)])
def test_tallies_are_those_of_counted_cells(
    name: str, summed: str | None, edges: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, groups = flights(900), GROUPS[name]
    sums = None if summed is None else sums_of(FLIGHTS, FLIGHTS.index(summed), counts=name != "some")
    expected = counted(FLIGHTS, table, edges, groups, sums)
    engine = Engine(tmp_path)
    in_memory, stored = pieces(table, FLIGHTS, [300, 310]), pieces(table, FLIGHTS, [300, 310], tmp_path)
    mixed = [stored[0], in_memory[1], stored[2]]
    for small in (0, tally_module.SMALL):  # by DuckDB, and by hand
        monkeypatch.setattr(tally_module, "SMALL", small)
        assert np.array_equal(tallied(MEMORY, in_memory, FLIGHTS, groups, edges, sums), expected)
        assert np.array_equal(tallied(engine, stored, FLIGHTS, groups, edges, sums), expected)
        assert np.array_equal(tallied(engine, mixed, FLIGHTS, groups, edges, sums), expected)
    engine.close()


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_so_they_are_for_any_schema_and_question(data: st.DataObject) -> None:
    schema = data.draw(schemas(most_attributes=3, most_values=5))
    cells = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(0, schema.cells, 200)
    asked = data.draw(queries(schema))
    groups = Groups.atoms([asked]) if asked.attributes else Groups((), np.zeros((), dtype=np.int64))
    table = rows_of(schema, cells)
    if any(isinstance(each, DatePart) for each in schema.attributes.values()):  # of which rows_of writes the part
        return
    if any(table.column(name).null_count and not each.missing for name, each in schema.attributes.items()):
        return  # rows_of writes null for other values, and this schema has no cell for null
    with_sums = summable(schema)[:1]
    sums = next((sums_of(schema, place, counts=bool(place % 2)) for place in with_sums), None)
    edges = (0, *sorted(data.draw(st.sets(st.integers(1, 199), max_size=4))), 200)
    expected = counted(schema, table, edges, groups, sums)
    for small in (0, tally_module.SMALL):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tally_module, "SMALL", small)
            assert np.array_equal(tallied(MEMORY, pieces(table, schema, [50]), schema, groups, edges, sums), expected)


NASTY = tr.Schema(
    {
        "text": tr.categories("a", "b'\"", "ß", "\x00", other=True, missing=True),
        "flag": tr.categories(True, False, missing=True),
        "one": tr.categories("a", column="text", other=True, missing=True),
        "code": tr.categories(*range(0, 100, 2), other=True, missing=True),
        "whole": tr.integers(-3, 8, other=True, missing=True),
        "wide": tr.bins([-1.0, 0.0, 0.5, 2.0], other=True, missing=True),
        "sum": tr.numbers(-2, 2, step=0.25, edges=[-2, 0, 2], column="wide"),
        "day": tr.dates("2020-01-01", "2020-12-31", by="month", column="time"),
        "hour": tr.dates(part="hour", column="time"),
    }
)


def nasty(generator: np.random.Generator, rows: int, distinct: int) -> pa.Table:
    """Rows with nulls, NaN, infinities, unlisted texts and huge integers; up to ``distinct`` values in a column."""
    texts = ["a", "b'\"", "ß", "\x00", "", "z", None, *(f"t{number}" for number in range(distinct))]
    wide = [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, math.nextafter(0.5, 0), 2.0, None, *np.arange(distinct) / 7]
    whole = [-(2**63), 2**63 - 1, None, *range(-5, 5 + distinct)]
    recent = (datetime(2020, 1 + number % 12, 3, number % 24) for number in range(distinct + 1))
    times = [datetime(1, 1, 1), datetime(9999, 12, 31, 23), None, *recent]

    def some(values: list[Any]) -> list[Any]:
        return [values[place] for place in generator.integers(0, len(values), rows)]

    return pa.table(
        {
            "text": pa.array(some(texts), pa.string()),
            "flag": pa.array(some([True, False, None]), pa.bool_()),
            "code": pa.array(some(whole), pa.int64()),
            "whole": pa.array(some(whole), pa.int64()),
            "wide": pa.array(some(wide), pa.float64()),
            "time": pa.array(some(times), pa.timestamp("us")),
        }
    )


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_values_as_keys_give_what_classes_and_counting_by_hand_give(data: st.DataObject) -> None:
    """By values of columns with few, by classes, by both after too many lines, and without a statement."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    table = nasty(generator, 300, data.draw(st.sampled_from([0, 3, 200])))
    names = data.draw(st.sets(st.sampled_from(NASTY.names), max_size=4))
    groups = Groups.marginal(NASTY, sorted(names)) if names else GROUPS["all"]
    summed = data.draw(st.sampled_from([None, "sum", "whole"]))
    sums = None if summed is None else sums_of(NASTY, NASTY.index(summed), counts=data.draw(st.booleans()))
    edges = (0, *sorted(data.draw(st.sets(st.integers(1, 299), max_size=20))), 300)
    cuts = sorted(data.draw(st.sets(st.integers(1, 299), max_size=3)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_memory, stored = pieces(table, NASTY, cuts), pieces(table, NASTY, cuts, folder)
        expected = tallied(MEMORY, in_memory, NASTY, groups, edges, sums)
        for distinct, lines in ((2**20, 2**17), (0, 2**17), (2**20, data.draw(st.integers(0, 40)))):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(distinct_module, "MOST_DISTINCT", distinct)
                patch.setattr(distinct_module, "MOST_JOINT", 2**60)
                patch.setattr(distinct_module, "RECURRING", 0)
                patch.setattr(tally_module, "MOST_LINES", lines)
                patch.setattr(tally_module, "SMALL", 0)
                for rows in (in_memory, stored):
                    engine = Engine(folder)
                    assert np.array_equal(tallied(engine, rows, NASTY, groups, edges, sums), expected)
                    engine.close()


@pytest.mark.parametrize(("distinct", "few"), [(3, {"whole:integer", "text:text"}), (200, set())])
def test_columns_with_few_values_are_found_in_tables_and_files(distinct: int, few: set[str], tmp_path: Path) -> None:
    table = nasty(np.random.default_rng(3), 3000, distinct)
    columns = ["whole:integer", "text:text"]
    for folder in (None, tmp_path):
        found = [each.content for each in pieces(table, NASTY, [1000], folder)]
        contents = [each for each in found if not isinstance(each, Codes)]
        assert distinct_module.few_valued(contents, columns) == few


def test_joint_values_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    (piece,) = pieces(nasty(np.random.default_rng(3), 3000, 3), NASTY, [])
    assert isinstance(piece.content, pa.Table)
    monkeypatch.setattr(distinct_module, "MOST_JOINT", 20)
    assert distinct_module.few_valued([piece.content], ["whole:integer", "text:text"]) == {"text:text"}


def test_a_column_with_many_values_is_grouped_by_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_module, "SMALL", 0)
    monkeypatch.setattr(tally_module, "MOST_LINES", 5)
    engine, statements = Engine(), list[str]()
    plain = tally_module.Statement.run

    def run(self: tally_module.Statement, engine: Engine, text: str) -> pa.Table:
        statements.append(text)
        return plain(self, engine, text)

    monkeypatch.setattr(tally_module.Statement, "run", run)
    whole = pieces(flights(100), FLIGHTS, [])
    for _ in range(2):
        tally(lambda: engine, whole, FLIGHTS, Groups.marginal(FLIGHTS, ["month"]), (0, 100), None)
    assert ["LIMIT" in text for text in statements] == [True, False, False]
    engine.close()


def test_rows_that_are_missing_are_noticed() -> None:
    whole = pieces(flights(100), FLIGHTS, [50])
    with pytest.raises(tr.EngineError, match="there are 50 rows where 100 were taken in"):
        tally(lambda: MEMORY, whole[:1], FLIGHTS, GROUPS["origins"], (0, 100), None)


def test_a_damaged_file_is_named_as_such_and_nothing_of_it(tmp_path: Path) -> None:
    whole = pieces(flights(100), FLIGHTS, [], tmp_path)
    (tmp_path / "00000000.parquet").unlink()
    engine = Engine(tmp_path)
    with pytest.raises(tr.DamagedVault, match="missing, or not what was written") as refusal:
        tally(lambda: engine, whole, FLIGHTS, GROUPS["origins"], (0, 100), None)
    assert refusal.value.__cause__ is None
    engine.close()


def test_an_engine_reads_its_own_folder_only(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    elsewhere = pieces(flights(10), FLIGHTS, [], outside)
    engine = Engine(inside)
    with pytest.raises(tr.EngineError, match="PermissionException"):
        tally(lambda: engine, elsewhere, FLIGHTS, GROUPS["origins"], (0, 10), None)
    engine.close()


def test_a_forked_child_has_a_database_of_its_own() -> None:
    """A child that had its parent's could not let it go: it would hang, or crash, as it ends."""
    script = """
import gc, os, sys
from treering.trusted.rows.tally import shared_engine
def counts():
    with shared_engine().cursor() as cursor:
        return cursor.sql("SELECT 1").fetchall() == [(1,)]
assert counts()
child = os.fork()
if not child:
    gc.collect()
    sys.exit(0 if counts() else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), counts())
"""
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert run.stdout == "0 True\n"
