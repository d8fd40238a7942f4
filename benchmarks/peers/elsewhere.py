"""Peers in environments of their own: made here, run by drivers, never part of what treering needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.peers.answering import from_tables
from benchmarks.peers.cases import DELTA, EPSILON, RHO, Case, Floats, read
from benchmarks.peers.measure import Took, TooLong, limited

ROOT: Final = Path(__file__).resolve().parent.parent.parent
DRIVERS: Final = "benchmarks.peers.drivers"
TORCH: Final = "torch==2.13.0"
"""Its CPU build is a file that pip finds on some machines, and uv does not."""


@dataclass(frozen=True)
class Peer:
    """A driver, the environment it runs in, and what it is run on."""

    driver: str
    environment: str
    word: str = ""
    most_cells: int = 2**62
    most_questions: int = 2**62
    sizes: tuple[int, ...] = ()
    """The sizes that it is run on, where all would take too long; none: all."""
    seeds: int = 3
    """With how many seeds it is run, and with how many where questions are a million."""
    seeds_of_many: int = 3
    reads: bool = False
    """Whether it reads the questions, and not their truths or the table alone."""

    def fits(self, case: Case) -> str:
        """Why it is not run on a case; nothing if it is."""
        if case.cells > self.most_cells:
            return f"not run above {self.most_cells:,} cells, to save time"
        if case.questions > self.most_questions:
            return f"not run above {self.most_questions:,} questions, to save time"
        return (
            f"run on tables of {self.sizes[0]:,} rows only, to save time"
            if self.sizes and case.size not in self.sizes
            else ""
        )

    def last_seed(self, case: Case) -> int:
        """The last seed that it is run with; why it is not run on a kind of case is said once, with the first."""
        if self.fits(case):
            return 1
        return min(self.seeds, self.seeds_of_many) if case.repeating else self.seeds


ELSEWHERE: Final[dict[str, Peer]] = {
    "OpenDP, told": Peer("opendp_noise", "peers-queries"),
    "diffprivlib, told": Peer("diffprivlib_noise", "diffprivlib", seeds_of_many=1),
    "jax-privacy's prefix sums, told": Peer("jax_prefix", "peers-jax"),
    "mbi at doublings, told": Peer("mbi_fit", "peers-jax"),
    "pyqrlew, told": Peer("qrlew_sql", "peers-queries", "", 2**12, 10**2, seeds=1, reads=True),
    "SmartNoise MWEM at doublings, told": Peer("smartnoise", "peers-smartnoise", "mwem", 2**7, seeds=1),
    "SmartNoise MST at doublings, told": Peer("smartnoise", "peers-smartnoise", "mst", 2**7, seeds=1),
    "SmartNoise AIM at doublings, told": Peer("smartnoise", "peers-smartnoise", "aim", 2**7, seeds=1),
}


def prepare(name: str, folder: Path) -> Path:
    """The Python of an environment, which is made if it is not there."""
    environment, uv = folder / name, Path(sys.prefix) / "bin" / "uv"
    python, whole = environment / "bin" / "python", environment / "whole"
    if whole.exists():
        return python
    requirements, hashed = ROOT / "requirements" / f"{name}.txt", ["--quiet", "--require-hashes"]
    commands: list[list[str | Path]] = [
        [uv, "venv", "--quiet", "--clear", "--seed", "--python", sys.executable, environment],
        [uv, "pip", "sync", *hashed, "--python", python, requirements],
    ]
    if name == "peers-smartnoise":
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
        commands[1:] = [[*pip, TORCH], [*pip, "--require-hashes", "--no-deps", "-r", requirements]]
    print(f"making the environment {name}", flush=True)
    for command in commands:
        if subprocess.run(command, check=False).returncode:
            raise RuntimeError(f"the environment {name} could not be made")
    whole.touch()
    return python


def call(peer: Peer, folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run a driver on some arrays, and return its own."""
    python = prepare(peer.environment, folder)
    with tempfile.TemporaryDirectory() as place:
        case, result = Path(place) / "case.npz", Path(place) / "result.npz"
        np.savez(case, **given)
        command: list[str | Path] = [python, "-m", f"{DRIVERS}.{peer.driver}", case, result, peer.word]
        done = subprocess.run(
            command, cwd=ROOT, text=True, check=False, env=_environment(), capture_output=True, preexec_fn=limited
        )
        if done.returncode == -signal.SIGXCPU:
            raise TooLong
        if done.returncode:
            raise RuntimeError(f"{peer.driver} failed: {done.stderr.strip().splitlines()[-1:]}")
        return dict(np.load(result))


def _environment() -> dict[str, str]:
    """This process's, without the paths of this environment's modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def answers(case: Case, peer: Peer, folder: Path, kept: Path) -> tuple[Floats, Took]:
    """The answers of a peer in rows, and what they took.

    A peer that makes tables does not see the questions: its tables are kept in the folder ``kept``, and answer all
    cases of the same rows. Reading answers off them is in their time, but not in the set-up.
    """
    path = kept / f"{peer.driver}{peer.word}-{case.cells}-{case.size}-{case.seed}.npz"
    found = (
        dict(np.load(path)) if path.exists() else call(peer, folder, given(case) | (masks(case) if peer.reads else {}))
    )
    took = Took(*(float(found[name]) for name in Took._fields))
    if "tables" in found:
        np.savez(path, **found)
        began = time.process_time()
        told = from_tables(case, dict(zip(found["at"].tolist(), found["tables"], strict=True)))
        took = took._replace(seconds=took.seconds + time.process_time() - began)
    else:
        numbers = np.cumsum([0, *(len(places) for places, _ in case.different)])
        each = [
            np.clip(found["answers"][start:end], 0, size)[which]
            for start, end, size, (_, which) in zip(numbers, numbers[1:], case.sizes, case.different, strict=False)
        ]
        told = np.concatenate(each)
    return told, took


def given(case: Case) -> dict[str, Any]:
    """A case as arrays, with each question once for each batch."""
    places = [each for each, _ in case.different]
    truths = [
        read(case.schema, table, [case.pool[place] for place in each.tolist()])
        for table, each in zip(case.histograms, places, strict=True)
    ]
    return {
        "shape": np.array(case.schema.shape),
        "increments": np.diff(np.stack(case.histograms), axis=0, prepend=0),
        "truths": np.concatenate(truths),
        "when": np.repeat(np.arange(len(places)), [len(each) for each in places]),
        "epsilon": EPSILON,
        "delta": DELTA,
        "rho": RHO,
    }


def masks(case: Case) -> dict[str, Any]:
    """The questions themselves, for those who read them."""
    asked = [case.pool[place] for each, _ in case.different for place in each.tolist()]
    found = {f"masks_{place}": np.ones((len(asked), size), dtype=bool) for place, size in enumerate(case.schema.shape)}
    for number, query in enumerate(asked):
        assert query.masks is not None
        for position, mask in zip(query.attributes, query.masks, strict=True):
            found[f"masks_{position}"][number] = mask
    return found
