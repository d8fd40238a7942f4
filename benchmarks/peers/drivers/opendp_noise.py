"""OpenDP's Gaussian noise for each question, told how many there will be: an even part of the budget for each.

Lists of questions, after a batch, are answered as vectors. A replaced row moves each count of a vector by one at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import by_batch, run

TOGETHER = 1000


def work(case: Mapping[str, Any], _: str) -> Iterator[Any]:
    """Answer each question, or each list of them, by a measurement of its own."""
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    number, rho = len(case["truths"]), float(case["rho"])
    scale = math.sqrt(number / (2 * rho))
    single = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    vector = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    for truths in by_batch(case, case["truths"].astype(int)):
        if number > TOGETHER:
            measurement = vector >> dp.m.then_gaussian(scale)
            assert measurement.map(math.sqrt(len(truths))) * number <= rho * len(truths) * (1 + 1e-9)
            yield np.array(measurement(truths.tolist()), dtype=float)
        else:
            measurement = single >> dp.m.then_gaussian(scale)
            assert measurement.map(1) * number <= rho * (1 + 1e-9)
            yield np.array([measurement(truth) for truth in truths.tolist()], dtype=float)


if __name__ == "__main__":
    run(work)
