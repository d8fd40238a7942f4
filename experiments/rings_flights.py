"""The demonstration's own year of flights and its own questions, asked of rings.

    python -m experiments.rings_flights [--quick] [--seed N]

ε = 1, δ = 10^-6, of which rings have a share of 0.3, with a pace of 10. A dashboard asks the same 50 questions every
day from day 120 on, and every second week an analyst drills down, as in ``treering.demo.story``. The quick run ends
after 134 days. Both are free of public randomness: a seed changes nothing.

Claimed for the year: at most 24% of the whole promise is spent on any row; every margin is at most 0.5% of the rows and
half of them at most 0.2%; between 92% and 99% of the answers are within their margins and none is beyond its error; no
error is above 2%, and no answer is off by more than 1%; at the end of the year the flights of each month are known
within 400. (Answers share noise, so the part within margins varies more than that of independent ones: in twelve runs
it was 94.5% to 97.2%.)
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import treering as tr
from experiments.claims import Claims
from experiments.options import QUICK_BETA, options
from treering.answer import Answer
from treering.budget.promise import Promise
from treering.demo.flights import SCHEMA, cells_of, days, flights
from treering.demo.story import BETWEEN, DASHBOARD, DELTA, EPSILON, FIRST_DAY, Truth, drill_down
from treering.mechanisms.rings import Rings

SHARE, PACE, BETA = 0.3, 10, 0.05
QUICK_DAYS = FIRST_DAY + BETWEEN


class Year:
    """Rings over the flights, beside the truth, and what came of the answers."""

    def __init__(self, beta: float) -> None:
        self.database = tr.GrowingDatabase(SCHEMA)
        self.rings = Rings(self.database, Promise(EPSILON, DELTA, share=SHARE), beta=beta, pace=PACE)
        self.margins: list[float] = []
        self.inside = 0
        self.beyond = 0
        self.worst = 0.0
        self.stated = 0.0
        self._truth = Truth()
        self._queries: dict[str, tr.Query] = {}

    def run(self, last: int | None) -> None:
        """The days up to this one; None for all."""
        for number, day in enumerate(days(flights(), SCHEMA.names)[:last], 1):
            self.database.append(day)
            self._truth.add(cells_of(day))
            if number < FIRST_DAY:
                continue
            self.ask(DASHBOARD)
            if (number - FIRST_DAY) % BETWEEN == 0:
                drill_down(self.ask, int(day["month"][0].as_py()))

    def ask(self, texts: Sequence[str]) -> list[Answer]:
        """Ask a batch, and compare the answers with the truth."""
        queries = [self._parsed(text) for text in texts]
        answers = self.rings.ask_many(queries)
        for query, answer in zip(queries, answers, strict=True):
            error = abs(answer.value - self._truth.share(query))
            self.margins.append(answer.margin)
            self.inside += error <= answer.margin
            self.beyond += error > answer.error
            self.worst = max(self.worst, error)
            self.stated = max(self.stated, answer.error)
        return answers

    def _parsed(self, text: str) -> tr.Query:
        if text not in self._queries:
            self._queries[text] = tr.parse(text, SCHEMA)
        return self._queries[text]

    @property
    def spent(self) -> float:
        """The largest charge of a row, as a part of the whole promise."""
        return self.rings.spent / float(Promise(EPSILON, DELTA).budget.total)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    year = Year(QUICK_BETA if given.quick else BETA)
    year.run(QUICK_DAYS if given.quick else None)
    asked, inside = len(year.margins), year.inside / len(year.margins)
    months = year.rings.table(["month"])["margin"].to_pylist()
    print(f"{year.database.size:,} flights, {asked:,} questions, {len(year.rings.series)} series; margins in rows:")
    for each in year.rings.series:
        names = ", ".join(each.attributes)
        print(f"  {each.margin:6.0f}  one of {each.groups:,} groups by {names}: {each.answers} answers")
    claims = Claims()
    # Fewer rows have wider margins as shares, and fewer independent answers are more often all good or all bad.
    widest, half, least, most, error = (
        (0.02, 0.005, 0.8, 1.0, 0.05) if given.quick else (0.005, 0.002, 0.92, 0.99, 0.02)
    )
    claims.at_most("largest charge of a row, as a part of the promise", year.spent, 0.24)
    claims.at_most("largest margin", max(year.margins), widest)
    claims.at_most("median margin", statistics.median(year.margins), half)
    claims.at_most("part of the answers outside their margins", 1 - inside, 1 - least)
    claims.at_most("part of the answers inside their margins", inside, most)
    claims.at_most("answers beyond their errors", year.beyond, 0)
    claims.at_most("largest error that is stated", year.stated, error)
    claims.at_most("largest distance from the truth", year.worst, error / 2)
    claims.at_most("largest margin of a month, in flights", max(months), 400)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
