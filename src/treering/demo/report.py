"""The demonstration's report: one self-contained HTML file with charts, and the same summary for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from treering.demo.story import ALPHA, BETA, DELTA, EPSILON, LATE, Story

_INK, _LEAF, _BARK, _SKY = "#263238", "#2e7d32", "#8d6e63", "#1565c0"
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; color: #263238; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; } code { background: #f1f3f2; padding: 0.1em 0.3em; }
table { border-collapse: collapse; } td, th { padding: 0.2rem 0.8rem; text-align: left; border-bottom: 1px solid #ddd; }
td.number { text-align: right; } .rings { text-align: center; }
"""


def report(story: Story) -> str:
    """The whole page, as HTML."""
    charts = [
        ("Thousands of questions, one promise", _budget(story)),
        ("Every answer against its stated error", _errors(story)),
        ("Whose flights are late", _carriers(story)),
        ("A model that learns as the flights come", _learning(story)),
    ]
    drawn = [
        f"<h2>{escape(title)}</h2>{figure.to_html(full_html=False, include_plotlyjs=place == 0)}"
        for place, (title, figure) in enumerate(charts)
    ]
    told = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(story))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>treering: a year of flights</title>'
        f"<style>{_STYLE}</style></head><body><h1>A year of flights under one privacy promise</h1>{told}"
        f"{''.join(drawn)}<h2>Growth rings</h2><p>Each ring is an epoch of the dashboard: a rerun of its box, "
        "with the area inside in proportion to the flights it saw.</p>"
        f'<div class="rings">{rings([epoch["size"] for epoch in _member(story, "dashboard")["epochs"]])}</div>'
        f"<h2>Who may spend what</h2>{_shares(story)}</body></html>\n"
    )


def rings(sizes: Sequence[int], width: int = 320) -> str:
    """Epochs drawn as the rings of a tree, as SVG; the area of each is in proportion to the size of the database."""
    if not sizes:
        return "<p>No epoch has opened yet.</p>"
    radii = [width / 2 * 0.95 * (size / max(sizes)) ** 0.5 for size in sizes]
    middle = f'cx="{width / 2:g}" cy="{width / 2:g}"'
    circles = "".join(
        f'<circle {middle} r="{radius:.1f}" fill="{"#efebe9" if place % 2 else "#d7ccc8"}" '
        f'stroke="{_BARK}" stroke-width="0.6"/>'
        for place, radius in reversed(list(enumerate(radii)))
    )
    return f'<svg width="{width}" height="{width}" role="img" aria-label="growth rings">{circles}</svg>'


def _budget(story: Story) -> go.Figure:
    moments = story.moments
    sizes = [moment.size for moment in moments]
    figure = go.Figure()
    figure.add_scatter(x=sizes, y=[m.asked for m in moments], name="questions asked", line_color=_INK)
    figure.add_scatter(x=sizes, y=[m.free for m in moments], name="of them free", line_color=_LEAF)
    figure.add_scatter(
        x=sizes, y=[100 * m.spent for m in moments], name="promise spent, %", line_color=_BARK, yaxis="y2"
    )
    right = {"overlaying": "y", "side": "right", "range": [0, 100], "tickvals": [0, 25, 50, 75, 100]}
    figure.update_layout(yaxis={"rangemode": "tozero"}, yaxis2={**right, "title": "promise spent, %"})
    return _laid_out(figure, "flights in the vault", "questions")


def _errors(story: Story) -> go.Figure:
    moments = story.moments
    sizes = [moment.size for moment in moments]
    figure = go.Figure()
    figure.add_scatter(
        x=sizes, y=[m.stated for m in moments], name="largest error stated that day", line_color=_BARK, line_shape="hv"
    )
    figure.add_scatter(
        x=sizes, y=[m.worst for m in moments], name="largest error that day", mode="markers", marker_color=_LEAF
    )
    figure.add_hline(y=ALPHA, line_dash="dot", annotation_text=f"alpha = {ALPHA:g}")
    return _laid_out(figure, "flights in the vault", "error, as a share of all flights")


