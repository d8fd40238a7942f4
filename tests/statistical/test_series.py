"""Series: their estimates have the deviation that the theory states, and audits find no more than rows were charged.

*False alarms.* Tests of fit and of deviations alarm falsely with probability at most 1e-9 each, and have an asserted
miss rate (``support.goodness``). Audits are made at a confidence of their own, so high that together with those that
``support.audits`` counts they accuse wrongly with probability at most 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

import treering as tr
from support import audits
from support.audits import ATTEMPTS, MOST_AUDITS
from support.drawing import draw_by
from support.goodness import FALSE_ALARM, fits, laplace_masses, miss_rate
from treering.arrays import Ints
from treering.audit import Stream, grow, lower_bound
from treering.audit.neighbours import neighbour
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.gate import Ones, Span
from treering.mechanisms.series.base import Window
from treering.mechanisms.series.root import RootSeries
from treering.noise import Laplace, Noise
from treering.theory import series as theory
from treering.trusted.kernel import Kernel
from treering.trusted.memory.database import GrowingDatabase

MISSED: Final = 1e-6
Floats = npt.NDArray[np.float64]

# -- deviations --------------------------------------------------------------------------------------------------------

WIDE = tr.Schema({"a": tr.integers(0, 199), "b": tr.integers(0, 119)})
GROUPS = Groups.marginal(WIDE)
UNIT = Budget("zcdp", Fraction(1))
REAL = 17
"""Up to this leaf noise is the kernel's. From then on it is drawn as NumPy's Gaussians, rounded, at the scale that the
kernel asks for: 24 million exact draws would take minutes, and ``test_noise_scales`` has the samplers."""
LAST = 1000


@dataclass(frozen=True)
class Measured:
    """The noise of all groups in the estimates of all rows, and of the rows of some last leaves."""

    prefix: dict[int, Floats]
    recent: dict[int, tuple[int, Window, Floats]]


@cache
def measured() -> Measured:
    """A series of 24,000 groups at price 1 over 1,000 leaves of one row each."""
    db = GrowingDatabase(WIDE)
    gate = db.open_gate(UNIT)
    series = RootSeries(GROUPS, UNIT)
    generator = np.random.default_rng()
    asked: set[float] = set()

    def quick(noise: Noise, factor: int, count: int) -> Ints:
        asked.add(noise.scale * factor)
        return np.rint(generator.normal(0.0, noise.scale * factor, count)).astype(np.int64)

    prefix: dict[int, Floats] = {}
    recent: dict[int, tuple[int, Window, Floats]] = {}
    with pytest.MonkeyPatch.context() as patch:
        for leaf in range(1, LAST + 1):
            db.append_cells([leaf])
            if leaf == REAL + 1:
                draw_by(patch, quick)
            series.advance(gate)
            if leaf in (1, REAL, 245, LAST):
                truth = np.zeros(GROUPS.number)
                truth[1 : leaf + 1] = 1
                prefix[leaf] = series.window(0).counts - truth
                since = series.boundaries[-3] if leaf > 1 else 0
                truth[: since + 1] = 0
                window = series.window(since)
                recent[leaf] = since + 1, window, window.counts - truth
    assert asked == {theory.release_noise(UNIT.total, theory.segment_length(1, GROUPS.number), GROUPS.number).scale}
    return Measured(prefix, recent)


LEAVES = pytest.mark.parametrize("leaf", [1, REAL, 245, LAST])


def test_a_deviation_off_by_three_per_cent_is_seen_and_none_is_seen_by_chance() -> None:
    """The squares of n independent Gaussians: their sum has the law of chi-square."""
    number = GROUPS.number
    outside = chi2.cdf(number * 0.97**2, number) + chi2.sf(number * 1.03**2, number)
    assert outside < FALSE_ALARM
    for off in (2 / 3, 3 / 2, 0.94, 1.06):
        inside = chi2.cdf(number * (1.03 / off) ** 2, number) - chi2.cdf(number * (0.97 / off) ** 2, number)
        assert inside < MISSED


@LEAVES
def test_the_deviation_is_within_three_per_cent_of_the_theory(leaf: int) -> None:
    found = math.sqrt(float(np.mean(measured().prefix[leaf] ** 2)))
    stated = theory.deviation(leaf, GROUPS.number)
    assert 0.97 < found / stated < 1.03
    assert stated == pytest.approx({1: 1.0, REAL: 2.45, 245: 3.31, LAST: 3.83}[leaf], abs=0.005)


EDGES: Final = np.array([-3.0, -2.0, -1.5, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0])


def binned(noise: Floats, deviation: float) -> Ints:
    places = np.searchsorted(EDGES, noise / deviation, side="right")
    return np.bincount(places, minlength=len(EDGES) + 1).astype(np.int64)


def bell(off: float = 1.0) -> Floats:
    """The bins' probabilities if the deviation is so many times what it should be."""
    return np.diff(ndtr(EDGES / off), prepend=0.0, append=1.0)


