"""Mutate a random sample of the package and say what share the tests catch: ``python -m mutants -n 50 --seed 1``."""

from __future__ import annotations

import argparse
import random
import sys
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from mutants.changes import Mutant, Place, mutant, places
from mutants.near import Near
from mutants.tests import load
from mutants.trials import PACKAGE, Verdict, check, copies, trials
from support.repository import ROOT, files

PACKAGES: Final = ("trusted", "budget", "vault", "mechanisms", "schedulers")
HARMLESS: Final = Path(__file__).parent / "harmless.toml"


def all_places(source: Path, packages: Sequence[str]) -> list[Place]:
    """Every place of some packages."""
    paths = [path for package in packages for path in sorted((source / package).rglob("*.py"))]
    return [place for path in paths for place in places(path.relative_to(source).as_posix(), path.read_text())]


def sample(source: Path, packages: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """Mutants of some packages: places are chosen uniformly, then one of the changes of each."""
    chance = random.Random(seed)
    found = all_places(source, packages)
    chosen = chance.sample(found, min(number, len(found)))
    return [mutant((source / place.file).read_text(), place, chance.choice(place.changes)) for place in chosen]


def harmless() -> dict[tuple[str, str, str, str], str]:
    """The mutants that change nothing that anyone could mind, with the reason."""
    listed = tomllib.loads(HARMLESS.read_text()).get("harmless", [])
    return {(each["file"], each["scope"], each["before"], each["after"]): each["reason"] for each in listed}


def table(verdicts: Sequence[Verdict], spared: Collection[Mutant], packages: Sequence[str]) -> list[str]:
    """How many were caught in each package and in all."""
    lines = [f"{'package':<12} {'caught':>7} {'survived':>9} {'harmless':>9} {'share':>7}"]
    for name, inside in [*((package, f"{package}/") for package in packages), ("all", "")]:
        here = [verdict for verdict in verdicts if verdict.mutant.place.file.startswith(inside)]
        idle = sum(each.place.file.startswith(inside) for each in spared)
        caught = sum(bool(verdict.caught_by) for verdict in here)
        share = f"{caught / len(here):.1%}" if here else "-"
        lines.append(f"{name:<12} {caught:>7} {len(here) - caught:>9} {idle:>9} {share:>7}")
    return lines


def described(mutant: Mutant) -> str:
    """Where it is and what it changes, in one line."""
    place = mutant.place
    return (
        f"{PACKAGE.as_posix()}/{place.file}:{place.line} ({place.scope or 'module'}): {mutant.before} → {mutant.after}"
    )


def main(arguments: Sequence[str]) -> int:
    """Try the mutants; 1 if the share caught is below the least that was asked for."""
    options = _options(arguments)
    known = harmless()
    chosen = sample(ROOT / PACKAGE, options.packages, options.number, options.seed)[options.skip :]
    spared = [each for each in chosen if each.key in known]
    tried = [each for each in chosen if each.key not in known]
    skipped = f" without the first {options.skip}" if options.skip else ""
    print(f"{len(chosen)} mutants, seed {options.seed}{skipped}; {len(spared)} are known to be harmless", flush=True)
    verdicts: list[Verdict] = []
    with copies(ROOT, files(), options.workers) as made:
        tests = Near(made[0]) if options.near else load(ROOT, made[0], options.workers)
        for name in tests.left_out:
            print(f"left out, for it does not pass without any mutant either: {name}")
        for copy in made:
            check(copy, tests)
        print(f"{len(tests.tests)} tests", flush=True)
        for verdict in trials(tried, made, tests, options.budget):
            verdicts.append(verdict)
            fate = f"caught by {verdict.caught_by}" if verdict.caught_by else "SURVIVED"
            print(f"{len(verdicts)}/{len(tried)} {described(verdict.mutant)}\n    {fate}", flush=True)
    return report(verdicts, spared, options.packages, options.least)


def report(verdicts: Sequence[Verdict], spared: Collection[Mutant], packages: Sequence[str], least: float) -> int:
    """Print who survived, and the table."""
    survivors = [verdict.mutant for verdict in verdicts if not verdict.caught_by]
    print("\nsurvived:" if survivors else "\nnone survived")
    for each in survivors:
        print(f"  {described(each)}")
    print("", *table(verdicts, spared, packages), sep="\n")
    share = 1 - len(survivors) / len(verdicts) if verdicts else 1.0
    return int(share < least)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("-n", dest="number", type=int, default=50, help="how many mutants")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="which of them; others each time")
    parser.add_argument("--skip", type=int, default=0, help="go on after so many of the sample, in its order")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 if a smaller share is caught")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests in each stage of a trial")
    parser.add_argument("--workers", type=int, default=2, help="how many mutants at a time")
    parser.add_argument("--near", action="store_true", help="run the nearest tests only, without a map of all of them")
    parser.add_argument("packages", nargs="*", default=list(PACKAGES), help="of src/treering")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
