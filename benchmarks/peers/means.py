"""Mean errors over seeds with their confidence intervals, and the best peer of a case."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Final, NamedTuple

from benchmarks.peers.answering import OURS

FEWEST: Final = 3
"""With fewer seeds an interval is so wide that it would overlap with everybody's: none is shown, and none counts."""
STUDENT: Final = {3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""The 97.5% quantiles of Student's t, by the number of seeds."""


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
        return cls(fmean(values), STUDENT.get(number, 2.26) * stdev(values) / math.sqrt(number))

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


def best(peers: Mapping[str, Mean], *, told: bool) -> tuple[str, Mean] | None:
    """The best of the others; unless ``told``, of those that are told nothing."""
    others = {name: each for name, each in peers.items() if name not in OURS}
    if not told:
        others = {name: each for name, each in others.items() if name.endswith("untold")}
    return min(others.items(), key=lambda item: item[1].value, default=None)
