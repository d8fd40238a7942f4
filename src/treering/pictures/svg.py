"""Charts as SVG, with the standard library alone: panels side by side, of lines, bands and dots.

Axes are linear or logarithmic.

>>> panel = Panel("title", "x", "y", (Line("truth", (0.0, 1.0), (0.2, 0.4), "black"),))
>>> render("two points", [panel]).startswith("<svg")
True
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
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
    """A series drawn as a line, with a gap where y is None; ``dashes`` is SVG's stroke-dasharray."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str
    dashes: str = ""

    def pieces(self) -> list[list[tuple[float, float]]]:
        """The line's points, split at its gaps."""
        found: list[list[tuple[float, float]]] = [[]]
        for x, y in zip(self.x, self.y, strict=True):
            if y is None:
                found.append([])
            else:
                found[-1].append((x, y))
        return [piece for piece in found if piece]


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
    radius: float = 2.0


Series: TypeAlias = Line | Band | Dots


@dataclass(frozen=True)
class Panel:
    """One chart: series in the order in which they are drawn. One without a label is not in the legend."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    y_limits: tuple[float, float] | None = None
    x_log: bool = False
    y_log: bool = False
    x_names: Sequence[tuple[float, str]] = ()
    """Named places across, such as the first days of months, to be marked instead of round numbers."""

    def x_range(self) -> tuple[float, float]:
        """From the least x to the greatest; on a logarithmic axis widened to whole powers of ten."""
        values = [value for series in self.series for value in series.x]
        return _decades(values) if self.x_log else (min(values), max(values))

    def y_range(self) -> tuple[float, float]:
        """The limits of y; without them from the least to the greatest, widened to whole ticks."""
        if self.y_limits is not None:
            return self.y_limits
        values = [value for series in self.series for value in _heights(series)]
        if self.y_log:
            return _decades(values)
        step = _tick_step(min(values), max(values))
        return math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step


def ticks(low: float, high: float, *, log: bool = False) -> list[float]:
    """Round numbers within a range, about five of them; on a logarithmic axis the powers of ten.

    >>> ticks(0.0, 0.5)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    >>> ticks(0.01, 10.0, log=True)
    [0.01, 0.1, 1.0, 10.0]
    """
    if log:
        return [10.0**power for power in _whole(_log10(low), _log10(high))]
    step = _tick_step(low, high)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(number * step, digits) for number in _whole(low / step, high / step)]


def render(
    title: str, panels: Sequence[Panel], *, size: tuple[int, int] = (PANEL_WIDTH, HEIGHT), legend_aside: bool = False
) -> str:
    """The picture as the text of an SVG file.

    ``size`` is the width and the height of a panel, in pixels. The legend is that of the first panel: a row above the
    panels or, with ``legend_aside``, a column to their right.
    """
    panel_width, height = size
    series, width = panels[0].series, panel_width * len(panels)
    corner = (float(width), TOP + 10) if legend_aside else (float(LEFT), 42)
    if legend_aside:
        width += math.ceil(max(map(_legend_width, filter(_named, series)), default=0.0))
    parts = [
        f'<svg xmlns="{_NAMESPACE}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(LEFT, 24, title, size=15, weight="600"),
        *_legend(series, *corner, column=legend_aside),
    ]
    for number, panel in enumerate(panels):
        drawn = _Frame(panel, panel_width, height).draw()
        parts += [f'<g transform="translate({panel_width * number} 0)">', *drawn, "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def page(title: str, picture: str) -> str:
    """A picture as an HTML page that needs nothing else."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><title>{escape(title)}</title><style>svg {{ max-width: 100%; height: auto; }}</style></head>'
        f"<body>{picture}</body></html>\n"
    )


