"""Killed at every named step of the protocol and at moments of chance, a vault loses nothing that was released.

``TORTURE_KILLS`` says how many kills there are; `make torture` asks for many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import treering as tr
from support.torture import Session, Witness, create, facts, live, perform, run
from treering.trusted.ledger.disk import Stage
from treering.vault.vault import Vault

KILLS = int(os.environ.get("TORTURE_KILLS", "90"))
A_LIFE = 15
"""Kills of one vault."""
LIVES = -(-KILLS // A_LIFE)
STEPS = [step for step in Stage if step is not Stage.SCHEMA_DURABLE]
"""No schema changes here: ``test_refining_killed.py`` has such lives."""


def sessions(life: int) -> list[Session]:
    """Steps in turn, so that all lives together meet each of them often; every third end is a matter of chance."""
    generator = np.random.default_rng(life)
    steps = STEPS
    planned = []
    for number in range(A_LIFE):
        seed = int(generator.integers(2**31))
        if number % 3 == 2:
            planned.append(Session(seed, seconds=float(generator.uniform(0.01, 0.5))))
        else:
            step = steps[(A_LIFE * life + number) % len(steps)]
            planned.append(Session(seed, step, arrival=int(generator.integers(1, 7))))
    return planned


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("life", range(LIVES))
def test_a_life_of_kills(life: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    place = tmp_path / "vault"
    create(place)
    witness = Witness(place)
    planned = sessions(life)
    reached = []
    for session in planned:
        said = run(session, live, place)
        witness.check(said)
        cut = not said or said[-1][0] != "closed" or session.step is None
        reached.append("chance" if session.step is None else session.step.name if cut else "the end")
    record_property("kills", reached)
    record_property("slowest", witness.slowest)
    record_property("kinds", sorted(witness.kinds))


def adding(place: Path, session: Session, say: Callable[..., None]) -> None:
    """A session that adds a mechanism."""
    vault = Vault.open(place)
    say("open", facts=facts(vault))
    given = {"work": "add", "seed": session.seed, "key": None}
    say("begin", **given)
    say("end", result=perform(vault, given), facts=facts(vault), **given)


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize(
    ("step", "durable"),
    [
        (Stage.COMMIT_BEGUN, False),
        (Stage.COMMIT_READY, False),
        (Stage.COMMITTED, True),
        (Stage.MECHANISM_DURABLE, True),
    ],
    ids=lambda given: given.name if isinstance(given, Stage) else "",
)
def test_killed_while_a_mechanism_is_added(
    step: Stage, durable: bool, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """It is there or not, with its share, and can be added once."""
    place = tmp_path / "vault"
    create(place)
    said = run(Session(7, step), adding, place)
    assert said[-1][0] == "begin"
    witness = Witness(place)
    witness.check(said)
    assert ("extra7" in witness.facts["names"]) == durable
    with Vault.open(place) as vault:
        if durable:
            with pytest.raises(tr.ParameterError, match="extra7"):
                perform(vault, said[-1][1])
        else:
            assert perform(vault, said[-1][1]) == "extra7"
        assert facts(vault)["names"].count("extra7") == 1
        vault.verify()
    record_property("kills", [step.name])


def test_all_lives_together_meet_every_step() -> None:
    aimed = {session.step for life in range(LIVES) for session in sessions(life)}
    assert aimed >= {*STEPS, None}
