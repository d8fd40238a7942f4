"""The report of a vault: one page that needs nothing else, with the promise in plain words and what is public."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import treering as tr
from support.cli import refused, treering
from support.vaults import SCHEMA, frame
from treering.pictures.overview import label, overview, promise


class Balanced(HTMLParser):
    """Counts tags that are opened and not closed."""

    VOID = ("meta", "circle", "path", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def vault(folder: Path) -> tr.Vault:
    made = tr.Vault.create(folder, SCHEMA, epsilon=1.0, delta=1e-6, name="visits")
    made.append(frame(3000))
    made.append(frame(2000))
    made.ask("late = 'yes'")
    return made


def test_a_page_is_whole_and_needs_nothing_else(tmp_path: Path) -> None:
    with vault(tmp_path / "v") as made:
        page = overview(made.status(), [(each.time, each.rows) for each in made.batches()])
    read = Balanced()
    read.feed(page.removeprefix("<!doctype html>"))
    assert read.open == []
    assert not re.search(r"(src|href)=|<script|@import|url\(", page)
    assert len(page) < 100_000
    assert "at most 73% sure" in page
    assert "visits" in page
    assert "5,000" in page
    assert "late" in page
    assert "prefers-color-scheme: dark" in page


def test_an_empty_vault_has_a_page(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0) as made:
        page = overview(made.status(), [])
    assert "Growth" not in page
    assert "What was asked" not in page


def test_the_promise_counts_the_rows_of_a_person() -> None:
    told = " ".join(promise({"epsilon": 0.5, "delta": 0.0, "rows_per_person": 30}))
    assert "your rows say (up to 30 of them)" in told
    assert "62% sure" in told
    assert "delta" not in told


def test_the_label_says_what_is_not_protected(tmp_path: Path) -> None:
    with vault(tmp_path / "v") as made:
        found = label(made.status())
    assert found["unit of privacy"] == "row"
    assert (found["epsilon"], found["delta"]) == (1.0, 1e-6)
    assert "number of rows" in found["not protected"]


def test_names_are_escaped(tmp_path: Path) -> None:
    schema = tr.Schema({"<b>&": tr.categories("x", "y")})
    with tr.Vault.create(tmp_path / "v", schema, epsilon=1.0, delta=1e-6) as made:
        made.append([{"<b>&": "x"}] * 2000)
        made.ask(tr.Query.where(schema, **{"<b>&": "x"}))
        page = overview(made.status(), [])
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    vault(tmp_path / "v").close()
    done = treering("report", tmp_path / "v", "--out", tmp_path / "page.html")
    assert done.code == 0
    assert "at most 73% sure" in (tmp_path / "page.html").read_text()
    assert treering("report", tmp_path / "v", "--out", tmp_path / "p.html", "--json").json["label"]["epsilon"] == 1
    assert "cannot write" in refused(treering("report", tmp_path / "v", "--out", tmp_path / "no" / "p.html"))
