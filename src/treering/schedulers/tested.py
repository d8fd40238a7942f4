"""How good a public model is on rows that it was not learnt from: accuracy, AUC or error, from noisy counts.

A run of a learner holds rows out, drawn at random (`protocols.Gate.tally`). A model is public, and so is what it says
of an entry. `tallies` are the counts to ask for; `told` makes a `Quality` or an `Error` of them.

*Margins*, 95%, are about rows like those that were held out: both the noise and the chance of which rows were drawn.
Let σ be the noise's deviation, and n the rows, which are public.

- *Accuracy* is that of two counts, right and wrong, centred on n. Its interval is exact for binomial counts with noise
  (``theory/tails.py``), also near 0 and 1; the margin is its longer side.
- The *AUC* of binned scores, in which two rows of one bin count ½, is U/(PN), with P and N the positive and negative
  rows. Its noise is σ times the length of its gradient at the noisy counts, chance that of DeLong et al. (1988): the
  mean square of what each row adds, over P and over N. (To first order: so there is no AUC where P or N is not at least
  `CLEAR` deviations of a sum of all counts.)
- An *error* (a miss |⟨θ, x⟩ − y|, or a distance ‖θ − x‖) is in a bin of `CUTS`, which grow by a fifth, and counts as if
  errors were spread evenly over their bin. The margin allows for all of them being at one end of their bins: a tenth
  of the value. Those beyond the first cut with few rows above it, no more than noise may
  be, count as the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.boxes.erm import Model
from treering.budget.promise import Budget
from treering.domain.loss import Labels
from treering.domain.problem import FEATURE_UNIT, CellFeatures
from treering.domain.tally import Tally
from treering.gate import Tallied
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least
from treering.theory.erm.methods import root_above
from treering.theory.rings import CONFIDENCE, NORMAL
from treering.theory.tails import bounds, halved_difference

BINS: Final = 8
"""The most bins of scores on either side of 0, where predictions change."""

CLEAR: Final = 4.0
FEW: Final = 0.005
_BLOCK: Final = 2**16

CUTS: Final = tuple(2.0 ** (power / 4) for power in range(-48, 5))
"""Where bins of errors end: from 2^-12 to 2, the largest distance of two points of the unit ball."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Accuracy and AUC of a classifier on ``rows`` rows that it was not learnt from, with their margins."""

    trained: tuple[int, int]
    """The ring that the model was learnt from, as `Model.rows`."""
    rows: int
    accuracy: float
    accuracy_margin: float
    auc: float | None
    """None over points, and if there are too few rows of one of the labels."""
    auc_margin: float | None


@dataclass(frozen=True, slots=True)
class Error:
    """The root of the mean squared error of a regression, or the mean distance from a median, on ``rows`` rows that it
    was not learnt from, with its margin."""

    trained: tuple[int, int]
    """The ring that the model was learnt from, as `Model.rows`."""
    rows: int
    value: float
    margin: float
    most: float
    """Larger errors count as this: they are too few to be told from noise, or at most a two-hundredth of the rows."""


def tallies(model: Model, labels: Labels, features: CellFeatures | None) -> tuple[Tally, ...]:
    """The counts that tell how good a model is."""
    if labels == "none":
        return (Tally(model.theta, "distances", CUTS),)
    if labels == "numbers":
        return (Tally(model.theta, "misses", CUTS),)
    hits = Tally(model.theta, "margins", (0.0,))
    return (hits,) if features is None else (hits, Tally(model.theta, "scores", score_cuts(model, features)))


def told(model: Model, counts: Sequence[Tallied], rows: int) -> Quality | Error:
    """What counts of ``rows`` held-out rows say of a model, in the order of `tallies`."""
    first = counts[0]
    if first.tally.of != "margins":
        return _error(model, first, rows)
    auc, margin = (None, None) if len(counts) == 1 else _auc(counts[1])
    return Quality(model.rows, rows, *_accuracy(first, rows), auc, margin)


def noise_for(budget: Budget) -> Noise:
    """The noise of counts that cost at most the ``budget``: 1/σ² zCDP, 2/s pure (``trusted/pricing.py``)."""
    if budget.kind == "pure":
        return Laplace(at_least(2 / budget.total))
    return Gaussian(at_least(root_above(1 / budget.total)))


def _deviation(noise: Noise) -> float:
    return noise.scale * (2**0.5 if isinstance(noise, Laplace) else 1.0)


# -- classifiers -------------------------------------------------------------------------------------------------------


