"""Texts of a file as values: numbers, whole numbers, booleans; what is none has the attribute's cell for that."""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.domain.attribute import Attribute, bins, categories, integers
from treering.domain.numeric import numbers
from treering.trusted.rows.encode import encode_column
from treering.trusted.rows.texts import NUMBER, encodable, typed

TWO_SIDED = numbers(0, 10)


def read(attribute: Attribute, *texts: str | None) -> list[Any]:
    """The values that texts mean to an attribute."""
    return list(typed(attribute, pa.array(texts, pa.string())).to_pylist())


@given(value=st.floats(allow_nan=False))
def test_a_number_is_read_as_python_reads_it(value: float) -> None:
    assert read(TWO_SIDED, repr(value), "x")[0] == value


@pytest.mark.parametrize("text", ["1", "-1.5", "+2", ".5", "5.", "1e3", "1E-3", " 7 ", "inf", "-Infinity"])
def test_forms_of_numbers(text: str) -> None:
    assert read(TWO_SIDED, text, "no number")[0] == float(text)
    assert read(TWO_SIDED, text)[0] == float(text)


@pytest.mark.parametrize("text", ["", "x", "1,5", "1 2", "0x10", "1e", "--1", "1_000", "½", "one"])
def test_what_is_no_number_is_unfit(text: str) -> None:
    """Where the sides have a cell each it is not a number; where they share one it lies outside."""
    assert math.isnan(read(TWO_SIDED, text, "1")[0])
    assert math.isnan(read(integers(1, 12, other=True), text, "1")[0])
    assert read(bins([0, 1, 2]), text, "1")[0] == math.inf


def test_nulls_stay_nulls() -> None:
    assert read(TWO_SIDED, None, "1", "x")[0] is None
    assert read(categories(1, 2, other=True), None, "1")[0] is None
    assert read(categories(False, True), None, "true")[0] is None


def test_texts_stay_texts() -> None:
    column = pa.array(["a", "1", None])
    assert typed(categories("a", "b"), column) is column


def test_whole_numbers_of_a_list_and_an_unlisted_one_for_others() -> None:
    listed = categories(0, 1, 7, 2**63 - 1, -(2**63), other=True)
    assert read(listed, "7", " 1 ", "+0", "-5", "+007", "-0", f"{2**63 - 1}", f"{-(2**63)}") == [
        *(7, 1, 0, -5, 7, 0, 2**63 - 1, -(2**63)),
    ]
    for text in ("1.0", "x", "", "+", "+-7", "--7", f"{2**63}", f"{-(2**63) - 1}", "9" * 30, "0x7", "\u0667"):
        (found,) = read(listed, text)
        assert found == 2
        assert listed.code(found) == listed.other_code


@pytest.mark.parametrize("values", [(False, True), (True, False), (True,), (False,)])
@pytest.mark.parametrize("flags", [{}, {"missing": True}, {"other": True}, {"other": True, "missing": True}])
def test_a_text_that_is_no_boolean_is_never_a_null(values: tuple[bool, ...], flags: dict[str, Any]) -> None:
    """It is the cell for others, or it does not fit; only a null is missing."""
    own = categories(*values, **flags)
    texts = ["TRUE", "t", "1", " False ", "f", "0", "yes", "", "2", "maybe", "-1", None]
    codes, bad = encode_column(*encodable(own, pa.array(texts)))
    known = dict(zip(texts, [True] * 3 + [False] * 3, strict=False))
    for place, text in enumerate(texts):
        wanted = own.missing_code if text is None else own.other_code
        if text in known and known[text] in values:
            wanted = values.index(known[text])
        assert (None if bad is not None and bad[place] else codes[place]) == wanted


@given(text=st.text(alphabet="0123456789+-.eEinfa ", max_size=8))
def test_a_text_means_a_number_exactly_if_it_fits_the_pattern(text: str) -> None:
    (found, _) = read(TWO_SIDED, text, "no number")
    fits = re.search(NUMBER, text.strip().lower()) is not None
    assert fits == (not math.isnan(found)) or "nan" in text.lower()
    if fits:
        assert found == float(text) or math.isnan(found)
