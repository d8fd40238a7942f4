"""Killed just before any write, of the ledger or of a file, an operation is there as a whole or not at all.

Stages are where we thought of a crash; here it comes wherever the disk is touched. `make torture` tries every write,
`make test` some.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.faulty_disk import attempt_files, faulty_disk, killed
from support.growing_table import GrowingTable
from support.parts import often
from support.table_vaults import Before, check_once, created, in_a_run, opened
from support.torture import ASKED, Session, Witness, batch, create, facts, perform, run
from support.unfinished import seen, with_a_lease, with_a_reservation, with_files
from treering.trusted.ledger.disk import Stage
from treering.vault import members
from treering.vault.vault import Vault

EVERY_WRITE = "TORTURE_KILLS" in os.environ

pytestmark = pytest.mark.filterwarnings("ignore::treering.DroppedRows")


def killed_at_writes(
    original: Path, folder: Path, stride: int, prepare: Callable[[Path], Any], work: Callable[[Any], Any]
) -> Iterator[tuple[Path, Any]]:
    """Copies of a vault in which some work was killed, each at another write, and what was said before it began; the
    last one is that in which it came to its end."""

    def life(place: Path, session: Session, say: Callable[..., None]) -> None:
        warnings.simplefilter("ignore", tr.DroppedRows)
        with faulty_disk() as disk:
            attempt_files(disk)
            made, said = prepare(place)
            say("begun", given=said)
            # A part with every append, merged with others at once; a checkpoint with every answer.
            often(sealed=1, merged=2, large=600)
            vars(members)["_REPLAYED"] = 1.0
            disk.arm(killed, session.seed)
            say("ended", given=work(made))

    for passing in count(0, 1 if EVERY_WRITE else stride):
        place = Path(shutil.copytree(original, folder / f"{passing}"))
        begun, *ended = run(Session(passing, Stage.PART_OPENED, arrival=10**9), life, place)
        yield place, (begun[1]["given"], *(each[1]["given"] for each in ended))
        shutil.rmtree(place)
        if ended:
            assert passing > 1
            return


OPERATIONS: dict[str, dict[str, Any]] = {
    "append": {"work": "append", "rows": 500},
    "add": {"work": "add"},
    **{f"ask {name}": {"work": "ask", "mechanism": name, "count": 3} for name in ASKED},
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("writes") / "vault"
    create(place)
    return place


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_any_write_of_an_operation(original: Path, name: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"seed": 5, "key": "one", **OPERATIONS[name]}

    def prepare(place: Path) -> tuple[Vault, Any]:
        vault = Vault.open(place)
        vault.append(batch(20_000, 2))  # so that epochs are due
        return vault, facts(vault)

    def work(vault: Vault) -> Any:
        return {**given, "result": perform(vault, given), "facts": facts(vault)}

    stride = 13 if name == "append" else 3
    for place, (before, *after) in killed_at_writes(original, tmp_path, stride, prepare, work):
        said = [["open", {"facts": before}], ["begin", given], *(["end", each] for each in after)]
        Witness(place).check(said)


def test_killed_at_any_write_of_a_refresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = GrowingTable(tmp_path / "rows.duckdb", 20_000, 21_000)
    created(tmp_path / "original", table)

    def prepare(place: Path) -> tuple[Vault, Before]:
        vault = opened(place, table)
        return vault, in_a_run(vault)

    for place, (before, *_) in killed_at_writes(
        tmp_path / "original", tmp_path, 5, prepare, lambda vault: vault.refresh("drop")
    ):
        with opened(place, table) as vault:
            check_once(vault, table, Before(*before), crashed=True)


@pytest.mark.parametrize(
    ("begin", "stride"),
    [(with_a_lease, 3), (with_a_reservation, 3), (with_files, 1)],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_killed_at_any_write_of_an_opening(begin: Callable[[Path], None], stride: int, tmp_path: Path) -> None:
    original = tmp_path / "original"
    begin(original)
    head = Vault.read(original).status()["head"]
    expected = seen(Path(shutil.copytree(original, tmp_path / "expected")), head)

    def work(place: Path) -> None:
        Vault.open(place)

    for place, _ in killed_at_writes(original, tmp_path, stride, lambda place: (place, None), work):
        assert seen(place, head) == expected
        assert seen(place, head) == expected
