"""ContinualHistogram: the noise of a tree has the scale of its segment, its estimates the law of the recursion; errors
hold for the worst queries there are, by trees and by square roots, and audits that catch broken trees pass both.

Tests of fit have a false-alarm rate of at most 1e-9 and an asserted miss rate (``support.goodness``); audits are
counted in ``support.audits``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

import treering as tr
from support.audits import CONFIDENCE, CONTINUAL_AUDITS, catch_rate, caught
from support.broken import expose
from support.broken_trees import FullBudgetTree, HonestTree, OverlappingLeavesTree
from support.goodness import edges_for, fits, gaussian_masses, laplace_masses, miss_rate, tally
from treering.audit import Stream, grow, lower_bound
from treering.audit.neighbours import neighbour
from treering.budget.convert import epsilon_of
from treering.budget.promise import Budget, Promise
from treering.domain.groups import Groups
from treering.gate import Advanced, Event
from treering.mechanisms.continual import ContinualHistogram
from treering.mechanisms.series.tree import TreeSeries
from treering.noise import Gaussian, Laplace, Noise
from treering.protocols import Gate
from treering.theory.continual import deviation, prefix_law, start_noise
from treering.theory.nodes import Node, completed_by, first_leaf, last_leaf, node_segment, prefix, segment_of
from treering.trusted.memory.database import GrowingDatabase

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MISSED = 1e-6
WIDE = tr.Schema({"a": tr.integers(0, 63), "b": tr.integers(0, 124)})
LEAVES = 7
KINDS = pytest.mark.parametrize("noise", [Laplace(2.5), Gaussian(2.5)], ids=["laplace", "gaussian"])


class Watched(TreeSeries):
    """A tree that lets its nodes be seen as they were released."""

    def __init__(self, groups: Groups, price: Budget) -> None:
        super().__init__(groups, price)
        self.released: dict[Node, Integers] = {}

    def follow(self, event: Event) -> None:
        super().follow(event)
        if isinstance(event, Advanced):
            self.released |= dict(zip(completed_by(self.leaf), event.values, strict=True))

    def nodes_of_next(self, gate: Gate) -> dict[Node, Integers]:
        """The nodes that the rows since the last leaf complete."""
        self.advance(gate)
        return {node: self.released[node] for node in completed_by(self.leaf)}


def price_of(noise: Noise) -> Budget:
    """What a tree costs whose nodes in segment 0 have this noise."""
    scale = Fraction(noise.scale)
    return Budget("pure", 2 / scale) if isinstance(noise, Laplace) else Budget("zcdp", 1 / scale**2)


@cache
def noises(noise: Noise) -> tuple[dict[Node, Integers], dict[int, Floats]]:
    """The noise of all nodes of a tree with seven leaves of one row in cell 0 each, 8,000 cells; and that of the
    estimates of all rows after each leaf. Those after three and seven, where a segment is complete, are looked at."""
    db = GrowingDatabase(WIDE)
    price = price_of(noise)
    assert start_noise(price) == noise
    gate, tree = db.open_gate(price), Watched(Groups.marginal(WIDE), price)
    found: dict[Node, Integers] = {}
    estimates: dict[int, Floats] = {}
    for leaf in range(1, LEAVES + 1):
        db.append_cells([0])
        for node, values in tree.nodes_of_next(gate).items():
            drawn = values.copy()
            drawn[0] -= 2 ** node[0]
            found[node] = drawn
        estimates[leaf] = tree.window(0).counts - np.eye(1, WIDE.cells)[0] * leaf
    return found, estimates


def masses(noise: Noise, edges: Integers) -> Floats:
    return (laplace_masses if isinstance(noise, Laplace) else gaussian_masses)(noise.scale, edges)


# -- noise -------------------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("segment", [0, 1, 2])
def test_a_node_has_the_noise_of_its_segment_and_of_no_other(noise: Noise, segment: int) -> None:
    """2/3 and 3/2 of the scale are rejected, and so are the scales of the segments next to it, on each level."""
    right = noise.shared(segment + 1)
    edges = edges_for(right.scale)
    wrong = [type(noise)(right.scale * off) for off in (2 / 3, 3 / 2)]
    wrong += [noise.shared(other + 1) for other in (segment - 1, segment + 1) if other >= 0]
    for node, drawn in noises(noise)[0].items():
        if node_segment(node) == segment:
            assert fits(tally(drawn, edges), masses(right, edges))
            for other in wrong:
                assert miss_rate(masses(other, edges), masses(right, edges), len(drawn)) < MISSED
                assert not fits(tally(drawn, edges), masses(other, edges))


@KINDS
def test_the_noise_of_a_node_is_its_own(noise: Noise) -> None:
    """Signs of parent and child, and of siblings, are independent: no draw is used twice, none is a sum of others."""
    found = noises(noise)[0]
    for one, two in (((1, 1), (0, 2)), ((0, 2), (0, 3)), ((2, 1), (1, 2)), ((1, 2), (1, 3))):
        law = noise.shared(node_segment(one) + 1)
        signs = np.array([0, 1])
        joint = np.outer(masses(law, signs), masses(law, signs)).reshape(-1)
        pairs = [np.searchsorted(signs, found[node], side="right") for node in (one, two)]
        counts = np.bincount(3 * pairs[0] + pairs[1], minlength=9)
        assert fits(counts, joint)
        assert not fits(np.bincount(4 * pairs[0], minlength=9), joint)


# -- estimates ---------------------------------------------------------------------------------------------------------


def pmf(noise: Noise, reach: int) -> Floats:
    if isinstance(noise, Laplace):
        terms = np.exp(-np.abs(np.arange(-reach, reach + 1)) / noise.scale)
    else:
        terms = np.exp(-((np.arange(-reach, reach + 1) / noise.scale) ** 2) / 2)
    return np.asarray(terms / terms.sum())


def combined(noise: Noise, leaf: int, unit: int) -> Floats:
    """The exact law of a cell's noise in the estimate of all rows, in steps of 1/unit, by convolution."""
    law = np.ones(1)
    for level, index in prefix(leaf):
        for below in range(level + 1):
            step = unit * 2**below // (2 ** (level + 1) - 1)
            own = noise.shared(node_segment((level, index)) + 1)
            single = pmf(own, math.ceil((40 if isinstance(noise, Laplace) else 12) * own.scale))
            spaced = np.zeros((len(single) - 1) * step + 1)
            spaced[::step] = single
            for _ in range(2 ** (level - below)):
                law = np.convolve(law, spaced) if len(law) < 500 else np.asarray(_convolve(law, spaced))
    return law


