"""Killed, interrupted or short of room at any step of a discovery, or of a draft within the promise.

What was told is on record and charged, or nothing was told; a vault is there with its first rows, or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import treering as tr
from support.faulty_disk import FaultyDisk, faulty_disk
from support.interrupts import Interrupt
from support.torture import Session, run
from support.vaults import crash
from treering.trusted.ledger.disk import Stage
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"ward": tr.categories("north", other=True), "cost": tr.numbers(0, 100)})
ROWS = pa.table({"ward": ["north", "tele", "hospice", "tele"] * 1000, "cost": np.arange(4000.0) % 100})
SHARE = 0.2


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("discoveries") / "vault"
    with Vault.create(place, SCHEMA, 1.0, 1e-6, discoveries=True) as vault:
        vault.append(ROWS)
        vault.ask("ward = 'north'")
    return place


def left(vault: Vault) -> float:
    return vault.left(1) / vault.total


def check(place: Path, before: float, told: Any = None) -> None:
    """What was told is on record; what is on record is charged; the same key gives it, and pays once at most."""
    with Vault.open(place, wait=0) as vault:
        known, now = vault.discovered("ward"), left(vault)
        charged = pytest.approx(before - SHARE, abs=1e-9)
        assert now == charged if known.num_rows else now == pytest.approx(before, abs=1e-9) or now == charged
        assert told is None or known == told
        again = vault.discover("ward", SHARE, key="one")
        assert told is None or again == told
        assert again["value"].to_pylist() == ["hospice", "tele"]
        assert left(vault) >= before - 2 * SHARE - 1e-9
        assert vault.verify()["size"] == vault.size


def discovering(place: Path, _: Session, say: Callable[..., None]) -> None:
    """A session that discovers at once."""
    vault = Vault.open(place)
    say("begun", left=left(vault))
    say("told", values=vault.discover("ward", SHARE, key="one")["count"].to_pylist())


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("step", [Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED], ids=lambda step: step.name)
def test_killed_in_a_discovery(
    original: Path, tmp_path: Path, step: Stage, record_property: Callable[[str, object], None]
) -> None:
    place = Path(shutil.copytree(original, tmp_path / "vault"))
    said = run(Session(1, step), discovering, place)
    assert said[-1][0] == "begun"
    check(place, said[0][1]["left"])
    record_property("kills", [step.name])


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_ledgers_disk_fails_at_each_write_of_a_discovery(original: Path, disk: FaultyDisk, tmp_path: Path) -> None:
    passing, told = 0, None
    while told is None:
        place = Path(shutil.copytree(original, tmp_path / f"{passing}"))
        vault = Vault.open(place)
        before = left(vault)
        disk.arm(apsw.FullError, passing)
        with suppress(tr.VaultError):
            told = vault.discover("ward", SHARE, key="one")
        disk.disarm()
        vault.close()
        check(place, before, told)
        passing += 1
    assert passing > 1


STRIDE = 1 if "TORTURE_KILLS" in os.environ else 7
FILES = ("vault/discovering.py", "operations/discover.py", "trusted/kernel.py", "ledger/ledger.py", "series/shelf.py")


def test_an_interrupt_at_any_step_of_a_discovery(original: Path, tmp_path: Path) -> None:
    step, fell = 0, True
    while fell:
        place = Path(shutil.copytree(original, tmp_path / f"{step}"))
        vault = Vault.open(place)
        before, told = left(vault), None
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            told = vault.discover("ward", SHARE, key="one")
        fell = interrupt.fell
        with suppress(tr.TreeringError):
            vault.append(ROWS.slice(0, 1))
        crash(vault)
        check(place, before, told)
        shutil.rmtree(place)
        step += STRIDE
    assert step > 20


# -- drafts ------------------------------------------------------------------------------------------------------------


def drafting(place: Path, _: Session, say: Callable[..., None]) -> None:
    """A session that makes a vault of a file."""
    say("begun")
    Vault.create(place / "v", None, 4.0, 1e-6, draft=place / "rows.parquet", share=SHARE).close()
    say("ended")


STEPS = [Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED, Stage.ROWS_DURABLE, Stage.ROWS_COUNTED]


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("arrival", [1, 2])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_killed_while_a_vault_is_drafted(tmp_path: Path, step: Stage, arrival: int) -> None:
    """There is no vault, or it is whole; and another try makes one."""
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    said = run(Session(1, step, arrival), drafting, tmp_path)
    if (tmp_path / "v").exists():
        assert Vault.read(tmp_path / "v").verify()["size"] == ROWS.num_rows
        shutil.rmtree(tmp_path / "v")
    else:
        assert said[-1][0] == "begun"
    with Vault.create(tmp_path / "v", None, 4.0, 1e-6, draft=tmp_path / "rows.parquet", share=SHARE) as vault:
        assert (vault.size, vault.left(ROWS.num_rows + 1)) == (ROWS.num_rows, vault.total)
        assert vault.left(1) < vault.total
