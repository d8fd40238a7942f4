"""Counts kept current beside jax-privacy's streaming prefix sums: the deviation of the latest count.

    python -m benchmarks.peers.continual [--environments FOLDER]

In units of 1/√ρ, for two groups between which a replaced row moves. jax-privacy's best Toeplitz strategy is told the
number of batches T; ours is not, and goes on for ever. *stated* is what each states; *measured* is the spread of our
noise over the 1,024 cells of a ContinualHistogram after T batches. Writes ``results/continual.csv``.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

import treering as tr
from benchmarks.peers.elsewhere import Peer, call
from treering.theory.series import deviation

RESULTS: Final = Path(__file__).with_name("results") / "continual.csv"
LENGTHS: Final = (1, 20, 50, 365, 1_024, 10_000)
MEASURED: Final = 365
CELLS: Final = 1024


def measured(batches: int) -> float:
    """The spread of the noise of all cells after so many batches, in units of 1/√ρ."""
    db = tr.GrowingDatabase(tr.Schema({"a": tr.integers(0, CELLS - 1)}))
    promise = tr.Promise(1.0, 1e-6)
    db.append_cells(np.repeat(np.arange(CELLS), 100))
    histogram = tr.ContinualHistogram(db, promise)
    histogram.counts()
    for _ in range(batches - 1):
        db.append_cells(np.arange(CELLS))
    noise = histogram.counts() - (99 + batches)
    return float(noise.std(ddof=1)) * math.sqrt(float(promise.budget.total))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=Path(sys.prefix) / "peers", help="where peers live")
    parser.add_argument("--resume", action="store_true", help="do nothing if the table is there")
    given = parser.parse_args(arguments)
    if given.resume and RESULTS.exists():
        return 0
    peer = Peer("jax_prefix", "peers-jax", "deviations")
    theirs = call(peer, given.environments, {"lengths": np.array(LENGTHS)})["deviations"].tolist()
    lines: list[tuple[object, ...]] = [("batches", "jax_privacy_told", "treering_untold", "ratio", "treering_measured")]
    for length, told in zip(LENGTHS, theirs, strict=True):
        own = deviation(length)
        found = f"{measured(length):.3f}" if length == MEASURED else ""
        lines.append((length, f"{told:.3f}", f"{own:.3f}", f"{own / told:.3f}", found))
        print(*lines[-1], sep=",", flush=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
