"""A vault for reading: its public state, beside a writer if there is one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from os import PathLike
from typing import Any

from treering.errors import DamagedVault, ParameterError
from treering.vault.checkpoints import Checkpoints
from treering.vault.files import Folder
from treering.vault.journal import Recovered, recover
from treering.vault.ledger import Ledger, reading, rows_of
from treering.vault.lines import check
from treering.vault.members import shown
from treering.vault.parts import Parts
from treering.vault.record import PERSON_KEY, Record
from treering.vault.sealing import opened
from treering.vault.status import ledger, status


class VaultReader:
    """The public state of a vault as it is at each call. Never blocked by a writer, and never blocks one."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._folder = Folder(path)
        self._folder.check()

    def status(self) -> dict[str, Any]:
        """What `Vault.status` says. Easy questions that a running writer has not recorded yet count as leased."""
        with reading(self._folder.ledger) as connection:
            record = Record.of(check(rows_of(connection)))
        return status(record, shown(record, _recovered(record, self._folder)))

    def ledger(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Every line of the ledger, oldest first; or those after a number."""
        with reading(self._folder.ledger) as connection:
            promise = Record.of(islice(check(rows_of(connection)), 1)).origin.promise
            lines = ledger(check(rows_of(connection)), promise.budget)
            yield from (plain for plain in lines if plain["seq"] > after)

    def verify(self, head: str | None = None) -> dict[str, Any]:
        """Check the vault: the chain of hashes, every part and secret, and that replay gives the same state.

        ``head`` is a head that `status` showed earlier: it must be one of the ledger's, or the folder was set back to
        an earlier state. Raises `DamagedVault`; otherwise says what was checked.
        """
        return verify(self._folder, head)


def verify(folder: Folder, head: str | None = None) -> dict[str, Any]:
    """See `VaultReader.verify`."""
    if head is not None and not (isinstance(head, str) and len(head.strip()) == 64):
        raise ParameterError("head", "must be one that status() showed: 64 hexadecimal digits")
    seen = False
    with reading(folder.ledger) as connection:
        entries = list(check(rows_of(connection)))
        secrets = dict(Ledger(connection).secrets())
    record = Record.of(entries)
    if head is not None:
        seen = any(entry.hash.hex() == head.strip().lower() for entry in entries)
        if not seen:
            raise DamagedVault(
                "the ledger never had this head: the vault was set back to an earlier state, or it is another vault. "
                "If it answered in between, its promise no longer holds"
            )
    Parts(folder, record.parts, record.bases).check(secrets, record.origin.schema)
    if record.origin.person is not None:
        opened(PERSON_KEY, record.origin.commitment, secrets)
    whole = _recovered(record, None)
    for each in whole:
        for name, promised in each.commitments.items():
            opened(name, promised, secrets)
    return {
        "entries": record.seq,
        "parts": len(record.parts),
        "size": record.parts[-1].size if record.parts else 0,
        "mechanisms": len(record.specs),
        "head": record.head.hex(),
        "head_found": seen if head is not None else None,
        "spent": _replayed(record, folder, whole),
    }


def _replayed(record: Record, folder: Folder, whole: list[Recovered]) -> float:
    """Replay every mechanism from its first line; refuse if checkpoints say something else, or a budget is exceeded."""
    quick = shown(record, _recovered(record, folder))
    slow = shown(record, whole)
    for spec, one, other in zip(record.specs, quick, slow, strict=True):
        if one.state != other.state or one.spent != other.spent:
            raise DamagedVault(f"a checkpoint of {spec.name!r} is not what its lines give: delete the checkpoints")
    return math.fsum(each.spent for each in slow)


def _recovered(record: Record, folder: Folder | None) -> list[Recovered]:
    checkpoints = None if folder is None else Checkpoints(folder.checkpoints)
    return [recover(lines, record.origin.schema, checkpoints) for lines in record.lines]
