"""What counts say of a model, against the same figures written down again, one bin at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from support.databases import TestDatabase
from treering.boxes.erm import Model
from treering.budget.cost import FREE
from treering.domain.attribute import categories, integers
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures
from treering.domain.schema import Schema
from treering.domain.tally import Tally
from treering.gate import Tallied
from treering.noise import Gaussian, Laplace, Noise
from treering.schedulers import tested
from treering.schedulers.ermrings import ERMRings
from treering.schedulers.tested import BINS, CLEAR, CUTS, FEW, Error, Quality, area, score_cuts, scores_of, told
from treering.theory.tails import bounds, halved_difference

SCHEMA = Schema({"n": integers(0, 40), "late": categories("no", "yes")})
FEATURES = CellFeatures.one_hot(SCHEMA, ["n"], "late = 'yes'")
NORMAL = 1.959963984540054
DEVIATIONS: list[tuple[Noise, float]] = [(Gaussian(3.0), 3.0), (Laplace(3.0), 3.0 * math.sqrt(2))]


@pytest.fixture(scope="module", name="model")
def learnt() -> Model:
    return ERMRings(TestDatabase(SCHEMA, [0, 1] * 500), Logistic(), 1.0, 1e-6, features=FEATURES).update()


def _tallied(of: Any, cuts: Sequence[float], noise: Noise, values: Sequence[int]) -> Tallied:
    return Tallied(100, FREE, Tally((0.0,), of, tuple(cuts)), noise, np.array(values, dtype=np.int64))


def test_the_constants() -> None:
    """They are in the documentation of the module, and what is shown to people depends on them."""
    assert (BINS, CLEAR, FEW) == (8, 4.0, 0.005)
    assert (CUTS[0], CUTS[-1], len(CUTS)) == (2.0**-12, 2.0, 53)
    np.testing.assert_allclose(np.array(CUTS[1:]) / np.array(CUTS[:-1]), 2**0.25)


@pytest.mark.parametrize(("noise", "deviation"), DEVIATIONS)
@pytest.mark.parametrize(
    ("wrong", "right", "accuracy"), [(22, 80, 0.79), (-3, 120, 1.0), (130, -2, 0.0), (51, 49, 0.49)]
)
def test_accuracy(model: Model, noise: Noise, deviation: float, wrong: int, right: int, accuracy: float) -> None:
    """Centred on the public number of rows: right − wrong = a·n − (1 − a)·n."""
    found = told(model, [_tallied("margins", [0.0], noise, [wrong, right])], 100)
    assert isinstance(found, Quality)
    assert (found.trained, found.rows, found.auc, found.auc_margin) == (model.rows, 100, None, None)
    assert found.accuracy == pytest.approx(accuracy, abs=1e-12)
    low, high = bounds((right - wrong + 100) / 2, 100, halved_difference(noise), 0.05)
    assert found.accuracy_margin == pytest.approx(max(accuracy - low, high - accuracy), rel=1e-9)
    variance = deviation**2 / (2 * 100**2) + accuracy * (1 - accuracy) / 100
    assert found.accuracy_margin >= 0.9 * NORMAL * math.sqrt(variance)


def _by_pairs(counts: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float, float]:
    """U/(PN) by comparing all pairs; the mean squares of what each row adds (DeLong); the gradient by differences."""

    def auc(table: np.ndarray[Any, np.dtype[np.float64]]) -> float:
        wins = 0.0
        for high, (_, ones) in enumerate(table):
            for low, (others, _) in enumerate(table):
                wins += ones * others * (1.0 if high > low else 0.5 if high == low else 0.0)
        return wins / float(table[:, 0].sum() * table[:, 1].sum())

    area_now, (others, ones) = auc(counts), counts.sum(axis=0)
    chance = 0.0
    for place in range(len(counts)):
        below = (counts[:place, 0].sum() + counts[place, 0] / 2) / others
        above = (counts[place + 1 :, 1].sum() + counts[place, 1] / 2) / ones
        chance += counts[place, 1] * (below - area_now) ** 2 / ones**2
        chance += counts[place, 0] * (above - area_now) ** 2 / others**2
    steps = []
    for where in np.ndindex(counts.shape):
        moved, back = counts.copy(), counts.copy()
        moved[where] += 1e-3
        back[where] -= 1e-3
        steps.append((auc(moved) - auc(back)) / 2e-3)
    return area_now, math.hypot(*steps), chance


COUNTS = np.array([[300.0, 50.0], [220.0, 120.0], [90.0, 250.0], [40.0, 330.0]])


def test_the_area_its_gradient_and_its_chance() -> None:
    found = area(COUNTS, 1.0)
    assert found is not None
    np.testing.assert_allclose(found, _by_pairs(COUNTS), rtol=1e-5)
    turned = area(COUNTS[::-1], 1.0)
    assert turned is not None
    np.testing.assert_allclose(turned, _by_pairs(COUNTS[::-1]), rtol=1e-5)


def test_negative_counts_have_no_negative_chance() -> None:
    found = area(np.array([[50.0, -40.0], [10.0, 60.0], [-50.0, 1.0]]), 1.0)
    assert found is not None
    assert found[2] == 0.0


@pytest.mark.parametrize("column", [0, 1])
def test_there_is_an_area_from_the_least_rows_on(column: int) -> None:
    counts = np.array([[5.0, 50.0], [5.0, 50.0]])
    counts = counts if column == 0 else counts[:, ::-1]
    assert area(counts, 10.0) is not None
    assert area(counts, 10.5) is None
    assert area(counts / 100, 0.0) is not None  # A tenth of a row is more than none.
    empty = counts * np.array([column == 1, column == 0])
    assert area(empty, 0.0) is None
    assert area(empty - 1e-9, -1.0) is None


@pytest.mark.parametrize(("noise", "deviation"), DEVIATIONS)
def test_the_quality_has_the_area_with_its_margin(model: Model, noise: Noise, deviation: float) -> None:
    hits = _tallied("margins", [0.0], noise, [400, 1000])
    found = told(model, [hits, _tallied("scores", [-1.0, 0.0, 1.0], noise, COUNTS.ravel().astype(int).tolist())], 1400)
    assert isinstance(found, Quality)
    value, slope, chance = _by_pairs(COUNTS)
    assert found.auc == pytest.approx(value)
    assert found.auc_margin == pytest.approx(NORMAL * math.sqrt((deviation * slope) ** 2 + chance), rel=1e-5)


@pytest.mark.parametrize(("noise", "deviation"), DEVIATIONS)
def test_an_area_needs_four_deviations_of_the_sum(model: Model, noise: Noise, deviation: float) -> None:
    """Of all six counts: 4·√6·σ rows of each label."""
    hits, needed = _tallied("margins", [0.0], noise, [400, 1000]), math.ceil(4 * math.sqrt(6) * deviation)
    for ones, enough in ((needed, True), (needed - 1, False)):
        found = told(model, [hits, _tallied("scores", [-1.0, 0.0], noise, [300, 0, 100, 0, 0, ones])], 1400)
        assert isinstance(found, Quality)
        assert (found.auc is not None) == (found.auc_margin is not None) == enough


@pytest.mark.parametrize(("counts", "value"), [([300, -60, 0, 300], 1.0), ([0, 300, 300, -60], 0.0)])
def test_an_area_is_a_share(model: Model, counts: list[int], value: float) -> None:
    """Noise may carry it beyond: here to 9/8, and to −1/8."""
    noise = Gaussian(0.1)
    found = told(model, [_tallied("margins", [0.0], noise, [1, 9]), _tallied("scores", [0.0], noise, counts)], 10)
    assert isinstance(found, Quality)
    assert found.auc == value


# -- errors ------------------------------------------------------------------------------------------------------------


def _expected(counts: Sequence[int], deviation: float, rows: int, power: int) -> tuple[float, float, float]:
    """Value, margin and most, as the module's text has them."""
    most = CUTS[-1]
    for place, cut in enumerate(CUTS):
        above = counts[place + 1 :]
        if sum(above) <= max(0.005 * rows, 2 * deviation * math.sqrt(len(above))):
            most = cut
            break
    sizes = []
    for low, high in zip([0.0, *CUTS], [*CUTS, CUTS[-1]], strict=True):
        mean = (low + high) / 2
        if power == 2:
            mean = (high**3 - low**3) / (3 * (high - low)) if high > low else high**2
        sizes.append(min(mean, most**power))
    mean = max(0.0, sum(n * size for n, size in zip(counts, sizes, strict=True)) / rows)
    square = sum(n * size**2 for n, size in zip(counts, sizes, strict=True)) / rows
    spread = max(0.0, square - mean**2) / rows
    margin = NORMAL * math.sqrt(sum(size**2 for size in sizes) * deviation**2 / rows**2 + spread)
    there = [max(0, n) for n in counts]
    cuts = [0.0, *CUTS, CUTS[-1]]
    ends = [[min(cut, most) ** power for cut in side] for side in (cuts[:-1], cuts[1:])]
    off = [abs(sum(n * (end - size) for n, end, size in zip(there, side, sizes, strict=True))) for side in ends]
    margin += max(off) / max(1, sum(there))
    value, low, high = (each ** (1 / power) for each in (mean, max(0.0, mean - margin), mean + margin))
    return value, max(value - low, high - value), most


