"""What SQL means: against a database engine on the cells' own values, and within the errors that answers have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import duckdb
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.schemas import cell_weights
from treering.answer import Answer, Estimate
from treering.domain.attribute import ABOVE, BELOW, OTHER, Value, bins, categories, integers
from treering.domain.language.measures import Count, Mean, Quantile, Release, Sum
from treering.domain.language.sql import MAX_GROUPS, Field, Statement, read_sql
from treering.domain.numeric import numbers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError

SCHEMA = Schema(
    {
        "origin": categories("EWR", "JFK", other=True, missing=True),
        "month": integers(1, 4),
        "Hour of": integers(-2, 3, other=True, missing=True),
        "delay": bins([-10, 0, 2.5, 7], missing=True),
        "speed": bins([0, 0.1, 0.3, 1]),
    }
)
ROWS = 400


def stored(value: Value) -> Value:
    """A cell's value as DuckDB gets it: a bin is its middle; values not listed are one value, outside the range."""
    outside: dict[Value, Value] = {OTHER: "SFO", BELOW: -99, ABOVE: 99}
    return outside.get(value, value)


@dataclass
class Engine:
    """One table, in DuckDB and as cells."""

    connection: duckdb.DuckDBPyConnection
    cells: npt.NDArray[np.int64]

    def share(self, query: Query) -> Fraction:
        return Fraction(int(cell_weights(query)[self.cells].sum()), query.scale * len(self.cells))

    def ask_many(self, queries: Sequence[Query]) -> list[Answer]:
        return [Answer(float(self.share(query)), 1e-15, len(self.cells), "easy") for query in queries]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    cells = np.random.default_rng(7).integers(SCHEMA.cells, size=ROWS)
    rows = [[stored(value) for value in SCHEMA.values(cell).values()] for cell in cells.tolist()]
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE t (origin TEXT, month INT, "Hour of" INT, delay DOUBLE, speed DOUBLE)')
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        yield Engine(connection, cells)


AGGREGATES = {"COUNT(*)": None, "AVG(month)": "month", 'AVG("Hour of")': "Hour of", "AVG(delay)": "delay"}
GROUPED = ["origin", "month", '"Hour of"', "delay", "speed"]
PREDICATES = [
    "",
    "WHERE origin = 'JFK'",
    "WHERE delay >= 2.5 OR month = 2",
    "WHERE delay IS NULL AND speed < 0.3",
    'WHERE "Hour of" NOT BETWEEN -2 AND 3',
    "WHERE NOT (origin IN ('EWR', 'JFK') OR month > 2)",
    "WHERE FALSE",
]


def theirs(aggregate: str, where: str, groups: Sequence[str], engine: Engine) -> dict[tuple[object, ...], object]:
    """DuckDB's answer by group. Its AVG gets what ours leaves out, values out of range, as nulls."""
    called = aggregate.replace('AVG("Hour of")', """AVG(CASE WHEN abs("Hour of") < 99 THEN "Hour of" END)""")
    keys = "".join(f"{group}, " for group in groups)
    grouping = f"GROUP BY {', '.join(groups)}" if groups else ""
    found = engine.connection.execute(f"SELECT {keys}{called} FROM t {where} {grouping}").fetchall()
    return {tuple(row[:-1]): row[-1] for row in found}


def labels(group: Sequence[object], groups: Sequence[str]) -> tuple[object, ...]:
    """DuckDB's group as ours is called."""
    found = []
    for value, name in zip(group, groups, strict=True):
        attribute = SCHEMA.attributes[name.strip('"')]
        known = value if value is None or isinstance(value, str | int | float) else None
        code = attribute.code(known)
        found.append(attribute.label(code))
    return tuple(found)


