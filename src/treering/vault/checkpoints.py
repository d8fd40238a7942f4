"""Checkpoints: a mechanism's public state in a file, so that opening a vault need not replay its whole life.

A checkpoint holds nothing that the ledger does not imply. One that is missing or damaged is passed over for the one
before, or for the beginning: slower, and bit for bit the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.domain.schema import Schema
from treering.errors import VaultError
from treering.gate import Condensed
from treering.mechanisms.state import KeptRecords, Summary
from treering.vault.codec.events import decode, encode
from treering.vault.files import Stage, write_file
from treering.vault.lines import CHECKPOINT, Line, body

_NOTHING: Final = np.empty(0, np.uint8)

_STEPS: Final = (
    Stage.CHECKPOINT_OPENED,
    Stage.CHECKPOINT_WRITTEN,
    Stage.CHECKPOINT_SYNCED,
    Stage.CHECKPOINT_NAMED,
)


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

        Histogram and records follow the line of text as they are: they can be millions of numbers.
        """
        summary = event.note
        assert isinstance(summary, Summary)
        vector, records = summary.histogram.vector, summary.records
        arrays = (_NOTHING if vector is None else vector.astype("<f8"), records.records, records.complements)
        raw = [array.tobytes() for array in arrays]
        light = replace(event, note=_with(summary, None, KeptRecords(_NOTHING, _NOTHING)))
        lengths = " ".join(str(len(each)) for each in raw)
        content = b"".join((encode(light).encode(), b"\n", lengths.encode(), b"\n", *raw))
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
        text, lengths, raw = content.split(b"\n", 2)
        event = decode(text.decode(), schema)
        if not isinstance(event, Condensed) or not isinstance(event.note, Summary):
            raise VaultError(f"checkpoint {plain['file']} holds something else; delete it, and open the vault again")
        ends = list(accumulate(map(int, lengths.split())))
        bytes_of = [np.frombuffer(raw[start:end], np.uint8) for start, end in zip([0, *ends], ends, strict=False)]
        vector = bytes_of[0].view("<f8") if len(bytes_of[0]) else None
        return replace(event, note=_with(event.note, vector, KeptRecords(bytes_of[1], bytes_of[2])))


def _with(summary: Summary, vector: Floats | None, records: KeptRecords) -> Summary:
    return replace(summary, histogram=replace(summary.histogram, vector=vector), records=records)
