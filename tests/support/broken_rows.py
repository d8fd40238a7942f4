"""BROKEN ON PURPOSE: charges by row, groups and series that lose more than they charge, or state less than they err.

Each twin is one small change of the real code, put in its place by a patch for the length of a test. A check that does
not catch it proves nothing about the code that it passes (``tests/unit/support/test_broken_rows.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from support.drawing import draw_by
from treering.arrays import Floats, Ints
from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.budget.rows import Steps
from treering.budget.weights import Weights
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Sums
from treering.gate import Condensed, RunRequest, Span
from treering.mechanisms.series import root, view
from treering.noise import Gaussian, Noise
from treering.params import exact_scale, root_at_least
from treering.theory import rings, series as theory
from treering.theory.rings import spectrum
from treering.trusted import charges, pricing
from treering.trusted.charges import Charges, Segment
from treering.trusted.noise import draw as honest_draw
from treering.trusted.operations import combine, groups, run
from treering.trusted.operations.base import Desk
from treering.trusted.rows.kept import Rows

Twin = Callable[[pytest.MonkeyPatch], None]

# -- costs -------------------------------------------------------------------------------------------------------------


def one_cost_for_one_group_and_for_several(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: a row that moves from one group to another is charged as if one number moved."""
    honest = pricing.combining
    patch.setattr(pricing, "combining", lambda _, weight, noise, sums: honest(1, weight, noise, sums))


