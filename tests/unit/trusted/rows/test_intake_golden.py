"""Typed rows and axes give the codes and sums on record in tests/fixtures/encoder.json.

With two differences, where an attribute has cells for others and for missing values. A text that is no integer of 64
bits, or no boolean, is missing now: it was among the others. And a number that is not whole is missing for integers
wherever it lies: it was below or above them, if it lay there.
"""

from __future__ import annotations

import json
import math
from typing import Any, cast

import pytest

from support.engines import nasty_rows, nasty_schema
from support.golden import golden, kinds
from support.repository import ROOT
from treering.domain.attribute import Categories, Integers

FILE = ROOT / "tests" / "fixtures" / "encoder.json"
NOW: dict[str, Any] = json.loads(json.dumps(golden()))
THEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
BROKEN = "-3.5"
OPEN = nasty_schema(open_ended=True)
SHARE = cast(Integers, OPEN.attributes["share"])
READ = {
    "codes": {*("0", "1", "2", "+7", "007", "-0", "9223372036854775807")},
    "both booleans": {"true", "TRUE", " f ", "1", "0"},
    "one boolean": {"true", "TRUE", " f ", "1", "0"},
}
"""The texts that mean a value of such categories, listed or not."""


def expected(part: str) -> Any:
    """What is on record, but for texts that cannot be read, and for numbers that are not whole."""
    changed = dict(THEN[part])
    if part == "open":
        changed["share"] = [
            [text, SHARE.missing_code if text == BROKEN else code, u] for text, code, u in changed["share"]
        ]
        assert [code for text, code, _ in THEN[part]["share"] if text == BROKEN] == [SHARE.below_code]
    if part == "rows":
        changed["open"] = {"cells": _moved(THEN[part]["open"]["cells"]), "sums": THEN[part]["open"]["sums"]}
    if part != "texts, open":
        return changed
    for name, texts in READ.items():
        attribute = kinds(other=True, missing=True)[name]
        assert isinstance(attribute, Categories)
        changed[name] = [
            [text, code if text in {*map(repr, texts), "None"} else attribute.missing_code, units]
            for text, code, units in THEN[part][name]
        ]
        before = [code for text, code, _ in THEN[part][name] if text not in {*map(repr, texts), "None"}]
        assert set(before) == {attribute.other_code}
    return changed


def _moved(cells: list[int]) -> list[int]:
    """The cells of rows whose share is not whole, and lies below."""
    place = OPEN.index("share")
    assert SHARE.missing_code is not None
    assert SHARE.below_code is not None
    step = math.prod(OPEN.shape[place + 1 :]) * (SHARE.missing_code - SHARE.below_code)
    broken = [repr(value) == BROKEN for value in nasty_rows()["share"].to_pylist()]
    assert 0 < sum(broken) < len(cells)
    return [cell + each * step for cell, each in zip(cells, broken, strict=True)]


@pytest.mark.parametrize("part", THEN)
def test_codes_and_sums_are_those_on_record(part: str) -> None:
    assert NOW[part] == expected(part)


def test_nothing_is_left_out() -> None:
    assert list(NOW) == list(THEN)
    lists = [entry for part, entries in THEN.items() if part != "rows" for entry in entries.values()]
    assert sum(map(len, lists)) > 700
    codes = [code for entry in lists for _, code, _ in entry]
    assert None in codes
    assert any(units for entry in lists for _, _, units in entry)
