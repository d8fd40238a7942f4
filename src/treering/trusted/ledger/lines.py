"""The lines of a ledger: the chain of hashes that binds them, and the commitments that bind secrets to them.

A line is public. A private value that it depends on is kept apart; the line holds a commitment to it, which shows
nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from treering.errors import DamagedVault
from treering.trusted.sealed import Sealed, commitment, salt as new_salt

ROOT: Final = bytes(32)
"""The hash that the first line is chained to."""

CREATED, REFINED, MECHANISM, ROWS, PART = "created", "refined", "mechanism", "rows", "part"
EVENT, LEASE, ANSWERS, CHECKPOINT = "event", "lease", "answers", "checkpoint"
ERASING, ERASED, REWRITTEN = "erasing", "erased", "rewritten"
"""The kinds of lines. A ``refined`` line is the next version of the schema; a ``part`` names a file of rows; a
``lease`` counts comparisons before they are made; ``answers`` are those given under an idempotency key; ``erasing``
says how many parts are about to be written anew, ``erased`` which rows were erased or corrected; a batch of which some
were is ``rewritten``."""


class Line(NamedTuple):
    """One line of the ledger, entirely public: ``commitment`` binds a private value (a part, a secret) without showing
    it."""

    kind: str
    body: str
    """JSON."""
    mechanism: int = -1
    """The number of the mechanism that the line is about; -1 for none."""
    key: str = ""
    """The caller's idempotency key, if there is one."""
    commitment: str = ""

    def plain(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


class Entry(NamedTuple):
    """A line with its place in the chain: a row of the ledger's table. (A tuple, because opening a vault makes one of
    every row.)"""

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
        """The line without its place in the chain."""
        return Line(self.kind, self.body, self.mechanism, self.key, self.commitment)


def body(**fields: Any) -> str:
    """The JSON body of a line."""
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def chained(previous: bytes, seq: int, time: int, line: Line) -> Entry:
    """The entry of a line, chained to the hash ``previous`` of the line before."""
    says = line.kind, line.mechanism, line.body, line.key, line.commitment
    return Entry(seq, time, *says, link(previous, seq, time, *says))


def link(
    previous: bytes, seq: int, time: int, kind: str, mechanism: int, body: str, key: str, commitment: str
) -> bytes:
    """The hash that chains a line to the one before it: of the hash ``previous``, and of everything in the line.

    The lengths of all texts precede them, so that different lines have different bytes.
    """
    lengths = f"{len(kind)} {len(body)} {len(key)} {len(commitment)}"
    text = f"{seq} {time} {mechanism} {lengths}\n{kind}{body}{key}{commitment}"
    return sha256(previous + text.encode()).digest()


def check(entries: Iterable[Entry]) -> Iterable[Entry]:
    """The entries, each once it is found to continue the chain; raises `DamagedVault` at the first that does not."""
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


# -- secrets, and commitments to them ----------------------------------------------------------------------------------


class SecretValue(Sealed):
    """A private value with its name and salt: what a line's commitment binds."""

    __slots__ = ("name", "salt", "value")

    def __init__(self, name: str, salt: bytes, value: str) -> None:
        self.name, self.salt, self.value = name, salt, value


def seal(name: str, value: str) -> tuple[SecretValue, str]:
    """A secret with a fresh salt, and the commitment to it."""
    salt = new_salt()
    return SecretValue(name, salt, value), commitment(salt, name.encode(), value.encode())


def opened(name: str, promised: str, secrets: Mapping[str, SecretValue]) -> str:
    """PRIVATE: the value of the secret ``name``; `DamagedVault` unless the commitment ``promised`` binds it."""
    found = secrets.get(name)
    if found is None or commitment(found.salt, name.encode(), found.value.encode()) != promised:
        raise DamagedVault(f"the secret {name!r} is missing, or not the one that was written; restore a backup")
    return found.value
