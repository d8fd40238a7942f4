"""How much memory a hundred million rows take: ``python -m benchmarks.memory_rows`` prints MiB after each step.

A vault takes in a Parquet file of ten million rows ten times, answers first questions (groups, a threshold, a sum, all
cells), takes in the file once more and answers again, all in one process. Memory is what the process has at its peak,
libraries included, so each measurement needs a process of its own. Another one writes the file, and lives the same life
in small: so what numba compiles once for an installation is compiled. (The compiler takes some 150 MB.) Arguments are
other numbers: of rows in the file, and of appends. (``1000000 100`` has parts merged on the way.) It exits with 1 if
the peak is above 500 MB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from benchmarks.bench_store import SCHEMA, flights
from treering.rowfile import RowFile
from treering.vault.vault import Vault

ROWS: Final = 10_000_000
APPENDS: Final = 10
FILE: Final = "flights.parquet"
MOST: Final = 500_000_000
"""The most bytes of memory."""
QUESTIONS: Final = (
    "SELECT carrier, month, COUNT(*) AS n FROM t GROUP BY carrier, month",
    "SELECT COUNT(*) AS n FROM t WHERE fare <= 37.5",
    "SELECT origin, SUM(fare) AS s FROM t GROUP BY origin",
)


def prepare(folder: Path, rows: int) -> None:
    """A file of rows, written a million at a time; and the same life in small."""
    first = flights(1000)
    pq.write_table(first, folder / "few.parquet")
    for _ in live(folder / "small", folder / "few.parquet", 1):
        pass
    with pq.ParquetWriter(folder / FILE, first.schema) as writer:
        for seed, start in enumerate(range(0, rows, 1_000_000)):
            writer.write_table(flights(min(1_000_000, rows - start), seed))


def live(place: Path, file: Path, appends: int) -> Iterator[tuple[str, int]]:
    """What was done, and the peak of memory since the process began."""
    yield "libraries", peak()
    with Vault.create(place, SCHEMA, epsilon=1000.0, delta=1e-6, share=0.5) as vault:
        for number in range(1, appends + 1):
            vault.append(RowFile(file))
            yield f"append {number}", peak()
        for text in QUESTIONS:
            vault.sql(text)
            yield text, peak()
        vault.add("pmwg", 0.2, alpha=0.1)
        vault.ask("origin = 'JFK'", mechanism="pmwg")
        yield "all cells", peak()
        vault.append(RowFile(file))
        yield f"append {appends + 1}", peak()
        for text in QUESTIONS:
            vault.sql(text)
        yield "all questions again", peak()


def peak() -> int:
    """The most memory this process has had so far (``ru_maxrss`` would count what its parent had before it)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(rows: int = ROWS, appends: int = APPENDS) -> int:
    """Print the peak after each step."""
    with tempfile.TemporaryDirectory() as name:
        folder, highest = Path(name), 0
        first = f"from pathlib import Path; from benchmarks.memory_rows import prepare; prepare(Path({name!r}), {rows})"
        subprocess.run([sys.executable, "-c", first], check=True)
        for step, highest in live(folder / "vault", folder / FILE, appends):
            print(f"{highest / 2**20:>8,.0f} MiB  {step}", flush=True)
    return 0 if highest <= MOST else 1


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
