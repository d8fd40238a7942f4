"""diffprivlib's Laplace noise for each question, told how many there will be: its accountant says what each has."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from benchmarks.peers.drivers.common import run


def work(case: Mapping[str, Any], _: str) -> dict[str, Any]:
    """Answer each question with the part of the budget that advanced composition leaves it."""
    library = import_module("diffprivlib")
    truths = case["truths"].tolist()
    epsilon, delta = float(case["epsilon"]), float(case["delta"])
    accountant = library.BudgetAccountant(epsilon, delta, slack=delta)
    part, _ = accountant.remaining(len(truths))
    mechanism = library.mechanisms.Laplace(epsilon=part, sensitivity=1.0)
    return {"answers": [mechanism.randomise(truth) for truth in truths]}


if __name__ == "__main__":
    run(work)
