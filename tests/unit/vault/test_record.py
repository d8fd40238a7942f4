"""The lines of a ledger, sorted; and what an idempotency key stands for, by a digest that all ledgers have kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.vaults import SCHEMA
from treering.answer import Answer, Estimate
from treering.budget.promise import Promise
from treering.domain.language.measures import Count, Mean, Release, Request
from treering.errors import KeyUsed
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.lines import ROOT, Entry, Line, body, chained, seal
from treering.trusted.ledger.named import Batch, Part
from treering.vault.record import (
    PERSON_KEY,
    Origin,
    Record,
    answers_line,
    check_key,
    form_of,
    limit_of,
    options_of,
    question,
    recorded_answers,
    recorded_batch,
    recorded_release,
    release_line,
    requested,
)

BOTH = tr.parse("origin = 'JFK' AND late = 'yes'", SCHEMA)
WEIGHTED = tr.Query.weighted(SCHEMA, [0.25, 1], attributes=["late"])


def test_a_question_has_the_same_digest_under_every_version_of_a_schema() -> None:
    """With another one, a question asked again with its key would be refused, as if it were another."""
    finer = tr.Schema({**SCHEMA.attributes, "more": tr.integers(0, 1)})
    again = tr.parse("late = 'yes' AND origin = 'JFK'", finer)
    assert question([BOTH], "pmwg") == question([again], "pmwg")
    asked = [
        question([BOTH], "rings"),
        question([BOTH], "pmwg"),
        question([BOTH, WEIGHTED], "rings"),
        question([], "rings"),
    ]
    assert len(set(asked)) == 4


def test_another_question_has_another_digest() -> None:
    asked = [([BOTH], "pmwg"), ([BOTH], "rings"), ([WEIGHTED], "pmwg"), ([BOTH, WEIGHTED], "pmwg")]
    asked += [([WEIGHTED, BOTH], "pmwg"), ([BOTH, BOTH], "pmwg"), ([], "pmwg")]
    assert len({question(*each) for each in asked}) == len(asked)


# -- the lines of a ledger, sorted -------------------------------------------------------------------------------------


ORIGIN = Origin("0" * 32, SCHEMA, Promise(Fraction(1, 3), Fraction(1, 10**6), 4))


def entries(*lines: Line) -> list[Entry]:
    """Lines in a chain, five microseconds apart."""
    made: list[Entry] = []
    for number, line in enumerate(lines, 1):
        made.append(chained(made[-1].hash if made else ROOT, number, 5 * number, line))
    return made


def mechanism(name: str, share: str, **shares: str) -> Line:
    plain = {"name": name, "kind": "rings", "share": share, "options": {"pace": 8}}
    return Line("mechanism", body(**plain, **({"shares": shares} if shares else {})))


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
    assert (record.specs, record.size, record.lines, record.keys) == ([], 0, [], {})
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


def test_what_is_kept_of_rows_follows_from_the_origin() -> None:
    for person in (None, "who"):
        assert form_of(Origin("1" * 32, SCHEMA, Promise(1), person)).persons == (person is not None)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_another_request_has_another_digest() -> None:
    requests = [
        Request.of(SCHEMA, [Count()]),
        Request.of(SCHEMA, [Mean("month")]),
        Request.of(SCHEMA, [Count(), Mean("month")]),
        Request.of(SCHEMA, [Count()], by=["late"]),
        Request.of(SCHEMA, [Count()], by=["late", "origin"]),
        Request.of(SCHEMA, [Count()], where="late = 'yes'"),
    ]
    asked = [requested(request, name) for request in requests for name in ("rings", "more")]
    assert len(set(asked)) == len(asked)
    assert asked[0] == requested(Request.of(SCHEMA, [Count()]), "rings")


ANSWERS = [Answer(0.25, 0.1, 10, "easy", 0.05), Answer(0.5, 0.2, 10, "measured")]
REQUEST = Request.of(SCHEMA, [Count()], by=["late"])
ROWS = (
    (Estimate(3.0, -math.inf, 4.0, 0.5), Estimate(None, 1.0, math.inf)),
    (Estimate(2.0, -1.0, 2.5), Estimate(1.0, -math.inf, math.inf, 0.0)),
)
KEPT: dict[str, tuple[Line, Any, Callable[[Line | Entry, str], Any]]] = {
    "answers": (answers_line("k", "asked", 2, ANSWERS), ANSWERS, recorded_answers),
    "release": (
        release_line("k", "asked", 1, Release(REQUEST, 9, ROWS)),
        Release(REQUEST, 9, ROWS),
        lambda line, asked: recorded_release(line, asked, REQUEST),
    ),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_is_kept_under_a_key_comes_back_for_the_same_question_only(what: str) -> None:
    line, value, recorded = KEPT[what]
    (entry,) = entries(line)
    for each in (line, entry):
        found = recorded(each, "asked")
        assert found == value
        for wrong, asked in ((each, "something else"), (each._replace(kind="rows"), "asked")):
            with pytest.raises(KeyUsed, match="'k' was used for something else: use a new key for a new question"):
                recorded(wrong, asked)
    assert (line.kind, line.key) == ("answers", "k")
    assert line.mechanism == {"answers": 2, "release": 1}[what]


def test_rows_that_were_appended_under_a_key_are_found_by_it() -> None:
    batch = Batch(2, 3, 9, 1, "promised", {"value": 4})
    (entry,) = entries(batch.line("k"))
    assert recorded_batch(batch.line("k")) == recorded_batch(entry) == batch
    with pytest.raises(KeyUsed, match="'k' was used for something else: use a new key for new rows"):
        recorded_batch(KEPT["answers"][0])


@pytest.mark.parametrize("key", [None, "k", "x" * 200, "ä 1"])
def test_a_key_that_can_be_used(key: str | None) -> None:
    check_key(key)


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", 7, b"k"])
def test_a_key_that_cannot_be_used(key: Any) -> None:
    with pytest.raises(tr.ParameterError, match="must be a printable text of 1 to 200 characters") as refusal:
        check_key(key)
    assert refusal.value.parameter == "key"


def test_options_are_kept_as_json() -> None:
    assert options_of({"a": 1, "b": (2.5, "x")}) == {"a": 1, "b": [2.5, "x"]}
    for wrong in (math.nan, math.inf, {1, 2}, b"x"):
        with pytest.raises(tr.ParameterError, match="must be numbers, texts, and lists of them") as refusal:
            options_of({"a": wrong})
        assert refusal.value.parameter == "options"
