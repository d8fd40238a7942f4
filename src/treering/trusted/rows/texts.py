"""Texts of a file as the values that a schema wants: numbers, booleans, dates.

A text that is no such value counts as `Attribute.unfit_code` says: as one not listed, as missing, or as not fitting.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Floats
from treering.domain.attribute import Attribute, Bins, Categories, Integers

NUMBER: Final = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(inf|infinity|nan)$"
WHOLE: Final = "^[-]?[0-9]{1,19}$"
_PLUS: Final = "^[+]0*([0-9])|^([-]?)0+([0-9])"
"""A plus, and leading zeros: Arrow reads neither."""
_TRUE, _FALSE = ["true", "t", "1"], ["false", "f", "0"]


def encodable(attribute: Attribute, column: pa.Array) -> tuple[Attribute, pa.Array]:
    """A column of texts in a type that an attribute with the same codes takes: booleans are the integers 0 and 1,
    because a text may be neither, and is an integer that is not listed then."""
    if isinstance(attribute, Categories) and isinstance(attribute.values[0], bool):
        return replace(attribute, values=tuple(map(int, attribute.values))), _booleans(column)
    return attribute, typed(attribute, column)


def typed(attribute: Attribute, column: pa.Array) -> pa.Array:
    """A column of texts in a type that the attribute, which is not of booleans, takes."""
    if isinstance(attribute, Integers | Bins):
        unfit = float("nan") if attribute.other else float("inf")
        return pa.array(_numbers(column, unfit), mask=np.asarray(column.is_null()))
    if isinstance(attribute, Categories) and isinstance(attribute.values[0], int):
        return _integers(column, attribute)
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
    """Whole numbers of 64 bits; an unlisted one for other texts."""
    unlisted = next(number for number in count() if number not in attribute.values)
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), _PLUS, r"\2\1\3")
    digits = pc.if_else(pc.match_substring_regex(plain, WHOLE), plain, str(unlisted)).cast(pa.decimal128(19))
    # Here, because Arrow loads pandas to look at an object that it does not know.
    least, most = (pa.scalar(Decimal(bound), pa.decimal128(19)) for bound in (-(2**63), 2**63 - 1))
    within = pc.and_(pc.greater_equal(digits, least), pc.less_equal(digits, most))
    return pc.if_else(within, digits, pa.scalar(Decimal(unlisted), pa.decimal128(19))).cast(pa.int64())


def _booleans(column: pa.Array) -> pa.Array:
    """1 for true, 0 for false, 2 for other texts."""
    word = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    true, false = (pc.is_in(word, pa.array(each)) for each in (_TRUE, _FALSE))
    known = pc.if_else(true, pa.scalar(1, pa.int64()), pc.if_else(false, 0, 2))
    return pc.if_else(column.is_valid(), known, pa.scalar(None, pa.int64()))
