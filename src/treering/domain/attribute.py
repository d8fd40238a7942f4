"""One attribute (column) of the universe: finitely many values, each with a code.

Codes run over the regular values first, then the cells for values that are not among them (``other``), then the cell
for null and NaN (``missing``). A growing table brings new categories: ``other`` is the cell that counts them. Numbers
and dates have an order, so what lies outside has two sides, and ``other`` is two cells: `BELOW` and `ABOVE`.

Several attributes may come from one column of the rows: ``column`` names it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from treering.errors import SchemaError

QUOTE: Final = "'"

MAX_VALUES: Final = 2**20
"""The most values one attribute may have, the optional cells included: a query keeps one flag per value."""


class Outside(Enum):
    """The values of cells that stand for values not listed, or out of range."""

    OTHER = "OTHER"
    """Values not listed."""
    BELOW = "BELOW"
    """Values below the range."""
    ABOVE = "ABOVE"
    """Values above the range."""

    def __repr__(self) -> str:
        return self.value


OTHER: Final = Outside.OTHER
BELOW: Final = Outside.BELOW
ABOVE: Final = Outside.ABOVE

Value: TypeAlias = str | int | float | bool | date | Outside | None
"""The value of an attribute in a cell: a regular value, None where missing, `OTHER`, `BELOW` or `ABOVE` outside."""

Label: TypeAlias = str | int | bool | None
"""A value for people and for JSON: a category, an integer, a bin or a date as text, None where missing."""

Maybe: TypeAlias = bool | None
"""A choice that may be left open."""
Name: TypeAlias = str | None
"""A name that may be left out."""

OTHER_LABEL: Final = "(other)"
"""The label of the cell of values not listed."""


@dataclass(frozen=True)
class Attribute(ABC):
    """What all kinds of attribute share: the cells ``other`` and ``missing`` after the regular ones, and the column."""

    other: bool = False
    missing: bool = False
    column: str | None = None
    """The column of the rows that the values come from; None: the one with the attribute's own name."""

    def __post_init__(self) -> None:
        if not isinstance(self.other, bool) or not isinstance(self.missing, bool):
            raise SchemaError("other and missing are True or False")
        if self.column is not None and (not isinstance(self.column, str) or not self.column):
            raise SchemaError("column is the name of a column")
        if self.size > MAX_VALUES:
            raise SchemaError(f"an attribute has at most {MAX_VALUES:,} values, not {self.size:,}: use wider bins()")

    @property
    def strict(self) -> bool:
        """Whether some value has no cell: only a strict attribute refuses a row, for such a value.

        >>> categories("a", "b").strict, categories("a", "b", strict=False).strict
        (True, False)
        """
        return self.missing_code is None or self.unfit_code is None

    @property
    @abstractmethod
    def regular(self) -> int:
        """The number of regular values."""

    @property
    def outside(self) -> tuple[Outside, ...]:
        """The values of the cells between the regular ones and the missing one."""
        return (OTHER,) if self.other else ()

    @property
    def size(self) -> int:
        """The number of values, the optional cells included."""
        return self.regular + len(self.outside) + self.missing

    @property
    def other_code(self) -> int | None:
        """The code of the one cell for values not listed."""
        return self.regular if self.outside == (OTHER,) else None

    @property
    def missing_code(self) -> int | None:
        """The code of the cell for null and NaN."""
        return self.size - 1 if self.missing else None

    @property
    def unfit_code(self) -> int | None:
        """The code of what is neither a regular value nor on one side of them, such as a corrupt text."""
        return self.other_code

    @abstractmethod
    def regular_code(self, value: Value) -> int | None:
        """The code of a value, None if it is not a regular one."""

    def outside_code(self, value: Value) -> int | None:
        """The code of a value, neither missing nor regular; None if there is no cell for it."""
        return self.unfit_code

    @abstractmethod
    def regular_value(self, code: int) -> Value:
        """The value of a regular code (for a bin, its representative)."""

    def code(self, value: Value) -> int:
        """The code of a public value. (Private rows are typed by ``treering.trusted.rows.intake``.)"""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or (isinstance(value, float) and math.isnan(value)):
            code = self.missing_code
        elif isinstance(value, Outside):
            code = self.regular + self.outside.index(value) if value in self.outside else None
        else:
            code = self.regular_code(value)
            code = self.outside_code(value) if code is None else code
        if code is None:
            raise SchemaError(f"{value!r} is not among {self.describe()}")
        return code

    def value(self, code: int) -> Value:
        """The value behind a code: ``code(value(c)) == c``."""
        if not 0 <= code < self.size:
            raise SchemaError(f"code {code} is outside 0..{self.size - 1}")
        if code == self.missing_code:
            return None
        return self.regular_value(code) if code < self.regular else self.outside[code - self.regular]

    def label(self, code: int) -> Label:
        """The value behind a code, for people.

        >>> [bins([0, 15, 60], other=True, missing=True).label(code) for code in range(5)]
        ['[0, 15)', '[15, 60)', '< 0', '>= 60', None]
        """
        value = self.value(code)
        if value is OTHER:
            return OTHER_LABEL
        assert value is None or isinstance(value, str | int | bool)
        return value

    @abstractmethod
    def describe(self) -> str:
        """The values in words, for messages."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML; `treering.domain.schema.attribute_from_dict` reads it back."""

    def _flags(self) -> dict[str, Any]:
        """What the plain forms of all kinds end with."""
        flags = {"other": self.other, "missing": self.missing}
        source = {} if self.column is None else {"column": self.column}
        return {**{name: True for name, on in flags.items() if on}, **source}


