"""Results as people see them: numbers with their margins, bars, HTML, charts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import treering as tr
from support.vaults import SCHEMA, frame
from treering.answer import Answer, Guarantee
from treering.shown import MARK, NOTES, chart, number, plain_value, released_html, show_tables, written
from treering.theory.plan.report import Plan

TABLE = pa.table(
    {
        "origin": ["EWR", "JFK", None],
        "n": [100, 50, 25],
        "n_margin": [10.0, 10.0, 25.0],
        "share": [0.5714, 0.2857, None],
        "share_margin": [0.03, 0.03, None],
    }
)


@pytest.mark.parametrize(
    ("value", "margin", "shown"),
    [
        (8541, 104.2, "8,541 ± 104"),
        (8541, 0.4, "8,541.00 ± 0.40"),
        (0.148846, 0.001865, "0.1488 ± 0.0019"),
        (12345.678, 250.0, "12,346 ± 250"),
        (-3.5, 0.25, "-3.50 ± 0.25"),
        (7, 0.0, "7 ± 0"),
        (1234567, None, "1,234,567"),
        (0.25, None, "0.25"),
        (math.inf, 3.0, "inf"),
        (True, None, "True"),
        (date(2013, 7, 1), None, "2013-07-01"),
        (date(2013, 7, 1), 1.0, "2013-07-01 ± 1 day"),
        (date(2013, 7, 1), 12.2, "2013-07-01 ± 13 days"),
        ("JFK", None, "JFK"),
        (None, 2.0, "NULL"),
    ],
)
def test_a_number_has_the_digits_that_its_margin_leaves_sense_in(value: Any, margin: float | None, shown: str) -> None:
    assert number(value, margin) == shown


def test_a_margin_stands_with_its_number() -> None:
    heads, rows, right = written(TABLE)
    assert heads == ["origin", "n", "share"]
    assert right == [1, 2]
    assert rows == [
        ["EWR", "100 ± 10", "0.571 ± 0.030"],
        ["JFK", "50 ± 10", "0.286 ± 0.030"],
        ["NULL", "25 ± 25", "NULL"],
    ]


def test_a_column_that_is_called_like_a_margin_but_follows_none_stays() -> None:
    heads, _, _ = written(pa.table({"x_margin": [1], "y": [2]}))
    assert heads == ["x_margin", "y"]


@pytest.mark.parametrize(
    ("value", "plain"),
    [(None, None), (3, 3), (True, True), ("x", "x"), (0.5, 0.5), (math.inf, None), (date(2013, 7, 1), "2013-07-01")],
)
def test_values_for_json(value: Any, plain: Any) -> None:
    assert plain_value(value) == plain


# -- bars --------------------------------------------------------------------------------------------------------------


def test_bars_are_solid_up_to_the_lower_end_and_light_up_to_the_upper_one() -> None:
    first, second, third = chart(TABLE, width=44)
    assert first == "EWR   " + "█" * 36 + "▒" * 8
    assert second == "JFK   " + "█" * 16 + "▒" * 8
    assert third == "NULL  " + "▒" * 20


@pytest.mark.parametrize(
    "table",
    [
        TABLE.slice(0, 1),
        TABLE.select(["n", "n_margin"]),
        TABLE.select(["origin", "n"]),
        pa.table({"k": ["a", "b"], "n": [0, -5], "n_margin": [0.0, 1.0]}),
        pa.table({"k": list(range(41)), "n": list(range(41)), "n_margin": [0.0] * 41}),
    ],
)
def test_what_has_no_groups_or_too_many_has_no_bars(table: pa.Table) -> None:
    assert chart(table) == []


# -- HTML --------------------------------------------------------------------------------------------------------------


def parsed(html: str) -> ElementTree.Element:
    """Well-formed HTML."""
    return ElementTree.fromstring(f"<all>{html.replace('<br>', '<br/>')}</all>")


def test_an_answer_shows_its_count_and_its_interval() -> None:
    html = Answer(value=0.25, error=0.05, size=1000, kind="measured", margin=0.01)._repr_html_()
    assert "250 ± 10" in "".join(parsed(html).itertext())
    thick = [line for line in parsed(html).iter("line") if line.get("stroke-width")]
    assert [(line.get("x1"), line.get("x2")) for line in thick] == [("57.6", "62.4")]


def test_a_guarantee_shows_its_promise_and_escapes_its_words() -> None:
    html = Guarantee(1.0, 1e-9, 0.01, 0.05, 10_000, "|a − b| < 1")._repr_html_()
    text = "".join(parsed(html).itertext())
    assert "epsilon 1, delta 1e-09" in text
    assert "|a − b| < 1" in text


def test_a_plan_shows_its_rows_the_best_one_and_the_reason() -> None:
    plan: Plan = tr.plan(cells=240, size=1_000_000, epsilon=1.0, delta=1e-9)
    tree = parsed(plan._repr_html_())
    assert len(list(tree.iter("tr"))) == len(plan.rows) + 1
    assert plan.best is not None
    assert [each.text for each in tree.iter("b")] == [plan.best.name]
    assert plan.reason in "".join(tree.itertext())


def test_a_vault_shows_its_budget_as_a_bar(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, 1.0, 1e-6, beta=1e-6) as vault:
        vault.append(frame(2_000))
        vault.ask("month = 3")
        tree = parsed(vault._repr_html_())
        whole, spent = (float(each.get("width") or 0) for each in tree.iter("rect"))
        assert spent == pytest.approx(whole * vault.spent / vault.total, abs=0.06)
        assert 0 < spent < whole
        assert "2,000 rows" in "".join(tree.itertext())


def test_released_tables_are_shown_and_others_are_left_alone() -> None:
    assert released_html(TABLE) is None
    html = released_html(TABLE.replace_schema_metadata({MARK: b"100"}))
    assert html is not None
    assert "100 ± 10" in [each.text for each in parsed(html).iter("td")]
    odd = pa.table({"k": ["<b>&"]}).replace_schema_metadata({MARK: b"1"})
    assert "&lt;b&gt;&amp;" in (released_html(odd) or "")


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[InteractiveShell]:
    """A real IPython, without a terminal: it has the formatters that a notebook has."""
    InteractiveShell.clear_instance()
    config = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(config=config, ipython_dir=str(tmp_path))
    yield shell
    InteractiveShell.clear_instance()


def html_of(shell: InteractiveShell, shown: object) -> str | None:
    """What a notebook shows."""
    formatter: Any = shell.display_formatter
    found: str | None = formatter.format(shown)[0].get("text/html")
    return found


def test_a_notebook_shows_released_tables_and_leaves_others_alone(notebook: InteractiveShell) -> None:
    released = TABLE.replace_schema_metadata({MARK: b"100", NOTES: b'["Values are clipped to 0 & 5."]'})
    assert html_of(notebook, released) is None
    show_tables()
    html = html_of(notebook, released)
    assert html is not None
    assert "100 ± 10" in html
    assert "clipped to 0 &amp; 5." in html
    assert html_of(notebook, TABLE) is None


def test_a_notebook_shows_all_that_is_public(notebook: InteractiveShell, tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-6) as vault:
        vault.append(frame(2000))
        table = vault.sql("SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin")
        shown = [vault, vault.schema, vault.ask("late = 'yes'"), table, tr.plot(table), tr.plan(100, 1000, 1.0)]
        pages = [html_of(notebook, each) for each in shown]
    assert all(page is not None and page.startswith("<") for page in pages)
    assert " at 0x" not in "".join(map(repr, shown))


def test_without_a_notebook_nothing_is_learnt() -> None:
    InteractiveShell.clear_instance()
    show_tables()
