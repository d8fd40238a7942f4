"""The operators: what each of them makes of a line, and what is left alone."""

from __future__ import annotations

import ast

import pytest

from mutants.changes import applied, mutant, places
from support.imports import SOURCE


def outcomes(text: str) -> list[str]:
    """Every text that one change makes of this."""
    return [applied(text, change) for place in places("x.py", text) for change in place.changes]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = a >= b", ["x = a > b", "x = a < b"]),
        ("x = a == b", ["x = a != b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a < b == c", ["x = a <= b == c", "x = a >= b == c", "x = a < b != c"]),
        ("x = a + b", ["x = a - b"]),
        ("x = a * b", ["x = a / b"]),
        ("x = a // b", ["x = a * b"]),
        ("x = a**b", ["x = a*b"]),
        ("x = (a + b) * c", ["x = (a - b) * c", "x = (a + b) / c"]),
        ("x = a and b and c", ["x = a or b and c", "x = a and b or c"]),
        ("x = not a", ["x =  a"]),
        ("x = -a", ["x = a"]),
        ("x = True", ["x = False"]),
        ("x = 7", ["x = 8", "x = 6"]),
        ("x = 0", ["x = 1", "x = (-1)"]),
        ("x = 0.5", ["x = 1.5"]),
        ("x = min(a)", ["x = max(a)"]),
        ("x = a.all()", ["x = a.any()"]),
        ("x = np.maximum(a, b)", ["x = np.minimum(a, b)"]),
        ("x = a if b else c", ["x = a if not (b) else c"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not (a)]"]),
        ("if f(x): g = x", ["if not (f(x)): g = x"]),
        ("while (a := b): c = a", ["while (not (a := b)): c = a"]),
        ("f(x)", ["pass"]),
        ("x.y = z", ["pass"]),
        ("x.y: int = z", ["pass"]),
        ("x[y] = z", ["pass"]),
        ("x += y", ["pass", "x -= y"]),
        ("del x", ["pass"]),
        ("raise ValueError(1 + 1)", ["pass"]),
        ("def f(): return x", ["def f(): return None"]),
        ("for a in b: continue", ["for a in b: break"]),
        ("for a in b: break", ["for a in b: continue"]),
        ("@property\ndef f(): ...", ["\ndef f(): ..."]),
        ("def f(x: int = 1, *, y=2): ...", ["def f(x: int = 2, *, y=2): ...", "def f(x: int = 0, *, y=2): ..."]),
    ],
)
def test_what_a_line_can_become(text: str, expected: list[str]) -> None:
    assert outcomes(text)[: len(expected)] == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""A text: 1 + 1."""',
        "x: tuple[int, 3]",
        "X: TypeAlias = A | B",
        "def f(x: A | B) -> A | B: ...",
        "assert a < b",
        'x = f"{a + b}"',
        "from x import y",
        "if TYPE_CHECKING:\n    from x import y",
        "@lru_cache(maxsize=8)\ndef f(): ...",
        "@abstractmethod\ndef f(): ...",
        "def f(): return",
        "def f(): return None",
        'x = cast("int", y)',
        "x = zip(a, b, strict=True)",
        "x = y",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert outcomes(text) == []


def test_a_place_knows_where_it_is() -> None:
    text = "A = 1\n\nclass C:\n b = 2\n\n def m(self, x=3):\n  def n():\n   return 4\n  return 5\n"
    found = {place.changes[0].new: (place.scope, place.at_import, place.line) for place in places("x.py", text)}
    assert found == {
        "2": ("", True, 1),
        "3": ("C", True, 4),
        "4": ("C", True, 6),
        "5": ("C.m.n", False, 8),
        "6": ("C.m", False, 9),
    }


def test_a_mutant_is_told_in_one_line() -> None:
    text = "def f():\n    g(\n        'é',\n        x,\n    )\n    return 'é' + y\n"
    (dropped,), (_,), (added,) = (
        [mutant(text, place, change) for change in place.changes] for place in places("x.py", text)
    )
    assert (dropped.before, dropped.after) == ("g( 'é', x, )", "pass")
    assert (added.before, added.after) == ("return 'é' + y", "return 'é' - y")
    assert added.key == ("x.py", "f", "return 'é' + y", "return 'é' - y")


@pytest.mark.parametrize("file", ["trusted/kernel.py", "mechanisms/tight.py", "vault/vault.py"])
def test_mutants_of_real_modules_are_python(file: str) -> None:
    text = (SOURCE / "treering" / file).read_text()
    before = ast.dump(ast.parse(text))
    made = [applied(text, place.changes[-1]) for place in places(file, text)]
    assert len(made) > 50
    assert all(ast.dump(ast.parse(each)) != before for each in made[::10])
