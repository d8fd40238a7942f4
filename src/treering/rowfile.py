"""A file of rows, named and not opened: who opens it is the trusted base."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treering.errors import ParameterError

ENDINGS: Final = (
    *(".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz"),
    *(".parquet", ".arrow", ".feather", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"),
)
"""The ends of names that say how a file is read."""

DELIMITERS: Final = (",", "\t", ";", "|")
"""The characters between fields that are looked for."""


@dataclass(frozen=True)
class RowFile:
    """A file of rows: comma- or otherwise separated texts with a header, Parquet, Arrow, or lines of JSON.

    ``delimiter`` and ``encoding`` are those of texts; without them they are found in the file's beginning.
    """

    path: Path
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.ending is None:
            raise ParameterError("path", f"must end in one of {', '.join(ENDINGS)}")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ParameterError("delimiter", r"must be one character, such as ; or | (a tab is \t)")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError):  # "undefined", and names that are none
                raise ParameterError("encoding", "must be known to Python, such as utf-8, cp1252 or utf-16") from None

    @property
    def ending(self) -> str | None:
        """How the file is read: the end of its name, without .gz; None for others."""
        name = self.path.name.lower()
        found = next((each for each in ENDINGS if name.endswith(each)), None)
        return None if found is None else found.removesuffix(".gz")

    @property
    def separated(self) -> bool:
        """Whether it is a file of separated texts."""
        return self.ending in (".csv", ".tsv", ".txt")
