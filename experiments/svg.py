"""Line charts as SVG, with nothing but the standard library: panels side by side, of lines, bands and dots.

>>> panel = Panel("title", "x", "y", (Line("truth", (0.0, 1.0), (0.2, 0.4), "black"),))
>>> render("two points", [panel]).startswith("<svg")
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

PANEL_WIDTH: Final = 400
HEIGHT: Final = 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 78, 52

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_GREY, _PALE, _INK = "#6b7280", "#e5e7eb", "#1f2937"


@dataclass(frozen=True)
class Line:
    """A series drawn as a line."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dashes: str = ""


@dataclass(frozen=True)
class Band:
    """A shaded area between two series."""

    label: str
    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: str


@dataclass(frozen=True)
class Dots:
    """A series drawn as points."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str


Series: TypeAlias = Line | Band | Dots


@dataclass(frozen=True)
class Panel:
    """One chart: series in the order in which they are drawn."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    y_limits: tuple[float, float] | None = None

    def x_range(self) -> tuple[float, float]:
        """From the least x to the greatest."""
        values = [value for series in self.series for value in series.x]
        return min(values), max(values)

    def y_range(self) -> tuple[float, float]:
        """The limits of y; without them from the least to the greatest, widened to whole ticks."""
        if self.y_limits is not None:
            return self.y_limits
        values = [value for series in self.series for value in _heights(series)]
        step = _tick_step(min(values), max(values))
        return math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step


def ticks(low: float, high: float) -> list[float]:
    """Round numbers within a range, about five of them.

    >>> ticks(0.0, 0.5)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    """
    step = _tick_step(low, high)
    digits = max(0, 2 - math.floor(math.log10(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, digits) for number in range(first, last + 1)]


def render(title: str, panels: Sequence[Panel]) -> str:
    """The picture as the text of an SVG file. The legend is that of the first panel."""
    width = PANEL_WIDTH * len(panels)
    parts = [
        f'<svg xmlns="{_NAMESPACE}" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, title, size=15, weight="600"),
        *_legend(panels[0].series),
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({PANEL_WIDTH * number} 0)">', *_Axes(panel).draw(), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


class _Axes:
    """One panel on paper."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._x, self._y = panel.x_range(), panel.y_range()

    def draw(self) -> list[str]:
        panel, bottom, right = self._panel, HEIGHT - BOTTOM, PANEL_WIDTH - RIGHT
        parts = [_text(LEFT, TOP - 10, panel.title, weight="600")]
        for value in ticks(*self._y):
            height = self._down(value)
            parts.append(_rule(LEFT, height, right, height, _PALE))
            parts.append(_text(LEFT - 8, height + 4, f"{value:g}", anchor="end", colour=_GREY))
        for value in ticks(*self._x):
            across = self._across(value)
            parts.append(_rule(across, bottom, across, bottom + 4, _GREY))
            parts.append(_text(across, bottom + 18, f"{value:g}", anchor="middle", colour=_GREY))
        parts += [shape for series in panel.series for shape in self._series(series)]
        parts.append(_rule(LEFT, bottom, right, bottom, _GREY))
        parts.append(_text((LEFT + right) / 2, HEIGHT - 14, panel.x_label, anchor="middle", colour=_GREY))
        middle = (TOP + bottom) / 2
        label = _text(0, 0, panel.y_label, anchor="middle", colour=_GREY)
        return [*parts, f'<g transform="translate(16 {middle:g}) rotate(-90)">{label}</g>']

    def _series(self, series: Series) -> list[str]:
        if isinstance(series, Band):
            outline = self._points([*series.x, *reversed(series.x)], [*series.low, *reversed(series.high)])
            return [f'<polygon points="{outline}" fill="{series.colour}"/>']
        if isinstance(series, Dots):
            places = zip(series.x, series.y, strict=True)
            return [
                f'<circle cx="{self._across(x):.1f}" cy="{self._down(y):.1f}" r="2" fill="{series.colour}"/>'
                for x, y in places
            ]
        points = self._points(series.x, series.y)
        return [f'<polyline points="{points}" {_stroke(series)}/>']

    def _points(self, x: Sequence[float], y: Sequence[float]) -> str:
        return " ".join(f"{self._across(a):.1f},{self._down(b):.1f}" for a, b in zip(x, y, strict=True))

    def _across(self, x: float) -> float:
        low, high = self._x
        return LEFT + (x - low) / (high - low) * (PANEL_WIDTH - LEFT - RIGHT)

    def _down(self, y: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _legend(series: Sequence[Series]) -> list[str]:
    parts, across, down = [], float(LEFT), 42
    for each in series:
        if isinstance(each, Band):
            parts.append(f'<rect x="{across}" y="{down - 5}" width="22" height="10" fill="{each.colour}"/>')
        elif isinstance(each, Dots):
            parts.append(f'<circle cx="{across + 11}" cy="{down}" r="3" fill="{each.colour}"/>')
        else:
            parts.append(f'<line x1="{across}" y1="{down}" x2="{across + 22}" y2="{down}" {_stroke(each)}/>')
        parts.append(_text(across + 28, down + 4, each.label))
        across += 28 + 6.4 * len(each.label) + 24
    return parts


def _heights(series: Series) -> list[float]:
    return [*series.low, *series.high] if isinstance(series, Band) else list(series.y)


def _tick_step(low: float, high: float) -> float:
    """1, 2 or 5 times a power of ten: the least that gives at most six ticks."""
    if not high > low:
        raise ValueError(f"an axis needs two different values, not {low} to {high}")
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    return next(step * power for step in (1, 2, 5, 10) if (high - low) / (step * power) <= 5 + 1e-9)


def _stroke(line: Line) -> str:
    dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    return f'fill="none" stroke="{line.colour}" stroke-width="1.8" stroke-linejoin="round"{dashes}'


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "400", colour: str = _INK
) -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