def _convolve(one: Floats, two: Floats) -> Floats:
    size = len(one) + len(two) - 1
    product = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(two, size), size)
    return np.maximum(product, 0.0)


@KINDS
@pytest.mark.parametrize("leaf", [3, LEAVES])
def test_an_estimate_has_the_law_and_the_variance_of_the_recursion(noise: Noise, leaf: int) -> None:
    """At leaf 3 a cell's noise is X1 + (2Y + Y2 + Y3)/3, at leaf 7 a sum of eleven: the exact law, by convolution."""
    unit = 3 if leaf == 3 else 21
    law = combined(noise, leaf, unit)
    steps = np.arange(len(law)) - len(law) // 2
    variance = float((law * (steps / unit) ** 2).sum() / law.sum())
    bound = deviation(noise, prefix(leaf)) ** 2
    assert variance == pytest.approx(bound, rel=1e-6)

    drawn = noises(noise)[1][leaf]
    scaled = np.rint(drawn * unit).astype(np.int64)
    assert np.abs(scaled - drawn * unit).max() < 1e-6
    edges = edges_for(unit * math.sqrt(variance))
    places = np.searchsorted(edges, steps, side="right")
    right = np.array([law[places == place].sum() for place in range(len(edges) + 1)]) / law.sum()
    assert fits(tally(scaled, edges), right)
    # A recursion that did not combine: the roots and digits alone, with more variance.
    plain = sum(noises(noise)[0][node] for node in prefix(leaf))
    assert isinstance(plain, np.ndarray)
    assert not fits(tally(plain * unit, edges), right)


# -- errors ------------------------------------------------------------------------------------------------------------


SQUARE = tr.Schema({"a": tr.integers(0, 19), "b": tr.integers(0, 19)})


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_errors_hold_for_the_worst_queries_and_are_not_idle(delta: float) -> None:
    """For each number of cells the set whose noise is largest, found with the truth at hand: no analyst can do worse.
    And the same for values of one attribute, whose errors are a good deal smaller.

    Beta is 1e-9. A third of the bounds for many cells would be broken: half of them is what the sums of the largest of
    hundreds of draws come to, and these vary by a few per cent.
    """
    generator = np.random.default_rng(5)
    db = GrowingDatabase(SQUARE)
    cells = generator.integers(0, SQUARE.cells, 200_000)
    db.append_cells(cells)
    histogram = ContinualHistogram(db, 1.0, delta, beta=1e-9)
    for batch in range(1, 24):
        histogram.ask("a = 0")
        if batch in (1, 2, 6, 13, 23):
            for since in {0, *histogram.boundaries[-2:]}:
                _check_worst(histogram, np.bincount(cells[since:], minlength=SQUARE.cells), since)
        fresh = generator.integers(0, SQUARE.cells, 80_000)
        db.append_cells(fresh)
        cells = np.concatenate([cells, fresh])


