"""PRIVATE: a digest of rows, by which a key that comes again is known to be for the same rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from treering.arrays import Ints
from treering.trusted.sealed import Sealed


class RowsDigest(Sealed):
    """PRIVATE: a digest of the rows that were read, in their order, as far as the schema tells them apart.

    Rows that do not fit the schema count as such, whatever they say. Equal rows have equal digests, in whatever form
    and in whatever blocks they come. The digest of few possible rows can be guessed: only `keyed` is kept, as a secret.
    """

    __slots__ = ("_columns", "rows")

    def __init__(self) -> None:
        self.rows = 0
        """How many rows were read: public."""
        self._columns: list[hashlib.blake2b] = []

    def add(self, cells: Ints, sums: Sequence[Ints], persons: Sequence[bytes] = ()) -> None:
        """Add the next rows: the cell of each, its part of each sum, and its person."""
        self.rows += len(cells)
        contents = [each.astype("<i8").tobytes() for each in (cells, *sums)] + [b"".join(persons)]
        if not self._columns:
            self._columns = [hashlib.blake2b() for _ in contents]
        for column, content in zip(self._columns, contents, strict=True):
            column.update(content)

    def keyed(self, salt: bytes) -> str:
        """The digest, by a secret salt: it tells nothing to those who have not the salt."""
        whole = hashlib.blake2b(self.rows.to_bytes(8, "big"), key=salt)
        for column in self._columns:
            whole.update(column.digest())
        return whole.hexdigest()
