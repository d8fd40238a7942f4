"""mbi: noisy two-way marginals of all attributes, fitted by a graphical model, anew whenever the table has doubled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import doublings, run, upto


def work(case: Mapping[str, Any], _: str) -> Iterator[Any]:
    """A table of all cells at each doubling, for an even part of the budget each."""
    import_module("jax").config.update("jax_enable_x64", True)
    mbi = import_module("mbi")
    shape = tuple(case["shape"].tolist())
    names = tuple("abcdefgh"[: len(shape)])
    domain, pairs, times = mbi.Domain(names, shape), list(combinations(range(len(shape)), 2)), doublings(case)
    scale = math.sqrt(len(pairs) * len(times) / float(case["rho"]))  # A replaced row moves two cells of a marginal.
    generator = np.random.default_rng()
    for batch in times:
        cube = upto(case, batch).reshape(shape)
        measurements = []
        for pair in pairs:
            marginal = cube.sum(axis=tuple(axis for axis in range(len(shape)) if axis not in pair))
            noisy = marginal.reshape(-1) + generator.normal(scale=scale, size=marginal.size)
            measurements.append(mbi.LinearMeasurement(noisy, tuple(names[axis] for axis in pair), stddev=scale))
        model = mbi.estimation.MirrorDescent().estimate(domain, measurements, known_total=float(cube.sum()))
        yield batch, np.asarray(model.project(names).datavector()).reshape(-1)


if __name__ == "__main__":
    run(work)
