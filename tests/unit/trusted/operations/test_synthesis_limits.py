"""Both sides of the limits on synthetic rows; levels, members and weights where they can be written out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.domain.candidates import Candidates, collapse
from treering.domain.query import Query
from treering.domain.workload import prefixes
from treering.trusted.operations import synthesis as module
from treering.trusted.operations.synthesis import Intervals, Multisets, Synthesis, check_scores
from treering.trusted.samplers.select import SHARPEST

SCHEMA = tr.Schema({"v": tr.integers(0, 2), "w": tr.categories("a", "b")})
QUARTERS = Query.weighted(SCHEMA, [0.25, 0.5, 1.0], attributes=["v"], resolution=4)
B = Query.where(SCHEMA, w="b")
THREE = tr.Schema({"v": tr.integers(0, 2)})


def test_scores_may_be_as_large_as_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Size 5, 3 rows, weights of quarters: 60."""
    atoms = Candidates.of(collapse([QUARTERS, B])).atoms
    monkeypatch.setattr(module, "_MOST_SCORE", 61)
    check_scores(atoms, 5, 3)
    monkeypatch.setattr(module, "_MOST_SCORE", 60)
    with pytest.raises(tr.ParameterError, match=r"resolution \(4\) must stay below 2\^62"):
        check_scores(atoms, 5, 3)


@pytest.mark.parametrize(
    ("queries", "grid", "scale", "unit"),
    [
        (prefixes(THREE, "v"), 1, 10.0, Fraction(20)),
        (prefixes(THREE, "v"), 1, 2.0**-20, SHARPEST),
        ([QUARTERS, B], 4, 10.0, Fraction(80)),
        ([QUARTERS, B], 4, 2.0**-20, SHARPEST),
    ],
)
def test_weights_may_have_as_many_digits_as_the_most(
    queries: list[Query], grid: int, scale: float, unit: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 rows as 2: the worst score is 200 times the grid, in units of the scale times 2 times the grid, or of the
    sharpest scale there is."""
    most = 200 * grid / unit
    monkeypatch.setattr(module, "_FARTHEST", most)
    with pytest.raises(tr.ParameterError, match="scale is too small for 100 rows"):
        Synthesis(queries, 2, 100, scale)
    monkeypatch.setattr(module, "_FARTHEST", most + 1)
    Synthesis(queries, 2, 100, scale)


@pytest.mark.parametrize("rows", [0, -3, 2.0, True, None])
def test_a_number_of_rows_that_is_none_is_refused_before_anything_else_is_looked_at(rows: Any) -> None:
    nothing: Any = None
    with pytest.raises(tr.ParameterError, match="rows must be an integer of at least 1"):
        Synthesis(nothing, rows, 0, nothing)


def test_levels_are_the_scores_that_there_are_each_once() -> None:
    """All multisets of two of four atoms, for five true rows."""
    atoms = Candidates.of(collapse([Query.where(SCHEMA, v=0), B])).atoms
    true = np.array([3, 2])
    family = Multisets(atoms, true.tolist(), 5, 2)
    scores = sorted(
        int(np.abs(2 * true - 5 * (atoms.weights @ np.array(counts))).max())
        for part in module.listing(atoms.number, 2)
        for counts in part.tolist()
    )
    assert list(family.levels) == sorted(set(scores))
    assert [family.count(level) for level in family.levels] == [
        sum(score <= level for score in scores) for level in family.levels
    ]
    assert family.count(-1) == 0


def test_the_worst_level_is_that_of_all_rows_in_another_atom() -> None:
    """Three rows in the first of two atoms, and two synthetic ones in the second."""
    made = Intervals([3], 3, 2)
    assert made.levels[-1] == 6
    assert [made.count(level) for level in (5, 6)] == [2, 3]


def test_a_rank_beyond_the_count_is_none() -> None:
    made = Intervals([3], 3, 2)
    with pytest.raises(AssertionError, match="a rank is below the count"):
        made.member(made.count(6), 6)


# -- bounds of weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)])
def test_powers_are_bounded_closely(ratio: Fraction) -> None:
    """Within a few units in the last of twelve digits; twice the digits are closer."""
    powers = module._Powers(ratio, 70, 12)
    for exponent in (0, 1, 2, 3, 31, 64, 70):
        low, high = powers._power(exponent)
        exact = ratio**exponent
        assert Fraction(low) <= exact <= Fraction(high)
        assert Fraction(high) - Fraction(low) <= exact * Fraction(40, 10**11)
        sharper = powers.sharper()._power(exponent)
        assert Fraction(sharper[1]) - Fraction(sharper[0]) <= exact * Fraction(40, 10**23)


def test_a_stretch_weighs_between_its_fewest_and_its_most_candidates() -> None:
    """And its halves bound it better, as soon as there are some."""
    levels, ratio = [0, 2, 3, 7], Fraction(1, 2)
    counts = {0: 1, 2: 4, 3: 4, 7: 10}
    tree = module._Tree(levels, counts.__getitem__, ratio)
    powers = [ratio**level for level in levels] + [Fraction(0)]
    weights = [counts[level] * (powers[place] - powers[place + 1]) for place, level in enumerate(levels)]

    def check(stretch: module._Stretch) -> None:
        exact = sum(weights[stretch.start : stretch.end], Fraction(0))
        assert Fraction(stretch.low) <= exact <= Fraction(stretch.high)
        assert stretch.least == counts[levels[stretch.start]]

    whole = tree.stretch(0, 4)
    check(whole)
    assert (whole.least, whole.most, whole.certain) == (1, 10, False)
    before = Fraction(whole.low), Fraction(whole.high)
    first, second = tree.halves(whole)
    assert tree.halves(whole) == (first, second)
    assert [(each.start, each.end) for each in (first, second)] == [(0, 2), (2, 4)]
    assert (first.least, first.most) == (1, 4)  # The level behind its last has as many as its last.
    assert (second.least, second.most) == (4, 10)
    for stretch in (whole, first, second):
        check(stretch)
    assert before[0] < Fraction(whole.low)
    assert Fraction(whole.high) < before[1]
    for stretch in (first, second):
        for half in tree.halves(stretch):
            check(half)
            assert half.certain
            assert half.least == half.most == counts[levels[half.start]]
        check(stretch)


def test_the_vaguest_stretch_is_halved_until_only_rounding_is_left() -> None:
    levels, counts = list(range(8)), [1, 2, 4, 8, 16, 32, 64, 128]
    tree = module._Tree(levels, counts.__getitem__, Fraction(1, 2))
    whole = tree.stretch(0, 8)
    widths = [Fraction(tree._vagueness(whole))]
    while tree._halve_vaguest(whole):
        widths.append(Fraction(tree._vagueness(whole)))
    assert widths == sorted(widths, reverse=True)
    assert len(widths) == 8  # Seven cuts make eight levels.
    assert widths[-1] < Fraction(1, 10**30)
    tree._sharpen(whole)
    assert Fraction(tree._vagueness(whole)) < Fraction(1, 10**60)
