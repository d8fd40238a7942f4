"""Erratum E1, measured: what a fresh noisy threshold at every step loses, as an audit finds it.

    python -m experiments.fresh_threshold [--quick]

The paper's pseudocode of ATG draws a new noisy threshold at every time step; its proof has one for the whole run. Both
are run on two neighbours whose counts stay `GAP` rows below the threshold and differ by one row at every step, at ε = 2
(s1 = 1, s2 = 2). What is audited is the step at which a run halts. *Exact* is the largest log-ratio of the two
probabilities of a transcript; *audited* is a lower bound on ε from samples, with a confidence of 1 − 10^-6.

Claimed: the fresh threshold is shown to lose more than ε after `LONG` steps, and its loss grows with their number; one
threshold for the run never does, neither exactly nor by audit, nor does `tr.ATG` itself on the same two streams.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from experiments.record import Record, Row, column, where
from treering.audit.bounds import lower_bound
from treering.audit.neighbours import Stream, grow, worst_pair
from treering.noise import Laplace
from treering.pictures.svg import Dots, Line, Panel
from treering.trusted.noise import draw

EPSILON, GAP = 2.0, 3
THRESHOLD_SCALE, QUERY_SCALE = 2 / EPSILON, 4 / EPSILON
STEPS, LONG = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32), 32
SAMPLES, QUICK_SAMPLES, ATG_SAMPLES, QUICK_ATG_SAMPLES = 400_000, 200_000, 20_000, 500
CONFIDENCE = 1 - 1e-6
REACH = 200
"""How far the exact sums go, in rows."""
SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
LATE = tr.parse("late = 'yes'", SCHEMA)
FRESH, ONE, OURS = "fresh", "one", "tr.ATG"

Halts = npt.NDArray[np.int64]
"""For each run the step at which it halted, counted from 1, or a number above all steps."""


def halts(gap: int, samples: int, *, fresh: bool) -> Halts:
    """Runs of `LONG` steps, with exact noise."""
    found = np.full(samples, LONG + 1)
    alive = np.arange(samples)
    threshold = draw(Laplace(THRESHOLD_SCALE), 1, samples)
    for step in range(1, LONG + 1):
        if not len(alive):
            break
        if fresh:
            threshold = draw(Laplace(THRESHOLD_SCALE), 1, len(alive))
        above = draw(Laplace(QUERY_SCALE), 1, len(alive)) - gap >= threshold
        found[alive[above]] = step
        alive, threshold = alive[~above], threshold[~above]
    return found


def audited(left: Halts, right: Halts, steps: int) -> float:
    """The audit's lower bound on ε for runs of so many steps."""
    one, other = (iter(np.minimum(each, steps + 1).tolist()) for each in (left, right))
    return lower_bound(next, one, other, len(left), CONFIDENCE)


def exact(steps: int, *, fresh: bool) -> float:
    """The largest log-ratio of a transcript's two probabilities."""
    pairs = zip(_chances(GAP, steps, fresh), _chances(GAP - 1, steps, fresh), strict=True)
    return max(abs(math.log(left / right)) for left, right in pairs)


def _chances(gap: int, steps: int, fresh: bool) -> list[float]:
    """P(halts at step i) for each i, and last P(never halts)."""
    eta = np.arange(-REACH, REACH + 1)
    mass = np.exp(-np.abs(eta) / THRESHOLD_SCALE)
    mass /= mass.sum()
    ratio = math.exp(-1 / QUERY_SCALE)
    needed = eta + gap  # the query's noise must reach this
    tail = np.where(needed > 0, ratio ** np.maximum(needed, 0), 1 + ratio - ratio ** (1 - np.minimum(needed, 0)))
    halt = tail / (1 + ratio)
    if fresh:
        chance = float(mass @ halt)
        return [chance * (1 - chance) ** step for step in range(steps)] + [(1 - chance) ** steps]
    return [float(mass @ (halt * (1 - halt) ** step)) for step in range(steps)] + [float(mass @ (1 - halt) ** steps)]


