"""PRIVATE: the rows of an engine, typed: a subquery whose columns are what the intake would make of their values
(``rows/typed.py``), so that the lens applies to them.

An instant is dated by the time zone database of this process, as it is everywhere else: its offsets, and when they
changed, are written into the statement. Texts are compared as bytes: equal bytes are equal texts. Otherwise a column's
collation would decide, which may ignore case, accents or trailing blanks.

A row that the schema has no cell for does not fit; which rows these are is public (``rows/checks.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from treering.domain.attribute import Attribute
from treering.domain.axis import Axis, Scalar, scalar_of
from treering.domain.calendar import Dated
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.trusted.engines.spelling import Column, Relation, Spelling
from treering.trusted.rows.frames import NEEDS_ZONE
from treering.trusted.rows.lens import value_of
from treering.trusted.rows.moments import (
    CYCLE,
    DAY,
    EPOCH,
    FIRST,
    INSTANT,
    LAST,
    MICROSECONDS,
    NO_YEAR,
    PATTERN,
    RULED,
    offsets,
)
from treering.trusted.rows.typed import EARLY, LATE, NOT_A_NUMBER, NUMBER, WANTED, field_of, kept

FITTING: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"text", "field"}),
    "boolean": frozenset({"boolean", "field"}),
    "code": frozenset({"integer", "wide", "field"}),
    "integer": frozenset({"integer", "wide", "real", "field"}),
    "number": frozenset({"integer", "wide", "real", "field"}),
    "moment": frozenset({"date", "moment", "instant", "text", "field"}),
}
"""The kinds of columns that may hold values of a scalar, beside columns of nulls."""

_SPACE: Final = r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
_LEAST, _MOST = f"CAST('{-(2**63)}' AS BIGINT)", str(2**63 - 1)

_LOW, _HIGH = ((each - EPOCH) * DAY * MICROSECONDS for each in (FIRST, LAST + 1))
_RULED: Final = RULED * MICROSECONDS
_CYCLE: Final = CYCLE * MICROSECONDS


def check_column(scalar: Scalar, column: Column) -> None:
    """Refuse a column of a type that cannot hold the values of a scalar, as `trusted.rows.typed.check_type` does."""
    if scalar.kind == "moment" and column.kind == "instant" and scalar.zone is None:
        raise DataError(f"column {scalar.column!r} has timestamps with a time zone{NEEDS_ZONE}", column=scalar.column)
    if column.kind != "null" and column.kind not in FITTING[scalar.kind]:
        raise DataError(
            f"column {scalar.column!r} has type {column.type}, the schema wants {WANTED[scalar.kind]}",
            column=scalar.column,
        )


def typed_rows(
    relation: Relation, rows: str, scalars: Sequence[Scalar], others: Mapping[str, str], given: Sequence[Scalar] = ()
) -> str:
    """The rows, as SQL has them after FROM, with a typed column for each scalar that is kept; with ``others``, which
    are expressions over the columns as they come, by their names; and, for each scalar of ``given``, with a column that
    says whether there is a value (`present`)."""
    spelling = relation.connection.spelling
    quoted, columns = spelling.dialect.quoted, relation.columns
    named = {name: expression for scalar in scalars for name, expression in _first(scalar, columns, spelling).items()}
    named |= {present(scalar): _given(columns[scalar.column], scalar, spelling) for scalar in given}
    named |= others
    listed = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in named.items())
    typed = f"(SELECT {listed} FROM {rows} AS t{spelling.fence})"
    local = {field_of(scalar): _local(scalar, spelling) for scalar in scalars if _lookup(scalar) in named}
    if not local:
        return typed
    listed = ", ".join(f"{local.get(name, quoted(name))} AS {quoted(name)}" for name in named)
    return f"(SELECT {listed} FROM {typed} AS t{spelling.fence})"


def present(scalar: Scalar) -> str:
    """The name of the column that says whether there is a value, which may be none that can be kept."""
    return f"{field_of(scalar)}?"


def _lookup(scalar: Scalar) -> str:
    """The name of the column with the instants by which offsets are looked up: null where there is no instant."""
    return f"{field_of(scalar)}~"


def _first(scalar: Scalar, columns: Mapping[str, Column], spelling: Spelling) -> dict[str, str]:
    """The typed column of a scalar by its name; if it may hold instants, they are still those of UTC."""
    column, name = columns[scalar.column], field_of(scalar)
    plain = column.plain.format(spelling.dialect.quoted(scalar.column))
    if column.kind == "null":
        return {name: _nothing(scalar, spelling)}
    if scalar.kind != "moment":
        return {name: _value(plain, column, scalar, spelling)}
    if column.kind not in ("text", "field"):
        return {name: plain} | ({_lookup(scalar): _ruled(plain, spelling)} if column.kind == "instant" else {})
    read, instant = _read(plain, scalar, spelling)
    if scalar.zone is None:
        return {name: read}
    return {name: read, _lookup(scalar): f"CASE WHEN {instant} THEN {_ruled(read, spelling)} END"}


def _nothing(scalar: Scalar, spelling: Spelling) -> str:
    """A null of the type of a scalar."""
    if scalar.kind == "text":
        return spelling.bytes.format("nullif('', '')")
    kind = {"boolean": "BOOLEAN", "number": spelling.dialect.double}.get(scalar.kind, "BIGINT")
    return f"CAST(NULL AS {kind})"


def _value(plain: str, column: Column, scalar: Scalar, spelling: Spelling) -> str:
    """The value of a scalar that is no moment."""
    field = column.kind == "field"
    if scalar.kind == "text":
        return spelling.bytes.format(plain)
    if scalar.kind == "boolean":
        return _truth(plain) if field else plain
    if scalar.kind == "code":
        return digits(plain, spelling) if field else _listed(plain, column)
    number = _number(plain, spelling) if field else plain
    if scalar.kind == "integer":
        return _whole(number, column, spelling)
    return _double(number, column, spelling)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _listed(plain: str, column: Column) -> str:
    """Integers that may be listed: null for those beyond 64 bits, none of which is."""
    whole = f"CAST({plain} AS BIGINT)"
    return f"CASE WHEN {plain} BETWEEN {_LEAST} AND {_MOST} THEN {whole} END" if column.kind == "wide" else whole


def _whole(plain: str, column: Column, spelling: Spelling) -> str:
    """Whole numbers in 64 bits, the nearest of them where there are none so large; null for what is not whole."""
    if column.kind == "integer":
        return f"CAST({plain} AS BIGINT)"
    wide, literal = column.kind == "wide", spelling.dialect.literal
    low, high = (_LEAST, _MOST) if wide else (literal(-(2.0**63)), literal(2.0**63))
    broken = "" if wide else f"WHEN {plain} <> floor({plain}) THEN NULL "
    return (
        f"CASE WHEN {plain} >= {high} THEN {_MOST} WHEN {plain} < {low} THEN {_LEAST} {broken}"
        f"WHEN {plain} IS NOT NULL THEN CAST({plain} AS BIGINT) END"
    )


def _double(plain: str, column: Column, spelling: Spelling) -> str:
    """Numbers as the nearest doubles. (An engine's own cast of integers beyond 64 bits rounds twice.)"""
    if column.kind == "real" or column.kind == "field":
        return plain
    text = f"CAST({plain} AS VARCHAR)" if column.kind == "wide" else plain
    return f"CAST({text} AS {spelling.dialect.double})"


# -- fields of files without types -------------------------------------------------------------------------------------


def _trimmed(text: str) -> str:
    return f"regexp_replace({text}, '^{_SPACE}+|{_SPACE}+$', '', 'g')"


def _word(text: str) -> str:
    return f"lower({_trimmed(text)})"


def _truth(text: str) -> str:
    """The truth value that a text means; null for others."""
    word = _word(text)
    return f"CASE WHEN {word} IN ('true', 't', '1') THEN TRUE WHEN {word} IN ('false', 'f', '0') THEN FALSE END"


def digits(text: str, spelling: Spelling) -> str:
    """The whole number of 64 bits that a field means; null for others."""
    plain = _trimmed(text)
    whole = spelling.cast.format(plain, "BIGINT")
    return f"CASE WHEN {spelling.matches.format(plain, '^[+-]?[0-9]+$')} THEN {whole} END"


def _number(text: str, spelling: Spelling) -> str:
    """The double that a text means; null for others, and for NaN."""
    word = _word(text)
    fits = f"{spelling.matches.format(word, NUMBER)} AND NOT {spelling.matches.format(word, NOT_A_NUMBER)}"
    return f"CASE WHEN {fits} THEN {spelling.cast.format(word, spelling.dialect.double)} END"


def _given(column: Column, scalar: Scalar, spelling: Spelling) -> str:
    """Whether there is a value: neither null nor NaN."""
    plain = column.plain.format(spelling.dialect.quoted(scalar.column))
    if column.kind == "null":
        return "FALSE"
    if column.kind == "field" and scalar.kind in ("integer", "number"):
        return f"({plain} IS NOT NULL AND NOT {spelling.matches.format(_word(plain), NOT_A_NUMBER)})"
    return f"({plain} IS NOT NULL)"


# -- moments -----------------------------------------------------------------------------------------------------------


def _read(text: str, scalar: Scalar, spelling: Spelling) -> tuple[str, str]:
    """The moment that a text means, in microseconds since 1970, and whether it is an instant: null if it is no valid
    date, or an instant where there is no zone."""
    instant = spelling.matches.format(text, INSTANT)
    line = f"position(chr(10) IN {text}) > 0"  # A line's end is no part of a pattern's end in every engine.
    valid = f"{spelling.matches.format(text, PATTERN)} AND NOT {spelling.matches.format(text, NO_YEAR)} AND NOT {line}"
    moment = _shown(text, spelling)
    if scalar.zone is None:
        return f"CASE WHEN {valid} AND NOT {instant} THEN {moment} END", instant
    shifted = f"{moment} - {_offset(text, spelling)} * {60 * MICROSECONDS}"
    return f"CASE WHEN {valid} THEN CASE WHEN {instant} THEN {shifted} ELSE {moment} END END", instant


def _shown(text: str, spelling: Spelling) -> str:
    """The local time that a valid text shows, in microseconds since 1970; further digits are left out."""
    days = spelling.days.format(f"substr({text}, 1, 10)")
    hour, minute = (_digit(f"substr({text}, {start}, 2)", spelling) for start in (12, 15))
    second = f"CASE WHEN substr({text}, 17, 1) = ':' THEN {_digit(f'substr({text}, 18, 2)', spelling)} ELSE 0 END"
    fraction = f"rpad(coalesce({spelling.extracted.format(text, '[.]([0-9]{1,6})')}, ''), 6, '0')"
    seconds = f"((({days} * 24 + {hour}) * 60 + {minute}) * 60 + {second})"
    return f"{seconds} * {MICROSECONDS} + {_digit(fraction, spelling)}"


def _offset(text: str, spelling: Spelling) -> str:
    """The offset at the end of a valid text, in minutes."""
    found = spelling.extracted.format(text, "([+-][0-9][0-9]:?[0-9]*)$")
    sign = f"CASE WHEN substr({found}, 1, 1) = '-' THEN -1 ELSE 1 END"
    rest = _digit(f"replace(substr({found}, 4), ':', '')", spelling)
    return f"{sign} * ({_digit(f'substr({found}, 2, 2)', spelling)} * 60 + {rest})"


def _digit(text: str, spelling: Spelling) -> str:
    """Some digits as a number; 0 if there are none."""
    some = f"nullif({text}, '')"
    return f"coalesce({spelling.cast.format(some, 'BIGINT')}, 0)"


def _ruled(moment: str, spelling: Spelling) -> str:
    """The instant by which an offset is looked up: the rules of a zone repeat themselves from some year on."""
    cycles = spelling.dialect.divided(f"{moment} - {_RULED}", _CYCLE)
    return f"CASE WHEN {moment} >= {_RULED} THEN {moment} - ({cycles} + 1) * {_CYCLE} ELSE {moment} END"


def _local(scalar: Scalar, spelling: Spelling) -> str:
    """An instant as clocks in the scalar's zone show it; what is none stays as it is."""
    assert scalar.zone is not None
    moment, lookup = (spelling.dialect.quoted(name) for name in (field_of(scalar), _lookup(scalar)))
    changes, shifts = ([str(each * MICROSECONDS) for each in part] for part in offsets(scalar.zone))
    shift = spelling.dialect.looked_up(lookup, changes, shifts)
    return (
        f"CASE WHEN {lookup} IS NULL THEN {moment} WHEN {moment} < {_LOW} THEN {EARLY} "
        f"WHEN {moment} >= {_HIGH} THEN {LATE} ELSE {moment} + {shift} END"
    )


# -- rows that do not fit ----------------------------------------------------------------------------------------------


def strict(schema: Schema) -> list[tuple[str, Attribute]]:
    """The attributes without a cell for some value, by name."""
    every = schema.attributes.items()
    return [(name, each) for name, each in every if not (isinstance(each, Dated) or (each.other and each.missing))]


def unreadable(schema: Schema) -> list[Scalar]:
    """The scalars whose values do not fit where they cannot be kept, but do where they are missing."""
    return [kept(scalar_of(*each)) for each in strict(schema) if each[1].missing]


def unfit(name: str, attribute: Attribute, spelling: Spelling) -> str:
    """Which values of a strict attribute do not fit: what `treering.trusted.rows.checks.Check` says."""
    axis, dialect = Axis.of(name, attribute), spelling.dialect
    value = value_of(axis.scalar, dialect)
    bad = []
    if not attribute.missing:
        bad.append(f"{value} IS NULL")
    else:
        bad.append(f"({value} IS NULL AND {dialect.quoted(present(kept(axis.scalar)))})")
    if not attribute.other and axis.by_list:
        bad.append(f"({value} IS NOT NULL AND {value} NOT IN ({', '.join(map(dialect.literal, axis.listed))}))")
    elif not attribute.other:
        first, last = (dialect.literal(cut) for cut in (axis.cuts[0].item(), axis.cuts[-1].item()))
        bad.append(f"({value} IS NOT NULL AND ({value} < {first} OR {value} >= {last}))")
    return f"({' OR '.join(bad)})"
