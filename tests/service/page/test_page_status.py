"""The status at the page, as it changes: rings, budget, answers, series."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

import treering as tr
from support.browsing import LONG, SCHEMA, Visits, ask, rows
from support.served import Served, serving


@pytest.fixture
def page(visits: Visits, served: Served) -> Page:
    return visits.open(served.token())


def figure(page: Page, name: str) -> str:
    return page.locator(".figure", has_text=name).locator(".big").inner_text()


def test_an_append_is_seen_by_who_only_looks(page: Page, served: Served) -> None:
    size = served.vault.size
    expect(page.locator(".figure", has_text="batches").locator(".big")).to_have_text(f"{size:,}")
    circles = page.locator(".rings .wood").count()
    with served.client() as steward:
        steward.append(rows(1234, seed=3))
    expect(page.locator(".figure", has_text="batches").locator(".big")).to_have_text(f"{size + 1234:,}")
    assert page.locator(".rings .wood").count() == circles + 1
    newest = page.locator(".rings .left").first  # the outermost is drawn first
    assert newest.get_attribute("stroke-dasharray") == "100.00 100"


def test_what_somebody_else_asks_changes_the_rings_the_budget_and_the_series(
    page: Page, visits: Visits, served: Served
) -> None:
    other = visits.open(served.token())
    before = figure(page, "budget left")
    series = page.locator("table.series tbody tr").count()
    oldest = page.locator(".rings .left").last.get_attribute("stroke-dasharray")
    ask(other, "SELECT origin, month, COUNT(*) FROM t GROUP BY origin, month")
    expect(page.locator("table.series tbody tr")).to_have_count(series + 1)
    expect(page.locator("table.series tbody tr").last).to_contain_text("origin × month")
    assert figure(page, "budget left") != before
    left = page.locator(".rings .left").last.get_attribute("stroke-dasharray")
    assert left is not None
    assert oldest is not None
    assert float(left.split()[0]) < float(oldest.split()[0])
    spent = page.locator("rect.spent").first.bounding_box()
    assert spent is not None
    assert spent["height"] > 0


def test_answers_are_counted_by_kind(page: Page) -> None:
    answers = int(figure(page, "since the server").replace(",", ""))
    ask(page, "month = 1")
    ask(page, "SELECT month, COUNT(*) FROM t GROUP BY month")
    expect(page.locator(".figure", has_text="since the server").locator(".big")).to_have_text(f"{answers + 2:,}")
    legend = page.locator(".legend", has_text="sql")
    expect(legend).to_contain_text("measured")
    expect(page.get_by_role("img", name="answers over time")).to_be_visible()


def test_the_rings_are_a_table_too_which_stays_open(page: Page, served: Served) -> None:
    page.get_by_text("As a table").click()
    listed = page.locator("details tbody tr")
    count = listed.count()
    assert sum(int(row.locator("td").nth(1).inner_text().replace(",", "")) for row in listed.all()) == served.vault.size
    page.locator("h1").click()
    with served.client() as steward:
        steward.append(rows(500, seed=4))
    expect(listed).to_have_count(count + 1)
    expect(listed.first).to_be_visible()
    expect(listed.first).to_contain_text("500")


def test_an_empty_vault_says_what_will_be_there(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("empty") / "new.treering"
    with serving(tr.Vault.create(path, SCHEMA, epsilon=1.0), path) as empty:
        visits = Visits(browser, empty)
        page = visits.open(empty.token())
        expect(page.get_by_text("No rows yet")).to_be_visible()
        expect(page.get_by_text("No series yet")).to_be_visible()
        expect(page.get_by_text("Nothing was asked yet")).to_be_visible()
        expect(page.get_by_text("No mechanism of this vault draws rows")).to_be_visible()
        ask(page, "origin = 'JFK'")
        expect(page.locator(".result .problem")).to_contain_text("rows")
        with empty.client() as steward:
            steward.append(rows(3000))
        expect(page.locator(".rings .wood")).to_have_count(1)
        ask(page, "origin = 'JFK'")
        expect(page.locator(".result .huge")).to_be_visible()
        assert visits.close() == []


def test_a_quota_is_shown_and_kept(visits: Visits, served: Served) -> None:
    page = visits.open(served.token(answers=1))
    expect(page.locator(".quota")).to_contain_text("1 charged answer left")
    new = f"{LONG} = 'yes'"  # which no other test of this module asks
    ask(page, new)
    expect(page.locator(".quota")).to_contain_text("0 charged answers")
    ask(page, f"{LONG} = 'no' AND month <= 2 AND origin <> 'EWR'")
    expect(page.locator(".result .problem").first).to_contain_text("quota")
    ask(page, new)
    expect(page.locator(".result .free").first).to_be_visible()
