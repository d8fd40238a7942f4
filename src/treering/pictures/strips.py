"""Charts as wide as the page lets them be: every place across is a percentage, so their text keeps its size.

Like the rings they have classes and no colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Final

from treering.pictures.rings import Ring, said
from treering.pictures.svg import ticks
from treering.words import counted

_TOP: Final = 18
_BOTTOM: Final = 22
"""The room above and below a chart's plot, in pixels: for the numbers of its axes."""


@dataclass(frozen=True)
class Column:
    """What was counted in some span of time, by kind."""

    name: str
    counts: Mapping[str, int]


def budget(rings: Sequence[Ring], height: int = 170) -> str:
    """What is spent of each row's budget, over the rows in the order in which they came."""
    size, floor = sum(ring.rows for ring in rings), height - _BOTTOM
    ends = list(accumulate(ring.rows for ring in rings))
    parts = [_rect(0, _TOP, 100, floor - _TOP, "kept"), *_rules((0, 50, 100), 100, floor, "%")]
    for ring, end in zip(rings, ends, strict=True):
        spent = (1 - (1.0 if ring.left is None else ring.left)) * (floor - _TOP)
        start = 100 * (end - ring.rows) / size
        bar = _rect(start, floor - spent, 100 * ring.rows / size, spent, "spent")
        parts.append(f"<g><title>{escape(said(ring))}</title>{bar}</g>")
    parts += [_across(100 * tick / size, height, short(tick)) for tick in ticks(0, size)]
    return _picture(height, f"budget spent, over {counted(size, 'row')} in the order in which they came", parts)


def columns(stacked: Sequence[Column], kinds: Sequence[str], height: int = 170) -> str:
    """Counts by kind, one stack for each span of time; a kind's class has its place among the kinds."""
    most = max(1, *(sum(each.counts.values()) for each in stacked))
    scale = ticks(0, most) if most > 2 else [0, 1, 2]
    top, floor, wide = max(most, scale[-1]), height - _BOTTOM, 100 / len(stacked)
    parts = list(_rules(scale, top, floor))
    for place, column in enumerate(stacked):
        down, stack = float(floor), []
        for number, kind in enumerate(kinds):
            tall = column.counts.get(kind, 0) / top * (floor - _TOP)
            down -= tall
            if tall:
                stack.append(_rect((place + 0.12) * wide, down, 0.76 * wide, tall, f"kind kind-{number}"))
        parts.append(f"<g><title>{escape(_told(column, kinds))}</title>{''.join(stack)}</g>")
    named = {0: "start", len(stacked) - 1: "end"} if len(stacked) > 1 else {0: "middle"}
    for place, anchor in named.items():
        at = {"start": 0.0, "end": 100.0, "middle": 50.0}[anchor]
        parts.append(_text(at, height - 5, stacked[place].name, anchor))
    total = sum(sum(each.counts.values()) for each in stacked)
    return _picture(height, f"{counted(total, 'answer')} over time, by kind", parts)


def bar(value: float, margin: float | None, span: tuple[float, float], *, track: bool = False) -> str:
    """A number as a bar, with its error bar if it has a margin, within a span that is the same for all that are
    compared; on a ``track`` as long as the span if there is nothing else to compare it with.

    >>> bar(30, 10, (0, 40)).count('class="whisker"')
    3
    """
    zero, here = _share(0, span), _share(value, span)
    shapes = [_rect(0, 3, 100, 8, "track")] if track else []
    shapes.append(_rect(min(zero, here), 3, abs(here - zero), 8, "bar"))
    if margin is not None:
        low, high = _share(value - margin, span), _share(value + margin, span)
        ends = ((low, 7, high, 7), (low, 3, low, 11), (high, 3, high, 11))
        shapes += [_line(*each, "whisker") for each in ends]
    return f'<svg class="bar-chart" width="100%" height="14" aria-hidden="true">{"".join(shapes)}</svg>'


def span_of(values: Sequence[float], margins: Sequence[float]) -> tuple[float, float]:
    """From the lower end of the lowest error bar to the upper end of the highest, with 0 between; counts end at 0.

    >>> span_of([30.0, 20.0], [10.0, 15.0])
    (0.0, 40.0)
    """
    pairs = list(zip(values, margins, strict=True))
    low = min([0.0, *(value - margin for value, margin in pairs if value < 0)])
    return low, max([0.0, *(value + margin for value, margin in pairs)])


def short(value: float) -> str:
    """A number of an axis: no longer than it must be.

    >>> short(800), short(9500), short(40_000), short(2_500_000), short(1e9)
    ('800', '9,500', '40k', '2.5M', '1B')
    """
    for power, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= power and (letter != "k" or abs(value) >= 1e4):
            return f"{value / power:g}{letter}"
    return f"{value:,g}"


def _told(column: Column, kinds: Sequence[str]) -> str:
    counts = ", ".join(f"{column.counts[kind]:,} {kind}" for kind in kinds if column.counts.get(kind))
    return f"{column.name}: {counts or 'none'}"


def _share(value: float, span: tuple[float, float]) -> float:
    """A value's place in a span, in percent."""
    low, high = span
    return 100 * min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0


def _rules(values: Sequence[float], top: float, floor: int, unit: str = "") -> list[str]:
    """Lines across, each with its number above it."""
    heights = [floor - value / top * (floor - _TOP) for value in values]
    return [
        _line(0, height, 100, height, "rule") + _text(0, height - 4, short(value) + unit, "start")
        for value, height in zip(values, heights, strict=True)
        if value  # the floor needs no number
    ] + [_line(0, floor, 100, floor, "floor")]


def _across(place: float, height: int, text: str) -> str:
    anchor = "start" if place < 5 else "end" if place > 95 else "middle"
    return _text(place, height - 5, text, anchor)


def _picture(height: int, label: str, parts: Sequence[str]) -> str:
    opened = f'<svg class="strip" width="100%" height="{height}" role="img" aria-label="{escape(label)}">'
    return f"{opened}{''.join(parts)}</svg>"


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.2f}%" y="{y:.1f}" width="{width:.2f}%" height="{height:.1f}" class="{kind}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.2f}%" y1="{y1:.1f}" x2="{x2:.2f}%" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.2f}%" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
