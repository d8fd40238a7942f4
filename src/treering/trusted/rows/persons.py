"""The limit on the rows of each person, checked as rows come in: a promise per person rests on it."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from treering.arrays import Flags
from treering.errors import DamagedVault, DataError
from treering.trusted.rows.encode import as_table, comes_as_dicts
from treering.trusted.sealed import Sealed

_WHOLE: Final = re.compile(r"(-?[0-9]+)\.0+")


class Persons(Sealed):
    """PRIVATE: how many rows each person has, by a digest of the person's id with a key that only the vault has.

    Guarantee: rows that `within` does not admit are never taken in (`batches.take_in`), so no person has more than
    ``limit`` rows in all, and a promise for streams that differ in ``limit`` rows is one for streams that differ in a
    person. A person is the text in the column ``column``: 7, 7.0, "7" and "7.0" are one person. Rows without a person
    are refused, and so are floats so large that one stands for several integers (`_inexact`).
    """

    __slots__ = ("_key", "_rows", "column", "limit")

    def __init__(self, column: str, limit: int, key: bytes) -> None:
        self.column, self.limit = column, limit
        self._key = key
        self._rows: Counter[bytes] = Counter()

    def take_up(self, rows: Mapping[bytes, int]) -> None:
        """Add rows that were taken in, by person."""
        self._rows.update(rows)

    def check(self) -> None:
        """Refuse rows on record that exceed the limit of a person: the promise would not hold for that person."""
        if any(rows > self.limit for rows in self._rows.values()):
            raise DamagedVault(
                f"a person has more than {self.limit} rows on record, which is rows_per_person: restore a backup"
            )

    @property
    def counted(self) -> Mapping[bytes, int]:
        """PRIVATE: how many rows each person has."""
        return self._rows

    def split(self, frame: Any) -> tuple[Any, list[bytes]]:
        """The frame without the column of persons, and the digest of each row's person."""
        if comes_as_dicts(frame):
            names = [row.get(self.column) if isinstance(row, Mapping) else None for row in frame]
            rest = [
                {name: value for name, value in row.items() if name != self.column} if isinstance(row, Mapping) else row
                for row in frame
            ]
            return rest, self._digests(names)
        table = as_table(frame)
        if table.column_names.count(self.column) != 1:
            raise DataError(f"the rows need one column {self.column!r} that says whose they are", column=self.column)
        column = table.column(self.column)
        return table.drop_columns([self.column]), self._digests(column.to_pylist(), _largest_in(column.type))

    def within(self, digests: Sequence[bytes], coming: Counter[bytes]) -> Flags:
        """For each row, given by its person's digest, whether the limit admits it; earlier rows come first.

        ``coming`` counts the rows of each person that this batch has had before, and goes on counting.
        """
        allowed = np.empty(len(digests), dtype=np.bool_)
        for row, digest in enumerate(digests):
            coming[digest] += 1
            allowed[row] = self._rows[digest] + coming[digest] <= self.limit
        return allowed

    def _digests(self, names: Sequence[Any], most: int = 2**53) -> list[bytes]:
        """The digest of each row's person; ``most`` is as in `_largest_in`."""
        digests = []
        for row, name in enumerate(names):
            if _inexact(name, most):
                raise DataError(
                    f"row {row}, column {self.column!r}: the person is a float so large that digits may be lost, and "
                    "one person would count as several: hand over integers or texts, as they were before they became "
                    "floats (pandas makes floats of integers where one is missing: use its type Int64); nothing of "
                    "the batch was taken",
                    row=row,
                    column=self.column,
                )
            text = _text(name)
            if text is None:
                raise DataError(
                    f"row {row}, column {self.column!r}: there is no person; nothing of the batch was taken",
                    row=row,
                    column=self.column,
                )
            digests.append(hashlib.blake2b(text, key=self._key, digest_size=16).digest())
        return digests


def _inexact(name: Any, most: int) -> bool:
    """Whether an id is a float of at least ``most``, or so large that floats of its own type skip integers: from 2^53,
    2^24 or 2^11 on."""
    if isinstance(name, np.floating) and not isinstance(name, float):
        most = min(most, 2 ** (1 + int(np.finfo(name).nmant)))
    return isinstance(name, float | np.floating) and most <= abs(float(name)) < math.inf


def _largest_in(kind: pa.DataType) -> int:
    """From where on the floats of an Arrow column skip integers; as Python's objects they may have become wider."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return 2**11 if pa.types.is_float16(kind) else 2**24 if pa.types.is_float32(kind) else 2**53


def _text(name: Any) -> bytes | None:
    """Canonical bytes of a person's id, or None if it is none. 7, 7.0, "7" and "7.0" are equal, because a column of
    integers becomes one of floats when a value is missing."""
    if isinstance(name, float | np.floating | Decimal):
        if not math.isfinite(name):
            return None
        name = int(name) if name % 1 == 0 else name
    elif isinstance(name, str) and (whole := _WHOLE.fullmatch(name)):
        name = whole[1]
    if not isinstance(name, str | bytes | int | float | np.generic | Decimal | date | time | UUID) or name != name:
        return None  # None, NaT, NA, a list, an object: no id of a person
    return name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogatepass")


def excess(where: str, row: int, persons: Persons) -> DataError:
    """The error for a row beyond its person's limit: names the row, not the person."""
    return DataError(
        f"{where}: its person has {persons.limit} rows already, which is rows_per_person; nothing of the batch was "
        'taken (on_invalid="drop" would leave such rows out)',
        row=row,
        column=persons.column,
    )
