"""What the benchmarks gave over time: one line a claim and run, in a file that is kept with the source. What is there
for information only has neither a limit nor a verdict.

Ratios are comparable between machines, as seconds are not.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.harness import Result

COLUMNS: Final = ("time", "version", "claim", "median", "lower", "upper", "limit", "holds")


def add(path: Path, results: Iterable[Result], version: str, time: datetime | None = None) -> None:
    """Append a run to the history; the first one makes the file."""
    stamp = (time or datetime.now(UTC)).isoformat(timespec="seconds")
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        for each in results:
            lower, upper = each.quartiles
            numbers = (f"{value:.4g}" for value in (each.median, lower, upper))
            claim = ("", "") if each.limit is None else (f"{each.limit:.4g}", "yes" if each.holds else "no")
            writer.writerow([stamp, version, each.name, *numbers, *claim])
