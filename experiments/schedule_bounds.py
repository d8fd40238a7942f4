"""The error of rerun algorithms for the whole future: the paper's schedules against ours.

    python -m experiments.schedule_bounds

First SmallDB under BBScheduler, N = k = 1000, ε = 1, β = 0.05, the error counted as α + γ/(1+γ) like the paper: by the
paper's rate (p, g) = (1/3, (64·log N·log k)^{1/3}) and on its own proven bound, candidates counted as N^m sequences or
as multisets. With δ > 0 ours by the paper's conversion of zCDP and by the tight one. Then a grid on which ours is never
above the paper's, and the exponents in n over 10^6 … 10^14 rows: p/(p+1) for δ = 0 and p/(p/2+1) for δ > 0, of n over
the logarithm log(π²/(6β)) + 2·log(1+1/γ). Last BBImprover over a box of rate 1, from n to 10^6 rows: the noise of the
runs falls with an exponent above 0.6 (the paper's below 0.5), with few runs, and the error is below the paper's from 2n
on. There is no randomness here; ``--quick`` takes a smaller grid.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from experiments.claims import Claims
from experiments.options import options
from experiments.record import Record, Row, column, where
from treering.budget.promise import Budget, Promise
from treering.errors import GuaranteeError
from treering.pictures.svg import Line, Panel
from treering.theory import schedule, smalldb
from treering.theory.conversion import paper_rho_of

CELLS = QUERIES = 1000
EPSILON, BETA, DELTA, P = 1.0, 0.05, 1e-9, 1 / 3
STATED = {
    (10**8, 0.0): (0.307, 0.2205),
    (10**10, 0.0): (0.1232, 0.0739),
    (10**8, DELTA): (0.437, 0.218),
    (10**10, DELTA): (0.160, 0.0628),
}
"""The paper's and our error, ours by the paper's conversion where δ > 0."""
STATED_TIGHT = {10**8: 0.211, 10**10: 0.0608}
"""Ours by the tight conversion."""
OWN_CASE, STATED_OWN = (10**8, 0.0), (0.076, 0.027)
"""On SmallDB's own bound: counting sequences, or multisets."""
WITHIN = 0.005
"""How near, in proportion, what is found must be to what is stated."""
EXPONENT_WITHIN, LEAST_EXPONENT, MOST_RUNS = 0.02, 0.6, 0.03
RATES = ((0.25, 1.0), (P, smalldb.rate(CELLS, QUERIES)), (0.5, 3.0), (1.0, 10.0), (2.0, 2.0))
STREAM = 10**6


def own_alpha(start: int, budget: Budget, *, multisets: bool, centred: bool) -> float:
    """BBScheduler over SmallDB on its own proven bound."""

    def alpha_of(size: int, given: Budget, beta: float) -> float:
        epsilon = Fraction(smalldb.range_epsilon(given))
        return smalldb.alpha(size, epsilon, beta, CELLS, QUERIES, multisets)

    return schedule.fixed_for(alpha_of, start, budget, BETA, centred).alpha


