"""How a vault comes into being: everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from treering.budget.promise import Promise
from treering.domain.schema import Schema
from treering.errors import ParameterError, SchemaError, VaultError
from treering.params import Number, probability, whole
from treering.trusted.database import GrowingDatabase
from treering.trusted.rows.batches import salt
from treering.vault import ledger as ledgers
from treering.vault.files import Folder, sync_folder
from treering.vault.kinds import Spec, choose, spec
from treering.vault.lines import MECHANISM, Line, body
from treering.vault.lock import WriterLock
from treering.vault.record import PERSON_KEY, Origin, options_of
from treering.vault.sealing import seal
from treering.vault.sources import claim, source_of


def originate(schema: Schema, promise: Promise, person: str | None, table: Any, order: str) -> Origin:
    """What the first line of a new vault says."""
    if not isinstance(schema, Schema):
        raise SchemaError(f"a vault needs a Schema, not {type(schema).__name__}")
    if person is not None and (not isinstance(person, str) or not person or person in schema.names):
        raise ParameterError("person", "must name a column that is no attribute of the schema")
    if person is not None and table is not None:
        raise ParameterError("person", "cannot be counted where rows stay in their own engine")
    return Origin(
        salt().hex()[:32], schema, promise, person, None if table is None else source_of(table, schema, order)
    )


def first_spec(
    origin: Origin, kind: str, share: Number, alpha: Number, beta: Number, rows: int, options: Mapping[str, Any]
) -> Spec:
    """The first mechanism; "auto" is what the planner chooses."""
    accuracy, chance = float(probability(alpha, "alpha")), float(probability(beta, "beta"))
    if kind == "auto":
        own = replace(origin.promise, share=share)
        kind = choose(origin.schema.cells, own, accuracy, chance, whole(rows, "rows"))
    given = {"beta": chance, **({"alpha": accuracy} if kind == "pmwg" else {}), **options}
    return checked(origin, spec(kind, share, options_of(given), ()))


def checked(origin: Origin, new: Spec) -> Spec:
    """A mechanism whose options can be: it is made once, over an empty database."""
    new.build(GrowingDatabase(origin.schema), origin.promise)
    return new


def mechanism_line(new: Spec) -> Line:
    """The line that a mechanism begins with."""
    return Line(MECHANISM, body(**new.to_dict()))


def found(folder: Folder, origin: Origin, first: Spec | None, wait: float) -> None:
    """Write an empty vault. If this is interrupted, what is there is no vault, and says so when it is opened."""
    if origin.source is not None:
        claim(origin, folder)
    folder.create()
    lock = WriterLock(folder.lock, wait)
    try:
        ledger = ledgers.create(folder.ledger)
        try:
            key = None
            if origin.person is not None:
                key, promised = seal(PERSON_KEY, salt().hex())
                origin = replace(origin, commitment=promised)
            with ledger.transaction():
                ledger.write(origin.line(), put=key)
                if first is not None:
                    ledger.write(mechanism_line(first))
        finally:
            ledger.close()
        for each in (folder.path, folder.path.resolve().parent):
            sync_folder(each)
    except OSError as error:
        raise VaultError(f"cannot create a vault at {folder.path}: {error.strerror}") from None
    finally:
        lock.release()
