"""Segments over batches, for tests of the kernel: begun, grown, refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.gate import Ones, Pattern
from treering.noise import Laplace, Noise
from treering.trusted.charges import newest_last
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
CELLS = Groups.marginal(SCHEMA)
PLENTY = Budget("pure", Fraction(2**50))
SHARP = Laplace(2.0**-20)
"""Noise that is 0 but with probability e^{−500,000} or less."""
ROOM = 10**6

BATCHES = st.lists(st.lists(st.integers(0, SCHEMA.cells - 1), min_size=1, max_size=4), min_size=1, max_size=20)


def begin(db: TestDatabase, noise: Noise = SHARP, room: int = ROOM) -> tuple[Kernel, int]:
    gate = db.open_gate(PLENTY if isinstance(noise, Laplace) else Budget("zcdp", PLENTY.total))
    return gate, gate.begin_segment(CELLS, noise, room).segment


def counted(batches: Iterable[Sequence[int]]) -> npt.NDArray[np.int64]:
    cells = [cell for batch in batches for cell in batch]
    return np.bincount(cells, minlength=SCHEMA.cells)


def combined(batches: Sequence[Sequence[int]], pattern: Pattern) -> npt.NDArray[np.int64]:
    """What a pattern counts, once these batches are the leaves."""
    last = batches[len(batches) - pattern.leaves :]
    weights = [1] * pattern.leaves if isinstance(pattern, Ones) else newest_last(pattern).tolist()
    found = np.zeros(SCHEMA.cells, dtype=np.int64)
    for weight, batch in zip(weights, last, strict=True):
        found += weight * counted([batch])
    return found


def grown(leaves: int, noise: Noise = SHARP, room: int = ROOM) -> tuple[TestDatabase, Kernel, int]:
    """A segment with so many leaves of one row each, from which nothing is released."""
    db = TestDatabase(SCHEMA, [1 % SCHEMA.cells])
    gate, segment = begin(db, noise, room)
    for leaf in range(1, leaves + 1):
        gate.advance(segment, [])
        db.append_cells([(leaf + 1) % SCHEMA.cells])
    return db, gate, segment


def refused(gate: Kernel, segment: Any, patterns: Any, match: str) -> None:
    before, spent = gate.history, gate.spent
    with pytest.raises(tr.ParameterError, match=match) as caught:
        gate.advance(segment, patterns)
    assert caught.value.parameter in ("segment", "patterns")
    assert (gate.history, gate.spent) == (before, spent)