@given(
    st.sampled_from(sorted(AGGREGATES)),
    st.sampled_from(PREDICATES),
    st.lists(st.sampled_from(GROUPED), max_size=2, unique=True),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_statement_means_what_the_engine_finds(engine: Engine, aggregate: str, where: str, groups: list[str]) -> None:
    grouping = f"GROUP BY {', '.join(groups)}" if groups else ""
    statement = read_sql(f"SELECT {', '.join([*groups, aggregate])} FROM flights {where} {grouping};", SCHEMA)
    table = statement.table(engine.ask_many(statement.queries))
    expected = {labels(key, groups): value for key, value in theirs(aggregate, where, groups, engine).items()}
    assert len(table.rows) == math.prod(SCHEMA.attributes[name.strip('"')].size for name in groups)
    seen = {row[:-1]: row[-1] for row in table.rows}
    assert expected.keys() <= seen.keys()
    for key, estimate in seen.items():
        assert isinstance(estimate, Estimate)
        truth = expected.get(key, 0 if aggregate == "COUNT(*)" else None)
        if truth is None:
            assert estimate.value is None
            continue
        assert isinstance(truth, int | float)
        assert estimate.value == pytest.approx(truth, abs=1e-9)
        assert estimate.low - 1e-9 <= truth <= estimate.high + 1e-9
        assert estimate.error is not None
        if aggregate == "AVG(delay)":  # A bin's values may lie anywhere in it: the widest is 10.
            assert estimate.error <= 5 + 1e-8
        else:
            assert estimate.error < 1e-8 if aggregate != "COUNT(*)" else estimate.error == 1


@given(
    st.sampled_from(["", "WHERE delay >= 0", "WHERE origin = 'JFK' AND month = 2"]),
    st.sampled_from(["month", '"Hour of"', "delay", "speed"]),
    st.lists(st.floats(-1, 1), min_size=3, max_size=3),
    st.floats(0, 0.2),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_average_lies_within_its_interval_whatever_the_errors(
    engine: Engine, where: str, name: str, offsets: list[float], error: float
) -> None:
    """Answers anywhere within their errors: the interval holds the truth, and the value and error describe it."""
    statement = read_sql(f"SELECT AVG({name}) FROM t {where}", SCHEMA)
    answers = []
    for query, offset in zip(statement.queries, offsets, strict=False):
        value = min(1.0, max(0.0, float(engine.share(query)) + offset * error))
        answers.append(Answer(value, error * (1 + 1e-9) + 1e-15, ROWS, "easy"))
    ((estimate,),) = statement.table(answers).rows
    truth = theirs(f"AVG({name})", where, [], engine)[()]
    assert isinstance(estimate, Estimate)
    assert isinstance(truth, float)
    assert estimate.low - 1e-12 <= truth <= estimate.high + 1e-12
    if estimate.value is not None and estimate.error is not None:
        assert estimate.low <= estimate.value <= estimate.high
        middle, low, high = (Fraction(each) for each in (estimate.value, estimate.low, estimate.high))
        assert Fraction(estimate.error) >= max(high - middle, middle - low)
        assert abs(estimate.value - truth) <= estimate.error + 1e-12


def test_the_interval_of_a_ratio_by_hand() -> None:
    """Months 1 to 4, a third of the way up in a half of the rows: 1 + 3·(0.1 ± 0.02)/(0.5 ± 0.1)."""
    statement = read_sql("SELECT AVG(month) AS m FROM t WHERE origin = 'JFK'", SCHEMA)
    ((estimate,),) = statement.table([Answer(0.1, 0.02, 50, "easy"), Answer(0.5, 0.1, 50, "easy")]).rows
    assert isinstance(estimate, Estimate)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1.6, 1 + 3 * 0.08 / 0.6, 1 + 3 * 0.12 / 0.4))


def test_an_average_of_possibly_no_rows_is_unknown() -> None:
    statement = read_sql("SELECT AVG(month) FROM t WHERE origin = 'JFK'", SCHEMA)
    ((estimate,),) = statement.table([Answer(0.01, 0.02, 50, "easy"), Answer(0.1, 0.1, 50, "easy")]).rows
    assert estimate == Estimate(None, 1.0, 4.0)


