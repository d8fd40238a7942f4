"""Killed, interrupted or short of room at any step of an erasure or a correction: the rows are as they were or as they
should be, never between; and once they are, no byte of the folder has what they said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

import treering as tr
from support.faulty_disk import FaultyDisk, attempt_files, faulty_disk, killed
from support.interrupts import Interrupt
from support.parts import often
from support.torture import Session, run
from support.vaults import crash
from treering.trusted.ledger.disk import Stage
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"ward": tr.categories("north", "south", other=True), "cost": tr.integers(0, 100)})
CANARY = b"CANARY-51ac"
WORDS = {"erase": "was erased", "correct": "says south"}
GONE = (3, 70, 150, 230)
"""The keys of rows in two parts and in the tail."""


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {
            "visit": number,
            "who": number // 2,
            "ward": CANARY.decode() if number in GONE else "north",
            "cost": number % 101,
        }
        for number in range(first, last)
    ]


@pytest.fixture(scope="module", autouse=True)
def large() -> Iterator[None]:
    usual = often(large=60)
    yield
    usual()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault of two parts, a tail, and series that have counted what is to go."""
    place = tmp_path_factory.mktemp("erasing") / "vault"
    with Vault.create(place, SCHEMA, 1e9, 1e-6, rows_per_person=2, person="who", key="visit") as vault:
        vault.append(rows(0, 60))
        vault.append(rows(60, 200))
        vault.append(rows(200, 220))
        assert vault.ask("ward = 'north'").count == 217
        vault.append(rows(220, 240))
    return place


def change(vault: Vault, work: str, *, end: bool = True) -> None:
    """Erase the rows, or correct them, and end the series that has counted some."""
    if work == "erase":
        vault.erase(keys=GONE, end=end)
    else:
        vault.correct([{"visit": each, "ward": "south", "cost": 1} for each in GONE], end=end)


def holders(place: Path) -> list[str]:
    return [each.name for each in place.rglob("*") if each.is_file() and CANARY in each.read_bytes()]


def check(place: Path, work: str, *, done: bool | None = None) -> bool:
    """Whether the rows are changed, on the disk and in every answer; ``done``: whether they must be. If they are not,
    they can be."""
    with Vault.open(place, wait=0) as vault:
        found: bool = vault.status()["mechanisms"][0]["series"][0]["ended"]
        assert done is None or found == done
        assert bool(holders(place)) == (not found)
        assert vault.size == 240 - len(GONE) * (found and work == "erase")
        assert vault.verify()["rewritten"] == (3 if found else 0)
        if not found:
            with pytest.raises(tr.DataError, match="1 of 1 key named"):
                vault.erase(keys=[999])
            change(vault, work)
        counts = [vault.ask(f"ward = '{ward}'").count for ward in ("north", "south")]
        assert counts == [236, len(GONE) * (work == "correct")]
        assert holders(place) == []
        vault.verify()
    with Vault.open(place) as vault:
        assert vault.ask("ward = 'north'").count == 236
        assert len(vault.status()["mechanisms"][0]["series"]) == 2
    return found


# -- kills -------------------------------------------------------------------------------------------------------------


def session_of(work: str) -> Callable[[Path, Session, Callable[..., None]], None]:
    def life(place: Path, _: Session, say: Callable[..., None]) -> None:
        often(large=60)
        vault = Vault.open(place)
        say("begun")
        change(vault, work)
        say("ended")

    return life


