"""Write failures and kills at every step of a refresh: each row of the table is in the vault once, and nothing is lost.

The session has a lease, so that there is something to lose.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import treering as tr
from support.faulty_disk import FaultyDisk, faulty_disk
from support.growing_table import GrowingTable
from support.table_vaults import Before, check_once, created, found, in_a_run, opened
from support.torture import Session, run
from support.vaults import crash
from treering.trusted.ledger.disk import Stage

ERRORS = {apsw.FullError: "the disk is full", apsw.IOError: "the disk failed"}
COMMIT = [Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED]
REFRESH = [*COMMIT, Stage.ROWS_DURABLE, Stage.ROWS_COUNTED]

# The second failure of one statement cannot be raised: apsw hands it to sys.unraisablehook.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::treering.DroppedRows"
)


@pytest.fixture(autouse=True, scope="module")
def own_claims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> GrowingTable:
    return GrowingTable(tmp_path_factory.mktemp("table") / "rows.duckdb", 20_000, 21_000)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, table: GrowingTable) -> Path:
    place = tmp_path_factory.mktemp("refreshes") / "vault"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tr.DroppedRows)
        created(place, table)
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "vault"))


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


# -- write failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ERRORS)
def test_the_ledgers_disk_fails_at_each_write(
    original: Path, table: GrowingTable, disk: FaultyDisk, error: type[apsw.Error], tmp_path: Path
) -> None:
    passing, failed = 0, True
    while failed:
        place = Path(shutil.copytree(original, tmp_path / f"{passing}"))
        vault = opened(place, table)
        before = in_a_run(vault)
        disk.arm(error, passing)
        try:
            vault.refresh("drop")
            failed = False
        except tr.VaultError as failure:
            said = str(failure)
            failed = True
        disk.disarm()
        if failed:
            assert disk.refused
            assert f"its ledger could not be written ({ERRORS[error]})" in said
            with pytest.raises(tr.VaultError, match="see to the disk, then open the vault again"):
                vault.refresh("drop")
            vault.close()
        else:
            crash(vault)
        with opened(place, table) as vault:
            check_once(vault, table, before, crashed=True)
        passing += 1
    assert passing > 2


# -- kills -------------------------------------------------------------------------------------------------------------


def refreshing(table: GrowingTable) -> Callable[[Path, Session, Callable[..., None]], None]:
    """A session that refreshes a vault in which questions were asked."""

    def life(place: Path, _: Session, say: Callable[..., None]) -> None:
        warnings.simplefilter("ignore", tr.DroppedRows)
        vault = opened(place, table)
        before = in_a_run(vault)
        say("asked", before=before)
        say("refreshed", size=vault.refresh("drop"))

    return life


@pytest.mark.parametrize("step", REFRESH, ids=lambda step: step.name)
def test_killed_while_it_refreshes(
    place: Path, table: GrowingTable, step: Stage, record_property: Callable[[str, object], None]
) -> None:
    """A commit of the easy answer comes before that of the rows."""
    (asked,) = run(Session(0, step, 1 + (step in COMMIT)), refreshing(table), place)  # It had not refreshed.
    before = Before(*asked[1]["before"])
    with opened(place, table) as vault:
        assert found(vault) == (table.before if step in (Stage.COMMIT_BEGUN, Stage.COMMIT_READY) else table.after)
        check_once(vault, table, before, crashed=True)
    record_property("kills", [step.name])
