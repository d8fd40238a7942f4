"""Sparse vector while the database grows: noise fixed in rows against the paper's ξ_t, for the same privacy.

    python -m experiments.frozen_scale [--quick]

A run of ATG that began at t0 rows has noise of 2t/ξ_t rows on its threshold and of 4t/ξ_t on its queries, and costs
ξ_{t0}/t0 whatever ξ does later, as long as ξ_t/t does not rise. The paper's ξ_t grows like t^p, here √t, as in its
PMWG: its noise grows with the table, in rows. Ours grows like t: the noise stays what it was. t0 = 10,000 rows and ε =
0.01. *Wrong* is the share of runs of `tr.ATG` that misjudge a count 1,000 rows above or below a threshold of half of
the rows; *predicted* is that share by the laws of the noise.

Claimed: what was found lies within six standard deviations of what is predicted (a chance of about 10^-8 that one of
ten does not); ours misjudges as often at every size, and the paper's more often than ours at every size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from experiments.record import Record, Row, column, where
from treering.pictures.svg import Dots, Line, Panel

EPSILON, START, DISTANCE = 0.01, 10_000, 1_000
SIZES = tuple(START * times for times in (4, 8, 16, 32, 64))
RUNS, QUICK_RUNS, DEVIATIONS = 2_000, 400, 6.0
SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
LATE = tr.parse("late = 'yes'", SCHEMA)
OURS, PAPER = "fixed in rows", "the paper's"
XI: Mapping[str, Callable[[int], float]] = {
    OURS: lambda size: EPSILON * size,
    PAPER: lambda size: EPSILON * math.sqrt(START * size),
}


def noise(kind: str, size: int) -> float:
    """The scale of a query's noise, in rows."""
    return 4 * size / XI[kind](size)


def predicted(kind: str, size: int) -> float:
    """P(X + Y > d) for independent Laplace variables, the threshold's and a query's, which has twice its scale."""
    query = noise(kind, size)
    return (4 * math.exp(-DISTANCE / query) - math.exp(-2 * DISTANCE / query)) / 6


def judged(kind: str, size: int, runs: int) -> dict[str, float]:
    """How often runs that began at `START` rows misjudge a count at this size."""
    wrong = sum(_wrong(kind, size, above=number % 2 == 0) for number in range(runs))
    return {"noise": noise(kind, size), "wrong": wrong / runs, "predicted": predicted(kind, size)}


def _wrong(kind: str, size: int, *, above: bool) -> bool:
    """One run: a question far below the threshold begins it, then the table grows, and a count near it is judged."""
    database = tr.GrowingDatabase(SCHEMA)
    database.append_cells(np.zeros(START, dtype=np.int64))
    atg = tr.ATG(database, 0.5, EPSILON, xi=XI[kind])
    if atg.ask(LATE):  # once in a hundred thousand
        return False
    matching = size // 2 + (DISTANCE if above else -DISTANCE)
    database.append_cells(np.repeat([1, 0], [matching, size - START - matching]))
    return atg.ask(LATE) != above


def panels(rows: Sequence[Row]) -> list[Panel]:
    """Noise and misjudged counts over sizes."""
    kinds = ((where(rows, noise_of=OURS), OURS, "#2563eb"), (where(rows, noise_of=PAPER), PAPER, "#dc2626"))
    times = [size / START for size in SIZES]
    return [
        Panel(
            "noise of a query, in rows",
            "rows, as a multiple of those at the start of the run",
            "scale of the noise",
            [Line(kind, times, column(found, "noise"), colour) for found, kind, colour in kinds],
        ),
        Panel(
            "counts misjudged; dots: measured",
            "rows, as a multiple of those at the start of the run",
            "share of the runs",
            [
                series
                for found, kind, colour in kinds
                for series in (
                    Line(kind, times, column(found, "predicted"), colour),
                    Dots(f"{kind}, measured", times, column(found, "wrong"), colour),
                )
            ],
            y_limits=(0.0, 0.5),
        ),
    ]


def check(rows: Sequence[Row], runs: int) -> Claims:
    """The claims."""
    claims = Claims()
    ours, papers = (where(rows, noise_of=kind) for kind in (OURS, PAPER))
    worst = max(
        abs(found - law) / math.sqrt(law * (1 - law) / runs)
        for found, law in zip(column(rows, "wrong"), column(rows, "predicted"), strict=True)
    )
    claims.at_most("deviations between what was found and what is predicted", worst, DEVIATIONS)
    steady = column(ours, "predicted")
    claims.at_most("ours: largest share misjudged over the smallest", max(steady) / min(steady), 1.0 + 1e-9)
    worst = max(one / other for one, other in zip(column(ours, "wrong"), column(papers, "wrong"), strict=True))
    claims.at_most("ours over the paper's: share misjudged, at any size", worst, 1)
    return claims


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, draw and check the claims."""
    quick = options(__doc__, arguments).quick
    record, runs = Record("frozen_scale", keep=not quick, resume=True), QUICK_RUNS if quick else RUNS
    for kind in (OURS, PAPER):
        for size in SIZES:
            row = record.row({"noise_of": kind, "size": size}, partial(judged, kind, size, runs))
            print(f"  {kind:>13}, {size:>7,} rows: {row['wrong']} misjudged, {row['predicted']} predicted")
    record.finish(f"Noise fixed in rows against the paper's ξ_t, {runs:,} runs of ATG each", panels(record.rows))
    return check(record.rows, runs).exit_code()


if __name__ == "__main__":
    sys.exit(main())
