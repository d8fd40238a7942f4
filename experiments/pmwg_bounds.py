"""The worst-case error of PMWG for its whole future: the paper's against ours.

    python -m experiments.pmwg_bounds

ε = 1, κ = 1. The paper's α is its theorem's, with its constants. Ours is for the same number of queries (the paper's
own query budget), guarding only, with all of the privacy budget or half of it. The last column is what ``tr.PMWG(...)``
promises by default, for 10^9 queries, when half of the budget is for measuring: the smallest α for which
``guarantee.forever`` is true. Above 1 a bound promises nothing. Claimed: at most 0.22 of the paper's for δ = 0 (β =
0.05), at most 0.16 for δ = 10^-9 (β = 0.005); and with half of the budget below the paper's everywhere. There is no
randomness here, and nothing to shorten.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import product

from experiments.claims import Claims
from experiments.options import options
from experiments.record import Record
from treering.budget.promise import Promise
from treering.pictures.svg import Line, Panel
from treering.theory import pmwg
from treering.theory.pmwg.tight import MOST_QUERIES, RENEWALS

CELLS, SIZES = (10**3, 10**6), (10**6, 10**8, 10**10)
CASES = {0.0: 0.05, 1e-9: 0.005}
"""δ, and β with it."""
MOST_OF_PAPER = {0.0: 0.22, 1e-9: 0.16}
EPSILON, KAPPA, HALF = 1.0, 1, Fraction(1, 2)


@dataclass(frozen=True)
class Row:
    """The bounds for one universe and starting size."""

    delta: float
    beta: float
    cells: int
    size: int
    paper: float
    tight: float
    half: float
    default: float


def default_alpha(size: int, cells: int, delta: float, beta: float) -> float:
    """The smallest alpha, within 0.1%, for which PMWG's default promises to last for ever."""
    budget, potential = Promise(EPSILON, delta).budget.share(HALF), 2 * math.log(cells)

    def lasts(alpha: float) -> bool:
        queries = pmwg.at_most(MOST_QUERIES)
        return pmwg.forever(size, cells, budget, alpha, beta, queries, potential=potential, renewals=RENEWALS).fits

    low, high = 1e-6, 1.0
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if lasts(middle) else (middle, high)
    return high


def table() -> list[Row]:
    """All rows of the grid."""
    return [
        Row(
            delta,
            beta,
            cells,
            size,
            pmwg.alpha(size, cells, EPSILON, delta, beta, KAPPA),
            pmwg.tight_alpha(size, cells, EPSILON, delta, beta, KAPPA),
            pmwg.tight_alpha(size, cells, EPSILON, delta, beta, KAPPA, part=HALF),
            default_alpha(size, cells, delta, beta),
        )
        for (delta, beta), cells, size in product(CASES.items(), CELLS, SIZES)
    ]


def panel(rows: Sequence[Row], delta: float, cells: int) -> Panel:
    """The errors over sizes."""
    there = [row for row in rows if (row.delta, row.cells) == (delta, cells)]
    sizes = [float(row.size) for row in there]
    return Panel(
        f"δ = {delta:g}, {cells:,} cells",
        "rows at the start",
        "worst-case error, for ever",
        (
            Line("the paper's theorem", sizes, [row.paper for row in there], "#dc2626"),
            Line("ours, as many queries", sizes, [row.tight for row in there], "#2563eb"),
            Line("ours, 10^9 queries, half the budget", sizes, [row.default for row in there], "#059669", "4 3"),
        ),
        x_log=True,
        y_log=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, draw it and check the claims."""
    given = options(__doc__, arguments)
    rows, claims, record = table(), Claims(), Record("pmwg_bounds", keep=not given.quick)
    for row in rows:
        record.add(asdict(row))
    record.finish("PMWG: the paper's constants and ours, ε = 1", [panel(rows, delta, CELLS[0]) for delta in CASES])
    print("| δ | β | N | n | paper | tight | ratio | half the budget | ratio | PMWG's default |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.delta:g} | {row.beta:g} | {power(row.cells)} | {power(row.size)} | {row.paper:.4f} | "
            f"{row.tight:.4f} | {row.tight / row.paper:.3f} | {row.half:.4f} | {row.half / row.paper:.3f} | "
            f"{row.default:.4f} |"
        )
    for delta, most in MOST_OF_PAPER.items():
        worst = max(row.tight / row.paper for row in rows if row.delta == delta)
        claims.at_most(f"delta={delta:g}: tight over paper", worst, most)
    claims.at_most("half the budget over paper", max(row.half / row.paper for row in rows), 1)
    claims.at_most("PMWG's default over paper", max(row.default / row.paper for row in rows), 1)
    return claims.exit_code()


def power(number: int) -> str:
    """A power of ten, written as one."""
    return "10" + str(round(math.log10(number))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


if __name__ == "__main__":
    sys.exit(main())
