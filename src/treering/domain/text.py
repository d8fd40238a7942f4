"""A query written as the predicate that `parse` reads back.

Every counting query is written so that ``parse(text(query), schema) == query``, unless that would take more than
`MAX_LENGTH` characters. Comparisons never match a missing value, so the missing cell is always named by IS NULL, and
the cell of values not listed is what NOT IN leaves when all regular values that do not match are named. The cells below
and above a range are at the ends of runs: ``x < 0 OR x >= 60``. (Where they share a cell, that is what NOT BETWEEN
leaves.)
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeAlias

import numpy as np

from treering.arrays import Flags, Ints
from treering.domain.attribute import Attribute, Bins, Categories, Ordered, plain_number
from treering.domain.calendar import CutDates, Dates
from treering.domain.schema import Schema

MAX_LENGTH: Final = 65_536
"""The longest predicate, in characters, that is written or read."""

_LONGEST_LIST: Final = 8
"""This many consecutive integers are always written as a range; fewer may be listed among others if that is shorter."""

Stretch: TypeAlias = tuple[int, int]
"""Consecutive codes, from the first number up to, but without, the second."""

Span: TypeAlias = tuple[int | None, int | None]
"""The regular codes from the first number up to, but without, the second. None: no bound on this side, so that the cell
below, or above, is included, if there is one."""

_RESERVED: Final = re.compile(
    "all|analyse|analyze|and|any|array|as|asc|asymmetric|between|both|by|case|cast|check|collate|column|"
    "constraint|create|cross|current_date|current_time|current_timestamp|default|deferrable|desc|describe|"
    "distinct|do|else|end|except|exists|false|fetch|for|foreign|from|full|group|having|ilike|in|initially|inner|"
    "intersect|into|is|isnull|join|lateral|leading|left|like|limit|natural|not|notnull|null|offset|on|only|or|"
    "order|outer|over|pivot|placing|primary|qualify|references|returning|right|select|show|similar|some|summarize|"
    "symmetric|table|then|to|trailing|true|union|unique|unpivot|using|values|variadic|when|where|window|with|"
    "within|xor"
)


class Linear(Protocol):
    """The part of `Query` that its text needs. (The module of `Query` imports this one, not the other way.)"""

    @property
    def schema(self) -> Schema:
        """The schema that the query is about."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that matter."""

    @property
    def masks(self) -> tuple[Flags, ...] | None:
        """A conjunction's sets; None for a table."""

    @property
    def table(self) -> Ints | None:
        """A table's weights; None for a conjunction."""

    @property
    def scale(self) -> int:
        """The weight that stands for 1."""

    @property
    def joint(self) -> int:
        """The number of joint values of the attributes."""

    @property
    def counting(self) -> bool:
        """Whether every weight is 0 or 1."""

    @property
    def constant(self) -> bool:
        """Whether every cell weighs the same."""

    def weights(self) -> Ints:
        """The weight of each joint value."""

    def weighted(self, schema: Schema, weights: Flags, *, attributes: list[str], resolution: int) -> Self:
        """A query with other weights."""


def text(query: Linear) -> str:
    """The predicate of a counting query; for other queries, a description that `parse` refuses."""
    if not query.counting:
        return _describe_weights(query)
    try:
        written = _Writer().write(query).text
    except _TooLongError:
        written = ""
    return written if 0 < len(written) <= MAX_LENGTH else _describe_cells(query)


def identifier(name: str) -> str:
    """A column's name, quoted where SQL needs it.

    >>> identifier("month"), identifier("Month of year"), identifier("order")
    ('month', '"Month of year"', '"order"')
    """
    plain = re.fullmatch("[a-z_][a-z0-9_]*", name) and not reserved(name)
    return name if plain else f'"{name}"'


def reserved(word: str) -> bool:
    """Whether this word, unquoted, is more than a column's name in some SQL dialect."""
    return _RESERVED.fullmatch(word.lower()) is not None


def literal(value: object) -> str:
    """A category, or an integer, as SQL writes it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def set_text(name: str, attribute: Attribute, mask: Flags) -> str:
    """The condition that an attribute's value is among those flagged in ``mask``, some but not all."""
    try:
        return _condition(identifier(name), attribute, mask).text
    except _TooLongError:
        return f"{identifier(name)} IN (…)"


# -- parts of a predicate ----------------------------------------------------------------------------------------------


class _TooLongError(Exception):
    """The predicate would be longer than `parse` reads."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A predicate, and the word, AND or OR, that joins its parts at the top ("" for a single comparison)."""

    text: str
    word: str = ""


