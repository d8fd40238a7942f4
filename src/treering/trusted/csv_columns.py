"""The columns of a CSV file, read by the schema: a CSV file has no types of its own.

Every field is read as text. An empty field is null, a quoted empty field is the empty text. Where the schema wants
numbers or booleans, a text that is none is a value not listed: it goes to the ``other`` cell, or does not fit.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

import ibis

from treering.domain.attribute import Attribute, Bins, Categories, Integers, categories
from treering.domain.schema import Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Table: TypeAlias = ir.Table
    Value: TypeAlias = ir.Value

WHOLE: Final = r"^\s*[+-]?[0-9]+\s*$"
BEYOND: Final = 2**62
"""An integer outside the range of any integers()."""


def read_columns(table: Table, schema: Schema) -> tuple[Table, Schema]:
    """The table with numbers where the schema wants some, and the schema with booleans as the integers 0 and 1.

    Columns that the schema does not name, the order column among them, are read as integers, null where they are none.
    """
    typed = {
        name: _read(attribute, table[name]) for name, attribute in schema.attributes.items() if name in table.columns
    }
    others = {name: _integer(table[name]) for name in table.columns if name not in schema.attributes}
    return table.select(**typed, **others), Schema({name: _as_read(each) for name, each in schema.attributes.items()})


def _as_read(attribute: Attribute) -> Attribute:
    """A boolean has no value that is neither: as integers, there is one."""
    if isinstance(attribute, Categories) and isinstance(attribute.values[0], bool):
        return categories(*map(int, attribute.values), other=attribute.other, missing=attribute.missing)
    return attribute


def _read(attribute: Attribute, text: Value) -> Value:
    if isinstance(attribute, Bins):
        return ibis.cases((text.isnull(), ibis.null("float64")), else_=text.try_cast("float64").fill_null(float("inf")))
    if isinstance(attribute, Integers):
        return _whole_number(text)
    assert isinstance(attribute, Categories)
    kind = type(attribute.values[0])
    if kind is str:
        return text
    if kind is bool:
        word = text.strip().lower()
        return ibis.cases(
            (text.isnull(), ibis.null("int64")),
            (word.isin(["true", "t", "1"]), 1),
            (word.isin(["false", "f", "0"]), 0),
            else_=2,
        ).cast("int64")
    unlisted = next(number for number in count() if number not in attribute.values)
    return ibis.cases(
        (text.isnull(), ibis.null("int64")),
        else_=_integer(text).fill_null(ibis.literal(unlisted, type="int64")),
    )


def _integer(text: Value) -> Value:
    """A text of digits as an integer of 64 bits, null if it is none."""
    return ibis.cases((text.re_search(WHOLE), text.try_cast("int64")), else_=ibis.null("int64"))


def _whole_number(text: Value) -> Value:
    """As an integer, also where it is written 3.0 or 3e0; `BEYOND` if it is none, null if it is missing."""
    real = text.try_cast("float64")
    beyond = ibis.literal(BEYOND, type="int64")
    return ibis.cases(
        (text.isnull(), ibis.null("int64")),
        (text.re_search(WHOLE), text.try_cast("int64").fill_null(beyond)),
        (real.isnull(), beyond),
        (real.isnan(), ibis.null("int64")),
        (real.abs() > 2.0**53, beyond),
        (real != real.floor().cast("float64"), beyond),
        else_=real.cast("int64"),
    )
