"""Texts of a file as the values that a schema wants: numbers, booleans, dates.

A text that is no such value counts as `Attribute.unfit_code` says: as one not listed, as missing, or as not fitting.
"""

from __future__ import annotations

from itertools import count
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Floats
from treering.domain.attribute import Attribute, Bins, Categories, Integers

NUMBER: Final = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(inf|infinity|nan)$"
WHOLE: Final = "^[+-]?[0-9]{1,18}$"
_TRUE, _FALSE = ["true", "t", "1"], ["false", "f", "0"]


def typed(attribute: Attribute, column: pa.Array) -> pa.Array:
    """A column of texts in a type that the attribute takes."""
    if isinstance(attribute, Integers | Bins):
        unfit = float("nan") if attribute.two_sided else float("inf")
        return pa.array(_numbers(column, unfit), mask=np.asarray(column.is_null()))
    if isinstance(attribute, Categories) and not isinstance(attribute.values[0], str):
        return _booleans(column, attribute) if isinstance(attribute.values[0], bool) else _integers(column, attribute)
    return column


def _numbers(column: pa.Array, unfit: float) -> Floats:
    """The numbers that texts mean; ``unfit`` for others. (Nulls are 0.)"""
    plain = pc.utf8_trim_whitespace(column).fill_null("0")
    try:
        return np.asarray(plain.cast(pa.float64()))
    except pa.ArrowInvalid:
        pass  # it quotes a value
    small = pc.utf8_lower(plain)
    fits = pc.match_substring_regex(small, NUMBER)
    return np.where(np.asarray(fits), np.asarray(pc.if_else(fits, small, "0").cast(pa.float64())), unfit)


def _integers(column: pa.Array, attribute: Categories) -> pa.Array:
    """Whole numbers of up to 18 digits; an unlisted one for other texts."""
    unlisted = next(number for number in count() if number not in attribute.values)
    plain = pc.utf8_trim_whitespace(column)
    fits = pc.match_substring_regex(plain, WHOLE)
    unsigned = pc.utf8_ltrim(plain, "+")  # Arrow reads no plus.
    return pc.if_else(fits, unsigned, str(unlisted)).cast(pa.int64())


def _booleans(column: pa.Array, attribute: Categories) -> pa.Array:
    """True and false; for other texts a value that is not listed, if there is one, else null."""
    word = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    true, false = (pc.is_in(word, pa.array(each)) for each in (_TRUE, _FALSE))
    unlisted = next((value for value in (True, False) if value not in attribute.values), None)
    known = pc.if_else(true, True, pc.if_else(false, False, pa.scalar(unlisted, pa.bool_())))
    return pc.if_else(column.is_valid(), known, pa.scalar(None, pa.bool_()))
