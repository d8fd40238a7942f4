"""The witness sees each kind of loss: vaults that are broken on purpose do not pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.torture import Session, Witness, create, live, run
from treering.errors import DamagedVault
from treering.vault.journal import LedgerJournal
from treering.vault.ledger import Ledger
from treering.vault.lines import ANSWERS
from treering.vault.steps import Step

pytestmark = pytest.mark.usefixtures("warmed")


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    """Commits that come after the answers have left: never, if the process is killed."""
    written = Ledger._write_lines
    seen = 0

    def write(ledger: Ledger) -> None:
        nonlocal seen
        seen += 1
        if seen < 6:
            written(ledger)
        else:
            ledger._lines, ledger._put, ledger._dropped = [], [], []

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


@pytest.mark.parametrize(
    ("broken", "found", "message"),
    [
        (_forgetful, (AssertionError, DamagedVault), None),
        (_without_leases, AssertionError, "a query was forgotten"),
        (_without_keys, AssertionError, None),
        (_named_before_written, DamagedVault, "is missing, or not what was written"),
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
            witness.check(run(Session(seed, Step.ANSWERED, arrival=14), breaking, place))

    with pytest.raises(found, match=message):
        torture()


def test_a_whole_vault_passes(tmp_path: Path) -> None:
    """The same sessions, unbroken."""
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)
    for seed in range(3):
        witness.check(run(Session(seed, Step.ANSWERED, arrival=14), live, place))
    assert {"easy", "hard", "measured"} <= witness.kinds
