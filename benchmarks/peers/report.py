"""Tables of what `benchmarks.peers` has found.

    python -m benchmarks.peers.report

For each case of the map, the mean error in rows of treering's default, its 95% confidence interval over seeds, and the
same of the best peer; first of those that are told neither how many questions nor how many batches there will be, then
of all. Intervals are Student's, of three seeds or more.
"""

from __future__ import annotations

import csv
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Final, NamedTuple

from benchmarks.peers.answering import OURS

RESULTS: Final = Path(__file__).with_name("results") / "map.csv"
FEWEST: Final = 3
"""With fewer seeds an interval is so wide that it would overlap with everybody's: none is shown, and none counts."""
STUDENT: Final = {3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""The 97.5% quantiles of Student's t, by the number of seeds."""
NEARLY, HALF = 1.05, 0.5


class Mean(NamedTuple):
    """The mean over seeds, and half the width of its confidence interval."""

    value: float
    radius: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of the values of some seeds."""
        number = len(values)
        if number < FEWEST:
            return cls(fmean(values), math.inf)
        return cls(fmean(values), STUDENT.get(number, 2.0) * stdev(values) / math.sqrt(number))

    def overlaps(self, other: Mean) -> bool:
        """Whether the two intervals have a point in common; without an interval, never."""
        radius = self.radius + other.radius
        return math.isfinite(radius) and abs(self.value - other.value) <= radius

    def __str__(self) -> str:
        around = f" ± {self.radius:,.0f}" if math.isfinite(self.radius) else ""
        return f"{self.value:,.0f}{around}"


Errors = Mapping[tuple[int, int, int], Mapping[str, Mean]]


def errors(rows: Iterable[Mapping[str, str]]) -> Errors:
    """For each case, by cells, questions and rows, the mean error of each that answered."""
    found: dict[tuple[int, int, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["mean"]:
            case = int(row["cells"]), int(row["questions"]), int(row["size"])
            found[case][row["peer"]].append(float(row["mean"]))
    return {case: {peer: Mean.of(each) for peer, each in peers.items()} for case, peers in sorted(found.items())}


def best(peers: Mapping[str, Mean], told: bool) -> tuple[str, Mean] | None:
    """The best of the others; unless ``told``, of those that are told nothing."""
    others = {name: each for name, each in peers.items() if name not in OURS}
    if not told:
        others = {name: each for name, each in others.items() if name.endswith("untold")}
    return min(others.items(), key=lambda item: item[1].value, default=None)


def table(found: Errors, told: bool) -> list[str]:
    """A line for each case, and how often the default is as good, and at most half."""
    lines = ["| cells | questions | rows | treering's default | the best peer | ratio |", "|---|---|---|---|---|---|"]
    nearly = half = number = 0
    for case, peers in found.items():
        other = best(peers, told)
        if "treering" not in peers or other is None:
            continue
        own, ratio = peers["treering"], peers["treering"].value / other[1].value
        number, half = number + 1, half + (ratio <= HALF)
        nearly += ratio <= NEARLY or own.overlaps(other[1])
        sizes = " | ".join(f"{each:,}" for each in case)
        lines.append(f"| {sizes} | {own} | {other[0]}: {other[1]} | {ratio:.2f} |")
    lines.append("")
    lines.append(
        f"{number} cases: at most {NEARLY} times, or intervals that overlap, in {nearly}; at most half in {half}."
    )
    return lines


def main() -> int:
    """Print both tables."""
    with RESULTS.open(newline="", encoding="utf-8") as file:
        found = errors(csv.DictReader(file))
    print("Nobody is told anything:\n", *table(found, told=False), sep="\n")
    print("\nPeers are told how many questions, or batches, there will be:\n", *table(found, told=True), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
