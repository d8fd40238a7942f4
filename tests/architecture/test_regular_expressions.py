"""No regular expression of the package takes more than linear time, whatever text it meets.

Python's engine backtracks: a repetition inside a repetition, or alternatives that match the same text, repeated, take
time that doubles with each character. Each pattern is parsed, and such forms are refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from support.imports import modules

kinds: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

FUNCTIONS = {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT)
SAMPLE = [chr(code) for code in range(128)] + ["é", "\u2003", "٣"]
"""Characters of every kind."""
SHORT = 16
"""A repetition of at most this many is no matter."""


def problems(pattern: str) -> list[str]:
    """Why a pattern could take more than linear time."""
    return list(_problems(parser.parse(pattern), inside=False))


def _problems(tree: Any, *, inside: bool) -> Iterator[str]:
    items = list(tree)
    for place, (kind, value) in enumerate(items):
        if kind in REPEATS:
            _, most, body = value
            unbounded = most > SHORT
            if unbounded and inside:
                yield "a repetition inside a repetition"
            if unbounded and place + 1 < len(items) and _both_repeat(items[place], items[place + 1]):
                yield "two repetitions side by side that match the same characters"
            yield from _problems(body, inside=inside or unbounded)
        elif kind is kinds.BRANCH:
            if inside and _overlap([_first(branch) for branch in value[1]]):
                yield "repeated alternatives that begin alike"
            for branch in value[1]:
                yield from _problems(branch, inside=inside)
        elif kind is kinds.SUBPATTERN:
            yield from _problems(value[-1], inside=inside)
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from _problems(value[1], inside=inside)


def _both_repeat(one: Any, other: Any) -> bool:
    if other[0] not in REPEATS or other[1][1] <= SHORT:
        return False
    return bool(_first(one[1][2]) & _first(other[1][2]))


def _overlap(sets: list[set[str]]) -> bool:
    return any(sets[one] & sets[other] for one in range(len(sets)) for other in range(one))


def _first(tree: Any) -> set[str]:
    """The characters that what a pattern matches may begin with; "" if it may match nothing."""
    found: set[str] = set()
    for kind, value in tree:
        found |= _beginning(kind, value)
        if not (kind in REPEATS and value[0] == 0) and kind is not kinds.AT:
            return found
    return found | {""}


def _beginning(kind: Any, value: Any) -> set[str]:
    if kind in REPEATS:
        return _first(value[2])
    if kind is kinds.SUBPATTERN:
        return _first(value[-1])
    if kind is kinds.BRANCH:
        return set().union(*(_first(branch) for branch in value[1]))
    if kind is kinds.LITERAL:
        return {chr(value).lower(), chr(value).upper()}
    if kind is kinds.ANY:
        return set(SAMPLE)
    if kind is kinds.NOT_LITERAL:
        return set(SAMPLE) - {chr(value)}
    if kind is kinds.IN:
        return _members(value)
    return set() if kind is kinds.AT else set(SAMPLE)


def _members(items: Any) -> set[str]:
    negated = items[0][0] is kinds.NEGATE
    found: set[str] = set()
    for kind, value in items[negated:]:
        if kind is kinds.LITERAL:
            found.add(chr(value))
        elif kind is kinds.RANGE:
            found |= {each for each in SAMPLE if value[0] <= ord(each) <= value[1]}
        else:
            found |= {each for each in SAMPLE if _is_category(value, each)}
    return set(SAMPLE) - found if negated else found


def _is_category(category: Any, character: str) -> bool:
    letters = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
    name = str(category).removeprefix("CATEGORY_")
    positive = re.match(letters[name.removeprefix("NOT_")], character) is not None
    return positive != name.startswith("NOT_")


def patterns(source: str) -> Iterator[str]:
    """The patterns of a module, with the names and constants in them put in their places."""
    tree = ast.parse(source)
    names = {
        target.id: _text(node.value, {})
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _is_re(call.func) and call.args:
            text = _text(call.args[0], names)
            yield "" if text is None else text


def _is_re(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and ((node.value.id, node.attr in FUNCTIONS) == ("re", True))
    )


def _text(node: ast.expr, names: dict[str, str | None]) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.BinOp):
        parts = [_text(node.left, names), _text(node.right, names)]
        return None if None in parts else "".join(part or "" for part in parts)
    if isinstance(node, ast.JoinedStr):
        inner = [each.value if isinstance(each, ast.FormattedValue) else each for each in node.values]
        texts = [_text(each, names) for each in inner]
        return None if None in texts else "".join(text or "" for text in texts)
    return None


FILES: dict[str, Path] = modules()


def test_no_pattern_of_the_package_backtracks() -> None:
    found = {(name, text): problems(text) for name, path in FILES.items() for text in patterns(path.read_text())}
    assert len(found) >= 20
    assert {place: why for place, why in found.items() if why} == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"(/\*.*?\*/|\s)*X",
        r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|[(;])*(?:SELECT|$)",
        r"(a+)+b",
        r"(a|a)*b",
        r"(a?|b?)*x",
        r"(%-?[Yy%]|.)*",
        r"\s*\s*x",
        r"(x+x+)y",
        r"(?:a{1,100})*b",
        r"(?=(a+)+b)c",
    ],
)
def test_a_pattern_that_backtracks_is_seen(pattern: str) -> None:
    assert problems(pattern)


@pytest.mark.parametrize(
    "pattern", [r"\s*EXPLAIN\b", r"[\s(]*(SELECT|WITH)\b", r"(\d{4})(?:-(\d{2}))?", r"(a|b)*c", "`"]
)
def test_a_linear_pattern_is_not_complained_about(pattern: str) -> None:
    assert problems(pattern) == []
