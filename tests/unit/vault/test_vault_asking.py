"""A question that is interrupted when its answer is known to be hard: the crossing is on record, or its run is over."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.interrupts import Interrupt
from support.vaults import asked, frame, guarded, journal, kinds, leased, surely_easy, surely_hard
from treering.trusted.ledger.journal import LedgerJournal
from treering.vault.vault import Vault

STRIDE = 1 if "TORTURE_KILLS" in os.environ else 19
FILES = (
    *(
        "trusted/kernel.py",
        "trusted/charges.py",
        "operations/run.py",
        "trusted/journal.py",
        "ledger/journal.py",
        "vault/together.py",
    ),
    *("mechanisms/tight.py", "mechanisms/base.py"),
)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    guarded(tmp_path / "original").close()
    return tmp_path / "original"


def broken(*_: Any) -> None:
    raise MemoryError


def crossings(vault: Vault) -> int:
    return sum(1 for line in vault.ledger() if line["kind"] == "Compared" and line["body"]["crossing"])


def test_an_interrupt_at_any_step_of_a_hard_answer(original: Path, tmp_path: Path) -> None:
    """The vault goes on, and nothing happened; or it stops, and who sees that sees a crossing that is paid for. Before,
    a run could be over for whoever asked on, and in progress when the vault was opened again."""
    rows = frame(20_000)
    with Vault.open(original) as vault:
        easy, hard = surely_easy(vault, rows), surely_hard(vault, rows)
    step, fell, outcomes = 0, True, []
    while fell:
        place = Path(shutil.copytree(original, tmp_path / f"{step}"))
        vault = Vault.open(place)
        assert vault.ask(easy).kind == "easy"
        (run,) = journal(vault)._secrets
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            vault.ask(hard)
        fell, went_on = interrupt.fell, True
        try:
            assert vault.ask(easy).kind == "easy"
        except tr.VaultError as refusal:
            went_on = False
            outcomes.append(str(refusal))
        vault.close()
        with Vault.open(place) as vault:
            assert asked(vault) >= 2 + (not fell)
            assert (run in journal(vault)._secrets) == (went_on and crossings(vault) == 0)
            assert vault.ask(hard).kind in ("hard", "cached")
            vault.verify()
        shutil.rmtree(place)
        step += STRIDE
    assert step > 200
    assert len(outcomes) > 5
    assert all("it was interrupted in the middle of an operation" in each for each in outcomes)


def test_a_crossing_that_could_not_be_recorded_stops_the_vault(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for an interrupt, but for want of memory."""
    rows = frame(20_000)
    vault = Vault.open(original)
    easy, hard = surely_easy(vault, rows), surely_hard(vault, rows)
    assert vault.ask(easy).kind == "easy"
    assert leased(vault)
    (run,) = journal(vault)._secrets
    with monkeypatch.context() as patch:
        patch.setattr(LedgerJournal, "_write_pending", broken)
        with pytest.raises(MemoryError):
            vault.ask(hard)
    with pytest.raises(tr.VaultError, match="it was interrupted in the middle of an operation"):
        vault.ask(easy)
    vault.close()
    with Vault.open(original) as vault:
        assert run not in journal(vault)._secrets
        assert kinds(vault).count("RunEnded") == 1
        assert crossings(vault) == 0
        vault.verify()
