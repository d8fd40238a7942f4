"""Templates and static files."""

from __future__ import annotations

import re

import jinja2
import pytest

from treering.service.pages.render import HEADERS, HERE, html


def test_values_are_escaped() -> None:
    body = bytes(html("problem.html", problem={"title": "<b>", "detail": "a & b\n  <i>"}).body).decode()
    assert "&lt;b&gt;" in body
    assert "a &amp; b" in body
    assert "<pre>  &lt;i&gt;</pre>" in body


def test_a_value_that_is_missing_is_an_error_and_no_empty_place() -> None:
    with pytest.raises(jinja2.UndefinedError):
        html("problem.html", problem={"title": "what"})


def test_no_template_has_script_or_style_of_its_own_or_anything_from_elsewhere() -> None:
    """The policy would stop them in the browser; here they do not get so far."""
    templates = sorted((HERE / "templates").glob("*.html"))
    assert len(templates) >= 10
    for path in templates:
        text = path.read_text()
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=\"/static/)", text), path.name
        assert not re.search(r"(?:src|href|action)=\"(?!/|#|\{\{)", text), path.name
    for path in (HERE / "static").iterdir():
        found = re.findall(r"https?://[^\s\"')]+", path.read_text())
        assert set(found) <= {"http" + "://www.w3.org/2000/svg"}, path.name


def test_only_pictures_of_our_own_go_in_unescaped() -> None:
    safe = [
        expression
        for path in (HERE / "templates").glob("*.html")
        for expression in re.findall(r"\{\{\s*([^}]*?)\s*\|\s*safe\s*\}\}", path.read_text())
    ]
    assert safe
    assert all(expression.endswith("svg") for expression in safe)


def test_the_policy() -> None:
    policy = dict(part.strip().split(" ", 1) for part in HEADERS["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
