"""Words for messages: so many of something, amounts without exponents, errors of the system."""

from __future__ import annotations

import errno
import math
import os
from typing import Final

_TINY: Final = 1e-6
"""Numbers below this have an exponent: 1e-09 is easier to read than its zeros."""

DISK_FULL: Final = "the disk is full"
"""What every message about a full disk says."""


def counted(number: float, noun: str, plural: str = "") -> str:
    """So many of something, as a whole number.

    >>> counted(1, "row"), counted(2000, "row"), counted(0, "query", "queries"), counted(0.8, "row")
    ('1 row', '2,000 rows', '0 queries', '1 row')
    """
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"
    return f"{shown} {noun if shown == '1' else plural or noun + 's'}"


def rows(number: float) -> str:
    """So many rows, or a part of one.

    >>> rows(411.6), rows(1), rows(0.25)
    ('412 rows', '1 row', '0.25 rows')
    """
    return counted(number, "row") if number >= 1 else f"{readable(number, 2)} rows"


def left_out(rows: int, of: int | None = None) -> str:
    """How many rows were dropped, as a sentence.

    >>> left_out(1), left_out(2, of=1000)
    ('1 row did not fit and was dropped', '2 of 1,000 rows did not fit and were dropped')
    """
    many = counted(rows, "row") if of is None else f"{rows:,} of {counted(of, 'row')}"
    return f"{many} did not fit and {'was' if rows == 1 else 'were'} dropped"


def readable(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, or with all before the point if those are more.

    >>> readable(412.34, 2), readable(0.123456), readable(1234567.8), readable(0.5), readable(-0.0), readable(2.5e-9)
    ('412', '0.1235', '1,234,568', '0.5', '0', '2.5e-09')
    """
    size = abs(value)
    if not _TINY <= size < math.inf:
        return f"{value:.{digits}g}" if value else "0"
    text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def reason(error: OSError) -> str:
    """Why the system refused something, without what it was given.

    >>> reason(OSError(errno.ENOSPC, "No space left on device")), reason(PermissionError(13, "Permission denied"))
    ('the disk is full', 'Permission denied')
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DISK_FULL
    return os.strerror(error.errno) if error.errno else type(error).__name__
