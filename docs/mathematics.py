"""For the site alone: formulas typeset as MathML when it is built. Loaded by mkdocs.yml; no part of the package.

The pages write formulas as plain text, to be read anywhere: `g^(1/(p+1))`, `ξ_{t₀}`, `√(2ρ)`. On the pages of `PAGES`
an indented block without a language becomes a displayed formula, and what in a sentence outside of code is a symbol, or
symbols with signs between them, a formula in the line. A browser shows MathML by itself: no script, no font, nothing is
fetched.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any, Final

PAGES: Final = re.compile(r"theory/|errata\.md|NOTATION\.md|theorems\.md")
"""The pages whose formulas are typeset, by where they lie in docs."""

_RAISED: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵐⁿᵖ", "0123456789+−mnp", strict=True))
_LOWERED: Final = dict(zip("₀₁₂₃₄₅₆₇₈₉ₖₘₙₜᵢⱼ", "0123456789kmntij", strict=True))
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_OPERATORS: Final = frozenset("+−-=≤≥<>←→·×/,;:|‖~≈∝∈≪≫≠∞!*±↦∎…()[]∀∂∫")
_FUNCTIONS: Final = frozenset(("log", "min", "max", "exp", "kl", "sup", "RE", "KL", "Li", "dLap", "dGauss", "Lap"))
_WORDS: Final = frozenset(
    ("if", "or", "of", "at", "by", "to", "in", "is", "as", "no", "so", "we", "it", "an", "on", "up", "do", "be", "DP")
)
_LARGE: Final = frozenset("ΣΠ")
_WORD: Final = re.compile(r"[A-Za-z]+")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*|[½¼¾⅛]")
_MARKS: Final = frozenset("̂̄̃")


# -- plain text to MathML ----------------------------------------------------------------------------------------------


def formula(text: str, display: bool = False) -> str:
    """Plain text as one MathML element."""
    kind = ' display="block"' if display else ""
    return f"<math{kind}>{_row(text)}</math>"


def table(lines: list[str]) -> str:
    """Lines of formulas as one displayed element; columns, two spaces or more apart, stay columns."""
    split = [[(found.start(), found[0]) for found in re.finditer(r"\S+(?: \S+)*", line)] for line in lines]
    starts = sorted({start for cells in split for start, _ in cells})
    if len(lines) == 1:
        gap = '<mspace width="2em"></mspace>'
        return f'<math display="block">{gap.join(_row(text) for _, text in split[0])}</math>'
    rows = []
    for cells in split:
        filled = dict(cells)
        rows.append("".join(f"<mtd>{_row(filled.get(start, ''))}</mtd>" for start in starts))
    body = "".join(f"<mtr>{row}</mtr>" for row in rows)
    return f'<math display="block"><mtable columnalign="left" style="text-align: left">{body}</mtable></math>'


def _row(text: str) -> str:
    """The elements of a formula, in an mrow."""
    return f"<mrow>{''.join(_Reader(text).elements())}</mrow>"


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def elements(self) -> Iterator[str]:
        """One MathML element after another, spaces between words and symbols kept."""
        after_operator = True
        while self._place < len(self._text):
            if self._next() == " ":
                self._place += 1
                if not after_operator and self._next() not in _OPERATORS:
                    yield '<mspace width="0.3em"></mspace>'
                continue
            after_operator = self._next() in _OPERATORS
            yield self._scripted(self._atom())

    def _next(self) -> str:
        return self._text[self._place : self._place + 1]

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        return found[0]

    def _atom(self) -> str:
        """One element: a root, number, word, symbol or operator."""
        if self._next() == "√":
            self._place += 1
            return f"<msqrt>{self._argument()}</msqrt>"
        number = self._take(_NUMBER)
        if number is not None:
            return f"<mn>{number}</mn>"
        word = _WORD.match(self._text, self._place)
        if word is not None and (len(word[0]) > 2 or word[0] in _FUNCTIONS | _WORDS):
            self._place = word.end()
            return f"<mi>{word[0]}</mi>" if word[0] in _FUNCTIONS else f"<mtext>{word[0]}</mtext>"
        symbol = self._next()
        self._place += 1
        while self._next() in _MARKS and self._next():
            symbol += self._next()
            self._place += 1
        if symbol in _OPERATORS or symbol in _LARGE or not symbol[0].isalpha():
            stretch = "" if symbol in _LARGE else ' stretchy="false"'
            return f"<mo{stretch}>{html.escape(symbol)}</mo>"
        return f"<mi>{symbol}</mi>"

    def _scripted(self, base: str) -> str:
        """The element with the scripts that follow it."""
        low, high = "", ""
        while True:
            follows = self._next()
            if follows == "_" and not low:
                self._place += 1
                low = self._argument()
            elif follows == "^" and not high:
                self._place += 1
                high = self._argument()
            elif follows and follows in _LOWERED and not low:
                low = self._run(_LOWERED)
            elif follows and follows in _RAISED and not high:
                high = self._run(_RAISED)
            elif follows == "′":
                self._place += 1
                high += "<mo>′</mo>"
            else:
                break
        if low and high:
            return f"<msubsup>{base}<mrow>{low}</mrow><mrow>{high}</mrow></msubsup>"
        if low or high:
            kind = "msub" if low else "msup"
            return f"<{kind}>{base}<mrow>{low or high}</mrow></{kind}>"
        return base

    def _run(self, known: dict[str, str]) -> str:
        """A run of raised or lowered characters, as ordinary ones."""
        start = self._place
        while self._next() and self._next() in known:
            self._place += 1
        return _row("".join(known[each] for each in self._text[start : self._place]))

    def _argument(self) -> str:
        """What a script or a root applies to: a group, whose brackets are dropped, or one element with its sign."""
        closing = _OPENING.get(self._next())
        if closing is not None:
            end = closed(self._text, self._place)
            inside, self._place = self._text[self._place + 1 : end], end + 1
            return _row(inside)
        sign = ""
        if self._next() in ("−", "-"):
            sign, self._place = "<mo>−</mo>", self._place + 1
        return sign + self._atom() if self._next() else sign


def closed(text: str, start: int) -> int:
    """Where the bracket that opens at ``start`` closes; the end of the text if it does not."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in _OPENING) - (text[place] in _OPENING.values())
        if depth == 0:
            return place
    return len(text)


