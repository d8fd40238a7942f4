"""How often the margins of what SQL makes of released numbers hold, on rows whose truth is known.

    python -m experiments.sql_coverage [--quick] [--seed N]

Groups of equal size, 12, 60 and 400 of them, so that tops stand out by their noise alone; both promises; every life has
Rings and noise of its own. Statements about every group (shares, differences, ratios), of which single numbers are
counted; totals; and statements that let noise choose (tops by a flat and by a nested LIMIT, HAVING, a maximum), whose
margins hold for all groups together: a life counts if all its numbers are within theirs.

Claimed: at least 93% of all numbers, and of all lives, are within their margins, and totals that are public are exact.
(Printed is the share that is not: at most 0.07.) A total of some rows has a margin for exactly 95%: of 400 lives a true
5% leaves more than 7% outside with a probability of 3%, of 300 with 5%. What is chosen has less than 5%. The table has
the exact 95% interval (Clopper and Pearson) of each share, with numbers of one life taken as independent. The quick run
has few lives and wide limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from experiments.record import Record, Row, column, where
from support.plans import estimates_of, noise_in
from treering.audit.bounds import clopper_pearson_lower, clopper_pearson_upper
from treering.pictures.svg import Dots, Line, Panel
from treering.sql.answer import Statement, answer, draws_for, split

EACH: Final = 40
BASE: Final = "SELECT g, COUNT(*) AS x FROM t GROUP BY g"
EPSILON: Final = {12: 4.0, 60: 8.0, 400: 12.0}
NUMBERS: Final = {12: 1200, 60: 2400, 400: 4000}
"""How many numbers of groups are looked at, for each statement."""
CHOICES: Final = 150
"""Lives of each statement that chooses."""
TOTALS: Final = {12: 400, 60: 400, 400: 300}
"""Lives of a total of some rows."""
LIMIT, MEANT = 0.07, 0.05
PROMISES: Final = {"zCDP": 1e-6, "pure": 0.0}

Truth = Callable[[Mapping[str, Any]], float]

OF_GROUPS: Final = {
    "share": "SELECT g, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS x FROM t WHERE late GROUP BY g",
    "difference": "SELECT g, COUNT(*) FILTER (WHERE NOT late) - COUNT(*) FILTER (WHERE late) AS x FROM t GROUP BY g",
    "ratio": "SELECT g, COUNT(*) FILTER (WHERE late) * 1.0 / COUNT(*) AS x FROM t GROUP BY g",
}
CHOSEN: Final = {
    "flat top": f"{BASE} ORDER BY x DESC LIMIT 3",
    "nested top": f"SELECT * FROM ({BASE} ORDER BY x DESC) AS a LIMIT 3",
    "having": f"{BASE} HAVING COUNT(*) > {EACH}",
    "maximum": f"SELECT MAX(x) AS x FROM ({BASE}) AS a",
}
TOTAL: Final = f"SELECT SUM(x) AS x FROM ({BASE}) AS a"
SOME: Final = "SELECT SUM(x) AS x FROM (SELECT g, COUNT(*) AS x FROM t WHERE late GROUP BY g) AS a"
PART: Final = "total of some rows"


class World:
    """Rows of a known truth, and lives over them."""

    def __init__(self, groups: int, delta: float) -> None:
        self.groups, self._delta = groups, delta
        self._schema = tr.Schema({"g": tr.integers(1, groups), "late": tr.categories(False, True)})
        self._db = tr.GrowingDatabase(self._schema)
        numbers = np.repeat(np.arange(1, groups + 1), EACH)
        late = np.arange(len(numbers)) % 7 < 3
        self._db.append(pa.table({"g": numbers, "late": late}))
        self._statements: dict[str, Statement] = {}
        self.late = {group: int(late[numbers == group].sum()) for group in range(1, groups + 1)}

    def live(self, text: str) -> list[dict[str, Any]]:
        """A statement answered by rings of their own."""
        if text not in self._statements:
            self._statements[text] = split(text, self._schema)
        statement = self._statements[text]
        rings = tr.Rings(self._db, epsilon=EPSILON[self.groups], delta=self._delta)
        told = estimates_of(rings, statement.items)
        noise = noise_in(rings, statement.items).draw(told, draws_for(statement))
        rows: list[dict[str, Any]] = answer(statement, told, noise, self._db.size).to_pylist()
        return [row for row in rows if row["x"] is not None]

    def all_late(self, _: Mapping[str, Any]) -> float:
        """How many rows are late."""
        return float(sum(self.late.values()))

    def truths(self) -> dict[str, Truth]:
        """What is true of a row of each statement about groups."""
        whole = sum(self.late.values())
        return {
            "share": lambda row: self.late[row["g"]] * 100 / whole,
            "difference": lambda row: EACH - 2 * self.late[row["g"]],
            "ratio": lambda row: self.late[row["g"]] / EACH,
        }


def outside(rows: Sequence[Mapping[str, Any]], truth: Truth) -> list[bool]:
    """Which numbers are not within their margins."""
    return [row["x_margin"] is None or abs(row["x"] - truth(row)) > row["x_margin"] + 1e-9 for row in rows]


def measured(world: World, name: str, *, quick: bool) -> dict[str, str | float]:
    """How many numbers, or lives, of a statement are outside, and what that says."""
    missed = trials_of(world, name, quick=quick)
    trials, hits = len(missed), sum(missed)
    return {
        "of": "numbers" if name in OF_GROUPS else "lives",
        "trials": trials,
        "outside": hits,
        "share": hits / trials,
        "low": clopper_pearson_lower(hits, trials, 0.025),
        "high": clopper_pearson_upper(hits, trials, 0.025),
    }


def trials_of(world: World, name: str, *, quick: bool) -> list[bool]:
    """Which numbers, or which lives, of a statement are outside."""
    if name in OF_GROUPS:
        truth, lives = world.truths()[name], 2 if quick else NUMBERS[world.groups] // world.groups
        return [each for _ in range(lives) for each in outside(world.live(OF_GROUPS[name]), truth)]
    text, truth = (SOME, world.all_late) if name == PART else (CHOSEN[name], lambda _: EACH)
    lives = 8 if quick else TOTALS[world.groups] if name == PART else CHOICES
    return [any(outside(world.live(text), truth)) for _ in range(lives)]


def check(claims: Claims, row: Row, *, quick: bool) -> None:
    """Claim that a share is within its limit."""
    of_numbers = row["statement"] in OF_GROUPS
    allowed = (0.5 if of_numbers else 0.9) if quick else LIMIT
    words = f"{row['groups']} groups, {row['promise']}: {row['statement']}, share of {row['of']} outside"
    claims.at_most(words, float(row["share"]), allowed)


def panel(rows: Sequence[Row], promise: str) -> Panel:
    """The shares outside of all statements, over the number of groups."""
    found = where(rows, promise=promise)
    sizes = column(found, "groups")
    return Panel(
        promise,
        "groups",
        "share outside",
        [
            Dots("a statement", sizes, column(found, "share"), "#2563eb", 3.0),
            Line("95% margins", [min(sizes), max(sizes)], [MEANT, MEANT], "#6b7280", "4 3"),
        ],
        y_limits=(0.0, 0.1),
        x_log=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    quick = options(__doc__, arguments).quick
    claims, record = Claims(), Record("sql_coverage", keep=not quick, resume=True)
    for groups in (12,) if quick else (400, 60, 12):
        for promise, delta in PROMISES.items():
            world = World(groups, delta)
            for name in (*OF_GROUPS, *CHOSEN, PART):
                key: dict[str, str | float] = {"groups": groups, "promise": promise, "statement": name}
                row = record.row(key, partial(measured, world, name, quick=quick))
                check(claims, row, quick=quick)
            (total,) = world.live(TOTAL)
            off = abs(total["x"] - groups * EACH) + total["x_margin"]
            claims.at_most(f"{groups} groups, {promise}: public total, off by", off, 0.0)
    record.finish("Numbers outside their margins", [panel(record.rows, promise) for promise in PROMISES])
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
