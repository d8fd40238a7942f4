"""A file of 2 GB is taken in within 500 MB of memory.

    python -m experiments.large_file [--quick] [--seed N]

A file of comma-separated texts (flights: an airport, a timestamp, a delay, a fare, a comment that the schema does not
name) is written to a temporary folder, and `treering append` takes it into a vault, in a process of its own. The quick
run has 40 MB.

Claimed: at its largest the process has at most 500 MB of memory, and the vault has every row.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

import treering as tr
from experiments.claims import Claims
from experiments.options import options

FULL, QUICK = 2 * 10**9, 4 * 10**7
MOST_MEGABYTES: Final = 500
ROWS_AT_A_TIME: Final = 200_000
SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA", other=True, missing=True),
        "day": tr.dates("2013-01-01", "2033-12-31", by="month", column="time"),
        "hour": tr.dates(part="hour", column="time"),
        "delay": tr.bins([-60, 0, 15, 60, 240], other=True, missing=True),
        "fare": tr.bins([0, 50, 100, 200, 500, 2000], other=True, missing=True),
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    size = QUICK if given.quick else FULL
    claims = Claims()
    with tempfile.TemporaryDirectory() as folder:
        file, vault = Path(folder) / "rows.csv", Path(folder) / "large.treering"
        rows = write(file, size, given.seed)
        with tr.Vault.create(vault, SCHEMA, epsilon=1.0, delta=1e-9):
            pass
        print(f"  {file.stat().st_size / 1e9:.2f} GB, {rows:,} rows")
        peak = append(vault, file)
        with tr.Vault.open(vault) as opened:
            claims.at_most("rows that are not in", rows - opened.size, 0)
    claims.at_most("megabytes of memory", peak, MOST_MEGABYTES)
    return claims.exit_code()


PROGRAM: Final = """
import atexit, pathlib, re
from treering.cli.main import main
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]))
main()
"""
"""The command line, which says at its end how much memory it had at most. (What `getrusage` says of a process includes
the memory of the one that started it.)"""


def append(vault: Path, file: Path) -> float:
    """Take a file into a vault in another process: the megabytes that it had at most."""
    command = [sys.executable, "-c", PROGRAM, "append", str(vault), str(file), "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(said.splitlines()[-1]) / 1000


def write(path: Path, size: int, seed: int) -> int:
    """Write a file of about this many bytes; the number of its rows."""
    generator, rows = np.random.default_rng(seed), 0
    with path.open("wb") as stream:
        while stream.tell() < size:
            pc.write_csv(_rows(generator), stream, pc.WriteOptions(include_header=rows == 0))
            rows += ROWS_AT_A_TIME
    return rows


def _rows(generator: np.random.Generator) -> pa.Table:
    number = ROWS_AT_A_TIME
    seconds = generator.integers(1_356_998_400, 1_500_000_000, number)
    return pa.table(
        {
            "origin": pa.array(["EWR", "JFK", "LGA", "BOS", None]).take(pa.array(generator.integers(0, 5, number))),
            "time": pa.array(seconds, pa.timestamp("s")),
            "delay": pa.array(np.round(generator.normal(10, 40, number))),
            "fare": pa.array(np.round(generator.exponential(150, number), 2)),
            "comment": pa.array(["on time", 'late, because of "weather"', ""]).take(
                pa.array(generator.integers(0, 3, number))
            ),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
