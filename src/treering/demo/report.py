"""The demonstration's report: one self-contained HTML file with charts, and the same summary for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from html import escape
from itertools import pairwise
from statistics import median
from typing import Final

import plotly.graph_objects as go

from treering.demo.story import BETA, DELTA, EPSILON, LATE, Figure, Story
from treering.pictures.rings import Ring, drawn

YEAR: Final = 2013
"""The year of the flights."""

_INK, _LEAF, _BARK, _SKY = "#263238", "#2e7d32", "#8d6e63", "#1565c0"
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; color: #263238; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; } code { background: #f1f3f2; padding: 0.1em 0.3em; }
table { border-collapse: collapse; } td, th { padding: 0.2rem 0.8rem; text-align: left; border-bottom: 1px solid #ddd; }
td { vertical-align: top; } td.number { text-align: right; }
.rings { text-align: center; }
.rings svg { width: 100%; max-width: 32rem; height: auto; }
.wood { stroke: #8d6e63; } .wood-0 { fill: #bcaaa4; } .wood-1 { fill: #efebe9; } .rings text { fill: #263238; }
@media (max-width: 40rem) { body { margin: 1rem auto; } h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; } }
"""
_CHART: Final = {"responsive": True, "displayModeBar": False}


def report(story: Story) -> str:
    """The whole page, as HTML."""
    charts = [
        ("How many flights are late, day by day", _courses(story)),
        ("Whose flights are late", _carriers(story)),
        ("How far off answers were, and what they stated", _errors(story)),
        ("Thousands of questions, one promise", _budget(story)),
        ("A model that learns as the flights come", _learning(story)),
    ]
    shown = [
        f"<h2>{escape(title)}</h2>{figure.to_html(full_html=False, include_plotlyjs=place == 0, config=_CHART)}"
        for place, (title, figure) in enumerate(charts)
    ]
    grown = drawn(months([(moment.day, moment.size) for moment in story.moments]), noun="flight", named=True)
    told = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(story))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>treering: a year of flights</title>'
        f"<style>{_STYLE}</style></head><body><h1>A year of flights under one privacy promise</h1>{told}"
        f"{''.join(shown)}<h2>Growth rings</h2><p>Each ring is a month of flights, its area in proportion to their "
        "number; the core is those that were there when the first question came. A new ring brings a budget of its own "
        "and pays for itself: those inside it do not pay again.</p>"
        f'<div class="rings">{grown}</div>'
        f"<h2>Who may spend what</h2>{_shares(story)}</body></html>\n"
    )


def months(sizes: Sequence[tuple[int, int]]) -> list[Ring]:
    """A ring for the rows of each month, from the days of the year and the sizes at their ends.

    >>> [(ring.name, ring.rows) for ring in months([(120, 5), (121, 6), (151, 8), (152, 9), (160, 10)])]
    [('to April', 5), ('May', 3), ('June', 2)]
    """
    last = {_month(day): size for day, size in sizes}
    ends = [0, *last.values()]
    names = [name if place else f"to {name}" for place, name in enumerate(last)]
    return [Ring(name, end - begin) for name, (begin, end) in zip(names, pairwise(ends), strict=True)]


def _month(day: int) -> str:
    return f"{date(YEAR, 1, 1) + timedelta(days=day - 1):%B}"


def _courses(story: Story) -> go.Figure:
    figure = go.Figure()
    for (origin, course), colour in zip(story.courses.items(), (_LEAF, _SKY, _BARK), strict=True):
        sizes = [each.size for each in course]
        low, high = [each.count - each.margin for each in course], [each.count + each.margin for each in course]
        edge = {"x": sizes, "mode": "lines", "line_width": 0}
        figure.add_scatter(**edge, y=low, showlegend=False, hoverinfo="skip")
        figure.add_scatter(**edge, y=high, fill="tonexty", fillcolor=f"{colour}66", name=f"{origin}, ± margin")
        thin = {"color": _INK, "width": 1, "dash": "dot"}
        figure.add_scatter(x=sizes, y=[each.exact for each in course], mode="lines", line=thin, name=f"{origin}, true")
    return _laid_out(figure, "flights in the vault", f"flights with {LATE}")


def _carriers(story: Story) -> go.Figure:
    names, told = list(story.by_carrier), list(story.by_carrier.values())
    margins = {"array": [each.margin for each in told]}
    figure = go.Figure()
    figure.add_bar(
        x=names, y=[each.count for each in told], error_y=margins, name="answered, ± margin", marker_color=_SKY
    )
    mark = {"color": _INK, "symbol": "line-ew-open", "size": 12}
    figure.add_scatter(x=names, y=[each.exact for each in told], name="true", mode="markers", marker=mark)
    return _laid_out(figure, "carrier", f"flights with {LATE}")


