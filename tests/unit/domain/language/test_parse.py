"""What predicates mean: against a database engine, row by row."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta

import duckdb
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.schemas import queries
from treering.domain.attribute import Value, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.language.parse import parse
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError

SCHEMA = Schema(
    {
        "origin": categories("EWR", "JFK", "it's", other=True, missing=True),
        "order": integers(1, 6, missing=True),
        "Hour of": integers(0, 5, missing=True),
        "delay": bins([-10, 0, 2.5, 7], missing=True),
        "speed": bins([0, 0.1, 1], missing=True),
        "flag": categories(True, False, missing=True),
        "size": categories(5, 7, other=True),
    }
)
SIDES = Schema(
    {
        "stops": integers(0, 3, other=True, missing=True),
        "price": bins([0, 100, 5000], other=True),
        "day": dates("2013-02-27", "2013-03-02"),
        "week": dates("2013-02-20", "2013-03-02", by="week"),
    }
)
VALUES: dict[str, list[Value]] = {
    "origin": ["EWR", "JFK", "it's", "SFO", "", None],
    "order": [1, 2, 3, 4, 5, 6, None],
    "Hour of": [0, 1, 2, 3, 4, 5, None],
    "delay": [-10, -0.5, 0, 1, 2.5, 6.9, 7, None],
    "speed": [0, 0.05, 0.1, 0.5, 1, None],
    "flag": [True, False, None],
    "size": [5, 7, 6, -1],
}
BESIDE: dict[str, list[Value]] = {
    "stops": [0, 1, 2, 3, 4, 99, -1, -7, None],
    "price": [0, 50, 100, 4999.9, 5000, 5000.1, 1e9, -0.1],
    "day": [
        *(date(2013, 2, 26) + timedelta(days=each) for each in range(6)),
        *(date(1, 1, 1), date(9999, 12, 31), None),
    ],
    "week": [*(date(2013, 2, 17) + timedelta(days=each) for each in range(17)), None],
}


@dataclass
class Engine:
    """One table, in DuckDB and as cells."""

    connection: duckdb.DuckDBPyConnection
    cells: npt.NDArray[np.int64]

    def count(self, text: str) -> int:
        """How many rows DuckDB finds the predicate true for."""
        found = self.connection.execute(f"SELECT count(*) FROM t WHERE {text}").fetchone()
        assert found is not None
        return int(found[0])

    def ours(self, query: Query) -> int:
        codes = [np.array(np.unravel_index(self.cells, query.schema.shape))[position] for position in query.attributes]
        if query.masks is None:
            return int(query.weights()[tuple(codes)].sum()) if codes else int(query.weights()) * len(self.cells)
        matched = np.ones(len(self.cells), dtype=np.bool_)
        for mask, each in zip(query.masks, codes, strict=True):
            matched &= mask[each]
        return int(matched.sum())


@contextmanager
def stored(schema: Schema, choices: dict[str, list[Value]], kinds: str) -> Iterator[Engine]:
    """Random rows, with these values and of these types."""
    generator = random.Random(1)
    rows = [{name: generator.choice(values) for name, values in choices.items()} for _ in range(1500)]
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(schema.names, kinds.split(), strict=True))
        connection.execute(f"CREATE TABLE t ({columns})")
        marks = ", ".join("?" * len(schema.names))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", [list(row.values()) for row in rows])
        yield Engine(connection, np.array([schema.cell(row) for row in rows], dtype=np.int64))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with stored(SCHEMA, VALUES, "VARCHAR BIGINT BIGINT DOUBLE DOUBLE BOOLEAN BIGINT") as made:
        yield made


@pytest.fixture(scope="module")
def beside() -> Iterator[Engine]:
    with stored(SIDES, BESIDE, "INTEGER DOUBLE DATE DATE") as made:
        yield made


# -- predicates that cells can tell -----------------------------------------------------------------------------------


def _listed(column: str, values: list[str]) -> st.SearchStrategy[str]:
    several = st.lists(st.sampled_from(values), min_size=1, max_size=4).map(", ".join)
    return st.one_of(
        st.builds(f"{column} {{}} {{}}".format, st.sampled_from(["=", "<>", "!="]), st.sampled_from(values)),
        st.builds(f"{{}} {{}} {column}".format, st.sampled_from(values), st.sampled_from(["=", "<>"])),
        st.builds(f"{column} {{}} ({{}})".format, st.sampled_from(["IN", "NOT IN", "in"]), several),
        st.sampled_from([f"{column} IS NULL", f"{column} is not null"]),
    )


def _between(column: str, lows: list[str], highs: list[str]) -> st.SearchStrategy[str]:
    words = st.sampled_from(["BETWEEN", "NOT BETWEEN"])
    return st.builds(f"{column} {{}} {{}} AND {{}}".format, words, st.sampled_from(lows), st.sampled_from(highs))


NUMBERS = ["-1e3", "0", ".5", "1", "2", "2.5", "3", "4", "5.", "6", "6.5", "7", "1e2"]
ATOMS = st.one_of(
    _listed("origin", ["'EWR'", "'JFK'", "'it''s'"]),
    _listed("ORIGIN", ["'EWR'", "'JFK'"]),
    _listed('"order"', ["1", "2", "3", "6", "4.0"]),
    st.builds('"order" {} {}'.format, st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(NUMBERS)),
    st.builds('{} {} "order"'.format, st.sampled_from(NUMBERS), st.sampled_from(["<", "<=", ">", ">="])),
    _between('"order"', NUMBERS, NUMBERS),
    _listed('"Hour of"', ["0", "1", "3", "5"]),
    _between('"Hour of"', ["0", "1", "2.5", "4"], ["1", "3", "4.5", "5"]),
    st.builds("delay {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from(["-99", "-10", "0", "2.5", "2.50"])),
    st.builds("{} {} delay".format, st.sampled_from(["0", "25e-1"]), st.sampled_from([">", "<="])),
    st.builds("delay {} {}".format, st.sampled_from(["<=", ">"]), st.sampled_from(["7", "8", "-11"])),
    _between("delay", ["-10", "0", "2.5", "-99"], ["7", "99"]),
    _between("speed", ["0", "0.1", ".10"], ["1", "1e0"]),
    st.sampled_from(["(speed >= 0 AND speed < 0.1)", "(speed < 0 OR speed >= 0.1)", "(speed < 0.1 or 1 < speed)"]),
    st.sampled_from(["delay IS NULL", "delay IS NOT NULL", "speed IS NULL", "NOT speed IS NOT NULL"]),
    _listed("flag", ["TRUE", "FALSE", "true"]),
    _listed("size", ["5", "7"]),
    st.sampled_from(["TRUE", "FALSE", "NOT TRUE"]),
)
SIDED = st.one_of(
    _listed("stops", ["0", "3", "2.0"]),
    st.builds("stops {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from(["0", "1", "3", "4", "-0.5", "3.5"])),
    st.builds("stops {} {}".format, st.sampled_from(["<=", ">"]), st.sampled_from(["-1", "0", "2.5", "3"])),
    _between("stops", ["0", "2", "4", "-0.5"], ["-1", "0", "3", "3.5"]),
    st.builds("price {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from(["0", "100", "5000", "5e3"])),
    _listed("day", ["'2013-02-27'", "'2013-02-28'", "'2013-03-02'"]),
    st.builds("day {} '{}'".format, st.sampled_from(["<", ">="]), st.sampled_from(["2013-02-27", "2013-03-03"])),
    st.builds("day {} '{}'".format, st.sampled_from(["<=", ">"]), st.sampled_from(["2013-02-26", "2013-03-02"])),
    _between("day", ["'2013-02-27'", "'2013-02-28'", "'2013-03-03'"], ["'2013-02-26'", "'2013-03-01'"]),
    st.builds("week {} '{}'".format, st.sampled_from(["<", ">="]), st.sampled_from(["2013-02-18", "2013-02-25"])),
    _between("week", ["'2013-02-18'", "'2013-02-25'"], ["'2013-02-17'", "'2013-02-24'", "'2013-03-03'"]),
    st.sampled_from(
        [
            "date_trunc('week', week) = '2013-02-18'",
            "date_trunc('month', day) >= '2013-03-01'",
            "date_trunc('month', day) < DATE '2013-02-15'",
            "EXTRACT(month FROM day) = 3 AND day BETWEEN '2013-02-27' AND '2013-03-02'",
            "NOT EXTRACT(isodow FROM day) >= 5 AND day >= '2013-02-27' AND day < '2013-03-03'",
        ]
    ),
)


def _joined(atoms: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.builds("{} AND {}".format, inner, inner),
            st.builds("{} OR {}".format, inner, inner),
            st.builds("NOT {}".format, inner),
            st.builds("({})".format, inner),
            st.builds("NOT ({}\n  or {})".format, inner, inner),
            st.builds("not({} and {})".format, inner, inner),
        ),
        max_leaves=8,
    )


PREDICATES = _joined(ATOMS)
SHARED_ENGINE = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SHARED_ENGINE
@given(text=_joined(SIDED))
def test_predicates_about_dates_and_both_sides_count_what_duckdb_counts(beside: Engine, text: str) -> None:
    query = parse(text, SIDES)
    assert beside.ours(query) == beside.count(text)
    assert parse(str(query), SIDES) == query


@SHARED_ENGINE
@given(text=PREDICATES)
def test_predicates_count_what_duckdb_counts(engine: Engine, text: str) -> None:
    assert engine.ours(parse(text, SCHEMA)) == engine.count(text)


@SHARED_ENGINE
@given(text=PREDICATES, other=PREDICATES)
def test_and_and_or_agree_with_the_algebra_of_queries(engine: Engine, text: str, other: str) -> None:
    both, either = parse(f"({text}) AND ({other})", SCHEMA), parse(f"({text}) OR ({other})", SCHEMA)
    assert both == parse(text, SCHEMA) & parse(other, SCHEMA)
    assert either == parse(text, SCHEMA) | parse(other, SCHEMA)
    assert engine.ours(both) + engine.ours(either) == engine.count(text) + engine.count(other)


@SHARED_ENGINE
@given(query=queries(SCHEMA))
def test_what_is_written_means_the_same_to_duckdb(engine: Engine, query: Query) -> None:
    assert engine.count(str(query)) == engine.ours(query)


def test_a_missing_value_is_neither_equal_nor_unequal() -> None:
    jfk, rest = parse("origin = 'JFK'", SCHEMA), parse("NOT (origin = 'JFK')", SCHEMA)
    assert rest == parse("origin <> 'JFK'", SCHEMA)
    assert jfk | rest == parse("origin IS NOT NULL", SCHEMA)
    assert rest != ~jfk
    assert rest | parse("origin IS NULL", SCHEMA) == ~jfk


# -- any predicate at all ---------------------------------------------------------------------------------------------


def _wild(generator: random.Random, depth: int) -> str:
    """A predicate over any columns and numbers, most of which cells cannot tell."""
    pick: Callable[[list[str]], str] = generator.choice
    if depth and generator.random() < 0.6:
        left, right = _wild(generator, depth - 1), _wild(generator, depth - 1)
        return pick(
            [
                f"{left} AND {right}",
                f"{left} OR {right}",
                f"NOT {left}",
                f"({left} AND {right})",
                f"NOT ({left} OR {right})",
            ]
        )
    column = pick(['"order"', '"Hour of"', "delay", "speed", "size", "origin", "flag"])
    numbers = ["-10", "-1", "0", "0.1", "0.5", "1", "2", "2.5", "3", "5", "6", "7", "7.5", "99"]
    values = {"origin": ["'EWR'", "'JFK'", "'SFO'"], "flag": ["TRUE", "FALSE"]}.get(column, numbers)
    operator = pick(["=", "<>", "<", "<=", ">", ">=", "IN", "NOT IN", "BETWEEN", "NOT BETWEEN", "IS", "mirrored"])
    if operator.endswith("IN"):
        return f"{column} {operator} ({pick(values)}, {pick(values)})"
    if operator.endswith("BETWEEN"):
        return f"{column} {operator} {pick(values)} AND {pick(values)}"
    if operator == "IS":
        return f"{column} IS {pick(['', 'NOT '])}NULL"
    if operator == "mirrored":
        return f"{pick(values)} {pick(['<', '<=', '>', '>='])} {column}"
    return f"{column} {operator} {pick(values)}"


def test_what_is_accepted_counts_what_duckdb_counts(engine: Engine) -> None:
    generator = random.Random(2)
    accepted = 0
    for _ in range(1500):
        text = _wild(generator, generator.randrange(4))
        try:
            query = parse(text, SCHEMA)
        except QueryError:
            continue
        accepted += 1
        assert engine.ours(query) == engine.count(text), text
    assert accepted > 300


WORDS = [
    *("origin", "flag", "delay", '"order"', '"Hour of"', "'JFK'", "'", '"', "1", "2.5", ".5", "-", "--", "7", "TRUE"),
    *(
        "=",
        "<>",
        "<",
        ">=",
        "IN",
        "NOT",
        "BETWEEN",
        "AND",
        "OR",
        "IS",
        "NULL",
        "(",
        ")",
        ",",
        ";",
        "/*",
        "*/",
        "{#",
        ".",
    ),
]


@SHARED_ENGINE
@given(text=st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_is_refused_or_means_what_it_means_to_duckdb(engine: Engine, text: str) -> None:
    try:
        query = parse(text, SCHEMA)
    except QueryError:
        return
    assert engine.ours(query) == engine.count(text)