class _Axis:
    """A map from a range of values to coordinates in the picture, linear or logarithmic."""

    def __init__(self, span: tuple[float, float], log: bool, start: float, end: float) -> None:
        self._scale: Callable[[float], float] = _log10 if log else float
        self._low, self._high = map(self._scale, span)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (self._scale(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


class _Frame:
    """One panel, with its axes in the picture's coordinates."""

    def __init__(self, panel: Panel, width: int, height: int) -> None:
        x_span, y_span = panel.x_range(), panel.y_range()
        self._panel, self._height = panel, height
        self._x_ticks = [*panel.x_names] or [(tick, _number(tick)) for tick in ticks(*x_span, log=panel.x_log)]
        self._y_ticks = ticks(*y_span, log=panel.y_log)
        longest = max((len(_number(value)) for value in self._y_ticks), default=0)
        self._left, self._right = LEFT + 7 * max(0, longest - 4), width - RIGHT
        self._bottom = height - BOTTOM
        self._x = _Axis(x_span, panel.x_log, self._left, self._right)
        self._y = _Axis(y_span, panel.y_log, self._bottom, TOP)

    def draw(self) -> list[str]:
        series = [shape for each in self._panel.series for shape in self._series(each)]
        title = _text(self._left, TOP - 10, self._panel.title, weight="600")
        return [title, *self._marks(), *series, *self._labels()]

    def _marks(self) -> list[str]:
        parts, left, bottom = [], self._left, self._bottom
        for value in self._y_ticks:
            height = self._y.at(value)
            parts.append(_rule(left, height, self._right, height, _PALE))
            parts.append(_text(left - 8, height + 4, _number(value), anchor="end", colour=_GREY))
        for value, name in self._x_ticks:
            across = self._x.at(value)
            parts.append(_rule(across, bottom, across, bottom + 4, _GREY))
            parts.append(_text(across, bottom + 18, name, anchor="middle", colour=_GREY))
        return parts

    def _labels(self) -> list[str]:
        across, down = (self._left + self._right) / 2, (TOP + self._bottom) / 2
        label = _text(0, 0, self._panel.y_label, anchor="middle", colour=_GREY)
        return [
            _rule(self._left, self._bottom, self._right, self._bottom, _GREY),
            _text(across, self._height - 14, self._panel.x_label, anchor="middle", colour=_GREY),
            f'<g transform="translate(16 {down:g}) rotate(-90)">{label}</g>',
        ]

    def _series(self, series: Series) -> list[str]:
        if isinstance(series, Band):
            there = zip(series.x, series.low, strict=True)
            back = zip(reversed(series.x), reversed(series.high), strict=True)
            return [f'<polygon points="{self._points([*there, *back])}" fill="{series.colour}"/>']
        if isinstance(series, Dots):
            return [self._dot(x, y, series.colour, series.radius) for x, y in zip(series.x, series.y, strict=True)]
        return [self._piece(piece, series) for piece in series.pieces()]

    def _piece(self, piece: Sequence[tuple[float, float]], line: Line) -> str:
        if len(piece) == 1:  # a line of one point would be invisible
            return self._dot(*piece[0], line.colour)
        return f'<polyline points="{self._points(piece)}" {_stroke(line)}/>'

    def _points(self, places: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self._x.at(x):.1f},{self._y.at(y):.1f}" for x, y in places)

    def _dot(self, x: float, y: float, colour: str, radius: float = 2.0) -> str:
        return f'<circle cx="{self._x.at(x):.1f}" cy="{self._y.at(y):.1f}" r="{radius:g}" fill="{colour}"/>'


def _legend(series: Sequence[Series], across: float, down: int, *, column: bool) -> list[str]:
    parts = []
    for each in filter(_named, series):
        parts += _legend_entry(each, across, down)
        if column:
            down += 22
        else:
            across += _legend_width(each)
    return parts


def _legend_entry(series: Series, across: float, down: int) -> list[str]:
    if isinstance(series, Band):
        key = f'<rect x="{across}" y="{down - 5}" width="22" height="10" fill="{series.colour}"/>'
    elif isinstance(series, Dots):
        key = f'<circle cx="{across + 11}" cy="{down}" r="3" fill="{series.colour}"/>'
    else:
        key = f'<line x1="{across}" y1="{down}" x2="{across + 22}" y2="{down}" {_stroke(series)}/>'
    return [key, _text(across + 28, down + 4, series.label)]


def _named(series: Series) -> bool:
    return bool(series.label)


def _legend_width(series: Series) -> float:
    return 28 + 6.4 * len(series.label) + 24


def _heights(series: Series) -> list[float]:
    values = [*series.low, *series.high] if isinstance(series, Band) else series.y
    return [value for value in values if value is not None]


def _whole(low: float, high: float) -> range:
    """The whole numbers from low to high, which may be off by a rounding error."""
    return range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """The largest power of ten that is at most all values, and the smallest that is at least all; they differ."""
    low, high = _log10(min(values, default=1.0)), _log10(max(values, default=1.0))
    first = math.floor(low + 1e-9)
    return 10.0**first, 10.0 ** max(first + 1, math.ceil(high - 1e-9))


def _log10(value: float) -> float:
    if not value > 0:
        raise ValueError(f"a logarithmic axis needs values above 0, not {value}")
    return math.log10(value)


def _tick_step(low: float, high: float) -> float:
    """1, 2 or 5 times a power of ten: the least that gives at most six ticks."""
    if not high > low:
        raise ValueError(f"an axis needs two different values, not {low} to {high}")
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    return next(step * power for step in (1, 2, 5, 10) if (high - low) / (step * power) <= 5 + 1e-9)


def _number(value: float) -> str:
    """A number as a short text: 1e6, not 1e+06."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:g}")


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
