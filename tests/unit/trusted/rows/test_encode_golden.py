"""The encoder gives the codes and sums that it gave when tests/fixtures/encoder.json was written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.golden import golden, written
from support.repository import ROOT

FILE = ROOT / "tests" / "fixtures" / "encoder.json"
NOW: dict[str, Any] = json.loads(written(golden()))
THEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", THEN)
def test_codes_and_sums_are_those_on_record(part: str) -> None:
    assert NOW[part] == THEN[part]


def test_nothing_is_left_out() -> None:
    assert list(NOW) == list(THEN)
    lists = [entry for part, entries in THEN.items() if part != "rows" for entry in entries.values()]
    assert sum(map(len, lists)) > 700
    codes = [code for entry in lists for _, code, _ in entry]
    assert None in codes
    assert any(units for entry in lists for _, _, units in entry)
