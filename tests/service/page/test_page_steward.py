"""What stewards do at the page: rows, tokens, the ledger. And who is not let in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pyarrow import csv

from support.browsing import Visits, ask, log_in, rows
from support.served import Served


@pytest.fixture
def page(visits: Visits, served: Served) -> Page:
    return visits.open(served.token("steward"))


def visit(page: Page, view: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("link", name=view).click()


def test_a_file_is_appended_and_seen_live_elsewhere(page: Page, visits: Visits, served: Served, tmp_path: Path) -> None:
    watcher = visits.open(served.token())
    size = served.vault.size
    csv.write_csv(rows(700, seed=5), tmp_path / "more.csv")
    visit(page, "Rows")
    page.get_by_label("A file").set_input_files(tmp_path / "more.csv")
    page.get_by_role("button", name="Append").click()
    expect(page.get_by_role("status")).to_contain_text("700 rows appended")
    expect(page.get_by_role("status")).to_contain_text(f"{size + 700:,} rows now")
    expect(watcher.locator(".figure", has_text="batches").locator(".big")).to_have_text(f"{size + 700:,}")


def test_rows_that_do_not_fit_are_refused_with_their_place_or_left_out(
    page: Page, visits: Visits, served: Served, tmp_path: Path
) -> None:
    visits.expected.append("status of 422")
    csv.write_csv(rows(50, seed=6), tmp_path / "bad.csv")
    with (tmp_path / "bad.csv").open("a") as file:
        file.write('"XYZ",3,"yes"\n')
    size = served.vault.size
    visit(page, "Rows")
    page.get_by_label("A file").set_input_files(tmp_path / "bad.csv")
    page.get_by_role("button", name="Append").click()
    expect(page.locator(".problem")).to_contain_text("origin")
    expect(page.locator(".problem")).not_to_contain_text("XYZ")
    assert served.vault.size == size
    page.get_by_label("leave them out").check()
    page.get_by_role("button", name="Append").click()
    expect(page.get_by_role("status")).to_contain_text("50 rows appended")
    expect(page.get_by_role("status")).to_contain_text("1 row did not fit")
    assert served.vault.size == size + 50


def test_a_file_of_another_kind_is_refused(page: Page, visits: Visits, tmp_path: Path) -> None:
    visits.expected.append("status of 415")
    (tmp_path / "picture.png").write_bytes(b"no rows")
    visit(page, "Rows")
    page.get_by_label("A file").set_input_files(tmp_path / "picture.png")
    page.get_by_role("button", name="Append").click()
    expect(page.locator(".problem")).to_contain_text("Content-Type must be one of")


def test_a_token_is_made_shown_once_used_and_revoked(page: Page, visits: Visits, served: Served) -> None:
    name = "Ada <b>Lovelace</b>"
    visit(page, "Tokens")
    page.get_by_label("For whom").fill(name)
    page.get_by_label("Charged answers a week").fill("5")
    page.get_by_label("Budget a week").fill("10")
    page.get_by_role("button", name="Make a token").click()
    text = page.locator("#fresh").inner_text()
    assert re.fullmatch(r"treering_[\w-]{43}", text)
    row = page.get_by_role("row", name=name)
    expect(row).to_contain_text("0 of 5 charged answers")
    expect(row).to_contain_text("0% of 10% of the budget")
    analyst = visits.open(text)
    expect(analyst.locator(".who")).to_contain_text(name)
    ask(analyst, "origin = 'EWR'")
    visit(page, "Tokens")
    expect(page.locator("body")).not_to_contain_text(text)
    visits.expected.append("status of 401")
    row.get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    expect(analyst.get_by_label("Your token")).to_be_visible()  # thrown out, without a click
    analyst.goto("/")
    log_in_again = analyst.get_by_role("button", name="Log in")
    analyst.get_by_label("Your token").fill(text)
    log_in_again.click()
    expect(analyst.get_by_role("alert")).to_contain_text("revoked")
    assert not [token for token in served.desk.register.tokens if token.name == name and token.revoked is None]


@pytest.mark.parametrize(("field", "value"), [("Budget a week", "0"), ("Days", "99999")])
def test_a_token_that_cannot_be_is_refused_with_the_reason(
    page: Page, visits: Visits, served: Served, field: str, value: str
) -> None:
    visits.expected.append("status of 422")
    visit(page, "Tokens")
    many = len(served.desk.register.tokens)
    page.locator("form.inline").evaluate("form => { form.noValidate = true; }")
    page.get_by_label("For whom").fill("nobody")
    page.get_by_label(field).fill(value)
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_role("alert")).to_contain_text("must")
    assert len(served.desk.register.tokens) == many


def test_the_ledger_is_paged_from_its_newest_line_to_its_oldest(page: Page, served: Served) -> None:
    with served.client() as steward:
        for number in range(30):
            steward.append(rows(3, seed=number))
        for number in range(1, 12):
            steward.ask(f"month = {number}", key=f"line {number} of the ledger")
    visit(page, "Ledger")
    seen: list[int] = []
    while True:
        texts = page.locator("tbody tr td:first-child").all_inner_texts()
        seen += [int(text.replace(",", "")) for text in texts]
        if not page.get_by_role("link", name="Older").count():
            break
        page.get_by_role("link", name="Older").click()
    entries = served.vault.status()["entries"]
    assert entries > 50
    assert seen == list(range(entries, 0, -1))
    expect(page.locator("tbody tr").last).to_contain_text("vault created")
    page.get_by_role("link", name="Newer").click()
    assert page.locator("tbody tr").count() == 50


# -- who is not let in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["/rows", "/tokens", "/ledger"])
def test_views_of_stewards_are_not_for_analysts(visits: Visits, served: Served, view: str) -> None:
    visits.expected.append("status of 403")
    page = visits.open(served.token())
    expect(page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_count(0)
    page.goto(view)
    expect(page.get_by_role("alert")).to_contain_text("this view is for stewards")
    assert page.locator("form:not(.who)").count() == 0


@pytest.mark.parametrize("token", ["treering_wrong", "", "something else"])
def test_a_wrong_token_is_refused(visits: Visits, token: str) -> None:
    visits.expected.append("status of 401")
    page = visits.open()
    page.get_by_label("Your token").evaluate("field => { field.required = false; }")
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known")


def test_who_logs_out_is_out(visits: Visits, served: Served) -> None:
    page = visits.open(served.token())
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Your token")).to_be_visible()
    page.goto("/ledger")
    expect(page.get_by_label("Your token")).to_be_visible()
    log_in(page, served.token())


def test_another_site_cannot_post_in_a_visitors_name(visits: Visits, served: Served) -> None:
    page = visits.open(served.token("steward"))
    many = len(served.desk.register.tokens)
    headers = {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/x-www-form-urlencoded"}
    for path in ("/tokens", "/page/ask", "/page/logout"):
        reply = page.request.post(path, data="name=thief&role=steward&question=month = 1", headers=headers)
        assert reply.status == 403, path
    assert len(served.desk.register.tokens) == many
    page.reload()
    expect(page.locator("#question")).to_be_visible()