# -- formulas within sentences -----------------------------------------------------------------------------------------


_GREEK: Final = "Α-Ωα-ωϑϕ"
_SIGNS: Final = "=≤≥<>←→·×/+−|‖~≈∝∈≪≫≠∞±^√ΣΠ⌈⌊"
_FORMULA: Final = re.compile(
    rf"[A-Za-z0-9{_GREEK}{_SIGNS}½¼¾⅛_(){{}}\[\],.!:*′…⌉⌋\-{''.join(_RAISED)}{''.join(_LOWERED)}̂ ]+"
)
_SIGNED: Final = re.compile(rf"[{_GREEK}{_SIGNS}{''.join(_RAISED)}{''.join(_LOWERED)}]|(?<=[^\s_])_(?=[\w{{(])")
_RELATIONS: Final = frozenset("=≤≥<>+−·")
_LETTERS: Final = re.compile(r"[A-Za-z]{2,}")
_ALONE: Final = re.compile(r"[B-HJ-Zb-z]′?|[0-9]+")
"""A symbol or a number: part of a formula where there is one. (A letter that is also a word is not.)"""


def sentence(text: str) -> str:
    """A piece of text, as HTML has it, with its formulas typeset."""
    plain = html.unescape(text)
    if not _SIGNED.search(plain) and not re.search(r"\b[B-HJ-Zb-z]\b", plain):
        return text
    pieces = list(_pieces(plain))
    done, run = [], _Run()
    for place, piece in enumerate(pieces):
        after = pieces[place + 2] if place + 2 < len(pieces) else ""
        if not run.takes(piece, after):
            done.append(run.typeset())
            run = _Run()
            if not run.takes(piece, after):
                done.append(html.escape(piece, quote=False))
    return "".join([*done, run.typeset()])


