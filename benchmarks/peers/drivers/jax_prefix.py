"""jax-privacy's streaming prefix sums, for every cell: the best Toeplitz strategy for a known number of batches.

With the word ``deviations`` instead: what it states for the largest deviation of a prefix sum, in units of 1/√ρ, at the
numbers of batches that the case lists as ``lengths``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import run


def work(case: Mapping[str, Any], word: str) -> dict[str, Any]:
    """A table of all cells after each batch."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    toeplitz = import_module("jax_privacy.matrix_factorization.toeplitz")
    if word == "deviations":
        return {"deviations": [deviation(toeplitz, int(length)) for length in case["lengths"]]}
    batches, cells = case["increments"].shape
    coefs = toeplitz.optimal_max_error_strategy_coefs(batches)
    # A replaced row moves two cells by one each, which is √2; the strategy's columns have this norm.
    scale = float(np.linalg.norm(coefs)) / math.sqrt(float(case["rho"]))
    inverse = toeplitz.inverse_as_streaming_matrix(coefs)
    state = inverse.init_multiply(jax.numpy.zeros(cells))
    key = jax.random.key(np.random.SeedSequence().generate_state(1)[0])
    tables, noise = [], np.zeros(cells)
    for batch in range(batches):
        key, fresh = jax.random.split(key)
        correlated, state = inverse.multiply_next(scale * jax.random.normal(fresh, (cells,)), state)
        noise = noise + np.asarray(correlated)
        tables.append(case["increments"][: batch + 1].sum(axis=0) + noise)
    return {"tables": np.array(tables), "at": np.arange(batches)}


def deviation(toeplitz: Any, length: int) -> float:
    """The largest deviation of a prefix sum of two groups, of which a replaced row moves both."""
    coefs = toeplitz.optimal_max_error_strategy_coefs(length)
    worst = float(np.max(toeplitz.per_query_error(strategy_coef=coefs, n=length)))
    return math.sqrt(worst) * float(np.linalg.norm(coefs))


if __name__ == "__main__":
    run(work)
