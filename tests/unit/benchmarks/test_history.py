"""The history of the benchmarks grows by one line a claim."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import Result
from benchmarks.history import COLUMNS, add


def test_runs_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    good = Result("encode, 10M rows", 3.0, (1.0, 2.0, 3.0), 0.1, 0.05)
    bad = Result("ask", 1.0, (2.0,), 0.1, 0.05)
    add(path, [good, bad], "0.1.0", datetime(2026, 1, 2, tzinfo=UTC))
    add(path, [Result("for information", None, (4.0,), 0.4, 0.1)], "0.2.0")
    lines = list(csv.reader(path.read_text().splitlines()))
    assert lines[0] == list(COLUMNS)
    assert lines[1] == ["2026-01-02T00:00:00+00:00", "0.1.0", "encode, 10M rows", "2", "1.5", "2.5", "3", "yes"]
    assert lines[2][-1] == "no"
    assert lines[3][2:] == ["for information", "4", "4", "4", "", ""]
    assert [line[1] for line in lines[1:]] == ["0.1.0", "0.1.0", "0.2.0"]
