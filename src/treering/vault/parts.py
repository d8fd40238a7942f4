"""The parts of a vault: its batches of rows, immutable files, each named by one line of the ledger.

This module moves bytes; only ``trusted/`` reads their content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from treering.domain.schema import Schema
from treering.domain.sums import stored
from treering.errors import DamagedVault, VaultError
from treering.trusted.counts import Counts
from treering.trusted.rows.batches import Base, Batch, Recount, read_batch, read_persons
from treering.trusted.rows.digests import RowsDigest
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
    """The ledger's record of one batch: all of it public."""

    number: int
    rows: int
    size: int
    """The size of the database after this batch."""
    dropped: int
    """How many rows were left out of it."""
    persons: bool
    commitment: str
    watermark: Mapping[str, Any] | None = None
    """The watermark after this batch, if the rows stay in a table of an engine."""

    @classmethod
    def of(cls, line: Line) -> Part:
        """The part that a line of the ledger names."""
        return cls.read(line.plain(), line.commitment)

    @classmethod
    def read(cls, plain: Mapping[str, Any], commitment: str) -> Part:
        """The part that a line with this body and commitment names."""
        given = (plain["number"], plain["rows"], plain["size"], plain["dropped"], plain["persons"])
        return cls(*given, commitment, plain.get("watermark"))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its files: the cells, and the persons if they are counted."""
        return (self.cells, persons_name(self.number)) if self.persons else (self.cells,)

    @property
    def cells(self) -> str:
        """The name of the file of its cells."""
        return cells_name(self.number)

    def line(self, key: str) -> Line:
        """The line of the ledger that names it; ``key`` is the caller's idempotency key, or ""."""
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

    A line is parsed when its part is needed: there are as many as there were appends, and opening a vault does not need
    those that a base covers.
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
        """The parts after the first ``number``."""
        lines = {place: each for place, each in enumerate(self._listed[number:], number) if isinstance(each, Entry)}
        bodies = json.loads(f"[{','.join(line.body for line in lines.values())}]")  # all in one call: twice as fast
        for (place, line), plain in zip(lines.items(), bodies, strict=True):
            self._listed[place] = Part.read(plain, line.commitment)
        return [each for each in self._listed[number:] if isinstance(each, Part)]

    def learn(self, line: Entry) -> None:
        """Add the next part, by its line."""
        self._listed.append(line)

    def append(self, part: Part) -> None:
        """Add the next part."""
        self._listed.append(part)


