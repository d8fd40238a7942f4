"""A table that grows a hundredfold, with new groups of questions all the time: rings never run dry.

    python -m experiments.rings_renewal [--quick] [--seed N]

ε = 1, δ = 10^-6. The table begins with 10,000 rows and doubles seven times. At each size twenty new groups of questions
are asked (the joint values of three of sixteen attributes), 160 in all, and all earlier ones again: once with a pace of
160, as someone would choose who knows that, and once with the pace of 25, far too low. The quick run has four doublings
and five new groups at each size.

Claimed: no question is refused. The margin of every question, as a share of the rows, falls with every doubling. That
of the new questions does so too; with the low pace, from where there are more series than the pace. No answer is beyond
its error, and no row is above the promise, counted exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

import treering as tr
from experiments.claims import ROUNDING, Claims
from experiments.options import QUICK_BETA, options
from experiments.stream import Stream, Tally
from treering.errors import TreeringError
from treering.mechanisms.rings import Rings

EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05
FIRST, ATTRIBUTES, TOGETHER = 10_000, 16, 3
SCHEMA = tr.Schema({f"a{number}": tr.categories("x", "y") for number in range(ATTRIBUTES)})


@dataclass(frozen=True, slots=True)
class Setting:
    """How often the table doubles, how many new groups of questions each size brings, and the probability beta."""

    doublings: int
    new: int
    beta: float

    @property
    def groups(self) -> int:
        """How many groups of questions there are in all."""
        return self.new * (self.doublings + 1)


FULL, QUICK = Setting(7, 20, BETA), Setting(4, 5, QUICK_BETA)


class Life:
    """Rings on a table that doubles."""

    def __init__(self, setting: Setting, pace: int, seed: int) -> None:
        self.stream, self.tally = Stream(SCHEMA), Tally()
        self.rings = Rings(self.stream.database, EPSILON, DELTA, setting.beta, pace)
        self.refused = 0
        self.margins: list[list[float]] = []
        """For each group of questions, its largest margin at each size since it was first asked."""
        self._generator = np.random.default_rng(seed)
        self._groups = _groups(self._generator)
        self._asked: list[list[tr.Query]] = []
        for doubling in range(setting.doublings + 1):
            self.grow(FIRST if doubling == 0 else self.stream.database.size)
            self._asked += [next(self._groups) for _ in range(setting.new)]
            self.margins += [[] for _ in range(setting.new)]
            for batch, margins in zip(self._asked, self.margins, strict=True):
                self.ask(batch, margins)
            old, new = (max((each[-1] for each in some), default=0.0) for some in self.parts(setting.new))
            print(
                f"  {self.stream.database.size:>9,} rows, {len(self.rings.series):>3} series; largest margins", end=""
            )
            print(f" {old:.3%} (old questions), {new:.3%} (new ones)")

    def parts(self, new: int) -> tuple[list[list[float]], list[list[float]]]:
        """The margins of old and of new questions."""
        return self.margins[:-new], self.margins[-new:]

    def grow(self, rows: int) -> None:
        """Append rows, not evenly spread."""
        self.stream.append((self._generator.random(rows) ** 2 * SCHEMA.cells).astype(np.int64))

    def ask(self, batch: Sequence[tr.Query], margins: list[float]) -> None:
        """Ask a group of questions, and note the largest margin."""
        try:
            answers = self.rings.ask_many(batch)
        except TreeringError:
            self.refused += 1
            return
        self.tally.add(answers, self.stream.shares(batch))
        margins.append(max(answer.margin for answer in answers))

    def excess(self) -> float:
        """By how much any row is above the promise; rows of one batch pay the same."""
        gate = self.rings._gate
        ends = [FIRST << doubling for doubling in range(20) if FIRST << doubling <= gate.size]
        return float(max(-gate.left(position) for end in ends for position in (1, end, end + 1)))


def _groups(generator: np.random.Generator) -> Iterator[list[tr.Query]]:
    """Groups of questions, each about all joint values of other attributes, in random order."""
    sets = list(combinations(range(ATTRIBUTES), TOGETHER))
    for place in generator.permutation(len(sets)):
        batch = [tr.Query.all(SCHEMA)]
        for position in sets[place]:
            values = [tr.Query.where(SCHEMA, **{f"a{position}": value}) for value in ("x", "y")]
            batch = [query & value for query in batch for value in values]
        yield batch


def largest_rise(margins: Sequence[float]) -> float:
    """The largest ratio of a margin to the one before."""
    return max((later / earlier for earlier, later in pairwise(margins)), default=0.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    setting = QUICK if given.quick else FULL
    claims = Claims()
    for pace in (setting.groups, setting.new * 5 // 4):
        print(f"pace {pace}")
        life = Life(setting, pace, given.seed)
        starts = range(0, setting.groups, setting.new)
        new = [max(each[0] for each in life.margins[start : start + setting.new]) for start in starts]
        settled = 0 if pace >= setting.groups else pace // setting.new
        claims.at_most("questions refused", life.refused, 0)
        claims.at_most("largest rise of a question's margin at a doubling", max(map(largest_rise, life.margins)), 1.0)
        claims.at_most("largest rise of the new questions' margins at a doubling", largest_rise(new[settled:]), 1.0)
        claims.at_most("largest error less its bound", life.tally.worst_excess, ROUNDING)
        claims.at_most("largest charge of a row above the promise", life.excess(), 0.0)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
