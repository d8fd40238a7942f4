"""Rows that are erased in a vault that knows persons: new series of persons do not see them, living ones forbid it."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering as tr

SCHEMA = tr.Schema({"ward": tr.categories("north", "south", missing=True)})


def vault(folder: Path) -> tr.Vault:
    made = tr.Vault.create(
        folder, SCHEMA, epsilon=1000.0, delta=1e-6, person="patient", rows_per_person=3, key="visit", name="visits"
    )
    wards = ("north", "south")
    made.append([{"ward": wards[n % 2], "patient": n // 3, "visit": n} for n in range(9000)])
    return made


def test_persons_that_are_counted_later_do_not_see_erased_rows(tmp_path: Path) -> None:
    with vault(tmp_path / "v") as made:
        made.erase(keys=list(range(3, 303)))  # patients 1 to 100, whole
        north = made.ask("ward = 'north'", count="persons")
        missing = made.ask("ward IS NULL", count="persons")
    assert abs(north.count - 2900) <= 3 * max(1, north.count_margin)
    assert missing.count <= 3 * max(1, missing.count_margin)


def test_nothing_is_erased_once_persons_were_counted(tmp_path: Path) -> None:
    with vault(tmp_path / "v") as made:
        made.ask("ward = 'north'", count="persons")
        size = made.size
        with pytest.raises(tr.ParameterError, match="rows that stay"):
            made.erase(keys=[1])
        with pytest.raises(tr.ParameterError, match="rows that stay"):
            made.correct([{"ward": "south", "patient": 0, "visit": 0}])
        assert made.size == size
    with tr.Vault.open(tmp_path / "v") as made, pytest.raises(tr.ParameterError, match="rows that stay"):
        made.erase(persons=[1])


def test_the_store_itself_erases_nothing_once_persons_were_counted(tmp_path: Path) -> None:
    with vault(tmp_path / "v") as made:
        with made._store.alone():
            made._store.erasing()
        made.ask("ward = 'north'", count="persons")
        with made._store.alone(), pytest.raises(tr.VaultError, match="a flag of a person may not fall"):
            made._store.erasing()
