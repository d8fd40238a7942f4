"""The same rows fall into the same cells, with the same sums, in every engine and in rows that are kept."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support import nasty_sums
from support.coded import cells_of, sums_of
from support.engines import (
    NASTY,
    ORDINARY,
    Stage,
    cells,
    dated_rows,
    dated_schema,
    expected,
    generated_rows,
    lonely,
    nasty_rows,
    nasty_schema,
)
from support.repository import ROOT
from treering.arrays import Ints
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import summable, sums_of as sums_at
from treering.trusted.memory.database import GrowingDatabase
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.typed import typed

OPEN = nasty_schema(open_ended=True)
STRICT = nasty_schema(open_ended=False)
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests" / "fixtures" / "encoder.json").read_text(encoding="utf-8"))
OTHERS: dict[str, Any] = {"other": True, "missing": True}


def rows_of(database: GrowingDatabase) -> Rows:
    rows: Rows = database._rows
    return rows


def counted(store: Stage, rows: pa.Table, schema: Schema) -> dict[int, int]:
    store.create(rows)
    return cells(rows_of(store.database(schema)))


# -- cells -------------------------------------------------------------------------------------------------------------


def test_nasty_rows(store: Stage) -> None:
    assert counted(store, nasty_rows(), OPEN) == expected(nasty_rows(), OPEN)


def test_nasty_rows_that_do_not_fit_are_left_out_of_every_count(store: Stage) -> None:
    """Those that fit are on record in the golden file."""
    store.create(nasty_rows())
    with pytest.warns(tr.DroppedRows):
        database = store.database(STRICT, "drop")
    fitting = Counter(cell for cell in GOLDEN["rows"]["strict"]["cells"] if cell >= 0)
    assert 0 < database.size == fitting.total() < 400
    assert cells(rows_of(database)) == fitting
    _, place, number = rows_of(database).tally(Groups.marginal(STRICT, ["flag"]), (0, database.size))
    assert dict(zip(place.tolist(), number.tolist(), strict=True)) == {0: database.size}


def test_dates_of_every_kind_and_decimals(store: Stage) -> None:
    """Time zones, leap days, the year 9999, corrupt texts, offsets, fractions of seconds: no row is refused."""
    assert counted(store, dated_rows(), dated_schema()) == Counter(GOLDEN["rows"]["dated"]["cells"])


def test_a_nasty_value_that_stands_alone_in_its_column(store: Stage) -> None:
    """Statistics of files leave some values out, such as NaN: beside larger ones that goes unseen. (Parquet files have
    it in a row group of its own. Spark takes seconds for each table, and has those with NaN.)"""
    tables = lonely(NASTY, ORDINARY)
    for rows in tables[2:12:9] if store.name == "spark" else tables:
        assert counted(store, rows, OPEN) == expected(rows, OPEN), rows.slice(3).to_pylist()


def test_a_nasty_date_that_stands_alone_in_its_column(store: Stage) -> None:
    if store.name in ("csv", "spark"):
        pytest.skip("each table would take many seconds, and CSV files have no statistics")
    every, schema = dated_rows(), dated_schema()
    names = [name for name in every.column_names if name != "id"]
    values = {name: (every[name].type, every[name].to_pylist()[:29]) for name in names}
    for rows in lonely(values, {name: every[name][7].as_py() for name in names})[:15]:
        assert counted(store, rows, schema) == expected(rows, schema)


def test_instants_around_every_change_of_a_zone(store: Stage) -> None:
    """By the time zone database of this process, whatever the engine's own says; also in centuries that repeat the
    last ones."""
    steps = [timedelta(), timedelta(microseconds=-1), timedelta(hours=-1), timedelta(hours=1)]
    places = [datetime(1883, 11, 18, 17), datetime(2013, 11, 3, 6), datetime(2013, 3, 10, 7), datetime(2499, 11, 1, 6)]
    places += [datetime(2500, 1, 1), datetime(2899, 12, 31, 23, 59, 59), datetime(2900, 1, 1), datetime(9999, 7, 1)]
    moments = [(place + step).replace(tzinfo=UTC) for place in places for step in steps]
    rows = pa.table({"id": range(len(moments)), "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    zones = ("America/New_York", "Africa/Casablanca", "Asia/Kathmandu", "UTC")
    schema = Schema({f"hour in {zone}": tr.dates(part="hour", column="at", tz=zone) for zone in zones})
    assert counted(store, rows, schema) == expected(rows, schema)


@pytest.mark.parametrize("number", [3, 15, 16, 17, 300])
def test_uneven_bins_and_lists_of_any_length(store: Stage, number: int) -> None:
    if store.name == "spark" and number not in (16, 300):
        pytest.skip("a case of each way to write it is enough")
    edges = [float(edge) ** 1.5 for edge in range(number + 1)]
    schema = Schema(
        {
            "bin": tr.bins(edges, **OTHERS),
            "text": tr.categories(*map(str, range(number)), **OTHERS),
            "code": tr.categories(*range(0, 3 * number, 3), **OTHERS),
            "whole": tr.bins(edges, column="code", **OTHERS),
        }
    )
    values = [*edges, *(np.nextafter(edges, -np.inf)), None]
    rows = pa.table(
        {
            "id": range(len(values)),
            "bin": pa.array(values, pa.float64()),
            "text": pa.array([None if place % 7 == 0 else str(place) for place in range(len(values))]),
            "code": pa.array([None if place % 9 == 0 else place - 2 for place in range(len(values))], pa.int64()),
        }
    )
    assert counted(store, rows, schema) == expected(rows, schema)


def test_cells_beyond_short_integers(store: Stage) -> None:
    schema = Schema({f"x{place}": tr.bins(range(301)) for place in range(4)})
    rows = pa.table({"id": [1, 2, 3], **{name: [0.0, 299.5, 300.0] for name in schema.names}})
    assert counted(store, rows, schema) == {0: 1, 300**4 - 1: 2}


def test_texts_of_a_schema_are_no_part_of_a_statement(store: Stage) -> None:
    names = ["'; DROP TABLE rows; --", '"', "\\", "$listed0", "%s", "{0}", "a`b"]
    schema = Schema({"x": tr.categories(*names, **OTHERS), "y'; `{0}": tr.categories(names[0], **OTHERS)})
    values = [*names, names[0].lower(), "\\\\", None]
    rows = pa.table({"id": range(len(values)), "x": values, "y'; `{0}": values})
    assert counted(store, rows, schema) == expected(rows, schema)


def test_a_million_rows(store: Stage) -> None:
    rows = generated_rows(1_000_000)
    schema = Schema({name: OPEN.attributes[name] for name in rows.column_names if name != "id"})
    assert counted(store, rows, schema) == expected(rows, schema)


# -- sums --------------------------------------------------------------------------------------------------------------


def bulk(number: int) -> pa.Table:
    """Many rows, drawn: steps and the middles between them, and what lies around."""
    generator = np.random.default_rng(11)
    halves = generator.integers(-2000, 500_000, number) * 0.005
    return pa.table(
        {
            "id": pa.array(np.arange(number)),
            "a": pa.array(generator.choice(["x", "y"], number)),
            "cents": pa.array(halves),
            "single": pa.array(generator.normal(1, 1, number).astype(np.float32)),
            "whole": pa.array(generator.integers(-200, 200, number).astype(np.int16)),
            "huge": pa.array(generator.integers(-(2**63), 2**63, number)),
            "price": pa.array(generator.integers(-10_000, 300_000, number) / 1000).cast(pa.decimal128(9, 3)),
            "empty": pa.array(generator.random(number)),
        }
    )


def totals(rows: Rows, edges: tuple[int, int]) -> dict[str, list[int]]:
    """For each attribute with sums, R times the rows and the sum of u, by the attribute ``a``."""
    schema = rows.schema
    groups, found = Groups.marginal(schema, ["a"]), {}
    for position in summable(schema):
        sums = sums_at(schema, position, counts=True)
        _, place, number = rows.tally(groups, edges, sums)
        numbers = np.zeros(sums.numbers(groups.number), dtype=np.int64)
        numbers[place] = number
        found[schema.names[position]] = numbers.tolist()
    return found


def added(codes: Ints, units: dict[str, Ints], schema: Schema) -> dict[str, list[int]]:
    """The same from the cells of rows and their u."""
    groups = codes // int(np.prod(schema.shape[1:]))
    number, found = schema.shape[0], {}
    for name, column in units.items():
        reach = sums_at(schema, schema.index(name), counts=True).reach
        numbers = np.zeros(2 * number, dtype=np.int64)
        np.add.at(numbers, groups, reach)
        np.add.at(numbers, number + groups, column)
        found[name] = numbers.tolist()
    return found


def by_hand(table: pa.Table) -> dict[str, list[int]]:
    schema = nasty_sums.SCHEMA
    found = typed(table, schema)
    return added(cells_of(found, schema), dict(zip(schema.names[1:], sums_of(found, schema), strict=True)), schema)


def test_nasty_rows_have_the_sums_on_record(store: Stage) -> None:
    schema, golden = nasty_sums.SCHEMA, GOLDEN["rows"]["summed"]
    store.create(nasty_sums.rows())
    database = store.database(schema)
    units = {name: np.array(each) for name, each in zip(schema.names[1:], golden["sums"], strict=True)}
    assert totals(rows_of(database), (0, 600)) == added(np.array(golden["cells"]), units, schema)
    later = nasty_sums.rows(200, 5000)
    store.add(later)
    store.refresh(database)
    assert totals(rows_of(database), (600, 800)) == by_hand(later)


def test_many_rows_at_the_middles_between_steps(store: Stage) -> None:
    store.create(bulk(20_000))
    assert totals(rows_of(store.database(nasty_sums.SCHEMA)), (0, 20_000)) == by_hand(bulk(20_000))


def test_sums_of_integers_leave_out_what_is_not_listed(store: Stage) -> None:
    schema = Schema({"a": tr.categories("x", **OTHERS), "n": tr.integers(-3, 900_000, **OTHERS)})
    kind, values = NASTY["share"]
    rows = pa.table({"id": range(len(values)), "a": ["x"] * len(values), "n": pa.array(values, kind)})
    store.create(rows)
    grid = sums_at(schema, 1, counts=True).grid
    inside = [value for value in values if value is not None and -3 <= value <= 900_000 and value == int(value)]
    units = int(grid.half_steps(np.array(inside)).sum())
    assert totals(rows_of(store.database(schema)), (0, len(values))) == {
        "n": [grid.steps * len(values), 0, 0, units, 0, 0]
    }


def test_a_quotient_too_small_for_a_double_is_no_step(store: Stage) -> None:
    schema = Schema({"a": tr.categories("x", **OTHERS), "n": tr.numbers(0, 10_000, step=1000, edges=[0, 5000])})
    values = [5e-324, 1e-310, 249.0, 499.9, 500.0]
    store.create(pa.table({"id": range(5), "a": ["x"] * 5, "n": values}))
    assert totals(rows_of(store.database(schema)), (0, 5))["n"] == [50, 0, 0, -10 * 4 + -8, 0, 0]


def test_answers_about_sums(store: Stage) -> None:
    store.create(bulk(20_000))
    rings = tr.Rings(store.database(nasty_sums.SCHEMA), 100.0, 1e-6, 1e-9)
    found = rings.mean("whole", "a = 'x'")
    table = bulk(20_000)
    values = np.clip(np.asarray(table["whole"]), -100, 100)[np.asarray(table["a"]) == "x"]
    assert found.value is not None
    assert found.error is not None
    assert abs(found.value - values.mean()) <= found.error
    assert found.error < 1
