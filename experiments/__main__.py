"""Run every experiment at full length: ``python -m experiments``; with ``--quick`` a short version of each.

A run that was broken off goes on where it was: experiments that have ended are noted in ``results/claims.part``, rows
of the one under way in a file of its own. ``--fresh`` begins anew. At the end ``results/claims.csv`` has every claim
with what was found, ``results/durations.csv`` how long each took, and `experiments.results_page` writes
docs/results.md.

The other pictures in docs/ are not drawn anew: ``python -m experiments.pmwg_picture`` does that, and so do
``schedulers_picture``, ``erm_picture`` and ``learn_picture``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments import results_page
from experiments.claims import Claim, heard
from experiments.record import RESULTS, Row, read, texts, where, write

NAMES = (
    "pmwg_bounds",
    "pmwg_forgetting",
    "pmwg_synthetic",
    "pmwg_flights",
    "frozen_scale",
    "fresh_threshold",
    "schedule_bounds",
    "schedulers_improver",
    "schedulers_flights",
    "series_flights",
    "rings_flights",
    "rings_renewal",
    "rings_baselines",
    "crossover_map",
    "turbo_covid",
    "sums_flights",
    "sql_coverage",
    "compare_mechanisms",
    "erm_logistic",
    "erm_flights",
    "learn_streams",
    "learn_flights",
    "large_file",
    "newcomer_datasets",
)


class Run:
    """All experiments, one after the other, with the claims that were heard so far."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._quick, self._part, self._final = given.quick, folder / "claims.part", folder / "claims.csv"
        self._times_part, self._times_final = folder / "durations.part", folder / "durations.csv"
        self._arguments = [*(["--quick"] if given.quick else []), "--seed", str(given.seed)]
        if given.fresh:
            for left in folder.glob("*.part"):
                left.unlink()
        self.rows: list[Row] = [] if given.quick else read(self._part)
        self.times: list[Row] = [] if given.quick else read(self._times_part)

    def ended(self, name: str) -> bool:
        """Whether an earlier run, which was broken off, came past this experiment."""
        return bool(where(self.rows, experiment=name))

    def run(self, name: str) -> None:
        """Run one experiment, and keep its claims."""
        began = time.perf_counter()
        print(f"\n-- experiments.{name}, {NAMES.index(name) + 1} of {len(NAMES)}", flush=True)
        with heard() as claims:
            code = import_module(f"experiments.{name}").main(self._arguments)
        if code and all(claim.holds for claim in claims):
            claims.append(Claim("ended with an error", 1, 0))
        self.rows += [_row(name, claim) for claim in claims]
        seconds = time.perf_counter() - began
        self.times.append({"experiment": name, "seconds": f"{seconds:.0f}"})
        if not self._quick:
            write(self._times_part, self.times)
            write(self._part, self.rows)
        print(f"   {seconds:.0f} seconds", flush=True)

    def finish(self) -> list[str]:
        """Keep all claims for the page; those who have a broken one."""
        if not self._quick:
            write(self._part, self.rows)
            self._part.replace(self._final)
            write(self._times_part, self.times)
            self._times_part.replace(self._times_final)
        return list(dict.fromkeys(row["experiment"] for row in where(self.rows, holds="no")))


def _row(name: str, claim: Claim) -> Row:
    holds = "yes" if claim.holds else "no"
    return texts(
        {"experiment": name, "claim": claim.words, "found": claim.found, "at_most": claim.limit, "holds": holds}
    )


def main(arguments: Sequence[str] | None = None, folder: Path = RESULTS) -> int:
    """Run them one after the other; 0 if all claims hold, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short version of each; nothing is written")
    parser.add_argument("--seed", type=int, default=1, help="of the data and the queries; private noise has none")
    parser.add_argument("--fresh", action="store_true", help="begin anew, also where a run was broken off")
    given = parser.parse_args(arguments)
    run = Run(given, folder)
    columns = (TextColumn("experiments"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for name in progress.track(NAMES):
            if not run.ended(name):
                run.run(name)
    failed = run.finish()
    minutes = sum(float(row["seconds"]) for row in run.times) / 60
    broken = f"{len(failed)} with broken claims {' '.join(failed)}".rstrip()
    print(f"\n{len(NAMES)} experiments in {minutes:.0f} minutes, {broken}")
    if not given.quick:
        results_page.main([])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
