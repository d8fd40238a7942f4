"""Histograms: the counts over all cells, or over the joint values of some attributes, plus noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.gate import HistogramReleased
from treering.noise import Noise
from treering.trusted import pricing
from treering.trusted.noise import check_noise, draw
from treering.trusted.operations.base import Desk, Operation


class Table(NamedTuple):
    """A checked request."""

    noise: Noise
    attributes: tuple[int, ...]


class Tabulating(Operation[Table, HistogramReleased]):
    """Noisy counts of all joint values. Cost: 2/s pure, 1/σ² zCDP."""

    __slots__ = ()
    event = HistogramReleased
    cells = True

    def check(self, desk: Desk, *request: Any) -> Table:
        """Refuse attributes that are not of the schema, and too many joint values."""
        noise, attributes = request
        chosen = desk.check_attributes(attributes)
        check_noise(noise, 1)
        return Table(noise, chosen)

    def price(self, checked: Table, desk: Desk) -> Cost:
        """See `tabulating`."""
        return tabulating(checked.noise)

    def perform(self, checked: Table, cost: Cost, desk: Desk) -> HistogramReleased:
        """The noisy counts."""
        return HistogramReleased(desk.size, cost, checked.attributes, checked.noise, _noisy(checked, desk))


def tabulating(noise: Noise) -> Cost:
    """A replaced row changes two cells by one each: the cost of two answers, whatever the number of cells."""
    one = pricing.noisy(Fraction(1), noise)
    return one + one


def _noisy(checked: Table, desk: Desk) -> Ints:
    shape = tuple(desk.schema.shape[position] for position in checked.attributes)
    noisy = draw(checked.noise, 1, math.prod(shape)).reshape(shape) + desk.cells.marginal(checked.attributes)
    noisy.setflags(write=False)
    return noisy
