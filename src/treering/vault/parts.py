"""The batches of a vault: immutable files, each named by one line of the ledger.

This module moves bytes; only ``trusted/`` looks inside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from treering.domain.schema import Schema
from treering.errors import DamagedVault, VaultError
from treering.trusted.counts import Counts
from treering.trusted.rows.batches import Base, Batch, Recount, read_batch, read_persons
from treering.trusted.rows.persons import Persons
from treering.trusted.sealed import commitment
from treering.trusted.sealed import salt as new_salt
from treering.vault.bases import Bases, Named, due, reading, writing
from treering.vault.files import Folder, Stage, cells_name, persons_name, write_file
from treering.vault.ledger import Ledger
from treering.vault.lines import ROWS, Entry, Line, SecretValue, body

_STEPS: Final = (Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED)

Marks: TypeAlias = Mapping[int, Sequence[object]]
"""For each size, the journals that need the counts as they were then."""


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
        return cls.read(line.plain(), line.commitment)

    @classmethod
    def read(cls, plain: Mapping[str, Any], commitment: str) -> Part:
        """The same, of a line's body."""
        given = (plain["number"], plain["rows"], plain["size"], plain["dropped"], plain["persons"])
        return cls(*given, commitment, plain.get("watermark"))

    @property
    def names(self) -> tuple[str, ...]:
        """Its files: the cells, and the persons if they are counted."""
        return (self.cells, persons_name(self.number)) if self.persons else (self.cells,)

    @property
    def cells(self) -> str:
        """The file of its cells."""
        return cells_name(self.number)

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


class PartList:
    """The parts that the lines of a ledger name, in order.

    A line is read when somebody asks for its part: there are as many as there were appends, and when a vault is opened
    those that a base stands for are of no interest.
    """

    def __init__(self) -> None:
        self._listed: list[Part | Entry] = []

    def __len__(self) -> int:
        return len(self._listed)

    def __getitem__(self, place: int) -> Part:
        found = self._listed[place]
        if not isinstance(found, Part):
            found = self._listed[place] = Part.of(found.line)
        return found

    def __iter__(self) -> Iterator[Part]:
        return iter(self.after(0))

    def after(self, number: int) -> list[Part]:
        """The parts behind the first so many."""
        lines = {place: each for place, each in enumerate(self._listed[number:], number) if isinstance(each, Entry)}
        bodies = json.loads(f"[{','.join(line.body for line in lines.values())}]")  # a few at once: twice as fast
        for (place, line), plain in zip(lines.items(), bodies, strict=True):
            self._listed[place] = Part.read(plain, line.commitment)
        return [each for each in self._listed[number:] if isinstance(each, Part)]

    def learn(self, line: Entry) -> None:
        """One more, by its line."""
        self._listed.append(line)

    def append(self, part: Part) -> None:
        """One more."""
        self._listed.append(part)


