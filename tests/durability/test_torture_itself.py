"""The witness sees each kind of loss: vaults that are broken on purpose do not pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.torture import Session, Witness, create, live, run
from treering.errors import DamagedVault
from treering.trusted.journal import MemoryJournal
from treering.trusted.rows.batches import Base
from treering.vault.files import Stage
from treering.vault.journal import LedgerJournal, Recovered
from treering.vault.ledger import Ledger
from treering.vault.lines import ANSWERS

pytestmark = pytest.mark.usefixtures("warmed")


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    """Commits that come after the answers have left: never, if the process is killed."""
    written = Ledger._write_lines
    seen = 0

    def write(ledger: Ledger, lines: Any, put: Any, dropped: Any) -> None:
        nonlocal seen
        seen += 1
        if seen < 6:
            written(ledger, lines, put, dropped)
        else:
            ledger._seq += len(lines)

    patch.setattr(Ledger, "_write_lines", write)


def _without_leases(patch: pytest.MonkeyPatch) -> None:
    def lease(journal: LedgerJournal, size: int, run: int, asked: int) -> None:
        journal._leases[run] = asked + 0 * size

    patch.setattr(LedgerJournal, "_lease", lease)


def _without_keys(patch: pytest.MonkeyPatch) -> None:
    written = Ledger.write

    def write(ledger: Ledger, line: Any, **given: Any) -> None:
        if line.kind != ANSWERS:
            written(ledger, line, **given)

    patch.setattr(Ledger, "write", write)


def _named_before_written(patch: pytest.MonkeyPatch) -> None:
    """The ledger names a part that never came to be."""
    patch.setattr("treering.vault.parts.write_file", lambda *_: None)


def _lying_bases(patch: pytest.MonkeyPatch) -> None:
    """A base that holds one row more than its parts in one cell, and one less in another."""
    packed = Base.packed

    def lie(base: Base) -> list[bytes]:
        last = list(base.stretches.values())[-1]
        several = (last.counts > 1).argmax()
        last.counts = last.counts.copy()
        last.counts[several] -= 1
        last.counts[several - 1] += 1
        return packed(base)

    patch.setattr(Base, "packed", lie)


@pytest.mark.parametrize(
    ("broken", "found", "message"),
    [
        (_forgetful, (AssertionError, DamagedVault), None),
        (_without_leases, AssertionError, "a query was forgotten"),
        (_without_keys, AssertionError, None),
        (_named_before_written, DamagedVault, "is missing, or not what was written"),
        (_lying_bases, AssertionError, "other counts than the parts"),
    ],
)
def test_a_broken_vault_is_found(
    broken: Callable[[pytest.MonkeyPatch], None],
    found: type[Exception] | tuple[type[Exception], ...],
    message: str | None,
    tmp_path: Path,
) -> None:
    """Within a few sessions of 40 operations, each killed at an answer far on."""
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)

    def breaking(where: Path, session: Session, say: Callable[..., None]) -> None:
        broken(pytest.MonkeyPatch())  # in the child, which takes it along when it dies
        live(where, session, say)

    def torture() -> None:
        for seed in range(6):
            witness.check(run(Session(seed, Stage.ANSWERED, arrival=14), breaking, place))

    with pytest.raises(found, match=message):
        torture()


def test_a_run_that_goes_on_without_its_lease_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Openings that count what a lost lease covers, and let its run go on."""
    take_up = LedgerJournal.take_up

    def forgiving(journal: LedgerJournal, recovered: Recovered, *given: Any) -> None:
        take_up(journal, replace(recovered, lost=()), *given)
        for lost in recovered.lost:
            journal._write(lost)
            MemoryJournal.write(journal, lost)

    monkeypatch.setattr(LedgerJournal, "take_up", forgiving)
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)

    def torture() -> None:
        for seed in range(6):
            witness.check(run(Session(seed, Stage.ANSWERED, arrival=14), live, place))

    with pytest.raises(AssertionError, match="a run goes on whose lease was not given back"):
        torture()


def test_a_whole_vault_passes(tmp_path: Path) -> None:
    """The same sessions, unbroken."""
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)
    for seed in range(3):
        witness.check(run(Session(seed, Stage.ANSWERED, arrival=14), live, place))
    assert {"easy", "hard", "measured"} <= witness.kinds
