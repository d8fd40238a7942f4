"""Privacy by enumeration: every database of four rows, every neighbour, every moment of a life that grows.

The life has two leaves of a segment, releases over spans, a sparse-vector run that meets new rows, and a row that comes
when the run is over. For each transcript of the run, what a replaced row loses is computed from the noise laws
(``support.exact_losses``, ``support.exact_runs``) and compared with what the gate has charged to its position.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import treering as tr
from support.databases import TestDatabase
from support.exact_losses import ORDERS, Seen, moved, pure_loss, renyi, renyi_of, transparent
from support.exact_runs import REMAINDER, Asked, transcripts
from support.row_lives import account
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.gate import Fading, Ones, Pattern, Root, RunRequest, Span
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted.journal import Secret
from treering.trusted.kernel import Kernel
from treering.trusted.operations.run import named

SCHEMA = tr.Schema({"a": tr.integers(0, 2)})
FIRST, SECOND = (Query.where(SCHEMA, a=value) for value in (0, 1))
GROUPS = {
    "one group": Groups.of([FIRST]),
    "two groups": Groups.of([FIRST, SECOND]),
    "all cells": Groups.marginal(SCHEMA),
}
ROWS = 4
DATABASES = list(product(range(SCHEMA.cells), repeat=ROWS))

RUN = RunRequest(4.0, 3.0)
BAR = 1
NEVER = 2
Ending: TypeAlias = Literal[0, 1, 2]
"""The run halts at its first query, at its second, or never."""


@dataclass(frozen=True)
class Setting:
    """What the life is made of."""

    kind: Literal["pure", "zcdp"]
    groups: str
    leaf: Noise
    patterns: tuple[Pattern, ...]
    """What is released at the second leaf."""
    once: Noise

    @property
    def room(self) -> int:
        """The most that a leaf's weights sum to."""
        single = 4096 if Root(2) in self.patterns or Fading(2) in self.patterns else 1
        return 20 * (single if self.kind == "pure" else single**2)


SETTINGS = [Setting("pure", groups, Laplace(2.5), (Ones(2), Ones(1)), Laplace(3.0)) for groups in GROUPS] + [
    Setting("zcdp", groups, leaf, patterns, once)
    for groups in GROUPS
    for leaf, patterns, once in (
        (Gaussian(6000.0), (Root(2),), Gaussian(2.5)),
        (Gaussian(5500.0), (Fading(2),), Gaussian(2.5)),
        (Laplace(2.5), (Ones(2),), Laplace(3.0)),
    )
]
IDS = [f"{each.kind} {type(each.patterns[0]).__name__} {each.groups}" for each in SETTINGS]


@dataclass(frozen=True)
class Moment:
    """How far a life has got: its releases, its comparisons, and what each position has paid."""

    name: str
    releases: int
    asked: int
    paid: tuple[Fraction, ...]


@dataclass(frozen=True)
class Lived:
    """What a life has released, without noise, and what it has cost on the way."""

    releases: tuple[Seen, ...]
    asked: tuple[Asked, ...]
    moments: tuple[Moment, ...]


@cache
def lived(setting: Setting, cells: tuple[int, ...], ending: Ending | None) -> Lived:
    """One life on these rows; the run is made to end so, or there is none."""
    db = TestDatabase(SCHEMA, cells[:2])
    gate = db.open_gate(Budget(setting.kind, Fraction(10**6)))
    groups = GROUPS[setting.groups]
    first = type(setting.patterns[0])(1)
    asked: list[Asked] = []
    moments: list[Moment] = []
    with transparent() as seen:

        def moment(name: str) -> None:
            paid = account(gate)[:-1]
            moments.append(
                Moment(name, len(seen.releases), len(asked), tuple(paid + [Fraction(0)] * (ROWS - len(paid))))
            )

        def compare(time: Ending) -> None:
            if ending is not None and len(asked) == time <= ending:
                _force(gate, halts=ending == time)
                halted = gate.first_exceeding(0, [FIRST], [BAR]).crossing is not None
                assert halted == (ending == time)
                asked.append(Asked(sum(cell == 0 for cell in cells[: db.size]) - BAR))
                moment(f"comparison {time + 1}")

        gate.mark()
        segment = gate.begin_segment(groups, setting.leaf, setting.room).segment
        seen.note(gate.advance(segment, [first]).values)
        moment("first leaf")
        if ending is not None:
            gate.begin_run(RUN)
        compare(0)
        db.append_cells(cells[2:3])
        seen.note(gate.advance(segment, setting.patterns).values)
        moment("second leaf")
        seen.note([gate.combine(groups, [Span(2, 3, 3), Span(0, 2, -2)], setting.once).values])
        moment("two spans")
        compare(1)
        if ending == NEVER:
            gate.end_run(0)
        db.append_cells(cells[3:])
        seen.note([gate.combine(groups, [Span(3, 4, 1)], setting.once).values])
        moment("a row that the run never met")
        gate.end_segment(segment)
        moment("the segment is over")
    return Lived(tuple(seen.releases), tuple(asked), tuple(moments))


def _force(gate: Kernel, *, halts: bool) -> None:
    """Give the run a threshold that it surely crosses, or surely does not."""
    named(gate._desk, 0)._threshold = Secret(-(10**6) if halts else 10**6)


