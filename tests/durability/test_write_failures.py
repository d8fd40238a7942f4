"""Disks that are full or fail: a typed error, nothing released that is not on record, and a vault that opens again."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

import treering as tr
from support.faulty_disk import FaultyDisk, faulty_disk
from support.parts import make_often
from support.torture import ASKED, Session, Witness, batch, create, facts, operate, perform, run
from support.vaults import kinds, questions
from treering.trusted.ledger.disk import Stage, observe
from treering.trusted.rows import parts
from treering.vault.vault import Vault

LIVES = 20 if "TORTURE_KILLS" in os.environ else 4

pytestmark = [
    pytest.mark.usefixtures("warmed"),
    # The second failure of one statement cannot be raised: apsw hands it to sys.unraisablehook.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FULL, FAILED = "its ledger could not be written (the disk is full)", "its ledger could not be written (the disk failed)"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("failures") / "vault"
    create(place)
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "vault"))


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


def until_it_fails(vault: Vault, seed: int) -> tuple[list[Any], tr.VaultError | None]:
    """Operations, and what was said of them, up to the first that fails."""
    said: list[Any] = [["open", {"facts": facts(vault)}]]
    generator = np.random.default_rng(seed)
    for number in range(30):
        try:
            operate(vault, generator, f"{seed}.{number}", lambda what, **given: said.append([what, given]))
        except tr.VaultError as failure:
            return said, failure
    return said, None


def refused(use: Callable[..., object], *given: object) -> None:
    with pytest.raises(tr.VaultError, match="see to the disk, then open the vault again"):
        use(*given)


@pytest.mark.parametrize(("error", "message"), [(apsw.FullError, FULL), (apsw.IOError, FAILED)])
@pytest.mark.parametrize("seed", range(LIVES))
def test_the_ledgers_disk(place: Path, disk: FaultyDisk, error: type[apsw.Error], message: str, seed: int) -> None:
    """Several failures in a row, each after another number of writes."""
    witness = Witness(place)
    for passing in np.random.default_rng(seed).integers(0, 60, 3):
        vault = Vault.open(place)
        disk.arm(error, int(passing))
        said, failure = until_it_fails(vault, seed=int(passing) + 100 * seed)
        assert disk.refused > 0
        assert message in str(failure)
        disk.disarm()  # The disk is well again; but nobody knows what is on it before the vault is opened again.
        refused(vault.status)
        refused(vault.append, batch(1, 77))
        refused(vault.ask, "late = 'yes'")
        vault.close()
        witness.check(said)
    assert witness.facts["size"] >= 20_000


OPERATIONS: dict[str, dict[str, Any]] = {
    "append": {"work": "append", "rows": 500},
    "add": {"work": "add"},
    **{f"ask {name}": {"work": "ask", "mechanism": name, "count": 3} for name in ASKED},
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_at_each_write(original: Path, disk: FaultyDisk, name: str, tmp_path: Path) -> None:
    """Up to as many writes as the operation makes, and then none fails."""
    given: dict[str, Any] = {"seed": 5, "key": "one", **OPERATIONS[name]}
    passing, failed = 0, True
    while failed:
        place = Path(shutil.copytree(original, tmp_path / f"{passing}"))
        vault = Vault.open(place)
        said: list[Any] = [["open", {"facts": facts(vault)}], ["begin", given]]
        disk.arm(apsw.FullError, passing)
        try:
            result = perform(vault, given)
        except tr.VaultError:
            assert disk.refused
        failed = disk.refused > 0
        disk.disarm()
        if not failed:
            said.append(["end", {**given, "result": result, "facts": facts(vault)}])
        vault.close()
        Witness(place).check(said)
        passing += 1
    assert passing > 3


def test_a_disk_that_fails_at_the_end(place: Path, disk: FaultyDisk) -> None:
    """Closing cannot record what is pending; that is what leases are for."""
    vault = Vault.open(place)
    vault.ask_many(questions(40, 3), "pmwg")
    said = [["open", {"facts": facts(vault)}]]
    disk.arm(apsw.IOError, 0)
    vault.close()
    disk.disarm()
    Witness(place).check(said)


def test_a_disk_that_fails_at_the_beginning(place: Path, disk: FaultyDisk) -> None:
    """A vault that crashed has something to record at once, and is refused if it cannot."""
    with Vault.open(place) as vault:
        vault.ask_many(questions(40, 3), "pmwg")
        said = [["open", {"facts": facts(vault)}]]
        crashed = shutil.copytree(place, place.parent / "crashed")
    refusals = 0
    for passing in range(6):
        copy = Path(shutil.copytree(crashed, place.parent / str(passing)))
        disk.arm(apsw.FullError, passing)
        with suppress(tr.VaultError):
            Vault.open(copy).close()
        refusals += disk.refused > 0
        disk.disarm()
        Witness(copy).check(said)
    assert refusals >= 2


def test_a_vault_cannot_be_created_on_a_full_disk(tmp_path: Path, disk: FaultyDisk) -> None:
    for passing in range(8):
        place = tmp_path / str(passing)
        disk.arm(apsw.FullError, passing)
        try:
            with pytest.raises(tr.VaultError, match="the disk is full"):
                Vault.create(place, tr.Schema({"x": tr.integers(0, 3)}), 1.0)
        finally:
            disk.disarm()
        with pytest.raises(tr.NotAVault, match="never finished"):
            Vault.open(place)


# -- files -------------------------------------------------------------------------------------------------------------


def failing(step: Stage, number: int) -> Callable[[Stage], None]:
    """Files cannot be written, at this step, with this error."""

    def fail(reached: Stage) -> None:
        if reached is step:
            raise OSError(number, os.strerror(number))

    return fail


SAID = {errno.ENOSPC: "the disk is full", errno.EIO: os.strerror(errno.EIO)}


@pytest.mark.parametrize("step", [Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED])
@pytest.mark.parametrize("number", SAID)
def test_a_part_that_cannot_be_written_leaves_the_vault_as_it_was(
    place: Path, step: Stage, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_often(monkeypatch, large=300)
    with Vault.open(place) as vault:
        before, files = facts(vault), sorted((place / "parts").iterdir())
        observe(failing(step, number))
        try:
            with pytest.raises(tr.VaultError, match=f"cannot write to the vault: {SAID[number]}; nothing was"):
                vault.append(batch(300, 9), key="again")
        finally:
            observe(None)
        assert facts(vault)["states"] == before["states"]
        assert sorted((place / "parts").iterdir()) == files
        assert vault.append(batch(300, 9), key="again") == 20_300  # a disk with room again
        said = [["open", {"facts": facts(vault)}]]
    Witness(place).check(said)


@pytest.mark.parametrize(
    "step",
    [
        Stage.CHECKPOINT_OPENED,
        Stage.CHECKPOINT_WRITTEN,
        Stage.CHECKPOINT_SYNCED,
        Stage.CHECKPOINT_NAMED,
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_done_without(
    place: Path, step: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.vault.members._REPLAYED", 1.0)
    files = sorted((place / "checkpoints").iterdir())
    with Vault.open(place) as vault:
        lines = kinds(vault).count("checkpoint")
        observe(failing(step, errno.ENOSPC))
        try:
            said, failure = until_it_fails(vault, seed=4)
        finally:
            observe(None)
        assert failure is None
        assert kinds(vault).count("checkpoint") == lines
        assert sorted((place / "checkpoints").iterdir()) == files
    Witness(place).check(said)


PART = [Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED]


@pytest.mark.parametrize("step", PART)
@pytest.mark.parametrize("arrival", [1, 2], ids=["seal", "merge"])
def test_a_tail_that_cannot_be_sealed_or_parts_that_cannot_be_merged_stay_as_they_are(
    place: Path, step: Stage, arrival: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are taken in; it is not tried again at every append, and then it succeeds."""
    make_often(monkeypatch, sealed=1, merged=2, large=10**6)
    monkeypatch.setattr(parts, "_PATIENCE", 3)
    arrivals: list[Stage] = []

    def fail(reached: Stage) -> None:
        arrivals.extend([reached] if reached is step else [])
        if len(arrivals) == arrival:
            failing(step, errno.ENOSPC)(reached)

    with Vault.open(place) as vault:
        vault.append(batch(20_000, 8))  # sealed, with the rows before it
        observe(fail)
        try:
            assert vault.append(batch(40_000, 9), key="again") == 80_000
        finally:
            observe(None)
        assert len(arrivals) == arrival
        assert len(vault._store._record.parts) == arrival
        files = {file.name for file in (place / "parts").iterdir()}
        assert files == vault._store._record.parts.names
        for number in range(2):
            vault.append(batch(1, 10 + number))
            assert {file.name for file in (place / "parts").iterdir()} == files
        vault.append(batch(1, 12))
        assert len(vault._store._record.parts) == (2 if arrival == 1 else 1)
        said = [["open", {"facts": facts(vault)}]]
    Witness(place).check(said)


