"""Charts of released tables: a bar for each group with its margin, as a picture and as a page."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import treering as tr
from support.vaults import SCHEMA, frame
from treering.chart import MOST_BARS, Bar, plot
from treering.domain.language.measures import Count, Mean

TABLE = pa.table(
    {
        "origin": ["EWR", "JFK", None],
        "n": [100, 50, 25],
        "n_margin": [10.0, 10.0, None],
        "share": [0.5714, 0.2857, None],
        "share_margin": [0.03, 0.03, None],
    }
)
SVG = "{http://www.w3.org/2000/svg}"


def test_a_chart_has_a_bar_for_each_group_with_its_margin() -> None:
    chart = plot(TABLE)
    assert (chart.x, chart.y) == ("origin", "n")
    assert chart.bars == (Bar("EWR", "", 100, 10.0), Bar("JFK", "", 50, 10.0), Bar("NULL", "", 25, 0.0))
    assert repr(chart) == "Chart(n by origin, 3 bars)"


def test_the_picture_is_to_scale() -> None:
    tree = ElementTree.fromstring(plot(TABLE).svg())
    widths = [float(each.get("width") or 0) for each in tree.iter(f"{SVG}rect")]
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.01)
    margins = [float(each.get("x2") or 0) - float(each.get("x1") or 0) for each in tree.iter(f"{SVG}line")]
    assert margins[0] / widths[0] == pytest.approx(0.2, rel=0.02)
    assert margins[2] == 0
    assert {"EWR", "100 ± 10", "n by origin"} <= {each.text for each in tree.iter(f"{SVG}text")}


def test_numbers_below_zero_go_to_the_left() -> None:
    below = plot(pa.table({"k": ["a", "b"], "m": [-2.0, 1.0], "m_margin": [0.5, 0.5]}))
    first, second = ElementTree.fromstring(below.svg()).iter(f"{SVG}rect")
    zero = float(second.get("x") or 0)
    assert float(first.get("x") or 0) + float(first.get("width") or 0) == pytest.approx(zero, abs=0.2)


def test_a_second_label_is_a_colour() -> None:
    table = pa.table({"k": ["a", "a", "b"], "late": [True, False, True], "n": [1, 2, 3], "n_margin": [0.5] * 3})
    chart = plot(table)
    assert chart.colours == ("True", "False")
    assert [(bar.label, bar.colour) for bar in chart.bars] == [("a", "True"), ("a", "False"), ("b", "True")]
    assert len({each.get("fill") for each in ElementTree.fromstring(chart.svg()).iter(f"{SVG}rect")}) == 2


def test_labels_are_escaped_and_what_is_not_known_has_no_bar() -> None:
    odd = plot(pa.table({"<k>": ["<b>&", "c"], "n": [1, None], "n_margin": [1.0, None]}))
    assert len(odd.bars) == 1
    assert "<b>" not in odd.svg()
    ElementTree.fromstring(odd.svg())


def test_a_date_is_no_length_so_the_next_number_is_drawn() -> None:
    table = pa.table({"k": ["a"], "first": [date(2013, 1, 1)], "first_margin": [3.0], "n": [5], "n_margin": [1.0]})
    assert plot(table).y == "n"


@pytest.mark.parametrize("columns", [["origin", "n"], ["n", "n_margin"], ["origin"]])
def test_a_table_without_labels_or_margins_makes_no_chart(columns: list[str]) -> None:
    with pytest.raises(tr.QueryError, match="GROUP BY"):
        plot(TABLE.select(columns))


def test_a_chart_that_nobody_could_read_is_refused() -> None:
    rows = MOST_BARS + 1
    with pytest.raises(tr.QueryError, match="at most 500 bars, not 501: LIMIT"):
        plot(pa.table({"k": range(rows), "n": [1] * rows, "n_margin": [1.0] * rows}))


def test_a_chart_is_saved_as_a_picture_or_a_page(tmp_path: Path) -> None:
    chart = plot(TABLE)
    chart.save(tmp_path / "chart.svg")
    assert (tmp_path / "chart.svg").read_text() == chart.svg() == chart._repr_html_()
    chart.save(str(tmp_path / "chart.html"))
    page = (tmp_path / "chart.html").read_text()
    assert "<html" in page
    assert "EWR" in page
    with pytest.raises(tr.ParameterError, match=r"must end in \.svg or \.html, not 'chart.pdf'"):
        chart.save(tmp_path / "chart.pdf")


def test_what_rings_and_sql_give_can_be_drawn(tmp_path: Path) -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(frame(2000))
    rings = tr.Rings(db, 1.0, 1e-6)
    counts = plot(rings.table(["origin"]))
    assert (counts.x, counts.y, len(counts.bars)) == ("origin", "count", 3)
    assert all(bar.margin > 0 for bar in counts.bars)
    measured = rings.table(["origin"], measures={"flights": Count(), "mean": Mean("month")})
    assert plot(measured).y == "flights"
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-6) as vault:
        vault.append(frame(2000))
        chart = tr.plot(vault.sql("SELECT origin, late, COUNT(*) AS n FROM t GROUP BY origin, late"))
        assert chart.colours
