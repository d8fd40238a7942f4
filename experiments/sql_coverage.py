"""How often the margins of what SQL makes of released numbers hold, on rows whose truth is known.

    python -m experiments.sql_coverage [--quick] [--seed N]

Groups of equal size, 12, 60 and 400 of them, so that tops stand out by their noise alone; both promises; every life has
Rings and noise of its own. Statements about every group (shares, differences, ratios), totals, and statements that let
noise choose (tops by a flat and by a nested LIMIT, HAVING, a maximum), whose margins hold for all groups together: a
life counts if all its numbers are within theirs.

Claimed: at least 93% of all numbers, and of all lives, are within their margins, and totals that are public are exact.
(Printed is the share that is not: at most 0.07.) The quick run has few lives and wide limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from treering.sql.answer import Statement, answer, draws_for, split

EACH: Final = 40
BASE: Final = "SELECT g, COUNT(*) AS x FROM t GROUP BY g"
EPSILON: Final = {12: 4.0, 60: 8.0, 400: 12.0}
NUMBERS: Final = {12: 1200, 60: 2400, 400: 4000}
"""How many numbers of groups are looked at, for each statement."""
LIVES: Final = 150
"""Lives of each statement that chooses."""

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
        told = rings.tell(statement.items)
        noise = rings.draw(statement.items, told, draws_for(statement))
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    claims, limit, of_lives = Claims(), *((0.5, 0.9) if given.quick else (0.07, 0.07))
    for groups in (12,) if given.quick else (12, 60, 400):
        for kind, delta in (("zCDP", 1e-6), ("pure", 0.0)):
            world, where = World(groups, delta), f"{groups} groups, {kind}"
            lives = 2 if given.quick else NUMBERS[groups] // groups
            for name, text in OF_GROUPS.items():
                truth = world.truths()[name]
                missed = [each for _ in range(lives) for each in outside(world.live(text), truth)]
                claims.at_most(f"{where}: {name}, share of numbers outside", float(np.mean(missed)), limit)
            lives = 8 if given.quick else LIVES // (3 if groups == 400 else 1)
            for name, text in CHOSEN.items():
                missed = [any(outside(world.live(text), lambda _: EACH)) for _ in range(lives)]
                claims.at_most(f"{where}: {name}, share of lives outside", float(np.mean(missed)), of_lives)
            missed = [any(outside(world.live(SOME), world.all_late)) for _ in range(lives)]
            claims.at_most(f"{where}: total of some rows, share of lives outside", float(np.mean(missed)), of_lives)
            (total,) = world.live(TOTAL)
            off = abs(total["x"] - groups * EACH) + total["x_margin"]
            claims.at_most(f"{where}: public total, off by", off, 0.0)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
