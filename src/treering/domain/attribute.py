"""One attribute (column) of the universe: finitely many values, each with a code.

Codes run over the regular values first, then the cell for values not listed (``other``), then the cell for null and
NaN (``missing``). A growing table brings new categories; ``other`` is the cell that counts them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from treering.errors import SchemaError

MAX_VALUES: Final = 2**20
"""The most values one attribute may have, the optional cells included: a query keeps one flag per value."""


class Other(Enum):
    """The type of `OTHER`, the value of the cell for values not listed."""

    OTHER = "OTHER"

    def __repr__(self) -> str:
        return "OTHER"


OTHER: Final = Other.OTHER

Value: TypeAlias = str | int | float | bool | Other | None
"""The value of an attribute in a cell: a regular value, None where missing, `OTHER` where not listed."""


@dataclass(frozen=True)
class Attribute(ABC):
    """What the three kinds of attribute share: the optional cells ``other`` and ``missing`` after the regular ones."""

    other: bool = False
    missing: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.other, bool) or not isinstance(self.missing, bool):
            raise SchemaError("other and missing are True or False")
        if self.size > MAX_VALUES:
            raise SchemaError(f"an attribute has at most {MAX_VALUES:,} values, not {self.size:,}: use wider bins()")

    @property
    @abstractmethod
    def regular(self) -> int:
        """The number of regular values."""

    @property
    def size(self) -> int:
        """The number of values, the optional cells included."""
        return self.regular + self.other + self.missing

    @property
    def other_code(self) -> int | None:
        """The code of the cell for values not listed."""
        return self.regular if self.other else None

    @property
    def missing_code(self) -> int | None:
        """The code of the cell for null and NaN."""
        return self.regular + self.other if self.missing else None

    @abstractmethod
    def regular_code(self, value: Value) -> int | None:
        """The code of a value, None if it is not a regular one."""

    @abstractmethod
    def regular_value(self, code: int) -> Value:
        """The value of a regular code (for a bin, its representative)."""

    def code(self, value: Value) -> int:
        """The code of a public value. (Private rows are encoded by ``treering.trusted.rows.encode``.)"""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or (isinstance(value, float) and math.isnan(value)):
            code = self.missing_code
        elif value is OTHER:
            code = self.other_code
        else:
            code = self.regular_code(value)
            code = self.other_code if code is None else code
        if code is None:
            raise SchemaError(f"{value!r} is not among {self.describe()}")
        return code

    def value(self, code: int) -> Value:
        """The value behind a code: ``code(value(c)) == c``."""
        if not 0 <= code < self.size:
            raise SchemaError(f"code {code} is outside 0..{self.size - 1}")
        if code == self.missing_code:
            return None
        return OTHER if code == self.other_code else self.regular_value(code)

    @abstractmethod
    def describe(self) -> str:
        """The values in words, for messages."""

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML; `attribute_from_dict` reads it back."""
        flags = {"other": self.other, "missing": self.missing}
        return {name: True for name, on in flags.items() if on}


class Ordered(Attribute):
    """Temporary."""

    @property
    def line(self) -> tuple[int, ...]:
        return tuple(range(self.regular))

    @property
    def below_code(self) -> int | None:
        return None


@dataclass(frozen=True)
class Categories(Attribute):
    """A finite list of strings, of integers or of booleans."""

    values: tuple[str | int | bool, ...] = ()

    def __post_init__(self) -> None:
        kinds = {type(value) for value in self.values}
        if not self.values:
            raise SchemaError("categories() needs at least one value")
        if len(kinds) != 1 or not kinds <= {str, int, bool}:
            raise SchemaError("categories() takes values of one type: all strings, all integers or all booleans")
        if len(set(self.values)) != len(self.values):
            raise SchemaError("categories() takes each value once")
        if not all(_storable(value) for value in self.values):
            raise SchemaError("categories() takes texts that UTF-8 can write and integers of 64 bits")
        super().__post_init__()

    @cached_property
    def _codes(self) -> dict[str | int | bool, int]:
        return {value: code for code, value in enumerate(self.values)}

    @property
    def regular(self) -> int:
        """The number of categories."""
        return len(self.values)

    def regular_code(self, value: Value) -> int | None:
        """A category's place in the list."""
        if not isinstance(value, str | int | bool) or type(value) is not type(self.values[0]):
            return None
        return self._codes.get(value)

    def regular_value(self, code: int) -> Value:
        """The category."""
        return self.values[code]

    def describe(self) -> str:
        """The first few categories, in words."""
        shown = ", ".join(repr(value) for value in self.values[:8])
        return f"the categories {shown}{', …' if len(self.values) > 8 else ''}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        return {"kind": "categories", "values": list(self.values), **super().to_dict()}