def test_an_average_of_everything_is_one_weighted_query() -> None:
    (query,) = read_sql("SELECT AVG(month) FROM t", SCHEMA).queries
    assert query == Query.weighted(SCHEMA, [0, 1 / 3, 2 / 3, 1], attributes=["month"], resolution=3)


def test_weights_that_cannot_be_exact_widen_the_interval() -> None:
    """The edges of the bins of speed, 0, 0.1 and 0.3, have no short common step as floats; nor have 0.1, 0.3 and 1."""
    statement = read_sql("SELECT AVG(speed) FROM t", SCHEMA)
    ((estimate,),) = statement.table([Answer(0.25, 0.0, 50, "easy")] * 2).rows
    assert isinstance(estimate, Estimate)
    assert estimate.low == pytest.approx(0.3 * (0.25 - 2**-17), abs=1e-12)
    assert estimate.high == pytest.approx(0.1 + 0.9 * (0.25 + 2**-17), abs=1e-12)
    assert estimate.value == pytest.approx((0.075 + 0.325) / 2)


def test_queries_shared_by_columns_are_asked_once() -> None:
    statement = read_sql("SELECT month, COUNT(*), AVG(speed), COUNT(*) AS again FROM t GROUP BY month", SCHEMA)
    assert len(statement.queries) == 12
    assert statement.columns == ("month", "COUNT(*)", "AVG(speed)", "again")


def test_counts_come_in_rows_with_their_error() -> None:
    statement = read_sql("select count(*) as n from t where month = 2", SCHEMA)
    result = statement.table([Answer(0.25, 0.01, 1000, "hard")])
    assert result.to_dict() == {
        "columns": ["n"],
        "rows": [[{"value": 250, "margin": 11, "error": 11, "low": 239, "high": 261}]],
        "size": 1000,
        "notes": [],
    }