def atg(stream: Stream) -> int:
    """The step at which `tr.ATG` halts on a stream."""
    mechanism: tr.ATG | None = None
    for step, database in enumerate(grow(stream), 1):
        mechanism = tr.ATG(database, 0.5, EPSILON) if mechanism is None else mechanism
        if mechanism.ask(LATE):
            return step
    return LONG + 1


class Measured:
    """Runs with one kind of threshold on both neighbours, drawn when a loss is first asked for."""

    def __init__(self, samples: int, *, fresh: bool) -> None:
        self._samples, self._fresh = samples, fresh

    @cached_property
    def _runs(self) -> tuple[Halts, Halts]:
        left, right = (halts(gap, self._samples, fresh=self._fresh) for gap in (GAP, GAP - 1))
        return left, right

    def losses(self, steps: int) -> dict[str, float]:
        """What runs of so many steps lose."""
        return {"exact": exact(steps, fresh=self._fresh), "audited": audited(*self._runs, steps)}


def measure(record: Record, samples: int) -> None:
    """The losses at all numbers of steps, with a fresh threshold and with one."""
    for name, fresh in ((FRESH, True), (ONE, False)):
        measured = Measured(samples, fresh=fresh)
        for steps in STEPS:
            record.row({"threshold": name, "steps": steps}, partial(measured.losses, steps))


def audit_atg(record: Record, samples: int) -> float:
    """The audit's lower bound on the ε of `tr.ATG` itself."""
    pair = worst_pair(SCHEMA, inside=1, outside=0, gaps=[-GAP] * LONG)
    row = record.row(
        {"threshold": OURS, "steps": LONG},
        lambda: {"exact": exact(LONG, fresh=False), "audited": lower_bound(atg, *pair, samples, CONFIDENCE)},
    )
    return float(row["audited"])


def panel(rows: Sequence[Row]) -> Panel:
    """Losses over steps."""
    fresh, one = (where(rows, threshold=name) for name in (FRESH, ONE))
    ours = where(rows, threshold=OURS)
    return Panel(
        "",
        "time steps without a crossing, at most",
        "privacy loss",
        (
            Line("claimed: ε", STEPS, [EPSILON] * len(STEPS), "#6b7280", "5 3"),
            Line("fresh threshold, exact", STEPS, column(fresh, "exact"), "#dc2626"),
            Dots("fresh threshold, audited", STEPS, column(fresh, "audited"), "#dc2626"),
            Line("one threshold, exact", STEPS, column(one, "exact"), "#2563eb"),
            Dots("one threshold, audited", STEPS, column(one, "audited"), "#2563eb"),
            Dots("tr.ATG, audited", column(ours, "steps"), column(ours, "audited"), "#059669"),
        ),
    )


def check(rows: Sequence[Row], ours: float) -> Claims:
    """The claims."""
    claims, fresh, one = Claims(), where(rows, threshold=FRESH), where(rows, threshold=ONE)
    claims.at_most("minus the fresh threshold's audited loss", -max(column(fresh, "audited")), -EPSILON)
    growing = pairwise(column(fresh, "exact"))
    claims.at_most("fresh threshold: least growth of the exact loss, below 0", max(a - b for a, b in growing), 0.0)
    claims.at_most("one threshold: exact loss", max(column(one, "exact")), EPSILON)
    claims.at_most("one threshold: audited loss", max(column(one, "audited")), EPSILON)
    claims.at_most("tr.ATG: audited loss", ours, EPSILON)
    return claims


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample, audit, draw and check the claims."""
    quick = options(__doc__, arguments).quick
    record = Record("fresh_threshold", keep=not quick, resume=True)
    measure(record, QUICK_SAMPLES if quick else SAMPLES)
    ours = audit_atg(record, QUICK_ATG_SAMPLES if quick else ATG_SAMPLES)
    for row in record.rows:
        print(f"  {row['threshold']:>16} {row['steps']:>3} steps: {row['exact']} exactly, at least {row['audited']}")
    record.finish("Erratum E1: a fresh noisy threshold at every step, ε = 2", [panel(record.rows)], aside=True)
    return check(record.rows, ours).exit_code()


if __name__ == "__main__":
    sys.exit(main())
