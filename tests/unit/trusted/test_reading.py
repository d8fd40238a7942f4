"""What follows from the record alone: the limit of rows a person, and what is kept of rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering as tr
from support.record_lines import ORIGIN, entries
from support.vaults import SCHEMA
from treering.budget.promise import Promise
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.lines import seal
from treering.trusted.ledger.record import Origin, Record
from treering.trusted.reading import PERSON_KEY, form_of, limit_of


def test_persons_are_counted_with_the_vaults_own_key(tmp_path: Path) -> None:
    assert limit_of(Record.of(entries(ORIGIN.line()), Folder(tmp_path)), {}) is None
    kept, promised = seal(PERSON_KEY, "ab" * 32)
    origin = Origin("1" * 32, SCHEMA, Promise(1, 0.0, 7), "who", None, promised)
    record = Record.of(entries(origin.line()), Folder(tmp_path))
    limit = limit_of(record, {PERSON_KEY: kept})
    assert limit is not None
    one, other = limit(), limit()
    assert one is not other
    assert (one.column, one.limit, one._key) == ("who", 7, bytes.fromhex("ab" * 32))
    with pytest.raises(tr.DamagedVault, match="the secret 'persons' is missing"):
        limit_of(record, {})


def test_what_is_kept_of_rows_follows_from_the_origin(tmp_path: Path) -> None:
    source = {"identity": "rows", "address": "", "order": "id"}
    for person, table in ((None, None), ("who", None), (None, source)):
        origin = Origin("1" * 32, SCHEMA, Promise(1), person, table)
        form = form_of(Record.of(entries(origin.line()), Folder(tmp_path)))
        assert form.persons == (person is not None)
