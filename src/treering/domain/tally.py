"""A request to count held-out entries by what a public model says of them.

An entry is a feature vector x and a label y. `Tally` sorts entries into bins of a number that the model θ gives them,
at public cuts: the groups are disjoint, so a replaced entry leaves one group and joins another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import numpy as np

from treering.arrays import Floats, Ints
from treering.domain.loss import Labels
from treering.errors import ParameterError

MOST_CUTS: Final = 256

Number: TypeAlias = Literal["margins", "scores", "misses", "distances"]
"""What is sorted: y·⟨θ, x⟩, above 0 where a classifier is right; ⟨θ, x⟩, apart for the labels −1 and 1;
|⟨θ, x⟩ − y|; or ‖θ − x‖."""

TAKES: Final[dict[str, tuple[Labels, ...]]] = {
    "margins": ("signs",),
    "scores": ("signs",),
    "misses": ("signs", "numbers"),
    "distances": ("none",),
}
"""The kinds of labels that each of them needs."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Count entries by bins of a number ``of`` each entry under the model ``theta``: bin b holds those that are above
    b of the ``cuts``, which increase. Scores are counted apart by label: group 2b for −1, 2b + 1 for 1.

    >>> tally = Tally((1.0, 0.0), "scores", (0.0,))
    >>> tally.groups
    4
    >>> tally.sort(np.array([[0.5, 0.1], [-0.5, 0.0], [0.25, 0.0]]), np.array([1.0, 1.0, -1.0])).tolist()
    [3, 1, 2]
    """

    theta: tuple[float, ...]
    of: Number
    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.of not in TAKES:
            raise ParameterError("of", f"must be one of {', '.join(TAKES)}, not {self.of!r}")
        if not 1 <= len(self.cuts) <= MOST_CUTS or not all(left < right for left, right in pairwise(self.cuts)):
            raise ParameterError("cuts", f"must be 1 to {MOST_CUTS} increasing numbers")
        if not all(math.isfinite(each) for each in (*self.cuts, *self.theta)):
            raise ParameterError("cuts", "and theta must be finite numbers")

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return (len(self.cuts) + 1) * (2 if self.of == "scores" else 1)

    def sort(self, features: Floats, labels: Floats) -> Ints:
        """The group of each entry, a row of ``features``."""
        bins = np.searchsorted(np.array(self.cuts), self._numbers(features, labels)).astype(np.int64)
        return 2 * bins + (labels > 0) if self.of == "scores" else bins

    def _numbers(self, features: Floats, labels: Floats) -> Floats:
        theta = np.array(self.theta)
        if self.of == "distances":
            return np.asarray(np.linalg.norm(features - theta, axis=1))
        scores = np.asarray(features @ theta)
        if self.of == "margins":
            return np.asarray(labels * scores)
        return scores if self.of == "scores" else np.abs(scores - labels)
