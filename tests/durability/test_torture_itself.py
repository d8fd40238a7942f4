"""The witness sees each kind of loss: vaults that are broken on purpose do not pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.torture import Session, Witness, create, live, run
from treering.errors import DamagedVault
from treering.trusted.changes.rewriting import Rewriting
from treering.trusted.journal import MemoryJournal
from treering.trusted.ledger.disk import NewFile, Stage
from treering.trusted.ledger.journal import LedgerJournal, Recovered
from treering.trusted.ledger.ledger import Ledger
from treering.trusted.ledger.lines import ANSWERS

pytestmark = pytest.mark.usefixtures("warmed")


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    """Commits that come after the answers have left: never, if the process is killed."""
    written = Ledger._write_lines
    seen = 0

    def write(ledger: Ledger, waiting: Any, put: Any, dropped: Any) -> None:
        nonlocal seen
        seen += 1
        if seen < 6:
            written(ledger, waiting, put, dropped)
        else:
            ledger._seq += len(waiting)

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
    patch.setattr(NewFile, "name", lambda *_: None)


def _sealed_without_its_last_row(patch: pytest.MonkeyPatch) -> None:
    """A part that lacks a row of the tail, which is gone then."""
    seal = Rewriting._written

    def lossy(own: Rewriting, place: int, first: int, last: int, tables: Any, *rest: Any) -> Any:
        *others, end = tables
        return seal(own, place, first, last, [*others, end.slice(0, end.num_rows - 1)], *rest)

    patch.setattr(Rewriting, "_written", lossy)


def _merged_in_another_order(patch: pytest.MonkeyPatch) -> None:
    """A part whose rows have changed places."""
    replace = Rewriting._written

    def mixed(own: Rewriting, place: int, first: int, last: int, tables: Any, *rest: Any) -> Any:
        return replace(own, place, first, last, list(tables)[::-1], *rest)

    patch.setattr(Rewriting, "_written", mixed)


@pytest.mark.parametrize(
    ("broken", "found", "message"),
    [
        (_forgetful, (AssertionError, DamagedVault), None),
        (_without_leases, AssertionError, "a query was forgotten"),
        (_without_keys, AssertionError, None),
        (_named_before_written, (AssertionError, DamagedVault), "is missing, or not what was written"),
        (_sealed_without_its_last_row, (AssertionError, DamagedVault), "rows where|is missing, or not what was"),
        (_merged_in_another_order, DamagedVault, "has other rows than were written"),
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
