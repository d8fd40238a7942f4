"""Vaults whose last session did not end: what the next opening has to write, and what it must find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.parts import cells, make_often
from support.torture import batch
from support.vaults import BETA, DELTA, EPSILON, SCHEMA, crash, frame, guarded, leased, questions, surely_easy
from treering.trusted.kernel import Kernel
from treering.trusted.ledger.disk import Stage, observe
from treering.vault import members
from treering.vault.vault import Vault


def with_a_lease(place: Path) -> None:
    """A vault that was killed in the middle of a run: opening it counts the lease, and ends the run."""
    rows = frame(20_000)
    vault = guarded(place, rows=0)
    vault.append(rows)
    vault.ask(surely_easy(vault, rows))
    assert leased(vault)
    crash(vault)


def with_a_reservation(place: Path) -> None:
    """A vault that was interrupted just before a reservation ended: opening it ends the reservation."""
    vault = Vault.create(place, SCHEMA, EPSILON, DELTA, mechanism="scheduler")
    vault.append(frame(1000))

    def interrupt(_: Kernel) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "_close_part", interrupt)
        with pytest.raises(KeyboardInterrupt):
            vault.ask_many(questions(2))
    crash(vault)


STRAY = {Stage.PARTS_REPLACED: "append", Stage.PART_NAMED: "append", Stage.CHECKPOINT_NAMED: "ask"}
"""Where a session is cut off so that a file is left that no line names, or none names any more."""


def with_files(place: Path) -> None:
    """A vault with files that no line names: of parts that were merged, a checkpoint and a part. Opening it removes
    them."""
    vault = Vault.create(place, SCHEMA, EPSILON, DELTA, mechanism="pmwg", rows_per_person=3, person="who", beta=BETA)
    with pytest.MonkeyPatch.context() as patch:
        make_often(patch, sealed=1, merged=3, large=2000)
        patch.setattr(members, "_REPLAYED", 1.0)
        for number in range(2):
            vault.append(batch(1000, number))
        for number, (stage, work) in enumerate(STRAY.items(), 2):
            observe(_interrupting(stage, 2 if stage is Stage.PARTS_REPLACED else 1))
            with suppress(KeyboardInterrupt):
                vault.append(batch(1000, number)) if work == "append" else vault.ask_many(questions(3))
            observe(None)
            vault._store._parts._next = 0
    crash(vault)


def _interrupting(stage: Stage, arrival: int) -> Callable[[Stage], None]:
    arrivals: list[Stage] = []

    def interrupt(reached: Stage) -> None:
        arrivals.extend([reached] if reached is stage else [])
        if reached is stage and len(arrivals) == arrival:
            raise KeyboardInterrupt

    return interrupt


UNFINISHED: list[tuple[Callable[[Path], None], int]] = [(with_a_lease, 2), (with_a_reservation, 1)]
"""How to make each, and how many lines its next opening writes."""


class Seen(NamedTuple):
    """What an opening finds, having written what it must."""

    status: dict[str, Any]
    lines: list[tuple[str, str | None, dict[str, Any]]]
    counts: list[int]
    files: list[str]


def seen(place: Path, before: str) -> Seen:
    """Open a vault at once and look at everything; a head of ``before`` is still on record."""
    with Vault.open(place, wait=0) as vault:
        assert vault.verify(before)["head_found"]
        status = vault.status()
        status["head"] = status["head"] == before  # Times are part of it.
        lines = [(line["kind"], line["mechanism"], line["body"]) for line in vault.ledger()]
        return Seen(status, lines, cells(vault).tolist(), files(place))


def files(place: Path) -> list[str]:
    """What lies in the folders of a vault."""
    return sorted(path.relative_to(place).as_posix() for path in place.glob("*/*"))
