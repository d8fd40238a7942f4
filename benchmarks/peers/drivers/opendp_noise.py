"""OpenDP's Gaussian noise for each question, told how many there will be: an even part of the budget for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from benchmarks.peers.drivers.common import run


def work(case: Mapping[str, Any], _: str) -> dict[str, Any]:
    """Answer each question by a measurement of its own."""
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    truths = case["truths"].astype(int).tolist()
    scale = math.sqrt(len(truths) / (2 * float(case["rho"])))  # A replaced row moves a count by one.
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    measurement = space >> dp.m.then_gaussian(scale)
    assert measurement.map(1) * len(truths) <= float(case["rho"]) * (1 + 1e-9)
    return {"answers": [measurement(truth) for truth in truths]}


if __name__ == "__main__":
    run(work)
