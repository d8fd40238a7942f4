"""How a statement begins: what stands before its first word is skipped in one pass, whatever it is."""

from __future__ import annotations

from typing import Final, NamedTuple

SELECTS: Final = frozenset({"SELECT", "WITH", "FROM"})
"""The words that a SELECT begins with."""


class Opening(NamedTuple):
    """The first word of a statement, and whether EXPLAIN stood before it."""

    word: str
    """In capitals; "" where the text ends, or has something else than a word."""
    explain: bool
    body: str
    """The statement without EXPLAIN."""
    empty: bool


def opening(text: str) -> Opening:
    """How a text begins, after spaces, comments, parentheses and semicolons."""
    place = _skipped(text, 0, "(;")
    word = _word(text, place)
    if word != "EXPLAIN":
        return Opening(word, False, text, place == len(text))
    body = text[place + len(word) :]
    place = _skipped(body, 0, "(;")
    first = _word(body, place)
    if first not in SELECTS and body[_skipped(body, 0, "") :].startswith("("):  # EXPLAIN's options: not answered
        return Opening(word, False, text, False)
    return Opening(first, True, body, place == len(body))


def _skipped(text: str, place: int, signs: str) -> int:
    """The place after spaces, comments and ``signs``."""
    while place < len(text):
        if text[place].isspace() or text[place] in signs:
            place += 1
        elif text.startswith("--", place):
            end = text.find("\n", place)
            place = len(text) if end < 0 else end + 1
        elif text.startswith("/*", place) and (end := text.find("*/", place + 2)) >= 0:
            place = end + 2
        else:
            break
    return place


def _word(text: str, place: int) -> str:
    end = place
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return text[place:end].upper()
