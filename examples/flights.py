"""Keep published figures fresh while a table grows, under one privacy promise: the flights of 2013, day by day.

The owner of a table of flights publishes a dozen figures. Each day new flights arrive, and each figure is checked
against the grown table: only when it has drifted too far is it measured again. One NSG (numeric sparse vector on
growing data) does all of it: questions that find a figure still good are free, however many there are.

Run it with ``make demo``. The flights are public, so the example can compare what was published with the truth.
"""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

import treering as tr
from examples.flights_data import CARRIERS, days, flights

EPSILON, BETA = 1.0, 0.05
THRESHOLD, HARD, QUERIES = 0.03, 24, 5_000
"""A figure is measured anew when it is off by about 3%; at most 24 times, among 5,000 questions."""

START_DAY = 120
"""Figures are published from the end of April on."""

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA", other=True),
        "carrier": tr.categories(*CARRIERS, other=True),
        "month": tr.integers(1, 12),
        "hour": tr.bins([0, 6, 10, 14, 18, 22, 24]),
        "delay": tr.bins([-1440, 0, 15, 60, 1440], missing=True),
    }
)
DELAY, ORIGIN, HOUR = pc.field("delay"), pc.field("origin"), pc.field("hour")
FIGURES: dict[str, pc.Expression] = {
    "delay >= 15": DELAY >= 15,
    "delay >= 60": DELAY >= 60,
    "delay < 0": DELAY < 0,
    "delay IS NULL": DELAY.is_null(),
    "origin = 'EWR'": ORIGIN == "EWR",
    "origin = 'JFK'": ORIGIN == "JFK",
    "origin = 'EWR' AND delay >= 15": (ORIGIN == "EWR") & (DELAY >= 15),
    "origin = 'LGA' AND delay < 0": (ORIGIN == "LGA") & (DELAY < 0),
    "carrier IN ('UA', 'EV', 'B6')": pc.field("carrier").isin(["UA", "EV", "B6"]),
    "hour < 10 AND delay >= 15": (HOUR < 10) & (DELAY >= 15),
    "hour >= 18 AND delay >= 15": (HOUR >= 18) & (DELAY >= 15),
    "carrier = 'DL' AND delay < 15": (pc.field("carrier") == "DL") & (DELAY < 15),
}
"""What is published, and the same in Arrow's own words, to check the published figures by."""


class Truth:
    """The true figures. Only an example on public data may look at them."""

    def __init__(self) -> None:
        self.size = 0
        self.counts = dict.fromkeys(FIGURES, 0)

    def append(self, day: pa.Table) -> None:
        """Count a day's flights."""
        self.size += day.num_rows
        for figure, condition in FIGURES.items():
            self.counts[figure] += day.filter(condition).num_rows

    def worst_error(self, published: dict[str, float]) -> float:
        """How far the worst published figure is from the truth."""
        return max(abs(self.counts[figure] / self.size - share) for figure, share in published.items())


def publish(watch: tr.NSG, published: dict[str, float]) -> dict[str, float]:
    """Ask about every figure once; what has drifted too far is measured anew."""
    answers = watch.ask_many(FIGURES, [published[figure] for figure in FIGURES])
    fresh = {figure: answer for figure, answer in zip(FIGURES, answers, strict=False) if answer is not None}
    published.update(fresh)
    return fresh


def main() -> None:
    """Stream the year and print what a reader of the figures would see."""
    began = time.perf_counter()
    daily = days(flights(), SCHEMA.names)
    database, truth = tr.GrowingDatabase(SCHEMA), Truth()
    watch = tr.NSG(database, threshold=THRESHOLD, epsilon=EPSILON, hard=HARD, queries=QUERIES, beta=BETA)
    print(f"The flights that left New York in 2013, {len(daily)} days; a universe of {SCHEMA.cells:,} cells.")
    print(f"Promise: epsilon = {EPSILON} for all that is ever published; one flight is one unit of privacy.")
    print(f"Published are {len(FIGURES)} figures, from day {START_DAY} on. Each day each of them is checked.\n")

    published = dict.fromkeys(FIGURES, 1.0)  # any public guess will do: what is far off is measured at once
    worst = bound = 0.0
    for number, day in enumerate(daily, 1):
        database.append(day)
        truth.append(day)
        if number < START_DAY:
            continue
        for figure, share in publish(watch, published).items():
            print(f"  day {number}, {database.size:>7,} flights: {figure:<32} measured: {share:6.1%}")
        worst = max(worst, truth.worst_error(published))
        bound = bound or THRESHOLD + watch.guarantee.alpha

    state = watch.state
    print(
        f"\n{state.asked:,} questions were asked, {state.hard} were measured, {state.asked - state.hard:,} were free."
    )
    print(f"Spent: epsilon = {watch.spent:.2f} of {EPSILON}; {HARD - state.hard} more measurements are left, for ever.")
    print(f"Worst error of any figure on any day: {worst:.2%}; promised (at {1 - BETA:.0%}): {bound:.2%}.")
    print(f"\nDone in {time.perf_counter() - began:.0f} seconds. Next: docs/index.md, 'make test', 'make bench'.")


if __name__ == "__main__":
    main()
