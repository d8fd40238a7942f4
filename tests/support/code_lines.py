"""How much code there is: lines that say something to Python, and how long functions are."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from typing import Final, TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
SILENT: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """The lines of a file that hold code: neither blank, nor comments, nor strings that stand by themselves."""
    written = {number for number, line in enumerate(text.split("\n"), start=1) if line.strip()}
    code: set[int] = set()
    for words in _statements(text):
        if any(word.type != tokenize.STRING for word in words):
            code.update(number for word in words for number in range(word.start[0], word.end[0] + 1))
    return len(code & written)


def _statements(text: str) -> Iterator[list[tokenize.TokenInfo]]:
    """The words of each logical line."""
    words: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            words.append(token)
        elif token.type == tokenize.NEWLINE:
            yield words
            words = []


def function_lengths(text: str) -> list[int]:
    """The lines of every function, those within others too: from ``def`` to its end, without its docstring."""
    return [_length(node) for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]


def _length(function: Function) -> int:
    return _lines(function) - (_lines(function.body[0]) if ast.get_docstring(function) is not None else 0)


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1
