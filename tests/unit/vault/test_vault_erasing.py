"""Rows that are erased or corrected: gone from every byte of the folder, from every later answer, for nothing; all of a
request or none of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.parts import often
from treering.budget.promise import Budget
from treering.trusted.changes.rewriting import Rewriting
from treering.trusted.ledger.ledger import Ledger
from treering.vault.vault import Vault

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", other=True),
        "cost": tr.numbers(0, 100, step=0.5, edges=[0, 50, 100]),
    }
)
CANARY = "CANARY-7f3a"
SHARP = 1e9
"""An epsilon with which noise is far below a row."""


def rows_of(first: int, last: int, ward: str | None = None) -> list[dict[str, Any]]:
    """Visits from one number to before another, two to a patient."""
    wards = ("north", "south", "elsewhere")
    return [
        {"visit": number, "patient": f"p{number // 2}", "ward": ward or wards[number % 3], "cost": float(number % 101)}
        for number in range(first, last)
    ]


def made(place: Path, epsilon: float = 1.0, delta: float = 1e-6, **options: Any) -> Vault:
    given: dict[str, Any] = {"person": "patient", "rows_per_person": 2, "key": "visit", **options}
    return Vault.create(place, SCHEMA, epsilon, delta, **given)


def holders(place: Path, canary: str = CANARY) -> list[str]:
    """The files with a value, anywhere in their bytes."""
    return [each.name for each in place.rglob("*") if each.is_file() and canary.encode() in each.read_bytes()]


def true_counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {ward: sum(each["ward"] == ward for each in rows) for ward in ("north", "south")}


@pytest.fixture(params=["a tail", "parts", "both"])
def sizes(request: pytest.FixtureRequest) -> Any:
    usual = often(**{"a tail": {}, "parts": {"large": 40}, "both": {"large": 80}}[request.param])
    yield (60, 100, 30)
    usual()


# -- gone --------------------------------------------------------------------------------------------------------------


def test_an_erased_value_is_in_no_byte_of_the_folder_and_in_no_answer(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    rows: list[dict[str, Any]] = []
    vault = made(tmp_path / "vault", SHARP)
    for number in sizes:
        more = rows_of(len(rows), len(rows) + number)
        more[3]["ward"] = CANARY
        vault.append(more)
        rows += more
    assert holders(tmp_path / "vault")
    held = [each["visit"] for each in rows if each["ward"] == CANARY]
    told = vault.erase(keys=held)
    assert (told.rows, told.size, told.done, told.held) == (3, len(rows) - 3, True, ())
    assert holders(tmp_path / "vault") == []
    left = [each for each in rows if each["visit"] not in held]
    for _ in range(2):
        assert vault.size == len(left) == vault.status()["size"]
        answers = vault.ask_many([f"ward = '{ward}'" for ward in true_counts(left)])
        assert [each.count for each in answers] == list(true_counts(left).values())
        assert {each.size for each in answers} == {len(left)}
        vault = reopened(vault, tmp_path / "vault")
    assert vault.verify() | {"erased": 3, "size": len(left)} == vault.verify()
    assert vault.verify()["rewritten"] == 3
    vault.close()


def reopened(vault: Vault, place: Path) -> Vault:
    vault.close()
    return Vault.open(place)


def test_the_salt_the_digests_and_the_keys_of_an_erased_row_are_gone(tmp_path: Path) -> None:
    """With an old salt and digest, the rest of the batch and some patience, the value would be found by trial."""
    with made(tmp_path / "vault") as vault:
        vault.append(rows_of(0, 50))
        secrets = vault._store._ledger.secrets()
        before = {name: (secrets[name].salt, secrets[name].value) for name in secrets if name.startswith("rows")}
        vault.erase(keys=[7])
        after = {name: (secrets[name].salt, secrets[name].value) for name in secrets if name.startswith("rows")}
        assert before.keys() == {"rows 1"}
        assert after.keys() == {"rows 1.1"}
        (old,), (new,) = before.values(), after.values()
        table = next(iter(vault._store._parts.stored().tables()))
        emptied = {name: table.column(name).slice(7, 1).null_count for name in table.column_names}
    assert old[0] != new[0]
    assert emptied == {name: int(name != "person:") for name in table.column_names}
    assert holders(tmp_path / "vault", old[0].hex()) == []
    assert not any(old[0] in each.read_bytes() for each in (tmp_path / "vault").rglob("*") if each.is_file())
    assert holders(tmp_path / "vault", old[1]) == []


@pytest.mark.parametrize("twin", ["the old salt is kept", "the old part is kept", "the log is not emptied"])
def test_what_keeps_something_of_an_erased_row_is_noticed(
    twin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twins: with what each of them leaves, the value is read, or found by trial."""
    if twin == "the old salt is kept":
        honest = Rewriting._rewritten
        monkeypatch.setattr(Rewriting, "_rewritten", lambda *given: replace(honest(*given), drop=()))
    elif twin == "the old part is kept":
        monkeypatch.setattr(Path, "unlink", lambda *_: None)
    else:
        monkeypatch.setattr(Ledger, "wipe", lambda _: None)
    usual = often(large=40 if twin == "the old part is kept" else 10**6)
    with made(tmp_path / "vault") as vault:
        vault.append(rows_of(0, 60, CANARY))
        kept = vault._store._ledger.secrets()["rows 1"].salt
        vault.erase(keys=range(60))
        found = [each.read_bytes() for each in (tmp_path / "vault").rglob("*") if each.is_file()]
    usual()
    assert any((kept if twin == "the old salt is kept" else CANARY.encode()) in each for each in found)


