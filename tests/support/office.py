"""The application in a test, without a socket: a vault with rows, tokens of every state, and a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

import treering as tr
from treering.service.access import Register
from treering.service.app import make_app
from treering.service.auth import Quota, Token
from treering.service.desk import Desk

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA"),
        "month": tr.integers(1, 12),
        "late": tr.categories("no", "yes"),
    }
)
ROWS = [{"origin": ("EWR", "JFK", "LGA")[row % 3], "month": row % 12 + 1, "late": "no"} for row in range(6000)]
API = "/api/v1"


@dataclass
class Office:
    """A served vault: requests go to ``client``."""

    folder: Path
    desk: Desk
    client: TestClient
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def vault(self) -> tr.Vault:
        return self.desk.vault

    def token(self, role: str = "analyst", lifetime: float | None = None, **quota: Any) -> tuple[Token, str]:
        """A new token and its text."""
        return self.desk.register.issue(f"an {role}", role, lifetime, Quota(**quota))

    def bearer(self, role: str = "analyst", **quota: Any) -> dict[str, str]:
        """The header of a new token."""
        return bearer(self.token(role, **quota)[1])

    def known(self, role: str) -> dict[str, str]:
        """The header of the one token of this role without limits."""
        if role not in self.texts:
            self.texts[role] = self.token(role)[1]
        return bearer(self.texts[role])

    def ask(self, headers: dict[str, str], **body: Any) -> Any:
        """A question."""
        return self.client.post(f"{API}/ask", headers=headers, json=body)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def desk_of(folder: Path, pace: int = 25, **options: Any) -> Desk:
    """The desk of the vault in a folder, which is made if there is none. From pace 100 on, questions share nothing."""
    if folder.exists():
        vault = tr.Vault.open(folder)
    else:
        vault = tr.Vault.create(folder, SCHEMA, epsilon=1.0, delta=1e-9, pace=pace)
        vault.append(ROWS)
    return Desk(vault, Register(folder), np.random.default_rng, **options)


@contextmanager
def office(folder: Path, desk: Desk | None = None, **options: Any) -> Iterator[Office]:
    """A served vault, closed in the end."""
    desk = desk or desk_of(folder, **options)
    with TestClient(make_app(desk), raise_server_exceptions=False) as client:
        yield Office(folder, desk, client)