class Parts:
    """The parts of one vault, and the bases that merge many of them."""

    def __init__(self, folder: Folder, parts: PartList, bases: Sequence[Line]) -> None:
        self._folder = folder.parts
        self._parts = parts
        self._bases = Bases(folder.bases, bases)
        self._weighed = 0
        """The number of parts that a base covers, or whose reading time is in ``_debt``."""
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
    def watermark(self) -> Mapping[str, Any] | None:
        """The watermark after the last part, if the rows stay in a table of an engine."""
        return self._parts[-1].watermark if self._parts else None

    @property
    def named(self) -> set[str]:
        """The names of all files."""
        return {name for part in self._parts for name in part.names}

    def write(
        self,
        batch: Batch,
        dropped: int,
        watermark: Mapping[str, Any] | None = None,
        digest: RowsDigest | None = None,
    ) -> tuple[Part, SecretValue]:
        """Write the files of a batch, which `record` puts on record, with the keyed ``digest`` of its rows among the
        secrets. After an error there are none."""
        contents = [content for content in (batch.packed(), batch.packed_persons()) if content is not None]
        salt = new_salt()
        value = "" if digest is None else digest.keyed(salt)
        part = Part(
            len(self._parts) + 1,
            batch.rows,
            self.size + batch.rows,
            dropped,
            len(contents) > 1,
            commitment(salt, *contents, value.encode()),
            watermark,
        )
        files = [self._folder / name for name in part.names]
        try:
            for file, content in zip(files, contents, strict=True):
                write_file(file, content, _STEPS)
        except Exception:
            for file in files:
                with suppress(OSError):
                    file.unlink()
            raise
        return part, SecretValue(part.secret, salt, value)

    def holds(self, part: Part, digest: RowsDigest, secrets: Mapping[str, SecretValue]) -> bool:
        """Whether a part was made of the rows with this digest."""
        secret = secrets.get(part.secret)
        return secret is not None and digest.keyed(secret.salt) == secret.value

    def record(self, part: Part, salt: SecretValue, ledger: Ledger, key: str) -> None:
        """Add the line that names the files of the next part. (If it does not become durable, the next opening removes
        them.)"""
        ledger.write(part.line(key), put=salt)
        self._parts.append(part)

    def load(self, secrets: Mapping[str, SecretValue], counts: Counts, marks: Marks, persons: Persons | None) -> None:
        """Count the rows of every part, in order, and those of each person; mark the counts at the sizes in ``marks``
        for the journals listed there. The first parts may be counted from a base. Refuses a file of the other parts
        that is not, bit for bit, what the ledger's commitment binds."""
        self._weighed = self._load_base(secrets, counts, marks, persons)
        for part in self._parts.after(self._weighed):
            batch, people = self._read(part, secrets, counts.schema)
            batch.add_to(counts)
            if persons is not None:
                persons.take_up(people)
            for journal in marks.get(part.size, ()):
                counts.mark(journal)

    def _load_base(
        self, secrets: Mapping[str, SecretValue], counts: Counts, marks: Marks, persons: Persons | None
    ) -> int:
        """Count the rows of the latest usable base; return how many parts it covers, 0 if there is no such base."""
        for named in self._bases.latest_first:
            within = {size for size in marks if size <= named.size}
            if within <= set(named.sizes) and self._stands(named):
                base = self._bases.load(named, secrets, counts.schema)
                if base is not None:
                    base.add_to(counts, marks, persons)
                    return named.parts
        return 0

    def _stands(self, named: Named) -> bool:
        """Whether a base ends where its last part does."""
        return 0 < named.parts <= len(self._parts) and self._parts[named.parts - 1].size == named.size

    def condense(self, counts: Counts, persons: Persons | None, ledger: Ledger, *, closing: bool = False) -> None:
        """Make a base of all parts, if one is due. If it cannot be written, the next opening takes longer."""
        cells = counts.schema.cells
        for part in self._parts.after(self._weighed):
            self._debt += reading(part.rows, cells, persons=part.persons)
        self._weighed = len(self._parts)
        effort = writing((*counts.marked, counts.size), cells, persons=persons is not None)
        # After an interruption a part may be on record and not counted: no base then; the vault must be reopened.
        if counts.size == self.size and due(self._debt, effort, closing=closing):
            self._debt = 0.0  # On a full disk, do not try again at every append.
            with suppress(VaultError):
                self._bases.save(Base.of(counts, persons), len(self._parts), ledger)

    def copy(self, folder: Folder) -> None:
        """Copy every file of the parts and bases to another vault's folder, durably."""
        for name in sorted(self.named):
            try:
                content = (self._folder / name).read_bytes()
            except OSError:
                raise DamagedVault(f"part {name} is missing; restore a backup") from None
            write_file(folder.parts / name, content, _STEPS)
        self._bases.copy(folder.bases)

    def check(self, secrets: Mapping[str, SecretValue], schema: Schema, persons: Persons | None) -> None:
        """Raise `DamagedVault` if a file of a part is not, bit for bit, what the ledger's commitment binds, if a base
        differs from its parts counted again, or if a person has more rows than allowed. A base that is missing or
        damaged is ignored, as when a vault is opened."""
        bases = {named: self._bases.load(named, secrets, schema) for named in self._bases.latest_first}
        recounts = {named: Recount(base, schema) for named, base in bases.items() if base is not None}
        for part in self._parts:
            concerned = [recount for named, recount in recounts.items() if part.number <= named.parts]
            if concerned or persons is not None:
                batch, people = self._read(part, secrets, schema)
                for recount in concerned:
                    recount.add(batch, people)
                if persons is not None:
                    persons.take_up(people)
            else:
                self._contents(part, secrets)
        for named, recount in recounts.items():
            if not recount.agrees:
                raise DamagedVault(f"base {named.names[0]} is not what its parts give: delete the bases")
        if persons is not None:
            persons.check()

    def _read(self, part: Part, secrets: Mapping[str, SecretValue], schema: Schema) -> tuple[Batch, dict[bytes, int]]:
        contents = self._contents(part, secrets)
        batch = read_batch(contents[0], part.cells, len(stored(schema)))
        if batch.rows != part.rows:
            raise DamagedVault(f"part {part.cells} has another number of rows than the ledger says")
        return batch, read_persons(contents[1], part.names[1]) if part.persons else {}

    def _contents(self, part: Part, secrets: Mapping[str, SecretValue]) -> list[bytes]:
        salt = secrets.get(part.secret)
        try:
            contents = [(self._folder / name).read_bytes() for name in part.names]
        except OSError:
            contents = []
        if salt is None or commitment(salt.salt, *contents, salt.value.encode()) != part.commitment:
            raise DamagedVault(f"part {part.cells} is missing, or not what was written; restore a backup")
        return contents
