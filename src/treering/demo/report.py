"""The demonstration's report: one self-contained HTML file with charts, and the same summary for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from html import escape
from itertools import pairwise
from statistics import median
from typing import Final

from treering.chart import Bar, Chart
from treering.demo.story import BETA, DELTA, EPSILON, LATE, Figure, Story
from treering.pictures.rings import Ring, drawn
from treering.pictures.svg import Band, Dots, Line, Panel, Series, render

YEAR: Final = 2013
"""The year of the flights."""

_INK, _LEAF, _BARK, _SKY = "#263238", "#2e7d32", "#8d6e63", "#1565c0"
_WIDTH, _HEIGHT = 880, 360
"""The size of a chart, in pixels, where the page is wide enough."""
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; color: #263238; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; } code { background: #f1f3f2; padding: 0.1em 0.3em; }
table { border-collapse: collapse; } td, th { padding: 0.2rem 0.8rem; text-align: left; border-bottom: 1px solid #ddd; }
td { vertical-align: top; } td.number { text-align: right; }
.chart svg { max-width: 100%; height: auto; }
.rings { text-align: center; }
.rings svg { width: 100%; max-width: 32rem; height: auto; }
.wood { stroke: #8d6e63; } .wood-0 { fill: #bcaaa4; } .wood-1 { fill: #efebe9; } .rings text { fill: #263238; }
@media (max-width: 40rem) { body { margin: 1rem auto; } h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; } }
"""


def report(story: Story) -> str:
    """The whole page, as HTML."""
    charts = [
        ("How many flights are late, day by day", _courses(story)),
        ("Whose flights are late", _carriers(story)),
        ("How far off answers were, and what they stated", _errors(story)),
        ("Thousands of questions, one promise", _questions(story) + _budget(story)),
        ("A model that learns as the flights come", _learning(story)),
    ]
    shown = [f'<h2>{escape(title)}</h2><div class="chart">{pictures}</div>' for title, pictures in charts]
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


def _courses(story: Story) -> str:
    days = _days(story)
    drawn: list[Series] = []
    for (origin, course), colour in zip(story.courses.items(), (_LEAF, _SKY, _BARK), strict=True):
        low, high = [each.count - each.margin for each in course], [each.count + each.margin for each in course]
        drawn.append(Band(f"{origin}, ± margin", days, low, high, f"{colour}66"))
        drawn.append(Line(f"{origin}, true", days, [each.exact for each in course], colour, "2 3"))
    return _over_time(story, f"flights with {LATE}", drawn)


def _carriers(story: Story) -> str:
    bars = [Bar(name, "", each.count, each.margin, each.exact) for name, each in story.by_carrier.items()]
    return Chart("carrier", f"flights with {LATE}", tuple(bars)).svg() + "<p>Red: the true number.</p>"


def _errors(story: Story) -> str:
    moments, days = story.moments, _days(story)
    drawn: list[Series] = [
        Line("largest error that day (all answers together)", days, [100 * m.error for m in moments], _BARK),
        Line("largest margin (an answer alone)", days, [100 * m.margin for m in moments], _SKY),
        Dots("worst answer", days, [100 * m.off for m in moments], _LEAF),
    ]
    return _over_time(story, "% of all flights", drawn)


def _questions(story: Story) -> str:
    moments, days = story.moments, _days(story)
    drawn = [
        Line("questions asked", days, [m.asked for m in moments], _INK),
        Line("of them about nothing new", days, [m.known for m in moments], _LEAF),
    ]
    return _over_time(story, "questions", drawn)


def _budget(story: Story) -> str:
    spent = Line("promise spent", _days(story), [100 * m.spent for m in story.moments], _BARK)
    return _over_time(story, "% of the promise", [spent], (0, 100))


def _learning(story: Story) -> str:
    days = _days(story)
    drawn = [
        Line("AUC of the private model", days, [m.auc for m in story.moments], _LEAF),
        Line("guessing", [days[0], days[-1]], [0.5, 0.5], _INK, "2 3"),
    ]
    return _over_time(story, "AUC", drawn)


def _days(story: Story) -> list[float]:
    return [float(moment.day) for moment in story.moments]


def _over_time(story: Story, y: str, series: Sequence[Series], limits: tuple[float, float] | None = None) -> str:
    """A chart whose axis across is the time of year."""
    first, last = story.moments[0].day, story.moments[-1].day
    starts = [(date(YEAR, month, 1) - date(YEAR, 1, 1)).days + 1 for month in range(1, 13)]
    names = [(float(day), _month(day)) for day in starts if first <= day <= last]
    return render("", [Panel("", str(YEAR), y, series, limits, x_names=names)], size=(_WIDTH, _HEIGHT))


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
