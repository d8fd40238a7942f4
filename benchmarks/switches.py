"""How a new question travels through the code: `python -m benchmarks.switches`.

Counts the files that run and the switches between packages (calls from a function of one package of treering to one of
another), and takes the processor time of a question that is new and of one that is known.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import pyarrow as pa

import treering as tr

ROUNDS: Final = 20
ROWS: Final = 20_000
SCHEMA: Final = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA"),
        "month": tr.integers(1, 12),
        "delay": tr.integers(0, 300),
        "late": tr.categories("no", "yes"),
    }
)


@dataclass
class Travel:
    """What a question runs through."""

    files: set[str] = field(default_factory=set)
    switches: int = 0
    _packages: list[str] = field(default_factory=list)
    """Of the functions that have begun and not ended."""

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a function that begins, or ends."""
        if event not in ("call", "return"):
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("treering."):
            return
        self.files.add(module)
        if event == "return":
            del self._packages[-1:]
            return
        package = module.split(".")[1]
        self.switches += self._packages[-1:] not in ([], [package])
        self._packages.append(package)


def travel(work: Callable[[], object]) -> Travel:
    """What some work runs through."""
    found = Travel()
    sys.setprofile(found.follow)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def made(folder: Path) -> tr.Vault:
    """A vault of rings with rows."""
    vault = tr.Vault.create(folder, SCHEMA, epsilon=1.0, delta=1e-9, pace=200)
    generator = np.random.default_rng(1)
    vault.append(
        pa.table(
            {
                "origin": generator.choice(["EWR", "JFK", "LGA"], ROWS),
                "month": generator.integers(1, 13, ROWS),
                "delay": generator.integers(0, 301, ROWS),
                "late": generator.choice(["no", "yes"], ROWS),
            }
        )
    )
    return vault


def questions(form: str) -> Iterator[str]:
    """Questions of which none is answered by another's series."""
    for number in range(2 * ROUNDS + 2):
        condition = f"delay >= {3 * number + 2} AND month <= {number % 11 + 1}"
        yield (
            condition
            if form == "ask"
            else (
                f"SELECT origin, COUNT(*) AS n, 100.0 * COUNT(*) FILTER (WHERE late = 'yes') / COUNT(*) AS late "
                f"FROM t WHERE {condition} GROUP BY origin ORDER BY n DESC"
            )
        )


def processor_time(work: Callable[[], object]) -> float:
    """Milliseconds of the processor, of all threads of this process."""
    before = time.process_time()
    work()
    return 1000 * (time.process_time() - before)


def measured(form: str) -> str:
    """A line about one form of question."""
    with tempfile.TemporaryDirectory() as folder, made(Path(folder) / "vault") as vault:
        ask: Callable[[str], object] = vault.ask if form == "ask" else vault.sql
        asked = questions(form)
        ask(next(asked))  # What is imported, or compiled, at the first question.
        ask(next(asked))
        fresh = [next(asked) for _ in range(2 * ROUNDS)]
        travels = [travel(partial(ask, text)) for text in fresh[:ROUNDS]]
        new = [processor_time(partial(ask, text)) for text in fresh[ROUNDS:]]
        known = [processor_time(partial(ask, text)) for text in fresh[ROUNDS:]]
    files, switches = (
        int(statistics.median(each)) for each in zip(*((len(t.files), t.switches) for t in travels), strict=True)
    )
    times = f"{statistics.median(new):9.2f} ms {statistics.median(known):9.2f} ms"
    return f"{form:4} {files:6} files {switches:6,} switches; processor time, new and known: {times}"


def main() -> None:
    """Print a line for a predicate and one for a statement."""
    for form in ("ask", "sql"):
        print(measured(form))


if __name__ == "__main__":
    main()