@pytest.mark.parametrize("of", ["misses", "distances"])
def test_errors_at_either_end_of_their_bins_are_within_the_margin(model: Model, of: str) -> None:
    """As those of a model that misses every label by 0.53, or by 0.595: the ends of one bin."""
    for error in (0.5 * 1.0001, 0.53, 0.59):
        place = int(np.searchsorted(CUTS, error))
        found = told(model, [_tallied(of, CUTS, Gaussian(1.0), _few({place: 10_000}))], 10_000)
        assert isinstance(found, Error)
        assert abs(found.value - error) <= found.margin <= 0.12 * error


def _few(places: dict[int, int]) -> list[int]:
    return [places.get(place, 0) for place in range(len(CUTS) + 1)]


ERRORS = [
    _few({20: 30, 30: 500, 31: 400, 40: 70}),
    _few({0: 700, 1: 300}),
    _few({52: 400, 53: 600}),
    _few({53: 1000}),
    _few({10: 995, 40: 5}),
    _few({10: 994, 40: 6}),
    _few({3: 2, 10: -500, 52: 600}),
    _few({30: -1000}),
    _few({}),
    [7] * 54,
    list(range(54)),
    list(range(54))[::-1],
]


@pytest.mark.parametrize(("noise", "deviation"), [*DEVIATIONS, (Gaussian(1e-9), 1e-9)])
@pytest.mark.parametrize(("of", "power"), [("misses", 2), ("distances", 1)])
@pytest.mark.parametrize("counts", ERRORS)
def test_errors(model: Model, noise: Noise, deviation: float, of: str, power: int, counts: list[int]) -> None:
    found = told(model, [_tallied(of, CUTS, noise, counts)], 1000)
    assert isinstance(found, Error)
    assert (found.trained, found.rows) == (model.rows, 1000)
    np.testing.assert_allclose(
        [found.value, found.margin, found.most], _expected(counts, deviation, 1000, power), rtol=1e-9, atol=1e-15
    )


