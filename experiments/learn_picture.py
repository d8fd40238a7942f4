"""Draw docs/images/learn_every.svg: the accuracy of models by how often they are trained, as rows arrive.

    python -m experiments.learn_picture [--quick] [--seed N]

The streams are those of `experiments.learn_streams`: on the left rows that are alike, on the right rows that become
others after 24,000. ``every=2`` trains at doublings, on half of all rows; 1.25 on a fifth, three times as often; 1.1 on
an eleventh. Beside them ERMG (``rows="all"``) and no privacy (of all rows; on the right, after the drift, of the new
ones). Means of 5 runs, accuracy on rows of the latest kind. Private noise has no seed, so the picture is a little
different each time. In short one run, larger batches, and nothing is written.

Claimed: at the end of either stream doublings are within 1 point of no privacy (2 in short), and on the left no more
frequent training is better than that by more than a point.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from experiments.claims import Claims
from experiments.learn_streams import DELTA, DRIFT, EPSILON, RECOVERED, TEST, WIDER, WITHIN, Data, Stream, plain, scores
from experiments.options import options
from treering.arrays import Floats
from treering.learn import PrivateLogisticRegression
from treering.pictures.svg import Line, Panel, render

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "learn_every.svg"
TITLE = "Private logistic regression, ε = 1, δ = 10^-6: accuracy as rows arrive"
EVERY = (2.0, 1.25, 1.1)
COLOURS = ("#2563eb", "#059669", "#d97706")
RUNS, BATCH, QUICK_BATCH = 5, 1_000, 4_000

Found: TypeAlias = dict[str, Floats]
"""The accuracy of each kind of model at each size."""


def estimator(every: float | None) -> PrivateLogisticRegression:
    """By rings, or for None of all rows."""
    kind = {"rows": "all"} if every is None else {"every": every}
    return PrivateLogisticRegression(EPSILON, DELTA, norm_bound=1.0, classes=(0, 1), **kind)


def measure(data: Data, test: Data, fresh: int, runs: int, batch: int) -> tuple[list[int], Found]:
    """Accuracy on the test rows as rows arrive; rows after the first ``fresh`` are like them."""
    sizes = list(range(batch, len(data[1]) + 1, batch))
    found: Found = {}
    for every in (*EVERY, None):
        name = 'rows="all"' if every is None else f"every={every:g}"
        each = [
            scores(estimator(every), data, sizes, lambda model: float(model.score(*test)), batch) for _ in range(runs)
        ]
        found[name] = np.mean(each, axis=0)
    starts = [fresh if size > fresh else 0 for size in sizes]
    found["no privacy"] = np.array(
        [plain((data[0][start:size], data[1][start:size]), test) for start, size in zip(starts, sizes, strict=True)]
    )
    return sizes, found


def panel(title: str, sizes: Sequence[int], found: Found) -> Panel:
    """One stream."""
    colours = dict(zip(found, (*COLOURS, "#dc2626", "#111827"), strict=True))
    thousands = [size / 1_000 for size in sizes]
    lines = [
        Line(name, thousands, values.tolist(), colours[name], "5 3" if name == "no privacy" else "")
        for name, values in found.items()
    ]
    return Panel(title, "thousands of rows", "accuracy", lines)


def streams(seed: int) -> list[tuple[str, Data, Data, int]]:
    """What is drawn: a title, the rows, rows to test on, and where the new kind of row begins."""
    x, y = Stream("new", 11).draw(RECOVERED + TEST)
    test = x[-TEST:], y[-TEST:]
    alike = x[: RECOVERED // 2], y[: RECOVERED // 2]
    old = Stream("old", 30 + seed).draw(DRIFT)
    new = RECOVERED - DRIFT
    drifting = np.vstack([old[0], x[:new]]), np.concatenate([old[1], y[:new]])
    return [("rows that are alike", alike, test, 0), (f"a drift after {DRIFT:,} rows", drifting, test, DRIFT)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the streams, draw, and check the claims."""
    given = options(__doc__, arguments)
    claims, panels = Claims(), []
    runs, batch = (1, QUICK_BATCH) if given.quick else (RUNS, BATCH)
    wider = WIDER if given.quick else 1.0
    for title, data, test, fresh in streams(given.seed):
        sizes, found = measure(data, test, fresh, runs, batch)
        panels.append(panel(title, sizes, found))
        told = ", ".join(f"{name} {values[-1]:.4f}" for name, values in found.items())
        print(f"  {title}, {sizes[-1]:,} rows: {told}")
        doublings = float(found["every=2"][-1])
        claims.at_most(
            f"{title}: doublings less than no privacy by", found["no privacy"][-1] - doublings, WITHIN * wider
        )
        if not fresh:
            best = max(float(found[f"every={every:g}"][-1]) for every in EVERY)
            claims.at_most(f"{title}: more often better than doublings by", best - doublings, WITHIN * wider)
    if not given.quick:
        picture = render(TITLE, panels)
        TARGET.write_text(picture, encoding="utf-8")
        print(f"wrote {TARGET.name}, {len(picture):,} characters")
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
