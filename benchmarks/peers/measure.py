"""One answerer on one case, in a process of its own, so that its time and its memory are its own.

*Times* are of the processor, all threads together, so that other work on the machine does not count; nor does waiting
for the disk. *Set-up* is from the start of Python until the questions after the first batch are answered: importing,
making what is needed, a first fit. *Questions a second* are those after the other batches, over the time from then on.
*Memory* is the most that the process had in RAM: Python, libraries, the case itself, and what answering takes. Reading
the case is in nobody's time.
"""

from __future__ import annotations

import multiprocessing
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from benchmarks.peers.answering import Answerer
from benchmarks.peers.cases import BATCHES, Case, Floats

LIMIT: Final = 900
"""The most seconds, of the processor, that anybody is given for a case."""


class TooLong(Exception):
    """It did not end within `LIMIT`."""


class Took(NamedTuple):
    """What answering took: processor seconds until the first batch was answered, and in all; MiB at the most."""

    setup: float
    seconds: float
    peak: float


def columns(case: Case, told: Floats, took: Took) -> dict[str, str]:
    """The columns of the table of results."""
    off = np.abs(told - np.concatenate(case.truths))
    numbers = {"mean": off.mean(), "p95": np.percentile(off, 95), "max": off.max()}
    after = max(took.seconds - took.setup, 1e-6)
    rest = case.questions * (BATCHES - 1) / BATCHES
    numbers |= {"setup_seconds": took.setup, "seconds": took.seconds}
    numbers |= {"per_second": rest / after, "peak_mib": took.peak}
    return {name: f"{value:.4g}" for name, value in numbers.items()}


def make(case: Case, path: Path) -> None:
    """Make a case with its truth, in a process of its own, and write it down: this one stays small."""

    def work() -> dict[str, str]:
        _ = case.truths, case.batches
        path.write_bytes(pickle.dumps(case, pickle.HIGHEST_PROTOCOL))
        return {}

    apart(work)


def here(path: Path, answer: Answerer) -> dict[str, str]:
    """Run one that answers in this environment."""
    before = importing()

    def work() -> dict[str, str]:
        case: Case = pickle.loads(path.read_bytes())
        read = time.process_time()
        found, first = _drained(answer(case))
        seconds = time.process_time() - read
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return columns(case, found, Took(before + first - read, before + seconds, peak))

    return apart(work)


def elsewhere(path: Path, answers: Callable[[Case], tuple[Floats, Took]]) -> dict[str, str]:
    """Run one that answers in another environment."""

    def work() -> dict[str, str]:
        case: Case = pickle.loads(path.read_bytes())
        return columns(case, *answers(case))

    return apart(work)


def _drained(batches: Iterator[Floats]) -> tuple[Floats, float]:
    """All answers, and when the first of them were there."""
    found = [next(batches)]
    first = time.process_time()
    return np.concatenate([*found, *batches]), first


@cache
def importing() -> float:
    """The processor seconds that a new Python takes to import treering: those who answer here had that before."""
    command = "import time, treering; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout)


def apart(work: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What it returns, from a process that begins as a copy of this one and ends with it."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(work, sender))
    process.start()
    sender.close()
    try:
        found: dict[str, str] | str | None = receiver.recv()
    except EOFError:  # It was ended.
        process.join()
        found = None if process.exitcode == -signal.SIGXCPU else f"it ended with {process.exitcode}"
    process.join()
    if found is None:
        raise TooLong
    if isinstance(found, str):
        raise RuntimeError(found)
    return found


def limited() -> None:
    """End this process when it has had `LIMIT` seconds."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))


def _send(work: Callable[[], dict[str, str]], sender: Connection) -> None:
    limited()
    try:
        sender.send(work())
    except TooLong:
        sender.send(None)
    except Exception as error:
        sender.send(f"{type(error).__name__}: {error}")
