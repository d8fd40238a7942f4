"""An opening that is interrupted leaves no lock behind, and the next one finds and writes what it would have."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

import treering as tr
from support.interrupts import Interrupt
from support.parts import make_often
from support.torture import batch
from support.unfinished import files, seen, with_a_lease, with_a_reservation, with_files
from support.vaults import BETA, DELTA, EPSILON, SCHEMA, crash, guarded, questions
from treering.boxes import histogram
from treering.theory.static import histogram_radius
from treering.vault import members
from treering.vault.vault import Vault

EVERY_STEP = "TORTURE_KILLS" in os.environ
OPENING = (
    *(
        "vault/vault.py",
        "trusted/store.py",
        "trusted/reading.py",
        "ledger/record.py",
        "ledger/shares.py",
        "ledger/ledger.py",
        "ledger/lines.py",
        "rows/parts.py",
        "rows/spool.py",
    ),
    *(
        "ledger/checkpoints.py",
        "ledger/journal.py",
        "ledger/folder.py",
        "vault/members.py",
        "trusted/kernel.py",
    ),
    *("trusted/cells.py", "trusted/journal.py", "ledger/named.py", "rows/kept.py", "rows/persons.py"),
)


def at_rest(place: Path) -> None:
    """A vault that was closed: with persons, a tree, parts and a tail, and a checkpoint."""
    with (
        Vault.create(place, SCHEMA, 20 * EPSILON, DELTA, mechanism=None, rows_per_person=3, person="who") as vault,
        pytest.MonkeyPatch.context() as patch,
    ):
        vault.add("pmwg", 0.5, alpha=0.1, beta=BETA, measure_first=False)
        vault.add("continual", 0.5)
        vault.append(batch(1000, 1))
        make_often(patch, sealed=2, large=100)
        patch.setattr(members, "_REPLAYED", 1.0)
        vault.ask_many(questions(3), "pmwg")
        vault.ask_many(questions(3), "continual")
        vault.append(batch(30, 2))
        patch.undo()
        vault.append(batch(40, 3))
        vault.ask_many(questions(3, 1), "pmwg")


class Opening(Interrupt):
    """An interrupt in the middle of an opening: not when all is done, and the caller has the vault."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> Interrupt | None:
        if event == "return" and frame.f_code.co_qualname == "Vault.open":
            return self
        return super().__call__(frame, event, argument)


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scheduler computes at every opening takes most of the time."""
    monkeypatch.setattr(histogram, "histogram_radius", cache(histogram_radius))


@pytest.mark.parametrize(
    ("begin", "writes", "stride", "files"),
    [
        (at_rest, 0, 131, OPENING),
        (with_a_lease, 2, 61, OPENING),
        (with_a_reservation, 1, 61, OPENING),
        (with_a_lease, 2, 2, ("ledger/folder.py",)),
        (with_a_lease, 2, 4, ("ledger/journal.py",)),
        (with_files, 0, 5, ("ledger/folder.py",)),
    ],
    ids=["at rest", "with a lease", "with a reservation", "the lock", "the lease", "files that no line names"],
)
def test_an_interrupt_at_any_step_of_an_opening(
    begin: Callable[[Path], None], writes: int, stride: int, files: tuple[str, ...], tmp_path: Path
) -> None:
    original = tmp_path / "original"
    begin(original)
    public = Vault.read(original).status()
    before, lines = public["head"], public["entries"]
    expected = seen(Path(shutil.copytree(original, tmp_path / "expected")), before)
    assert len(expected.lines) - lines == writes
    assert expected.status["head"] == (writes == 0)
    step, fell = 0, True
    while fell:
        place = Path(shutil.copytree(original, tmp_path / f"{step}"))
        interrupt = Opening(step, *files)
        with suppress(KeyboardInterrupt), interrupt:
            vault = Vault.open(place)
        fell = interrupt.fell
        if not fell:
            crash(vault)
        assert seen(place, before) == expected
        shutil.rmtree(place)
        step += 1 if EVERY_STEP else stride
    assert step > 40


def test_files_that_cannot_be_removed_keep_a_vault_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of them: what is gone is not missed, and the next opening removes the rest."""
    with_files(tmp_path / "original")
    before = Vault.read(tmp_path / "original").status()["head"]
    expected = seen(Path(shutil.copytree(tmp_path / "original", tmp_path / "expected")), before)
    strays = len(files(tmp_path / "original")) - len(expected.files)
    remove = Path.unlink
    for passing in range(strays):
        place, left = Path(shutil.copytree(tmp_path / "original", tmp_path / f"{passing}")), [None] * passing

        def unlink(path: Path, left: list[None] = left) -> None:
            if not left:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            left.pop()
            remove(path)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", unlink)
            with pytest.raises(tr.VaultError, match="cannot remove what a crash has left"):
                Vault.open(place)
        assert len(files(place)) == len(expected.files) + strays - passing
        assert seen(place, before) == expected
    assert strays == 5


def test_a_vault_that_is_lost_locks_nobody_out(tmp_path: Path) -> None:
    """As when an interrupt falls just before the caller has it: it is a vault that crashed."""
    guarded(tmp_path / "vault", rows=100).close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        Vault.open(tmp_path / "vault")
        gc.collect()
    with Vault.open(tmp_path / "vault", wait=0) as vault:
        assert vault.size == 100
        with pytest.raises(tr.VaultBusy):
            Vault.open(tmp_path / "vault", wait=0)