def check_smalldb(claims: Claims, quick: bool) -> None:
    """The paper's numbers, ours by the rate, and ours on SmallDB's own bound."""
    g, claimed = smalldb.rate(CELLS, QUERIES), []
    print("| n | δ | paper | tight | tight conversion | own bound | multisets | own, centred | multisets, centred |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (start, delta), (stated_paper, stated_tight) in STATED.items():
        paper = schedule.fixed(start, EPSILON, delta, BETA, P, g, "paper").alpha
        best = schedule.fixed(start, EPSILON, delta, BETA, P, g).alpha
        simple = Budget("zcdp", paper_rho_of(EPSILON, delta)) if delta else Promise(EPSILON).budget
        tight = schedule.fixed_within(start, simple, BETA, P, g).alpha
        case = f"n=10^{round(math.log10(start))}, delta={delta:g}"
        claimed += [(f"{case}: the paper's error", paper, stated_paper), (f"{case}: ours", tight, stated_tight)]
        if delta:
            claimed.append((f"{case}: ours by the tight conversion", best, STATED_TIGHT[start]))
        shown = [paper, tight, best]
        if not quick or (start, delta) == OWN_CASE:
            budget = Promise(EPSILON, delta).budget
            own = [
                own_alpha(start, budget, multisets=multisets, centred=centred)
                for centred, multisets in product((False,) if quick else (False, True), (False, True))
            ]
            shown += own
            if (start, delta) == OWN_CASE:
                claimed.append((f"{case}: on its own bound, sequences", own[0], STATED_OWN[0]))
                claimed.append((f"{case}: on its own bound, multisets", own[1], STATED_OWN[1]))
        print(f"| 10^{round(math.log10(start))} | {delta:g} | " + " | ".join(f"{each:.4f}" for each in shown) + " |")
    for name, found, stated in claimed:
        # Stated with two figures at least.
        within = WITHIN if stated > 0.03 else 3 * WITHIN
        claims.at_most(f"{name}, {found:.5f}: away from {stated:g}", abs(found / stated - 1), within)


def ratios(quick: bool) -> Iterator[float]:
    """Our error over the paper's, wherever the paper has a schedule."""
    sizes = (10**4, 10**10) if quick else (1, 30, 10**3, 10**6, 10**10, 10**15, 2**61)
    epsilons = (0.1, 1.0) if quick else (0.001, 0.1, 1.0)
    deltas = (0.0, 1e-6) if quick else (0.0, 1e-12, 1e-6, 0.3)
    betas = (0.05, 0.99) if quick else (1e-9, 0.05, 0.5, 0.99)
    for start, epsilon, delta, beta, (p, g) in product(sizes, epsilons, deltas, betas, RATES):
        try:
            paper = schedule.fixed(start, epsilon, delta, beta, p, g, "paper").alpha
        except GuaranteeError:
            continue
        yield schedule.fixed(start, epsilon, delta, beta, p, g).alpha / paper


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """How fast the values fall: the slope of a line through their logarithms."""
    return float(-np.polyfit(np.log(sizes), np.log(values), 1)[0])


def paper_alpha(size: int, delta: float, p: float, g: float) -> float:
    """The paper's error; not a number where it has no schedule."""
    try:
        return schedule.fixed(size, EPSILON, delta, BETA, p, g, "paper").alpha
    except GuaranteeError:
        return math.nan


def panel(rows: Sequence[Row], p: float, delta: float) -> Panel:
    """The errors of a box of rate p, over sizes."""
    there = where(rows, p=p, delta=delta)
    papers = [None if math.isnan(alpha) else alpha for alpha in column(there, "paper_alpha")]
    return Panel(
        f"p = {p:.3g}, δ = {delta:g}",
        "rows at the start",
        "error, for ever",
        (
            Line("the paper's schedule", column(there, "size"), papers, "#dc2626"),
            Line("ours", column(there, "size"), column(there, "alpha"), "#2563eb"),
        ),
        x_log=True,
        y_log=True,
    )


def check_exponents(claims: Claims, record: Record) -> None:
    """The exponents of our error, of n over the logarithm."""
    sizes = [10**power for power in range(6, 15)]
    print("\n| p | g | δ | exponent | found | the paper's |\n|---|---|---|---|---|---|")
    worst = 0.0
    for (p, g), delta in product(RATES, (0.0, DELTA)):
        plans = [schedule.fixed(size, EPSILON, delta, BETA, p, g) for size in sizes]
        rows = [size / schedule.fixed_logarithm(BETA, plan.growth) for size, plan in zip(sizes, plans, strict=True)]
        found = exponent(rows, [plan.alpha for plan in plans])
        wanted, papers = (p / (p / 2 + 1), p / (1.5 * p + 1)) if delta else (p / (p + 1), p / (2 * p + 1))
        print(f"| {p:.4g} | {g:.4g} | {delta:g} | {wanted:.4f} | {found:.4f} | {papers:.4f} |")
        worst = max(worst, abs(found - wanted))
        key = {"p": p, "g": g, "delta": delta, "exponent": wanted, "found": found, "paper_exponent": papers}
        for size, plan in zip(sizes, plans, strict=True):
            record.add(key | {"size": size, "alpha": plan.alpha, "paper_alpha": paper_alpha(size, delta, p, g)})
    claims.at_most("exponents of n/log: farthest from p/(p+1) or p/(p/2+1)", worst, EXPONENT_WITHIN)


def check_improving(claims: Claims) -> None:
    """BBImprover over boxes of rate 1."""
    found = []
    print("\n| n | g | noise exponent | the paper's | runs | of the paper's | error at 10^6 | the paper's |")
    print("|---|---|---|---|---|---|---|---|")
    for start, g in product((10**3, 10**4, 10**5), (1.0, 10.0)):
        tight = schedule.improving(start, 0.9, 1e-6, BETA, 1, 1, 0, g)
        paper = schedule.improving(start, 0.9, 1e-6, BETA, 1, 1, 0, g, 0.05, "paper")
        sizes = [int(size) for size in np.unique(np.geomspace(start, STREAM, 300).astype(int))]
        slopes = [
            exponent(sizes, [1 / (float(run.budget.total) * run.size) for run in map(plan.at, sizes)])
            for plan in (tight, paper)
        ]
        runs = tight.index_at(STREAM) + 1
        share = runs / (STREAM - start + 1)
        ends = tight.alpha_at(STREAM), paper.alpha_at(STREAM)
        print(
            f"| {start:,} | {g:g} | {slopes[0]:.3f} | {slopes[1]:.3f} | {runs} | {share:.2g} | "
            f"{ends[0]:.3g} | {ends[1]:.3g} |"
        )
        worst = max(tight.alpha_at(size) / paper.alpha_at(size) for size in sizes if size >= 2 * start)
        found.append((slopes[0], share, worst))
    slowest = min(slope for slope, _, _ in found)
    claims.at_most(f"improving: {LEAST_EXPONENT} less the noise's exponent", LEAST_EXPONENT - slowest, 0)
    claims.at_most("improving: share of the paper's runs", max(share for _, share, _ in found), MOST_RUNS)
    claims.at_most("improving: error over the paper's from 2n on", max(worst for _, _, worst in found), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and check the claims."""
    quick, claims = options(__doc__, arguments).quick, Claims()
    record = Record("schedule_bounds", keep=not quick)
    check_smalldb(claims, quick)
    claims.at_most("grid: tight over paper", max(ratios(quick)), 1)
    check_exponents(claims, record)
    drawn = [panel(record.rows, p, delta) for p in (P, 1.0) for delta in (0.0, DELTA)]
    record.finish("BBScheduler: errors by the paper's schedule and by ours, ε = 1", drawn)
    check_improving(claims)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