@LEAVES
def test_the_law_is_gaussian_of_the_stated_deviation_and_of_no_other(leaf: int) -> None:
    noise = measured().prefix[leaf]
    stated = theory.deviation(leaf, GROUPS.number)
    assert fits(binned(noise, stated), bell())
    for off in (2 / 3, 3 / 2):
        assert miss_rate(bell(off), bell(), len(noise)) < MISSED
        assert not fits(binned(noise, stated * off), bell())


@LEAVES
def test_a_window_has_the_deviation_that_it_states_and_not_that_of_a_difference(leaf: int) -> None:
    """The last three leaves. Two prefixes have noise in common: the difference of their variances is no variance."""
    first, window, noise = measured().recent[leaf]
    stated = window.law.deviation
    assert 0.97 < math.sqrt(float(np.mean(noise**2))) / stated < 1.03
    assert stated**2 == pytest.approx(theory.variance(first, leaf, UNIT.total, GROUPS.number))
    assert fits(binned(noise, stated), bell())
    if first > 1:
        wrong = theory.deviation(leaf, GROUPS.number) ** 2 - theory.deviation(first - 1, GROUPS.number) ** 2
        assert wrong < 0.5 * stated**2
        assert not fits(binned(noise, math.sqrt(wrong)), bell())


def test_groups_have_noise_of_their_own() -> None:
    """Neighbouring groups: the mean of 12,000 products of independent Gaussians is beyond 0.07 deviations² with
    probability below 1e-9 (7.7 of its own deviations, by Bernstein)."""
    for noise in measured().prefix.values():
        scaled = noise / math.sqrt(float(np.mean(noise**2)))
        assert abs(float(np.mean(scaled[::2] * scaled[1::2]))) < 0.07


# -- audits ------------------------------------------------------------------------------------------------------------

AUDITS: Final = 3
CONFIDENCE: Final = 1 - 2e-9
PAIR = tr.Schema({"late": tr.categories("no", "yes")})
LATE = Groups.marginal(PAIR)
YES = Groups.of([tr.Query.where(PAIR, late="yes")])
Run = Callable[[Stream], Hashable]


def test_all_audits_together_accuse_wrongly_once_in_a_million_runs() -> None:
    assert AUDITS * (1 - CONFIDENCE) + MOST_AUDITS * (1 - audits.CONFIDENCE) < 1e-6


