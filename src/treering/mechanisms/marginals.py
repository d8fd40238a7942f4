"""A vector over all cells and its marginals: each computed when it is asked for, then changed along with the vector."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, TypeAlias

from treering.arrays import Floats
from treering.mechanisms.histogram import blocks
from treering.mechanisms.histogram.blocks import Sets, Shape

Axes: TypeAlias = tuple[int, ...]

MARGINAL_CELLS: Final = 2**22
"""The largest marginal that is kept."""

CACHED_CELLS: Final = 2**25
"""The marginals kept have at most this many entries together; the least recently used go first."""


class Tabulated:
    """A vector z of positive numbers, one for each cell, and its marginals.

    A change by factors that depend on some axes is made to z and to the marginals over these axes and more, each in
    time of the order of its size. The other marginals are forgotten: when one is asked for again, it takes one pass
    over z, or over the smallest marginal left that it can be computed from.
    """

    def __init__(self, cells: Floats, shape: Shape) -> None:
        self.cells: Final = cells
        self.shape: Final = shape
        self._marginals: OrderedDict[Axes, Floats] = OrderedDict()

    def total(self) -> float:
        """The sum of all cells, taken anew."""
        return float(blocks.marginal(self.cells, self.shape, ())[0])

    def sums(self, axes: Axes) -> Floats:
        """The marginal over some axes, flat: not to be written to."""
        if len(axes) == len(self.shape):
            return self.cells
        if axes in self._marginals:
            self._marginals.move_to_end(axes)
            return self._marginals[axes]
        wider, cells = min(self._wider(axes), key=lambda each: len(each[1]))
        sums = blocks.marginal(cells, self._sizes(wider), [wider.index(axis) for axis in axes])
        if len(sums) <= MARGINAL_CELLS:
            self._keep(axes, sums)
        return sums

    def block_sums(self, sets: Sets) -> tuple[float, float]:
        """The sum over a block, and over all other cells: one pass over the marginal, or over z if that is too wide."""
        axes = tuple(sets)
        sizes = self._sizes(axes)
        if math.prod(sizes) > MARGINAL_CELLS:
            return blocks.block_sums(self.cells, self.shape, sets)
        return blocks.block_sums(self.sums(axes), sizes, dict(enumerate(sets.values())))

    def scale_block(self, sets: Sets, ratio: float) -> None:
        """Multiply a block."""
        for axes, cells in self._changing(tuple(sets)):
            within = {axes.index(axis): flags for axis, flags in sets.items()}
            blocks.scale_block(cells, self._sizes(axes), within, ratio)

    def reweigh_block(self, sets: Sets, *, inside: float, outside: float, slope: float, even: float) -> None:
        """(slope·z + even/N)·inside in a block, (slope·z + even/N)·outside elsewhere."""
        for axes, cells in self._changing(tuple(sets)):
            within = {axes.index(axis): flags for axis, flags in sets.items()}
            level = even / len(cells)
            blocks.reweigh_block(
                cells, self._sizes(axes), within, inside=inside, outside=outside, slope=slope, level=level
            )

    def reweigh_table(self, axes: Axes, factors: Floats, *, slope: float, even: float) -> None:
        """(slope·z + even/N)·factor, one for each joint value of some axes."""
        for wider, cells in self._changing(axes):
            within = [wider.index(axis) for axis in axes]
            blocks.reweigh_table(cells, self._sizes(wider), within, factors, slope=slope, level=even / len(cells))

    def forget(self) -> None:
        """Forget all marginals, so that they are taken anew: those changed along collect rounding errors."""
        self._marginals.clear()

    def _sizes(self, axes: Axes) -> Shape:
        return tuple(self.shape[axis] for axis in axes)

    def _wider(self, axes: Axes) -> Iterator[tuple[Axes, Floats]]:
        """What the marginal over these axes can be computed from: z, and marginals over these axes and more."""
        yield tuple(range(len(self.shape))), self.cells
        yield from ((kept, cells) for kept, cells in self._marginals.items() if set(axes) <= set(kept))

    def _changing(self, axes: Axes) -> Iterator[tuple[Axes, Floats]]:
        """What changes by factors that depend on these axes; marginals that cannot follow are forgotten."""
        for kept in [kept for kept in self._marginals if not set(axes) <= set(kept)]:
            del self._marginals[kept]
        return self._wider(axes)

    def _keep(self, axes: Axes, sums: Floats) -> None:
        self._marginals[axes] = sums
        while sum(len(each) for each in self._marginals.values()) > CACHED_CELLS:
            self._marginals.popitem(last=False)
