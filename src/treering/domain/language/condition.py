"""Conditions on one attribute: which of its codes match a comparison with values.

A set of codes is a vector of flags, one per code.

*Dates* are compared with periods: a day '2013-03-01', a month '2013-03', '2013-Q1', '2013-W09' or a year '2013'. A date
equals a period that it lies in, is less if it lies before, and greater if it lies after. A timestamp, such as
'2013-03-01 00:00:00', is a period too, which lasts no time.
"""

from __future__ import annotations

import difflib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from heapq import nsmallest
from typing import Any, Final, TypeAlias

import numpy as np

from treering.arrays import Flags, Ints
from treering.domain.attribute import Attribute, Bins, Categories, Ordered, Value
from treering.domain.calendar import (
    LAST_YEAR,
    Dates,
    ceiling,
    extracted,
    following,
    midnight,
    read_moment,
    read_period,
)
from treering.domain.text import identifier, literal, set_text
from treering.errors import QueryError

Literal: TypeAlias = str | Decimal | bool


class Finer(QueryError):
    """A comparison that cuts a cell in two: a lens with this bound of the attribute would tell it."""

    def __init__(self, problem: str, name: str, bound: Any) -> None:
        super().__init__(problem)
        self.name, self.bound = name, bound


_MOST_COMPARED: Final = 5_000
"""The most categories that are searched for close matches."""


def missing(attribute: Attribute) -> Flags:
    """The codes for which x IS NULL: the missing cell."""
    flags = _nothing(attribute)
    if attribute.missing_code is not None:
        flags[attribute.missing_code] = True
    return flags


def unless(attribute: Attribute, flags: Flags) -> Flags:
    """The codes for which a condition is false: all others but the missing cell, where a comparison is unknown.

    (IS NULL is never unknown, and its negation does not hold at the missing cell either.)
    """
    return ~flags & ~missing(attribute)


def codes_of(name: str, attribute: Attribute, value: Literal, *, unit: str = "") -> range:
    """The codes for which x = value holds, or date_trunc(unit, x) = value: one, or for dates as many as there are
    periods within a longer one."""
    _check_kind(name, attribute, value)
    if isinstance(attribute, Dates):
        return range(*(_dates_below(name, attribute, str(value), inclusive, unit) for inclusive in (False, True)))
    if isinstance(attribute, Bins):
        bound = Decimal(value)
        try:
            codes = range(*(_bins_below(name, attribute, bound, inclusive) for inclusive in (False, True)))
        except Finer as finer:
            raise Finer(_single_number(name, attribute, value), name, finer.bound) from None
        if not codes:  # It lies outside, where no row can be.
            raise QueryError(_single_number(name, attribute, value))
        return codes
    code = attribute.regular_code(_plain(value))
    if code is None:
        raise QueryError(_not_listed(name, attribute, value))
    return range(code, code + 1)


def among(attribute: Attribute, codes: Iterable[range]) -> Flags:
    """The set of these codes."""
    flags = _nothing(attribute)
    for each in codes:
        flags[each.start : each.stop] = True
    return flags


def below(name: str, attribute: Attribute, bound: Literal, *, inclusive: bool, unit: str = "") -> Flags:
    """The set x < bound, or x <= bound, for an attribute that has an order; with a unit, for dates, of
    date_trunc(unit, x) instead of x."""
    _check_kind(name, attribute, bound)
    assert isinstance(attribute, Ordered)
    if isinstance(attribute, Dates):
        count = _dates_below(name, attribute, str(bound), inclusive, unit)
    elif isinstance(attribute, Bins):
        count = _bins_below(name, attribute, Decimal(bound), inclusive)
    else:
        count = _integers_below(name, attribute, Decimal(bound), inclusive)
    flags = _nothing(attribute)
    flags[:count] = True
    if attribute.below_code is not None:
        flags[attribute.below_code] = True
    return flags


def _nothing(attribute: Attribute) -> Flags:
    return np.zeros(attribute.size, dtype=np.bool_)


def _plain(value: Literal) -> Value:
    """A literal as a category or an integer; None for a number that is neither."""
    if not isinstance(value, Decimal):
        return value
    # Compared before int(), which would write out all digits of a huge power of ten.
    return int(value) if -(2**63) <= value < 2**63 and int(value) == value else None


