"""Killed at any step of an append, small or large, while the tail is sealed or parts are merged, a vault loses nothing,
has no row twice, leaves no stray file; and readers beside it always see one whole state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.parts import LARGE, MERGED, SEALED, cells, expected, in_order, often, rows_of
from support.torture import Session, Witness, create, facts, perform, run
from support.vaults import SCHEMA
from treering.trusted.ledger.disk import Stage
from treering.vault.vault import Vault

COMMIT = [Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED]
PART = [Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED]
APPEND = [Stage.ROWS_DURABLE, Stage.ROWS_COUNTED]
WORK: dict[str, tuple[list[Stage], dict[str, int], int]] = {
    "a small append": ([*COMMIT, *APPEND], {"sealed": 10**6, "large": 10**6}, 90),
    "a large append": ([*PART, *COMMIT, *APPEND], {"sealed": 10**6, "merged": 10**6, "large": 60}, 90),
    "a tail and a large append": ([*PART, *COMMIT, Stage.PARTS_REPLACED], {"sealed": 3, "large": 60}, 50),
    "sealing": ([*PART, *COMMIT, Stage.PARTS_REPLACED], {"sealed": 1, "merged": 10**6, "large": 10**6}, 90),
    "merging": ([*PART, *COMMIT, Stage.PARTS_REPLACED], {"sealed": 1, "merged": 2, "large": 10**6}, 90),
}
"""The steps of some work, numbers that make it happen with every append, and the rows of one."""
CASES = [(name, step) for name, (steps, _, _) in WORK.items() for step in steps]
ARRIVALS = (1, 2, 5)


def appending(name: str) -> Callable[[Path, Session, Callable[..., None]], None]:
    """A session of appends, each of which leads to some work."""
    _, numbers, rows = WORK[name]

    def life(place: Path, session: Session, say: Callable[..., None]) -> None:
        often(**numbers)
        vault = Vault.open(place)
        say("open", facts=facts(vault))
        for number in range(session.operations):
            seed = session.seed + number
            given: dict[str, Any] = {"work": "append", "seed": seed, "key": str(seed), "rows": rows + 20 * (number % 2)}
            say("begin", **given)
            say("end", result=perform(vault, given), facts=facts(vault), **given)
        vault.close()

    return life


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize(("name", "step"), CASES, ids=lambda given: given.name if isinstance(given, Stage) else given)
def test_killed_at_any_step(
    name: str, step: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)
    for number, arrival in enumerate(ARRIVALS):
        said = run(Session(1000 * (number + 1), step, arrival), appending(name), place)
        assert said[-1][0] == "begin"  # It came to that step, and the append did not return.
        witness.check(said)
    record_property("kills", [step.name] * len(ARRIVALS))
    record_property("slowest", witness.slowest)


def growing(place: Path, appends: int, checked: Callable[[], None]) -> None:
    """A vault that seals and merges all the time, with something to do beside."""
    with Vault.create(place, SCHEMA, 1.0, 1e-6, mechanism=None) as vault:
        vault.append(rows_of(0))
        done = threading.Event()
        failures: list[BaseException] = []

        def beside() -> None:
            try:
                while not done.is_set():
                    checked()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=beside) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, appends):
            vault.append(rows_of(number))
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert (cells(vault) == expected(appends)).all()
        assert in_order(vault).num_rows == vault.size


def test_readers_beside_a_writer_that_merges_see_one_whole_state(tmp_path: Path) -> None:
    usual = often(SEALED, MERGED, LARGE)
    sizes: list[int] = []

    def verified() -> None:
        sizes.append(Vault.read(tmp_path / "vault").verify()["size"])

    try:
        growing(tmp_path / "vault", 120, verified)
    finally:
        usual()
    assert len(set(sizes)) > 3