def a_single_group_s_sum_at_half_price(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: the sum of a single group is charged half, as its count is: as if its row could only leave."""
    honest = pricing.combining

    def cheap(groups: int, weight: int, noise: Noise, sums: Sums | None) -> Cost:
        full = honest(groups, weight, noise, sums)
        if groups > 1:
            return full
        return Cost(None if full.epsilon is None else full.epsilon / 2, full.rho / 2)

    patch.setattr(pricing, "combining", cheap)


def counts_that_come_free_under_a_pure_promise(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: with Laplace noise, too, counts cost nothing beside sums."""
    honest = pricing.summing
    patch.setattr(pricing, "summing", lambda sums, weight, noise: honest(replace(sums, counts=False), weight, noise))


def a_reach_of_the_caller_s_own(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: whoever asks for sums says how large values can be (1 half step), and is believed."""
    patch.setattr(Sums, "reach", property(lambda _: 1))


def sums_whose_total_is_taken_for_public(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: margins of sums are those of centred numbers, k(1 − k/m) for k of m groups."""
    patch.setattr(view, "plain_spectrum", spectrum)
    patch.setattr(rings, "plain_spectrum", spectrum)


def the_weight_for_its_square(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: in zCDP, too, a weight costs in proportion to itself."""
    honest = pricing.combining

    def cheap(groups: int, weight: int, noise: Noise, sums: Sums | None) -> Cost:
        one = honest(groups, 1, noise, sums)
        return Cost(None if one.epsilon is None else abs(weight) * one.epsilon, abs(weight) * one.rho)

    patch.setattr(pricing, "combining", cheap)


def room_by_weights_for_room_by_squares(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: in zCDP, too, releases use a leaf's room in proportion to their weights."""

    def use(_: Segment, leaf: int, patterns: Iterable[Any]) -> Ints:
        used = np.zeros(leaf, dtype=np.int64)
        for pattern in patterns:
            weights = charges.newest_last(pattern)
            used[leaf - len(weights) :] += np.abs(weights)
        return used

    patch.setattr(Segment, "use", use)


def the_second_segment_at_half_price(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: the rows of a series' second segment are charged half, as if the first had paid for them."""
    honest = Segment._price
    patch.setattr(
        Segment, "_price", lambda segment, room: honest(segment, room) / (2 if segment.begun.segment == 1 else 1)
    )


def noise_for_weights_that_were_not_rounded(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: the noise of a series follows from the real weights, and integers near them are released."""

    def noise(price: Fraction, length: int, groups: int, weights: Weights) -> Gaussian:
        moved, later = 1 if groups == 1 else 2, np.arange(1.0, length)
        reals = np.cumprod(1 - 0.5 / later) / (1 + np.cumsum(1 / later) / 6 if weights is Weights.FADING else 1)
        squares = Fraction(2**24) * (1 + Fraction(float(np.sum(reals**2))))
        return Gaussian(root_at_least(moved * squares / 2 / price))

    patch.setattr(theory, "release_noise", noise)


# -- which rows --------------------------------------------------------------------------------------------------------


def spans_that_overlap(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: spans may overlap, each charged for itself: a row that is counted twice moves twice as far."""

    def lax(desk: Desk, spans: Iterable[Span], _: int) -> None:
        for span in spans:
            desk.check_edge(span.start, "spans")
            desk.check_edge(span.end, "spans")

    patch.setattr(combine, "check_spans", lax)


class Overlapping(Groups):
    """Groups of queries that may match the same cells."""

    __slots__ = ("queries",)
    queries: tuple[Query, ...]

    @classmethod
    def of(cls, queries: Any) -> Overlapping:
        groups = cls((), None)
        object.__setattr__(groups, "queries", tuple(queries))
        return groups

    @property
    def number(self) -> int:
        return len(self.queries)


def groups_that_overlap(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: any queries make groups: a row may be in several, and all of them move with it."""

    honest = Rows.tally

    def tally(rows: Rows, groups: Groups, edges: Sequence[int], sums: Sums | None) -> tuple[Ints, Ints, Ints]:
        assert isinstance(groups, Overlapping)
        assert len(edges) == 2
        each = [honest(rows, honest_groups([query]), edges, sums) for query in groups.queries]
        total = np.array([int(number.sum()) for _, _, number in each])
        return np.zeros_like(total), np.arange(len(total)), total

    honest_groups = Groups.of
    patch.setattr(Rows, "tally", tally)
    patch.setattr(groups, "checked_groups", lambda sets, _: sets)
    patch.setattr(Groups, "of", Overlapping.of)


def runs_on_the_rows_that_are_there(size: Callable[[], int]) -> Twin:
    """DEFECT: a run is charged on (0, size] when it begins; rows that come while it lasts meet it for nothing."""

    def twin(patch: pytest.MonkeyPatch) -> None:
        def begin_run(account: Charges, run: int, cost: Cost) -> None:
            account.ledger.hold(run, Fraction(0))
            account.ledger.charge(account.budget.amount(cost), size())

        patch.setattr(Charges, "begin_run", begin_run)
        patch.setattr(run, "refund", lambda *_: Fraction(0))

    return twin


def a_refund_of_a_run_in_zcdp(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: a silent run gets back 2/s2 of its charge in zCDP, too, as if ρ could be split by what it said."""

    def refund(request: RunRequest, budget: Budget) -> Fraction:
        kept = 1 / exact_scale(request.threshold_scale, "threshold_scale")
        silent = kept if budget.kind == "pure" else kept**2 / 2
        return budget.amount(run.running(request)) - silent

    patch.setattr(run, "refund", refund)


class Shifted(Rows):
    """DEFECT: rows have the places that they had in their frames: one that was dropped shifts all leaves after it."""

    __slots__ = ("raw",)

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.raw: list[int | None] = []
        """The rows as they were given; None: one that did not fit."""

    def tally(self, groups: Groups, edges: Sequence[int], sums: Sums | None = None) -> tuple[Ints, Ints, Ints]:
        given = Rows(self.schema)
        cut = [0]
        for start, end in pairwise(edges):
            given.add_cells(np.array([cell for cell in self.raw[start:end] if cell is not None], dtype=np.int64))
            cut.append(given.size)
        return given.tally(groups, cut, sums)


def a_restart_that_loses_intervals(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: a condensed record brings back what everyone was charged, and not what some rows were."""
    honest = Charges.restore

    def restore(account: Charges, event: Condensed) -> None:
        assert event.steps is not None
        kept = Steps(event.steps.everyone, ((0, Fraction(0)),))
        rest = event.next_segment, event.segments, event.marks
        honest(account, Condensed(event.size, event.spent, event.next_run, event.runs, event.note, kept, *rest))

    patch.setattr(Charges, "restore", restore)


# -- noise and variances -----------------------------------------------------------------------------------------------


def windows_by_difference(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: the variance of a window is the difference of two prefixes' variances, which have noise in common."""
    honest = root.RootSeries._estimate

    def estimate(series: root.RootSeries, first: int) -> tuple[Floats, float]:
        counts, variance = honest(series, first)
        if first > 1:
            last = len(series._releases)
            whole, before = (float(np.sum(theory.prefix_coefficients(each) ** 2)) for each in (last, first - 1))
            variance *= (whole - before) / float(np.sum(theory.window_coefficients(first, last) ** 2))
        return counts, variance

    patch.setattr(root.RootSeries, "_estimate", estimate)


def the_same_noise_again(patch: pytest.MonkeyPatch) -> None:
    """DEFECT: noise is kept, and used again when the same groups are measured again."""
    kept: dict[tuple[Noise, int], Ints] = {}

    def draw(noise: Noise, factor: int, count: int) -> Ints:
        if (noise, count) not in kept:
            kept[noise, count] = honest_draw(noise, factor, count)
        return kept[noise, count].copy()

    draw_by(patch, draw)
