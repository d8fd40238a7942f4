"""Opening reads the latest good base and the parts after it: the same counts, whatever became of the bases."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import treering as tr
from support.bases import base_lines, flip, lived, make_often, names, opened_from, rows_of
from support.vaults import SCHEMA, crash, frame
from treering.trusted.rows.batches import Base
from treering.vault import bases, parts
from treering.vault.lines import Line, body
from treering.vault.vault import Vault


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    make_often(monkeypatch)


def test_opening_reads_the_latest_base_and_the_parts_after_it(tmp_path: Path) -> None:
    vault = lived(tmp_path / "vault", 11)
    assert [line["parts"] for line in base_lines(vault)] == [4, 8]
    crash(vault)
    assert opened_from(tmp_path / "vault", 11) == 8
    with Vault.open(tmp_path / "vault") as vault:
        vault.append(rows_of(11))
        assert [line["parts"] for line in base_lines(vault)] == [4, 8, 12]
        assert names(vault) == {"base 2", "base 3"}
        found = vault.verify()
        assert (found["parts"], found["size"]) == (12, vault.size)
    assert opened_from(tmp_path / "vault", 12) == 12
    files = sorted((tmp_path / "vault" / "bases").iterdir())
    assert [file.name for file in files] == ["00000002.parquet", "00000003.parquet"]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert (tmp_path / "vault" / "bases").stat().st_mode & 0o777 == 0o700


def test_the_line_says_what_is_public_and_nothing_else(tmp_path: Path) -> None:
    """Other rows of the same number: the same lines, but for salted commitments."""
    said = []
    for seed in (0, 100):
        with Vault.create(tmp_path / str(seed), SCHEMA, 1.0, mechanism=None) as vault:
            for number in range(9):
                vault.append(frame(40, seed=seed + number * (seed > 0)))
            said.append(base_lines(vault))
    assert said[0] == said[1]
    assert said[0][0] == {"number": 1, "parts": 4, "size": 160, "persons": False, "marked": []}


# -- passed over -------------------------------------------------------------------------------------------------------


def test_a_damaged_base_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    crash(lived(place, 10))
    flip(place / "bases" / "00000002.parquet")
    assert Vault.read(place).verify()["parts"] == 10
    assert opened_from(place, 10) == 4
    (place / "bases" / "00000002.parquet").unlink()
    assert opened_from(place, 10) == 4
    flip(place / "bases" / "00000001.parquet")
    assert Vault.read(place).verify()["parts"] == 10
    assert opened_from(place, 10) == 0
    Vault.open(place).close()  # reads all, and makes another
    assert opened_from(place, 10) == 10


@pytest.mark.parametrize("lost", ["files", "folder", "secrets"])
def test_a_lost_base_is_done_without(tmp_path: Path, lost: str) -> None:
    place = tmp_path / "vault"
    vault = lived(place, 10)
    if lost == "secrets":
        for number in (1, 2):
            vault._ledger.write(Line("note", body()), drop=f"base {number}")
    crash(vault)
    if lost == "folder":
        shutil.rmtree(place / "bases")
    elif lost == "files":
        for file in (place / "bases").iterdir():
            file.unlink()
    assert opened_from(place, 10) == 0
    assert Vault.read(place).verify()["parts"] == 10
    with Vault.open(place) as vault:
        vault.append(rows_of(10))
    assert opened_from(place, 11) == 11


def test_a_base_of_another_vault_is_none(tmp_path: Path) -> None:
    for name in ("one", "two"):
        crash(lived(tmp_path / name, 9))
    for file in (tmp_path / "one" / "bases").iterdir():
        shutil.copy(file, tmp_path / "two" / "bases" / file.name)  # the same rows, another salt
    assert opened_from(tmp_path / "two", 9) == 8
    flip(tmp_path / "one" / "parts" / "00000009.parquet")
    shutil.copy(tmp_path / "one" / "parts" / "00000009.parquet", tmp_path / "two" / "bases" / "00000002.parquet")
    assert opened_from(tmp_path / "two", 9) == 4


def test_what_a_crash_left_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    crash(lived(place, 9))
    for name in ("00000003.parquet", "00000003.parquet.new", "00000001-persons.parquet", "x"):
        (place / "bases" / name).write_text("left")
    assert opened_from(place, 9) == 8
    assert sorted(file.name for file in (place / "bases").iterdir()) == ["00000001.parquet", "00000002.parquet"]


def test_others_must_not_read_bases(tmp_path: Path) -> None:
    lived(tmp_path / "vault", 5).close()
    (tmp_path / "vault" / "bases").chmod(0o750)
    for use in (Vault.open, Vault.read):
        with pytest.raises(tr.VaultError, match="others can read .*bases, which holds private data: run chmod 700"):
            use(tmp_path / "vault")


# -- parts that a base stands for --------------------------------------------------------------------------------------


def test_parts_that_a_base_stands_for_are_checked_by_verify(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    crash(lived(place, 10))
    flip(place / "parts" / "00000003.parquet")
    assert opened_from(place, 10) == 8
    with pytest.raises(tr.DamagedVault, match=r"part 00000003.parquet is missing, or not what was written"):
        Vault.read(place).verify()
    flip(place / "parts" / "00000003.parquet")
    flip(place / "parts" / "00000009.parquet")
    for use in (Vault.open, lambda where: Vault.read(where).verify()):
        with pytest.raises(tr.DamagedVault, match=r"part 00000009.parquet is missing, or not what was written"):
            use(place)


def test_a_missing_part_is_found_at_opening_even_so(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    crash(lived(place, 10))
    (place / "parts" / "00000003.parquet").unlink()
    for use in (Vault.open, lambda where: Vault.read(where).verify()):
        with pytest.raises(tr.DamagedVault, match=r"part 00000003.parquet is missing"):
            use(place)


# -- a base that lies --------------------------------------------------------------------------------------------------


def _another_cell(base: Base) -> Base:
    for batch in base.stretches.values():
        batch.cells = (batch.cells + 1) % SCHEMA.cells
    return base


def _a_person_less(base: Base) -> Base:
    return Base(base.stretches, dict(list(base.persons.items())[1:]))


def _no_person(base: Base) -> Base:
    return Base(base.stretches, {})


@pytest.mark.parametrize("lie", [_another_cell, _a_person_less, _no_person])
def test_a_base_that_was_written_wrong_is_found_by_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Callable[[Base], Base]
) -> None:
    place = tmp_path / "vault"
    with Vault.create(place, SCHEMA, 1.0, mechanism=None, rows_per_person=5, person="who") as vault:
        true = Base.of
        monkeypatch.setattr(bases, "_DUE", 1.0)
        for number in range(6):
            vault.append(rows_of(number).append_column("who", [[f"{number} {row}" for row in range(3 + number)]]))
        monkeypatch.setattr(bases, "_DUE", 0.0)
        monkeypatch.setattr(parts, "Base", type("Lying", (), {"of": lambda *given: lie(true(*given))}))
        vault.append([])  # nothing new, so nothing is made
        assert vault.verify()["parts"] == 6
    with pytest.raises(tr.DamagedVault, match=r"base 00000001.parquet is not what its parts give: delete the bases"):
        Vault.read(place).verify()
    shutil.rmtree(place / "bases")
    assert Vault.read(place).verify()["parts"] == 6


def test_a_base_that_stands_for_other_parts_is_passed_over(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    vault = lived(place, 5)
    true = vault._parts.bases.latest_first[0]
    vault._ledger.write(Line("base", body(**{**base_lines(vault)[-1], "parts": 5}), commitment=true.commitment))
    crash(vault)
    assert opened_from(place, 5) == 4  # by the line before
    with pytest.raises(tr.DamagedVault, match="not what its parts give"):
        Vault.read(place).verify()
