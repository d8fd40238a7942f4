"""What the server's page looks like: the pictures in the README.

    python -m experiments.page_picture [--quick] [--seed N]

Puts the flights of ten months into a vault, with some questions in between, runs `treering serve` over it, asks two
questions at its page in Chromium, and takes a picture of the answers and one of the status. Claimed: the page is no
wider than its window, and the pictures are small. With --quick, two months of flights, and nothing is written. (Letters
look as the machine's fonts do: these were taken with Inter.)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc
from playwright.sync_api import FloatRect, Page, sync_playwright

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from treering.demo.flights import SCHEMA, flights

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MONTHS, QUICK_MONTHS = 10, 2
WIDTH, MOST_BYTES = 1080, 200_000
DASHBOARD = (
    "SELECT carrier, COUNT(*) FROM t WHERE delay >= 60 GROUP BY carrier",
    "SELECT origin, hour, COUNT(*) FROM t GROUP BY origin, hour",
    "SELECT month, COUNT(*) FROM t GROUP BY month",
)
ASKED = (
    "origin = 'JFK' AND delay >= 60",
    "SELECT carrier, COUNT(*) AS late FROM t WHERE delay >= 60 GROUP BY carrier ORDER BY late DESC LIMIT 8",
)


def vault_of(months: int, path: Path) -> None:
    """A vault that flights came into month by month, and questions in between."""
    table = flights()
    with tr.Vault.create(path, SCHEMA, epsilon=1.0, delta=1e-9, share=0.9) as vault:
        vault.add("pmwg", 0.1, alpha=0.05)
        for month in range(1, months + 1):
            vault.append(table.filter(pc.equal(table["month"], month)).select(list(SCHEMA.names)))
            if month % 2 == 0:
                vault.sql(DASHBOARD[month // 2 % len(DASHBOARD)])
            if month % 3 == 0:
                vault.sql(
                    f"SELECT origin, month, COUNT(*) FROM t WHERE hour >= {4 * (month // 3)} GROUP BY origin, month"
                )


@contextmanager
def served(path: Path) -> Iterator[tuple[str, str]]:
    """The address of the server, and its first steward's token."""
    command = [sys.executable, "-c", "from treering.cli.main import main; main()", "serve", str(path), "--port", "0"]
    log = str(path.parent / "access.log")
    with subprocess.Popen([*command, "--access-log", log], stderr=subprocess.PIPE, text=True) as process:
        said = ""
        for line in process.stderr or ():
            said += line
            if found := re.search(r"listening at (\S+)", said):
                break
        token = re.search(r"treering_\S+", said)
        assert found is not None, said
        assert token is not None, said
        try:
            yield found[1], token[0]
        finally:
            process.terminate()
            process.communicate()


def asked(page: Page, token: str) -> None:
    """Log in, and ask."""
    page.goto("/")
    page.get_by_label("Your token").fill(token)
    with page.expect_response("**/page/words"):
        page.get_by_role("button", name="Log in").click()
    for question in ASKED:
        page.get_by_label("A condition, or an SQL statement").fill(question)
        page.keyboard.press("Escape")
        with page.expect_response("**/page/ask"):
            page.keyboard.press("Enter")
        page.locator("#live").wait_for()
        page.wait_for_timeout(1000)  # the status follows, and what rose is at rest


def pictures(url: str, token: str) -> Iterator[tuple[str, bytes, int]]:
    """Each picture's name and content, and how many pixels the page is wider than its window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, scheme, part in (("ask", "light", ".ask"), ("status", "dark", "#live")):
            page = browser.new_page(
                base_url=url,
                viewport={"width": WIDTH, "height": 900},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            asked(page, token)
            page.mouse.click(2, 2)  # no focus ring
            wider = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
            box = page.locator(part).bounding_box()
            assert box is not None
            clip: FloatRect = {"x": 0, "y": box["y"] - 20, "width": WIDTH, "height": box["height"] + 40}
            yield name, page.screenshot(full_page=True, clip=clip), wider
        browser.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Take both."""
    given, claims = options(__doc__, arguments), Claims()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "flights.treering"
        vault_of(QUICK_MONTHS if given.quick else MONTHS, path)
        with served(path) as (url, token):
            for picture, content, wider in pictures(url, token):
                claims.at_most(f"{picture}: pixels beyond the window", wider, 0)
                claims.at_most(f"{picture}: bytes", len(content), MOST_BYTES)
                if not given.quick:
                    (IMAGES / f"page_{picture}.png").write_bytes(content)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
