"""Killed while it makes a base, at every step, a vault loses nothing, leaves no stray file, and opens from a base."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.torture import Session, Witness, create, facts, perform, run
from treering.vault import bases
from treering.vault.files import Stage
from treering.vault.vault import Vault

STEPS = [step for step in Stage if step.name.startswith("BASE")]
BETWEEN = [Stage.COMMIT_BEGUN, Stage.COMMIT_READY, Stage.COMMITTED]
"""The commit that names a base is the one after an append's own and those of the mechanisms."""

ARRIVALS = (2, 3, 6)


def appending(place: Path, session: Session, say: Callable[..., None]) -> None:
    """Appends, each of which leads to a base."""
    vars(bases)["_DUE"], vars(bases)["_TIMES"] = 0.0, 0.0
    vault = Vault.open(place)
    say("open", facts=facts(vault))
    for number in range(session.operations):
        seed = session.seed + number
        given: dict[str, Any] = {"work": "append", "seed": seed, "key": str(seed), "rows": 90}
        say("begin", **given)
        say("end", result=perform(vault, given), facts=facts(vault), **given)
    vault.close()


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("step", STEPS)
def test_killed_while_a_base_is_made(
    step: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """At the first base and at later ones, which replace others; at the file of the cells, and at the persons'."""
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)
    for number, arrival in enumerate(ARRIVALS):
        said = run(Session(1000 * (number + 1), step, arrival), appending, place)
        assert said[-1][0] == "begin"  # It came to that step: the append is durable, and did not return.
        assert len([what for what, _ in said if what == "end"]) == (arrival - 1) // 2
        witness.check(said)
        assert witness.facts["size"] == said[-2][1]["facts"]["size"] + 90
        with Vault.open(place) as vault:
            kept = vault._parts.bases.latest_first
            assert vault._parts._weighed == (kept[0].parts if kept else 0)
            assert len(kept) == min(number, 2)  # each session but the first made one or more
            secrets = {name for name in vault._ledger.secrets() if name.startswith("base")}
            assert secrets == {base.secret for base in kept}
    record_property("kills", [step.name] * len(ARRIVALS))
    record_property("slowest", witness.slowest)
    assert "base" in witness.kinds


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("step", BETWEEN)
def test_killed_at_any_commit_between_bases(step: Stage, tmp_path: Path) -> None:
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)
    for number in range(4):
        witness.check(run(Session(1000 * (number + 1), step, arrival=2 * number + 1), appending, place))
    assert "base" in witness.kinds
