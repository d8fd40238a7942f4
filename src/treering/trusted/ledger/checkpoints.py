"""Checkpoints: a mechanism's public state in a file, so that opening a vault need not replay all its events.

A checkpoint holds nothing that the ledger does not imply. If one is missing or damaged, replay starts from the one
before, or from the first line: slower, and the result is the same, bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final, Protocol, Self, runtime_checkable

from treering.errors import VaultError
from treering.gate import Condensed
from treering.trusted.ledger.codec.events import EventCodec
from treering.trusted.ledger.disk import Stage, write_file
from treering.trusted.ledger.lines import CHECKPOINT, Line, body

_STEPS: Final = (
    Stage.CHECKPOINT_OPENED,
    Stage.CHECKPOINT_WRITTEN,
    Stage.CHECKPOINT_SYNCED,
    Stage.CHECKPOINT_NAMED,
)


@runtime_checkable
class Heavy(Protocol):
    """A note with large arrays, which a checkpoint stores as raw bytes behind the text."""

    def unloaded(self) -> tuple[Self, tuple[bytes, ...]]:
        """The note without its arrays, and the bytes of each."""

    def loaded(self, arrays: Sequence[bytes]) -> Self:
        """The note with the arrays that `unloaded` took out, from their bytes."""


class Checkpoints:
    """The checkpoints of a vault: the latest two of each mechanism."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[int, list[str]] = {}
        self._number = 0

    def know(self, line: Line) -> None:
        """Register a checkpoint by its line in the ledger."""
        self._number = max(self._number, line.plain()["number"])
        self._kept[line.mechanism] = [*self._kept.get(line.mechanism, []), line.plain()["file"]][-2:]

    @property
    def named(self) -> set[str]:
        """The names of the files in use."""
        return {name for names in self._kept.values() for name in names}

    def save(self, event: Condensed, mechanism: int, codec: EventCodec) -> Line:
        """Write an event to a file (its text by the mechanism's codec, then the arrays of its note), and return the
        line that names the file."""
        assert isinstance(event.note, Heavy)
        light, arrays = event.note.unloaded()
        text = codec.encode(replace(event, note=light))
        lengths = " ".join(str(len(each)) for each in arrays)
        content = b"".join((text.encode(), b"\n", lengths.encode(), b"\n", *arrays))
        number = self._number + 1
        name = f"{number:08d}"
        line = Line(
            CHECKPOINT,
            body(file=name, number=number, size=event.size, sha256=hashlib.sha256(content).hexdigest()),
            mechanism,
        )
        write_file(self._folder / name, content, _STEPS)
        before = self.named
        self.know(line)
        for old in before - self.named:
            (self._folder / old).unlink(missing_ok=True)
        return line

    def load(self, line: Line, codec: EventCodec) -> Condensed | None:
        """The event in a checkpoint's file, by its mechanism's codec; None if the file is missing or not what was
        written."""
        plain = line.plain()
        try:
            content = (self._folder / plain["file"]).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != plain["sha256"]:
            return None
        text, lengths, raw = content.split(b"\n", 2)
        event = codec.decode(text.decode())
        if not isinstance(event, Condensed) or not isinstance(event.note, Heavy):
            raise VaultError(f"checkpoint {plain['file']} holds something else; delete it, and open the vault again")
        ends = list(accumulate(map(int, lengths.split())))
        return replace(event, note=event.note.loaded([raw[start:end] for start, end in pairwise([0, *ends])]))
