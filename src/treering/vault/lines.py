"""A line of the ledger, and the chain of hashes that makes the ledger one document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from treering.errors import DamagedVault

ROOT: Final = bytes(32)
"""What the first line is chained to."""

CREATED, MECHANISM, ROWS, EVENT, LEASE, ANSWERS, CHECKPOINT = (
    "created",
    "mechanism",
    "rows",
    "event",
    "lease",
    "answers",
    "checkpoint",
)
"""The kinds of lines. ``lease`` is queries counted ahead of being asked; ``answers`` is what a key was answered."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, public but for nothing: ``commitment`` binds a private value (a part, a secret) without showing it."""

    kind: str
    body: str
    """JSON."""
    mechanism: int = -1
    """The number of the mechanism it is about; -1 for none."""
    key: str = ""
    """The caller's idempotency key, if there is one."""
    commitment: str = ""

    def plain(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line in its place."""

    seq: int
    time: int
    """Microseconds since 1970; never less than that of the line before, whatever the clock does."""
    line: Line
    hash: bytes


def body(**fields: Any) -> str:
    """The JSON body of a line."""
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def chained(previous: bytes, seq: int, time: int, line: Line) -> Entry:
    """A line in its place behind another."""
    return Entry(seq, time, line, link(previous, seq, time, line))


def link(previous: bytes, seq: int, time: int, line: Line) -> bytes:
    """The hash that chains a line to the one before it: of that hash, and of all that the line says.

    Each text is preceded by its length, so that no two lines have the same bytes.
    """
    texts = (line.kind, line.body, line.key, line.commitment)
    encoded = [text.encode() for text in texts]
    head = " ".join(map(str, (seq, time, line.mechanism, *map(len, encoded)))) + "\n"
    return hashlib.sha256(b"".join((previous, head.encode(), *encoded))).digest()


def check(entries: Iterable[Entry]) -> Iterable[Entry]:
    """The entries, each once it is found to continue the chain; `DamagedVault` at the first that does not."""
    previous, time = ROOT, 0
    for seq, entry in enumerate(entries, 1):
        if entry.seq != seq:
            raise DamagedVault(f"the ledger is damaged: line {seq} is missing")
        if entry.time < time or link(previous, seq, entry.time, entry.line) != entry.hash:
            raise DamagedVault(f"the ledger is damaged: line {seq} is not what was written; restore a backup")
        previous, time = entry.hash, entry.time
        yield entry
