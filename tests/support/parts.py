"""Vaults whose tails are sealed and whose parts are merged often, and what is found when they are opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import treering as tr
from support.vaults import BETA, SCHEMA, frame
from treering.trusted.ledger import named
from treering.trusted.rows import parts, spool
from treering.vault.vault import Vault

EVERY = tuple(range(len(SCHEMA.shape)))
SEALED, MERGED, LARGE = 4, 3, 200
"""Batches to a sealed tail, parts to a merged one, and rows of a large batch, in these tests."""


def often(sealed: int = SEALED, merged: int = MERGED, large: int = LARGE) -> Callable[[], None]:
    """Seal and merge often from now on; call what is returned to end that."""
    before = parts.TAIL_BATCHES, named.FAN, spool.LARGE

    def use(sealed: int, merged: int, large: int) -> None:
        vars(parts)["TAIL_BATCHES"], vars(named)["FAN"], vars(spool)["LARGE"] = sealed, merged, large

    use(sealed, merged, large)
    return lambda: use(*before)


def make_often(patch: pytest.MonkeyPatch, sealed: int = SEALED, merged: int = MERGED, large: int = LARGE) -> None:
    """Seal and merge often in a test."""
    patch.setattr(parts, "TAIL_BATCHES", sealed)
    patch.setattr(named, "FAN", merged)
    patch.setattr(spool, "LARGE", large)


def rows_of(number: int) -> pa.Table:
    """The rows of a batch: a large one, now and then."""
    return frame(LARGE + 10 * number if number % 7 == 5 else 3 + number, seed=number)


def lived(place: Path, appends: int, kind: str | None = None, **options: Any) -> Vault:
    """A vault with this many appends."""
    vault = Vault.create(place, SCHEMA, 1000.0, 1e-6, 0.2, BETA, kind, **options)
    for number in range(appends):
        vault.append(rows_of(number))
    return vault


def cells(vault: Vault) -> npt.NDArray[np.int64]:
    """How many rows there are in each cell."""
    return vault._store._rows.cells.marginal(EVERY).copy()


def expected(appends: int) -> npt.NDArray[np.int64]:
    """What `lived` must have counted."""
    db = tr.GrowingDatabase(SCHEMA)
    for number in range(appends):
        db.append(rows_of(number))
    return db._rows.cells.marginal(EVERY)


def in_order(vault: Vault) -> pa.Table:
    """All rows on the disk, by position."""
    return pa.concat_tables(vault._store._parts.stored().tables()).combine_chunks()


def flip(file: Path, place: float = 0.5) -> None:
    """Change a bit of a file."""
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 16
    file.write_bytes(bytes(content))


def part_lines(vault: Vault) -> list[dict[str, Any]]:
    """What the lines say that name parts."""
    return [line["body"] for line in vault.ledger() if line["kind"] == "part"]


def secrets(vault: Vault, kind: str) -> set[str]:
    """The names of the secrets of one kind."""
    return {name for name in vault._store._ledger.secrets() if name.startswith(kind)}
