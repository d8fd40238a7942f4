"""Write failures and kills while a vault is opened that has something to write: a lost lease, an open reservation.

However often an opening fails or is killed, the vault's next one finds what the first would have, and writes it once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import apsw
import pytest

import treering as tr
from support.faulty_disk import FaultyDisk, faulty_disk
from support.torture import Session, run
from support.unfinished import UNFINISHED, Seen, seen
from support.vaults import crash
from treering.boxes import histogram
from treering.theory.static import histogram_radius
from treering.trusted.ledger.disk import Stage
from treering.vault.vault import Vault

ERRORS = {apsw.FullError: "the disk is full", apsw.IOError: "the disk failed"}
COMMIT = [Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED]

# The second failure of one statement cannot be raised: apsw hands it to sys.unraisablehook.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scheduler computes at every opening takes most of the time."""
    monkeypatch.setattr(histogram, "histogram_radius", cache(histogram_radius))


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


class Unfinished:
    """A vault whose last session did not end, for as many openings as there are copies."""

    def __init__(self, place: Path, begin: Callable[[Path], None], writes: int) -> None:
        self._place = place
        begin(place / "original")
        public = Vault.read(place / "original").status()
        self._head = public["head"]
        self._expected = self._seen(self.copy("expected"))
        assert len(self._expected.lines) == public["entries"] + writes

    def copy(self, name: str) -> Path:
        return Path(shutil.copytree(self._place / "original", self._place / name))

    def _seen(self, place: Path) -> Seen:
        return seen(place, self._head)

    def check(self, place: Path) -> None:
        """The next opening finds what it should, and the one after it finds the same."""
        assert self._seen(place) == self._expected
        assert self._seen(place) == self._expected


@pytest.fixture(params=UNFINISHED, ids=lambda given: given[0].__name__)
def unfinished(request: pytest.FixtureRequest, tmp_path: Path) -> Unfinished:
    return Unfinished(tmp_path, *request.param)


@pytest.mark.parametrize("error", ERRORS)
def test_the_ledgers_disk_fails_at_each_write_of_an_opening(
    unfinished: Unfinished, disk: FaultyDisk, error: type[apsw.Error]
) -> None:
    """The vault is refused, and nobody is locked out of it."""
    passing, failures, refused = 0, [], True
    while refused:
        place = unfinished.copy(f"{passing}")
        disk.arm(error, passing)
        try:
            vault = Vault.open(place)
        except tr.VaultError as failure:
            failures.append(str(failure))
        refused = disk.refused > 0
        disk.disarm()
        if not refused:
            crash(vault)
        unfinished.check(place)
        passing += 1
    assert len(failures) >= 2
    assert all(ERRORS[error] in failure for failure in failures)


def opening(place: Path, _: Session, say: Callable[..., None]) -> None:
    """A session that does not come to its end."""
    Vault.open(place)
    say("opened")


@pytest.mark.parametrize("step", COMMIT, ids=lambda step: step.name)
def test_killed_while_it_is_opened(
    unfinished: Unfinished, step: Stage, record_property: Callable[[str, object], None]
) -> None:
    place = unfinished.copy("killed")
    for _ in range(3):
        assert run(Session(0, step), opening, place) == []
        if step is Stage.COMMITTED:
            assert run(Session(0, step), opening, place) == [["opened", {}]]  # What it had to write is written.
            break
    unfinished.check(place)
    record_property("kills", [step.name])
