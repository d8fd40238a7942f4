"""For the site alone: docstrings as Markdown. Loaded by mkdocs.yml; no part of the package.

Examples (lines of ``>>>`` and what they print), which Markdown would take for quotations, become code blocks; and the
star of a symbol like p* is kept from beginning an emphasis.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^([ \t]*)>>> .*(?:\n(?![ \t]*$).*)*", re.MULTILINE)


_STARRED = re.compile(r"(?<![\w*\\`])(\w)\*(?![\w*])")


def escaped(text: str) -> str:
    """The text with the stars of one-letter symbols escaped."""
    return _STARRED.sub(r"\1\\*", text)


def fenced(text: str) -> str:
    """The text with each example, up to the next empty line, in a fence."""
    return _EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Docstrings(Extension):
    """Prepares every docstring that is loaded."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """When an object has been collected."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(escaped(obj.docstring.value))
