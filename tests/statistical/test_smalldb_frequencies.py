"""SmallDB draws synthetic databases with the exact probabilities of the exponential mechanism, by enumeration and by
bands; with another epsilon, 3/2 or 2/3 of it, or half the score's scale, it is rejected.

Every check has a false-alarm rate of at most 1e-9 and a bound on its miss rate that is asserted (``support.goodness``).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.goodness import Integers, Masses, fits, miss_rate
from support.schemas import cell_weights
from treering.domain.query import Query
from treering.domain.workload import prefixes, ranges
from treering.trusted.operations.synthesis import Synthesis

DRAWS = 3_000
MISSED = 1e-6

Cells: TypeAlias = tuple[int, ...]
FOUR = tr.Schema({"v": tr.integers(0, 3)})
CROSS = tr.Schema({"v": tr.integers(0, 2), "w": tr.categories("a", "b")})

CASES = pytest.mark.parametrize(
    ("class_", "true", "rows", "scale"),
    [
        pytest.param(prefixes(FOUR, "v"), (0,) * 5 + (1,) * 2 + (3,) * 4, 3, 1.2, id="prefixes"),
        pytest.param(prefixes(FOUR, "v"), (1, 2), 4, 0.25, id="prefixes of few rows"),
        pytest.param(ranges(FOUR, "v"), (0,) * 5 + (1,) * 2 + (3,) * 4, 3, 1.5, id="intervals"),
        pytest.param(ranges(FOUR, "v"), (2,) * 30 + (3,) * 7, 2, 6.0, id="intervals of many rows"),
        pytest.param(
            [Query.where(CROSS, v=[0, 1]), Query.where(CROSS, w="b")], (0, 0, 1, 2, 5, 5, 5), 3, 0.8, id="enumeration"
        ),
        pytest.param(
            [Query.weighted(CROSS, [0, 0.5, 1], attributes=["v"], resolution=4), Query.where(CROSS, w="b")],
            (0, 1, 1, 2, 4, 5),
            2,
            0.8,
            id="weighted",
        ),
    ],
)


def candidates(class_: Sequence[Query], rows: int) -> list[Cells]:
    weights = np.array([cell_weights(query) for query in class_]).T
    first = sorted({tuple(weights[cell]): cell for cell in reversed(range(len(weights)))}.values())
    return list(itertools.combinations_with_replacement(first, rows))


def masses(class_: Sequence[Query], true: Cells, rows: int, scale: float) -> Masses:
    """Probabilities ∝ e^{−max_f |C_f(x) − (n/m)·C_f(y)|/scale}, written out."""
    weights = np.array([cell_weights(query) / query.scale for query in class_])
    target = weights[:, list(true)].sum(axis=1)
    scores = [
        np.abs(target - len(true) / rows * weights[:, list(drawn)].sum(axis=1)).max()
        for drawn in candidates(class_, rows)
    ]
    law = np.exp(-np.array(scores) / scale)
    return np.asarray(law / law.sum())


def frequencies(class_: Sequence[Query], true: Cells, rows: int, scale: float) -> Integers:
    db = TestDatabase(class_[0].schema, true)
    synthesis = Synthesis(class_, rows, len(true), scale)
    exact = db.rows.cells.count_many(synthesis.asked).tolist()
    drawn = Counter(synthesis.draw(exact) for _ in range(DRAWS))
    every = candidates(class_, rows)
    assert set(drawn) <= set(every)
    return np.array([drawn[each] for each in every], dtype=np.int64)


@CASES
def test_frequencies_are_those_of_the_law(class_: list[Query], true: Cells, rows: int, scale: float) -> None:
    assert fits(frequencies(class_, true, rows, scale), masses(class_, true, rows, scale))


@CASES
@pytest.mark.parametrize("tilt", [2 / 3, 3 / 2])
def test_another_epsilon_is_rejected(class_: list[Query], true: Cells, rows: int, scale: float, tilt: float) -> None:
    right, wrong = masses(class_, true, rows, scale), masses(class_, true, rows, scale / tilt)
    assert miss_rate(right, wrong, DRAWS) < MISSED
    assert not fits(frequencies(class_, true, rows, scale / tilt), right)


def test_the_listing_and_the_bands_draw_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same class, its structure overlooked."""
    class_, true = prefixes(FOUR, "v"), (0,) * 5 + (1,) * 2 + (3,) * 4
    monkeypatch.setattr("treering.domain.candidates.arcs", lambda _: None)
    assert fits(frequencies(class_, true, 3, 1.2), masses(class_, true, 3, 1.2))
