"""Bases: the rows of many parts in one file, so that opening a vault need not read every part there ever was.

A base holds nothing that the parts do not imply. If one is missing or damaged, opening uses the one before, or reads
every part: slower, and the counts are the same. A base is as private as the parts are, and only ``trusted/`` reads its
content; a salted commitment binds it to the ledger, as it does a part.

*When one is due.* When reading the parts since the last base would take a tenth of a second, and at least three times
as long as writing a base. Reading a part takes less time than appending it, so bases add less than a third to the cost
of appends, however many there are (``make bench`` measures it). The decision depends on public values only (parts,
rows, cells, marked sizes), because the line that names a base is public: its timing must not show how many cells are
occupied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from treering.domain.schema import Schema
from treering.errors import DamagedVault, VaultError
from treering.trusted.rows.batches import Base, read_base
from treering.trusted.sealed import commitment
from treering.trusted.sealed import salt as new_salt
from treering.vault.files import Stage, cells_name, persons_name, write_file
from treering.vault.ledger import Ledger
from treering.vault.lines import Line, SecretValue, body

BASE: Final = "base"
"""The kind of line that names a base. Older versions of treering ignore it, and read every part."""

_STEPS: Final = (Stage.BASE_OPENED, Stage.BASE_WRITTEN, Stage.BASE_SYNCED, Stage.BASE_NAMED)

_KEPT: Final = 2
"""How many bases are kept: the latest, and the one before."""

_DUE: Final = 0.1
"""A base is due when reading the parts since the last one would take this many seconds."""

_WORTHWHILE: Final = 1 / 8
"""On close, write a base once the debt reaches this fraction of `_DUE`."""

_TIMES: Final = 3.0
"""Reading those parts must take this many times as long as writing a base."""

_FILE: Final = 400e-6
_CELL_READ: Final = 30e-9
_PERSON_READ: Final = 2e-6
"""Estimated seconds to read a small file, and in addition each cell or person in it."""

_BASE: Final = 5e-3
_CELL_WRITTEN: Final = 70e-9
_PERSON_WRITTEN: Final = 1e-6
"""Estimated seconds to write a base, the disk's sync included, and in addition each cell or person in it."""


@dataclass(frozen=True, slots=True)
class Named:
    """The ledger's record of one base: all of it public."""

    number: int
    parts: int
    """How many parts it merges, counted from the first."""
    sizes: tuple[int, ...]
    """The sizes at which its stretches end; the last is the size of the database after those parts."""
    persons: bool
    commitment: str

    @classmethod
    def of(cls, line: Line) -> Named:
        """The base that a line of the ledger names."""
        plain = line.plain()
        sizes = (*plain["marked"], plain["size"])
        return cls(plain["number"], plain["parts"], sizes, plain["persons"], line.commitment)

    @property
    def size(self) -> int:
        """The number of rows in it."""
        return self.sizes[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its files: the cells, and the persons if they are counted."""
        cells = cells_name(self.number)
        return (cells, persons_name(self.number)) if self.persons else (cells,)

    @property
    def secret(self) -> str:
        """The name of its salt among the secrets."""
        return f"base {self.number}"

    def line(self) -> Line:
        """The line of the ledger that names it."""
        fields = {"number": self.number, "parts": self.parts, "size": self.size, "persons": self.persons}
        return Line(BASE, body(**fields, marked=self.sizes[:-1]), commitment=self.commitment)


class Bases:
    """The bases of one vault: the latest two."""

    def __init__(self, folder: Path, lines: Sequence[Line]) -> None:
        self._folder = folder
        self._kept = [Named.of(line) for line in lines[-_KEPT:]]

    @property
    def named(self) -> set[str]:
        """The names of the files in use."""
        return {name for base in self._kept for name in base.names}

    @property
    def latest_first(self) -> list[Named]:
        """The bases that are kept, latest first."""
        return self._kept[::-1]

    def save(self, base: Base, parts: int, ledger: Ledger) -> None:
        """Make a base of the first ``parts`` parts durable: first its files, then the line that names them; then remove
        the oldest base."""
        ledger.check_usable()
        contents = base.packed()
        salt = new_salt()
        number = self._kept[-1].number + 1 if self._kept else 1
        named = Named(number, parts, base.sizes, len(contents) > 1, commitment(salt, *contents))
        try:
            for name, content in zip(named.names, contents, strict=True):
                write_file(self._folder / name, content, _STEPS)
        except VaultError:
            self._remove(named)
            raise
        old = self._kept[0] if len(self._kept) == _KEPT else None
        ledger.write(named.line(), put=SecretValue(named.secret, salt, ""), drop=None if old is None else old.secret)
        self._kept = [*self._kept, named][-_KEPT:]
        if old is not None:
            self._remove(old)

    def _remove(self, named: Named) -> None:
        for name in named.names:
            with suppress(OSError):  # The next opening removes it.
                (self._folder / name).unlink()

    def load(self, named: Named, secrets: Mapping[str, SecretValue], schema: Schema) -> Base | None:
        """PRIVATE: a base; None if its files are not, bit for bit, what the ledger's commitment binds."""
        salt = secrets.get(named.secret)
        try:
            contents = [(self._folder / name).read_bytes() for name in named.names]
        except OSError:
            return None
        if salt is None or commitment(salt.salt, *contents) != named.commitment:
            return None
        try:
            return read_base(contents, named.names[0], named.sizes, schema)
        except DamagedVault:
            return None

    def copy(self, folder: Path) -> None:
        """Copy the files to the folder ``folder``, durably. Missing ones are left out: a vault can do without bases."""
        for name in self.named:
            with suppress(FileNotFoundError):
                write_file(folder / name, (self._folder / name).read_bytes(), _STEPS)


def reading(rows: int, cells: int, *, persons: bool) -> float:
    """Estimated upper bound, in seconds, on reading a part of ``rows`` rows, in a universe of ``cells`` cells."""
    found = _FILE + min(rows, cells) * _CELL_READ
    return found + _FILE + rows * _PERSON_READ if persons else found


def writing(sizes: Sequence[int], cells: int, *, persons: bool) -> float:
    """Estimated upper bound, in seconds, on writing a base with stretches that end at these sizes."""
    lines = sum(min(end - start, cells) for start, end in pairwise((0, *sizes)))
    return _BASE + lines * _CELL_WRITTEN + (sizes[-1] * _PERSON_WRITTEN if persons else 0.0)


def due(debt: float, effort: float, *, closing: bool) -> bool:
    """Whether to write a base: ``effort`` is the seconds it takes, ``debt`` those to read the parts since the last."""
    return debt >= max(_DUE * (_WORTHWHILE if closing else 1.0), _TIMES * effort)
