"""Between the durable line and memory: whoever is interrupted there stops the vault, and the next opening goes on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import treering as tr
from support.interrupts import Interrupt
from support.vaults import BETA, SCHEMA, crash, frame, guarded, with_line
from treering.trusted.ledger.disk import Stage, observe
from treering.trusted.ledger.lines import MECHANISM, Line, body
from treering.trusted.rows.intake import DroppedRows
from treering.trusted.rows.persons import Persons
from treering.vault.vault import Vault


def add(vault: Vault) -> object:
    """Another mechanism, with all that is left of the promise."""
    return vault.add("continual", 0.5, name="second")


def append(vault: Vault) -> object:
    """A batch with a key."""
    return vault.append(frame(300, seed=3), key="batch")


def interrupted_at(stage: Stage, vault: Vault, work: Callable[[Vault], object]) -> None:
    """Do something with a vault, and be interrupted at this stage."""

    def interrupt(reached: Stage) -> None:
        if reached is stage:
            raise KeyboardInterrupt

    observe(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            work(vault)
    finally:
        observe(None)


@pytest.mark.parametrize("stage", [Stage.COMMITTED, Stage.MECHANISM_DURABLE])
def test_a_mechanism_is_added_once(tmp_path: Path, stage: Stage) -> None:
    """Before, the line was durable, memory did not know it, and adding another gave shares of 1.5 in all."""
    place = tmp_path / "vault"
    vault = guarded(place, share=0.5)
    interrupted_at(stage, vault, add)
    with pytest.raises(tr.VaultError, match="the vault stopped because it was interrupted"):
        vault.add("continual", 0.5, name="third")
    crash(vault)
    with Vault.open(place) as vault:
        assert [each["name"] for each in vault.status()["mechanisms"]] == ["pmwg", "second"]
        with pytest.raises(tr.ParameterError, match="share"):
            vault.add("continual", 0.5, name="third")
        assert vault.verify()["mechanisms"] == 2


@pytest.mark.parametrize("stage", [Stage.COMMITTED, Stage.ROWS_DURABLE, Stage.ROWS_COUNTED])
def test_a_batch_with_a_key_is_taken_once(tmp_path: Path, stage: Stage) -> None:
    place = tmp_path / "vault"
    vault = guarded(place, rows=1000)
    interrupted_at(stage, vault, append)
    if stage is Stage.ROWS_COUNTED:  # all of it happened
        assert vault.append(frame(300, seed=3), key="batch") == 1300
    else:
        with pytest.raises(tr.VaultError, match="the vault stopped because it was interrupted"):
            vault.append(frame(300, seed=3), key="batch")
    crash(vault)
    with Vault.open(place) as vault:
        assert vault.append(frame(300, seed=3), key="batch") == 1300
        assert vault.verify()["size"] == 1300


STRIDE = 1 if "TORTURE_KILLS" in os.environ else 7
FILES = ("vault/vault.py", "trusted/store.py", "ledger/ledger.py", "rows/parts.py", "rows/kept.py", "rows/persons.py")


@pytest.mark.parametrize("work", [add, append])
def test_an_interrupt_at_any_step_loses_and_doubles_nothing(tmp_path: Path, work: Callable[[Vault], object]) -> None:
    """The vault goes on as if nothing had happened, or stops; either way a retry after opening gives one of each."""
    step, fell = 0, True
    while fell:
        place = tmp_path / f"{step}"
        vault = guarded(place, rows=1000, share=0.5)
        interrupt = Interrupt(step, *FILES)
        try:
            with interrupt:
                work(vault)
        except KeyboardInterrupt:
            pass
        fell = interrupt.fell
        crash(vault)
        with Vault.open(place) as vault:
            if work is append or len(vault.status()["mechanisms"]) == 1:
                work(vault)
            assert vault.verify()["size"] == vault.size == (1300 if work is append else 1000)
            assert len(vault.status()["mechanisms"]) == (1 if work is append else 2)
        step += STRIDE
    assert step > 70


def test_where_warnings_are_errors_a_vault_takes_nothing(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault", rows=0) as vault:
        bad = [{"origin": "EWR", "month": 1, "late": "no"}, {"origin": "Mars", "month": 1, "late": "no"}]
        lines = vault.status()["entries"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(DroppedRows):
                vault.append(bad, on_invalid="drop", key="a")
        assert (vault.size, vault.status()["entries"]) == (0, lines)
        with pytest.warns(DroppedRows):
            assert vault.append(bad, on_invalid="drop", key="a") == 1


# -- a record that says more than it may -------------------------------------------------------------------------------


def refused(place: Path, problem: str) -> None:
    """Neither opening nor verifying a vault accepts it."""
    with pytest.raises(tr.DamagedVault, match=problem):
        Vault.open(place)
    with pytest.raises(tr.DamagedVault, match=problem):
        Vault.read(place).verify()


@pytest.mark.parametrize(
    ("name", "share", "problem"),
    [("second", "3/4", "the shares of the mechanisms on record exceed"), ("pmwg", "1/4", "two mechanisms on record")],
)
def test_mechanisms_that_cannot_stand_side_by_side(tmp_path: Path, name: str, share: str, problem: str) -> None:
    place = tmp_path / "vault"
    guarded(place, share=0.5).close()
    with_line(place, Line(MECHANISM, body(name=name, kind="continual", share=share, options={})))
    refused(place, problem)


def test_a_key_that_was_used_twice(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    with guarded(place, rows=1000) as vault:
        vault.append(frame(300, seed=3), key="batch")
        line = vault._store._record.keys["batch"]
    with_line(place, Line(line.kind, line.body, key=line.key, commitment=line.commitment))
    refused(place, "the idempotency key 'batch' is on record twice|part")


def test_a_person_with_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "vault"
    vault = Vault.create(place, SCHEMA, 1.0, 1e-6, beta=BETA, mechanism=None, rows_per_person=2, person="who")
    row = {"origin": "EWR", "month": 1, "late": "no", "who": "Ada"}
    with monkeypatch.context() as patch:
        patch.setattr(Persons, "admitted", lambda _, digests, __: np.ones(len(digests), np.bool_))
        vault.append([row] * 3)
    vault.close()
    with Vault.open(place) as vault:  # Rows of persons are counted when some come.
        for use in (vault.verify, lambda: vault.append([{**row, "who": "Bob"}])):
            with pytest.raises(tr.DamagedVault, match="a person has more than 2 rows on record"):
                use()
