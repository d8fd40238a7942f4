"""The documentation builds as a site: no warning, nothing loaded from another host, every public name in it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import treering
from support.repository import ROOT
from treering import audit, learn, theory

LOADING = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
"""What a browser fetches by itself. A hyperlink is followed by a person."""

ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
STYLED = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


class Page(HTMLParser):
    """What a page loads, and the places that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)
        self.loaded += STYLED.findall(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {value for name, value in attrs if name == "id" and value}
        self.loaded += [value for name in LOADING.get(tag, ()) if (value := found.get(name))]

    @property
    def elsewhere(self) -> list[str]:
        return [address for address in self.loaded if ELSEWHERE.match(address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {path.relative_to(site).as_posix(): Page(path.read_text()) for path in site.rglob("*.html")}


def test_every_page_of_docs_is_built(site: Path, pages: dict[str, Page]) -> None:
    docs = ROOT / "docs"
    assert {path.relative_to(docs).with_suffix(".html").as_posix() for path in docs.rglob("*.md")} <= set(pages)
    assert not list(site.rglob("*.py"))


def test_no_page_loads_anything_from_another_host(pages: dict[str, Page]) -> None:
    assert sum(len(page.loaded) for page in pages.values()) > 3 * len(pages)  # style sheets and scripts of its own
    assert {name: page.elsewhere for name, page in pages.items() if page.elsewhere} == {}


def test_no_style_sheet_loads_anything_from_another_host(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    assert {path.name: found for path in sheets if (found := STYLED.findall(path.read_text()))} == {}


def test_all_that_is_loaded_is_there(site: Path, pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        if name != "404.html":  # it may be shown at any address, so it has absolute ones
            for address in page.loaded:
                if not address.startswith(("data:", "#")):
                    assert (site / name).parent.joinpath(address.split("?")[0].split("#")[0]).exists(), (name, address)


@pytest.mark.parametrize("module", [treering, learn, theory, audit], ids=["treering", "learn", "theory", "audit"])
def test_every_public_name_is_in_the_reference(module: object, pages: dict[str, Page]) -> None:
    documented = {each for name, page in pages.items() if name.startswith("reference/") for each in page.ids}
    prefix, names = vars(module)["__name__"], vars(module)["__all__"]
    assert len(names) >= 4
    places = {name: {f"{prefix}.{name}", _home(getattr(module, name))} for name in names}
    assert {name for name, place in places.items() if not place & documented} == set()


def _home(value: object) -> str:
    """Where a class or function is defined: it may stand in the reference under that name."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def test_every_function_of_theory_is_in_the_reference(pages: dict[str, Page]) -> None:
    documented = pages["reference/theory.html"].ids
    wanted = {f"treering.theory.{each}.{name}" for each in ("pmwg", "sparse", "schedule", "erm") for name in _all(each)}
    assert len(wanted) > 60
    assert wanted - documented == set()


def _all(module: str) -> list[str]:
    """The classes and functions that a module exports."""
    found = vars(getattr(theory, module))
    return [name for name in found["__all__"] if inspect.isclass(found[name]) or inspect.isroutine(found[name])]


def test_examples_in_docstrings_are_code(site: Path) -> None:
    text = (site / "reference" / "theory.html").read_text()
    assert '<span class="gp">&gt;&gt;&gt; </span>' in text
    assert "<blockquote>" not in text
    assert "kl(p*‖q)" in text  # no emphasis begins at the star


def test_proofs_are_typeset(site: Path) -> None:
    """As MathML, which a browser shows by itself."""
    for path in (site / "theory").glob("*.html"):
        assert path.read_text().count("<math") > 5, path.name
    fixed = (site / "theory" / "schedules.html").read_text()
    assert "<math" in fixed.split("Theorem 2")[1].split("Proof")[0]
    assert "g^(1/(p+1))" not in fixed
    assert "<math" not in (site / "tutorial.html").read_text()


def test_what_is_loaded_from_elsewhere_is_seen() -> None:
    for text in (
        '<script src="https' + '://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img alt="" src="HTTP' + '://example.com/a.png">',
        "<style>@import url('https" + "://fonts.example/css')</style>",
        '<p style="background: url(//example.com/a.png)">',
    ):
        assert len(Page(text).elsewhere) == 1
    assert Page('<a href="https' + '://example.com">a paper</a><img src="images/a.svg">').elsewhere == []
