"""Secrets that the ledger is bound to: a line holds a commitment, which shows nothing, and the secret lies apart."""

from __future__ import annotations

from collections.abc import Mapping

from treering.errors import DamagedVault
from treering.trusted.rows.batches import commitment
from treering.trusted.rows.batches import salt as new_salt
from treering.vault.ledger import SecretValue


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