@dataclass(frozen=True)
class Integers(Ordered):
    """The integers from ``low`` to ``high``, both included."""

    low: int = 0
    high: int = 0

    def __post_init__(self) -> None:
        if type(self.low) is not int or type(self.high) is not int:
            raise SchemaError("integers() takes two integers, low and high")
        if self.low > self.high:
            raise SchemaError(f"integers({self.low}, {self.high}): low must not exceed high")
        if not -(2**53) <= self.low <= self.high <= 2**53:
            raise SchemaError("integers() takes bounds within ±2^53")
        super().__post_init__()

    @property
    def regular(self) -> int:
        """The number of integers."""
        return self.high - self.low + 1

    def regular_code(self, value: Value) -> int | None:
        """The distance of an integer from ``low``."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return None
        return int(value) - self.low if value == math.floor(value) else None

    def regular_value(self, code: int) -> Value:
        """The integer."""
        return self.low + code

    def describe(self) -> str:
        """The range, in words."""
        return f"the integers {self.low} to {self.high}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        return {"kind": "integers", "low": self.low, "high": self.high, **super().to_dict()}


@dataclass(frozen=True)
class Bins(Ordered):
    """Numbers cut at ``edges``: [a, b), [b, c), …, the last bin closed."""

    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.edges) < 2:
            raise SchemaError("bins() needs at least two edges")
        if any(isinstance(edge, bool) or not isinstance(edge, int | float) for edge in self.edges):
            raise SchemaError("bins() takes numbers as edges")
        if not all(-(2.0**53) < edge < 2.0**53 for edge in self.edges):
            raise SchemaError("bins() takes finite edges within ±2^53")
        if any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise SchemaError("bins() takes edges in strictly increasing order")
        # Adding 0.0 turns −0.0, which means the same but is written otherwise, into 0.0.
        object.__setattr__(self, "edges", tuple(float(edge) + 0.0 for edge in self.edges))
        super().__post_init__()

    @property
    def regular(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    def regular_code(self, value: Value) -> int | None:
        """The bin that a number falls into."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not self.edges[0] <= value <= self.edges[-1]:
            return None
        return min(bisect_right(self.edges, value), self.regular) - 1

    def regular_value(self, code: int) -> Value:
        """The middle of the bin (its lower edge where rounding would leave the bin)."""
        low, high = self.edges[code], self.edges[code + 1]
        middle = low + (high - low) / 2
        return middle if low <= middle < high else low

    def describe(self) -> str:
        """The range, in words."""
        return f"the numbers {plain_number(self.edges[0])} to {plain_number(self.edges[-1])}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        return {"kind": "bins", "edges": list(self.edges), **super().to_dict()}


def categories(*values: str | int | bool, other: bool = False, missing: bool = False) -> Categories:
    """An attribute with the values listed: all strings, all integers or all booleans.

    ``other`` adds a cell for values not listed, ``missing`` one for null and NaN.

    >>> categories("EWR", "JFK", "LGA", other=True).size
    4
    """
    return Categories(values=values, other=other, missing=missing)


def integers(low: int, high: int, *, other: bool = False, missing: bool = False) -> Integers:
    """An attribute with the integers from ``low`` to ``high``, both included.

    ``other`` adds a cell for values outside that range, ``missing`` one for null and NaN.

    >>> integers(1, 12).size
    12
    """
    return Integers(low=low, high=high, other=other, missing=missing)


def bins(edges: Iterable[float], *, other: bool = False, missing: bool = False) -> Bins:
    """An attribute of numbers, told apart only by the bin that they fall into: [a, b), [b, c), …, the last one closed.

    ``edges`` are the bounds a, b, c, … in increasing order. ``other`` adds a cell for numbers outside them, ``missing``
    one for null and NaN.

    >>> bins([-1440, 0, 15, 60, 1440], missing=True).size
    5
    """
    return Bins(edges=tuple(edges), other=other, missing=missing)


def plain_number(value: float) -> str:
    """A number in its shortest exact text: 15, not 15.0.

    >>> plain_number(15.0), plain_number(0.1)
    ('15', '0.1')
    """
    return str(int(value)) if value == math.floor(value) else repr(float(value))


def _numbers(p, f):
    from treering.domain.numeric import numbers

    return numbers(p["low"], p["high"], step=p["step"], edges=p["edges"], **f)


def attribute_from_dict(name: str, plain: Mapping[str, Any]) -> Attribute:
    """Read what `Attribute.to_dict` wrote; anything else is a `SchemaError` that names the attribute."""
    makers: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any], dict[str, bool]], Attribute]]] = {
        "categories": (("values",), lambda p, f: categories(*p["values"], **f)),
        "integers": (("low", "high"), lambda p, f: integers(p["low"], p["high"], **f)),
        "bins": (("edges",), lambda p, f: bins(p["edges"], **f)),
        "numbers": (("low", "high", "step", "edges"), _numbers),
    }
    kind = plain.get("kind")
    if not isinstance(kind, str) or kind not in makers:
        raise SchemaError(f"attribute {name!r}: kind must be one of {', '.join(makers)}")
    needed, make = makers[kind]
    absent = [key for key in needed if key not in plain]
    unknown = sorted(set(plain) - {"kind", "other", "missing", *needed})
    if absent or unknown:
        raise SchemaError(
            f"attribute {name!r}: {kind} takes {', '.join(needed)} (and other, missing); "
            + (f"absent: {', '.join(absent)}" if absent else f"unknown: {', '.join(unknown)}")
        )
    flags = {key: plain[key] for key in ("other", "missing") if key in plain}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise SchemaError(f"attribute {name!r}: other and missing are true or false")
    if any(key in plain and not isinstance(plain[key], list) for key in ("values", "edges")):
        raise SchemaError(f"attribute {name!r}: {needed[0]} is a list")
    try:
        return make(plain, flags)
    except (SchemaError, TypeError) as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None


def _storable(value: str | int | bool) -> bool:
    """Whether Arrow and TOML can hold a category."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    return -(2**63) <= value < 2**63
