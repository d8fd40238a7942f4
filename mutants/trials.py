"""A mutant on trial: written into a copy of the checkout, and caught if a test fails there."""

from __future__ import annotations

import compileall
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Final

from mutants.changes import Change, Mutant, applied
from mutants.near import Near
from mutants.tests import PYTEST, Map, Stage, environment

PACKAGE: Final = Path("src", "treering")
PATIENCE: Final = 4
"""How many times as long as usual tests may take: the machine has other work, too."""
STARTING: Final = 60
"""How many seconds more: imports, kernels that are compiled."""
_TIMES: Final = count(1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a mutant fared: the test that caught it, or "" if none did."""

    mutant: Mutant
    caught_by: str


@contextmanager
def copies(checkout: Path, files: Sequence[Path], number: int) -> Iterator[list[Path]]:
    """Copies of the files of a checkout, compiled, for as long as they are needed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        made = [Path(folder).resolve() / str(index) for index in range(number)]
        for copy in made:
            for file in files:
                target = copy / file.relative_to(checkout)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)
            compileall.compile_dir(copy, quiet=1)
        yield made


def check(copy: Path, tests: Map | Near) -> None:
    """See that tests run in a copy use it, and that one passes there that no mutant has touched."""
    code = "import treering; print(treering.__file__)"
    run = [PYTEST[0], "-c", code]
    said = subprocess.run(run, cwd=copy, env=environment(copy), check=True, capture_output=True, text=True).stdout
    if Path(said.strip()) != copy / PACKAGE / "__init__.py":
        raise RuntimeError("tests in the copy would not run the copy's modules")
    fastest = min(tests.tests.values(), key=lambda test: (test.seconds, test.name))
    if caught := _caught_by(copy, Stage((fastest,), reaching=True)):
        raise RuntimeError(f"a test fails in the copy without any mutant: {caught}")


def trials(mutants: Sequence[Mutant], copies: Sequence[Path], tests: Map | Near, budget: float) -> Iterator[Verdict]:
    """Every mutant's verdict as it comes, with one mutant in each copy at a time."""
    free: Queue[Path] = Queue()
    for copy in copies:
        free.put(copy)

    def tried(mutant: Mutant) -> Verdict:
        copy = free.get()
        try:
            return Verdict(mutant, _tried(mutant, copy, tests, budget))
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        for verdict in as_completed([pool.submit(tried, mutant) for mutant in mutants]):
            yield verdict.result()


def _tried(mutant: Mutant, copy: Path, tests: Map | Near, budget: float) -> str:
    """What caught it. Tests that are not seen to reach the place count only if they pass without the mutant."""
    stages = tests.stages(mutant.place, budget)
    with _changed(copy / PACKAGE / mutant.place.file, mutant.change):
        found = ((stage, caught) for stage in stages if (caught := _caught_by(copy, stage)))
        stage, caught = next(found, (None, ""))
    return "" if stage is not None and not stage.reaching and _caught_by(copy, stage) else caught


@contextmanager
def _changed(path: Path, change: Change) -> Iterator[None]:
    """The file with the change, for a while."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(shutil.copy2(path, folder))
        try:
            path.write_text(applied(path.read_text(), change))
            # Python and numba compile a file again if its time has changed, by whole seconds. Each mutant has a time of
            # its own: numba keeps what it has compiled, and would take one for another that is as long.
            later = kept.stat().st_mtime + 10 * next(_TIMES)
            os.utime(path, (later, later))
            yield
        finally:
            shutil.copy2(kept, path)


def _caught_by(copy: Path, stage: Stage) -> str:
    """The first test that fails, or what else went wrong; "" if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "tests"
        listed.write_text("\n".join(test.name for test in stage.tests))
        command = [*PYTEST, "-x", "--tb=no", f"--basetemp={folder}/temporary", f"@{listed}"]
        limit = PATIENCE * stage.seconds + STARTING
        with subprocess.Popen(
            command,
            cwd=copy,
            env=environment(copy),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as run:
            try:
                said, _ = run.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                return f"no end after {limit:.0f} s"
            finally:
                _end(run.pid)
    return "" if run.returncode == 0 else _reason(said, run.returncode)


def _end(group: int) -> None:
    """End what the tests left running: they were started as a group of their own."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reason(said: str, code: int) -> str:
    lines = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return lines[0].split(" - ")[0] if lines else f"pytest ended with {code}"
