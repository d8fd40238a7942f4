"""Quantiles of numbers in two steps: where on a coarse grid, then cuts within the cells that the first interval meets.

A quantile is read off counts of the column's cells, so its interval is made of whole cells. The first step cuts the
column into `CELLS` even cells. If the interval then has few cells, it is the cells that make it wide and not the noise:
the second step cuts these, and their neighbours, into as many again. Both steps are series like any other, paid for
once and kept current; the cuts of the second are chosen by what the first released, and its noise is its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

from treering.answer import Estimate
from treering.domain.attribute import Bins
from treering.domain.axis import scalar_of
from treering.domain.language.items import Item, under_one_lens
from treering.domain.numeric import Numbers
from treering.mechanisms.series.ring import Ring

CELLS: Final = 64
"""The cells of each step."""
FEW: Final = 6
"""Cells of an interval up to which it is worth cutting them."""
MOST: Final = 2**16
"""The most cells of all quantiles of a batch: more quantiles are read off the declared cells."""

Cuts: TypeAlias = tuple[float, ...]


def coarse(items: Sequence[Item]) -> list[Item]:
    """The items, with a grid for each quantile of numbers that are declared with few cells."""
    number = sum(item.kind == "quantile" for item in items)
    if number * (CELLS + 2) > MOST:
        return list(items)
    return _cut(items, [_grid(_bins(item)) if item.kind == "quantile" else () for item in items])


def finer(items: Sequence[Item], estimates: Sequence[Estimate], rings: Sequence[Ring]) -> list[Item]:
    """The items, with finer cuts for each quantile whose interval is of few cells of its grid; where a series has such
    cuts already, with these."""
    met = {place: span for place, item in enumerate(items) if (span := _met(item, estimates[place])) is not None}
    cuts = [item.cuts for item in items]
    for position in {items[place].position for place in met}:
        places = [place for place in met if items[place].position == position]
        low, high = min(met[place][0] for place in places), max(met[place][1] for place in places)
        item = items[places[0]]
        known = _known(item, low, high, rings)
        wanted = known or _within(_bins(item), item.cuts, low, high)
        for place in places:
            cuts[place] = wanted or cuts[place]
    return _cut(items, cuts)


def _cut(items: Sequence[Item], cuts: Sequence[Cuts]) -> list[Item]:
    """The items, each read off the cells that its cuts make."""
    if all(item.cuts == each for item, each in zip(items, cuts, strict=True)):
        return list(items)
    found: list[Item] = []
    for item, each in zip(items, cuts, strict=True):
        schema = item.query.schema
        lens = schema.cut({schema.names[item.position]: each}) if each else schema
        found.append(replace(item, query=item.query.under(lens), cuts=each))
    return under_one_lens(found)


def _bins(item: Item) -> Bins | None:
    schema = item.query.schema
    attribute = schema.attributes[schema.names[item.position]]
    return attribute if isinstance(attribute, Bins) else None


def _grid(attribute: Bins | None) -> Cuts:
    """The cuts of the first step; none where the declared cells are as many."""
    if attribute is None or attribute.regular >= CELLS // 2:
        return ()
    low, high = _range(attribute)
    return tuple(sorted({*_even(attribute, low, high), *attribute.edges}))


def _range(attribute: Bins) -> tuple[float, float]:
    limits = (attribute.low, attribute.high) if isinstance(attribute, Numbers) else ()
    return min(*attribute.edges, *limits), max(*attribute.edges, *limits)


def _even(attribute: Bins, low: float, high: float) -> list[float]:
    """Even cuts from ``low`` to ``high``; of numbers with a step, whole steps from the lower bound."""
    if not isinstance(attribute, Numbers):
        return [low + (high - low) * place / CELLS for place in range(CELLS)] + [high]
    start, step = Fraction(repr(attribute.low)), Fraction(repr(attribute.step))
    first, last = ((Fraction(repr(each)) - start) / step for each in (low, high))
    number = max(1, min(CELLS, int(last - first)))
    places = {int(first + (last - first) * place / number) for place in range(number + 1)}
    return [float(start + place * step) for place in sorted(places)]


def _met(item: Item, estimate: Estimate) -> tuple[float, float] | None:
    """From where to where the interval of a quantile reaches, if it is of few cells of its grid."""
    if item.kind != "quantile" or not item.cuts or not item.cuts[0] <= estimate.low < estimate.high <= item.cuts[-1]:
        return None
    cells = bisect_left(item.cuts, estimate.high) - bisect_right(item.cuts, estimate.low) + 1
    return (estimate.low, estimate.high) if cells <= FEW else None


def _within(attribute: Bins | None, grid: Cuts, low: float, high: float) -> Cuts:
    """Cuts of the cells from ``low`` to ``high`` and of one on each side; none if these are most of the grid, or cannot
    be cut."""
    assert attribute is not None
    first, last = max(0, bisect_right(grid, low) - 2), min(len(grid) - 1, bisect_left(grid, high) + 1)
    if 3 * (last - first) > len(grid):
        return ()
    cuts = tuple(_even(attribute, grid[first], grid[last]))
    return cuts if len(cuts) > 2 * (last - first) else ()


def _known(item: Item, low: float, high: float, rings: Sequence[Ring]) -> Cuts:
    """The finest cuts from ``low`` to ``high``, at least twice the grid's, that a series has which tells the item."""
    schema = item.query.schema
    name = schema.names[item.position]
    scalar = scalar_of(name, schema.attributes[name])
    grid = sum(low <= cut <= high for cut in item.cuts)
    found: list[tuple[int, Cuts]] = []
    for ring in rings:
        for axis in ring.opened.groups.axes:
            cuts = tuple(axis.cuts.tolist()) if axis.scalar == scalar else ()
            within = sum(low <= cut <= high for cut in cuts)
            if cuts and cuts[0] <= low and high <= cuts[-1] and within >= 2 * grid and _tells(ring, item, cuts):
                found.append((within, cuts))
    return max(found, default=(0, ()))[1]


def _tells(ring: Ring, item: Item, cuts: Cuts) -> bool:
    """Whether a series tells the cells that some cuts make of an item."""
    (cut,) = _cut([item], [cuts])
    return all(ring.covers(query) for query in cut.cells() if not query.constant)