STEPS = (
    *((step, arrival) for step in Stage if step.name.startswith("PART_") for arrival in (1, 2, 3)),
    *((Stage.COMMIT_BEGUN, arrival) for arrival in (1, 2)),
    *((Stage.COMMIT_READY, arrival) for arrival in (1, 2)),
    *((Stage.COMMITTED, arrival) for arrival in (1, 2)),
    (Stage.PARTS_REPLACED, 1),
)


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("work", WORDS)
@pytest.mark.parametrize(("step", "arrival"), STEPS, ids=lambda given: getattr(given, "name", given))
def test_killed_at_any_step(
    original: Path, step: Stage, arrival: int, work: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The rows are changed from the second commit on: the first only says how many parts are to come."""
    place = Path(shutil.copytree(original, tmp_path / "vault"))
    said = run(Session(1, step, arrival), session_of(work), place)
    assert [what for what, _ in said] == ["begun"]
    check(place, work, done=(step, arrival) in ((Stage.COMMITTED, 2), (Stage.PARTS_REPLACED, 1)))
    record_property("kills", [step.name])


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("work", WORDS)
def test_killed_at_any_write(original: Path, work: str, tmp_path: Path) -> None:
    """At any write or sync of the ledger, and at any file that comes, goes or is named."""
    passing, found = 0, list[bool | None]()
    while not found or found[-1] is not None:

        def life(place: Path, _: Session, say: Callable[..., None], passing: int = passing) -> None:
            often(large=60)
            with faulty_disk() as disk:
                attempt_files(disk)
                vault = Vault.open(place)
                say("begun")
                disk.arm(killed, passing)
                change(vault, work)
                disk.disarm()
                say("ended")

        place = Path(shutil.copytree(original, tmp_path / f"{passing}"))
        ended = bool(run(Session(passing, Stage.PART_OPENED, arrival=10**9), life, place)[1:])
        done = check(place, work)
        found.append(None if ended else done)
        shutil.rmtree(place)
        passing += 1 if ended or passing < 60 else 3
    reached = [each for each in found if each is not None]
    assert reached == sorted(reached)
    assert {*reached} == {True, False}


# -- a full disk, and interrupts ---------------------------------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("work", WORDS)
def test_the_ledgers_disk_is_full_at_each_write(original: Path, work: str, disk: FaultyDisk, tmp_path: Path) -> None:
    passing, failed, problem = 0, True, ""
    while failed:
        place = Path(shutil.copytree(original, tmp_path / f"{passing}"))
        vault = Vault.open(place)
        disk.arm(apsw.FullError, passing)
        failed = False
        try:
            change(vault, work)
        except tr.VaultError as failure:
            failed, problem = True, str(failure)
        refused = disk.refused
        disk.disarm()
        assert not failed or "the disk is full" in problem
        vault.close()
        check(place, work, done=None if failed else True)
        failed = failed or bool(refused)  # The log could not be emptied: closing did it.
        passing += 1
    assert passing > 3


def test_no_room_for_a_new_part_changes_nothing(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(shutil.copytree(original, tmp_path / "vault"))
    with Vault.open(place) as vault:
        state, real, left = vault.status(), os.write, [0]

        def full(descriptor: int, content: bytes) -> int:
            left[0] -= len(content)
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            return real(descriptor, content)

        for room in (0, 2000, 3500, 6000):
            left[0] = room
            monkeypatch.setattr(os, "write", full)
            with pytest.raises(tr.VaultError, match="nothing was taken in|No space|full"):
                change(vault, "erase")
            monkeypatch.undo()
            assert {**vault.status(), "entries": 0, "head": ""} == {**state, "entries": 0, "head": ""}
            assert len(list((place / "parts").glob("*.parquet"))) == 2
        change(vault, "erase")
    assert check(place, "erase", done=True)


STRIDE = 1 if "TORTURE_KILLS" in os.environ else 61
FILES = (
    *("vault/vault.py", "vault/changing.py", "trusted/store.py", "changes/erasing.py", "changes/rewriting.py"),
    *("rows/parts.py", "rows/kept.py", "ledger/ledger.py", "ledger/named.py", "series/shelf.py", "series/base.py"),
    *("mechanisms/rings.py", "trusted/kernel.py"),
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("work", WORDS)
def test_an_interrupt_at_any_step(original: Path, work: str, tmp_path: Path) -> None:
    """The vault goes on with the rows as they were or as they should be, or it stops; the next opening finds one of
    them."""
    step, fell, found = 0, True, list[bool]()
    while fell:
        place = Path(shutil.copytree(original, tmp_path / f"{step}"))
        vault = Vault.open(place)
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            change(vault, work)
        fell = interrupt.fell
        with suppress(tr.TreeringError):
            assert vault.ask("ward = 'south'").count in ({0} if work == "erase" else {0, len(GONE)})
        crash(vault)
        if fell:
            found.append(check(place, work))
        shutil.rmtree(place)
        step += STRIDE
    assert found == sorted(found)
    assert {*found} == {True, False}
