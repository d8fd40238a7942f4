"""Killed while tables are published: the place has all of the old ones or all of the new ones."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from pyarrow import parquet

PROGRAM = """
import itertools, sys
import pyarrow as pa
from treering.sql.publishing.places import place_of
from treering.sql.publishing.tables import NOTES, noted

place, first = place_of(sys.argv[1]), int(sys.argv[2])
for number in itertools.count(first):
    made = {name: pa.table({"n": [number] * 20_000, "ward": ["north"] * 20_000}) for name in ("a", "b", "c")}
    place.write({**made, NOTES: noted(made, dict.fromkeys(made, "SELECT …"), "epsilon 1", number)})
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def numbers(path: Path, kind: str) -> set[int]:
    """The numbers of the refreshes whose rows are there: of every table, and of the notes."""
    names = ("a", "b", "c")
    if kind == "parquet":
        found = [parquet.read_table(path / "current" / f"{name}.parquet")["n"].to_pylist() for name in names]
        rows = parquet.read_table(path / "current" / "treering_notes.parquet")["rows"].to_pylist()
    else:
        with duckdb.connect(str(path)) as connection:
            found = [[n for (n,) in connection.sql(f"SELECT n FROM {name}").fetchall()] for name in names]
            rows = [n for (n,) in connection.sql("SELECT rows FROM treering_notes").fetchall()]
    assert [len(each) for each in found] == [20_000] * 3
    return {number for each in [*found, rows] for number in each}


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_a_kill_leaves_the_old_tables_or_the_new_ones(kind: str, tmp_path: Path) -> None:
    path, generator, last = tmp_path / "out", random.Random(39), 0
    for _ in range(8):
        command = [sys.executable, "-c", PROGRAM, f"{kind}:///{path}", str(last + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = int(process.stdout.readline())
            time.sleep(generator.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
            said = max([said, *(int(line) for line in process.stdout.read().split())])
        (found,) = numbers(path, kind)
        assert found in (said, said + 1)  # What was said to be there is there.
        last = found
