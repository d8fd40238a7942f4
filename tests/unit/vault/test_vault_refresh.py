"""A vault's refresh that is interrupted is whole or absent: a retry takes each row of the table once."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.growing_table import SCHEMA, Content, GrowingTable
from support.interrupts import Interrupt
from support.vaults import BETA, DELTA, EPSILON, asked, crash, kinds, leased
from treering.vault.vault import Vault

EVERY_STEP = "TORTURE_KILLS" in os.environ

FILES = (
    *("vault/vault.py", "vault/sources.py", "vault/ledger.py", "vault/parts.py", "vault/journal.py", "vault/files.py"),
    *("vault/together.py", "trusted/counts.py", "rows/batches.py", "trusted/database.py"),
)

EASY = "month <= 6"
"""About half of the rows, by the table and by a histogram that has not learnt anything."""


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.DroppedRows)
        yield


@pytest.fixture
def table(tmp_path: Path) -> GrowingTable:
    return GrowingTable(tmp_path / "rows.duckdb", 20_000, 21_000)


@pytest.fixture
def original(tmp_path: Path, table: GrowingTable) -> Path:
    """A vault with the first rows of a table that has grown since."""
    options: dict[str, Any] = {"alpha": 0.1, "beta": BETA, "measure_first": False}
    place = tmp_path / "original"
    with Vault.create(
        place, SCHEMA, EPSILON, DELTA, mechanism="pmwg", share=0.5, table=table.address, **options
    ) as vault:
        vault.add("continual", 0.5)
        vault.refresh("drop")
        vault.ask("late = 'yes'")
    table.grow()
    return place


def opened(place: Path, table: GrowingTable) -> Vault:
    """A vault that asks the table only what it was asked before."""
    vault = Vault.open(place, wait=0)
    attached: Any = vault._source
    attached._source = table.known
    return vault


def found(vault: Vault) -> Content:
    return Content(vault.size, vault.status()["dropped"], vault._counts.marginal((0, 1)).tolist())


@pytest.mark.parametrize(
    ("crashes", "stride", "files"),
    [(True, 29, FILES), (False, 29, FILES), (False, 2, ("vault/journal.py",))],
    ids=["crashes", "goes on", "goes on with its lease"],
)
def test_an_interrupt_at_any_step_of_a_refresh(
    crashes: bool, stride: int, files: tuple[str, ...], original: Path, table: GrowingTable, tmp_path: Path
) -> None:
    """The vault stops, or a retry of the refresh succeeds at once; either way nothing is lost, nor anything twice."""
    step, fell, stopped = 0, True, 0
    while fell:
        place = Path(shutil.copytree(original, tmp_path / f"{step}"))
        vault = opened(place, table)
        vault.ask(EASY)
        questions, spent, head, lines = asked(vault), vault.spent, vault.status()["head"], len(kinds(vault))
        assert leased(vault) > 0
        interrupt = Interrupt(step, *files)
        with suppress(KeyboardInterrupt), interrupt:
            vault.refresh("drop")
        fell, ended = interrupt.fell, False
        if not crashes:
            try:
                assert vault.refresh("drop") == table.after.size
                vault.close()
                ended = True
            except tr.VaultError as refusal:
                stopped += "it was interrupted" in str(refusal)
        if not ended:
            crash(vault)
        with opened(place, table) as vault:
            assert found(vault) in (table.before, table.after)
            assert vault.refresh("drop") == vault.refresh("drop") == table.after.size
            assert found(vault) == table.after
            assert vault.verify(head)["head_found"]
            assert vault.verify()["parts"] == 2
            assert vault.spent == spent
            assert asked(vault) == questions if ended else questions <= asked(vault) <= questions + 2048
            assert kinds(vault)[lines:].count("rows") == 1
        shutil.rmtree(place)
        step += 1 if EVERY_STEP else stride
    assert step > 30
    assert crashes or stopped
