"""Bases in the lives of vaults: with series, persons, keys, backups, full disks, other versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treering as tr
from support.bases import base_lines, cells, expected, flip, lived, make_often, opened_from, rows_of
from support.vaults import SCHEMA, crash, kinds, mechanism, questions, states
from treering.trusted.counts import Counts
from treering.trusted.database import DroppedRows
from treering.trusted.rows.batches import Batch
from treering.vault import bases, parts
from treering.vault.lines import Line, body
from treering.vault.vault import Vault


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    make_often(monkeypatch)


# -- series ------------------------------------------------------------------------------------------------------------


def marks(vault: Vault) -> dict[int, list[list[int]]]:
    """The rows up to each size at which they are told apart, since the one before: cells, and how many in each."""
    marked = vault._counts._stretches.marked
    return {
        size: [each.tolist() for each in rows] for size, rows in vault._counts.stretches().items() if size in marked
    }


def test_a_series_finds_the_rows_at_the_sizes_that_it_goes_on_from(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    vault = lived(place, 13, "continual")
    (line,) = base_lines(vault)[-1:]
    assert line["parts"] == 12
    assert len(line["marked"]) >= 2
    at_the_end = marks(vault), states(vault)
    assert len(at_the_end[0]) >= 3
    crash(vault)
    assert opened_from(place, 13) == 12
    vault = Vault.open(place)
    assert (marks(vault), states(vault)) == at_the_end
    crash(vault)
    shutil.rmtree(place / "bases")
    with Vault.open(place) as vault:
        assert (marks(vault), states(vault)) == at_the_end
        for number in range(13, 20):
            vault.append(rows_of(number))
        vault.verify()


def test_a_base_that_skips_a_size_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stretch where a series needs more: it cannot be opened from, and verify finds nothing wrong with it."""
    place = tmp_path / "vault"
    with monkeypatch.context() as patch:
        patch.setattr(Counts, "marked", ())
        vault = lived(place, 13, "continual")
    at_the_end = marks(vault), states(vault)
    crash(vault)
    assert opened_from(place, 13) == 0
    vault = Vault.open(place)
    assert (marks(vault), states(vault)) == at_the_end
    vault.verify()
    crash(vault)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from([None, "continual"]))
