"""A promise per person: the cap on rows is kept at the door, whatever happens to the process."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import treering as tr
from support.parts import in_order
from support.vaults import SCHEMA, crash
from treering.trusted.rows.intake import DroppedRows
from treering.vault.vault import Vault

ROW = {"origin": "JFK", "month": 3, "late": "yes"}


def row(who: Any) -> dict[str, Any]:
    return {**ROW, "who": who}


def capped(place: Path, limit: int = 2) -> Vault:
    return Vault.create(place, SCHEMA, 1.0, mechanism=None, rows_per_person=limit, person="who")


def test_the_cap_is_kept_over_batches_and_lives(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    vault = capped(place)
    assert vault.append([row("ann"), row("bob"), row("ann")]) == 3
    with pytest.raises(tr.DataError, match="row 1: its person has 2 rows already") as caught:
        vault.append([row("bob"), row("ann"), row("cyn")])
    assert "ann" not in str(caught.value)
    assert (caught.value.row, caught.value.column) == (1, "who")
    assert vault.size == 3
    crash(vault)
    vault = Vault.open(place)
    for _ in range(2):
        with pytest.raises(tr.DataError, match="row 0: its person has 2 rows"):
            vault.append([row("ann")])
        assert vault.append([row("bob")], key="bob") == 4
    vault.close()
    with Vault.open(place) as vault:
        with pytest.raises(tr.DataError):
            vault.append([row("bob")])
        assert vault.append([row("cyn"), row("cyn")]) == 6
        vault.verify()


def test_what_is_too_much_can_be_dropped(tmp_path: Path) -> None:
    with capped(tmp_path / "vault") as vault:
        with pytest.warns(DroppedRows, match="3 of 6 rows did not fit"):
            size = vault.append(
                [row("ann"), row("ann"), {**row("bob"), "month": 13}, row("ann"), row("bob"), row("ann")], "drop"
            )
        assert size == 3
        with pytest.warns(DroppedRows, match="1 of 2"):
            assert vault.append([row("bob"), row("bob")], "drop") == 4
        assert vault.status()["dropped"] == 4


@pytest.mark.parametrize(
    "names",
    [
        [7, "7", 7.0, "7.0", "7.000", np.int32(7), np.float32(7), Decimal("7.00")],
        ["é", "é", "é"],
        [-0.0, 0, 0.0],
        ["\ud800"] * 3,
        [7.5, "7.5", Decimal("7.5")],
        [True, "True", np.True_],
    ],
)
def test_one_person_has_several_spellings(tmp_path: Path, names: list[Any]) -> None:
    with capped(tmp_path / "vault", limit=len(names)) as vault:
        for name in names:
            vault.append([row(name)])
        for name in names:
            with pytest.raises(tr.DataError, match="its person has"):
                vault.append([row(name)])


@pytest.mark.parametrize("nobody", [None, float("nan"), float("inf"), pd.NA, pd.NaT, [], {}, object(), Decimal("nan")])
def test_a_row_without_a_person_is_refused(tmp_path: Path, nobody: Any) -> None:
    with capped(tmp_path / "vault") as vault:
        for mode in ("refuse", "drop"):
            with pytest.raises(tr.DataError, match="row 1, column 'who': there is no person") as caught:
                vault.append([row("ann"), row(nobody)], mode)
            assert caught.value.row == 1
        assert vault.size == 0


def frames() -> list[Any]:
    pandas = pd.DataFrame([row(1), row(2), row(1)])
    return [
        pandas,
        pa.Table.from_pandas(pandas),
        pa.Table.from_pandas(pandas).to_batches()[0],
        pandas.to_dict("records"),
    ]


@pytest.mark.parametrize("kind", range(4))
def test_frames_of_all_kinds(tmp_path: Path, kind: int) -> None:
    with capped(tmp_path / "vault", limit=4) as vault:
        assert vault.append(frames()[kind]) == 3
        mixed = pd.DataFrame([row(1.0), row(1.0)])
        assert mixed["who"].dtype == float
        assert vault.append(mixed) == 5
        with pytest.raises(tr.DataError, match="row 0: its person has 4 rows"):
            vault.append([row(1)])


def test_the_column_must_be_there_once(tmp_path: Path) -> None:
    with capped(tmp_path / "vault") as vault:
        table = pa.Table.from_pylist([row("ann")])
        for wrong in (table.drop_columns(["who"]), table.append_column("who", [["bob"]])):
            with pytest.raises(tr.DataError, match="need one column 'who'"):
                vault.append(wrong)
        with pytest.raises(tr.DataError, match="no person"):
            vault.append([ROW])
        for wrong in (7, "text", [7]):
            with pytest.raises(tr.DataError):
                vault.append(wrong)
        assert vault.append([]) == 0


def test_without_a_person_column_nobody_is_counted(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None, rows_per_person=2) as vault:
        assert vault.append([ROW] * 9) == 9
        assert vault.append([row("ann")]) == 10


def test_who_somebody_is_is_not_on_disk(tmp_path: Path) -> None:
    with capped(tmp_path / "vault") as vault:
        vault.append([row("annabel-of-the-hill")] * 2)
    for file in (tmp_path / "vault").rglob("*"):
        if file.is_file():
            assert b"annabel" not in file.read_bytes(), file
    with Vault.open(tmp_path / "vault") as vault:
        assert in_order(vault).column_names[-1] == "person:"
