"""Mechanisms under the suite that every one inherits, over a vault's journal: each replay goes through the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.events import codec_of
from support.mechanism_contract import SCHEMA, MechanismContract, rows
from treering.boxes.histogram import HistogramBox
from treering.budget.promise import Budget
from treering.domain.schema import Schema
from treering.domain.workload import random_conjunctions
from treering.errors import NotAVault
from treering.mechanisms.continual import ContinualHistogram
from treering.schedulers.improver import BBImprover
from treering.schedulers.scheduler import BBScheduler
from treering.trusted.kernel import Kernel
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.checkpoints import Checkpoints
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.journal import LedgerJournal, recover
from treering.trusted.ledger.lines import check
from treering.trusted.ledger.record import Record


class VaultedDatabase(TestDatabase):
    """A database whose gates each read the journal from its file, through SQLite and the codec, as a vault does.

    Only the first gate's journal writes; one that is made later, to compare, takes over.
    """

    def __init__(self, schema: Schema, folder: Path, cells: Sequence[int] = ()) -> None:
        self._path = folder / "ledger.sqlite"
        (folder / "checkpoints").mkdir()
        self._checkpoints = Checkpoints(folder / "checkpoints")
        ledgers.create(self._path).close()
        super().__init__(schema, cells, self._opened())

    def open_gate(self, budget: Budget) -> Kernel:
        live = self.journal
        if live.events():
            assert isinstance(live, LedgerJournal)
            live.close()
            self.journal = self._opened()
        return super().open_gate(budget)

    def _opened(self) -> LedgerJournal:
        ledger = ledgers.open_writer(self._path)
        entries = list(check(ledgers.rows_of(ledger._connection)))
        list(ledger.read())
        recovered = recover(entries, codec_of(SCHEMA), self._checkpoints)
        assert recovered.lost == ()
        journal = LedgerJournal(ledger, 0, codec_of(SCHEMA), self._checkpoints)
        journal.take_up(recovered, ledger.secrets(), 0)
        return journal


class _VaultedContract(MechanismContract):
    population = 40_000
    bad_parameters = ()

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._factory = tmp_path_factory

    def database(self, seed: int = 1) -> VaultedDatabase:
        return VaultedDatabase(SCHEMA, self._factory.mktemp("vaulted"), rows(self.population, seed))

    def same(self, one: tr.Answer, other: tr.Answer) -> bool:
        return abs(one.value - other.value) <= one.error + other.error

    @pytest.mark.parametrize("seed", range(2))
    def test_replaying_the_journal_gives_the_live_state(self, seed: int) -> None:
        """As in the suite; but the one that was replayed goes on."""
        generator = np.random.default_rng(seed)
        db = self.database(seed)
        live = self.make(db)
        for query in random_conjunctions(SCHEMA, 25, generator):
            live.ask(query)
            self.grow(db)
            replayed = self.make(db)
            assert replayed.state == live.state
            assert replayed.spent == live.spent
            live = replayed


class TestPMWGVaulted(_VaultedContract):
    def make(self, db: Any, **options: Any) -> tr.PMWG:
        return tr.PMWG(db, **{"epsilon": self.epsilon, "delta": 1e-6, "alpha": 0.1, "beta": 0.05, **options})


class TestGuardVaulted(_VaultedContract):
    def make(self, db: Any, **options: Any) -> tr.PMWG:
        given = {"epsilon": self.epsilon, "delta": 1e-6, "alpha": 0.3, "beta": 0.05, "measure_first": False}
        return tr.PMWG(db, **{**given, **options})


class TestPaperVaulted(_VaultedContract):
    def make(self, db: Any, **options: Any) -> tr.PMWG:
        return tr.PMWG(db, **{"epsilon": self.epsilon, "alpha": 0.9, "beta": 0.05, "profile": "paper", **options})

    def same(self, one: tr.Answer, other: tr.Answer) -> bool:
        return one.size == other.size


class TestContinualVaulted(_VaultedContract):
    population = 2000

    def make(self, db: Any, **options: Any) -> ContinualHistogram:
        return ContinualHistogram(db, **{"epsilon": self.epsilon, "delta": 1e-6, "beta": 0.05, **options})

    def test_a_replayed_one_goes_on_where_the_live_one_was(self) -> None:
        """Growth changes it, not questions."""
        db = self.database()
        live = self.make(db)
        live.ask("late = 'yes'")
        for _ in range(20):
            db.append_cells(rows(50))
        again = self.make(db)
        assert again.state == live.state
        assert again.ask("late = 'yes'", since=again.boundaries[-2]).size > 0


class TestRingsVaulted(_VaultedContract):
    population = 2000

    def make(self, db: Any, **options: Any) -> tr.Rings:
        return tr.Rings(db, **{"epsilon": self.epsilon, "delta": 1e-6, "beta": 0.05, **options})


class TestPureRingsVaulted(TestRingsVaulted):
    def make(self, db: Any, **options: Any) -> tr.Rings:
        return tr.Rings(db, **{"epsilon": self.epsilon, "beta": 0.05, **options})


class _EpochsVaulted(_VaultedContract):
    def test_a_replayed_one_goes_on_where_the_live_one_was(self) -> None:
        """Growth changes it, not questions."""
        db = self.database()
        live = self.make(db)
        live.ask("late = 'yes'")
        db.append_cells(rows(live.next_epoch - db.size))
        assert len(live.epochs) == 2
        again = self.make(db)
        assert again.state == live.state
        assert again.ask("month <= 3") == live.ask("month <= 3")


class TestBBSchedulerVaulted(_EpochsVaulted):
    def make(self, db: Any, **options: Any) -> BBScheduler:
        return BBScheduler(db, **{"box": HistogramBox(), "epsilon": self.epsilon, "delta": 1e-6, **options})


class TestBBImproverVaulted(_EpochsVaulted):
    def make(self, db: Any, **options: Any) -> BBImprover:
        return BBImprover(db, **{"box": HistogramBox(), "epsilon": self.epsilon, "delta": 1e-6, **options})


def test_a_ledger_is_made_once(tmp_path: Path) -> None:
    ledgers.create(tmp_path / "ledger.sqlite").close()
    with pytest.raises(tr.VaultError, match="cannot write .*: File exists"):
        ledgers.create(tmp_path / "ledger.sqlite")
    with pytest.raises(NotAVault, match="never finished"):
        Record.of([], Folder(tmp_path))
