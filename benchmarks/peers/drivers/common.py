"""What the drivers share: each is run by `benchmarks.peers` in its peer's own environment.

    python -m benchmarks.peers.drivers.DRIVER CASE.npz RESULT.npz WORD

CASE has ``shape``, ``increments`` (the histogram of each batch, all cells), ``truths`` (the counts of all questions, in
the order in which they are asked), ``when`` (the batch after which each is asked), ``masks_K`` (a row of flags for each
question, of the values of attribute K that match), ``epsilon``, ``delta`` and ``rho``. A question is in it once a
batch: to ask it again costs nothing. A driver yields, batch by batch, the answers to its questions, in rows; or, for
batches at which it makes one, ``(batch, table)``, its estimates of all cells.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def once(work: Callable[[Mapping[str, Any], str], dict[str, Any]]) -> None:
    """For drivers that take other cases and return their arrays at once."""
    warnings.filterwarnings("ignore")
    np.savez(sys.argv[2], **work(dict(np.load(sys.argv[1])), sys.argv[3]))


def run(work: Callable[[Mapping[str, Any], str], Iterator[Any]]) -> None:
    """Read a case, let the driver work, write what it yields and what it took."""
    warnings.filterwarnings("ignore")
    began = time.process_time()
    case = dict(np.load(sys.argv[1]))
    reading = time.process_time() - began
    yielded = work(case, sys.argv[3])
    found = [next(yielded)]
    setup = time.process_time() - reading
    found += yielded
    took: dict[str, Any] = {
        "setup": setup,
        "seconds": time.process_time() - reading,
        "peak": peak(),
    }
    if isinstance(found[0], tuple):
        at, tables = zip(*found, strict=True)
        np.savez(sys.argv[2], at=np.array(at), tables=np.array(tables), **took)
    else:
        np.savez(sys.argv[2], answers=np.concatenate(found), **took)


def peak() -> float:
    """The most memory that this program had in RAM, in MiB. (``ru_maxrss`` would have its parent's, too.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def by_batch(case: Mapping[str, Any], values: Any) -> list[Any]:
    """Values, one for each question, batch by batch."""
    return [values[case["when"] == batch] for batch in range(len(case["increments"]))]


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
