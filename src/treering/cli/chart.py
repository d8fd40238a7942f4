"""The chart of a plan: what every mechanism guarantees, against the number of rows.

A line chart with logarithmic axes as SVG, with nothing but the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from treering.cli.output import Advance
from treering.theory.plan import MOST_ROWS, Plan, plan
from treering.theory.plan.report import PlanRow

_PER_DECADE: Final = 3
_COLOURS: Final = (
    "#2563eb",
    "#059669",
    "#d97706",
    "#7c3aed",
    "#dc2626",
    "#0891b2",
    "#65a30d",
    "#db2777",
    "#475569",
    "#b45309",
    "#4f46e5",
    "#0f766e",
)


@dataclass(frozen=True)
class Chart:
    """Curves, and what they are about."""

    title: str
    curves: tuple[Curve, ...]


def curves(found: Plan, advance: Advance) -> Chart:
    """The guaranteed error of every mechanism at sizes around the plan's, for the plan's epsilon.

    Where the plan was asked for an epsilon or for a number of rows, those of its best row are taken. Mechanisms that
    need declared questions are dashed; where a mechanism guarantees nothing, it has no line.
    """
    best = found.best or found.rows[0]
    epsilon = found.epsilon if found.epsilon is not None else _finite(best.epsilon, 1.0)
    start = found.size if found.size is not None else int(_finite(best.size, 1e6))
    sizes = _sizes(start, found.horizon)
    plans: list[dict[str, PlanRow]] = []
    for done, size in enumerate(sizes, start=1):
        # The horizon must not be below the start; what does not grow stays so.
        last = None if found.horizon is None else max(found.horizon, size)
        made = plan(found.cells, size, epsilon, found.delta, found.beta, found.queries, last, adaptive=found.adaptive)
        plans.append({row.name: row for row in made.rows})
        advance(done, len(sizes))
    drawn: list[Curve] = []
    for row in found.rows:
        heights = [each[row.name].alpha if row.name in each and each[row.name].guaranteed else None for each in plans]
        if any(height is not None for height in heights):
            colour = _COLOURS[len(drawn) % len(_COLOURS)]
            drawn.append(Curve(row.name, sizes, heights, colour, row.declared))
    title = f"Guaranteed error, {found.cells:,} cells, epsilon = {epsilon:.3g}, delta = {found.delta:g}"
    return Chart(title, tuple(drawn))


def write(path: Path, chart: Chart) -> None:
    """The chart as a file: .svg, or .html with all it needs inside."""
    labels = "rows at the start", "every answer within (share of the rows)"
    if path.suffix.lower() == ".svg":
        path.write_text(render(chart.title, *labels, chart.curves), encoding="utf-8")
        return
    from plotly import graph_objects

    figure = graph_objects.Figure()
    for curve in chart.curves:
        line = {"color": curve.colour, "dash": "dash" if curve.dashed else "solid"}
        figure.add_scatter(x=list(curve.x), y=list(curve.y), name=curve.name, mode="lines+markers", line=line)
    figure.update_layout(title=chart.title, template="plotly_white", hovermode="x unified")
    figure.update_xaxes(title=labels[0], type="log")
    figure.update_yaxes(title=labels[1], type="log")
    figure.write_html(path, include_plotlyjs=True, full_html=True)


def _sizes(start: int, horizon: float | None) -> list[int]:
    """From a tenth of the start to a hundred times it (at most the horizon), some in each decade."""
    high = 100.0 * start if horizon is None else min(100.0 * start, max(horizon, 10.0 * start))
    low, high = max(10.0, start / 10), min(max(high, 100.0), float(MOST_ROWS))
    steps = max(2, round(_PER_DECADE * math.log10(high / low)))
    return sorted({round(low * (high / low) ** (step / steps)) for step in range(steps + 1)} | {start})


def _finite(value: float, otherwise: float) -> float:
    return value if math.isfinite(value) else otherwise


# -- svg ---------------------------------------------------------------------------------------------------------------


WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 290, 56, 56

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_GREY, _PALE, _INK = "#6b7280", "#e5e7eb", "#1f2937"


@dataclass(frozen=True)
class Curve:
    """A named line; where y is None there is none."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str
    dashed: bool = False

    def pieces(self) -> list[list[tuple[float, float]]]:
        """The stretches without gaps."""
        found: list[list[tuple[float, float]]] = [[]]
        for x, y in zip(self.x, self.y, strict=True):
            if y is None:
                found.append([])
            else:
                found[-1].append((x, y))
        return [piece for piece in found if piece]


def render(title: str, x_label: str, y_label: str, curves: Sequence[Curve]) -> str:
    """The picture as the text of an SVG file."""
    points = [point for curve in curves for piece in curve.pieces() for point in piece]
    axes = _Axes([x for x, _ in points] or [1.0], [y for _, y in points] or [1.0])
    parts = [
        f'<svg xmlns="{_NAMESPACE}" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 26, title, size=15),
        *axes.grid(x_label, y_label),
    ]
    for place, curve in enumerate(curves):
        parts += axes.line(curve)
        down = TOP + 10 + 22 * place
        parts.append(_stroke(f"M{WIDTH - RIGHT + 16},{down} h22", curve))
        parts.append(_text(WIDTH - RIGHT + 46, down + 4, curve.name))
    return "\n".join([*parts, "</svg>", ""])


class _Axes:
    """Powers of ten across and down."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self._x = _decades(xs)
        self._y = _decades(ys)

    def grid(self, x_label: str, y_label: str) -> list[str]:
        parts: list[str] = []
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for power in range(self._y[0], self._y[1] + 1):
            height = self._down(10.0**power)
            parts.append(f'<path d="M{LEFT},{height:.1f} H{right}" stroke="{_PALE}"/>')
            parts.append(_text(LEFT - 8, height + 4, _power(power), anchor="end", colour=_GREY))
        for power in range(self._x[0], self._x[1] + 1):
            across = self._across(10.0**power)
            parts.append(f'<path d="M{across:.1f},{TOP} V{bottom}" stroke="{_PALE}"/>')
            parts.append(_text(across, bottom + 18, _power(power), anchor="middle", colour=_GREY))
        parts.append(_text((LEFT + right) / 2, HEIGHT - 16, x_label, anchor="middle", colour=_GREY))
        label = _text(0, 0, y_label, anchor="middle", colour=_GREY)
        parts.append(f'<g transform="translate(18 {(TOP + bottom) / 2:g}) rotate(-90)">{label}</g>')
        return parts

    def line(self, curve: Curve) -> list[str]:
        drawn = []
        for piece in curve.pieces():
            path = " L".join(f"{self._across(x):.1f},{self._down(y):.1f}" for x, y in piece)
            drawn.append(_stroke(f"M{path}" + (" h0.1" if len(piece) == 1 else ""), curve))
        return drawn

    def _across(self, x: float) -> float:
        low, high = self._x
        return LEFT + (math.log10(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def _down(self, y: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (math.log10(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
    return low, max(high, low + 1)


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -4 <= power <= 3 else f"1e{power}"


def _stroke(path: str, curve: Curve) -> str:
    dashes = ' stroke-dasharray="5 4"' if curve.dashed else ""
    return f'<path d="{path}" fill="none" stroke="{curve.colour}" stroke-width="2" stroke-linecap="round"{dashes}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = _INK) -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
