"""SmartNoise's synthesizers, anew whenever the table has doubled: mwem, mst or aim, as the word says.

It has no composition of its own: epsilon and delta are split evenly over the runs, told their number. Synthetic rows,
as many as there are true ones, are the table. MWEM is pure and leaves delta unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.drivers.common import doublings, run, upto


def work(case: Mapping[str, Any], word: str) -> Iterator[Any]:
    """A table of all cells at each doubling."""
    synthesizer, frame = import_module("snsynth").Synthesizer, import_module("pandas").DataFrame
    shape, times = tuple(case["shape"].tolist()), doublings(case)
    names = list("abcdefgh"[: len(shape)])
    parts = {"epsilon": float(case["epsilon"]) / len(times)}
    if word != "mwem":
        parts["delta"] = float(case["delta"]) / len(times)
    for batch in times:
        rows = np.repeat(np.arange(np.prod(shape)), upto(case, batch))
        codes = dict(zip(names, np.unravel_index(rows, shape), strict=True))
        made = synthesizer.create(word, **parts)
        made.fit(frame(codes), categorical_columns=names, preprocessor_eps=0.0)
        drawn = made.sample(len(rows))
        cells = np.ravel_multi_index([drawn[name].to_numpy().astype(int) for name in names], shape)
        yield batch, np.bincount(cells, minlength=int(np.prod(shape)))


if __name__ == "__main__":
    run(work)
