"""A quote is what will be charged: over a thousand random questions of every mechanism, pure and zCDP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.vaults import SCHEMA, frame, questions
from treering.answer import Price
from treering.vault.vault import Vault

QUESTIONS = 1000
ENOUGH = 20
"""Refusals, after which a vault has been poor for long enough."""

POOR = "pmwg that is soon poor"
LIVES: dict[str, dict[str, Any]] = {
    "rings": {"pace": 8},
    "pmwg": {"epsilon": 1000.0, "alpha": 0.1},
    "pmwg that guards": {"epsilon": 1000.0, "alpha": 0.1, "measure_first": False},
    POOR: {"alpha": 0.01},
    "continual": {},
    "scheduler": {},
    "improver": {},
}


def quoted(vault: Vault, batch: list[tr.Query]) -> Price | str:
    """The quote of a batch, or why there is none."""
    try:
        return vault.price_many(batch)
    except tr.TreeringError as refusal:
        return str(refusal)


def charged(vault: Vault, batch: list[tr.Query]) -> tuple[float, str]:
    """What asking a batch costs the newest row, which pays for all that is asked; and why it was refused."""
    newest, refused = vault.size, ""
    before = vault.left(newest)
    try:
        vault.ask_many(batch)
    except tr.TreeringError as refusal:
        refused = str(refusal)
    return before - vault.left(newest), refused


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("life", LIVES)
def test_a_quote_is_what_will_be_charged(tmp_path: Path, life: str, delta: float) -> None:
    generator, given = np.random.default_rng(19), {"epsilon": 1.0, **LIVES[life]}
    asked = refused = exact = 0
    with Vault.create(tmp_path / "vault", SCHEMA, delta=delta, mechanism=life.split()[0], **given) as vault:
        vault.append(frame(20_000))
        everything = questions(QUESTIONS + 10, seed=7)
        while asked < QUESTIONS and refused < ENOUGH:
            batch = everything[asked : asked + int(generator.choice([1, 1, 1, 2, 7]))]
            asked += len(batch)
            quote = quoted(vault, batch)
            charge, problem = charged(vault, batch)
            refused += problem != ""
            if isinstance(quote, str):
                assert (problem, charge) == (quote, 0.0)
                continue
            assert quote.enough <= (problem == "")
            assert charge <= quote.most * (1 + 1e-9) + 1e-12
            exact += len(batch) if quote.exact else 0
            if quote.exact or (life.startswith("pmwg") and len(batch) == 1 and delta):
                assert charge == pytest.approx(quote.most, rel=1e-9, abs=1e-12)
            if generator.random() < 0.1:
                vault.append(frame(int(generator.integers(1, 3000)), seed=asked))
    assert refused == (ENOUGH if life == POOR else 0)
    assert life == POOR or exact > QUESTIONS / 50