class _Run:
    """Neighbouring pieces of a sentence that make one formula."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def takes(self, piece: str, after: str) -> bool:
        """Whether the piece goes on with the formula; then it is a part of it. ``after`` is the next piece."""
        before = self._pieces[-1] if self._pieces else " "
        if not before.isspace():
            good = piece.isspace() and not before.endswith((".", ";", ":", ",")) and not _unbalanced(before)
        else:
            core = _core(piece)
            article = core in ("a", "A") and after[:1] in _RELATIONS and bool(after)
            good = _is_formula(piece) or _ALONE.fullmatch(core) is not None or article
        if good:
            self._pieces.append(piece)
        return good

    def typeset(self) -> str:
        """The run as MathML if there is anything to typeset, and else as it is."""
        text = "".join(self._pieces)
        if not text.strip() or re.fullmatch(r"[\d.,;:()\s]*", text):
            return html.escape(text, quote=False)
        core = _core(text.rstrip())
        return formula(core) + html.escape(text[len(core) :], quote=False)


def _is_formula(piece: str) -> bool:
    """Whether a piece without spaces around it is, or belongs to, a formula."""
    core = _core(piece)
    words = [word for word in _LETTERS.findall(core) if word not in _FUNCTIONS]
    if any(len(word) > 2 or word in _WORDS for word in words) or not _FORMULA.fullmatch(core):
        return False
    return bool(_SIGNED.search(core))


def _core(piece: str) -> str:
    """The piece without the punctuation of the sentence."""
    core = piece.rstrip(".,;:")
    while core.endswith((")", "]")) and _unbalanced(core):
        core = core[:-1].rstrip(".,;:")
    return core


def _unbalanced(text: str) -> bool:
    """Whether more brackets close than open."""
    return sum(text.count(each) for each in ")]}") > sum(text.count(each) for each in "([{")


def _pieces(text: str) -> Iterator[str]:
    """The text cut at spaces, but not within brackets that follow a symbol; brackets around words stand alone."""
    place = 0
    while place < len(text):
        start = place
        if text[place].isspace():
            while place < len(text) and text[place].isspace():
                place += 1
            yield text[start:place]
            continue
        while place < len(text) and not text[place].isspace():
            if text[place] in _OPENING:
                end = closed(text, place)
                alone = place == start and not _is_formula(text[place : end + 1])
                if end == len(text) or alone:
                    place += place == start
                    break
                place = end
            place += 1
        yield text[start:place]


# -- the hooks of mkdocs -----------------------------------------------------------------------------------------------


_FENCE: Final = re.compile(r"^```")
_TAG: Final = re.compile(r"(<[^>]*>)")
_KEPT: Final = ("code", "pre", "math", "script", "style", "svg")


def displayed(markdown: str) -> str:
    """The page with its indented blocks as displayed formulas, but for tables of numbers and code."""
    lines, done, fenced = markdown.split("\n"), [], False
    place = 0
    while place < len(lines):
        fenced ^= bool(_FENCE.match(lines[place]))
        begins = not fenced and lines[place].startswith("    ") and place > 0 and not lines[place - 1].strip()
        if not begins or _within_list(lines, place):
            done.append(lines[place])
            place += 1
            continue
        end = place
        while end < len(lines) and lines[end].startswith("    "):
            end += 1
        block = [line[4:] for line in lines[place:end]]
        done.append(f'<div class="formula" style="overflow-x: auto; margin: 1em 0">{table(block)}</div>')
        place = end
    return "\n".join(done)


def _within_list(lines: list[str], place: int) -> bool:
    """Whether the paragraph before is an item of a list, of which the block would be a part."""
    before = place - 1
    while before > 0 and not lines[before].strip():
        before -= 1
    while before > 0 and lines[before - 1].strip():
        before -= 1
    return re.match(r"\s*(?:[-*]|\d+\.) ", lines[before]) is not None


def inline(content: str) -> str:
    """The HTML of a page with the formulas of its sentences typeset; code is left alone."""
    depth, done = 0, []
    for part in _TAG.split(content):
        tag = re.match(r"</?([a-z0-9]+)", part)
        if tag is not None:
            if tag[1] in _KEPT and not part.endswith("/>"):
                depth += -1 if part.startswith("</") else 1
            done.append(part)
        else:
            done.append(sentence(part) if depth == 0 else part)
    return "".join(done)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs before a page is turned into HTML."""
    return displayed(markdown) if PAGES.match(page.file.src_uri) else markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with a page's HTML."""
    return inline(html) if PAGES.match(page.file.src_uri) else html