def _join(word: str, parts: Sequence[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    pieces = [part.text if part.word in ("", word) else f"({part.text})" for part in parts]
    return _Part(f" {word} ".join(pieces), word)


# -- queries -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Writes one query, and gives up as soon as the text is longer than ``room``."""

    room: int = MAX_LENGTH

    def write(self, query: Linear) -> _Part:
        """The predicate of a counting query."""
        if query.constant:
            return _Part("FALSE" if query.masks is None else "TRUE")
        if query.masks is None:
            return self._alternatives(query)
        return _join("AND", [self._condition(query, axis, mask) for axis, mask in enumerate(query.masks)])

    def _condition(self, query: Linear, axis: int, mask: Flags) -> _Part:
        name = query.names[axis]
        part = _condition(identifier(name), query.schema.attributes[name], mask)
        self.room -= len(part.text)
        if self.room < 0:
            raise _TooLongError
        return part

    def _alternatives(self, query: Linear) -> _Part:
        """A table as an OR over groups of one attribute's values: those that leave the same condition on the others."""
        table = np.asarray(query.table, dtype=np.bool_)
        axis, groups = min(((axis, _groups(table, axis)) for axis in range(table.ndim)), key=lambda each: len(each[1]))
        rest = [name for name in query.names if name != query.names[axis]]
        shared = table.all(axis=axis)
        parts: list[_Part] = []
        common: list[_Part] = []
        for codes in groups:
            left = np.take(table, codes[0], axis=axis)
            question = [] if left.all() else [query.weighted(query.schema, left, attributes=rest, resolution=1)]
            if np.array_equal(left, shared):
                # This condition on the others holds for every value of the attribute, so it need not name it.
                common = [self.write(each) for each in question]
                continue
            mask = np.zeros(table.shape[axis], dtype=np.bool_)
            mask[codes] = True
            parts.append(_join("AND", [self._condition(query, axis, mask), *map(self.write, question)]))
        return _join("OR", parts + common)


def _groups(table: Flags, axis: int) -> list[list[int]]:
    """The codes of one attribute grouped by their sub-tables; codes with an empty sub-table are left out."""
    rows = np.packbits(np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1), axis=1)
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    for code in np.flatnonzero(rows.any(axis=1)).tolist():
        groups[rows[code].tobytes()].append(code)
    return list(groups.values())


# -- one attribute -----------------------------------------------------------------------------------------------------


def _condition(column: str, attribute: Attribute, mask: Flags) -> _Part:
    known = mask[:-1] if attribute.missing else mask
    parts: list[_Part] = []
    if known.all():
        parts.append(_Part(f"{column} IS NOT NULL"))
    elif known.any():
        parts.append(_known(column, attribute, known))
    if attribute.missing and mask[-1]:
        parts.append(_Part(f"{column} IS NULL"))
    return _join("OR", parts)


def _known(column: str, attribute: Attribute, known: Flags) -> _Part:
    """The condition for some, not all, of the values that are not missing: it names those that match, or the others."""
    if isinstance(attribute, Ordered):
        plain, negated = (_spelled(column, attribute, flags, no) for flags, no in ((known, False), (~known, True)))
    else:
        regular, other = known[: attribute.regular], bool(attribute.other and known[-1])
        plain = [] if other else _named(column, attribute, regular, negated=False)
        negated = _named(column, attribute, ~regular, negated=True) if other or not attribute.other else []
    if not plain and not negated:
        raise _TooLongError
    # A condition that is not negated, or is one comparison, is preferred if only a little longer.
    lengths = [(len(part.text) + 4 * bool(part.word), part) for part in plain]
    lengths += [(2 + len(part.text) + 4 * bool(part.word), part) for part in negated]
    return min(lengths, key=lambda each: each[0])[1]


def _named(column: str, attribute: Attribute, regular: Flags, *, negated: bool) -> list[_Part]:
    """The ways to write that a value is (not) among these regular ones; none if all would be too long."""
    if isinstance(attribute, Categories):
        if 3 * int(regular.sum()) > MAX_LENGTH:
            return []
        return [_listed(column, [literal(attribute.values[code]) for code in np.flatnonzero(regular)], negated)]
    assert isinstance(attribute, Ordered)
    return _ranges(column, attribute, [(low, high) for low, high in _runs(regular)], negated)


def _spelled(column: str, attribute: Ordered, known: Flags, negated: bool) -> list[_Part]:
    """The ways to write that a value is (not) in one of these cells, which are all but the missing one; none if all
    would be too long."""
    places = known[list(attribute.line)]
    shift = int(attribute.other)
    spans = [
        (None if low == 0 else low - shift, None if high == len(places) else high - shift)
        for low, high in _runs(places)
    ]
    return _ranges(column, attribute, spans, negated)


def _ranges(column: str, attribute: Ordered, spans: Sequence[Span], negated: bool) -> list[_Part]:
    """The ways to write that a value is (not) in one of these spans; none if all would be too long."""
    if 3 * len(spans) > MAX_LENGTH:
        return []
    word = "AND" if negated else "OR"
    if isinstance(attribute, Bins | CutDates):
        return [_join(word, [_run(column, attribute, low, high, negated) for low, high in spans])]

    def mixed(shortest: int) -> _Part:
        """Runs of at least ``shortest`` values as ranges, the rest in one list."""
        listed, parts = list[str](), list[_Part]()
        for low, high in spans:
            unbounded = attribute.other and (low is None or high is None)
            codes = range(low or 0, attribute.regular if high is None else high)
            if unbounded or len(codes) >= shortest:
                parts.append(_run(column, attribute, low, high, negated))
            else:
                listed += [_single(attribute, code) for code in codes]
        return _join(word, parts + ([_listed(column, listed, negated)] if listed else []))

    return [mixed(shortest) for shortest in ((2, 3) if len(spans) == 1 else (2, 3, _LONGEST_LIST))]


def _single(attribute: Ordered, code: int) -> str:
    """An integer or a period as a literal."""
    return literal(attribute.label(code))


def _listed(column: str, values: Sequence[str], negated: bool) -> _Part:
    if len(values) == 1:
        return _Part(f"{column} {'<>' if negated else '='} {values[0]}")
    return _Part(f"{column} {'NOT IN' if negated else 'IN'} ({', '.join(values)})")


def _run(column: str, attribute: Ordered, low: int | None, high: int | None, negated: bool) -> _Part:
    """The condition for the values of a span: only its bounds appear."""
    if low is None:
        assert high is not None
        return _Part(_bounded(column, attribute, high, True, negated))
    if high is None:
        return _Part(_bounded(column, attribute, low, False, negated))
    last = attribute.bound(high) if high == attribute.regular and attribute.closed else _last(attribute, high)
    if last == attribute.bound(low) and isinstance(attribute, Bins):
        return _Part(f"{column} {'<>' if negated else '='} {last}")
    if last is not None and (not isinstance(attribute, Bins) or _last(attribute, low) is None):
        return _Part(f"{column} {'NOT BETWEEN' if negated else 'BETWEEN'} {attribute.bound(low)} AND {last}")
    ends = [_bounded(column, attribute, low, False, negated), _bounded(column, attribute, high, True, negated)]
    return _join("OR" if negated else "AND", [_Part(each) for each in ends])


def _bounded(column: str, attribute: Ordered, place: int, before: bool, negated: bool) -> str:
    """The condition that a value lies ``before`` a bound, or from it on."""
    last = _last(attribute, place) if before or isinstance(attribute, Bins) else None
    under = before != negated
    if last is not None:
        return f"{column} {'<=' if under else '>'} {last}"
    return f"{column} {'<' if under else '>='} {attribute.bound(place)}"


def _last(attribute: Ordered, place: int) -> str | None:
    """The last value before a bound, if that is how people write it: an integer, or a number that the bound is just
    behind."""
    if isinstance(attribute, Dates):
        return None
    if not isinstance(attribute, Bins):
        return str(int(attribute.bound(place)) - 1)
    behind = plain_number(math.nextafter(attribute.edges[place], -math.inf))
    return behind if len(behind) + 4 < len(attribute.bound(place)) else None


def _runs(flags: Flags) -> list[Stretch]:
    """The maximal runs of consecutive set flags."""
    padded = np.concatenate(([False], flags, [False]))
    edges = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _describe_cells(query: Linear) -> str:
    sets = query.masks if query.table is None else (query.table,)
    matching = math.prod(int(each.sum()) for each in sets or ())
    return f"counting over {', '.join(query.names)} ({matching:,} of {query.joint:,} joint values)"


def _describe_weights(query: Linear) -> str:
    if query.constant:
        return f"weighted {int(query.weights())}/{query.scale} for every row"
    return f"weighted over {', '.join(query.names)} ({query.joint:,} weights)"
