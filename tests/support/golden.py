"""What typed rows and axes make of every nasty value and row, in the form of tests/fixtures/encoder.json.

The file holds what the encoder made of them that came before typed rows. It is not written any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from support import nasty_sums
from support.coded import cells_of, sums_of
from support.engines import DATED_TEXTS, MOMENTS, NASTY, dated_rows, dated_schema, nasty_rows, nasty_schema
from treering.domain.attribute import Attribute, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.numeric import numbers
from treering.domain.schema import Schema
from treering.trusted.rows.typed import typed

TEXTS = [
    *("", " ", "x", "true", "TRUE", " f ", "yes", "1", "0", "2", "+7", "007", "-0", "1.0", "1e0", "1e400", "-1e400"),
    *("inf", "-Infinity", "nan", "NaN", "0x10", "1_000", "1,5", "9223372036854775807", "9223372036854775808", "--1"),
    *("2013-02-29", "2013-02-28T23:59:59Z", "9999-12-31", "\u0667", "a\u0000b", "EWR", "ewr", "\u65e5\u672c", None),
]
"""Texts of a CSV file, for attributes of every kind."""


def kinds(**flags: bool) -> dict[str, Attribute]:
    """An attribute of each kind."""
    open_ended: Any = flags
    return {
        "texts": categories("EWR", "", "\u65e5\u672c", "a\u0000b", **open_ended),
        "codes": categories(7, 0, 2**63 - 1, **open_ended),
        "both booleans": categories(True, False, **open_ended),
        "one boolean": categories(True, **open_ended),
        "integers": integers(0, 12, **open_ended),
        "bins": bins([0, 1.5, 60], **open_ended),
        "numbers": numbers(0, 10, step=0.5),
        "dates": dates("2013-01-01", "2013-12-31", by="month"),
    }


def alone(attribute: Attribute, kind: pa.DataType, values: list[Any], *, texts: bool = False) -> list[list[Any]]:
    """Each value with its code (None if it does not fit) and its half steps (None if there are none)."""
    lines = []
    for value in values:
        schema = Schema({"only": attribute if attribute.column is None else _plain(attribute)})
        rows = typed(pa.table({"only": pa.array([value], kind)}), schema, texts=texts)
        code, sums = int(cells_of(rows, schema)[0]), [int(column[0]) for column in sums_of(rows, schema)]
        lines.append([repr(value), None if code < 0 else code, sums[0] if sums else None])
    return lines


def _plain(attribute: Attribute) -> Attribute:
    return replace(attribute, column=None)


def together(table: pa.Table, schema: Schema) -> dict[str, Any]:
    """The cells of all rows (-1 where one does not fit), and the half steps of each column that has sums."""
    rows = typed(table.select(list(schema.columns)), schema)
    return {"cells": cells_of(rows, schema).tolist(), "sums": [column.tolist() for column in sums_of(rows, schema)]}


def values_of(values: Mapping[str, tuple[pa.DataType, list[Any]]], schema: Schema) -> dict[str, Any]:
    """Each value of each column alone."""
    return {name: alone(schema.attributes[name], *values[name]) for name in schema.names}


def golden() -> dict[str, Any]:
    """All that the file holds."""
    opened, strict, dated = nasty_schema(open_ended=True), nasty_schema(open_ended=False), dated_schema()
    every = dated_rows()
    columns = {name: every[dated.attributes[name].column or name] for name in dated.names}
    lists = {
        name: (column.type, DATED_TEXTS if pa.types.is_string(column.type) else _distinct(column))
        for name, column in columns.items()
    }
    assert len(MOMENTS) == len(_distinct(columns["moment by week"]))
    summed = nasty_sums.VALUES
    return {
        "open": values_of(NASTY, opened),
        "strict": values_of(NASTY, strict),
        "dated": {name: alone(dated.attributes[name], *lists[name]) for name in dated.names},
        "summed": values_of(summed, nasty_sums.SCHEMA),
        "texts, open": {
            name: alone(each, pa.string(), TEXTS, texts=True) for name, each in kinds(other=True, missing=True).items()
        },
        "texts, strict": {name: alone(each, pa.string(), TEXTS, texts=True) for name, each in kinds().items()},
        "rows": {
            "open": together(nasty_rows(), opened),
            "strict": together(nasty_rows(), strict),
            "dated": together(every, dated),
            "summed": together(nasty_sums.rows(), nasty_sums.SCHEMA),
        },
    }


def _distinct(column: pa.ChunkedArray) -> list[Any]:
    return list(dict.fromkeys(column.to_pylist()))
