"""A sparse-vector run: one secret threshold draw, and the comparison.

Frozen count scale (theory: ``treering.theory.sparse``). A run compares, for as long as it lives and however much the
data grow,

    gap + ν  ≥  W·η        gap = count − bar, or |count − estimate| − bar, in units of 1/W rows,

with one integer η of scale s1 for the whole run and a fresh ν of scale W·s2 for each query. A replaced row moves
every gap by at most W. Shifting η by one pays for all queries below, shifting the last ν by 2W for the one above: the
run is (1/s1 + 2/s2)-DP, whatever it is asked, adaptively, and whenever it halts.
"""

from __future__ import annotations

from typing import Final

from treering.arrays import Ints
from treering.gate import Laplace, RunRequest
from treering.trusted.journal import Secret
from treering.trusted.noise import Ahead, draw_laplace
from treering.trusted.sealed import Sealed

FIRST_BLOCK: Final = 16
LARGEST_BLOCK: Final = 4096
"""How many queries are compared at once: at first, and at most."""


class Run(Sealed):
    """A run in progress. The threshold noise never leaves this object but into the journal's private part.

    ``block`` is how many queries to compare at once: it grows with the run's silence, so that an early crossing
    wastes little noise and a long silence pays few calls.
    """

    __slots__ = ("_query_noise", "_threshold", "block", "request")

    def __init__(self, request: RunRequest, threshold: Secret) -> None:
        self.request = request
        self.block = FIRST_BLOCK
        self._threshold = threshold
        self._query_noise = Ahead(Laplace(request.query_scale))

    @staticmethod
    def draw_threshold(request: RunRequest) -> Secret:
        """The one draw η of a new run."""
        return Secret(int(draw_laplace(request.threshold_scale, 1)[0]))

    def first_exceeding(self, gaps: Ints, scales: Ints) -> int | None:
        """The first index whose noisy gap reaches the noisy threshold. Every gap uses up noise of its own."""
        above = gaps + self._query_noise.take_each(scales) >= scales * self._threshold.value
        first = int(above.argmax())
        if above[first]:
            return first
        if len(gaps) >= self.block:
            self.block = min(2 * self.block, LARGEST_BLOCK)
        return None
