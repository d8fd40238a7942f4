"""The table of a vault whose rows stay in an engine: how it is attached, and that no other vault has it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from treering.domain.schema import Schema
from treering.errors import VaultError
from treering.trusted.engines.ahead import Patient
from treering.trusted.engines.tables import Stretch
from treering.trusted.engines.watermark import Increment, Watermark
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.named import Batch
from treering.trusted.ledger.record import Origin
from treering.trusted.rows.intake import OnInvalid
from treering.trusted.rows.kept import Rows
from treering.words import reason

if TYPE_CHECKING:
    from treering.trusted.engines.source import Source
    from treering.trusted.rows.persons import Persons


Result = TypeVar("Result")


def source_of(table: Any, schema: Schema, order: str, person: str | None) -> dict[str, str]:
    """What the ledger keeps of a table: its identity, its address ("" if it has none) and its order column."""
    source = _source(table, schema, order)
    if person is not None:
        source.check_person(person)
    return {"identity": source.identity, "address": source.address or "", "order": order}


class Attached:
    """The table of a vault. It is connected to only to be read: everything else works while its engine is down."""

    def __init__(self, origin: Origin, table: Any = None, limit: Callable[[], Persons] | None = None) -> None:
        """A ``table``, if given, must be the one that the vault was created for. ``limit`` makes the limit of rows a
        person."""
        assert origin.source is not None
        self._persons = None if limit is None else limit()
        self._origin, self._kept = origin, origin.source
        self._source = None if table is None else self._found(table)
        self._watermark: Watermark | None = None
        self._ahead: Patient | None = None
        self._refreshing = threading.Lock()

    def ahead(
        self, rows: Rows, alone: Callable[[], AbstractContextManager[object]], check: Callable[[], None]
    ) -> Patient:
        """What has the engine count for these rows: of a vault with this lock, in which it is checked."""
        self._ahead = Patient(rows, alone, check)
        return self._ahead

    def patiently(self, work: Callable[[], Result]) -> Result:
        """See `Patient`."""
        assert self._ahead is not None
        return self._ahead.patiently(work)

    def refresh(self, on_invalid: OnInvalid, take: Callable[[Increment], None], tell: Callable[[], None]) -> None:
        """Find the rows past the watermark, while others ask; have them taken in; and tell who watches."""
        with self._refreshing:
            take(self.increment(on_invalid))
            if self._ahead is not None:
                self._ahead.again(tell)

    def increment(self, on_invalid: OnInvalid) -> Increment:
        """The rows past the watermark."""
        found = self.source().increment(self._watermark, on_invalid)
        if self._persons is not None and found.rows:
            self.source().check_limit(self._persons.column, self._persons.limit, found.watermark)
        return found

    def take_up(self, rows: Rows, batch: Batch) -> None:
        """Take the rows of a batch on record up."""
        assert batch.watermark is not None
        mark = Watermark.from_dict(batch.watermark)
        rows.add_elsewhere(Stretch(self.source, self._watermark, mark, self._persons), batch.rows)
        self._watermark = mark

    def source(self) -> Source:
        """The table, connected to when it is first needed."""
        if self._source is None:
            if not self._kept["address"]:
                raise VaultError("the vault's table has no address to find it by: open the vault with table=")
            self._source = self._found(self._kept["address"])
        return self._source

    def _found(self, table: Any) -> Source:
        source = _source(table, self._origin.schema, self._kept["order"])
        if source.identity != self._kept["identity"]:
            raise VaultError("this is another table than the one that the vault was made for")
        return source


def _source(table: Any, schema: Schema, order: str) -> Source:
    # It loads DuckDB, which a vault does not need to be opened.
    from treering.trusted.engines.source import Source

    return Source.of(table, schema, order)


def claim(origin: Origin, folder: Folder) -> None:
    """Note, for this user on this machine, which vault a table belongs to; refuse a table that belongs to another.

    Two vaults on one table are two promises about the same rows: their losses add up, and neither counts the sum. The
    claim of a vault that no longer exists is void. Other users and machines are not seen.
    """
    assert origin.source is not None
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "treering" / "tables"
    file = state / hashlib.sha256(origin.source["identity"].encode()).hexdigest()
    try:
        holder = _holder(file)
        if holder is not None and _stands(holder, origin):
            raise VaultError(
                f"the vault at {holder['path']} has this table already, and two vaults on one table are two promises "
                "about the same rows: use that one, and add() mechanisms to it; or delete it if it was never asked"
            )
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(json.dumps({"path": str(folder.path.resolve()), "identity": origin.identity}))
        file.chmod(0o600)
    except OSError as error:
        raise VaultError(f"cannot note whose table this is in {state}: {reason(error)}") from None


def _holder(file: Path) -> dict[str, str] | None:
    """The vault that has claimed a table, if any; a file that a crash left incomplete is no claim."""
    try:
        plain = json.loads(file.read_text())
        return {"path": plain["path"], "identity": plain["identity"]}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _stands(holder: Mapping[str, str], origin: Origin) -> bool:
    """Whether the vault that claimed a table still exists, and is not the one with this origin."""
    ledger = Folder(holder["path"]).ledger
    if holder["identity"] == origin.identity or not ledger.exists():
        return False
    with ledgers.reading(ledger) as connection:
        first = next(ledgers.rows_of(connection), None)
    return first is not None and first.line.plain().get("identity") == holder["identity"]
