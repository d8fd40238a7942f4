"""Killed, interrupted or short of room at any step of a life in which the schema is refined: the version is on record
or not, no row is lost or doubled under any version, and what was released stays free.

Mechanisms of cells keep the version that they were opened with, so counts of all cells of an old version are kept
current beside the rows, while the tail is sealed and parts are merged.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.faulty_disk import FaultyDisk, faulty_disk
from support.interrupts import Interrupt
from support.parts import often
from support.torture import Session, run
from support.vaults import BETA, crash
from treering.domain.refining import refined
from treering.trusted.ledger.disk import Stage
from treering.trusted.rows.kept import Rows
from treering.vault.vault import Vault

FIRST = tr.Schema(
    {
        "ward": tr.categories("north", "south", strict=False),
        "cost": tr.numbers(0, 100, step=0.5, edges=[0, 50, 100]),
        "code": tr.integers(0, 3, strict=False),
    }
)
WARDS = ("north", "south", *(f"w{number}" for number in range(12)), "nowhere", None)
MECHANISMS = ("rings", "continual", "pmwg")
QUESTIONS = ("ward = 'north'", "cost >= 50", "code = 2 AND ward = 'south'")
"""Every version tells them."""
COMMIT = (Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED)
STEPS = [step for step in Stage if step is not Stage.MECHANISM_DURABLE and "checkpoint" not in step.value]


@cache
def version_of(number: int) -> tr.Schema:
    """A version of the schema; the first is 1."""
    return FIRST if number == 1 else refined(version_of(number - 1), **change(number))


def change(number: int) -> dict[str, Any]:
    """What makes a version of the one before."""
    return {"add": {"ward": [f"w{number}"]}, "edges": {"cost": [50 + number / 4]}, "bounds": {"code": (-number, 3)}}


def batch(rows: int, seed: int) -> pa.Table:
    """Rows with values that later versions tell apart."""
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "ward": pa.array([WARDS[place] for place in generator.integers(0, len(WARDS), rows)], pa.string()),
            "cost": pa.array(np.round(generator.normal(50, 40, rows), 1)),
            "code": pa.array(generator.integers(-20, 6, rows)),
        }
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with a mechanism of groups and two of cells."""
    place = tmp_path_factory.mktemp("refining") / "vault"
    with Vault.create(place, FIRST, 10_000.0, 1e-6, mechanism=None) as vault:
        vault.add("rings", 0.4)
        vault.add("continual", 0.3, beta=BETA)
        vault.add("pmwg", 0.3, alpha=0.2, beta=BETA)
        vault.append(batch(5000, 1))
        ask(vault)
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "vault"))


# -- a session ---------------------------------------------------------------------------------------------------------


def ask(vault: Vault) -> dict[str, list[float]]:
    """What each mechanism answers."""
    return {name: [each.value for each in vault.ask_many(list(QUESTIONS), name)] for name in MECHANISMS}


def facts(vault: Vault) -> dict[str, Any]:
    """What must not be lost."""
    return {"size": vault.size, "version": vault.status()["versions"], "spent": vault.spent}


def living(place: Path, session: Session, say: Callable[..., None]) -> None:
    """Rows, a new version, questions, and again."""
    often(sealed=2, merged=2, large=60)
    vault = Vault.open(place)
    say("facts", **facts(vault))
    for number in range(8):
        rows = 25 + 50 * (number % 2)
        say("append", rows=rows)
        vault.append(batch(rows, session.seed + number), key=f"{session.seed}.{number}")
        say("facts", **facts(vault))
        say("refine")
        vault.refine(**change(vault.status()["versions"] + 1))
        say("facts", **facts(vault))
        say("ask")
        say("facts", **facts(vault), answers=ask(vault))
    say("ended")


def check(place: Path, said: list[Any]) -> None:
    """Open the vault, as the next writer would, and look for all that was said."""
    known = [given for what, given in said if what == "facts"]
    flying = dict([said[-1]]) if said[-1][0] != "facts" else {}
    last = known[-1]
    with Vault.open(place, wait=0) as vault:
        now = facts(vault)
        assert now["size"] - last["size"] in {0, flying.get("append", {}).get("rows", 0)}
        assert now["version"] - last["version"] in {0, int("refine" in flying)}
        assert now["spent"] >= last["spent"] or "ask" in flying
        assert vault.schema == version_of(now["version"])
        check_counts(vault)
        if "answers" in last:  # Nothing came since that has ended.
            spent = vault.spent
            assert now["size"] > last["size"] or ask(vault) == last["answers"]
            assert now["size"] > last["size"] or vault.spent == spent
        assert vault.verify()["size"] == now["size"]
        if flying.get("refine") is not None and now["version"] > last["version"]:
            with pytest.raises(tr.SchemaError, match="takes each value once"):
                vault.refine(**change(now["version"]))
        assert vault.refine(**change(now["version"] + 1)) == version_of(now["version"] + 1)
        ask(vault)
        check_counts(vault)


