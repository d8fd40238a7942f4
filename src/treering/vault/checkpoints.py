"""Checkpoints: a mechanism's public state in a file, so that opening a vault need not replay its whole life.

A checkpoint holds nothing that the ledger does not imply. One that is missing or damaged is passed over for the one
before, or for the beginning: slower, and bit for bit the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from treering.domain.schema import Schema
from treering.errors import VaultError
from treering.gate import Condensed
from treering.mechanisms.pmwg_state import Summary
from treering.vault.codec import decode, encode
from treering.vault.folder import write_file
from treering.vault.lines import CHECKPOINT, Line, body
from treering.vault.steps import Step

_STEPS: Final = (Step.CHECKPOINT_OPENED, Step.CHECKPOINT_WRITTEN, Step.CHECKPOINT_SYNCED, Step.CHECKPOINT_NAMED)


class Checkpoints:
    """The checkpoints of a vault: the latest two of each mechanism."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[int, list[str]] = {}
        self._number = 0

    def know(self, line: Line) -> None:
        """Learn of a line that the ledger holds."""
        self._number = max(self._number, line.plain()["number"])
        self._kept[line.mechanism] = [*self._kept.get(line.mechanism, []), line.plain()["file"]][-2:]

    @property
    def named(self) -> set[str]:
        """The files that are in use."""
        return {name for names in self._kept.values() for name in names}

    def save(self, event: Condensed, mechanism: int) -> Line:
        """Write an event to a file, and return the line that names it.

        The histogram follows the line of text as raw numbers: it can have millions.
        """
        summary = event.note
        assert isinstance(summary, Summary)
        vector = summary.histogram.vector
        light = replace(event, note=replace(summary, histogram=replace(summary.histogram, vector=None)))
        raw = b"" if vector is None else np.ascontiguousarray(vector, dtype="<f8").tobytes()
        content = encode(light).encode() + b"\n" + raw
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

    def load(self, line: Line, schema: Schema) -> Condensed | None:
        """The event of a checkpoint; None if its file is not what was written."""
        plain = line.plain()
        try:
            content = (self._folder / plain["file"]).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != plain["sha256"]:
            return None
        text, _, raw = content.partition(b"\n")
        event = decode(text.decode(), schema)
        if not isinstance(event, Condensed) or not isinstance(event.note, Summary):
            raise VaultError(f"checkpoint {plain['file']} holds something else; delete it, and open the vault again")
        vector = np.frombuffer(raw, dtype="<f8") if raw else None
        return replace(event, note=replace(event.note, histogram=replace(event.note.histogram, vector=vector)))
