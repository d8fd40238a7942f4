"""A query written as the predicate that `parse` reads back.

Every counting query is written so that ``parse(text(query), schema) == query``, unless that would take more than
`MAX_LENGTH` characters. Comparisons never match a missing value, so the missing cell is always named by IS NULL, and
the cell of values not listed is what NOT IN or NOT BETWEEN leave when all regular values that do not match are named.
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
from treering.domain.attribute import Attribute, Bins, Categories, Integers, plain_number
from treering.domain.schema import Schema

MAX_LENGTH: Final = 65_536
"""The longest predicate, in characters, that is written or read."""

_LONGEST_LIST: Final = 8
"""This many consecutive integers are always written as a range; fewer may be listed among others if that is shorter."""

Stretch: TypeAlias = tuple[int, int]
"""Consecutive codes, from the first number up to, but without, the second."""

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
    regular = mask[: attribute.regular]
    other = bool(attribute.other and mask[attribute.regular])
    parts: list[_Part] = []
    if regular.all() and other == attribute.other:
        parts.append(_Part(f"{column} IS NOT NULL"))
    elif regular.any() or other:
        parts.append(_known(column, attribute, regular, other))
    if attribute.missing and mask[-1]:
        parts.append(_Part(f"{column} IS NULL"))
    return _join("OR", parts)


def _known(column: str, attribute: Attribute, regular: Flags, other: bool) -> _Part:
    """The condition for some, not all, of the values that are not missing: it names those that match, or the others."""
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
    runs = _runs(regular)
    if 3 * (int(regular.sum()) if isinstance(attribute, Categories) else len(runs)) > MAX_LENGTH:
        return []
    if isinstance(attribute, Categories):
        return [_listed(column, [literal(attribute.values[code]) for code in np.flatnonzero(regular)], negated)]
    if isinstance(attribute, Integers):
        return _whole_numbers(column, attribute, runs, negated)
    assert isinstance(attribute, Bins)
    word = "AND" if negated else "OR"
    return [_join(word, [_bin_run(column, attribute, low, high, negated) for low, high in runs])]


def _listed(column: str, values: Sequence[str], negated: bool) -> _Part:
    if len(values) == 1:
        return _Part(f"{column} {'<>' if negated else '='} {values[0]}")
    return _Part(f"{column} {'NOT IN' if negated else 'IN'} ({', '.join(values)})")


def _whole_numbers(column: str, attribute: Integers, runs: Sequence[Stretch], negated: bool) -> list[_Part]:
    word = "AND" if negated else "OR"

    def mixed(shortest: int) -> _Part:
        """Runs of at least ``shortest`` integers as ranges, the rest in one list."""
        parts = [_whole_run(column, attribute, low, high, negated) for low, high in runs if high - low >= shortest]
        rest = [attribute.low + code for low, high in runs if high - low < shortest for code in range(low, high)]
        return _join(word, parts + ([_listed(column, [str(value) for value in rest], negated)] if rest else []))

    return [mixed(shortest) for shortest in ((2, 3) if len(runs) == 1 else (2, 3, _LONGEST_LIST))]


def _whole_run(column: str, attribute: Integers, low: int, high: int, negated: bool) -> _Part:
    """The condition for the codes from ``low`` up to, but without, ``high``."""
    first, last = attribute.low + low, attribute.low + high - 1
    # With a cell for values outside the range, a comparison with one side would cut that cell in two.
    if low == 0 and not attribute.other:
        return _Part(f"{column} {'>' if negated else '<='} {last}")
    if high == attribute.regular and not attribute.other:
        return _Part(f"{column} {'<' if negated else '>='} {first}")
    return _Part(f"{column} {'NOT BETWEEN' if negated else 'BETWEEN'} {first} AND {last}")


def _bin_run(column: str, attribute: Bins, low: int, high: int, negated: bool) -> _Part:
    """The condition for the bins from ``low`` up to, but without, ``high``: only their outer edges appear."""
    first, last = plain_number(attribute.edges[low]), plain_number(attribute.edges[high])
    at_least = _Part(f"{column} {'<' if negated else '>='} {first}")
    below = _Part(f"{column} {'>=' if negated else '<'} {last}")
    if attribute.other:
        if high == attribute.regular:
            return _Part(f"{column} {'NOT BETWEEN' if negated else 'BETWEEN'} {first} AND {last}")
        return _join("OR" if negated else "AND", [at_least, below])
    if low == 0:
        return below
    return at_least if high == attribute.regular else _join("OR" if negated else "AND", [at_least, below])


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
