"""Templates and static files, from the package itself, with the headers that a page needs."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from treering.words import counted, left_out, readable

HERE: Final = Path(__file__).parent
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Everything comes from this server, and nothing that a text smuggles in is run."""
HEADERS: Final = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    made.globals.update(counted=counted, left_out=left_out, readable=readable)
    return made


def html(template: str, status: int = 200, **values: Any) -> Response:
    """A template, filled in."""
    text = _templates().get_template(template).render(**values)
    return Response(text, status, HEADERS, "text/html; charset=utf-8")


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """The static files: content, type and tag."""
    found = {path.name: path for path in (HERE / "static").iterdir() if path.suffix in TYPES}
    contents = {name: path.read_bytes() for name, path in found.items()}
    return {
        name: (content, TYPES[found[name].suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')
        for name, content in contents.items()
    }


def static(request: Request, name: str) -> Response | None:
    """A static file; None if there is no such. The browser keeps it, and asks whether it is still the same."""
    if name not in _files():
        return None
    content, kind, tag = _files()[name]
    headers = {"Cache-Control": "no-cache", "ETag": tag, "Content-Security-Policy": POLICY}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    return Response(content, 200, headers, kind)
