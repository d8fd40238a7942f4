"""New vaults: the first lines of a ledger, in a new folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Final

from treering.budget.promise import Promise
from treering.domain.schema import Schema
from treering.errors import ParameterError, SchemaError, VaultError
from treering.gate import Event
from treering.trusted import registry
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.codec.events import codec
from treering.trusted.ledger.disk import sync_folder
from treering.trusted.ledger.folder import Folder, WriterLock
from treering.trusted.ledger.lines import EVENT, Line, seal
from treering.trusted.ledger.record import Origin, mechanism_line
from treering.trusted.ledger.shares import Spec
from treering.trusted.reading import PERSON_KEY
from treering.trusted.sealed import salt as new_salt
from treering.words import reason

MOST_LETTERS: Final = 63
"""The longest name of a table: PostgreSQL's."""


def originate(
    schema: Schema,
    promise: Promise,
    person: str | None,
    table: Any,
    order: str,
    name: str = "rows",
    key: str | None = None,
) -> Origin:
    """The origin of a new vault, its first line, from checked parameters."""
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or len(name) > MOST_LETTERS:
        raise ParameterError("name", f"must be a word of ASCII letters, digits and _, at most {MOST_LETTERS}")
    if not isinstance(schema, Schema):
        raise SchemaError(f"a vault needs a Schema, not {type(schema).__name__}")
    if person is not None and (not isinstance(person, str) or not person or person in schema.names):
        raise ParameterError("person", "must name a column that is no attribute of the schema")
    if key is not None and (not isinstance(key, str) or not key or key in (*schema.names, *schema.columns, person)):
        raise ParameterError("key", "must name a column that is no attribute of the schema, and not the persons'")
    if key is not None and table is not None:
        raise ParameterError("key", "cannot be kept where rows stay in their own engine: erase them there")
    source = None if table is None else registry.part("source_of")(table, schema, order, person)
    return Origin(new_salt().hex()[:32], schema, promise, person, source, name=name, key=key)


def create(
    path: str | PathLike[str], origin: Origin, first: Spec | None, wait: float, events: Sequence[Event] = ()
) -> None:
    """Write an empty vault. If this is interrupted, opening the folder raises `NotAVault`.

    ``events`` are what the first mechanism begins with: what the draft of the schema has released of the rows that are
    appended first."""
    folder = Folder(path)
    if origin.source is not None:
        registry.part("claim")(origin, folder)
    folder.create()
    lock = WriterLock(folder.lock)
    try:
        lock.take(wait)
        ledger = ledgers.create(folder.ledger)
        try:
            key = None
            if origin.person is not None or origin.key is not None:
                key, promised = seal(PERSON_KEY, new_salt().hex())
                origin = replace(origin, commitment=promised)
            with ledger.transaction():
                ledger.write(origin.line(), put=key)
                if first is not None:
                    ledger.write(mechanism_line(first, {}))
                for event in events:
                    ledger.write(Line(EVENT, codec(origin.schema, ()).encode(event), 0))
        finally:
            ledger.close()
        for each in (folder.path, folder.path.resolve().parent):
            sync_folder(each)
    except OSError as error:
        raise VaultError(f"cannot create a vault at {folder.path}: {reason(error)}") from None
    finally:
        lock.release()
