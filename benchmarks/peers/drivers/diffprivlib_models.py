"""diffprivlib's logistic regression on a stream: once at its end, and anew at doublings with an even part each.

CASE has ``x``, rows of length at most 1, ``y``, ``at``, the sizes at which there is a new model, and ``runs``. Returns
``static``, for each run the coefficients and the intercept of one model of all rows, and ``growing``, of one for each
size.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import once


def work(case: Mapping[str, Any], _: str) -> dict[str, Any]:
    """Fit them all."""
    regression = import_module("diffprivlib.models").LogisticRegression
    x, y, epsilon = case["x"], case["y"], float(case["epsilon"])

    def fitted(size: int, part: float) -> Any:
        model = regression(epsilon=part, data_norm=1.0, max_iter=1000).fit(x[:size], y[:size])
        return np.concatenate([model.coef_[0], model.intercept_])

    sizes, runs = case["at"].tolist(), range(int(case["runs"]))
    return {
        "static": np.array([fitted(len(y), epsilon) for _ in runs]),
        "growing": np.array([[fitted(size, epsilon / len(sizes)) for size in sizes] for _ in runs]),
    }


if __name__ == "__main__":
    once(work)