def test_a_corrected_row_says_what_it_should_in_every_new_series(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    rows: list[dict[str, Any]] = []
    vault = made(tmp_path / "vault", SHARP)
    for number in sizes:
        rows += rows_of(len(rows), len(rows) + number)
        vault.append(rows[-number:])
    rows[5]["ward"] = rows[70]["ward"] = CANARY
    vault.correct([rows[5], rows[70]])
    assert holders(tmp_path / "vault")
    for place in (5, 70, 100):
        rows[place] |= {"ward": "south", "cost": 99.5}
    vault.correct([rows[100], rows[5], rows[70]])  # in any order
    assert holders(tmp_path / "vault") == []
    assert vault.size == len(rows)
    vault = reopened(vault, tmp_path / "vault")
    assert vault.ask("ward = 'south'").count == true_counts(rows)["south"]
    mean = vault.sql("SELECT AVG(cost) AS mean FROM vault").column("mean")[0].as_py()
    assert mean == pytest.approx(np.mean([each["cost"] for each in rows]), abs=1e-2)
    assert vault.erase(keys=[70]).rows == 1  # Its key stayed.
    assert vault.verify()["rewritten"] == 2
    vault.close()


def test_persons_go_with_all_their_rows_and_bring_no_new_budget(tmp_path: Path) -> None:
    vault = made(tmp_path / "vault")
    vault.append(rows_of(0, 50))
    assert vault.erase(persons=["p3", "p5"]).rows == 4
    assert vault.size == 46
    with pytest.raises(tr.DataError, match="1 of 2 persons named have no row here"):
        vault.erase(persons=["p3", "p6"])
    vault = reopened(vault, tmp_path / "vault")
    with pytest.raises(tr.DataError, match="its person has 2 rows already"):
        vault.append([{"visit": 90, "patient": "p3", "ward": "north", "cost": 1.0}])
    vault.close()


def test_a_vault_of_keys_alone_and_one_of_persons_alone(tmp_path: Path) -> None:
    with made(tmp_path / "keys", person=None, rows_per_person=1) as vault:
        vault.append(rows_of(0, 50))
        assert vault.erase(keys=["7", 8, 9.0]).size == 47
        with pytest.raises(tr.ParameterError, match="persons: are not known here|persons are not known"):
            vault.erase(persons=["p1"])
    with made(tmp_path / "persons", key=None) as vault:
        vault.append(rows_of(0, 50))
        assert vault.erase(persons=["p1"]).size == 48
        with pytest.raises(tr.ParameterError, match="was not declared"):
            vault.erase(keys=[7])
        with pytest.raises(tr.ParameterError, match="was not declared"):
            vault.correct(rows_of(0, 1))


def test_all_rows_can_go_and_others_come(tmp_path: Path) -> None:
    vault = made(tmp_path / "vault", SHARP)
    vault.append(rows_of(0, 40))
    vault.ask("ward = 'north'")
    vault.erase(keys=range(40))
    assert vault.size == 0
    with pytest.raises(tr.TreeringError, match="row"):
        vault.ask("ward = 'south'")
    vault.synthesize(3)
    vault = reopened(vault, tmp_path / "vault")
    assert vault.append(rows_of(40, 100)) == 60
    answer = vault.ask("ward = 'north'", within=1)
    assert (answer.count, answer.size) == (true_counts(rows_of(40, 100))["north"], 60)
    vault.verify()
    vault.close()


def test_rows_with_one_key_go_together(tmp_path: Path) -> None:
    with made(tmp_path / "vault", person=None, rows_per_person=1) as vault:
        vault.append([*rows_of(0, 50), *rows_of(7, 9)])
        with pytest.raises(tr.DataError, match="1 row more than keys are named"):
            vault.correct(rows_of(7, 8))
        assert vault.erase(keys=[7]).rows == 2


def test_keys_are_read_from_files_too(tmp_path: Path) -> None:
    lines = ["visit,patient,ward,cost", *(f"{n},p{n // 2},north,3" for n in range(40))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    (tmp_path / "right.csv").write_text("visit,ward,cost\n7,south,3\n")
    with made(tmp_path / "vault", SHARP) as vault:
        vault.append(tmp_path / "rows.csv")
        vault.correct(tmp_path / "right.csv")
        vault.erase(keys=[0])
        assert [each.count for each in vault.ask_many(["ward = 'north'", "ward = 'south'"])] == [38, 1]


# -- series that go on -------------------------------------------------------------------------------------------------


def test_a_series_goes_on_with_margins_wider_by_the_rows_that_it_counted(tmp_path: Path) -> None:
    vault, whole = made(tmp_path / "vault"), made(tmp_path / "whole")
    for each in (vault, whole):
        each.append(rows_of(0, 4000))
        each.ask("ward = 'north'")
        each.append(rows_of(4000, 4010))
    spent = vault.spent
    told = vault.erase(keys=[1, 2, 3, 4005], dry_run=True)
    assert (told.done, [(name, held.rows) for name, held in told.held]) == (False, [("rings", 3)])
    assert vault.erase(keys=[1, 2, 3, 4005]) == type(told)(4, 4006, True, False, told.held)
    assert vault.spent == spent
    after, usual = vault.ask("ward = 'north'"), whole.ask("ward = 'north'")
    assert (after.size, usual.size) == (4006, 4010)
    assert after.margin * 4006 == pytest.approx(usual.margin * 4010 + 3, rel=1e-6)
    assert after.error * 4006 == pytest.approx(usual.error * 4010 + 3, rel=1e-6)
    assert vault.status() == Vault.read(tmp_path / "vault").status()
    vault = reopened(vault, tmp_path / "vault")
    assert vault.ask("ward = 'north'") == after
    vault.correct([{"visit": 9, "ward": "south", "cost": 1.0}])
    assert vault.status()["mechanisms"][0]["series"][0]["changed"] == 4
    vault.close()
    whole.close()


def test_a_wish_that_no_wider_series_meets_opens_a_new_one(tmp_path: Path) -> None:
    with made(tmp_path / "vault", 10.0) as vault:
        vault.append(rows_of(0, 4000))
        margin = vault.ask("ward = 'north'").count_margin
        vault.erase(keys=list(range(1000)))
        assert vault.ask("ward = 'north'").count_margin > 1000
        assert vault.ask("ward = 'north'", within=float(margin)).count_margin <= margin
        assert vault.ask("ward = 'north'").count_margin <= margin
        assert len(vault.status()["mechanisms"][0]["series"]) == 2
        table = vault.sql("SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM vault GROUP BY ward")
        assert max(table.column("n_margin").to_pylist()) < 1000 + 4 * margin


def test_ended_series_give_way_to_new_ones_that_never_saw_the_rows(tmp_path: Path) -> None:
    vault = made(tmp_path / "vault", SHARP)
    vault.append(rows_of(0, 300))
    vault.ask("ward = 'north'")
    kept = vault.ask("cost < 50")
    told = vault.erase(keys=[0, 3], end=True)
    assert told.ended
    assert len(told.held) == 2
    left = [each for each in rows_of(0, 300) if each["visit"] not in (0, 3)]
    answer = vault.ask("ward = 'north'")
    assert (answer.count, answer.count_margin) == (true_counts(left)["north"], 0)
    assert kept.size == 300
    vault = reopened(vault, tmp_path / "vault")
    assert vault.ask("ward = 'north'") == answer
    listed = vault.status()["mechanisms"][0]["series"]
    assert [each["ended"] for each in listed] == [True, True, False]
    vault.verify()
    vault.close()


def test_rows_that_no_series_has_counted_widen_none(tmp_path: Path) -> None:
    with made(tmp_path / "vault", SHARP) as vault:
        vault.append(rows_of(0, 300))
        vault.ask("ward = 'north'")
        vault.append(rows_of(300, 400))
        assert vault.erase(keys=[310, 311, 312]).held == ()
        rows = [each for each in rows_of(0, 400) if each["visit"] not in (310, 311, 312)]
        answer = vault.ask("ward = 'north'")
        assert (answer.count, answer.count_margin, answer.size) == (true_counts(rows)["north"], 0, 397)


def test_a_checkpoint_keeps_what_was_changed_and_ended(tmp_path: Path) -> None:
    vault = made(tmp_path / "vault")
    vault.append(rows_of(0, 3000))
    vault.ask("ward = 'north'")
    vault.ask("cost < 50")
    vault.erase(keys=[1], end=True)
    vault.ask("ward = 'north'")
    vault.erase(keys=[2])
    state = vault._members[0].mechanism.state
    vault._members[0].mechanism.condense()
    vault = reopened(vault, tmp_path / "vault")
    assert vault._members[0].mechanism.state == state
    assert [each["changed"] for each in vault.status()["mechanisms"][0]["series"]] == [0, 0, 1]
    vault.verify()
    vault.close()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_row_pays_for_what_is_erased_or_corrected(tmp_path: Path, delta: float) -> None:
    with made(tmp_path / "vault", 4.0, delta) as vault:
        vault.append(rows_of(0, 2000))
        for number in range(6):
            vault.ask("ward = 'north'")
            vault.append(rows_of(2000 + 50 * number, 2050 + 50 * number))
        left = [vault.left(position) for position in range(1, vault.size + 1)]
        vault.erase(keys=[5, 2010])
        vault.correct([{"visit": 6, "ward": "south", "cost": 2.0}])
        assert [vault.left(position) for position in range(1, vault.size + 3)] == left
        budget: Budget = vault.promise.budget
        assert budget.total >= Fraction(vault.spent)


# -- bad input ---------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Callable[[Vault], Any], type[tr.TreeringError], str]] = {
    "keys_that_no_row_has": (lambda v: v.erase(keys=[1, 900, 901]), tr.DataError, "2 of 3 keys named have no row"),
    "keys_that_are_erased_already": (lambda v: v.erase(keys=[40]), tr.DataError, "or it was erased"),
    "keys_twice": (lambda v: v.erase(keys=[1, 1.0]), tr.ParameterError, "name something twice"),
    "keys_that_are_none": (lambda v: v.erase(keys=[1, None]), tr.DataError, "there is no key"),
    "keys_as_one_text": (lambda v: v.erase(keys="12"), tr.ParameterError, "must be a list"),
    "keys_that_name_nothing": (lambda v: v.erase(keys=[]), tr.ParameterError, "at least one row"),
    "keys_and_persons": (lambda v: v.erase(keys=[1], persons=["p1"]), tr.ParameterError, "not both"),
    "persons_that_nobody_is": (lambda v: v.erase(persons=["p900"]), tr.DataError, "1 of 1 person named have no row"),
    "frame_without_rows": (lambda v: v.correct([]), tr.DataError, "no row to correct"),
    "frame_of_unknown_keys": (lambda v: v.correct(rows_of(900, 902)), tr.DataError, "2 of 2 keys"),
    "frame_with_a_key_twice": (lambda v: v.correct(rows_of(1, 2) * 2), tr.ParameterError, "name something twice"),
    "frame_without_keys": (lambda v: v.correct([{"ward": "north", "cost": 1.0}]), tr.DataError, "there is no key"),
    "frame_without_a_column": (lambda v: v.correct([{"visit": 1, "ward": "north"}]), tr.DataError, "cost"),
    "frame_that_does_not_fit": (
        lambda v: v.correct([{"visit": 1, "ward": "north", "cost": "dear"}]),
        tr.DataError,
        "not among",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_rejects(name: str, tmp_path: Path) -> None:
    work, error, message = BAD[name]
    with made(tmp_path / "vault") as vault:
        vault.append(rows_of(0, 60))
        vault.erase(keys=[40])
        state = vault.status()
        with pytest.raises(error, match=message) as caught:
            work(vault)
        assert "p900" not in str(caught.value)
        assert "901" not in str(caught.value)
        assert vault.status() == state


def test_rejects_rows_while_a_reservation_or_another_kind_is_there(tmp_path: Path) -> None:
    with made(tmp_path / "vault") as vault:
        vault.append(rows_of(0, 2000))
        gate: Any = vault._members[0].mechanism._gate
        with gate.reserve(Budget("zcdp", Fraction(1, 10_000))), pytest.raises(tr.VaultError, match="in progress"):
            vault.erase(keys=[1])
        vault.add("continual", 0.1)
        with pytest.raises(tr.ParameterError, match="'continual' can only tell what holds for rows that stay"):
            vault.erase(keys=[1])
        assert vault.size == 2000


@pytest.mark.parametrize("key", ["", 7, "ward", "patient"])
def test_rejects_key_that_names_no_column_of_its_own(key: Any, tmp_path: Path) -> None:
    with pytest.raises(tr.ParameterError, match="must name a column that is no attribute"):
        made(tmp_path / "vault", key=key)


def test_rejects_key_where_rows_stay_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(tr.ParameterError, match="erase them there"):
        Vault.create(tmp_path / "vault", SCHEMA, 1.0, table="parquet:nowhere", key="visit")
