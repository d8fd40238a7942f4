"""Draw docs/images/rings_margins.svg: how sharp the answers of a dashboard are, by Rings, PMWG and a noisy histogram.

    python -m experiments.rings_picture [--quick] [--seed N]

The flights of 2013 and the demonstration's dashboard, every day from the end of April on; ε = 1, δ = 10^-6, β = 0.05
for each mechanism by itself, PMWG with α = 0.05. Drawn are medians over the dashboard's questions, in rows: the margins
(and in dashes the errors; PMWG's margin is its error), and how far off answers are. The noisy histogram is the
continual one, of all cells. Private noise has no seed, so the picture is a little different each time. The quick run
asks every sixtieth day, and writes nothing.

Claimed: no answer is beyond its error, by any of them; on every day the median margin of Rings is at most a twentieth
of PMWG's, and at most a quarter of the histogram's; and, on most days, half of the answers of Rings are off by less
than their median margin.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import treering as tr
from experiments.claims import Claims
from experiments.flights_stream import stream_of_flights
from experiments.options import QUICK_BETA, options
from experiments.stream import Tally
from treering.demo.flights import SCHEMA
from treering.demo.story import DASHBOARD, PACE
from treering.pictures.svg import Line, Panel, Series, render
from treering.protocols import Database

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "rings_margins.svg"
TITLE = "A dashboard of 50 counts, kept current: flights of 2013, ε = 1, δ = 10^-6"
EPSILON, DELTA, ALPHA, BETA = 1.0, 1e-6, 0.05, 0.05
STEP, QUICK_STEP = 1, 60
LEAST_OF_PMWG, LEAST_OF_HISTOGRAM = 20.0, 4.0
COLOURS = {"Rings": "#2563eb", "PMWG": "#d97706", "noisy histogram": "#059669"}


@dataclass
class Course:
    """What one mechanism stated, and how far off it was, day by day: medians, in rows."""

    sizes: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def add(self, answers: Sequence[tr.Answer], truths: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        """Note a day."""
        size = answers[0].size
        self.sizes.append(size / 1000)
        self.margins.append(size * float(np.median([each.margin for each in answers])))
        self.errors.append(size * float(np.median([each.error for each in answers])))
        self.off.append(size * float(np.median(np.abs(np.array([each.value for each in answers]) - truths))))
        self.tally.add(answers, truths)


def made(db: Database, beta: float) -> dict[str, tr.Rings | tr.PMWG | tr.ContinualHistogram]:
    """The mechanisms, each with a promise of its own."""
    return {
        "Rings": tr.Rings(db, EPSILON, DELTA, beta, pace=PACE),
        "PMWG": tr.PMWG(db, EPSILON, DELTA, alpha=ALPHA, beta=beta),
        "noisy histogram": tr.ContinualHistogram(db, EPSILON, DELTA, beta),
    }


def run(step: int, beta: float) -> dict[str, Course]:
    """Stream the rest of the year past all of them."""
    queries = [tr.parse(text, SCHEMA) for text in DASHBOARD]
    courses = {name: Course() for name in COLOURS}
    mechanisms: dict[str, tr.Rings | tr.PMWG | tr.ContinualHistogram] = {}
    for stream in stream_of_flights(step=step):
        mechanisms = mechanisms or made(stream.database, beta)
        truths = stream.shares(queries)
        for name, mechanism in mechanisms.items():
            courses[name].add(mechanism.ask_many(queries), truths)
    return courses


def panels(courses: Mapping[str, Course]) -> list[Panel]:
    """What is stated, and how far off answers were."""

    def line(name: str, label: str, values: Sequence[float], dashes: str = "") -> Series:
        return Line(label, courses[name].sizes, values, COLOURS[name], dashes)

    stated = [line(name, name, course.margins) for name, course in courses.items()]
    stated += [line(name, "error", course.errors, "5 3") for name, course in courses.items() if name != "PMWG"]
    off = [line(name, name, course.off) for name, course in courses.items()]
    axes = ("flights so far, in thousands", "rows")
    limits = (10.0, 100_000.0)
    return [
        Panel("margin (dashes: error), median", *axes, stated, y_limits=limits, y_log=True),
        Panel("how far off answers are, median", *axes, off, y_limits=limits, y_log=True),
    ]


def check(courses: Mapping[str, Course]) -> Claims:
    """The claims of the first paragraph."""
    claims, margins = Claims(), np.array(courses["Rings"].margins)
    for name, course in courses.items():
        claims.accurate(name, course.tally, 1.0)
    for name, least in (("PMWG", LEAST_OF_PMWG), ("noisy histogram", LEAST_OF_HISTOGRAM)):
        ratio = float((margins / np.array(courses[name].margins)).max())
        claims.at_most(f"margin of Rings / margin of {name}, medians, on the worst day", ratio, 1 / least)
    off = float(np.median(np.array(courses["Rings"].off) / margins))
    claims.at_most("Rings: how far off / margin, medians", off, 1.0)
    return claims


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, draw, and check the claims."""
    given = options(__doc__, arguments)
    courses = run(*((QUICK_STEP, QUICK_BETA) if given.quick else (STEP, BETA)))
    for name, course in courses.items():
        told = f"margin {course.margins[-1]:,.0f}, error {course.errors[-1]:,.0f}, off by {course.off[-1]:,.0f} rows"
        print(f"{name:<16} on the last day, medians: {told}")
    picture = render(TITLE, panels(courses))
    if not given.quick:
        TARGET.write_text(picture, encoding="utf-8")
        print(f"wrote {TARGET.name}, {len(picture):,} characters")
    return check(courses).exit_code()


if __name__ == "__main__":
    sys.exit(main())
