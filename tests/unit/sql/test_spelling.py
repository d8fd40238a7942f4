"""What is written for DuckDB is read as the tree that was meant, or it is refused: nothing can be injected."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st
from sqlglot import exp, parse_one

from support.corpus import SCHEMA, Asked, answered, rows
from treering.errors import QueryError
from treering.sql.duck import run
from treering.sql.nodes import MAX_DEPTH, MAX_DIGITS, MAX_NODES, check
from treering.sql.spelling import spelled, tree_of
from treering.sql.split import split

MACRO = "CREATE OR REPLACE MACRO abs(x) AS 42"
HOSTILE = (
    "x",
    "year FROM DATE '2013-01-01') AS v; " + MACRO + "; SELECT 1 AS v FROM codes --",
    "year FROM DATE '2013-01-01') AS v; BEGIN TRANSACTION; SELECT error('x') --",
    "INT) AS x FROM released_0; " + MACRO + "; SELECT 1 AS x --",
    "INT) AS x FROM table_of_rows; " + MACRO + "; SELECT 1 AS x --",
    "year FROM day) FROM t; " + MACRO + "; --",
    "year'); " + MACRO + "; --",
    '"; ' + MACRO + "; --",
    '""; ' + MACRO + "; --",
    "'; " + MACRO + "; --",
    "''; " + MACRO + "; --",
    "\\'; " + MACRO + "; --",
    "$$; " + MACRO + "; $$",
    "*/; " + MACRO + "; /*",
    "-- \n; " + MACRO,
    "BEGIN TRANSACTION; SELECT error('x')",
    "int); " + MACRO + "; --",
    "’; " + MACRO,
    "\u02bc; " + MACRO,
    "{# x #}",
    "{{ x }}",
    "%s",
    "a.b",
    "ALL",
    "abs(x)",
    "é\u0301\u202e",
    "\n",
    "\0",
)
"""What could be more than a name, a unit, a type or a text."""


def quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, 2 * quote) + quote


PLACES = (
    'SELECT EXTRACT({name} FROM "day") AS y, COUNT(*) FROM flights GROUP BY 1',
    "SELECT EXTRACT({text} FROM day) AS y, COUNT(*) FROM flights GROUP BY 1",
    "SELECT date_trunc({text}, day) AS y, COUNT(*) FROM flights GROUP BY 1",
    "SELECT date_part({text}, day) AS y, COUNT(*) FROM flights GROUP BY 1",
    "SELECT date_diff({text}, day, day) AS y, COUNT(*) FROM flights GROUP BY 1",
    "SELECT CAST(COUNT(*) AS {name}) FROM flights",
    "SELECT COUNT(*)::{name} FROM flights",
    "SELECT TRY_CAST(COUNT(*) AS DECIMAL({name})) FROM flights",
    "SELECT {name}(COUNT(*)) FROM flights",
    "SELECT COUNT(*) AS {name} FROM flights",
    "SELECT COUNT(*) AS {text} FROM flights",
    "SELECT COUNT(*) FROM flights AS {name}",
    "SELECT {name}.n FROM (SELECT COUNT(*) AS n FROM flights) AS {name}",
    "SELECT q.{name} FROM (SELECT COUNT(*) AS {name} FROM flights) AS q",
    "WITH {name} AS (SELECT COUNT(*) AS n FROM flights) SELECT n FROM {name}",
    "SELECT COUNT(*) FROM flights WHERE origin = {text}",
    "SELECT COUNT(*) FROM flights WHERE upper(origin) = {text}",
    "SELECT COUNT(*) FROM flights WHERE origin LIKE {text}",
    "SELECT {text} AS x, COUNT(*) FROM flights",
    "SELECT CONCAT(COUNT(*), {text}) FROM flights",
    "SELECT strftime(day, {text}) AS y, COUNT(*) FROM flights GROUP BY 1",
    "SELECT COUNT(*) FROM flights WHERE day > DATE '2013-01-01' + INTERVAL {text}",
    "SELECT COUNT(*) FROM flights WHERE day > DATE '2013-01-01' + INTERVAL 1 {name}",
    "SELECT COUNT(*) FROM flights ORDER BY COUNT(*) COLLATE {name}",
    "SELECT SUM(COUNT(*)) OVER {name} FROM flights GROUP BY month WINDOW {name} AS (ORDER BY month)",
    "SELECT COUNT(*) /* {raw} */ FROM flights -- {raw}",
    "SELECT COUNT(*) FROM flights; {raw}",
    "SELECT $${raw}$$ AS x, COUNT(*) FROM flights",
    "SELECT E{text} AS x, COUNT(*) FROM flights",
    "SELECT N{text} AS x, COUNT(*) FROM flights",
)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_is_injected_changes_what_others_get(place: str) -> None:
    for text in HOSTILE:
        statement = place.format(name=quoted(text, '"'), text=quoted(text, "'"), raw=text)
        with suppress(QueryError):
            rows().sql(statement)
    table = rows().sql("SELECT ABS(COUNT(*) - COUNT(*) - 7) AS x FROM flights")
    assert table["x"].to_pylist() == [7]


@pytest.mark.parametrize("word", ["x y", "year FROM day) --", "centurY; DROP", "", "timezone", "year\0"])
def test_a_unit_that_is_none_is_refused_with_those_there_are(word: str) -> None:
    with pytest.raises(QueryError, match=r"a unit is one of year, quarter|cannot be read"):
        split(f'SELECT EXTRACT("{word}" FROM day), COUNT(*) FROM flights GROUP BY 1', SCHEMA)


@pytest.mark.parametrize("word", ["x y", "INT); --", "my_type", "STRUCT(a INT)", "INT[]", "JSON", "BLOB"])
def test_a_type_that_is_not_listed_is_refused(word: str) -> None:
    for written in (quoted(word, '"'), word):
        with pytest.raises(QueryError):
            split(f"SELECT CAST(COUNT(*) AS {written}) FROM flights", SCHEMA)


@pytest.mark.parametrize("asked", answered()[::7], ids=str)
def test_the_corpus_is_spelled_as_it_is_meant(asked: Asked) -> None:
    statement = split(asked.sql, SCHEMA)
    for tree in (statement.outer, statement.text.original):
        text = spelled(tree)
        assert spelled(tree_of(text)) == text


@pytest.mark.parametrize(
    "node",
    [
        exp.Extract(this=exp.Var(this="year FROM x) --"), expression=exp.column("a")),
        exp.Cast(this=exp.column("a"), to=exp.DataType(this=exp.DType.USERDEFINED, kind="x y")),
        exp.Anonymous(this="abs", expressions=[exp.column("a")]),
        exp.Var(this="1; DROP TABLE x"),
        exp.Literal(this="1; DROP TABLE x", is_string=False),
        exp.Literal(this="1e", is_string=False),
        exp.Literal(this="", is_string=False),
        exp.Literal(this=".", is_string=False),
        exp.Literal(this="1" * (MAX_DIGITS + 1), is_string=False),
        exp.Literal.string("a\0b"),
        exp.Literal.string("\ud800"),
        exp.Window(this=exp.Count(this=exp.Star()), over="OVER (), error('x')"),
        exp.Trim(this=exp.column("a"), position="BOTH x"),
        exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="day); --")),
        exp.Interval(this=exp.Literal.string("1"), unit=exp.column("a")),
        exp.column("a", table="t", db="other"),
    ],
    ids=repr,
)
def test_a_tree_with_a_text_that_is_no_listed_word_is_refused(node: exp.Expr) -> None:
    with pytest.raises(QueryError):
        spelled(exp.select(node).from_("t"))


@pytest.mark.parametrize(
    "argument",
    [
        {"into": exp.Into(this=exp.to_table("x"))},
        {"hint": exp.Hint(expressions=[exp.Var(this="x")])},
        {"sample": exp.TableSample(size=exp.Literal.number(3))},
        {"kind": "STRUCT"},
        {"joins": [exp.Join(this=exp.to_table("x"), kind="CROSS JOIN y")]},
        {"limit": exp.Limit(expression=exp.Literal.number(1), offset=exp.Literal.number(2))},
    ],
    ids=repr,
)
def test_an_argument_that_is_not_listed_is_refused(argument: dict[str, object]) -> None:
    tree = exp.select("a").from_("t")
    for name, value in argument.items():
        tree.set(name, value)
    with pytest.raises(QueryError):
        spelled(tree)


def test_what_is_too_large_is_refused_by_its_limit() -> None:
    with pytest.raises(QueryError, match=f"more than {MAX_NODES:,} parts"):
        check(exp.select(*[exp.Literal.number(1)] * (MAX_NODES + 1)))
    deep: exp.Expr = exp.Literal.number(1)
    for _ in range(MAX_DEPTH):
        deep = exp.Neg(this=deep)
    with pytest.raises(QueryError, match=f"more than {MAX_DEPTH} parts"):
        check(exp.select(deep, copy=False))


NAMES = st.text(max_size=6) | st.sampled_from(HOSTILE)
LEAVES = (
    st.integers(0, 99).map(exp.Literal.number)
    | NAMES.map(exp.Literal.string)
    | st.sampled_from(["x", "y"]).map(lambda name: exp.column(name, quoted=True))
    | st.just(exp.null())
    | st.just(exp.true())
)


def _binary(parts: st.SearchStrategy[exp.Expr]) -> st.SearchStrategy[exp.Expr]:
    kinds = st.sampled_from([exp.Add, exp.Mul, exp.EQ, exp.LT, exp.And, exp.Or, exp.DPipe, exp.Like, exp.Is])
    binary = st.builds(lambda kind, left, right: kind(this=left, expression=right), kinds, parts, parts)
    unary = st.builds(lambda kind, inner: kind(this=inner), st.sampled_from([exp.Not, exp.Neg, exp.Paren]), parts)
    call = st.builds(lambda kind, inner: kind(this=inner), st.sampled_from([exp.Upper, exp.Abs, exp.Length]), parts)
    unit = st.builds(
        lambda unit, inner: exp.Extract(this=exp.Var(this=unit), expression=inner), st.just("YEAR") | NAMES, parts
    )
    cast = st.builds(
        lambda kind, inner: exp.Cast(this=inner, to=exp.DataType(this=kind)), st.sampled_from(list(exp.DType)), parts
    )
    return binary | unary | call | unit | cast


@settings(max_examples=300)
@given(st.recursive(LEAVES, _binary, max_leaves=8), NAMES)
def test_whatever_tree_is_made_is_read_back_or_refused(node: exp.Expr, name: str) -> None:
    tree = exp.Select(
        expressions=[exp.alias_(exp.paren(node.copy()), exp.to_identifier(name or "a", quoted=True))],
        from_=exp.From(this=exp.Table(this=exp.to_identifier("t", quoted=True))),
    )
    try:
        text = spelled(tree)
    except QueryError:
        return
    again = tree_of(text)
    assert spelled(again) == text
    assert isinstance(again, exp.Select)
    assert again.named_selects == [name or "a"]


def test_comments_are_not_written() -> None:
    tree = parse_one("SELECT /* one */ a -- two\nFROM t /* three */", dialect="duckdb")
    assert spelled(tree) == 'SELECT "a" FROM "t"'


def test_a_tree_that_is_no_query_is_not_run() -> None:
    with pytest.raises(QueryError, match="single SELECT"):
        run(parse_one("DROP TABLE t", dialect="duckdb"), {})
