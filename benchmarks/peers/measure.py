"""One answerer on one case, in a new Python, so that its time and its memory are its own.

    python -m benchmarks.peers.measure CASE NAME

*Times* are of the processor, all threads together, so that other work on the machine does not count; nor does waiting
for the disk. *Set-up* is from the start of Python until the questions after the first batch are answered: importing,
making what is needed, a first fit. *Questions a second* are those after the other batches, over the time from then on.
*Memory* is the most that the process had in RAM: Python, libraries, the case itself, and what answering takes. Reading
the case is in nobody's time. Policies are not programs that one could use: only their errors are kept.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from benchmarks.peers.answering import HERE, OURS, Answerer
from benchmarks.peers.cases import BATCHES, Case, Floats
from benchmarks.peers.drivers.common import peak

LIMIT: Final = 900
"""The most seconds, of the processor, that anybody is given for a case."""


SHORTEST: Final = 0.001
"""The fewest seconds that a speed is told from."""


class TooLong(Exception):
    """It did not end within `LIMIT`."""


class Took(NamedTuple):
    """What answering took: processor seconds until the first batch was answered, and in all; MiB at the most."""

    setup: float
    seconds: float
    peak: float


def accuracy(case: Case, told: Floats) -> dict[str, str]:
    """The columns of errors."""
    off = np.abs(told - np.concatenate(case.truths))
    numbers = {"mean": off.mean(), "p95": np.percentile(off, 95), "max": off.max()}
    return {name: f"{value:.4g}" for name, value in numbers.items()}


def columns(case: Case, told: Floats, took: Took) -> dict[str, str]:
    """The columns of errors, times and memory."""
    numbers = {"setup_seconds": took.setup, "seconds": took.seconds, "peak_mib": took.peak}
    after = took.seconds - took.setup
    if after >= SHORTEST:
        numbers["per_second"] = case.questions * (BATCHES - 1) / BATCHES / after
    return accuracy(case, told) | {name: f"{value:.4g}" for name, value in numbers.items()}


def make(case: Case, path: Path) -> None:
    """Make a case with its truth, in a process of its own, and write it down: this one stays small."""

    def work() -> dict[str, str]:
        _ = case.truths, case.batches
        path.write_bytes(pickle.dumps(case, pickle.HIGHEST_PROTOCOL))
        return {}

    apart(work)


def here(path: Path, name: str) -> dict[str, str]:
    """Run one that answers in this environment."""
    if name not in OURS:
        return apart(lambda: _policy(path, name))
    command: list[str | Path] = [sys.executable, "-m", "benchmarks.peers.measure", path, name]
    done = subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=limited)
    if done.returncode == -signal.SIGXCPU:
        raise TooLong
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _policy(path: Path, name: str) -> dict[str, str]:
    case: Case = pickle.loads(path.read_bytes())
    return accuracy(case, np.concatenate(list(HERE[name](case))))


def alone(path: Path, answer: Answerer) -> dict[str, str]:
    """Answer, where nothing else has been done in this process."""
    began = time.process_time()
    case: Case = pickle.loads(path.read_bytes())
    reading = time.process_time() - began
    batches = answer(case)
    found = [next(batches)]
    setup = time.process_time() - reading
    found += batches
    seconds = time.process_time() - reading
    took = Took(setup, seconds, peak())
    return columns(case, np.concatenate(found), took)


def elsewhere(path: Path, answers: Callable[[Case], tuple[Floats, Took]]) -> dict[str, str]:
    """Run one that answers in another environment."""

    def work() -> dict[str, str]:
        case: Case = pickle.loads(path.read_bytes())
        return columns(case, *answers(case))

    return apart(work)


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


if __name__ == "__main__":
    print(json.dumps(alone(Path(sys.argv[1]), HERE[sys.argv[2]])))
