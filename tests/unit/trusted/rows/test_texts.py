"""Texts of a file as values: numbers, whole numbers, booleans; what is none has the attribute's cell for that."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.domain.attribute import Attribute, bins, categories, integers
from treering.domain.numeric import numbers
from treering.trusted.rows.texts import NUMBER, WHOLE, typed

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
    listed = categories(0, 1, 7, other=True)
    assert read(listed, "7", " 1 ", "+0", "-5") == [7, 1, 0, -5]
    for text in ("1.0", "x", "", "9" * 19):
        (found,) = read(listed, text)
        assert found == 2
        assert listed.code(found) == listed.other_code


def test_booleans_however_they_are_written() -> None:
    both = categories(False, True)
    assert read(both, "TRUE", "t", "1", " False ", "f", "0") == [True, True, True, False, False, False]
    assert read(both, "yes") == [None]
    assert read(categories(True, other=True), "perhaps") == [False]


@given(text=st.text(alphabet="0123456789+-.eEinfa ", max_size=8))
def test_a_text_means_a_number_exactly_if_it_fits_the_pattern(text: str) -> None:
    (found, _) = read(TWO_SIDED, text, "no number")
    fits = re.search(NUMBER, text.strip().lower()) is not None
    assert fits == (not math.isnan(found)) or "nan" in text.lower()
    if fits:
        assert found == float(text) or math.isnan(found)


def test_a_number_that_fits_is_within_the_range_of_integers() -> None:
    assert re.search(WHOLE, "9" * 18)
    assert not re.search(WHOLE, "9" * 19)
    assert int("9" * 18) < np.iinfo(np.int64).max
