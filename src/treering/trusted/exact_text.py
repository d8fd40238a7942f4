"""Texts as bytes, in every engine: equal bytes are equal texts.

What makes two texts equal is otherwise up to a column's collation, which may ignore case, accents or trailing blanks,
and a literal is read differently by every engine's rules for backslashes and zero bytes. The functions are the engines'
own; Ibis calls them by their names and reads the types off the Python functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import ibis

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Value: TypeAlias = ir.Value


def _text_bytes(text: str) -> bytes:
    raise NotImplementedError("computed by the engine")


def _text_bytes_as(text: str, encoding: str) -> bytes:
    raise NotImplementedError("computed by the engine")


_DUCKDB_BYTES = ibis.udf.scalar.builtin(_text_bytes, name="encode")
_POSTGRES_BYTES = ibis.udf.scalar.builtin(_text_bytes_as, name="convert_to")
_POSTGRES_DIGITS = ibis.udf.scalar.builtin(_text_bytes_as, name="decode")
_SPARK_BYTES = ibis.udf.scalar.builtin(_text_bytes_as, name="encode")


def as_bytes(engine: str, column: Value) -> Value:
    """A column of texts, each as its bytes in UTF-8."""
    if engine == "duckdb":
        return _DUCKDB_BYTES(column)
    return _POSTGRES_BYTES(column, "UTF8") if engine == "postgres" else _SPARK_BYTES(column, "UTF-8")


def literal_bytes(engine: str, text: str) -> Value:
    """The same of a text that is known."""
    plain = text.encode()
    return _POSTGRES_DIGITS(plain.hex(), "hex") if engine == "postgres" else ibis.literal(plain, type="binary")
