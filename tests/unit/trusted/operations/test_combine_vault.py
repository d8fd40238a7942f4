"""Rows of a vault are told apart after it was closed, killed or reopened, from its tail and from its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.parts import MERGED, SEALED, make_often, part_lines
from support.row_lives import agrees, combined, state
from support.vaults import crash, mechanism
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.gate import Ones, Span
from treering.noise import Laplace
from treering.trusted.kernel import Kernel
from treering.trusted.rows.intake import DroppedRows
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
SHARP = Laplace(1e-6)
HIGH = Query.where(SCHEMA, b=2)
GROUPS = (Groups.marginal(SCHEMA), Groups.of([HIGH]), Groups.of([HIGH & Query.where(SCHEMA, a=0), ~HIGH]))


class Told:
    """A vault whose one mechanism is never asked: on its gate there are marks and segments of our own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.rows: list[int] = []
        self.vault = Vault.create(place, SCHEMA, 1e9, mechanism="pmwg")
        self.append(3)

    @property
    def gate(self) -> Kernel:
        gate: Kernel = mechanism(self.vault)._gate
        return gate

    def append(self, number: int, misfits: int = 0) -> None:
        cells = np.random.default_rng(len(self.rows)).integers(0, SCHEMA.cells, number).tolist()
        frame: list[dict[str, Any]] = [{"a": cell // 3, "b": cell % 3} for cell in cells]
        frame[1:1] = [{"a": 7, "b": 7}] * misfits
        if misfits:
            with pytest.warns(DroppedRows):
                self.vault.append(frame, on_invalid="drop")
        else:
            self.vault.append(frame)
        self.rows += cells

    def close(self, *, killed: bool) -> None:
        if killed:
            crash(self.vault)
        else:
            self.vault.close()
        self.vault = Vault.open(self.place)

    def check(self, edges: list[int]) -> None:
        """Every stretch between neighbouring edges, each with its own weight."""
        spans = [Span(*each) for each in zip(edges, edges[1:], range(1, len(edges)), strict=False)]
        for groups in GROUPS:
            event = self.gate.combine(groups, spans, SHARP)
            assert event.values.tolist() == combined(groups, SCHEMA, self.rows, spans)

    def leaf(self, segment: int, edges: list[int], leaves: int) -> None:
        """The next leaf of our own segment, and the counts of the last leaves."""
        (values,) = self.gate.advance(segment, [Ones(leaves)]).values
        edges.append(self.vault.size)
        assert values.tolist() == combined(GROUPS[0], SCHEMA, self.rows, [Span(edges[-leaves - 1], edges[-1], 1)])


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("sealed", [True, False])
def test_rows_are_told_apart_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool, sealed: bool
) -> None:
    """Wherever a batch or a part begins or ends."""
    if sealed:
        make_often(monkeypatch)
    told = Told(tmp_path / "vault")
    told.gate.mark()
    marks = [0, 3]
    told.append(4, misfits=2)
    segment = told.gate.begin_segment(GROUPS[0], SHARP, 8, start=3).segment
    edges = [3]
    told.leaf(segment, edges, 1)
    for number in range(1, 2 * SEALED * MERGED):
        told.append(1 + number % 4)
        if number % 3 == 0:
            told.gate.mark()
            marks.append(told.vault.size)
        if number % 4 == 1:
            told.leaf(segment, edges, len(edges) if len(edges) < 3 else 2)
        if number % 5 == 2:
            before = state(told.gate)
            told.close(killed=killed)
            assert state(told.gate) == before
            told.check(sorted({*marks, *edges, told.vault.size}))
    assert bool(part_lines(told.vault)) == sealed
    told.gate.end_segment(segment)
    told.close(killed=killed)
    told.check(sorted({*marks, told.vault.size}))
    assert agrees(told.gate, told.gate.history)
    told.vault.close()


def test_a_reader_adds_up_the_same_charges(tmp_path: Path) -> None:
    told = Told(tmp_path / "vault")
    told.gate.mark()
    told.append(4)
    told.check([0, 3, 7])
    segment = told.gate.begin_segment(GROUPS[0], SHARP, 8, start=3).segment
    told.leaf(segment, [3], 1)
    spent = told.vault.spent
    assert Vault.read(told.place).status()["spent"] == spent
    told.gate.end_segment(segment)
    assert told.vault.spent < spent
    assert Vault.read(told.place).status()["spent"] == told.vault.spent
    told.vault.close()
