"""Draw docs/images/pmwg_growth.svg: what PMWG's public histogram says, what it answers, and the truth, as data grow.

    python -m experiments.pmwg_picture [--quick] [--seed N]

The flights of 2013, as in `experiments.pmwg_flights`. Each day 20 random questions are asked, then the two that are
drawn. Private noise has no seed, so the picture is a little different each time. With --quick nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import treering as tr
from experiments.claims import Claims
from experiments.flights_stream import stream_of_flights
from experiments.options import QUICK_BETA, options
from experiments.stream import Tally
from treering.demo.flights import SCHEMA
from treering.domain.workload import random_conjunctions
from treering.pictures.svg import Band, Dots, Line, Panel, render

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "pmwg_growth.svg"
EPSILON, DELTA, ALPHA, BETA = 1.0, 1e-9, 0.05, 0.05
QUERIES, QUICK_QUERIES = 20, 2
DRAWN = {"month >= 7": "a share that drifts", "delay >= 15": "a share that hardly moves"}


@dataclass
class Course:
    """What became of one question, day by day."""

    sizes: list[float] = field(default_factory=list)
    truths: list[float] = field(default_factory=list)
    beliefs: list[float] = field(default_factory=list)
    answers: list[tr.Answer] = field(default_factory=list)

    def panel(self, title: str) -> Panel:
        """The chart of it: the band is answer ± error, the dots are the answers that met noise."""
        fresh = [index for index, answer in enumerate(self.answers) if answer.kind not in ("cached", "easy")]
        low = [max(0.0, answer.value - answer.error) for answer in self.answers]
        high = [min(1.0, answer.value + answer.error) for answer in self.answers]
        values = [self.answers[index].value for index in fresh]
        return Panel(
            title,
            "flights so far, in thousands",
            "share of all flights",
            (
                Band("answer ± error", self.sizes, low, high, "#dbeafe"),
                Dots("measured answer", [self.sizes[index] for index in fresh], values, "#60a5fa"),
                Line("hypothesis, before it is asked", self.sizes, self.beliefs, "#d97706"),
                Line("truth", self.sizes, self.truths, "#111827"),
            ),
            y_limits=(0.0, 0.6),
        )


def run(queries: int, beta: float, seed: int) -> tuple[dict[str, Course], Tally]:
    """Stream the rest of the year and follow the questions to be drawn."""
    generator, tally = np.random.default_rng(seed), Tally()
    followed = [tr.parse(text, SCHEMA) for text in DRAWN]
    courses = {text: Course() for text in DRAWN}
    mechanism: tr.PMWG | None = None
    for stream in stream_of_flights():
        if mechanism is None:
            mechanism = tr.PMWG(stream.database, EPSILON, DELTA, alpha=ALPHA, beta=beta)
        mechanism.ask_many(random_conjunctions(SCHEMA, queries, generator))
        beliefs, truths = mechanism.hypothesis.answer_many(followed), stream.shares(followed)
        answers = mechanism.ask_many(followed)
        tally.add(answers, truths)
        for course, belief, truth, answer in zip(courses.values(), beliefs, truths, answers, strict=True):
            course.sizes.append(stream.database.size / 1000)
            course.beliefs.append(float(belief))
            course.truths.append(float(truth))
            course.answers.append(answer)
    return courses, tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, draw and check that the drawn answers keep their bounds."""
    given = options(__doc__, arguments)
    queries, beta = (QUICK_QUERIES, QUICK_BETA) if given.quick else (QUERIES, BETA)
    courses, tally = run(queries, beta, given.seed)
    panels = [courses[text].panel(f"{text}: {note}") for text, note in DRAWN.items()]
    picture = render("Hypothesis, answers and truth as the data grow: flights of 2013, May to December", panels)
    if not given.quick:
        TARGET.write_text(picture, encoding="utf-8")
        print(f"wrote {TARGET.name}, {len(picture):,} characters")
    claims = Claims()
    claims.accurate("picture", tally, ALPHA)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
