"""PRIVATE: values as Python has them, in rows that come as dicts, as typed arrays.

A category is of exactly the type of those that are listed, a number is an int or a float and no bool, and NumPy's
scalars are the values that they hold. Null and NaN are missing. Anything that is no date is missing where a date is
wanted, as it is in a column of texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from treering.arrays import Flags
from treering.domain.axis import MICROSECOND, Scalar, moment
from treering.trusted.rows.moments import DAY, EPOCH, INSTANT, PATTERN, in_zone, number
from treering.trusted.rows.typed import TYPES, clipped

_MOST: Final = 2**63
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


class Odd(Enum):
    """Why a value has no typed one."""

    WRONG = "wrong"
    """It is of another type."""
    UNFIT = "unfit"
    """It is of the right type, but none of the values that are kept: a number that is not whole, among integers."""


class Listed(NamedTuple):
    """PRIVATE: values in the type of a scalar."""

    values: pa.Array
    plain: list[Any]
    """The same values as Python has them; of moments, the microseconds."""
    wrong: Flags | None = None
    """Which of them, if any, were of another type. (They are null now.)"""
    unfit: Flags | None = None
    """Which of them, if any, are null only because they cannot be kept."""


def listed(values: list[Any], scalar: Scalar) -> Listed:
    """Values in the type of a scalar."""
    kind = TYPES[scalar.kind]
    if _AS_THEY_ARE[scalar.kind].issuperset(map(type, values)):
        try:
            plain = [None if value != value else value for value in values] if scalar.kind == "number" else values
            return Listed(pa.array(plain, kind), plain)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # too large an integer, half a character: told apart below. (It quotes a value.)
    if scalar.kind == "moment":
        plain = [moment_of(value, scalar.zone) for value in values]
        return Listed(pa.array(plain, kind), plain)
    convert = _CONVERTED[scalar.kind]
    found = [convert(value.item() if isinstance(value, np.generic) else value) for value in values]
    plain = [None if isinstance(value, Odd) else value for value in found]
    if plain.count(None) == found.count(None):
        return Listed(pa.array(plain, kind), plain)
    wrong, unfit = (np.array([value is why for value in found], dtype=np.bool_) for why in Odd)
    return Listed(pa.array(plain, kind), plain, wrong if wrong.any() else None, unfit if unfit.any() else None)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _text(value: Any) -> str | Odd | None:
    if type(value) is not str:
        return None if _is_missing(value) else Odd.WRONG
    return Odd.UNFIT if any("\ud800" <= character <= "\udfff" for character in value) else value


def _boolean(value: Any) -> bool | Odd | None:
    return value if type(value) is bool else None if _is_missing(value) else Odd.WRONG


def _code(value: Any) -> int | Odd | None:
    if type(value) is not int:
        return None if _is_missing(value) else Odd.WRONG
    return value if -_MOST <= value < _MOST else Odd.UNFIT


def _integer(value: Any) -> int | Odd | None:
    if _is_missing(value):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Odd.WRONG
    if -_MOST <= value < _MOST:
        return int(value) if value == int(value) else Odd.UNFIT
    return _MOST - 1 if value > 0 else -_MOST


def _number(value: Any) -> float | Odd | None:
    if _is_missing(value):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Odd.WRONG
    try:
        return float(value)
    except OverflowError:  # An integer beyond all doubles is beyond all bounds.
        return float("inf") if value > 0 else float("-inf")


_CONVERTED: Final[dict[str, Callable[[Any], Any]]] = {
    "text": _text,
    "boolean": _boolean,
    "code": _code,
    "integer": _integer,
    "number": _number,
}

_NOTHING: Final = type(None)
_AS_THEY_ARE: Final[dict[str, frozenset[type]]] = {
    "text": frozenset({str, _NOTHING}),
    "boolean": frozenset({bool, _NOTHING}),
    "code": frozenset({int, _NOTHING}),
    "integer": frozenset({int, _NOTHING}),
    "number": frozenset({float, _NOTHING}),
    "moment": frozenset(),
}
"""The types of values that need no look at each."""


# -- moments -----------------------------------------------------------------------------------------------------------

_PATTERN, _INSTANT = (re.compile(pattern.removeprefix("^").removesuffix("$")) for pattern in (PATTERN, INSTANT))
_FRACTION: Final = re.compile(r"[.]([0-9]{1,6})")
_OFFSET: Final = re.compile(r"([+-])([0-9][0-9]):?([0-9]*)$")


def moment_of(value: Any, zone: str | None) -> int | None:
    """A date, a timestamp or a text of either in microseconds since 1970, as clocks of the zone show it; None if it is
    none of them, or an instant where there is no zone."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        return _of_text(value, zone)
    if not isinstance(value, date) or value != value:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        return moment(value)
    return None if zone is None else _dated((value - _START) // _TICK, zone)


def _dated(instant: int, zone: str) -> int:
    """An instant as clocks of the zone show it; in microseconds, both."""
    seconds, rest = divmod(instant, MICROSECOND)
    return clipped(int(in_zone(zone, np.array([seconds]))[0]), rest)


def _of_text(text: str, zone: str | None) -> int | None:
    if _PATTERN.fullmatch(text) is None or text.startswith("0000"):
        return None
    day = date(int(text[:4]), int(text[5:7]), int(text[8:10]))
    clock = [int(text[place : place + 2] or 0) for place in (11, 14)]
    clock.append(int(text[17:19]) if text[16:17] == ":" else 0)
    seconds = (number(day) - EPOCH) * DAY + clock[0] * 3_600 + clock[1] * 60 + clock[2]
    fraction = _FRACTION.search(text)
    rest = int(fraction[1].ljust(6, "0")) if fraction else 0
    if _INSTANT.fullmatch(text) is None:
        return seconds * MICROSECOND + rest
    return None if zone is None else _dated((seconds - _shift(text)) * MICROSECOND + rest, zone)


def _shift(text: str) -> int:
    """The offset at the end of a text, in seconds."""
    offset = _OFFSET.search(text)
    if offset is None:
        return 0
    seconds = int(offset[2]) * 3_600 + int(offset[3] or 0) * 60
    return -seconds if offset[1] == "-" else seconds