def test_few_rows_are_a_two_hundredth_and_two_deviations_of_noise(model: Model) -> None:
    """Both at the boundary itself, and one row beyond it."""
    at = CUTS[20]
    for noise, rows, beyond, most in (
        (Gaussian(1e-9), 1000, 5, at),
        (Gaussian(1e-9), 1000, 6, CUTS[40]),
        (Gaussian(10.0), 1000, 114, at),  # 20·√33 = 114.9
        (Gaussian(10.0), 1000, 115, CUTS[40]),
    ):
        found = told(model, [_tallied("distances", CUTS, noise, _few({20: rows - beyond, 40: beyond}))], rows)
        assert isinstance(found, Error)
        assert found.most == pytest.approx(most) if beyond != 115 else found.most > at


# -- cuts --------------------------------------------------------------------------------------------------------------


def test_scores_do_not_depend_on_the_blocks_they_are_computed_in(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scores_of(model, FEATURES)
    assert len(whole) == FEATURES.entries == 82
    for block in (1, 7, 41, 82, 100):
        monkeypatch.setattr(tested, "_BLOCK", block)
        np.testing.assert_allclose(scores_of(model, FEATURES), whole, rtol=1e-12)


def test_the_cuts_are_every_eighth_of_the_different_scores(model: Model) -> None:
    kept = model.theta
    steps = np.zeros(len(kept))
    steps[:41] = (np.arange(41) - 27.0) / 100  # Of 41 scores, 28 are not above 0: 0 itself is one of them.
    try:
        model.theta = tuple(steps.tolist())
        scores = np.unique(scores_of(model, FEATURES))
        cuts = score_cuts(model, FEATURES)
    finally:
        model.theta = kept
    low, high = scores[scores <= 0], scores[scores > 0]
    assert (len(low), len(high)) == (28, 13)
    expected = {0.0, *(low[each * 28 // 8] for each in range(8)), *(high[each * 13 // 8] for each in range(8))}
    assert cuts == tuple(sorted(expected))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_scores_on_one_side_of_zero_have_cuts_on_that_side(model: Model, sign: float) -> None:
    kept = model.theta
    steps = np.zeros(len(kept))
    steps[:41] = sign * (np.arange(41) + 1.0) / 100
    try:
        model.theta = tuple(steps.tolist())
        cuts = score_cuts(model, FEATURES)
    finally:
        model.theta = kept
    assert len(cuts) == 9
    assert 0.0 in cuts
    assert all(cut * sign >= 0 for cut in cuts)