@dataclass(frozen=True)
class Ordered(Attribute):
    """An attribute whose values have an order. Its n regular cells are intervals, cut at n + 1 bounds.

    With ``other``, the values below the first bound have a cell, and so do those from the last one on.
    """

    @property
    def outside(self) -> tuple[Outside, ...]:
        """`BELOW` and `ABOVE`, if there are cells for them."""
        return (BELOW, ABOVE) if self.other else ()

    @property
    def below_code(self) -> int | None:
        """The code of the values below."""
        return self.regular if self.other else None

    @property
    def above_code(self) -> int | None:
        """The code of the values above."""
        return self.regular + 1 if self.other else None

    @property
    def unfit_code(self) -> int | None:
        """What is on neither side counts as missing, if the attribute is to take in all there is."""
        return self.missing_code if self.other else None

    @property
    def line(self) -> tuple[int, ...]:
        """The codes in the order of their values: those below, the regular ones, those above; the missing cell has no
        place."""
        regular = tuple(range(self.regular))
        return (self.regular, *regular, self.regular + 1) if self.other else regular

    def outside_code(self, value: Value) -> int | None:
        """The cell below or above, or the one for what is on neither side."""
        side = self.side(value)
        return self.unfit_code if side is None else self.below_code if side is BELOW else self.above_code

    @abstractmethod
    def side(self, value: Value) -> Outside | None:
        """On which side of the regular values a value lies; None if it lies on neither."""

    @abstractmethod
    def bound(self, place: int) -> str:
        """The bound before the regular cell ``place`` (the last one: after all of them), as predicates write it."""

    @property
    def closed(self) -> bool:
        """Whether the last bound belongs to the last regular cell: so it is where nothing lies above."""
        return False

    def cut(self, bounds: Iterable[Any]) -> Ordered:
        """The attribute with more bounds: its cells lie in cells of this one."""
        raise SchemaError(f"{self.describe()} cannot be cut anywhere else")

    def label(self, code: int) -> Label:
        """The value behind a code, for people."""
        if self.other and code == self.below_code:
            return f"< {self.bound(0).strip(QUOTE)}"
        if self.other and code == self.above_code:
            return f">= {self.bound(self.regular).strip(QUOTE)}"
        return super().label(code)


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
        return {"kind": "categories", "values": list(self.values), **self._flags()}


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

    def side(self, value: Value) -> Outside | None:
        """Below ``low`` or above ``high``; a number that is not whole is on neither side."""
        broken = isinstance(value, float) and math.isfinite(value) and value != math.floor(value)
        return None if broken else _side(value, self.low, self.high)

    def bound(self, place: int) -> str:
        """The least integer of the cell."""
        return str(self.low + place)

    def regular_value(self, code: int) -> Value:
        """The integer."""
        return self.low + code

    def describe(self) -> str:
        """The range, in words."""
        return f"the integers {self.low} to {self.high}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        return {"kind": "integers", "low": self.low, "high": self.high, **self._flags()}


