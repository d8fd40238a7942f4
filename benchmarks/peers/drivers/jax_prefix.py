"""jax-privacy's streaming prefix sums, for every cell: the best Toeplitz strategy for a known number of batches.

With the word ``deviations`` instead: what it states for the largest deviation of a prefix sum, in units of 1/√ρ, at the
numbers of batches that the case lists as ``lengths``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import once, run


def library() -> tuple[Any, Any]:
    """JAX, with numbers of 64 bits, and jax-privacy's Toeplitz strategies."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax, import_module("jax_privacy.matrix_factorization.toeplitz")


def deviations(case: Mapping[str, Any], _: str) -> dict[str, Any]:
    """The largest deviation for each length."""
    _, toeplitz = library()
    return {"deviations": [deviation(toeplitz, int(length)) for length in case["lengths"]]}


def work(case: Mapping[str, Any], _: str) -> Iterator[Any]:
    """A table of all cells after each batch."""
    jax, toeplitz = library()
    batches, cells = case["increments"].shape
    coefs = toeplitz.optimal_max_error_strategy_coefs(batches)
    # A replaced row moves two cells by one each, which is √2; the strategy's columns have this norm.
    scale = float(np.linalg.norm(coefs)) / math.sqrt(float(case["rho"]))
    inverse = toeplitz.inverse_as_streaming_matrix(coefs)
    state = inverse.init_multiply(jax.numpy.zeros(cells))
    key = jax.random.key(np.random.SeedSequence().generate_state(1)[0])
    table = np.zeros(cells)
    for batch in range(batches):
        key, fresh = jax.random.split(key)
        correlated, state = inverse.multiply_next(scale * jax.random.normal(fresh, (cells,)), state)
        table = table + case["increments"][batch] + np.asarray(correlated)
        yield batch, table


def deviation(toeplitz: Any, length: int) -> float:
    """The largest deviation of a prefix sum of two groups, of which a replaced row moves both."""
    coefs = toeplitz.optimal_max_error_strategy_coefs(length)
    worst = float(np.max(toeplitz.per_query_error(strategy_coef=coefs, n=length)))
    return math.sqrt(worst) * float(np.linalg.norm(coefs))


if __name__ == "__main__":
    once(deviations) if sys.argv[3] == "deviations" else run(work)
