"""Learning on a stream beside diffprivlib, which fits a table that is whole.

    python -m benchmarks.peers.learning [--runs N] [--environments FOLDER]

The streams of `experiments.learn_streams`: 50,000 rows that arrive by 1,000, 10,000 to test on, ε = 1 for the whole
life of each. *treering*: `PrivateLogisticRegression` as it comes, δ = 10^-6. *diffprivlib, static*: one model, of all
rows, at the end; before, it has none. *diffprivlib at doublings*: a model whenever the rows have doubled, told how
often that will be, with an even part of ε each; both are pure. The mean over the life is that of the accuracies of the
models that are there after each batch. Writes ``results/learning.csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.peers.elsewhere import Peer, call
from experiments.learn_streams import BATCH, EPSILON, ROWS, TEST, Stream, batches, classifier, plain
from treering.arrays import Array, Floats

RESULTS: Final = Path(__file__).with_name("results") / "learning.csv"
FIELDS: Final = ("seed", "model", "run", "at_the_end", "over_its_life")
SEEDS, RUNS = (11, 12, 13), 3
DOUBLINGS: Final = tuple(BATCH * 2**place for place in range(6))


def ours(x: Floats, y: Array, test: tuple[Floats, Array]) -> Floats:
    """The accuracy after each batch."""
    model, found = classifier(), []
    for past, labels in batches((x, y)):
        model.partial_fit(past, labels)
        found.append(float(model.score(*test)))
    return np.array(found)


def accuracy(weights: Floats, test: tuple[Floats, Array]) -> float:
    """Of coefficients and an intercept."""
    return float(np.mean((test[0] @ weights[:-1] + weights[-1] > 0) == test[1]))


def lines(seed: int, runs: int, environments: Path) -> list[dict[str, object]]:
    """All models of one stream."""
    x, y = Stream("", seed).draw(ROWS + TEST)
    test = x[ROWS:], y[ROWS:]
    given = {"x": x[:ROWS], "y": y[:ROWS], "at": np.array(DOUBLINGS), "runs": runs, "epsilon": EPSILON}
    theirs = call(Peer("diffprivlib_models", "diffprivlib"), environments, given)
    found: list[dict[str, object]] = [_line(seed, "without privacy", 0, plain((x[:ROWS], y[:ROWS]), test), None)]
    sizes = np.arange(BATCH, ROWS + 1, BATCH)
    latest = np.searchsorted(DOUBLINGS, sizes, side="right") - 1
    for run in range(runs):
        own = ours(x[:ROWS], y[:ROWS], test)
        at_doublings = np.array([accuracy(each, test) for each in theirs["growing"][run]])[latest]
        found.append(_line(seed, "treering", run, own[-1], float(own.mean())))
        found.append(_line(seed, "diffprivlib, static", run, accuracy(theirs["static"][run], test), None))
        found.append(_line(seed, "diffprivlib at doublings, told", run, at_doublings[-1], float(at_doublings.mean())))
    return found


def _line(seed: int, model: str, run: int, end: float, life: float | None) -> dict[str, object]:
    texts = f"{end:.4f}", "" if life is None else f"{life:.4f}"
    return dict(zip(FIELDS, (seed, model, run, *texts), strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, print the lines, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=Path(sys.prefix) / "peers", help="where peers live")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each private one (default: 3)")
    parser.add_argument("--resume", action="store_true", help="do nothing if the table is there")
    given = parser.parse_args(arguments)
    if given.resume and RESULTS.exists():
        return 0
    found = []
    for seed in SEEDS:
        for line in lines(seed, given.runs, given.environments):
            print(",".join(map(str, line.values())), flush=True)
            found.append(line)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
