"""Conditions on one attribute: which of its codes match a comparison with values.

A set of codes is a vector of flags, one per code. For numbers with an ``other`` cell the set is *fine*: it has one flag
more. The values outside the range share that cell, but ``x >= 0`` alone matches the upper ones and ``x < 15`` alone the
lower ones; so the flag at ``other_code`` stands for the values below the range and an extra flag, the last, for those
above, until `coarse` finds that the two agree.
"""

from __future__ import annotations

import difflib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from decimal import Decimal
from heapq import nsmallest
from typing import Final, TypeAlias

import numpy as np

from treering.arrays import Flags
from treering.domain.attribute import Attribute, Bins, Categories, Integers, Value, plain_number
from treering.domain.text import identifier, literal, set_text
from treering.errors import QueryError

Literal: TypeAlias = str | Decimal | bool

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


def code_of(name: str, attribute: Attribute, value: Literal) -> int:
    """The code for which x = value holds."""
    _check_kind(name, attribute, value)
    if isinstance(attribute, Bins):
        raise QueryError(_single_number(identifier(name), attribute, value))
    code = attribute.regular_code(_plain(value))
    if code is None:
        raise QueryError(_not_listed(identifier(name), attribute, value))
    return code


def among(attribute: Attribute, codes: Sequence[int]) -> Flags:
    """The set of these codes."""
    flags = _nothing(attribute)
    flags[list(codes)] = True
    return flags


def below(name: str, attribute: Attribute, bound: Literal, *, inclusive: bool) -> Flags:
    """The set x < bound, or x <= bound."""
    _check_kind(name, attribute, bound)
    assert isinstance(bound, Decimal)
    if isinstance(attribute, Integers):
        count = _integers_below(name, attribute, bound, inclusive)
    else:
        assert isinstance(attribute, Bins)
        count = _bins_below(name, attribute, bound, inclusive)
    flags = _nothing(attribute)
    flags[:count] = True
    if attribute.other_code is not None:
        flags[attribute.other_code] = True
    return flags


def coarse(name: str, attribute: Attribute, flags: Flags) -> Flags:
    """A set with one flag per code; a set with only the values below the range, or only those above it, is refused."""
    if not _fine(attribute):
        return flags
    if cuts(attribute, flags):
        inside = flags[:-1].copy()
        inside[attribute.other_code] = False
        advice = f"write {set_text(name, attribute, inside)}; " if inside.any() else ""
        raise QueryError(_outside(identifier(name), attribute, advice))
    return flags[:-1]


def cuts(attribute: Attribute, flags: Flags) -> bool:
    """Whether a fine set holds the values outside the range on one side only, which no cell can tell."""
    code = attribute.other_code
    return _fine(attribute) and code is not None and bool(flags[code] != flags[-1])


def _fine(attribute: Attribute) -> bool:
    return attribute.other and not isinstance(attribute, Categories)


def _nothing(attribute: Attribute) -> Flags:
    return np.zeros(attribute.size + _fine(attribute), dtype=np.bool_)


def _plain(value: Literal) -> Value:
    """A literal as a category or an integer; None for a number that is neither."""
    if not isinstance(value, Decimal):
        return value
    # Compared before int(), which would write out all digits of a huge power of ten.
    return int(value) if -(2**63) <= value < 2**63 and int(value) == value else None


def _range(attribute: Attribute) -> tuple[str, str]:
    if isinstance(attribute, Integers):
        return str(attribute.low), str(attribute.high)
    assert isinstance(attribute, Bins)
    return plain_number(attribute.edges[0]), plain_number(attribute.edges[-1])


def _integers_below(name: str, attribute: Integers, bound: Decimal, inclusive: bool) -> int:
    """The number of an attribute's integers below a bound."""
    if bound < attribute.low - 1:
        first = attribute.low - 1
    elif bound > attribute.high + 1:
        first = attribute.high + 2
    else:
        first = math.floor(bound) + 1 if inclusive else math.ceil(bound)
    if attribute.other and not attribute.low <= first <= attribute.high + 1:
        raise QueryError(_outside(identifier(name), attribute, f"write {_within(name, attribute)}; "))
    return min(max(first - attribute.low, 0), attribute.regular)


def _bins_below(name: str, attribute: Bins, bound: Decimal, inclusive: bool) -> int:
    """The number of bins below a bound; a bound inside a bin is refused."""
    edges = attribute.edges
    under, upto = bisect_left(edges, bound, key=_exact), bisect_right(edges, bound, key=_exact)
    if upto == 0 or under == len(edges):
        if attribute.other:
            raise QueryError(_outside(identifier(name), attribute, f"write {_within(name, attribute)}; "))
        return min(under, attribute.regular)
    # An edge belongs to the bin above it, except that the last one belongs to the last bin.
    if inclusive and upto == len(edges):
        return attribute.regular
    if not inclusive and under < upto < len(edges):
        return under
    raise QueryError(_cut(identifier(name), attribute, min(upto, attribute.regular) - 1))


def _exact(edge: float) -> Decimal:
    """The decimal number of an edge's shortest text: the edge 0.1 equals the literal 0.1."""
    return Decimal(repr(edge))


# -- messages ----------------------------------------------------------------------------------------------------------


def _check_kind(name: str, attribute: Attribute, value: Literal) -> None:
    kinds: dict[type, tuple[type, str]] = {
        str: (str, "texts, in single quotes"),
        bool: (bool, "TRUE and FALSE"),
        int: (Decimal, "whole numbers"),
        float: (Decimal, "numbers"),
    }
    sample = attribute.values[0] if isinstance(attribute, Categories) else 0.0
    wanted, words = kinds[type(sample)]
    if type(value) is not wanted:
        raise QueryError(f"the values of {identifier(name)} are {words}")


def _single_number(column: str, attribute: Bins, value: Literal) -> str:
    code = attribute.regular_code(float(value)) or 0
    low, high = plain_number(attribute.edges[code]), plain_number(attribute.edges[code + 1])
    above = f"{column} <= {high}" if code + 1 == attribute.regular else f"{column} < {high}"
    return (
        f"only the bins of {column} are known, so it cannot be compared with a single number: "
        f"write {column} >= {low} AND {above}, for example"
    )


def _not_listed(column: str, attribute: Attribute, value: Literal) -> str:
    if not isinstance(attribute, Categories):
        low, high = _range(attribute)
        cell = f"; the cell of other values is {column} NOT BETWEEN {low} AND {high}" if attribute.other else ""
        return f"{column} has only the whole numbers {low} to {high}{cell}"
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


def _within(name: str, attribute: Attribute) -> str:
    return f"{identifier(name)} BETWEEN {' AND '.join(_range(attribute))}"


def _outside(column: str, attribute: Attribute, advice: str) -> str:
    low, high = _range(attribute)
    return (
        f"the values of {column} outside {low} to {high} share one cell, which this would cut in two: "
        f"{advice}that cell itself is {column} NOT BETWEEN {low} AND {high}"
    )


def _cut(column: str, attribute: Bins, code: int) -> str:
    low, high = plain_number(attribute.edges[code]), plain_number(attribute.edges[code + 1])
    last = code + 1 == attribute.regular
    return (
        f"this would cut the bin from {low} to {high} of {column} in two; the nearest bin edges are {low} and {high}, "
        f"where {column} < {low}, {column} >= {low}"
        + (f" and {column} <= {high} do not" if last else f", {column} < {high} and {column} >= {high} do not")
    )
