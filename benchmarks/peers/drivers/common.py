"""What the drivers share: each is run by `benchmarks.peers` in its peer's own environment.

    python -m benchmarks.peers.drivers.DRIVER CASE.npz RESULT.npz [WORD]

CASE has ``shape``, ``increments`` (the histogram of each batch, all cells), ``truths`` (the counts of all questions, in
the order in which they are asked), ``when`` (the batch after which each is asked), ``masks_K`` (a row of flags for each
question, of the values of attribute K that match), ``epsilon``, ``delta`` and ``rho``. A driver returns ``answers``,
one for each question in rows, or ``tables``, estimates of all cells, and ``at``, the batches after which they were
made.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def run(work: Callable[[Mapping[str, Any], str], dict[str, Any]]) -> None:
    """Read a case, let the driver work, write what it returns and what it took."""
    warnings.filterwarnings("ignore")
    case = dict(np.load(sys.argv[1]))
    start = time.perf_counter()
    found = work(case, sys.argv[3] if len(sys.argv) > 3 else "")
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez(sys.argv[2], seconds=seconds, peak=peak, **found)


def doublings(case: Mapping[str, Any]) -> list[int]:
    """The batches at which the table has doubled since the last of them, from the first on."""
    sizes = np.cumsum(case["increments"].sum(axis=1))
    found = [0]
    for place, size in enumerate(sizes):
        if size >= 2 * sizes[found[-1]]:
            found.append(place)
    return found


def upto(case: Mapping[str, Any], batch: int) -> Any:
    """The histogram after a batch."""
    return case["increments"][: batch + 1].sum(axis=0)
