"""Draw docs/images/erm_logistic.svg: excess risk against size, without privacy, static, the paper's ERMG and ours.

    python -m experiments.erm_picture [--quick] [--seed N]

The streams are those of `experiments.erm_logistic`, and so are the numbers printed and the claims. Private noise has no
seed, so the picture is a little different each time. With --quick nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.erm_logistic import END, QUICK_END, QUICK_STREAMS, STREAMS, Measured, Series, check, measure, report
from experiments.options import options
from treering.pictures.svg import Line, Panel, render

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "erm_logistic.svg"
TITLE = "Private logistic regression, 10 features, ε = 1, δ = 10^-6: excess risk as rows arrive"
LOWEST = 1e-6
"""Where the picture ends: without privacy there is no excess risk on the rows so far."""


def line(label: str, risks: dict[int, list[float]], colour: str, dashes: str = "") -> Line:
    """Mean excess risks, on logarithmic scales."""
    means = [max(LOWEST, float(np.mean(each))) for each in risks.values()]
    return Line(label, np.log10(list(risks)).tolist(), np.log10(means).tolist(), colour, dashes)


def panels(measured: Measured) -> list[Panel]:
    """On rows to come, which tells models without privacy from the best one, too; and on the rows so far."""
    kinds: list[tuple[str, Series, str, str]] = [
        ("random model", measured.random, "#9ca3af", "2 3"),
        ("ERMG, paper", measured.paper, "#dc2626", ""),
        ("ERMG, tight", measured.tight, "#2563eb", ""),
        ("static, private", measured.static, "#059669", ""),
        ("non-private", measured.plain, "#111827", ""),
    ]
    axes = ("log10 of the number of rows", "log10 of the excess risk")
    fresh = [line(name, series.fresh, colour, dashes) for name, series, colour, dashes in kinds]
    seen = [line(name, series.risks, colour, dashes) for name, series, colour, dashes in kinds[:-1]]
    proven = line("proven", {size: [bound] for size, bound in measured.bound.items()}, "#2563eb", "5 3")
    return [
        Panel("rows to come", *axes, fresh, y_limits=(-6.0, 0.0)),
        Panel("rows so far; dashes: proven", *axes, [*seen, proven], y_limits=(-6.0, 0.0)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the streams, draw, and check the claims."""
    given = options(__doc__, arguments)
    end = QUICK_END if given.quick else END
    measured, learner = measure(given.seed, QUICK_STREAMS if given.quick else STREAMS, end)
    picture = render(TITLE, panels(measured))
    if not given.quick:
        TARGET.write_text(picture, encoding="utf-8")
        print(f"wrote {TARGET.name}, {len(picture):,} characters")
    report(measured)
    return check(measured, learner, end).exit_code()


if __name__ == "__main__":
    sys.exit(main())