def neighbours() -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """All pairs that differ in one row, once each, and the row's place."""
    for cells in DATABASES:
        for place in range(ROWS):
            for other in range(cells[place] + 1, SCHEMA.cells):
                yield cells, (*cells[:place], other, *cells[place + 1 :]), place


def within(loss: float, paid: Fraction) -> bool:
    return loss <= float(paid) * (1 + 1e-9) + 1e-12


def run_chances(asked: Sequence[Asked], ending: Ending) -> float:
    """The probability of what the run has said so far."""
    if not asked:
        return 1.0
    law = transcripts(asked, RUN.threshold_scale, RUN.query_scale)
    halted = len(asked) == ending + 1
    return float(law[-2] if halted else law[-1])


# -- pure --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.kind == "pure"], ids=lambda each: each.groups)
@pytest.mark.parametrize("ending", [0, 1, NEVER])
def test_no_transcript_loses_more_than_was_charged(setting: Setting, ending: Ending) -> None:
    """At every moment, given what the run has said: an abandoned run has got a part of its charge back by then."""
    for left, right, place in neighbours():
        one, other = lived(setting, left, ending), lived(setting, right, ending)
        for before, after in zip(one.moments, other.moments, strict=True):
            assert before == after  # what is charged does not depend on the data
            lost = pure_loss(moved(one.releases[: before.releases], other.releases[: before.releases]))
            chances = [run_chances(each.asked[: before.asked], ending) for each in (one, other)]
            ratio = math.log((max(chances) + REMAINDER) / min(chances))
            assert within(lost + ratio, before.paid[place]), before.name


# -- zCDP --------------------------------------------------------------------------------------------------------------


def run_law(asked: Sequence[Asked], place: int, ending: Ending) -> npt.NDArray[np.float64]:
    """The law of what the run says once the row at this place is there, given what it had said before."""
    law = transcripts(asked, RUN.threshold_scale, RUN.query_scale)
    if place < 2:
        return law
    if place == 2 and ending > 0:  # The first comparison was below.
        return np.asarray(law[1:] / law[1:].sum())
    return np.ones(1)


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.kind == "zcdp"], ids=IDS[len(GROUPS) :])
@pytest.mark.parametrize("ending", [0, 1, NEVER])
def test_no_divergence_is_above_what_was_charged(setting: Setting, ending: Ending) -> None:
    """Of all that is ever released together, the run's transcripts included. Nothing comes back for a run."""
    for left, right, place in neighbours():
        one, other = lived(setting, left, NEVER), lived(setting, right, NEVER)
        moves = moved(one.releases, other.releases)
        laws = run_law(one.asked, place, ending), run_law(other.asked, place, ending)
        paid = lived(setting, left, ending).moments[-1].paid
        assert paid == lived(setting, right, ending).moments[-1].paid
        for order in ORDERS:
            assert within((renyi(moves, order) + renyi_of(*laws, order)) / order, paid[place])


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.kind == "zcdp"], ids=IDS[len(GROUPS) :])
def test_no_divergence_is_above_what_was_charged_by_then(setting: Setting) -> None:
    for left, right, place in neighbours():
        one, other = lived(setting, left, None), lived(setting, right, None)
        for before, after in zip(one.moments, other.moments, strict=True):
            assert before == after
            moves = moved(one.releases[: before.releases], other.releases[: before.releases])
            assert all(within(renyi(moves, order) / order, before.paid[place]) for order in ORDERS)


# -- tight -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS, ids=IDS)
def test_nothing_is_charged_that_no_neighbour_can_lose(setting: Setting) -> None:
    """When the segment is over, and without a run, the worst neighbour of each row loses all that was charged to it;
    for Laplace noise in zCDP, of which only a bound is known, a good part."""
    worst = [0.0] * ROWS
    for left, right, place in neighbours():
        moves = moved(lived(setting, left, None).releases, lived(setting, right, None).releases)
        lost = pure_loss(moves) if setting.kind == "pure" else renyi(moves, 2.0) / 2
        worst[place] = max(worst[place], lost)
    paid = [float(each) for each in lived(setting, DATABASES[0], None).moments[-1].paid]
    assert min(paid) > 0
    if setting.kind == "zcdp" and isinstance(setting.leaf, Laplace):
        assert all(0.6 * charged < lost <= charged for lost, charged in zip(worst, paid, strict=True))
    else:
        assert worst == pytest.approx(paid, rel=1e-9)


@pytest.mark.parametrize("setting", SETTINGS, ids=IDS)
def test_who_comes_later_has_not_met_the_run(setting: Setting) -> None:
    """The row that came when the run was over pays for the last span alone; the one that came meanwhile for the run."""
    with_run, without = (lived(setting, DATABASES[0], ending).moments[-1].paid for ending in (NEVER, None))
    assert with_run[3] == without[3]
    more = [one - other for one, other in zip(with_run[:3], without[:3], strict=True)]
    epsilon = 1 / Fraction(RUN.threshold_scale) + 2 / Fraction(RUN.query_scale)
    assert more == [Fraction(1, 4) if setting.kind == "pure" else epsilon**2 / 2] * 3
