"""The shell's second answer: the vault is open, what loads late is loaded, and a line is typed.

The issue asks for less than 50 ms of processor time, so the reference is a clock: a ratio of 1 is 50 ms. Questions are
new ones, each paid for and journalled; statements are priced, released, worked out by DuckDB, and shown with bars. It
took 3 ms and 25 ms (0.06 and 0.51); the limits are half as much again.
"""

from __future__ import annotations

import io
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Final

from rich.console import Console

from benchmarks.harness import Action, Result, ratio
from treering.cli.output import Output
from treering.cli.shell import Shell
from treering.demo.flights import CARRIERS, SCHEMA, flights
from treering.vault.vault import Vault

ALLOWED: Final = 0.05
"""Seconds of processor time for an answer."""

REPEATS: Final = 15


def results() -> Iterator[Result]:
    """A predicate, and a GROUP BY."""
    with tempfile.TemporaryDirectory() as folder, _opened(Path(folder) / "flights.treering") as vault:
        shell = Shell(vault, Output(console=Console(file=io.StringIO(), width=100)))
        for name, lines, limit in (("predicate", _predicates(), 0.1), ("GROUP BY", _statements(), 0.75)):
            shell.do(next(lines))
            yield ratio(
                f"shell: second answer, a {name}, against 50 ms CPU",
                _typed(shell, lines),
                _wait,
                limit=limit,
                repeats=REPEATS,
                minimum_seconds=0.0,
                clock=process_time,
            )


def _opened(path: Path) -> Vault:
    vault = Vault.create(path, SCHEMA, epsilon=1000.0, delta=1e-6)
    vault.append(flights().slice(0, 100_000))
    return vault


def _typed(shell: Shell, lines: Iterator[str]) -> Action:
    return lambda: shell.do(next(lines)) and None


def _predicates() -> Iterator[str]:
    """Questions that have not been asked."""
    return (
        f"carrier = '{carrier}' AND month <= {month}" for month, carrier in itertools.product(range(1, 12), CARRIERS)
    )


def _statements() -> Iterator[str]:
    return (
        f"SELECT origin, COUNT(*) AS n FROM t WHERE month <= {month} AND carrier = '{carrier}' GROUP BY 1"
        for month, carrier in itertools.product(range(1, 12), CARRIERS)
    )


def _wait() -> None:
    """Use the processor for as long as is allowed."""
    until = process_time() + ALLOWED
    while process_time() < until:
        pass
