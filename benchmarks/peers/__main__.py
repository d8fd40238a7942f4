"""treering's default beside its peers, on the same growing tables, questions, promise and neighbours.

    python -m benchmarks.peers [--quick] [--seeds N ...] [--environments FOLDER] [--only NAME ...]

Writes ``benchmarks/peers/results/map.csv``, a row for each peer, case and seed, as soon as it is known; what is there
already is not run again. `benchmarks.peers.report` makes tables of it. Seeds are of data and questions, never of noise.
"""

from __future__ import annotations

import argparse
import csv
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.peers.answering import HERE, Answerer
from benchmarks.peers.cases import QUESTIONS, SHAPES, SIZES, Case, Floats
from benchmarks.peers.elsewhere import ELSEWHERE, answers

RESULTS: Final = Path(__file__).with_name("results") / "map.csv"
FIELDS: Final = (
    *("cells", "questions", "size", "seed", "peer"),
    *("mean", "p95", "max", "seconds", "per_second", "peak_mib", "reason"),
)
"""Errors are in rows. ``reason`` says why there are none."""


def cases(seeds: Sequence[int], quick: bool) -> Iterator[Case]:
    """The map, seed by seed, so that a run that is stopped has all of it for some seeds."""
    if quick:
        yield Case(2**7, 100, 10**4, 1)
        return
    for seed, questions, size, cells in product(seeds, QUESTIONS, SIZES, SHAPES):
        yield Case(cells, questions, size, seed)


class Results:
    """The table of results, on disk."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.rows: list[dict[str, str]] = []
        if path is not None and path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))
        self._known = {tuple(row[field] for field in FIELDS[:5]) for row in self.rows}

    def has(self, case: Case, peer: str) -> bool:
        """Whether this was run before."""
        return (*case.key, peer) in self._known

    def add(self, case: Case, peer: str, found: dict[str, str]) -> None:
        """Keep a row, at once."""
        row = dict.fromkeys(FIELDS, "") | dict(zip(FIELDS, (*case.key, peer), strict=False)) | found
        self.rows.append(row)
        print(",".join(row.values()), flush=True)
        if self._path is None:
            return
        fresh = not self._path.exists()
        self._path.parent.mkdir(exist_ok=True)
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(row)


def measured(case: Case, told: Floats, seconds: float, peak: float) -> dict[str, str]:
    """The columns of a peer that has answered."""
    off = np.abs(told - np.concatenate(case.truths))
    numbers = {"mean": off.mean(), "p95": np.percentile(off, 95), "max": off.max(), "seconds": seconds}
    numbers |= {"per_second": case.questions / seconds, "peak_mib": peak}
    return {name: f"{value:.4g}" for name, value in numbers.items()}


def here(case: Case, answer: Answerer) -> dict[str, str]:
    """Run one that answers in this environment."""
    start = time.perf_counter()
    told = answer(case)
    if isinstance(told, str):
        return {"reason": told}
    seconds = time.perf_counter() - start
    return measured(case, told, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small case, in this environment, written nowhere")
    parser.add_argument(
        "--seeds", type=int, nargs="*", default=[1, 2, 3], help="of data and questions (default: 1 2 3)"
    )
    parser.add_argument(
        "--environments", type=Path, default=Path(sys.prefix) / "peers", help="where peers are installed"
    )
    parser.add_argument("--only", nargs="*", default=None, help="names, or their beginnings, of those to run")
    given = parser.parse_args(arguments)
    results = Results(None if given.quick else RESULTS)
    for case in cases(given.seeds, given.quick):
        _ = case.truths  # Not a part of anybody's time.
        for name in (*HERE, *(() if given.quick else ELSEWHERE)):
            wanted = given.only is None or any(name.startswith(each) for each in given.only)
            if wanted and not results.has(case, name):
                found = run(case, name, given.environments)
                if found is not None:
                    results.add(case, name, found)
    return 0


def run(case: Case, name: str, environments: Path) -> dict[str, str] | None:
    """Run one, or say why not; None if it fails: then the next run tries again."""
    if name in HERE:
        return here(case, HERE[name])
    peer = ELSEWHERE[name]
    if reason := peer.fits(case):
        return {"reason": reason}
    try:
        return measured(case, *answers(case, peer, environments))
    except RuntimeError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return None


if __name__ == "__main__":
    sys.exit(main())
