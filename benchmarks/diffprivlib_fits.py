"""diffprivlib's logistic regression, in an environment of its own: `benchmarks.compare_diffprivlib` runs this file.

    python diffprivlib_fits.py ENTRIES.npz EPSILON SEEDS C...

ENTRIES has ``vectors`` of norm at most 1, ``labels`` and ``counts``: how many rows each vector stands for. Prints the
coefficients, for each C and seed, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib import import_module

import numpy as np


def main(path: str, epsilon: str, seeds: str, *strengths: str) -> None:
    """Fit and print."""
    # It has no types, and is not installed where the rest of the repository is checked.
    regression = import_module("diffprivlib.models").LogisticRegression
    warnings.filterwarnings("ignore", message=".*L-BFGS-B", category=DeprecationWarning)
    given = np.load(path)
    # It takes no weights, so every row is there.
    vectors, labels = (np.repeat(given[name], given["counts"], axis=0) for name in ("vectors", "labels"))
    fits: dict[str, list[list[float]]] = {}
    for strength in strengths:
        made = (
            regression(
                epsilon=float(epsilon),
                data_norm=1.0,
                C=float(strength),
                fit_intercept=False,
                max_iter=1000,
                random_state=seed,
            )
            for seed in range(int(seeds))
        )
        fits[strength] = [model.fit(vectors, labels).coef_[0].tolist() for model in made]
    print(json.dumps(fits))


if __name__ == "__main__":
    main(*sys.argv[1:])