def check_counts(vault: Vault) -> None:
    """All rows on the disk, and no others, are counted, under the first version and under the last."""
    rows = pa.concat_tables(vault._store._parts.stored().tables())
    assert rows.num_rows == vault.size
    for lens in (FIRST, vault.schema):
        counted = Rows(lens)
        counted.add(rows)
        every = tuple(range(len(lens.shape)))
        assert (vault._store._rows.cells_of(lens).marginal(every) == counted.cells.marginal(every)).all()


# -- kills and failures ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_killed_at_any_step_of_a_life_of_versions(
    place: Path, step: Stage, record_property: Callable[[str, object], None]
) -> None:
    arrivals = (1, 2, 3) if step is Stage.SCHEMA_DURABLE else (1, 4, 7)
    for number, arrival in enumerate(arrivals):
        said = run(Session(1000 * (number + 1), step, arrival), living, place)
        assert said[-1][0] != "ended"
        check(place, said)
    record_property("kills", [step.name] * len(arrivals))


def refining(place: Path, _: Session, say: Callable[..., None]) -> None:
    """A session that refines at once."""
    vault = Vault.open(place)
    say("facts", **facts(vault), answers=ask(vault))
    say("refine")
    vault.refine(**change(vault.status()["versions"] + 1))
    say("facts", **facts(vault))


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("step", [*COMMIT, Stage.SCHEMA_DURABLE], ids=lambda step: step.name)
def test_killed_while_it_is_refined(place: Path, step: Stage, record_property: Callable[[str, object], None]) -> None:
    """The version is on record from its commit on."""
    said = run(Session(1, step), refining, place)
    assert said[-1][0] == "refine"
    durable = step in (Stage.COMMITTED, Stage.SCHEMA_DURABLE)
    assert Vault.read(place).status()["versions"] == 1 + durable
    check(place, said)
    record_property("kills", [step.name])


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_ledgers_disk_fails_at_each_write_of_a_refinement(original: Path, disk: FaultyDisk, tmp_path: Path) -> None:
    passing, failed = 0, True
    while failed:
        place = Path(shutil.copytree(original, tmp_path / f"{passing}"))
        vault = Vault.open(place)
        said: list[Any] = [["facts", {**facts(vault), "answers": ask(vault)}], ["refine", {}]]
        disk.arm(apsw.FullError, passing)
        try:
            vault.refine(**change(2))
            failed = False
        except tr.VaultError as failure:
            problem = str(failure)
        disk.disarm()
        if failed:
            assert "its ledger could not be written (the disk is full)" in problem
            with pytest.raises(tr.VaultError, match="see to the disk, then open the vault again"):
                vault.append(batch(1, 2))
        vault.close()
        check(place, said)
        passing += 1
    assert passing > 1


STRIDE = 1 if "TORTURE_KILLS" in os.environ else 5
FILES = (
    "vault/vault.py",
    "trusted/store.py",
    "trusted/kernel.py",
    "ledger/ledger.py",
    "ledger/record.py",
    "rows/kept.py",
)


def test_an_interrupt_at_any_step_of_a_refinement(original: Path, tmp_path: Path) -> None:
    """The vault goes on with the one version or the other, or it stops; the next opening finds one of them."""
    step, fell = 0, True
    while fell:
        place = Path(shutil.copytree(original, tmp_path / f"{step}"))
        vault = Vault.open(place)
        said: list[Any] = [["facts", {**facts(vault), "answers": ask(vault)}], ["refine", {}]]
        interrupt = Interrupt(step, *FILES)
        with suppress(KeyboardInterrupt), interrupt:
            vault.refine(**change(2))
        fell = interrupt.fell
        stopped = ""
        try:
            vault.append(batch(40, 2))
        except tr.TreeringError as error:
            stopped = str(error)
        assert not stopped or "interrupted" in stopped
        if not stopped:
            check_counts(vault)
            assert vault.schema in (version_of(1), version_of(2))
            said.append(["facts", facts(vault)])
        crash(vault)
        check(place, said)
        shutil.rmtree(place)
        step += STRIDE
    assert step > 20
