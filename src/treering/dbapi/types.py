"""The types of columns, as PEP 249 compares them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa


class Kind:
    """A group of types: equal to each name of a type that belongs to it.

    >>> NUMBER == "int64", STRING == "int64"
    (True, False)
    """

    def __init__(self, name: str, *types: str) -> None:
        self.name, self.types = name, frozenset(types)

    def __eq__(self, other: object) -> bool:
        return self is other or other in self.types

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


STRING: Final = Kind("STRING", "string", "large_string", "bool")
BINARY: Final = Kind("BINARY")
NUMBER: Final = Kind("NUMBER", "int64", "int32", "double", "decimal")
DATETIME: Final = Kind("DATETIME", "date32[day]", "timestamp[us]", "timestamp[ns]")
ROWID: Final = Kind("ROWID")


def type_code(kind: pa.DataType) -> str:
    """The name of an Arrow type, to be compared with the kinds."""
    if pa.types.is_decimal(kind):
        return "decimal"
    return "int64" if pa.types.is_integer(kind) else str(kind)