def _integers_below(name: str, attribute: Ordered, bound: Decimal, inclusive: bool) -> int:
    """The number of an attribute's integers below a bound."""
    low, high = int(attribute.bound(0)), int(attribute.bound(attribute.regular))
    if bound < low - 1:
        first = low - 1
    elif bound > high:
        first = high + 1
    else:
        first = math.floor(bound) + 1 if inclusive else math.ceil(bound)
    if not low <= first <= high and attribute.other:
        raise QueryError(_outside(name, attribute, under=first < low))
    return min(max(first - low, 0), attribute.regular)


def _bins_below(name: str, attribute: Bins, bound: Decimal, inclusive: bool) -> int:
    """The number of bins below a bound; a bound inside a bin is refused."""
    edges, edge = attribute.edges, _edge(bound, inclusive)
    if not attribute.other and not edges[0] < edge <= edges[-1]:
        return 0 if edge <= edges[0] else attribute.regular
    place = bisect_left(edges, edge)
    last = attribute.closed and place == attribute.regular  # The last edge belongs to the last bin.
    if place < len(edges) and edges[place] == edge and not last:
        return place
    outside = place in (0, len(edges))
    problem = _outside(name, attribute, under=place == 0) if outside else _cut(name, attribute, place - 1)
    if abs(edge) >= 2.0**53:
        raise QueryError(problem)
    raise Finer(problem, name, math.nextafter(edge, math.inf) if last and edges[place] == edge else edge)


def _edge(bound: Decimal, inclusive: bool) -> float:
    """The least double that is not below a bound, or above it."""
    edge = float(bound)
    return math.nextafter(edge, math.inf) if (_exact(edge) <= bound if inclusive else _exact(edge) < bound) else edge


def _dates_below(name: str, attribute: Dates, bound: str, inclusive: bool, unit: str) -> int:
    """The number of periods before a date literal, or up to its end; a bound inside a period is refused.

    date_trunc(unit, x) is before a moment exactly if x is before the first beginning of a unit from that moment on.
    """
    cut = _span(name, bound)[inclusive]
    cut = ceiling(unit, cut) if unit else cut
    edges = attribute.edges
    place = bisect_right(edges, cut, key=midnight)
    if place == 0 or cut > midnight(edges[-1]):
        raise Finer(_outside(name, attribute, under=place == 0), name, cut)
    if midnight(edges[place - 1]) != cut:
        raise Finer(_cut(name, attribute, place - 1), name, cut)
    return place - 1


def _span(name: str, text: str) -> tuple[datetime, datetime]:
    """When the period of a date literal begins, and when it is over."""
    period = read_period(text)
    if period is not None and period[1].year <= LAST_YEAR:
        unit, start = period
        return midnight(start), midnight(following(unit, start))
    moment = read_moment(text)
    if isinstance(moment, datetime) and moment.tzinfo is None and moment.year <= LAST_YEAR:
        return moment, moment + timedelta(microseconds=1)
    raise QueryError(
        f"{identifier(name)} cannot be compared with {brief(literal(text))}: a date is written '2013-03-01', a month "
        "'2013-03', and so '2013-Q1', '2013-W09' and '2013'"
    )


def _exact(edge: float) -> Decimal:
    """The decimal number of an edge's shortest text: the edge 0.1 equals the literal 0.1."""
    return Decimal(repr(edge))


def values_of(name: str, attribute: Attribute, part: str) -> Ints:
    """What EXTRACT(part FROM x) is for each period of an attribute of dates; refused where a period has several."""
    if not isinstance(attribute, Dates) or part == "hour":
        kinds = "an hour is asked of a column of which the schema has the hour: dates(part='hour', column=…)"
        raise QueryError(kinds if part == "hour" else f"{identifier(name)} has no dates: EXTRACT takes them apart")
    finer = {"day": 1, "dow": 1, "isodow": 1, "month": 2, "quarter": 3, "year": 4}[part]
    if {"day": 1, "week": 5, "month": 2, "quarter": 3, "year": 4}[attribute.by] > finer:
        raise QueryError(f"{identifier(name)} is known by {attribute.by} only, so that its {part} is not")
    return _extracted(attribute, part)


@lru_cache(maxsize=64)
def _extracted(attribute: Dates, part: str) -> Ints:
    return np.array([extracted(part, day) for day in attribute.edges[:-1]])