def _carriers(story: Story) -> go.Figure:
    names, values, errors, exact = zip(*story.by_carrier, strict=True)
    figure = go.Figure()
    figure.add_bar(x=names, y=values, error_y={"array": errors}, name="answered, with its error", marker_color=_SKY)
    figure.add_scatter(x=names, y=exact, name="true", mode="markers", marker={"color": _INK, "symbol": "line-ew-open"})
    return _laid_out(figure, "carrier", f"share of all flights that are its own, with {LATE}")


def _learning(story: Story) -> go.Figure:
    moments = story.moments
    figure = go.Figure()
    figure.add_scatter(
        x=[m.size for m in moments], y=[m.auc for m in moments], name="AUC of the private model", line_color=_LEAF
    )
    figure.add_hline(y=0.5, line_dash="dot", annotation_text="guessing")
    return _laid_out(figure, "flights in the vault", "AUC")


def _laid_out(figure: go.Figure, x: str, y: str) -> go.Figure:
    figure.update_layout(
        template="plotly_white",
        height=380,
        margin={"l": 60, "r": 60, "t": 20, "b": 50},
        xaxis_title=x,
        yaxis_title=y,
        legend={"orientation": "h", "y": 1.1},
    )
    return figure


def _member(story: Story, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in story.status["mechanisms"] if each["name"] == name)
    return found


def _shares(story: Story) -> str:
    total = story.status["total"]
    rows = "".join(
        f"<tr><td>{escape(each['name'])}</td><td>{escape(each['kind'])}</td>"
        f'<td class="number">{each["share"]:.0%}</td><td class="number">{each["spent"] / total:.1%}</td>'
        f"<td>{escape(each['guarantee']['statement'])}</td></tr>"
        for each in story.status["mechanisms"]
    )
    heads = "".join(f"<th>{head}</th>" for head in ("mechanism", "kind", "share", "spent of all", "promise"))
    note = f"<p>Errors hold for all answers of a mechanism together, with probability {1 - BETA:.0%}.</p>"
    return f"<table><tr>{heads}</tr>{rows}</table>{note}"


# -- the summary in sentences ------------------------------------------------------------------------------------------


def sentences(story: Story) -> list[str]:
    """The summary of the year, one paragraph each."""
    size, analyst, figures = story.status["size"], story.tallies["pmwg"], story.tallies["dashboard"]
    reruns = len(next(each for each in story.status["mechanisms"] if each["name"] == "dashboard")["epochs"])
    last = story.moments[-1]
    beyond = analyst.beyond + figures.beyond
    return [
        f"{size:,} flights came in, day by day, under one promise for all time: epsilon = {EPSILON:g}, "
        f"delta = {DELTA:g}. Whoever sees every answer ever given learns next to nothing about any one flight.",
        f"{story.asked:,} questions were asked. {story.free:,} of them were free: the dashboard's "
        f"figures come from {reruns} reruns of its box, however often one looks. "
        f"The other {story.asked - story.free:,}, each chosen after seeing the answers before, were measured, and cost "
        f"little each.",
        f"Of the promise {1 - story.unused:.0%} is spent and {story.unused:.0%} is left. "
        "The more flights there are, the less a question costs.",
        f"Worst error: {figures.worst:.2%} on the dashboard, where at most {figures.stated:.2%} was promised; "
        f"{analyst.worst:.2%} for the analyst, where at most {analyst.stated:.2%} was (all answers together, "
        f"with probability {1 - BETA:.0%}). "
        + ("No answer was" if not beyond else f"{beyond:,} answers were")
        + " further off than stated. (These flights are public, so one can look.)",
        f"The lateness model was released anew {_models(story)} times as flights came, and ends with an AUC of "
        f"{last.auc:.3f}: that often it ranks a late flight above one that is not.",
    ]


def _models(story: Story) -> int:
    return len(next(each for each in story.status["mechanisms"] if each["kind"] == "ermg")["epochs"])