class Parts:
    """The parts of one vault, and the bases that stand for many of them."""

    def __init__(self, folder: Folder, parts: PartList, bases: Sequence[Line]) -> None:
        self._folder = folder.parts
        self._parts = parts
        self._bases = Bases(folder.bases, bases)
        self._weighed = 0
        """So many parts need no more thought: a base stands for them, or what they take to read is counted."""
        self._debt = 0.0
        """Seconds that reading the parts since the last base would take."""

    @property
    def bases(self) -> Bases:
        """The bases."""
        return self._bases

    @property
    def size(self) -> int:
        """The number of rows in all parts."""
        return self._parts[-1].size if self._parts else 0

    @property
    def listed(self) -> PartList:
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

    def load(self, secrets: Mapping[str, SecretValue], counts: Counts, marks: Marks, persons: Persons | None) -> None:
        """Count the rows of every part, in order, and those of each person; mark the counts at the given sizes for the
        given journals. The first parts may be counted from a base. Refuses a file of the others that is not, bit for
        bit, what the ledger is bound to."""
        self._weighed = self._load_base(secrets, counts, marks, persons)
        for part in self._parts.after(self._weighed):
            batch, people = self._read(part, secrets)
            batch.add_to(counts)
            if persons is not None:
                persons.take_up(people)
            for journal in marks.get(part.size, ()):
                counts.mark(journal)

    def _load_base(
        self, secrets: Mapping[str, SecretValue], counts: Counts, marks: Marks, persons: Persons | None
    ) -> int:
        """Count the rows of the latest base that can be used; how many parts it stands for."""
        for named in self._bases.latest_first:
            within = {size for size in marks if size <= named.size}
            if within <= set(named.sizes) and self._stands(named):
                base = self._bases.load(named, secrets, counts.schema)
                if base is not None:
                    base.add_to(counts, marks, persons)
                    return named.parts
        return 0

    def _stands(self, named: Named) -> bool:
        """Whether a base ends where a part does."""
        return 0 < named.parts <= len(self._parts) and self._parts[named.parts - 1].size == named.size

    def condense(self, counts: Counts, persons: Persons | None, ledger: Ledger, *, closing: bool = False) -> None:
        """Make a base of all parts, if one is due. Where it cannot be written, the next opening takes longer."""
        cells = counts.schema.cells
        for part in self._parts.after(self._weighed):
            self._debt += reading(part.rows, cells, persons=part.persons)
        self._weighed = len(self._parts)
        effort = writing((*counts.marked, counts.size), cells, persons=persons is not None)
        # An interruption could leave a part on record that is not counted: the vault is to be opened again, as it is.
        if counts.size == self.size and due(self._debt, effort, closing=closing):
            self._debt = 0.0  # On a disk that is full, not at each append again.
            with suppress(VaultError):
                self._bases.save(Base.of(counts, persons), len(self._parts), ledger)

    def copy(self, folder: Folder) -> None:
        """Copy every file, durably."""
        for name in self.named:
            try:
                content = (self._folder / name).read_bytes()
            except OSError:
                raise DamagedVault(f"part {name} is missing; restore a backup") from None
            write_file(folder.parts / name, content, _STEPS)
        self._bases.copy(folder.bases)

    def check(self, secrets: Mapping[str, SecretValue], schema: Schema) -> None:
        """Refuse if a file is not, bit for bit, what the ledger is bound to, or if a base is not what the parts that it
        stands for give, counted again. A base that is not there, or that opening would pass over, is no matter."""
        bases = {named: self._bases.load(named, secrets, schema) for named in self._bases.latest_first}
        recounts = {named: Recount(base, schema) for named, base in bases.items() if base is not None}
        for part in self._parts:
            concerned = [recount for named, recount in recounts.items() if part.number <= named.parts]
            if concerned:
                batch, people = self._read(part, secrets)
                for recount in concerned:
                    recount.add(batch, people)
            else:
                self._contents(part, secrets)
        for named, recount in recounts.items():
            if not recount.agrees:
                raise DamagedVault(f"base {named.names[0]} is not what its parts give: delete the bases")

    def _read(self, part: Part, secrets: Mapping[str, SecretValue]) -> tuple[Batch, dict[bytes, int]]:
        contents = self._contents(part, secrets)
        batch = read_batch(contents[0], part.cells)
        if batch.rows != part.rows:
            raise DamagedVault(f"part {part.cells} has another number of rows than the ledger says")
        return batch, read_persons(contents[1], part.names[1]) if part.persons else {}

    def _contents(self, part: Part, secrets: Mapping[str, SecretValue]) -> list[bytes]:
        salt = secrets.get(part.secret)
        try:
            contents = [(self._folder / name).read_bytes() for name in part.names]
        except OSError:
            contents = []
        if salt is None or commitment(salt.salt, *contents) != part.commitment:
            raise DamagedVault(f"part {part.cells} is missing, or not what was written; restore a backup")
        return contents
