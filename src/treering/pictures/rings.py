"""Growth rings: rows that came together are a ring, and every ring has a whole budget of its own.

The rings have classes and no colours: a style sheet has those, one for light and one for dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from typing import Final

from treering.words import counted

MOST: Final = 18
"""The most rings that are drawn: more could not be told apart."""
_THIN: Final = 0.012
"""The least width of a ring, as a share of the picture's: the newest rows are few, and should be seen."""


@dataclass(frozen=True)
class Ring:
    """Rows that came together."""

    name: str
    rows: int
    left: float | None = None
    """What is left of their budget, as a share of it; None if nobody asks."""

    def __add__(self, later: Ring) -> Ring:
        """Both as one ring: what is left is what the row that has paid most has left."""
        known = [each.left for each in (self, later) if each.left is not None]
        first, last = self.name.split(" to ")[0], later.name.split(" to ")[-1]
        name = first if first == last else f"{first} to {last}"
        return Ring(name, self.rows + later.rows, min(known, default=None))


def merged(rings: Sequence[Ring], most: int = MOST) -> list[Ring]:
    """At most so many rings, the newest by itself: neighbours that are smallest together become one.

    >>> rings = merged([Ring("May", 9), Ring("June", 1), Ring("July", 2), Ring("August", 1)], most=3)
    >>> [(ring.name, ring.rows) for ring in rings]
    [('May', 9), ('June to July', 3), ('August', 1)]
    """
    found = [ring for ring in rings if ring.rows]
    while len(found) > max(2, most):
        sums = [one.rows + other.rows for one, other in pairwise(found[:-1])]
        place = sums.index(min(sums))
        found[place : place + 2] = [found[place] + found[place + 1]]
    return found


def drawn(rings: Sequence[Ring], *, noun: str = "row", width: int = 520, named: bool = False) -> str:
    """Rings as SVG, the oldest at the core: the area of each is in proportion to its rows, unless it would be too thin
    to see. The part of a ring that is left of its budget is drawn over the part that is spent."""
    middle = width / 2
    edges = [0.0, *_edges([ring.rows for ring in rings], 0.97 * middle, _THIN * width)]
    shapes = [
        _ring(ring, place, middle, span, noun, named)
        for place, (ring, span) in enumerate(zip(rings, pairwise(edges), strict=True))
    ]
    label = f"growth rings: {counted(sum(ring.rows for ring in rings), noun)} in {counted(len(rings), 'ring')}"
    return f'<svg viewBox="0 0 {width} {width}" role="img" aria-label="{label}">{"".join(reversed(shapes))}</svg>'


def said(ring: Ring, noun: str = "row") -> str:
    """A ring in words.

    >>> said(Ring("May", 1200, 0.934))
    'May: 1,200 rows, 93.4% of their budget left'
    """
    left = "" if ring.left is None else f", {ring.left:.1%} of their budget left"
    return f"{ring.name}: {counted(ring.rows, noun)}{left}"


def _edges(rows: Sequence[int], radius: float, thin: float) -> list[float]:
    """The outer radius of each ring."""
    total = sum(rows)
    outer = [radius * (size / total) ** 0.5 for size in accumulate(rows)]
    widths = [max(thin, outside - inside) for inside, outside in pairwise([0.0, *outer])]
    return [edge * radius / sum(widths) for edge in accumulate(widths)]


def _ring(ring: Ring, place: int, middle: float, span: tuple[float, float], noun: str, named: bool) -> str:
    inner, outer = span
    at = f'cx="{middle:g}" cy="{middle:g}"'
    shapes = f'<circle {at} r="{outer:.2f}" class="wood wood-{place % 2}"/>'
    if ring.left is not None:  # a circle's line as wide as the ring, drawn along so much of its way
        way = f'pathLength="100" stroke-dasharray="{100 * ring.left:.2f} 100"'
        way += f' transform="rotate(-90 {middle:g} {middle:g})"'
        line = f'r="{(inner + outer) / 2:.2f}" stroke-width="{outer - inner:.2f}"'
        shapes += (
            f'<circle {at} {line} {way} class="left left-{place % 2}"/><circle {at} r="{outer:.2f}" class="edge"/>'
        )
    return f"<g><title>{escape(said(ring, noun))}</title>{shapes}{_name(ring, middle, span) if named else ''}</g>"


def _name(ring: Ring, middle: float, span: tuple[float, float]) -> str:
    inner, outer = span
    height = middle - (inner + outer) / 2 + 4 if inner else middle + 4
    size = min(16.0, 0.85 * (outer - inner))
    return (
        f'<text x="{middle:g}" y="{height:.1f}" font-size="{size:.1f}" text-anchor="middle">{escape(ring.name)}</text>'
    )
