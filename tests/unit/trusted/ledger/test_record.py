"""The lines of a ledger, sorted."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import treering as tr
from support.record_lines import ORIGIN, entries, mechanism
from support.vaults import SCHEMA
from treering.budget.promise import Promise
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.lines import Line, body
from treering.trusted.ledger.named import Batch, Part
from treering.trusted.ledger.record import Origin, Record


@pytest.mark.parametrize(
    "origin",
    [
        ORIGIN,
        Origin("1" * 32, SCHEMA, Promise(0.1), "who", None, "promised"),
        Origin("2" * 32, SCHEMA, Promise(2, 1e-9), source={"identity": "rows", "address": "", "order": "id"}),
    ],
)
def test_an_origin_comes_back_from_its_line(origin: Origin) -> None:
    line = origin.line()
    found = Origin.of(line)
    assert (line.kind, line.mechanism, line.commitment) == ("created", -1, origin.commitment)
    assert (found.identity, found.person, found.source) == (origin.identity, origin.person, origin.source)
    assert (found.schema, found.commitment) == (SCHEMA, origin.commitment)
    for name in ("epsilon", "delta"):
        assert getattr(found.promise, name) == Fraction(str(getattr(origin.promise, name)))
    assert found.promise.rows_per_person == origin.promise.rows_per_person
    assert found.line() == line


def test_a_record_begins_with_the_line_that_made_the_vault(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "vault")
    folder.create()
    for lines in ([], [mechanism("a", "1/2")], [mechanism("a", "1/2"), ORIGIN.line()]):
        with pytest.raises(tr.NotAVault, match="the vault was never finished"):
            Record.of(entries(*lines), folder)
    (first,) = entries(ORIGIN.line())
    record = Record.of([first], folder)
    assert (record.created, record.head, record.seq) == (5, first.hash, 1)
    assert (record.specs, record.size, record.lines, record.keys) == ((), 0, [], {})
    assert (len(record.batches), len(record.parts)) == (0, 0)


def test_every_line_has_its_place(tmp_path: Path) -> None:
    batch, part = Batch(1, 3, 3, 0, "promised"), Part(1, 0, 3, "bound")
    made = entries(
        ORIGIN.line(),
        mechanism("a", "3/4"),
        mechanism("b", "1/2", a="1/2"),
        batch.line("rows key"),
        Line("event", body(x=1), 1),
        Line("lease", body(x=2), 0),
        Line("checkpoint", body(x=3), 1),
        part.line(),
        Line("answers", body(x=5), 0, "asked key"),
        Line("a kind of later versions", body(x=6)),
    )
    record = Record.of(made, Folder(tmp_path))
    assert [(each.name, each.kind, each.share, each.options) for each in record.specs] == [
        ("a", "rings", Fraction(1, 2), {"pace": 8}),
        ("b", "rings", Fraction(1, 2), {"pace": 8}),
    ]
    assert (list(record.batches), list(record.parts), record.size) == ([batch], [part], 3)
    assert record.lines == [[made[5]], [made[4], made[6]]]
    assert record.checkpoints == [made[6].line]
    assert record.keys == {"rows key": made[3], "asked key": made[8]}
    assert (record.created, record.head, record.seq) == (5, made[-1].hash, 10)


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        ([mechanism("a", "1/2"), mechanism("a", "1/4")], "two mechanisms on record are called 'a'"),
        ([mechanism("a", "1/2"), mechanism("b", "501/1000")], "exceed the whole promise"),
        ([mechanism("a", "1/2"), mechanism("b", "1/2"), mechanism("c", "1/1000")], "exceed the whole promise"),
        ([mechanism("a", "1/2"), mechanism("b", "1/4", a="3/4")], "lowered that is not there, or was raised"),
        ([mechanism("a", "1/2"), mechanism("b", "1/4", c="1/4")], "lowered that is not there, or was raised"),
        ([Line("answers", body(), key="k"), Line("rows", body(), key="k")], "key 'k' is on record twice"),
    ],
)
def test_a_record_that_no_vault_writes_is_refused(tmp_path: Path, lines: list[Line], refusal: str) -> None:
    with pytest.raises(tr.DamagedVault, match=f"{refusal}.*: restore a backup"):
        Record.of(entries(ORIGIN.line(), *lines), Folder(tmp_path))