def test_groups_are_labelled_and_notes_say_what_is_left_out() -> None:
    statement = read_sql('SELECT "Hour of", delay, AVG(delay) FROM t GROUP BY delay, "Hour of"', SCHEMA)
    answers = [Answer(0.5, 0.1, 10, "easy")] * len(statement.queries)
    result = statement.table(answers)
    firsts: list[tuple[Field, ...]] = [row[:2] for row in result.rows]
    assert firsts[0] == (-2, "[-10, 0)")
    assert firsts[-1] == (None, None)
    assert (">= 4", "[2.5, 7]") in firsts
    assert [note.split()[0] for note in result.notes] == ["AVG(delay)", "delay:", "Every"]
    assert "wherever values lie in them" in result.notes[0]
    assert "without a value" in result.notes[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT",
        "SELECT *",
        "SELECT * FROM t",
        "SELECT COUNT(*)",
        "SELECT COUNT(*) FROM",
        "SELECT COUNT(*) FROM t, u",
        "SELECT COUNT(*) FROM a.b",
        "SELECT COUNT(*) FROM (SELECT * FROM t)",
        "SELECT COUNT(*) FROM t JOIN u",
        "SELECT COUNT(*) FROM t WHERE",
        "SELECT COUNT(*) FROM t WHERE month = 1 ORDER BY month",
        "SELECT COUNT(*) FROM t WHERE month IN (SELECT 1)",
        "SELECT COUNT(*) FROM t WHERE month = 1 UNION SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t LIMIT 1",
        "SELECT COUNT(*) FROM t GROUP BY",
        "SELECT COUNT(*) FROM t GROUP BY 1",
        "SELECT COUNT(*) FROM t GROUP month",
        "SELECT COUNT(*) FROM t GROUP BY month HAVING COUNT(*) > 1",
        "SELECT COUNT(*) FROM t GROUP BY month ORDER BY month",
        "SELECT COUNT(DISTINCT month) FROM t",
        "SELECT COUNT(*) n FROM t",
        "SELECT COUNT(* FROM t",
        "SELECT SUM(delay) FROM t",
        "SELECT SUM(origin) FROM t",
        "SELECT MEDIAN(origin) FROM t",
        "SELECT PERCENTILE_CONT(2) WITHIN GROUP (ORDER BY month) FROM t",
        "SELECT PERCENTILE_CONT(month) WITHIN GROUP (ORDER BY month) FROM t",
        "SELECT PERCENTILE_CONT(0.5) FROM t",
        "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (month) FROM t",
        "SELECT STDDEV(month) FROM t",
        "SELECT AVG(*) FROM t",
        "SELECT AVG(origin) FROM t",
        "SELECT AVG(month + 1) FROM t",
        "SELECT AVG(AVG(month)) FROM t",
        "SELECT DISTINCT month FROM t",
        "SELECT month FROM t",
        "SELECT month FROM t GROUP BY month",
        "SELECT month, COUNT(*) FROM t",
        "SELECT COUNT(*) / 2 FROM t",
        "SELECT COUNT(*) AS FROM t",
        "INSERT INTO t VALUES (1)",
        "WITH x AS (SELECT 1) SELECT COUNT(*) FROM x",
        "SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t -- comment",
        "SELECT CASE WHEN month = 1 THEN 1 END FROM t",
    ],
)
def test_anything_else_is_refused_and_shown_what_is_supported(text: str) -> None:
    with pytest.raises(QueryError, match="Supported is SELECT COUNT"):
        read_sql(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT COUNT(*) FROM t WHERE mont = 1", "in WHERE: there is no attribute 'mont'; did you mean month"),
        ("SELECT COUNT(*) FROM t WHERE delay > 1", "in WHERE: this would cut the bin"),
        ("SELECT COUNT(*) FROM t WHERE (month = 1", "in WHERE: this parenthesis is never closed"),
        ("SELECT COUNT(*) FROM t WHERE month = 'x", "this quote is never closed"),
        ("SELECT mont, COUNT(*) FROM t GROUP BY month", "did you mean month"),
        ("SELECT COUNT(*), COUNT(*) FROM t", "two columns are called COUNT"),
        ("SELECT COUNT(*) FROM t WHERE " + "(" * 200 + "month = 1" + ")" * 200, "in WHERE: more than 100 parentheses"),
        ("SELECT COUNT(*) FROM t WHERE month = 1" + " " * 70_000, "at most 65,536 are read"),
    ],
)
def test_a_refusal_says_why(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        read_sql(text, SCHEMA)


def test_columns_with_the_names_of_clauses_are_columns() -> None:
    schema = Schema({"order": integers(1, 3), "group": integers(1, 3), "from": integers(1, 3)})
    statement = read_sql('SELECT "from", COUNT(*) FROM t WHERE order = 1 AND "group" = 2 GROUP BY "from"', schema)
    assert [str(query) for query in statement.queries][:1] == ['"order" = 1 AND "group" = 2 AND "from" = 1']


def test_too_many_groups_are_refused_by_name() -> None:
    schema = Schema({"a": integers(1, 1000), "b": integers(1, 1000), "c": integers(1, 2000)})
    with pytest.raises(QueryError, match=f"a, b has 1,000,000 groups; at most {MAX_GROUPS:,}"):
        read_sql("SELECT COUNT(*) FROM t GROUP BY a, b", schema)
    with pytest.raises(QueryError, match="table over 2,000,000 joint values of a, c"):
        read_sql("SELECT AVG(a) FROM t GROUP BY c", schema)
    with pytest.raises(QueryError, match="1,000 groups with 1,001,000 weights each"):
        read_sql("SELECT AVG(a) FROM t GROUP BY b", schema)


def test_only_values_that_a_row_can_have_widen_an_average() -> None:
    """The last bin alone reaches from 2.5 to 7; the last two from 0 to 7."""
    for where, ends in (("delay >= 2.5", (2.5, 7.0)), ("delay >= 0", (0.0, 7.0)), ("month = 1", (-10.0, 7.0))):
        statement = read_sql(f"SELECT AVG(delay) FROM t WHERE {where}", SCHEMA)
        wide = [Answer(0.0, 1.0, 9, "easy")] * (len(statement.queries) - 1)
        ((estimate,),) = statement.table([*wide, Answer(0.5, 0.4, 9, "easy")]).rows
        assert isinstance(estimate, Estimate)
        assert (estimate.low, estimate.high) == ends


def test_an_average_over_one_value_is_that_value() -> None:
    schema = Schema({"a": integers(5, 5), "b": integers(1, 2)})
    statement = read_sql("SELECT AVG(a) FROM t WHERE b = 1", schema)
    ((estimate,),) = statement.table([Answer(0.0, 0.0, 9, "easy"), Answer(0.5, 0.1, 9, "easy")]).rows
    assert estimate == Estimate(5.0, 5.0, 5.0, 0.0)


def test_answers_must_be_one_batch() -> None:
    statement: Statement = read_sql("SELECT month, COUNT(*) FROM t GROUP BY month", SCHEMA)
    one = Answer(0.1, 0.1, 10, "easy")
    with pytest.raises(QueryError, match="4 answers are needed, 1 were given"):
        statement.table([one])
    with pytest.raises(QueryError, match="different sizes"):
        statement.table([one, one, one, Answer(0.1, 0.1, 11, "easy")])


# -- measures that rings answer ----------------------------------------------------------------------------------------

MONEY = Schema({"origin": categories("EWR", "JFK"), "fare": numbers(0, 100, step=0.5), "month": integers(1, 4)})


def test_a_statement_as_a_request() -> None:
    statement = read_sql(
        "SELECT origin, COUNT(*), COUNT(fare) AS paid, SUM(fare), AVG(fare), AVG(fare) AS again, MEDIAN(month), "
        "MIN(fare), max(fare), percentile_cont(0.9) WITHIN GROUP (ORDER BY month) AS p90, "
        "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY month) FROM t WHERE month <> 2 GROUP BY origin",
        MONEY,
    )
    assert statement.request.measures == (
        *(Count(), Count("fare"), Sum("fare"), Mean("fare"), Quantile("month", 0.5)),
        *(Quantile.least("fare"), Quantile.greatest("fare"), Quantile("month", 0.9), Quantile("month", 0.25)),
    )
    assert statement.columns[3:6] == ("SUM(fare)", "AVG(fare)", "again")
    assert statement.columns[-1] == "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY month)"
    assert (statement.request.by, str(statement.request.where)) == ((0,), "month <> 2")
    assert not statement.plain
    with pytest.raises(QueryError, match="answered by a mechanism of kind 'rings' only"):
        len(statement.queries)
    rows = tuple(tuple(Estimate(10 * group + place, 0, 99) for place in range(9)) for group in range(2))
    table = statement.released(Release(statement.request, 50, rows))
    assert table.size == 50
    labels, *numbers_found = zip(*table.rows, strict=True)
    assert labels == ("EWR", "JFK")
    assert [each[1].value for each in numbers_found if isinstance(each[1], Estimate)] == [
        *(10, 11, 12, 13, 13, 14, 15, 16, 17, 18)
    ]
    assert any("1% quantile" in note for note in table.notes)


def test_counts_and_averages_of_integers_need_no_rings() -> None:
    assert read_sql("SELECT COUNT(month), AVG(month) FROM t", MONEY).plain
    assert not read_sql("SELECT AVG(fare) FROM t", MONEY).plain
    assert not read_sql("SELECT SUM(month) FROM t", MONEY).plain
    (query,) = read_sql("SELECT COUNT(fare) FROM t", MONEY).queries
    assert str(query) == "fare IS NOT NULL"