@dataclass(frozen=True)
class Bins(Ordered):
    """Numbers cut at ``edges``: [a, b), [b, c), …, the last bin closed unless a cell holds the numbers above."""

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
        if not self.edges[0] <= value <= self.edges[-1] or (value == self.edges[-1] and not self.closed):
            return None
        return min(bisect_right(self.edges, value), self.regular) - 1

    def side(self, value: Value) -> Outside | None:
        """Below the first edge, or from the last one on."""
        return ABOVE if value == self.edges[-1] and self.other else _side(value, self.edges[0], self.edges[-1])

    def bound(self, place: int) -> str:
        """An edge."""
        return plain_number(self.edges[place])

    @property
    def closed(self) -> bool:
        """The last edge belongs to the last bin, unless there is a cell for what lies above."""
        return not self.other

    def cut(self, bounds: Iterable[float]) -> Bins:
        """The bins with more edges."""
        return replace(self, edges=tuple(sorted({*self.edges, *bounds})))

    def regular_value(self, code: int) -> Value:
        """The middle of the bin (its lower edge where rounding would leave the bin)."""
        low, high = self.edges[code], self.edges[code + 1]
        middle = low + (high - low) / 2
        return middle if low <= middle < high else low

    def label(self, code: int) -> Label:
        """The bin as an interval."""
        if code >= self.regular:
            return super().label(code)
        low, high = self.bound(code), self.bound(code + 1)
        return f"[{low}, {high}{']' if self.closed and code + 1 == self.regular else ')'}"

    def describe(self) -> str:
        """The range, in words."""
        return f"the numbers {plain_number(self.edges[0])} to {plain_number(self.edges[-1])}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        return {"kind": "bins", "edges": list(self.edges), **self._flags()}


def categories(
    *values: str | int | bool, other: bool = False, missing: bool = False, strict: Maybe = None, column: Name = None
) -> Categories:
    """An attribute with the values listed: all strings, all integers or all booleans.

    ``other`` adds a cell for values not listed, ``missing`` one for null and NaN. A value without a cell refuses its
    row, and with it the batch: ``strict=False`` adds all cells, so that no row is refused; ``strict=True`` says that
    there are none of them, which is so without ``other`` and ``missing``, too. ``column`` names the column of the rows,
    if it is not called like the attribute.

    >>> categories("EWR", "JFK", "LGA", other=True).size, categories("EWR", "JFK", "LGA", strict=False).size
    (4, 5)
    """
    return Categories(values=values, column=column, **open_cells(other, missing, strict))


def integers(
    low: int, high: int, *, other: bool = False, missing: bool = False, strict: Maybe = None, column: Name = None
) -> Integers:
    """An attribute with the integers from ``low`` to ``high``, both included.

    ``other`` adds a cell for values below ``low`` and one for values above ``high``, ``missing`` one for null and NaN
    (with ``other`` also for numbers that are not whole). ``strict`` and ``column`` are as for `categories`.

    >>> integers(1, 12).size, integers(1, 12, other=True).size, integers(1, 12, strict=False).size
    (12, 14, 15)
    """
    return Integers(low=low, high=high, column=column, **open_cells(other, missing, strict))


def bins(
    edges: Iterable[float], *, other: bool = False, missing: bool = False, strict: Maybe = None, column: Name = None
) -> Bins:
    """An attribute of numbers, told apart only by the bin that they fall into: [a, b), [b, c), …

    ``edges`` are the bounds a, b, c, … in increasing order. The last bin is closed. With ``other`` there is a cell for
    numbers below the first edge and one for numbers from the last edge on, to which then that edge belongs. ``missing``
    adds a cell for null and NaN. ``strict`` and ``column`` are as for `categories`.

    >>> bins([-1440, 0, 15, 60, 1440], missing=True).size
    5
    """
    return Bins(edges=tuple(edges), column=column, **open_cells(other, missing, strict))


def open_cells(other: bool, missing: bool, strict: Maybe) -> dict[str, bool]:
    """Which of the cells beside the regular ones there are."""
    if strict is not None and not isinstance(strict, bool):
        raise SchemaError("strict is True or False")
    if strict and (other or missing):
        raise SchemaError(
            "a strict attribute has no cells for other values and missing ones: leave other and missing out"
        )
    return {"other": True, "missing": True} if strict is False else {"other": other, "missing": missing}


def plain_number(value: float) -> str:
    """A number in its shortest exact text: 15, not 15.0.

    >>> plain_number(15.0), plain_number(0.1)
    ('15', '0.1')
    """
    return str(int(value)) if value == math.floor(value) else repr(float(value))


def _side(value: Value, low: float, high: float) -> Outside | None:
    """On which side of a range of numbers a value lies."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return BELOW if value < low else ABOVE if value > high else None


def _storable(value: str | int | bool) -> bool:
    """Whether Arrow and TOML can hold a category."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    return -(2**63) <= value < 2**63
