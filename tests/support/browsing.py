"""The server's page in a real browser, which complains.

Whatever test opens a page, it fails if the page logs an error, or asks another host for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

import treering as tr
from support.programs import chromium
from support.repository import ROOT
from support.served import Served

ARTEFACTS: Final = ROOT / "artefacts" / "page"
"""Where screenshots are kept; git ignores it."""
ROWS: Final = 60_000
LONG: Final = "a_rather_long_name_of_an_attribute_that_somebody_chose"
SCHEMA: Final = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA"),
        "month": tr.integers(1, 12),
        LONG: tr.categories("yes", "no", "it depends on more than fits into a few words", missing=True),
    }
)


def rows(number: int, seed: int = 1) -> pa.Table:
    """So many random rows."""
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "origin": chance.choice(["EWR", "JFK", "LGA"], number, p=[0.5, 0.3, 0.2]),
            "month": chance.integers(1, 13, number),
            LONG: chance.choice(["yes", "no"], number),
        }
    )


def new_vault(path: Path) -> tr.Vault:
    """A vault of rings, beside a mechanism that draws rows."""
    vault = tr.Vault.create(path, SCHEMA, epsilon=1.0, delta=1e-9, share=0.8)
    vault.add("pmwg", 0.2, alpha=0.1, beta=0.05)
    vault.append(rows(ROWS // 2))
    vault.append(rows(ROWS // 2, seed=2))
    return vault


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser without a window."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visits:
    """Opens pages, and listens to what they complain about."""

    browser: Browser
    served: Served
    expected: list[str] = field(default_factory=list)
    """Patterns of complaints that a test provokes."""
    complaints: list[str] = field(default_factory=list)

    def open(self, token: str | None = None, *, width: int = 1200, scheme: Any = "light", **more: Any) -> Page:
        """A new visitor's page: at the log-in, or logged in."""
        context = self.browser.new_context(
            base_url=self.served.url, viewport={"width": width, "height": 900}, color_scheme=scheme, **more
        )
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._see)
        page.goto("/")
        if token is not None:
            log_in(page, token)
        return page

    def close(self) -> list[str]:
        """Close all pages; what they complained about without being asked to."""
        for context in self.browser.contexts:
            context.close()
        return [each for each in self.complaints if not any(re.search(one, each) for one in self.expected)]

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _see(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme != "data" and f"{parts.scheme}://{parts.netloc}" != self.served.url:
            self.complaints.append(f"another host: {request.url}")


def log_in(page: Page, token: str) -> None:
    """Log in, and wait for the page and its script."""
    page.get_by_label("Your token").fill(token)
    with page.expect_response("**/page/words"):
        page.get_by_role("button", name="Log in").click()


def ask(page: Page, question: str) -> None:
    """Ask a question by the keyboard, and wait for its result."""
    page.get_by_label("A condition, or an SQL statement").fill(question)
    page.keyboard.press("Escape")
    with page.expect_response("**/page/ask"):
        page.keyboard.press("Enter")
    page.locator(".result").first.wait_for()
