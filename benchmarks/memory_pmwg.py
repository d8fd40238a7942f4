"""How much memory PMWG takes over 2^26 cells: ``python -m benchmarks.memory_pmwg pmwg`` prints the bytes at the peak.

Each measurement needs a process of its own, as a peak never falls. ``vector`` in place of ``pmwg`` measures one vector
of doubles in the same way.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np

import treering as tr
from treering.domain.workload import random_conjunctions

CELLS: Final = 2**26
ROWS: Final = 500_000
SIZES: Final = (16, 16, 16, 16, 16, 16, 4)


def peak_of(name: str) -> int:
    """The bytes that an action takes at its peak, in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory_pmwg", name]
    root = Path(__file__).resolve().parents[1]
    return int(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)


def vector() -> None:
    """One vector of doubles, written to."""
    np.ones(CELLS)


def pmwg() -> None:
    """A life in small: easy, measured and hard queries, conjunctions and a table, growth, synthetic rows."""
    generator = np.random.default_rng(2**26)
    schema = tr.Schema({f"a{place}": tr.integers(1, size) for place, size in enumerate(SIZES)})
    database = tr.GrowingDatabase(schema)
    # Three quarters of the rows lie in the first quarter of the cells.
    rows = generator.integers(0, CELLS, ROWS)
    rows[: ROWS * 2 // 3] //= 4
    database.append_cells(rows)
    guard = tr.PMWG(database, epsilon=1.0, delta=1e-9, alpha=0.1, beta=0.05, measure_first=False)
    guard.ask(tr.Query.where(schema, a0=range(1, 5)))
    guard.ask_many(random_conjunctions(schema, 100, generator, ways=(1, 7)))
    database.append_cells(CELLS - 1 - rows)
    guard.ask(tr.Query.where(schema, a0=range(13, 17)) | tr.Query.where(schema, a1=1, a2=range(1, 9)))
    guard.ask_many(random_conjunctions(schema, 100, generator, ways=(1, 7)))
    guard.hypothesis.sample(1000)
    if guard.hard_queries < 2 or guard.hypothesis.steps < 2:
        raise AssertionError("there must be hard queries, before and after growth")


def _peak() -> int:
    """The most memory this process has had so far (``ru_maxrss`` would count what its parent had before it)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(name: str) -> int:
    """Act, and print by how much the peak rose."""
    start = _peak()
    {"pmwg": pmwg, "vector": vector}[name]()
    print(_peak() - start)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
