"""The cost of one operation, from its noise and its sensitivity; and the shape of the binary tree over batches.

Neighbours replace one row (it keeps its arrival time). A cost states two guarantees at once: pure differential privacy
where there is one, and zero-concentrated differential privacy (zCDP) always. Both add up under adaptive composition.
Arithmetic is exact, a float being its binary value, and in integers up to the last step: intermediate rationals would
each be reduced.

*The tree* never ends: it says which batches a node of `ContinualHistogram` holds, and in which segment it lies. Leaves
(batches) are numbered 1, 2, …; node (level, index) holds the leaves index·2^level … (index+1)·2^level − 1. Nodes of one
level are disjoint. Segment k is the leaves 2^k … 2^{k+1}−1, and a complete tree of k+1 levels over them. A node with
index ≥ 1 lies within one segment: its leaves share their leading bit. (Index 0 would begin with a leaf 0 and span
several segments: there is no such node.) So a leaf of segment k lies in k+1 nodes, one at each level 0 … k.

>>> [(level, index) for level, index in nodes_of(6)], segment_of(6)
([(0, 6), (1, 3), (2, 1)], 2)
>>> completed_by(7), completed_by(5), prefix(6)
(((0, 7), (1, 3), (2, 1)), ((0, 5), (1, 2)), ((0, 1), (1, 1), (1, 2), (0, 6)))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

# -- costs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an operation that is ``epsilon``-DP (None: for no epsilon) and ``rho``-zCDP.

    >>> laplace(1, 10) + laplace(1, 10)
    Cost(epsilon=Fraction(1, 5), rho=Fraction(1, 100))
    """

    epsilon: Fraction | None
    rho: Fraction

    def __post_init__(self) -> None:
        if self.rho.numerator < 0 or (self.epsilon is not None and self.epsilon.numerator < 0):
            raise ValueError("a cost is not negative")

    def __add__(self, other: Cost) -> Cost:
        rho = self.rho + other.rho
        if self.epsilon is None or other.epsilon is None:
            return Cost(None, rho)
        return Cost(self.epsilon + other.epsilon, rho)


FREE = Cost(Fraction(0), Fraction(0))


def pure(epsilon: Fraction) -> Cost:
    """The cost of any ε-DP operation: it is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4)."""
    top, bottom = epsilon.as_integer_ratio()
    return Cost(epsilon, Fraction(top**2, 2 * bottom**2))


def laplace(sensitivity: Fraction | int, scale: Fraction | int) -> Cost:
    """The cost of discrete Laplace noise of this scale on integers of this L1 sensitivity: (sensitivity/scale)-DP."""
    return pure(Fraction(sensitivity) / Fraction(scale))


def gaussian(squared_sensitivity: Fraction | int, scale: Fraction | float) -> Cost:
    """The cost of discrete Gaussian noise N(0, scale²) on integers; it has no pure guarantee.

    ρ = Δ²/(2σ²) (Canonne, Kamath and Steinke 2020, Theorem 4). ``squared_sensitivity`` is Δ², the square of the L2
    sensitivity: Δ itself, such as √2, need not be rational.
    """
    (squared, parts), (top, bottom) = squared_sensitivity.as_integer_ratio(), scale.as_integer_ratio()
    return Cost(None, Fraction(squared * bottom**2, 2 * parts * top**2))


def exponential(sensitivity: Fraction | int, scale: Fraction | int) -> Cost:
    """The cost of the exponential mechanism with weights e^{score/scale}: ε = 2·sensitivity/scale.

    ``sensitivity`` is the most that a replaced row moves a score.

    Its privacy loss has range ε, not 2ε, hence ρ = ε²/8 (Rogers and Steinke 2021, Cesar and Rogers 2021).
    """
    epsilon = 2 * Fraction(sensitivity) / Fraction(scale)
    return Cost(epsilon, epsilon**2 / 8)


def sparse_run(threshold_scale: Fraction | float, query_scale: Fraction | float) -> Cost:
    """The cost of a sparse-vector run, whatever it is asked and however the data grow: ε = 1/s1 + 2/s2.

    Scales are in counts and stay fixed for the run; a query of weight scale W gets noise of scale W·s2 and is compared
    with a threshold whose noise is W times the run's one integer draw.
    """
    (first, parts), (second, others) = threshold_scale.as_integer_ratio(), query_scale.as_integer_ratio()
    return pure(Fraction(parts * second + 2 * others * first, first * second))


def silent_run(threshold_scale: Fraction | int) -> Fraction:
    """The pure loss of a run that has answered only "below" so far: ε = 1/s1, whatever the number of queries."""
    return 1 / Fraction(threshold_scale)


# -- the binary tree over batches --------------------------------------------------------------------------------------


Node: TypeAlias = tuple[int, int]
"""A level, 0 for leaves, and an index within the level, from 1 on."""


def segment_of(leaf: int) -> int:
    """The number of the segment that a leaf lies in."""
    return leaf.bit_length() - 1


def node_segment(node: Node) -> int:
    """The number of the segment that a node lies in."""
    level, index = node
    return level + segment_of(index)


def first_leaf(node: Node) -> int:
    """The first leaf of a node."""
    level, index = node
    return index << level


def last_leaf(node: Node) -> int:
    """The last leaf of a node."""
    level, index = node
    return ((index + 1) << level) - 1


def nodes_of(leaf: int) -> tuple[Node, ...]:
    """The nodes that a leaf lies in, from the leaf to its segment's root."""
    return tuple((level, leaf >> level) for level in range(segment_of(leaf) + 1))


def completed_by(leaf: int) -> tuple[Node, ...]:
    """The nodes whose last leaf is ``leaf``, the lowest level first."""
    return tuple(node for node in nodes_of(leaf) if last_leaf(node) == leaf)


def prefix(leaf: int) -> tuple[Node, ...]:
    """The fewest nodes that hold exactly the leaves 1 to ``leaf``: the roots of the earlier segments, and one node for
    each binary digit 1 of the number of leaves so far in its own."""
    segment = segment_of(leaf)
    nodes = [(level, 1) for level in range(segment)]
    cut, start = leaf + 1 - (1 << segment), 1 << segment
    for level in range(segment, -1, -1):
        if cut >> level & 1:
            nodes.append((level, start >> level))
            start += 1 << level
    return tuple(nodes)
