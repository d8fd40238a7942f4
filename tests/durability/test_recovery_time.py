"""A vault of 2^20 cells is open again within two seconds, whenever it was killed. Only for `make torture`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.torture import Session, Witness, create_wide, live_wide, run
from support.vaults import mechanism
from treering.vault.vault import Vault

KILLS = int(os.environ.get("TORTURE_KILLS", "0")) // 20


@pytest.mark.skipif(not KILLS, reason="a long test with a time limit: make torture")
def test_opening_after_a_kill_takes_less_than_two_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Sessions of a second or so, and no checkpoint at their ends: what is to be replayed piles up until one is due."""
    monkeypatch.setattr("treering.vault.members._WORTHWHILE", 1.0)
    place = tmp_path / "vault"
    create_wide(place)
    with Vault.open(place) as vault:  # loads and compiles; the children have it from here
        vault.ask_many(["a <= 3"])
    witness = Witness(place)
    generator = np.random.default_rng(1)
    replayed = []
    for _ in range(KILLS):
        session = Session(int(generator.integers(2**31)), seconds=float(generator.uniform(0.5, 2.0)), operations=10**6)
        witness.check(run(session, live_wide, place))
        with Vault.open(place) as vault:
            replayed.append(max(member.debt for member in vault._members))
            steps = mechanism(vault, 1).hypothesis.steps
    record_property("kills", ["wide"] * KILLS)
    record_property("slowest_wide", witness.slowest)
    record_property("wide", f"{steps} steps, {max(replayed):.2f} of what makes a checkpoint due")
    assert witness.slowest < 2