def test_any_life(data: st.DataObject, kind: str | None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Appends, questions, crashes, damage: at each opening the counts are those of the rows."""
    place = tmp_path_factory.mktemp("life") / "vault"
    vault = lived(place, 0, kind)
    appends = 0
    for _ in range(data.draw(st.integers(1, 5))):
        for _ in range(data.draw(st.integers(0, 6))):
            vault.append(rows_of(appends))
            appends += 1
            if kind and data.draw(st.booleans()):
                vault.ask_many(questions(3, appends))
        at_the_end = marks(vault)
        if data.draw(st.booleans()):
            crash(vault)
        else:
            vault.close()
        for file in sorted((place / "bases").iterdir()):
            fate = data.draw(st.integers(0, 4))
            if fate == 0:
                flip(file)
            elif fate == 1:
                file.unlink()
        vault = Vault.open(place)
        assert (cells(vault) == expected(appends)).all()
        assert marks(vault) == at_the_end
        assert vault.verify()["size"] == vault.size
    vault.close()


# -- persons -----------------------------------------------------------------------------------------------------------


def test_the_cap_is_kept_when_persons_come_from_a_base(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    row = {"origin": "JFK", "month": 3, "late": "yes"}
    with Vault.create(place, SCHEMA, 1.0, mechanism=None, rows_per_person=6, person="who") as vault:
        for number in range(5):
            vault.append([{**row, "who": "ann"}, {**row, "who": number}])
        assert base_lines(vault)[-1]["persons"] is True
        held = dict(vault._persons.counted) if vault._persons else {}
    assert len(list((place / "bases").iterdir())) == 4
    with Vault.open(place) as vault:
        assert vault._persons is not None
        assert vault._persons.counted == held
        assert vault._parts._weighed >= 4
        vault.append([{**row, "who": "ann"}])
        with pytest.raises(tr.DataError, match="row 0: its person has 6 rows already"):
            vault.append([{**row, "who": "ann"}])
        vault.verify()
    flip(place / "bases" / vault._parts.bases.latest_first[0].names[1])
    with Vault.open(place) as vault:
        with pytest.raises(tr.DataError, match="row 0: its person has 6 rows already"):
            vault.append([{**row, "who": "ann"}])
        vault.verify()


def test_batches_of_nothing(tmp_path: Path) -> None:
    """Every row was dropped, of every batch: a base of no rows and of no persons."""
    place = tmp_path / "vault"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedRows)
        with Vault.create(place, SCHEMA, 1.0, mechanism=None, rows_per_person=2, person="who") as vault:
            for _ in range(9):
                vault.append([{"origin": "?", "month": 3, "late": "yes", "who": "ann"}], "drop")
            assert base_lines(vault)[-1] == {"number": 2, "parts": 8, "size": 0, "persons": False, "marked": []}
    with Vault.open(place) as vault:
        assert vault.size == 0
        assert vault._parts._weighed == 8
        assert vault.status()["dropped"] == 9
        vault.verify()


# -- keys, backups, other versions -------------------------------------------------------------------------------------


def test_keys_of_parts_that_were_not_read(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        sizes = [vault.append(rows_of(number), key=f"{number}") for number in range(9)]
    with Vault.open(tmp_path / "vault") as vault:
        assert [vault.append(rows_of(number), key=f"{number}") for number in range(9)] == sizes
        assert vault.size == sizes[-1]
        assert vault.status()["batches"] == 9
        vault.add("continual", 0.5)
        with pytest.raises(tr.ParameterError, match="was used for something else"):
            vault.ask("late = 'yes'", key="3")


@pytest.mark.parametrize("whole", [True, False])
def test_a_backup_has_what_bases_there_are(tmp_path: Path, whole: bool) -> None:
    with lived(tmp_path / "vault", 10) as vault:
        if not whole:
            (tmp_path / "vault" / "bases" / "00000002.parquet").unlink()
        vault.backup(tmp_path / "copy")
        head = vault.status()["head"]
    assert Vault.read(tmp_path / "copy").verify(head)["head_found"]
    for each in (tmp_path / "copy").rglob("*"):
        assert each.stat().st_mode & 0o077 == 0
    assert opened_from(tmp_path / "copy", 10) == (8 if whole else 4)


def test_a_vault_of_a_version_without_bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "vault"
    with monkeypatch.context() as patch:
        patch.setattr(parts.Parts, "condense", lambda *_, **__: None)
        crash(lived(place, 6))
    (place / "bases").rmdir()
    assert Vault.read(place).verify()["parts"] == 6
    assert opened_from(place, 6) == 0
    Vault.open(place).close()
    assert opened_from(place, 6) == 6


def test_lines_of_a_kind_that_is_not_known_are_passed_over(tmp_path: Path) -> None:
    """So that a vault can be used by versions that differ in what they do for convenience."""
    vault = lived(tmp_path / "vault", 5, "pmwg")
    vault._ledger.write(Line("of a later version", body(size=3)))
    before = states(vault)
    vault.close()
    with Vault.open(tmp_path / "vault") as vault:
        assert states(vault) == before
        assert "of a later version" in kinds(vault)
        vault.verify()


# -- when --------------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_not_tried_at_every_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def full(*_: Any) -> None:
        tried.append(1)
        raise tr.VaultError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(bases, "write_file", full)
        vault = lived(tmp_path / "vault", 11)
        assert len(tried) == 2
        assert base_lines(vault) == []
        crash(vault)
    assert opened_from(tmp_path / "vault", 11) == 0


def test_rows_that_are_on_record_and_not_counted_make_no_base(tmp_path: Path) -> None:
    vault = lived(tmp_path / "vault", 7)
    written = vault._parts.write(Batch.of(np.array([1, 1, 2])), 0)
    vault._parts.record(*written, vault._ledger, "")  # and there somebody presses a key
    vault.close()
    with Vault.open(tmp_path / "vault") as vault:
        assert [line["parts"] for line in base_lines(vault)] == [4]
        assert vault._parts._weighed == 4
        assert vault.verify()["size"] == vault.size
        assert cells(vault).sum() == vault.size


def test_closing_makes_one_when_it_is_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "_WORTHWHILE", 0.5)
    for appends, count in ((1, 0), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2)):
        with lived(tmp_path / str(appends), appends):
            pass
        with Vault.open(tmp_path / str(appends)) as vault:
            assert len(base_lines(vault)) == count
    # One append to a session: a base for every second one.
    place = tmp_path / "sessions"
    lived(place, 0).close()
    for number in range(6):
        with Vault.open(place) as vault:
            vault.append(rows_of(number))
    with Vault.open(place) as vault:
        assert [line["parts"] for line in base_lines(vault)] == [2, 4, 6]


def test_a_mechanism_goes_on_over_a_base(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    with lived(place, 9, "pmwg") as vault:
        vault.ask_many(questions(5))
        before = states(vault), mechanism(vault).hypothesis.steps
    with Vault.open(place) as vault:
        assert (states(vault), mechanism(vault).hypothesis.steps) == before
        vault.append(rows_of(9))
        vault.ask_many(questions(5, 2))
        vault.verify()


def test_a_session_that_makes_a_base_loads_nothing_heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading pandas takes longer than all the rest."""
    monkeypatch.setattr(bases, "_DUE", 1.0)
    lived(tmp_path / "vault", 5).close()
    script = """
import sys
from treering.vault import bases
from treering.vault.vault import Vault
vars(bases).update(_DUE=0.0, _TIMES=0.0)
for _ in range(2):
    Vault.open(sys.argv[1]).close()
print(sum(line["kind"] == "base" for line in Vault.read(sys.argv[1]).ledger()), "pandas" in sys.modules)
"""
    given = [sys.executable, "-c", script, str(tmp_path / "vault")]
    assert subprocess.run(given, capture_output=True, text=True, check=True).stdout == "2 False\n"
