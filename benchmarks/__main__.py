"""Run every benchmark: ``python -m benchmarks``, or only some: ``python -m benchmarks encode``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks import history
from benchmarks.harness import Result, report
from treering import __version__

HERE = Path(__file__).parent


def names() -> list[str]:
    """The benchmarks there are: NAME of each bench_NAME.py."""
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def results(wanted: Sequence[str]) -> Iterator[Result]:
    """The results of the benchmarks named, one by one as they come."""
    for name in wanted:
        yield from import_module(f"benchmarks.bench_{name}").results()


def main(arguments: Sequence[str]) -> int:
    """Run them, print a table, write results.json and history.csv beside this file if all were run."""
    unknown = sorted(set(arguments) - set(names()))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    # One core for either side: threads of BLAS spin when others use the machine, and would slow references down most.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gathered: list[Result] = []
    code = report(_kept(results(arguments or names()), gathered), None if arguments else HERE / "results.json")
    if not arguments:
        history.add(HERE / "history.csv", gathered, __version__)
    return code


def _kept(found: Iterator[Result], gathered: list[Result]) -> Iterator[Result]:
    for each in found:
        gathered.append(each)
        yield each


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
