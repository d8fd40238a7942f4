"""Formulas in the site: plain text becomes MathML, and nothing else does."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

from support.repository import ROOT


def _load() -> ModuleType:
    """The hook, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("mathematics", ROOT / "docs" / "mathematics.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MATHEMATICS = _load()


def read(element: ElementTree.Element) -> str:
    """A formula read aloud: scripts and roots with what they apply to in braces."""
    inner = [read(child) for child in element]
    if element.tag in ("msub", "msup"):
        return f"{inner[0]}{'_' if element.tag == 'msub' else '^'}{{{inner[1]}}}"
    if element.tag == "msubsup":
        return f"{inner[0]}_{{{inner[1]}}}^{{{inner[2]}}}"
    if element.tag == "mtext":
        return f"“{element.text}”"
    return f"√{{{''.join(inner)}}}" if element.tag == "msqrt" else (element.text or "") + "".join(inner)


@pytest.mark.parametrize(
    ("text", "aloud"),
    [
        ("x^2", "x^{2}"),
        ("ξ_{t₀}/t₀", "ξ_{t_{0}}/t_{0}"),
        ("L_i²", "L_{i}^{2}"),
        ("g′_m", "g_{m}^{′}"),
        ("√n", "√{n}"),
        ("√(2ρ)·n", "√{2ρ}·n"),
        ("g^(1/(p+1))", "g^{1/(p+1)}"),
        ("(1+γ)^(−i)", "(1+γ)^{−i}"),
        ("e^−x", "e^{−x}"),
        ("log N", "logN"),
        ("pure α ≤ 2^p·γ", "“pure”α≤2^{p}·γ"),
        ("Σ_{i≤n} ℓ_i", "Σ_{i≤n}ℓ_{i}"),
        ("R̂(θ) < ½", "R̂(θ)<½"),
    ],
)
def test_a_formula(text: str, aloud: str) -> None:
    assert read(ElementTree.fromstring(MATHEMATICS.formula(text))) == aloud


def test_functions_and_words_are_upright_and_symbols_are_not() -> None:
    found = MATHEMATICS.formula("kl(w‖μ) of εn")
    assert "<mi>kl</mi>" in found
    assert "<mtext>of</mtext>" in found
    assert "<mi>ε</mi><mi>n</mi>" in found


TYPESET = re.compile(r"<math.*?</math>")


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("With t_i = ⌈(1+γ)^i·n⌉ the stale share", 1),
        ("opens at size t_i, runs with b_i.", 2),
        ("A run costs 1/s, as a rule, and a row is moved.", 1),
        ("within a + (1−t/τ) of it", 1),
        ("(see Theorem 5) and the end", 0),
        ("(that is 2^n or more)", 1),
        ("no symbols here, only 12 words, and/or 3.", 0),
        ("the name hard_target or a-b-see", 0),
        ("(ε, δ)-DP holds", 0),
        ("Let y answer f.", 2),
    ],
)
def test_sentences(text: str, formulas: int) -> None:
    found = MATHEMATICS.sentence(text)
    assert len(TYPESET.findall(found)) == formulas
    words = re.sub(r"\s+", " ", TYPESET.sub(" ", found))
    assert set(re.findall(r"[a-z]{3,}", words)) == set(re.findall(r"[a-z]{3,}", text)) - {"log"}


def test_code_and_what_is_typeset_already_are_left_alone() -> None:
    for text in ("<code>x_1</code>", "<pre>x^2</pre>", "<math><mi>x_1</mi></math>", '<a href="x_1">words</a>'):
        assert MATHEMATICS.inline(text) == text
    assert MATHEMATICS.inline("<p>a_1 &lt; b</p>").count("<math>") == 1


def test_blocks_are_displayed_and_code_is_not() -> None:
    formulas, code = "    x_1 ≤ 2,    y = 3\n    z ≤ 4", "```python\nif x:\n\n    y = 1\n```"
    page = f"Let\n\n{formulas}\n\nand\n\n{code}\n\n- item\n\n    of a list\n"
    found = MATHEMATICS.displayed(page)
    assert found.count('<math display="block">') == 1
    assert found.count("<mtr>") == 2
    assert "    y = 1" in found
    assert "    of a list" in found


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "theory").glob("*.md")), ids=lambda path: path.stem)
def test_every_formula_of_the_theory_is_well_formed(page: Path) -> None:
    """And no sign of the plain text, a caret or a root, is left in it."""
    text = page.read_text()
    displayed = MATHEMATICS.displayed(text)
    sentences = [MATHEMATICS.sentence(part) for part in re.split(r"```.*?```|`[^`]*`", text, flags=re.DOTALL)]
    formulas = TYPESET.findall(displayed + "".join(sentences))
    assert len(formulas) > 5
    for found in formulas:
        aloud = read(ElementTree.fromstring(found))
        assert not re.search(r"\^(?!\{)|√(?!\{)", aloud)
