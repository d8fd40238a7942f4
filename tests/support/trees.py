"""Trees over batches, for tests of the kernel: started, grown, measured, refused."""

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
from treering.budget.cost import completed_by
from treering.budget.promise import Budget
from treering.gate import NodeReleased
from treering.noise import Laplace, Noise
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
PLENTY = Budget("pure", Fraction(10**9))
SHARP = Laplace(1e-6)
"""Noise that is 0 but with probability e^{−500,000} or less."""

BATCHES = st.lists(st.lists(st.integers(0, SCHEMA.cells - 1), min_size=1, max_size=4), min_size=1, max_size=20)


def start(db: TestDatabase, noise: Noise = SHARP) -> tuple[Kernel, int]:
    gate = db.open_gate(PLENTY if isinstance(noise, Laplace) else Budget("zcdp", Fraction(1)))
    return gate, gate.begin_tree(noise).tree


def counted(batches: Iterable[Sequence[int]]) -> npt.NDArray[np.int64]:
    cells = [cell for batch in batches for cell in batch]
    return np.bincount(cells, minlength=SCHEMA.cells).reshape(SCHEMA.shape)


def grown(leaves: int, noise: Noise = SHARP) -> tuple[TestDatabase, Kernel, int]:
    """A tree with so many leaves of one row each, all nodes measured but those that the last leaf completes."""
    db = TestDatabase(SCHEMA)
    gate, tree = start(db, noise)
    for leaf in range(1, leaves + 1):
        db.append_cells([leaf % SCHEMA.cells])
        gate.cut(tree)
        if leaf < leaves:
            measure(gate, tree, leaf)
    return db, gate, tree


def measure(gate: Kernel, tree: int, leaf: int) -> list[NodeReleased]:
    return [gate.tree_node(tree, *node) for node in completed_by(leaf)]


def refused(gate: Kernel, tree: int, level: Any, index: Any, match: str) -> None:
    before = gate.history
    with pytest.raises(tr.ParameterError, match=match) as caught:
        gate.tree_node(tree, level, index)
    assert caught.value.parameter in ("level", "index", "tree")
    assert gate.history == before
