"""Draw docs/images/schedulers_flights.svg: error, staleness and epochs of three boxes under BBScheduler.

    python -m experiments.schedulers_picture [--quick] [--seed N]

The runs are those of `experiments.schedulers_flights`, and so are the claims. Private noise has no seed, so the picture
is a little different each time. With --quick nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.options import QUICK_BETA, options
from experiments.schedulers_flights import BETA, CASES, QUICK_STEP, STEP, Course, check, run
from treering.pictures.svg import Band, Dots, Line, Panel, render

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "schedulers_flights.svg"
TITLE = "BBScheduler over three boxes: flights of 2013, February to December, day by day"


def panel(course: Course) -> Panel:
    """The chart of one box. The band is what staleness adds to the bound: half of the rows that the epoch never saw."""
    sizes = [size / 1000 for size in course.sizes]
    epochs = [size / 1000 for size in course.epochs]
    stale = [share / 2 for share in course.staleness]
    return Panel(
        f"{course.case.name}: {len(epochs)} epochs",
        "flights so far, in thousands",
        "share of all flights",
        (
            Band("staleness, halved", sizes, [0.0] * len(sizes), stale, "#fde68a"),
            Line("guarantee", sizes, course.alphas, "#6b7280", dashes="5 3"),
            Line("widest bound of an answer", sizes, course.bounds, "#2563eb"),
            Line("worst error of the day", sizes, course.errors, "#111827"),
            Dots("an epoch opens", epochs, [0.0] * len(epochs), "#dc2626"),
        ),
        y_limits=(0.0, 0.16),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, draw and check the claims."""
    given = options(__doc__, arguments)
    step, beta = (QUICK_STEP, QUICK_BETA) if given.quick else (STEP, BETA)
    # Marginals are fitted by compiled code, and compiling takes a while: the short version draws the other two.
    courses = run(step, beta, given.seed, CASES[:2] if given.quick else CASES)
    picture = render(TITLE, [panel(course) for course in courses])
    if not given.quick:
        TARGET.write_text(picture, encoding="utf-8")
        print(f"wrote {TARGET.name}, {len(picture):,} characters")
    return check(courses, beta).exit_code()


if __name__ == "__main__":
    sys.exit(main())
