"""The page for everybody: axe finds nothing serious, nothing overflows at a phone's width, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support.browsing import ARTEFACTS, LONG, Visits, ask
from support.served import Served

VIEWS = ["/", "/rows", "/schema", "/tokens", "/ledger"]
PHONE = 380


def serious(page: Page) -> list[str]:
    """What axe finds that is serious or critical, with where it is, once nothing moves any more."""
    page.wait_for_function("() => document.getAnimations().every(each => each.playState !== 'running')")
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {node['html'][:200]}" for each in grave for node in each["nodes"]]


def overflow(page: Page) -> int:
    """How many pixels the page is wider than its window."""
    wide: int = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
    return wide


def keep(page: Page, name: str) -> None:
    """A screenshot, for people."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=True)


def busy(visits: Visits, served: Served, **how: Any) -> Page:
    """A steward's page with a count, a table and an error on it."""
    page = visits.open(served.token("steward"), **how)
    ask(page, "orign = 'JFK'")
    ask(page, "origin = 'JFK' AND month <= 6")
    ask(page, f"SELECT {LONG}, month, COUNT(*) AS n, COUNT(*) / 3 AS third FROM t GROUP BY {LONG}, month")
    expect(page.locator(".result")).to_have_count(3)
    return page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", PHONE)])
def test_every_view_is_accessible_and_fits(visits: Visits, served: Served, scheme: str, width: int) -> None:
    served.desk.register.issue("somebody with a name that is quite long, " + 50 * "x", "analyst")
    page = visits.open(width=width, scheme=scheme)
    assert serious(page) == []
    keep(page, f"log-in-{scheme}-{width}")
    page = busy(visits, served, width=width, scheme=scheme)
    page.get_by_text("As a table").click()
    for view in VIEWS:
        if view != "/":
            page.goto(view)
        assert serious(page) == [], view
        assert overflow(page) <= 0, view
        keep(page, f"{view.strip('/') or 'ask'}-{scheme}-{width}")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1200), ("light", PHONE)])
def test_the_first_view_fits_light_and_dark(visits: Visits, served: Served, scheme: str, width: int) -> None:
    page = busy(visits, served, width=width, scheme=scheme)
    assert overflow(page) <= 0
    keep(page, f"ask-{scheme}-{width}")


def test_an_open_list_of_suggestions_is_accessible(visits: Visits, served: Served) -> None:
    page = visits.open(served.token(), width=PHONE)
    page.get_by_label("A condition, or an SQL statement").press_sequentially("o")
    expect(page.get_by_role("listbox", name="Suggestions")).to_be_visible()
    page.keyboard.press("ArrowDown")
    assert serious(page) == []
    assert overflow(page) <= 0


def test_light_and_dark_differ(visits: Visits) -> None:
    colours = [
        visits.open(scheme=scheme).evaluate("() => getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours == ["rgb(250, 248, 244)", "rgb(22, 19, 16)"]


def test_everything_can_be_reached_by_keyboard_and_the_focus_is_seen(visits: Visits, served: Served) -> None:
    page = visits.open(served.token("steward"))
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => document.activeElement.id || document.activeElement.textContent.trim()"))
        outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", reached[-1]
        if reached[-1] == "Download":
            break
    wanted = {"Skip to the content", "Ledger", "Log out", "question", "within", "Price", "Ask", "rows", "Download"}
    assert wanted <= set(reached)


def test_nothing_moves_for_who_wants_no_motion(visits: Visits, served: Served) -> None:
    moving = {}
    for wish in ("reduce", "no-preference"):
        page = visits.open(served.token(), reduced_motion=wish)
        ask(page, "month = 1")
        moving[wish] = page.locator(".result").evaluate("each => getComputedStyle(each).animationName")
    assert moving == {"reduce": "none", "no-preference": "rise"}


def test_the_policy_lets_nothing_in(visits: Visits, served: Served) -> None:
    page = visits.open(served.token())
    for path in ("/", "/page/status", "/static/page.js"):
        policy = page.request.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert page.request.get("/static/page.css").headers["cache-control"] == "no-cache"
    assert page.request.get("/static/../pyproject.toml").status == 404
    assert page.request.get("/static/nothing.js").status == 404
    assert page.request.get("/").headers["cache-control"] == "no-store"


def test_a_question_is_shown_as_text_whatever_it_says(visits: Visits, served: Served) -> None:
    page = visits.open(served.token())
    ask(page, "<img src=x onerror=alert(1)> = 'JFK'")
    expect(page.locator(".result .question")).to_contain_text("<img src=x")
    assert page.locator(".result img").count() == 0
