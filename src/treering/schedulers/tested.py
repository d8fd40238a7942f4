"""How good a public model is on rows that came after it: accuracy and AUC, from noisy counts.

A model is public, and so is what it says of each joint value of the features. `score_groups` sorts joint values by
their score into a few bins, and by label: disjoint groups, whose noisy counts over some rows are one release of the
gate. `Quality` is computed from them: what it says is about those rows.

*Margins*, 95%, are those of the noise. Let σ be its deviation, m the number of groups and n the rows, which are public.
The right predictions are the counts of c of the groups; centred on n they have variance σ²c(1 − c/m). The AUC of binned
scores, in which two rows of one bin count ½, is U/(PN), with P and N the positive and negative rows; its margin is
1.96σ times the length of its gradient at the noisy counts. (To first order: so there is no AUC where P or N is not at
least `CLEAR` deviations of a sum of m counts.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.arrays import Floats, Ints
from treering.boxes.erm import Model
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.problem import FEATURE_UNIT, CellFeatures
from treering.gate import Combined
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least
from treering.theory.erm.methods import root_above
from treering.theory.rings import NORMAL

BINS: Final = 8
"""The most bins on either side of 0, where predictions change."""

CLEAR: Final = 4.0
_BLOCK: Final = 2**16


@dataclass(frozen=True, slots=True)
class Quality:
    """Accuracy and AUC of a model on ``rows`` rows that it was not learnt from, with the margins of their noise."""

    trained: tuple[int, int]
    """The rows that the model was learnt from, as `Model.rows`."""
    rows: int
    accuracy: float
    accuracy_margin: float
    auc: float | None
    """None if there are too few rows of one of the labels."""
    auc_margin: float | None


def scores_of(model: Model, features: CellFeatures) -> Floats:
    """The model's score of each joint value of features and label."""
    starts = range(0, features.entries, _BLOCK)
    parts = [model.predictions(features.part(start, start + _BLOCK) / FEATURE_UNIT) for start in starts]
    return np.concatenate(parts)


def score_groups(model: Model, features: CellFeatures) -> Groups:
    """Groups of joint values: number 2b for the negative ones of bin b of the scores, 2b + 1 for the positive ones.

    Bins lie on one side of 0, and about as many different scores are in each.
    """
    scores = scores_of(model, features)
    cuts = np.unique([0.0, *_cuts(scores[scores <= 0]), *_cuts(scores[scores > 0])])
    found = np.searchsorted(cuts, scores)  # A score above a cut, and no other, is beyond it.
    _, bins = np.unique(found, return_inverse=True)
    shape = tuple(features.schema.shape[position] for position in features.joint)
    table = 2 * bins.reshape(shape).astype(np.int64) + (features.labels > 0).reshape(shape)
    return Groups(features.joint, tuple(np.arange(size, dtype=np.int64) for size in shape), table)


def _cuts(scores: Floats) -> Floats:
    different = np.unique(scores)
    return different[np.linspace(0, len(different), BINS, endpoint=False, dtype=np.intp)] if len(different) else scores


def noise_for(budget: Budget) -> Noise:
    """The noise of a test that costs a row at most the ``budget``: 1/σ² zCDP, 2/s pure (``trusted/combining.py``)."""
    if budget.kind == "pure":
        return Laplace(at_least(2 / budget.total))
    return Gaussian(at_least(root_above(1 / budget.total)))


def quality(model: Model, features: CellFeatures, tests: Sequence[Combined]) -> Quality:
    """What the tests of one model, over rows that do not overlap, say together."""
    groups, noise = tests[0].groups, tests[0].noise
    deviation = noise.scale * (2**0.5 if isinstance(noise, Laplace) else 1.0)
    assert groups.table is not None
    counts = np.sum([test.values for test in tests], axis=0).astype(np.float64)
    size = sum(span.end - span.start for test in tests for span in test.spans)
    return _quality(model, scores_of(model, features), groups.table, counts, deviation * len(tests) ** 0.5, size)


def _quality(model: Model, scores: Floats, table: Ints, counts: Floats, deviation: float, size: int) -> Quality:
    bins, groups = table.reshape(-1) // 2, len(counts)
    highest = np.full(-(-groups // 2), -np.inf)
    np.maximum.at(highest, bins, scores)
    right = np.zeros(groups, dtype=bool)
    right[0::2] = highest <= 0
    right[1::2] = highest[: groups // 2] > 0
    chosen = int(right.sum())
    accuracy = (counts[right].sum() + chosen / groups * (size - counts.sum())) / size
    margin = NORMAL * deviation * (chosen * (1 - chosen / groups)) ** 0.5 / size
    auc = area(np.append(counts, 0.0)[: 2 * len(highest)].reshape(-1, 2), CLEAR * deviation * groups**0.5)
    told = (None, None) if auc is None else (float(np.clip(auc[0], 0, 1)), NORMAL * deviation * auc[1])
    return Quality(model.rows, size, float(np.clip(accuracy, 0, 1)), margin, *told)


def area(counts: Floats, least: float) -> tuple[float, float] | None:
    """The area under the ROC curve of bins with so many negative and positive rows, and the length of its gradient;
    None if there are fewer than ``least`` of either.

    >>> area(np.array([[3.0, 1.0], [1.0, 3.0]]), 1.0)[0]
    0.75
    """
    negative, positive = counts[:, 0], counts[:, 1]
    others, ones = negative.sum(), positive.sum()
    if min(others, ones) < least or min(others, ones) <= 0:
        return None
    below = np.cumsum(negative) - negative / 2
    above = ones - np.cumsum(positive) + positive / 2
    auc = float(positive @ below / (ones * others))
    gradient = np.concatenate([(below / others - auc) / ones, (above / ones - auc) / others])
    return auc, float(np.linalg.norm(gradient))