def _errors(story: Story) -> go.Figure:
    moments = story.moments
    sizes = [moment.size for moment in moments]
    figure = go.Figure()
    for name, values, colour in (
        ("largest error that day, for all answers together", [m.error for m in moments], _BARK),
        ("largest margin that day, for an answer alone", [m.margin for m in moments], _SKY),
    ):
        figure.add_scatter(x=sizes, y=[100 * value for value in values], name=name, line_color=colour, line_shape="hv")
    figure.add_scatter(
        x=sizes, y=[100 * m.off for m in moments], name="worst answer that day", mode="markers", marker_color=_LEAF
    )
    return _laid_out(figure, "flights in the vault", "% of all flights")


def _budget(story: Story) -> go.Figure:
    moments = story.moments
    sizes = [moment.size for moment in moments]
    figure = go.Figure()
    figure.add_scatter(x=sizes, y=[m.asked for m in moments], name="questions asked", line_color=_INK)
    figure.add_scatter(x=sizes, y=[m.known for m in moments], name="of them about nothing new", line_color=_LEAF)
    figure.add_scatter(
        x=sizes, y=[100 * m.spent for m in moments], name="promise spent, %", line_color=_BARK, yaxis="y2"
    )
    right = {"overlaying": "y", "side": "right", "range": [0, 100], "tickvals": [0, 25, 50, 75, 100]}
    figure.update_layout(yaxis={"rangemode": "tozero"}, yaxis2={**right, "title": "promise spent, %"})
    return _laid_out(figure, "flights in the vault", "questions")


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
        margin={"l": 10, "r": 10, "t": 20, "b": 10},
        xaxis_title=x,
        yaxis_title=y,
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "font_size": 11},
        xaxis_automargin=True,
        yaxis_automargin=True,
    )
    return figure


def _shares(story: Story) -> str:
    total = story.status["total"]
    rows = "".join(
        f"<tr><th>{escape(each['name'])}</th><td>{escape(each['kind'])}</td>"
        f'<td class="number">{each["share"]:.0%}</td><td class="number">{each["spent"] / total:.1%}</td></tr>'
        f'<tr><td colspan="4">{escape(each["guarantee"]["statement"])}</td></tr>'
        for each in story.status["mechanisms"]
    )
    heads = "".join(f"<th>{head}</th>" for head in ("mechanism", "kind", "share", "spent of all"))
    note = f"<p>Errors hold for all answers of a mechanism together, with probability {1 - BETA:.0%}.</p>"
    return f"<table><tr>{heads}</tr>{rows}</table>{note}"


# -- the summary in sentences ------------------------------------------------------------------------------------------


def sentences(story: Story) -> list[str]:
    """The summary of the year, one paragraph each."""
    size, dashboard, analyst = story.status["size"], story.tallies["dashboard"], story.tallies["analyst"]
    beyond = dashboard.beyond + analyst.beyond
    return [
        f"{size:,} flights came in, day by day, under one promise for all time: epsilon = {EPSILON:g}, "
        f"delta = {DELTA:g}. Whoever sees every answer ever given learns next to nothing about any one flight.",
        f"{story.asked:,} questions were asked. {story.known:,} of them were about nothing new: what is counted once "
        "is kept current, and only flights that came since pay for it. "
        f"For the other {story.asked - story.known:,} every flight paid, once.",
        f"{_late(story.by_carrier)} Half of the dashboard's {dashboard.asked:,} answers had a margin below "
        f"{median(dashboard.margins):.2%} of the flights, and none one above {max(dashboard.margins):.2%}; "
        f"{dashboard.inside / dashboard.asked:.1%} of them were within their margin, which is made for 95%.",
        f"The analyst chose {analyst.asked:,} questions by looking at answers. A margin does not allow for that, an "
        f"error does: it holds for all answers together, with {1 - BETA:.0%}. {_beyond(beyond)} The worst of all was "
        f"off by {max(dashboard.off, analyst.off):.2%}. (These flights are public, so one can look.)",
        f"Of the promise {1 - story.unused:.0%} is spent and {story.unused:.0%} is left. Flights to come bring a "
        "budget of their own, so all this can be kept current for ever.",
        f"The lateness model was released anew {_times(_models(story))} as flights came, each time from the new ones. "
        f"Over the last four weeks its AUC was {story.moments[-1].auc:.3f}, on flights that it had not seen: that "
        "often it ranks a late flight above one that is not.",
    ]


def _late(by_carrier: dict[str, Figure]) -> str:
    carrier, most = max(by_carrier.items(), key=lambda each: each[1].count)
    return (
        f"An answer of the last day: {most.count:,} ± {most.margin:,} flights of {carrier} were late; "
        f"in truth {most.exact:,}."
    )


def _beyond(answers: int) -> str:
    return ("No answer was" if not answers else f"{answers:,} answers were") + " beyond its error."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _models(story: Story) -> int:
    return len(next(each for each in story.status["mechanisms"] if each["kind"] == "ermrings")["epochs"])
