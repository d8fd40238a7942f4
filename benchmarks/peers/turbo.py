"""Turbo's policy on its own workload, over exact noise: what it spends, beside what its authors' code spent.

    python -m benchmarks.peers.turbo [--questions N] [--seed N] [--resume]

The static settings of `experiments.turbo_covid`. After Kostopoulou et al. (SOSP 2023), with ε₁ = log(1/β)/(nα), the
price of one answer with Laplace noise that is within α with 1 − β:

- *Exact cache*: a question that was answered with noise before costs nothing.
- *PMW with a bypass*: a histogram, uniform at first, learns by multiplicative weights. Until every cell of a question
  has had `ready` updates, it is bypassed: the question is answered with noise for ε₁, which teaches the histogram too,
  where they differ by more than `SLACK`·α. After that a sparse-vector check, with noise of ε = 4ε₁ and half of α, says
  whether the histogram is near enough: if so it answers for nothing; if not, for 4ε: an answer of ε, and 3ε for a new
  check. A question that failed the check is bypassed for `PENALTY` more updates of its cells.

The tree over time partitions is left out: there is one block. Constants are those of a small grid that spend least, in
hindsight. Writes ``results/turbo.csv``.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from experiments.turbo_covid import ALPHA, BETA, CACHE, SETS, STATIC_QUESTIONS, TURBO, blocks, drawn
from treering.arrays import Flags, Floats, Ints
from treering.noise import Laplace
from treering.trusted.noise import draw

RESULTS: Final = Path(__file__).with_name("results") / "turbo.csv"
READY, RATES = (5, 20), (0.05, 0.2)
PENALTY, SLACK = 5, 0.05
_BLOCK: Final = 4096


class Drawn:
    """Laplace noise of one scale, as shares of the rows, drawn many at a time."""

    def __init__(self, epsilon: float, size: int) -> None:
        self._noise, self._size, self._left = Laplace(1 / epsilon), size, list[int]()

    def __call__(self) -> float:
        if not self._left:
            self._left = draw(self._noise, 1, _BLOCK).tolist()
        return self._left.pop() / self._size


@dataclass
class Policy:
    """What Turbo does with the questions about one block."""

    size: int
    cells: int
    ready: int
    rate: float

    def __post_init__(self) -> None:
        self.one = math.log(1 / BETA) / (self.size * ALPHA)
        self._direct, self._sharp = Drawn(self.one, self.size), Drawn(4 * self.one, self.size)
        self._histogram = np.full(self.cells, 1 / self.cells)
        self._wanted = np.full(self.cells, self.ready)
        self._cache: dict[int, float] = {}
        self._threshold: float | None = None
        self.spent = 0.0

    def ask(self, question: int, weights: Flags, truth: float) -> float:
        """The answer to a question of the pool; ``truth`` is its true share."""
        if question not in self._cache:
            bypassed = bool((self._wanted[weights] > 0).any())
            answer = self._bypass(weights, truth) if bypassed else self._checked(weights, truth)
            if answer is None:  # The histogram's answer may change: it is not kept.
                return float(self._histogram[weights].sum())
            self._cache[question] = answer
        return self._cache[question]

    def _bypass(self, weights: Flags, truth: float) -> float:
        self.spent += self.one
        answer = truth + self._direct()
        self._learn(weights, answer, SLACK * ALPHA)
        self._wanted[weights] -= 1
        return answer

    def _checked(self, weights: Flags, truth: float) -> float | None:
        if self._threshold is None:
            self.spent += 3 * 4 * self.one
            self._threshold = ALPHA / 2 + self._sharp()
        off = abs(truth - float(self._histogram[weights].sum()))
        if off + self._sharp() < self._threshold:
            return None
        self._threshold = None
        self.spent += 4 * self.one
        answer = truth + self._sharp()
        self._learn(weights, answer, 0.0)
        self._wanted[weights] = np.maximum(self._wanted[weights], 0) + PENALTY
        return answer

    def _learn(self, weights: Flags, answer: float, slack: float) -> None:
        off = answer - float(self._histogram[weights].sum())
        if abs(off) > slack:
            self._histogram[weights] *= math.exp(math.copysign(self.rate, off))
            self._histogram /= self._histogram.sum()


def pool() -> Flags:
    """The cells of every question."""
    masks = [sets.astype(bool) for sets in SETS]
    joint = masks[0][:, None, None, None, :, None, None, None]
    joint = joint & masks[1][None, :, None, None, None, :, None, None]
    joint = joint & masks[2][None, None, :, None, None, None, :, None]
    joint = joint & masks[3][None, None, None, :, None, None, None, :]
    return np.asarray(joint.reshape(math.prod(len(each) for each in masks), -1))


def run(asked: Ints, questions: Flags, counts: Ints, ready: int, rate: float) -> tuple[float, float]:
    """What is spent on the questions, and the largest error."""
    size = int(counts.sum())
    shares: Floats = counts / size
    policy, worst = Policy(size, len(counts), ready, rate), 0.0
    for question in asked.tolist():
        weights = questions[question]
        truth = float(shares[weights].sum())
        worst = max(worst, abs(policy.ask(question, weights, truth) - truth))
    return policy.spent, worst


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both settings, print and write what was spent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=STATIC_QUESTIONS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="do nothing if the table is there")
    given = parser.parse_args(arguments)
    if given.resume and RESULTS.exists():
        return 0
    questions, counts = pool(), blocks()[0].reshape(-1)
    lines: list[tuple[object, ...]] = [
        ("setting", "policy_spent", "turbo", "cache_spent", "exact_cache", "ready", "rate", "worst")
    ]
    for name in ("static, uniform", "static, Zipf"):
        generator = np.random.default_rng(given.seed)
        asked = drawn(given.questions, len(questions), name.endswith("Zipf"), generator)
        found = [(*run(asked, questions, counts, *each), *each) for each in product(READY, RATES)]
        spent, worst, ready, rate = min(found)
        cache = len(set(asked.tolist())) * math.log(1 / BETA) / (int(counts.sum()) * ALPHA)
        lines.append((name, f"{spent:.4f}", TURBO[name], f"{cache:.3f}", CACHE[name], ready, rate, f"{worst:.4f}"))
        print(*lines[-1], sep=",", flush=True)
    if given.questions == STATIC_QUESTIONS:
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
