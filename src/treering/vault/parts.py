"""The batches of a vault: immutable files, each named by one line of the ledger.

This module moves bytes; only ``trusted/`` looks inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from treering.errors import DamagedVault
from treering.trusted.batches import Batch, commitment, read_batch, read_persons
from treering.trusted.batches import salt as new_salt
from treering.trusted.counts import Counts
from treering.trusted.persons import Persons
from treering.vault.folder import write_file
from treering.vault.ledger import Ledger, SecretValue
from treering.vault.lines import ROWS, Line, body
from treering.vault.steps import Step

_STEPS: Final = (Step.PART_OPENED, Step.PART_WRITTEN, Step.PART_SYNCED, Step.PART_NAMED)


@dataclass(frozen=True, slots=True)
class Part:
    """What the ledger says of a batch: all of it public."""

    number: int
    rows: int
    size: int
    """The size of the database with this batch."""
    dropped: int
    """Rows that were left out of it."""
    persons: bool
    commitment: str
    watermark: Mapping[str, Any] | None = None
    """Where in a table of another engine it ends."""

    @classmethod
    def of(cls, line: Line) -> Part:
        """The part that a line names."""
        plain = line.plain()
        given = {name: plain[name] for name in ("number", "rows", "size", "dropped", "persons")}
        return cls(**given, commitment=line.commitment, watermark=plain.get("watermark"))

    @property
    def names(self) -> tuple[str, ...]:
        """Its files: the cells, and the persons if they are counted."""
        return (self.cells, f"{self.number:08d}-persons.parquet") if self.persons else (self.cells,)

    @property
    def cells(self) -> str:
        """The file of its cells."""
        return f"{self.number:08d}.parquet"

    def line(self, key: str) -> Line:
        """The line that names it."""
        fields: dict[str, Any] = {
            "number": self.number,
            "rows": self.rows,
            "size": self.size,
            "dropped": self.dropped,
            "persons": self.persons,
        }
        if self.watermark is not None:
            fields["watermark"] = dict(self.watermark)
        return Line(ROWS, body(**fields), key=key, commitment=self.commitment)

    @property
    def secret(self) -> str:
        """The name of its salt among the secrets."""
        return f"part {self.number}"


class Parts:
    """The parts of one vault."""

    def __init__(self, folder: Path, parts: Sequence[Part]) -> None:
        self._folder = folder
        self._parts = list(parts)

    @property
    def size(self) -> int:
        """The number of rows in all parts."""
        return self._parts[-1].size if self._parts else 0

    @property
    def listed(self) -> list[Part]:
        """Every part, in order."""
        return self._parts

    @property
    def watermark(self) -> Mapping[str, Any] | None:
        """Where in a table of another engine the last part ends."""
        return self._parts[-1].watermark if self._parts else None

    @property
    def named(self) -> set[str]:
        """All files."""
        return {name for part in self._parts for name in part.names}

    def save(
        self, batch: Batch, dropped: int, ledger: Ledger, key: str, watermark: Mapping[str, Any] | None = None
    ) -> Part:
        """Make a batch durable: its files first, then the line that names them. On an error neither is there."""
        contents = [content for content in (batch.packed(), batch.packed_persons()) if content is not None]
        salt = new_salt()
        part = Part(
            len(self._parts) + 1,
            batch.rows,
            self.size + batch.rows,
            dropped,
            len(contents) > 1,
            commitment(salt, *contents),
            watermark,
        )
        files = [self._folder / name for name in part.names]
        try:
            for file, content in zip(files, contents, strict=True):
                write_file(file, content, _STEPS)
            ledger.write(part.line(key), put=SecretValue(part.secret, salt, ""))
        except Exception:
            for file in files:
                with suppress(OSError):
                    file.unlink()
            raise
        self._parts.append(part)
        return part

    def load(
        self,
        secrets: Mapping[str, SecretValue],
        counts: Counts,
        marks: Mapping[int, Sequence[object]],
        persons: Persons | None,
    ) -> None:
        """Count the rows of every part, in order, and those of each person; mark the counts at the given sizes for the
        given journals. Refuses a file that is not, bit for bit, what the ledger is bound to."""
        for part in self._parts:
            contents = self._contents(part, secrets)
            batch = read_batch(contents[0], part.cells)
            if batch.rows != part.rows:
                raise DamagedVault(f"part {part.cells} has another number of rows than the ledger says")
            batch.add_to(counts)
            if persons is not None and part.persons:
                persons.take_up(read_persons(contents[1], part.names[1]))
            for journal in marks.get(part.size, ()):
                counts.mark(journal)

    def copy(self, folder: Path) -> None:
        """Copy every file, durably."""
        for name in self.named:
            try:
                content = (self._folder / name).read_bytes()
            except OSError:
                raise DamagedVault(f"part {name} is missing; restore a backup") from None
            write_file(folder / name, content, _STEPS)

    def check(self, secrets: Mapping[str, SecretValue]) -> None:
        """Refuse if a file is not, bit for bit, what the ledger is bound to."""
        for part in self._parts:
            self._contents(part, secrets)

    def _contents(self, part: Part, secrets: Mapping[str, SecretValue]) -> list[bytes]:
        salt = secrets.get(part.secret)
        try:
            contents = [(self._folder / name).read_bytes() for name in part.names]
        except OSError:
            contents = []
        if salt is None or commitment(salt.salt, *contents) != part.commitment:
            raise DamagedVault(f"part {part.cells} is missing, or not what was written; restore a backup")
        return contents
