"""Prefixes and intervals: counts, members and law against the listing of all candidates. The distance is zero."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from treering.trusted.operations.synthesis import Intervals, Prefixes, path, paths
from treering.trusted.samplers.select import base

Counts: TypeAlias = tuple[int, ...]
Family: TypeAlias = Prefixes | Intervals


def listed(atoms: int, rows: int) -> Iterator[Counts]:
    for chosen in itertools.combinations_with_replacement(range(atoms), rows):
        yield tuple(chosen.count(atom) for atom in range(atoms))


def score(kind: type[Family], true: Counts, drawn: Counts) -> int:
    """rows times the largest error in rows, from its definition."""
    size, rows = sum(true), sum(drawn)
    atoms = range(len(true))
    starts = (0,) if kind is Prefixes else atoms
    stretches = [range(start, end + 1) for start in starts for end in atoms if start <= end]
    return max(abs(sum(rows * true[atom] - size * drawn[atom] for atom in stretch)) for stretch in stretches)


def family(kind: type[Family], true: Counts, rows: int) -> Family:
    return kind(list(itertools.accumulate(true))[:-1], sum(true), rows)


KINDS = pytest.mark.parametrize("kind", [Prefixes, Intervals])
TRUE = st.lists(st.integers(0, 5), min_size=2, max_size=5).map(tuple).filter(lambda true: sum(true) > 0)


@KINDS
@settings(deadline=None, max_examples=60)
@given(true=TRUE, rows=st.integers(1, 6))
def test_counts_and_members_are_those_of_the_list(kind: type[Family], true: Counts, rows: int) -> None:
    made = family(kind, true, rows)
    scores = {drawn: score(kind, true, drawn) for drawn in listed(len(true), rows)}
    assert set(scores.values()) <= set(made.levels)
    assert list(made.levels) == sorted(set(made.levels))
    for level in made.levels:
        within = {drawn for drawn, value in scores.items() if value <= level}
        assert made.count(level) == len(within)
    for level in {min(scores.values()), sorted(scores.values())[len(scores) // 2], max(scores.values())}:
        members = [tuple(made.member(rank, level)) for rank in range(made.count(level))]
        assert len(members) == len(set(members))
        assert set(members) == {drawn for drawn, value in scores.items() if value <= level}


def law(made: Family, ratio: Fraction) -> dict[Counts, Fraction]:
    """The probabilities of ``layers`` and `member` together: a level, then one of the candidates within it."""
    levels: Sequence[int] = made.levels
    powers = [ratio**level for level in levels] + [Fraction(0)]
    masses: dict[Counts, Fraction] = {}
    for place, level in enumerate(levels):
        for rank in range(made.count(level)):
            drawn = tuple(made.member(rank, level))
            masses[drawn] = masses.get(drawn, Fraction(0)) + powers[place] - powers[place + 1]
    total = sum(masses.values())
    return {drawn: mass / total for drawn, mass in masses.items()}


@KINDS
@pytest.mark.parametrize(
    ("true", "rows", "scale"),
    [
        ((3, 0, 4), 3, Fraction(2)),
        ((1, 5), 4, Fraction(1, 3)),
        ((2, 2, 1, 3), 3, Fraction(7)),
        ((0, 0, 9), 5, Fraction(1)),
    ],
)
def test_the_law_is_the_exponential_mechanism_to_the_last_bit(
    kind: type[Family], true: Counts, rows: int, scale: Fraction
) -> None:
    """Total variation 0: the two probability functions are equal as rationals."""
    ratio = base(scale * rows)
    weights = {drawn: ratio ** score(kind, true, drawn) for drawn in listed(len(true), rows)}
    total = sum(weights.values())
    assert law(family(kind, true, rows), ratio) == {drawn: weight / total for drawn, weight in weights.items()}


def test_the_laws_of_prefixes_and_intervals_differ() -> None:
    """Otherwise the test above could not tell them apart."""
    ratio = base(Fraction(6))
    assert law(family(Prefixes, (3, 0, 4), 3), ratio) != law(family(Intervals, (3, 0, 4), 3), ratio)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=4))
def test_paths_in_a_band(steps: list[tuple[int, int]]) -> None:
    lows = list(itertools.accumulate(low for low, _ in steps))
    band = [(low, low + width - 1) for low, (_, width) in zip(lows, steps, strict=True)]
    inside = itertools.product(*(range(low, high + 1) for low, high in band))
    rising = [found for found in inside if list(found) == sorted(found)]
    assert paths(band) == len(rising)
    assert [tuple(path(band, rank)) for rank in range(len(rising))] == sorted(rising, key=lambda found: found[::-1])


@pytest.mark.parametrize("length", [1, 2, 3])
def test_paths_in_all_small_bands(length: int) -> None:
    """Whose lower edge does not fall; the upper one may."""
    steps = [(low, high) for low in range(3) for high in range(4)]
    for band in itertools.product(steps, repeat=length):
        if any(later[0] < earlier[0] for earlier, later in itertools.pairwise(band)):
            continue
        inside = itertools.product(*(range(low, high + 1) for low, high in band))
        rising = sorted((found for found in inside if list(found) == sorted(found)), key=lambda found: found[::-1])
        assert paths(list(band)) == len(rising)
        assert [tuple(path(list(band), rank)) for rank in range(len(rising))] == rising


@KINDS
def test_counts_of_any_length_are_exact(kind: type[Family]) -> None:
    """64 atoms and 60 rows: all candidates at the last level, none at 0 where no path fits."""
    true = tuple((7 * place) % 11 + 1 for place in range(64))
    made = family(kind, true, 60)
    assert made.count(made.levels[-1]) == math.comb(123, 60)
    counts = [made.count(made.levels[place * (len(made.levels) - 1) // 40]) for place in range(41)]
    assert counts == sorted(counts)
    assert counts[0] == 0


@KINDS
def test_sizes_beyond_64_bits_are_no_trouble(kind: type[Family]) -> None:
    true = (10**30, 2 * 10**30, 10**30)
    made = family(kind, true, 4)
    assert made.count(0) == 1
    assert made.member(0, 0) == [1, 2, 1]


@KINDS
def test_nothing_private_shows(kind: type[Family]) -> None:
    assert repr(family(kind, (3, 0, 4), 3)) == f"<{kind.__name__}>"
