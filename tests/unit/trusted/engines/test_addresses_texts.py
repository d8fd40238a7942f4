"""Texts of a file as whole numbers: far ones on their own side, broken ones nowhere."""

from __future__ import annotations

import ibis
import pytest

from treering.domain.attribute import Integers, integers
from treering.trusted.engines.addresses import BEYOND, _whole_number

TEXTS = {
    "3": 3,
    "-4": -4,
    "3.0": 3,
    "-4e0": -4,
    "99999999999999999999": BEYOND,
    "-99999999999999999999": -BEYOND,
    "1e30": BEYOND,
    "-1e30": -BEYOND,
    "7": 7,
    "-7": -7,
    "-7.0": -BEYOND,
    "nan": None,
}


def read(text: str, attribute: Integers) -> int | None:
    connection = ibis.duckdb.connect()
    found: int | None = connection.to_pyarrow(_whole_number(ibis.literal(text), attribute)).as_py()
    connection.disconnect()
    return found


@pytest.mark.parametrize(("text", "number"), TEXTS.items())
def test_texts_as_whole_numbers(text: str, number: int | None) -> None:
    """The range holds 0: what is far below it is not 0."""
    assert read(text, integers(-5, 5, other=True)) == number


@pytest.mark.parametrize("text", ["2.5", "many"])
def test_what_is_not_whole(text: str) -> None:
    one_sided, two_sided = integers(-5, 5), integers(-5, 5, other=True)
    assert (one_sided.other, two_sided.other) == (False, True)
    assert read(text, one_sided) == BEYOND
    assert read(text, two_sided) is None
