"""The chart of a plan: what every mechanism guarantees, against the number of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treering.cli.output import Advance
from treering.cli.svg import Line, Panel, render
from treering.theory.plan import MOST_ROWS, Plan, plan
from treering.theory.plan.report import PlanRow

_PER_DECADE: Final = 3
_SIZE: Final = (570, 480)
_LABELS: Final = ("rows at the start", "every answer within (share of the rows)")
_DASHES: Final = "5 4"
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
    curves: tuple[Line, ...]


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
    drawn: list[Line] = []
    for row in found.rows:
        heights = [each[row.name].alpha if row.name in each and each[row.name].guaranteed else None for each in plans]
        if any(height is not None for height in heights):
            colour = _COLOURS[len(drawn) % len(_COLOURS)]
            drawn.append(Line(row.name, sizes, heights, colour, _DASHES if row.declared else ""))
    title = f"Guaranteed error, {found.cells:,} cells, epsilon = {epsilon:.3g}, delta = {found.delta:g}"
    return Chart(title, tuple(drawn))


def write(path: Path, chart: Chart) -> None:
    """The chart as a file: .svg, or .html with all it needs inside."""
    if path.suffix.lower() == ".svg":
        path.write_text(picture(chart), encoding="utf-8")
        return
    from plotly import graph_objects

    figure = graph_objects.Figure()
    for curve in chart.curves:
        line = {"color": curve.colour, "dash": "dash" if curve.dashes else "solid"}
        figure.add_scatter(x=list(curve.x), y=list(curve.y), name=curve.label, mode="lines+markers", line=line)
    figure.update_layout(title=chart.title, template="plotly_white", hovermode="x unified")
    figure.update_xaxes(title=_LABELS[0], type="log")
    figure.update_yaxes(title=_LABELS[1], type="log")
    figure.write_html(path, include_plotlyjs=True, full_html=True)


def picture(chart: Chart) -> str:
    """The chart as the text of an SVG file."""
    panel = Panel("dashes: the questions must be declared", *_LABELS, chart.curves, x_log=True, y_log=True)
    return render(chart.title, [panel], size=_SIZE, legend_aside=True)


def _sizes(start: int, horizon: float | None) -> list[int]:
    """From a tenth of the start to a hundred times it (at most the horizon), some in each decade."""
    high = 100.0 * start if horizon is None else min(100.0 * start, max(horizon, 10.0 * start))
    low, high = max(10.0, start / 10), min(max(high, 100.0), float(MOST_ROWS))
    steps = max(2, round(_PER_DECADE * math.log10(high / low)))
    return sorted({round(low * (high / low) ** (step / steps)) for step in range(steps + 1)} | {start})


def _finite(value: float, otherwise: float) -> float:
    return value if math.isfinite(value) else otherwise
