"""The measurement of memory, with few rows: it ends, and says what each step took."""

from __future__ import annotations

import subprocess
import sys

from support.repository import ROOT


def test_a_small_life_is_measured_step_by_step() -> None:
    command = [sys.executable, "-m", "benchmarks.memory_rows", "40000", "9"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = ended.stdout.splitlines()
    peaks = [int(line.split()[0]) for line in lines]
    assert [line.split("MiB  ")[1] for line in lines][:3] == ["libraries", "append 1", "append 2"]
    assert lines[-1].endswith("all questions again")
    assert peaks == sorted(peaks)
    assert 50 < peaks[0] <= peaks[-1] < 477
