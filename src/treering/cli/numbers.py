"""Numbers as people write them on a command line: 1000000, 1_000_000, 1,000,000, 1e6, 2^20.

typer hands defaults, which are numbers already, to the same functions.
"""

from __future__ import annotations

import math
import re

import typer

FOR_EVER = ("inf", "infinity", "forever", "ever")
STILL = ("none", "still", "static")


def number(text: str | float) -> float:
    """A number.

    >>> number("1,000,000"), number("2^16"), number("1e-9")
    (1000000.0, 65536.0, 1e-09)
    """
    plain = str(text).strip().replace(",", "").replace("_", "")
    power = re.fullmatch(r"(\d{1,9})\^(\d{1,3})", plain)
    try:
        value = float(int(power[1]) ** int(power[2])) if power else float(plain)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a number, such as 1000000, 1e6 or 2^20") from None
    if not math.isfinite(value):
        raise typer.BadParameter(f"{text!r} is not a finite number")
    return value


def count(text: str | float) -> int:
    """A whole number.

    >>> count("1e6"), count("2^62")
    (1000000, 4611686018427387904)
    """
    value = number(text)
    if not value.is_integer():
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(value)


def endless(text: str | float) -> float:
    """A whole number, or "inf" for any number."""
    return math.inf if str(text).strip().lower() in FOR_EVER else float(count(text))


def last_size(text: str | float) -> float:
    """The largest size that matters: a number, "inf" for ever, "none" if the data do not grow (then NaN)."""
    return math.nan if str(text).strip().lower() in STILL else endless(text)
