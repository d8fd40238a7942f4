"""Rings over a small table: made, compared with the truth, and what its rows have paid."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.mechanisms.rings import Rings

SCHEMA = tr.Schema(
    {"late": tr.categories("no", "yes"), "month": tr.integers(1, 12), "origin": tr.categories("EWR", "JFK", "LGA")}
)
ROWS = 20_000
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])


def cells(count: int = ROWS, seed: int = 1) -> list[int]:
    return [int(cell) for cell in np.random.default_rng(seed).integers(0, SCHEMA.cells, count)]


def database(count: int = ROWS) -> TestDatabase:
    return TestDatabase(SCHEMA, cells(count))


def rings(db: Any, delta: float = 1e-6, **options: Any) -> Rings:
    return Rings(db, **{"epsilon": 1.0, "delta": delta, "beta": 1e-9, **options})


def truth(db: TestDatabase, text: str) -> float:
    return db.rows.cells.count(tr.parse(text, SCHEMA)) / db.size


def paid(mechanism: Rings, position: int) -> Fraction:
    """What the row at a position has paid, exactly."""
    return mechanism._gate.budget.total - mechanism._gate.left(position)


def is_quote(quoted: Fraction, charged: Fraction) -> bool:
    """A quote is never below the charge, and above it by no more than a scale of noise is rounded up."""
    return charged <= quoted and quoted - charged <= quoted * Fraction(1, 2**48)