def _check_worst(histogram: ContinualHistogram, truth: Integers, since: int) -> None:
    each = [tr.Query.where(SQUARE, a=a, b=b) for a in range(20) for b in range(20)]
    size = int(truth.sum())
    noisy = np.array([answer.value for answer in histogram.ask_many(each, since=since)]) * size
    order = np.argsort(noisy - truth)
    widest = tr.Query.weighted(SQUARE, np.arange(SQUARE.cells) % 21 % 2)
    for number in (1, 3, 20, 100, 200):
        for chosen in (order[:number], order[-number:]):
            weights = np.zeros(SQUARE.cells)
            weights[chosen] = 1
            answer = histogram.ask(tr.Query.weighted(SQUARE, weights), since=since)
            off = abs(answer.value - truth[chosen].sum() / size)
            assert off <= answer.error
            assert number < 100 or off > answer.error / 3
    marginal = np.argsort((noisy - truth).reshape(20, 20).sum(axis=1))
    shares = truth.reshape(20, 20).sum(axis=1) / size
    for number in (1, 5, 10):
        for values in (marginal[:number], marginal[-number:]):
            answer = histogram.ask(tr.Query.where(SQUARE, a=values.tolist()), since=since)
            assert abs(answer.value - shares[values].sum()) <= answer.error
            assert answer.error < 0.6 * histogram.ask(widest, since=since).error


# -- audits ------------------------------------------------------------------------------------------------------------

PAIR = tr.Schema({"late": tr.categories("no", "yes")})
LATE = tr.Query.where(PAIR, late="yes")
Run = Callable[[Stream], Hashable]


def streams(batches: int, replaced: int) -> tuple[Stream, Stream]:
    """Batches of two rows each, one late and one not; on the right both rows of one batch are late."""
    left = Stream(PAIR, ((0, 1),) * batches)
    return left, neighbour(left, replaced - 1, 0, 1)