def test_a_part_whose_line_cannot_be_written(place: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are durable, and say so; the vault stops, and the next opening finds one state or the other."""
    make_often(monkeypatch, sealed=1)
    vault = Vault.open(place)
    observe(lambda step: disk.arm(apsw.FullError, 0) if step is Stage.PART_NAMED else None)
    try:
        assert vault.append(batch(30, 9), key="one") == 20_030
    finally:
        observe(None)
    assert disk.refused
    disk.disarm()
    refused(vault.append, batch(1, 77))
    vault.close()
    with Vault.open(place) as vault:
        assert vault.append(batch(30, 9), key="one") == vault.size == 20_030
        said = [["open", {"facts": facts(vault)}]]
    Witness(place).check(said)


# -- the system's own refusal ------------------------------------------------------------------------------------------


def short_of_room(place: Path, session: Session, say: Callable[..., None]) -> None:
    """No file may grow beyond a size: the kernel refuses the write, whoever makes it."""
    vault = Vault.open(place)
    say("open", facts=facts(vault))
    largest = max(file.stat().st_size for file in place.rglob("*") if file.is_file())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 150_000, resource.RLIM_INFINITY))
    generator = np.random.default_rng(session.seed)
    try:
        for number in range(10**6):
            operate(vault, generator, f"{session.seed}.{number}", say)
    except tr.VaultError as failure:
        say("failed", text=str(failure))


@pytest.mark.parametrize("seed", range(2))
def test_the_kernel_refuses_to_write(place: Path, seed: int) -> None:
    said = run(Session(seed, Stage.PART_OPENED, arrival=10**9), short_of_room, place)
    what, given = said.pop()
    assert what == "failed", given
    assert "could not be written" in given["text"] or "cannot write to the vault" in given["text"]
    Witness(place).check(said)