def _accuracy(counted: Tallied, rows: int) -> tuple[float, float]:
    wrong, right = counted.values.tolist()
    count = (right - wrong + rows) / 2
    low, high = bounds(count, rows, halved_difference(counted.noise), 1 - CONFIDENCE)
    accuracy = min(1.0, max(0.0, count / rows))
    return accuracy, max(accuracy - low, high - accuracy)


def _auc(counted: Tallied) -> tuple[float | None, float | None]:
    counts, deviation = counted.values.astype(np.float64), _deviation(counted.noise)
    found = area(counts.reshape(-1, 2), CLEAR * deviation * len(counts) ** 0.5)
    if found is None:
        return None, None
    auc, slope, chance = found
    return float(np.clip(auc, 0, 1)), NORMAL * ((deviation * slope) ** 2 + chance) ** 0.5


def scores_of(model: Model, features: CellFeatures) -> Floats:
    """The model's score of each joint value of features and label."""
    starts = range(0, features.entries, _BLOCK)
    parts = [model.predictions(features.part(start, start + _BLOCK) / FEATURE_UNIT) for start in starts]
    return np.concatenate(parts)


def score_cuts(model: Model, features: CellFeatures) -> tuple[float, ...]:
    """Where bins of scores end: at 0, and so that about as many different scores lie in each bin on either side."""
    scores = scores_of(model, features)
    cuts = np.unique([0.0, *_cuts(scores[scores <= 0]), *_cuts(scores[scores > 0])])
    return tuple(cuts.tolist())


def _cuts(scores: Floats) -> Floats:
    different = np.unique(scores)
    return different[np.linspace(0, len(different), BINS, endpoint=False, dtype=np.intp)] if len(different) else scores


def area(counts: Floats, least: float) -> tuple[float, float, float] | None:
    """The area under the ROC curve of bins with so many negative and positive rows, the length of its gradient, and the
    variance by chance; None if there are fewer than ``least`` of either.

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
    each, other = below / others - auc, above / ones - auc
    slope = float(np.linalg.norm(np.concatenate([each / ones, other / others])))
    chance = positive @ np.square(each) / ones**2 + negative @ np.square(other) / others**2
    return auc, slope, max(0.0, float(chance))


# -- errors ------------------------------------------------------------------------------------------------------------


def _error(model: Model, counted: Tallied, rows: int) -> Error:
    power = 2 if counted.tally.of == "misses" else 1
    deviation, counts = _deviation(counted.noise), counted.values.astype(np.float64)
    last = _last(counts, deviation, rows)
    sizes = np.minimum(_moments(power), CUTS[last] ** power)
    mean = max(0.0, float(counts @ sizes) / rows)
    spread = max(0.0, float(counts @ np.square(sizes)) / rows - mean**2) / rows
    margin = NORMAL * (float(sizes @ sizes) * (deviation / rows) ** 2 + spread) ** 0.5 + _width(
        counts, sizes, last, power
    )
    value, low, high = (each ** (1 / power) for each in (mean, max(0.0, mean - margin), mean + margin))
    return Error(model.rows, rows, value, max(value - low, high - value), CUTS[last])


def _width(counts: Floats, sizes: Floats, last: int, power: int) -> float:
    """How far the mean may be from that of errors spread evenly over their bins: all at one end of them, or the
    other."""
    ends = np.minimum(np.array([*CUTS, CUTS[-1]]), CUTS[last]) ** power
    starts = np.minimum(np.array([0.0, *CUTS]), CUTS[last]) ** power
    there = np.maximum(counts, 0.0)
    return float(max(there @ (ends - sizes), there @ (sizes - starts)) / max(1.0, there.sum()))


def _last(counts: Floats, deviation: float, rows: int) -> int:
    """The first cut beyond which there are few rows, or no more than noise may be: two deviations of their sum."""
    beyond = np.cumsum(counts[::-1])[::-1][1:]
    few = np.maximum(FEW * rows, 2 * deviation * np.sqrt(np.arange(len(beyond), 0, -1)))
    found = beyond <= few
    return int(found.argmax()) if found.any() else len(CUTS) - 1


def _moments(power: int) -> Floats:
    """The mean of u or of u², u uniform on a bin of errors."""
    ends = np.array([*CUTS, CUTS[-1]])
    starts = np.array([0.0, *CUTS])
    return np.asarray((starts + ends) / 2 if power == 1 else (starts**2 + starts * ends + ends**2) / 3)
