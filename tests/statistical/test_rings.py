"""Rings: margins hold for 95% of answers, errors for whatever an analyst asks who has seen the noise, and mistakes in
either are seen.

Coverage is counted over at least 2,400 answers with independent noise: a right margin gives less than 92% or more than
99% of them with probability below 1e-9, by the binomial law. Errors have beta = 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

import treering as tr
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.mechanisms.rings import Rings
from treering.mechanisms.series.root import RootSeries
from treering.theory import rings as theory
from treering.theory.cells import subset_radius
from treering.theory.continual import Law
from treering.theory.search import rarity
from treering.trusted.memory.database import GrowingDatabase

Floats = npt.NDArray[np.float64]

LEAST, MOST, TRIALS = 0.92, 0.99, 2_400
BETA = 1e-9

BITS = tr.Schema({f"a{number}": tr.integers(0, 1) for number in range(12)})
SIDE = 12
CUBE = tr.Schema({name: tr.integers(0, SIDE - 1) for name in ("a", "b", "c")})
"""1,728 groups."""


def test_the_limits_are_those_of_the_binomial_law() -> None:
    assert binom.cdf(math.floor(LEAST * TRIALS), TRIALS, 0.95) < 1e-9
    assert binom.sf(math.floor(MOST * TRIALS), TRIALS, 0.95) < 1e-9
    # Margins of 0.6 of their width hold for 76%.
    assert binom.sf(math.floor(LEAST * TRIALS), TRIALS, 0.7604) < 1e-9


# -- margins -----------------------------------------------------------------------------------------------------------


@cache
def ratios(delta: float, leaves: int) -> list[Floats]:
    """Errors over margins, after each leaf: each answer comes from a series of its own."""
    db = GrowingDatabase(BITS)
    db.append_cells(np.tile(np.arange(BITS.cells), 50))
    queries = [tr.Query.where(BITS, **dict.fromkeys(each, 1)) for each in list(combinations(BITS.names, 3))[:200]]
    made = [Rings(db, 8.0, delta, BETA, pace=len(queries)) for _ in range(TRIALS // len(queries))]
    found: list[Floats] = []
    for leaf in range(leaves):
        if leaf:
            db.append_cells(np.arange(BITS.cells))
        answers = [answer for rings in made for answer in rings.ask_many(queries)]
        found.append(np.array([abs(answer.value - 1 / 8) / answer.margin for answer in answers]))
    assert all(len(rings.series) == len(queries) for rings in made)
    return found


@pytest.mark.parametrize("leaf", [0, 1])
def test_margins_hold_for_95_percent_of_answers(leaf: int) -> None:
    found = ratios(1e-6, 2)[leaf]
    assert len(found) == TRIALS
    assert LEAST <= np.mean(found <= 1) <= MOST
    assert np.mean(found <= 0.6) < LEAST


def test_pure_margins_hold_for_at_least_95_percent_of_answers() -> None:
    """The bound by moments is some 1.8 times as wide as it need be: margins of a third of their width are caught."""
    (found,) = ratios(0.0, 1)
    assert np.mean(found <= 1) >= LEAST
    assert np.mean(found <= 1 / 3) < LEAST


# -- broken margins ----------------------------------------------------------------------------------------------------


def test_a_remainder_that_is_not_released_takes_nothing_off_the_margin() -> None:
    """BROKEN: k(1 − k/m) for k of m groups that are not all of the table: two of twelve months, say."""
    months = tr.Schema({"month": tr.integers(1, 12)})
    db = GrowingDatabase(months)
    db.append_cells(np.tile(np.arange(12), 1000))
    groups = Groups.of([tr.Query.where(months, month=1), tr.Query.where(months, month=2)])
    assert not groups.whole
    price = Budget("zcdp", Fraction(1, 1000))
    gate = db.open_gate(Budget("zcdp", Fraction(10**6)))
    errors = []
    for number in range(TRIALS):
        series = RootSeries(groups, price, 0, number)
        series.advance(gate)
        window = series.window(0)
        errors.append(abs(float(window.counts[0]) - 1000))
    right = theory.margin(window.law, ((1.0, 1),))
    broken = theory.margin(window.law, ((0.5, 2),))
    assert LEAST <= np.mean(np.array(errors) <= right) <= MOST
    assert np.mean(np.array(errors) <= broken) < LEAST


@pytest.mark.parametrize(("groups", "trials"), [(12, 1000), (192, 500)])
def test_what_is_at_the_top_of_a_list_needs_a_joint_margin(groups: int, trials: int) -> None:
    """BROKEN: 1.96 for the group that was chosen because its count is the largest. It is within a joint margin with
    97.5%, since the noise of what is at the top is too large, never too small."""
    assert binom.cdf(math.floor(LEAST * trials), trials, 0.975) < 1e-8
    schema = tr.Schema({"a": tr.integers(1, groups)})
    db = GrowingDatabase(schema)
    db.append_cells(np.tile(np.arange(groups), 500))
    whole = Groups.marginal(schema)
    gate = db.open_gate(Budget("zcdp", Fraction(10**6)))
    top = []
    for number in range(trials):
        series = RootSeries(whole, Budget("zcdp", Fraction(1, 1000)), 0, number)
        series.advance(gate)
        counts = series.window(0).counts
        top.append(float(counts.max() - counts.mean()))
    law = series.window(0).law
    one = ((1 - 1 / groups, 1), (1 / groups, groups - 1))
    joint = theory.margin(law, one, 1 - 0.05 / groups)
    single = theory.margin(law, one)
    assert joint / single == pytest.approx({12: 2.87, 192: 3.65}[groups] / 1.96, abs=0.01)
    assert np.mean(np.array(top) <= joint) >= LEAST
    assert np.mean(np.array(top) <= single) < 0.8


# -- analysts who look back --------------------------------------------------------------------------------------------


def best_conjunction(noise: Floats, generator: np.random.Generator, starts: int = 40) -> tr.Query:
    """The conjunction whose noise, in its own deviations, is the largest found: by turns, the best values of one
    attribute given those of the others."""
    cube = noise.reshape(CUBE.shape)
    best: tuple[float, list[npt.NDArray[np.bool_]]] = (0.0, [])
    for _ in range(starts):
        masks = [generator.random(SIDE) < 0.5 for _ in range(3)]
        reached = 0.0
        while all(mask.any() for mask in masks):
            for axis in range(3):
                others = [mask for other, mask in enumerate(masks) if other != axis]
                sums = np.einsum("ijk,j,k->i", np.moveaxis(cube, axis, 0), *[mask.astype(float) for mask in others])
                order = np.argsort(-sums)
                sizes = np.arange(1, SIDE + 1) * int(others[0].sum()) * int(others[1].sum())
                scores = np.cumsum(sums[order]) / np.sqrt(np.maximum(sizes * (1 - sizes / CUBE.cells), 1e-9))
                scores[sizes == CUBE.cells] = 0
                masks[axis] = np.isin(np.arange(SIDE), order[: int(np.argmax(scores)) + 1])
                score = float(scores.max())
            if score <= reached * (1 + 1e-9):
                break
            reached = score
        if reached > best[0]:
            best = (reached, masks)
    return tr.Query.conjunction(CUBE, dict(enumerate(best[1])))


def empty_groups(delta: float) -> tuple[Rings, Floats]:
    """Rings on a table of which all rows are in one group, and the noise of all 1,728 counts, as the analyst sees it:
    whoever knows the table knows the noise."""
    db = GrowingDatabase(CUBE)
    db.append_cells(np.zeros(400_000, dtype=np.int64))
    rings = Rings(db, 1.0, delta, BETA)
    rings.ask(tr.Query.where(CUBE, a=0, b=0, c=0))
    noise = rings._shelf.rings[0].view(0).counts
    noise[0] -= db.size
    return rings, noise


def by_order(law: Law, spectrum: theory.Spectrum, number: int) -> float:
    """BROKEN: the error of a question by its number in the order of questions, with beta = 0.05."""
    share = 0.05 * math.exp(-rarity(math.log(number)))
    weights, numbers = zip(*spectrum, strict=True)
    return subset_radius(law.cell, weights, numbers, share)


def hindsight(noise: Floats, generator: np.random.Generator) -> Iterator[tr.Query]:
    """Groups that look largest and smallest, unions of them, and the conjunctions with the most noise."""
    order = np.argsort(noise[1:]) + 1
    for place in (*order[:5].tolist(), *order[-5:].tolist()):
        yield tr.Query.conjunction(CUBE, {axis: np.arange(SIDE) == code for axis, code in enumerate(_codes(place))})
    for some in (noise > 0, noise < 0, noise > np.quantile(noise, 0.9)):
        yield tr.Query.of_table(CUBE, (0, 1, 2), some.reshape(CUBE.shape).astype(np.int64), 1)
    for sign in (1, -1):
        yield best_conjunction(sign * noise, generator)


def _codes(cell: int) -> tuple[int, ...]:
    return tuple(int(code) for code in np.unravel_index(cell, CUBE.shape))


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
def test_an_analyst_who_looks_back_is_never_beyond_an_error(delta: float) -> None:
    rings, noise = empty_groups(delta)
    ring = rings._shelf.rings[0]
    for query in hindsight(noise, np.random.default_rng(1)):
        weights = np.broadcast_to(
            query.weights().reshape([SIDE if axis in query.attributes else 1 for axis in range(3)]), CUBE.shape
        )
        exact = float(weights.reshape(-1)[0])
        # Before values are clipped to what is possible, which would hide noise.
        (told,) = ring.readings([query], ring.view(0))
        assert abs(told.value - exact) <= told.error
        answer = rings.ask(query)
        assert abs(answer.value - exact) <= answer.error


def test_an_analyst_who_looks_for_changes_is_never_beyond_an_error() -> None:
    """The groups that seem to have changed most since each boundary."""
    db = GrowingDatabase(CUBE)
    db.append_cells(np.zeros(100_000, dtype=np.int64))
    rings = Rings(db, 1.0, 1e-6, BETA)
    query = tr.Query.where(CUBE, a=0, b=0, c=0)
    rings.ask(query)
    for _ in range(12):
        db.append_cells(np.zeros(1_000, dtype=np.int64))
        rings.ask(query)
    ring = rings._shelf.rings[0]
    for since in rings.boundaries:
        view = ring.view(since)
        noise = view.counts
        noise[0] -= view.size
        for cell in (*np.argsort(noise)[:3].tolist(), *np.argsort(noise)[-3:].tolist()):
            group = tr.Query.conjunction(
                CUBE, {axis: np.arange(SIDE) == code for axis, code in enumerate(_codes(cell))}
            )
            (told,) = ring.readings([group], view)
            assert abs(told.value - float(cell == 0)) <= told.error
            assert abs(rings.ask(group, since=since).value - float(cell == 0)) <= told.error


def test_errors_by_the_order_of_questions_are_caught_by_looking_back() -> None:
    """BROKEN: the weights of an endless list of questions, for a question to noise that is out already.

    The analyst reads all 1,728 counts first, and then asks one question, number 1,729, for which the order allows 5.55
    deviations: the best conjunction in hindsight has about 6. With beta = 0.05, twenty of sixty such lives would be
    beyond an error with probability below 1e-10. The structured bound holds in all of them.
    """
    generator = np.random.default_rng(1)
    caught, lives = 0, 60
    for _ in range(lives):
        rings, noise = empty_groups(1e-6)
        ring = rings._shelf.rings[0]
        view = ring.view(0)
        query = best_conjunction(noise, generator)
        (told,) = ring.readings([query], view)
        exact = float(query.weights()[(0,) * len(query.attributes)])
        error = abs(told.value - exact)
        assert error <= told.error
        caught += error * view.size > by_order(view.law, theory.spectrum(query), CUBE.cells + 1)
    assert binom.sf(lives // 3 - 1, lives, 0.05) < 1e-10
    assert caught >= lives // 3
