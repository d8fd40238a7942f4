"""What counts as a line of code, and how long a function is."""

from __future__ import annotations

import pytest

from support.code_lines import code_lines, function_lengths


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("x = 1\n", 1),
        ("x = 1", 1),
        ("x = 1\n\n\ny = 2\n", 2),
        ("# Why.\nx = 1  # Why here.\n", 1),
        ('"""A module."""\n', 0),
        ('"""A module.\n\nMore.\n"""\nx = 1\n"""What x is."""\n', 1),
        ('def f():\n    """What it does."""\n    return 1\n', 2),
        ('class C:\n    """One."""\n\n    # Nothing yet.\n', 1),
        ("x = (\n    1,\n\n    # Two.\n    2,\n)\n", 4),
        ('x = """one\n\nthree"""\n', 2),
        ('x = f("one"\n"two")\n', 2),
        ('("one"\n"two")\n', 2),
        ("x = 1; y = 2\n", 1),
        ("x = '''\n# one\n'''\n", 3),
        ("if x:\n    y()\n\n\nelse:\n    z()\n", 4),
    ],
)
def test_lines_of_code(text: str, lines: int) -> None:
    assert code_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("x = 1\n", []),
        ("def f(): ...\n", [1]),
        ("def f():\n    return 1\n\n\n\ndef g(\n    x,\n):\n    return x\n", [2, 4]),
        ('def f():\n    """What it does.\n\n    More.\n    """\n    return 1\n', [2]),
        ("@cache\nasync def f():\n    # Why.\n\n    return 1\n", [4]),
        ("class C:\n    def f(self):\n        return 1\n", [2]),
        ("def f():\n    def g():\n        return 1\n    return g\n", [4, 2]),
    ],
)
def test_lengths_of_functions(text: str, lengths: list[int]) -> None:
    assert function_lengths(text) == lengths
