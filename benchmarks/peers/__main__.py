"""treering's default beside its peers, on the same growing tables, questions, promise and neighbours.

    python -m benchmarks.peers [--quick] [--seeds N ...] [--environments FOLDER] [--only NAME ...] [--again NAME ...]

Writes ``benchmarks/peers/results/map.csv``, a row for each peer, case and seed, as soon as it is known; what is there
already is not run again, unless ``--again`` names it. `benchmarks.peers.report` makes tables of it. Seeds are of data
and questions, never of noise. `benchmarks.peers.measure` says what the columns of times and memory mean.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers.answering import HERE, left_out
from benchmarks.peers.cases import QUESTIONS, SHAPES, SIZES, Case
from benchmarks.peers.elsewhere import ELSEWHERE, answers, prepare
from benchmarks.peers.measure import LIMIT, TooLong, elsewhere, here, make

RESULTS: Final = Path(__file__).with_name("results") / "map.csv"
FIELDS: Final = (
    *("cells", "questions", "size", "seed", "peer"),
    *("mean", "p95", "max", "setup_seconds", "seconds", "per_second", "peak_mib", "reason"),
)
"""Errors are in rows. ``reason`` says why there are none."""
SEEDS: Final = {10**2: 6, 10**4: 3, 10**6: 3}
"""How many seeds there are for a number of questions: a hundred errors scatter more than ten thousand."""


class Place(NamedTuple):
    """One answerer on one case."""

    case: Case
    name: str

    @property
    def wanted(self) -> bool:
        """Whether there is such a row at all: a cache is nothing where no question is asked again, and the dear ones
        are run with a few seeds only."""
        if "cache," in self.name and not self.case.repeating:
            return False
        peer = ELSEWHERE.get(self.name)
        if peer is None:
            return self.case.seed == 1 or not left_out(self.name, self.case)
        return self.case.seed <= peer.last_seed(self.case)


def places(seeds: Sequence[int]) -> list[Place]:
    """The map, seed by seed, so that a run that is stopped has all of it for some seeds; the dear ones come last."""
    cheap = [*HERE, *(name for name, peer in ELSEWHERE.items() if peer.seeds > 1)]
    dear = [name for name in ELSEWHERE if name not in cheap]
    every = [
        *(Place(case, name) for case in cases(seeds) for name in cheap),
        *(Place(case, name) for case in cases(seeds) for name in dear),
    ]
    return [place for place in every if place.wanted]


def cases(seeds: Sequence[int]) -> Iterator[Case]:
    """Every case, seed by seed."""
    for seed, questions, size, cells in product(seeds, QUESTIONS, SIZES, SHAPES):
        if seed <= SEEDS[questions]:
            yield Case(cells, questions, size, seed)


class Results:
    """The table of results, on disk."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.rows: list[dict[str, str]] = []
        if path is not None and path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))

    def has(self, case: Case, peer: str) -> bool:
        """Whether this was run before."""
        return (*case.key, peer) in {tuple(row[field] for field in FIELDS[:5]) for row in self.rows}

    def add(self, case: Case, peer: str, found: dict[str, str]) -> None:
        """Keep a row, at once."""
        self.rows.append(dict.fromkeys(FIELDS, "") | dict(zip(FIELDS, (*case.key, peer), strict=False)) | found)
        self._write()

    def forget(self, names: Sequence[str]) -> None:
        """Drop the rows of these."""
        self.rows = [row for row in self.rows if row["peer"] not in names]
        self._write()

    def _write(self) -> None:
        """The whole table or nothing of it, in the order of the map."""
        if self._path is None:
            return
        self.rows.sort(key=_order)
        self._path.parent.mkdir(exist_ok=True)
        beside = self._path.with_suffix(".new")
        with beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        beside.replace(self._path)


def _order(row: dict[str, str]) -> tuple[int, ...]:
    names = [*HERE, *ELSEWHERE]
    place = names.index(row["peer"]) if row["peer"] in names else len(names)
    return int(row["cells"]), int(row["questions"]), int(row["size"]), place, int(row["seed"])


class Runner:
    """Runs answerers on cases. A case is made once, and is kept on disk until another is wanted."""

    def __init__(self, environments: Path, folder: Path) -> None:
        self._environments, self._folder, self._made = environments, folder, None

    _made: Case | None

    def run(self, case: Case, name: str) -> dict[str, str]:
        """What was found, or why it was not run."""
        peer = ELSEWHERE.get(name)
        if reason := left_out(name, case) if peer is None else peer.fits(case):
            return {"reason": reason}
        try:
            path = self._written(case)
            if peer is None:
                return here(path, name)
            prepare(peer.environment, self._environments)
            return elsewhere(path, lambda read: answers(read, peer, self._environments, self._folder))
        except TooLong:
            return {"reason": f"did not end within {LIMIT / 60:.0f} minutes of the processor"}

    def _written(self, case: Case) -> Path:
        path = self._folder / "case.pickle"
        if self._made != case:
            make(case, path)
            self._made = case
        return path


def _meant(word: str, name: str) -> bool:
    """Whether a word is a name, or the beginning of one and no whole name itself."""
    return word == name or (name.startswith(word) and word not in (*HERE, *ELSEWHERE))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; 1 if something failed, which the next run tries again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small case, in this environment, written nowhere")
    every_seed = range(1, max(SEEDS.values()) + 1)
    parser.add_argument("--seeds", type=int, nargs="*", default=every_seed, help="of data and questions (default: all)")
    parser.add_argument(
        "--environments", type=Path, default=Path(sys.prefix) / "peers", help="where peers are installed"
    )
    parser.add_argument("--only", nargs="*", default=None, help="names, or their beginnings, of those to run")
    parser.add_argument("--questions", type=int, nargs="*", default=QUESTIONS, help="only cases of so many questions")
    parser.add_argument("--again", nargs="*", default=[], help="names of those whose rows are dropped first")
    given = parser.parse_args(arguments)
    every = [Place(Case(2**7, 100, 10**4, 1), name) for name in HERE] if given.quick else places(every_seed)
    results = Results(None if given.quick else RESULTS)
    if given.again:
        results.forget(given.again)
    wanted = [
        (number, *place)
        for number, place in enumerate(every, 1)
        if place.wanted
        and place.case.questions in given.questions
        and place.case.seed in given.seeds
        and not results.has(*place)
        and (given.only is None or any(_meant(each, place.name) for each in given.only))
    ]
    failed, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(given.environments, Path(folder))
        for number, case, name in wanted:
            words = f"{number} of {len(every)}: {case.cells:,} cells, {case.questions:,} questions, {case.size:,} rows"
            try:
                results.add(case, name, found := runner.run(case, name))
                said = f"mean error {found['mean']} rows" if found.get("mean") else found["reason"]
            except RuntimeError as error:
                failed, said = failed + 1, f"FAILED: {error}"
            print(f"{words}, seed {case.seed}: {name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
