"""diffprivlib's Laplace noise for each question, told how many there will be: its accountant says what each has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import by_batch, run


def work(case: Mapping[str, Any], _: str) -> Iterator[Any]:
    """Answer each question with the part of the budget that advanced composition leaves it."""
    library = import_module("diffprivlib")
    epsilon, delta = float(case["epsilon"]), float(case["delta"])
    accountant = library.BudgetAccountant(epsilon, delta, slack=delta)
    part, _ = accountant.remaining(len(case["truths"]))
    mechanism = library.mechanisms.Laplace(epsilon=part, sensitivity=1.0)
    for truths in by_batch(case, case["truths"]):
        yield np.array([mechanism.randomise(truth) for truth in truths.tolist()])


if __name__ == "__main__":
    run(work)