def signs(inside: int, outside: int, rows: int) -> int:
    """How many of a node's two counts are on the left's side: no more are late, and no fewer in time, than there."""
    return (inside <= rows // 2) + (outside >= rows // 2)


def nearly_all(noises: Sequence[Noise], missing: int = 1) -> tuple[float, float]:
    """The probability, on each side, that all but so many of the `signs` of nodes with the replaced row are the left's.

    Each is so with probability P(X ≤ 0) on the left, P(X ≤ −1) on the right.
    """
    sides = []
    for right in (False, True):
        law = np.ones(1)
        for noise in noises:
            low, zero, _ = masses(noise, np.array([0, 1]))
            chance = float(low if right else low + zero)
            law = np.convolve(law, [1 - chance, chance])
        sides.append(float(law[len(noises) - missing :].sum()))
    return sides[0], sides[1]


def tree_run(budget: Budget, replaced: int) -> Run:
    """A tree on the kernel: the `signs` of its nodes that hold the replaced row."""

    def run(stream: Stream) -> Hashable:
        found = 0
        gate, tree = None, Watched(Groups.marginal(PAIR), budget)
        for db in grow(stream):
            gate = gate or db.open_gate(budget)
            for node, values in tree.nodes_of_next(gate).items():
                if first_leaf(node) <= replaced <= last_leaf(node):
                    outside, inside = values.tolist()
                    found += signs(inside, outside, 2 * 2 ** node[0])
        return found

    return run


@pytest.mark.parametrize(("batches", "replaced", "samples"), [(3, 2, 600), (7, 5, 800)])
def test_a_tree_loses_what_it_was_charged_and_no_more(batches: int, replaced: int, samples: int) -> None:
    """The event that all signs are the left's has exactly the whole epsilon as its loss."""
    epsilon = 8.0
    budget = Promise(epsilon).budget
    noise = start_noise(budget)
    levels = segment_of(replaced) + 1
    likely, unlikely = nearly_all([noise.shared(levels)] * 2 * levels, missing=0)
    assert math.log(likely / unlikely) == pytest.approx(epsilon)
    likely, unlikely = nearly_all([noise.shared(levels)] * 2 * levels)
    assert catch_rate(likely, unlikely, samples // 2, epsilon / 5) > 1 - MISSED
    found = lower_bound(tree_run(budget, replaced), *streams(batches, replaced), samples, CONFIDENCE)
    assert epsilon / 5 < found <= epsilon


def test_a_gaussian_tree_keeps_its_promise() -> None:
    epsilon, delta, samples = 12.0, 1e-6, 1000
    budget = Promise(epsilon, delta).budget
    noise = start_noise(budget)
    assert epsilon_of(budget.total, delta) <= epsilon
    likely, unlikely = nearly_all([noise.shared(2)] * 4)
    assert catch_rate(likely, unlikely, samples // 2, epsilon / 20, delta) > 1 - MISSED
    found = lower_bound(tree_run(budget, 2), *streams(3, 2), samples, CONFIDENCE, delta)
    assert epsilon / 20 < found <= epsilon


def histogram_run(recent: bool, delta: float = 0.0) -> Run:
    """The mechanism, asked after every batch about all rows, or about the latest batch: above half or not."""

    def run(stream: Stream) -> Hashable:
        found: list[bool] = []
        histogram = None
        for db in grow(stream):
            histogram = histogram or ContinualHistogram(db, ANSWERED, delta)
            found.append(histogram.ask(LATE, since=db.size - 2 if recent else None).value > 0.5)
        return tuple(found)

    return run


ANSWERED = 12.0


def above(noise: Noise) -> tuple[float, float]:
    """P(X − Y > 0) and P(X − Y > −2), X and Y independent: more than half are late, on the left and on the right."""
    law = pmf(noise, 60)
    gap = np.convolve(law, law)
    middle = len(gap) // 2
    return float(gap[middle + 1 :].sum()), float(gap[middle - 1 :].sum())


@pytest.mark.parametrize(("recent", "replaced", "samples"), [(False, 1, 320), (True, 2, 600)])
def test_the_mechanism_keeps_its_promise(recent: bool, replaced: int, samples: int) -> None:
    """Answers only. The event: the answer about the batch with the replaced row is above half."""
    noise = start_noise(Promise(ANSWERED).budget).shared(replaced)
    unlikely, likely = above(noise)
    assert catch_rate(likely, unlikely, samples // 2, ANSWERED / 20) > 1 - MISSED
    found = lower_bound(histogram_run(recent), *streams(2, replaced), samples, CONFIDENCE)
    assert ANSWERED / 20 < found <= ANSWERED


def test_the_mechanism_keeps_its_promise_by_square_roots() -> None:
    """The event: the first answer is not above half. Noise has 2^12 steps a row, and so nearly the normal law."""
    delta, samples = 1e-6, 1000
    spread = math.sqrt(2) * prefix_law(Promise(ANSWERED, delta).budget, PAIR.cells, 1).deviation
    likely, unlikely = 0.5, float(norm.sf(2 / spread)) * 1.01
    assert catch_rate(likely, unlikely, samples // 2, ANSWERED / 20, delta) > 1 - MISSED
    found = lower_bound(histogram_run(False, delta), *streams(2, 1), samples, CONFIDENCE, delta)
    assert ANSWERED / 20 < found <= ANSWERED


def test_there_are_no_more_audits_than_were_announced() -> None:
    assert CONTINUAL_AUDITS >= 2 + 1 + 2 + 1


# -- negative controls -------------------------------------------------------------------------------------------------

Tree: TypeAlias = type[HonestTree] | type[FullBudgetTree] | type[OverlappingLeavesTree]


def broken_run(tree: Tree, claimed: float, nodes: set[Node]) -> Run:
    """As `tree_run`, for some nodes of a control."""

    def run(stream: Stream) -> Hashable:
        found = 0
        control = None
        for time, db in enumerate(expose(stream), start=1):
            control = control or tree(db, claimed)
            for node, (inside, outside) in zip(completed_by(time), control.ask(LATE), strict=True):
                if node in nodes:
                    found += signs(inside, outside, 2 * (time - control.start_of(node)))
        return found

    return run


def test_levels_that_each_spend_everything_are_caught() -> None:
    pair, nodes, samples = streams(3, 2), {(0, 2), (1, 1)}, 4000
    likely, unlikely = nearly_all([Laplace(1.0)] * 4, missing=0)
    assert math.log(likely / unlikely) == pytest.approx(4.0)
    assert catch_rate(likely, unlikely, samples // 2, 2.0) > 0.99
    assert caught(broken_run(FullBudgetTree, 2.0, nodes), pair, samples, claimed=2.0)
    assert not caught(broken_run(HonestTree, 2.0, nodes), pair, 1000, claimed=2.0)


def test_leaves_that_overlap_are_caught() -> None:
    """The first batch is in leaf 1, and again in leaf 2 and in the root of segment 1: twice epsilon."""
    pair, nodes, samples = streams(3, 1), {(0, 1), (0, 2), (1, 1)}, 9000
    noises = [Laplace(2 / 3)] * 2 + [Laplace(4 / 3)] * 4
    likely, unlikely = nearly_all(noises, missing=0)
    assert math.log(likely / unlikely) == pytest.approx(6.0)
    likely, unlikely = nearly_all(noises)
    assert catch_rate(likely, unlikely, samples // 2, 3.0) > 0.99
    assert caught(broken_run(OverlappingLeavesTree, 3.0, nodes), pair, samples, claimed=3.0)
    assert not caught(broken_run(HonestTree, 3.0, {(0, 1)}), pair, 1000, claimed=3.0)
