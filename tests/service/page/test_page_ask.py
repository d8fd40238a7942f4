"""Asking at the page: completion, the price before the answer, the answer with its error bar, files."""

from __future__ import annotations

import csv
import io
import re

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from support.browsing import LONG, ROWS, Visits, ask
from support.served import Served


@pytest.fixture
def page(visits: Visits, served: Served) -> Page:
    return visits.open(served.token())


def question(page: Page) -> str:
    return page.get_by_label("A condition, or an SQL statement").input_value()


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_an_answer_has_its_error_bar_and_says_what_it_cost(page: Page, served: Served) -> None:
    ask(page, "origin = 'JFK'")
    result = page.locator(".result").first
    size = served.vault.status()["size"]
    count = number(result.locator(".huge").inner_text())
    margin = number(result.locator(".pm").inner_text().removeprefix("± "))
    assert 0 < margin < count < size
    assert abs(count - 0.3 * size) < 10 * margin + 1000  # 30% of the rows, but for chance
    assert result.locator(".whisker").count() == 3
    expect(result.locator(".foot")).to_contain_text(re.compile("Cost|Free"))
    expect(page.locator("#said")).to_contain_text(f"{count:,} plus or minus {margin:,}")
    ask(page, "origin = 'JFK'")
    again = page.locator(".result").first
    expect(again.locator(".foot .free")).to_have_text("Free")
    expect(again.locator(".huge")).to_have_text(f"{count:,}")


def test_the_price_comes_before_the_answer_and_is_right(page: Page, served: Served) -> None:
    before = served.vault.status()["spent"]
    page.get_by_label("A condition, or an SQL statement").fill("month <= 3 AND origin = 'LGA'")
    shown = page.locator("#price")
    expect(shown).to_contain_text("of the budget")
    price = shown.locator(".cost").inner_text()
    assert served.vault.status()["spent"] == before  # a price is free
    ask(page, "month <= 3 AND origin = 'LGA'")
    expect(page.locator(".result").first.locator(".foot")).to_contain_text(f"Cost {price}")
    page.get_by_label("A condition, or an SQL statement").fill("month <= 3 AND origin <> 'LGA'")
    expect(shown).to_contain_text("Free")


def test_the_price_can_be_asked_for_with_a_button(page: Page) -> None:
    page.get_by_label("A condition, or an SQL statement").fill("month = 7")
    with page.expect_response("**/page/price"):
        page.get_by_role("button", name="Price").click()
    expect(page.locator("#price")).to_contain_text(re.compile("Free|of the budget"))
    assert page.locator(".result").count() == 0


def test_a_table_has_a_bar_and_an_error_bar_for_every_group(page: Page) -> None:
    ask(page, "SELECT month, COUNT(*) AS flights FROM t GROUP BY month")
    result = page.locator(".result").first
    assert result.locator("tbody tr").count() == 12
    assert result.locator("rect.bar").count() == 12
    assert result.locator("line.whisker").count() == 36
    cells = result.locator("tbody td.number").all_inner_texts()
    assert all(re.fullmatch(r"[\d,]+ ± [\d,]+", cell) for cell in cells[1::2])
    boxes = [box for bar in result.locator("rect.bar").all() if (box := bar.bounding_box()) is not None]
    counts = [number(cell.split(" ±")[0]) for cell in cells[1::2]]
    scale = boxes[0]["width"] / counts[0]
    assert [box["width"] for box in boxes] == pytest.approx([scale * count for count in counts], abs=2)


def test_the_file_of_a_result_has_what_the_page_shows(page: Page) -> None:
    ask(page, "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin")
    with page.expect_download() as download:
        page.locator(".result").first.get_by_role("link", name="CSV").click()
    listed = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [row["origin"] for row in listed] == ["EWR", "JFK", "LGA"]
    shown = page.locator(".result").first.locator("tbody tr").first.inner_text()
    assert f"{int(listed[0]['n']):,} ± {float(listed[0]['n_margin']):,.0f}" in shown


def test_what_is_wrong_is_said_with_what_would_be_right(page: Page) -> None:
    ask(page, "orign = 'JFK'")
    problem = page.locator(".result .problem").first
    expect(problem).to_contain_text("did you mean origin?")
    expect(problem.locator("pre")).to_contain_text("^")
    expect(page.locator("#said")).to_contain_text("did you mean origin?")
    page.get_by_label("within ±").fill("a few")
    ask(page, "origin = 'JFK'")
    expect(page.locator(".result .problem").first).to_contain_text("within")


def test_a_margin_can_be_wished_for(page: Page) -> None:
    page.get_by_label("within ±").fill("1%")
    ask(page, f"\"{LONG}\" = 'yes' AND month = 12")
    margin = page.locator(".result").first.locator(".pm").inner_text()
    assert number(margin.removeprefix("± ")) <= 0.01 * ROWS * 2


def test_names_and_values_are_completed_by_the_keyboard(page: Page) -> None:
    area = page.get_by_label("A condition, or an SQL statement")
    options = page.locator("#suggestions").get_by_role("option")
    area.press_sequentially("ori")
    expect(options).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(area).to_have_attribute("aria-activedescendant", "suggestion-0")
    page.keyboard.press("Enter")
    assert question(page) == "origin "
    area.press_sequentially("= ")
    expect(options).to_have_count(3)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Tab")
    assert question(page) == "origin = 'LGA' "
    expect(area).to_be_focused()
    area.press_sequentially("AND origin <> 'E")
    expect(options).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()
    assert page.locator(".result").count() == 0


def test_a_suggestion_can_be_clicked(page: Page) -> None:
    area = page.get_by_label("A condition, or an SQL statement")
    area.press_sequentially("SELECT mon")
    page.locator("#suggestions").get_by_role("option", name="month").click()
    assert question(page) == "SELECT month "
    expect(area).to_be_focused()


def test_an_example_can_be_taken(page: Page) -> None:
    chip = page.locator(".chip").last
    chip.click()
    assert question(page) == chip.inner_text()
    expect(page.locator("#price")).to_contain_text(re.compile("Free|of the budget"))


@pytest.mark.parametrize("form", ["CSV", "Parquet"])
def test_synthetic_rows_come_as_a_file(page: Page, form: str) -> None:
    ask(page, "origin = 'EWR'")
    page.get_by_role("spinbutton", name="Rows").fill("2000")
    page.get_by_role("combobox", name="as").select_option(form)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    path = download.value.path()
    if form == "CSV":
        listed = list(csv.DictReader(io.StringIO(path.read_text())))
        assert len(listed) == 2000
        assert {row["origin"] for row in listed} <= {"EWR", "JFK", "LGA"}
    else:
        assert pq.read_table(path).num_rows == 2000
    assert download.value.suggested_filename == f"synthetic.{form.lower()}"


def test_it_works_without_the_script(visits: Visits, served: Served) -> None:
    page = visits.open(java_script_enabled=False)
    page.get_by_label("Your token").fill(served.token())
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("A condition, or an SQL statement").fill("origin = 'JFK'")
    page.get_by_role("button", name="Price").click()
    expect(page.locator("#price")).to_contain_text(re.compile("Free|of the budget"))
    page.get_by_role("button", name="Ask", exact=True).click()
    assert page.locator(".result .whisker").count() == 3
    page.get_by_label("A condition, or an SQL statement").fill("SELECT origin, COUNT(*) FROM t GROUP BY origin")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert page.locator(".result tbody tr").count() == 3