# -- messages ----------------------------------------------------------------------------------------------------------


def _check_kind(name: str, attribute: Attribute, value: Literal) -> None:
    kinds: dict[type, tuple[type, str]] = {
        str: (str, "texts, in single quotes"),
        bool: (bool, "TRUE and FALSE"),
        int: (Decimal, "whole numbers"),
        float: (Decimal, "numbers"),
        date: (str, "dates, in single quotes, such as '2013-03-01'"),
    }
    kind: type = date if isinstance(attribute, Dates) else float
    if isinstance(attribute, Categories):
        kind = type(attribute.regular_value(0))
    wanted, words = kinds[kind]
    if type(value) is not wanted:
        raise QueryError(f"the values of {identifier(name)} are {words}")


def _single_number(name: str, attribute: Bins, value: Literal) -> str:
    code = attribute.regular_code(float(value)) or 0
    return (
        f"only the bins of {identifier(name)} are known, so it cannot be compared with a single number: "
        f"write {_cell(name, attribute, code)}, for example"
    )


def _not_listed(name: str, attribute: Attribute, value: Literal) -> str:
    column = identifier(name)
    if isinstance(attribute, Ordered):
        low, high = attribute.bound(0), int(attribute.bound(attribute.regular)) - 1
        cells = ""
        if attribute.other:
            cells = f"; the cells of other values are {column} < {low} and {column} > {high}"
        return f"{column} has only the whole numbers {low} to {high}{cells}"
    assert isinstance(attribute, Categories)
    close = _close(value, attribute)
    hint = f"did you mean {' or '.join(close)}?" if close else f"it has {attribute.describe()}."
    cell = f" The cell of values not listed is {column} NOT IN (all categories)." if attribute.other else ""
    return f"{brief(literal(value))} is not a category of {column}; {hint}{cell}"


def _close(value: Literal, attribute: Categories) -> list[str]:
    """The categories nearest to a value that is not a category."""
    if isinstance(value, str):
        return [literal(each) for each in close_matches(value, map(str, attribute.values))]
    if isinstance(value, bool) or value.adjusted() > 19:
        return []
    return [literal(each) for each in nsmallest(3, attribute.values, key=lambda each: abs(Decimal(each) - value))]


def brief(word: str) -> str:
    """A word of a query, cut short for a message."""
    return word if len(word) <= 60 else word[:59] + "…"


def close_matches(word: str, among: Iterable[str]) -> list[str]:
    """Up to three words similar to this one, upper and lower case being the same."""
    if len(word) > 100:
        return []
    folded: dict[str, str] = {}
    for each, _ in zip(among, range(_MOST_COMPARED), strict=False):
        folded.setdefault(each.casefold(), each)
    return [folded[match] for match in difflib.get_close_matches(word.casefold(), folded)]


def _cell(name: str, attribute: Ordered, *codes: int) -> str:
    """The condition that a value is in one of these cells: it can always be asked."""
    mask = np.zeros(attribute.size, dtype=np.bool_)
    mask[list(codes)] = True
    return set_text(name, attribute, mask)


def _outside(name: str, attribute: Ordered, *, under: bool) -> str:
    """Why a bound below (``under``) or above the range is refused."""
    column = identifier(name)
    code = attribute.below_code if under else attribute.above_code
    assert code is not None
    side = f"below {attribute.bound(0)}" if under else f"from {attribute.bound(attribute.regular)} on"
    return (
        f"the values of {column} {side} share one cell, which this would cut in two: "
        f"that cell is {_cell(name, attribute, code)}"
    )


def _cut(name: str, attribute: Bins | Dates, code: int) -> str:
    column, kind = identifier(name), "bin" if isinstance(attribute, Bins) else attribute.by
    low, high = attribute.bound(code), attribute.bound(code + 1)
    problem = f"this would cut the {kind} from {low} to {high} of {column} in two; "
    last = code + 1 == attribute.regular and attribute.closed
    return (
        f"{problem}the nearest {'bin edges' if kind == 'bin' else 'bounds'} are {low} and {high}, "
        f"where {column} < {low}, {column} >= {low}"
        + (f" and {column} <= {high} do not" if last else f", {column} < {high} and {column} >= {high} do not")
    )
