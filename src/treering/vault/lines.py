"""A line of the ledger, and the chain of hashes that makes the ledger one document.

Secrets that the ledger is bound to: a line holds a commitment, which shows nothing, and the secret lies apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from treering.errors import DamagedVault
from treering.trusted.sealed import Sealed, commitment
from treering.trusted.sealed import salt as new_salt

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


class Line(NamedTuple):
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


class Entry(NamedTuple):
    """A line in its place: a row of the ledger's table. (A tuple, because opening a vault makes one of every row.)"""

    seq: int
    time: int
    """Microseconds since 1970; never less than that of the line before, whatever the clock does."""
    kind: str
    mechanism: int
    body: str
    key: str
    commitment: str
    hash: bytes

    @property
    def line(self) -> Line:
        """What it says."""
        return Line(self.kind, self.body, self.mechanism, self.key, self.commitment)


def body(**fields: Any) -> str:
    """The JSON body of a line."""
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def chained(previous: bytes, seq: int, time: int, line: Line) -> Entry:
    """A line in its place behind another."""
    says = line.kind, line.mechanism, line.body, line.key, line.commitment
    return Entry(seq, time, *says, link(previous, seq, time, *says))


def link(
    previous: bytes, seq: int, time: int, kind: str, mechanism: int, body: str, key: str, commitment: str
) -> bytes:
    """The hash that chains a line to the one before it: of that hash, and of all that the line says.

    Each text is preceded by its length, so that no two lines have the same bytes.
    """
    lengths = f"{len(kind)} {len(body)} {len(key)} {len(commitment)}"
    text = f"{seq} {time} {mechanism} {lengths}\n{kind}{body}{key}{commitment}"
    return sha256(previous + text.encode()).digest()


def check(entries: Iterable[Entry]) -> Iterable[Entry]:
    """The entries, each once it is found to continue the chain; `DamagedVault` at the first that does not."""
    previous, last = ROOT, 0
    for number, entry in enumerate(entries, 1):
        seq, time, kind, mechanism, text, key, commitment, digest = entry
        if seq != number:
            raise DamagedVault(f"the ledger is damaged: line {number} is missing")
        try:
            good = time >= last and link(previous, seq, time, kind, mechanism, text, key, commitment) == digest
        except (AttributeError, TypeError):  # a column of another type
            good = False
        if not good:
            raise DamagedVault(f"the ledger is damaged: line {number} is not what was written; restore a backup")
        previous, last = digest, time
        yield entry


# -- sealing -----------------------------------------------------------------------------------------------------------


class SecretValue(Sealed):
    """A private value that a line's commitment is about."""

    __slots__ = ("name", "salt", "value")

    def __init__(self, name: str, salt: bytes, value: str) -> None:
        self.name, self.salt, self.value = name, salt, value


def seal(name: str, value: str) -> tuple[SecretValue, str]:
    """A secret with a salt of its own, and the commitment to it."""
    salt = new_salt()
    return SecretValue(name, salt, value), commitment(salt, name.encode(), value.encode())


def opened(name: str, promised: str, secrets: Mapping[str, SecretValue]) -> str:
    """PRIVATE: the value of a secret, if it is the one that a line is bound to."""
    found = secrets.get(name)
    if found is None or commitment(found.salt, name.encode(), found.value.encode()) != promised:
        raise DamagedVault(f"the secret {name!r} is missing, or not the one that was written; restore a backup")
    return found.value