def catch_rate(sides: tuple[float, float], samples: int, claimed: float) -> float:
    """`support.audits.catch_rate` at this file's confidence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audits, "CONFIDENCE", CONFIDENCE)
        return audits.catch_rate(*sides, samples // 2, claimed)


def streams(batches: int, replaced: int) -> tuple[Stream, Stream]:
    """Batches of two rows each, one late and one not; on the right both rows of one batch are late."""
    left = Stream(PAIR, ((0, 1),) * batches)
    return left, neighbour(left, replaced - 1, 0, 1)


def signs(values: Ints, left: tuple[int, ...], moved: tuple[int, ...]) -> int:
    """How many numbers are on the left's side of the count that they have there; ``moved``: where they go on the
    right."""
    return sum(
        int(value <= own if step > 0 else value >= own) for value, own, step in zip(values, left, moved, strict=True)
    )


def all_signs(noises: Sequence[tuple[Noise, int]], missing: int = 0) -> tuple[float, float]:
    """The probability, on each side, that all but so many numbers are on the left's side; each has its noise, and
    moves by so much."""
    sides = []
    for right in (False, True):
        law = np.ones(1)
        for noise, step in noises:
            below = laplace_masses(noise.scale, np.array([1 - step if right else 1]))[0]
            law = np.convolve(law, [1 - below, below])
        sides.append(float(law[len(noises) - missing :].sum()))
    return sides[0], sides[1]


def opened(db: GrowingDatabase) -> Kernel:
    return db.open_gate(Budget("pure", Fraction(100)))


def combining_run(groups: Groups, scale: float) -> Run:
    """One release over the second of two batches, with weight −2, the first with weight 1."""

    def run(stream: Stream) -> Hashable:
        gate: Kernel | None = None
        for db in grow(stream):
            if gate is None:
                gate = opened(db)
                gate.mark()
        assert gate is not None
        values = gate.combine(groups, [Span(0, 2, 1), Span(2, 4, -2)], Laplace(scale)).values
        if groups is LATE:
            return signs(values, (-1, -1), (1, -1))
        return signs(values, (-1,), (-1,))

    return run


@pytest.mark.parametrize(("groups", "charged"), [(LATE, 4.0), (YES, 2.0)], ids=["two groups", "one group"])
def test_a_combination_loses_what_was_charged_and_no_more(groups: Groups, charged: float) -> None:
    """The event that both numbers are on the left's side has exactly the charge of the second batch as its loss."""
    samples, scale, moves = 900, 1.0, 2 if groups is LATE else 1
    sides = all_signs([(Laplace(scale), 2)] * moves)
    assert math.log(sides[0] / sides[1]) == pytest.approx(charged)
    assert catch_rate(sides, samples, charged / 4) > 1 - MISSED
    found = lower_bound(combining_run(groups, scale), *streams(2, 2), samples, CONFIDENCE)
    assert charged / 4 < found <= charged
    *_, db = grow(streams(2, 2)[0])
    gate = opened(db)
    gate.combine(groups, [Span(0, 4, -2)], Laplace(scale))
    assert gate.budget.total - gate.left(3) == charged


def life(stream: Stream) -> tuple[Kernel, int]:
    """A life with growth: a leaf, a second leaf released with the first, a span, and rows that come after.

    Of the numbers that move with a row of the second batch, those of the last release aside, so many are on the left's
    side.
    """
    gate: Kernel | None = None
    found = 0
    for time, db in enumerate(grow(stream), start=1):
        if gate is None:
            gate = opened(db)
            gate.begin_segment(LATE, Laplace(1.0), 2)
        if time <= 2:
            (values,) = gate.advance(0, [Ones(time)]).values
        if time == 2:
            found += signs(values, (2, 2), (-1, 1))
            found += signs(gate.combine(LATE, [Span(2, 4, 2)], Laplace(2.0)).values, (2, 2), (-1, 1))
            gate.mark()
            gate.end_segment(0)
        if time == 3:
            gate.combine(LATE, [Span(0, 4, 1)], Laplace(1000.0))
    assert gate is not None
    return gate, found


def test_a_whole_life_loses_what_the_replaced_row_was_charged() -> None:
    """The row came with the second batch: it is in one release of the segment, which gave half of its room back, and
    in both spans."""
    samples, pair = 900, streams(3, 2)
    gate, _ = life(pair[0])
    charged = [float(gate.budget.total - gate.left(position)) for position in (1, 3, 5)]
    assert charged == pytest.approx([4.002, 4.002, 0])
    moves: list[tuple[Noise, int]] = [*[(Laplace(1.0), 1)] * 2, *[(Laplace(2.0), 2)] * 2]
    likely, unlikely = all_signs(moves)
    assert math.log(likely / unlikely) == pytest.approx(4.0)
    assert catch_rate(all_signs(moves, missing=1), samples, charged[1] / 8) > 1 - MISSED
    found = lower_bound(lambda stream: life(stream)[1], *pair, samples, CONFIDENCE)
    assert charged[1] / 8 < found <= charged[1]


def test_an_audit_sees_a_release_that_claims_half_its_cost() -> None:
    """One cost for one group and for several: what two groups lose is twice what would be claimed."""
    samples, scale = 6000, 4 / 3
    claimed = 2 / scale
    assert catch_rate(all_signs([(Laplace(scale), 2)] * 2), samples, claimed) > 0.99
    run, pair = combining_run(LATE, scale), streams(2, 2)
    assert any(lower_bound(run, *pair, samples, CONFIDENCE) > claimed for _ in range(ATTEMPTS))
