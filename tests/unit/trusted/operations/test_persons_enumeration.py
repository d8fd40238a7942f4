"""The stated distance of series of persons, against every small life: k, m ≤ 3, up to 4 leaves, all segments.

A person's rows come in public leaves; in each world each of them is in one of the groups, or in none. What counts is
what the trusted base counts. The distance of two worlds is that of all releases of all segments, in units of the room
of each: 2qC is what is charged for. Broken twins claim less, and are caught by a life.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from support.visits import Visit, rows_of, wards
from treering.arrays import Floats, Ints
from treering.budget.weights import Weights
from treering.domain.groups import Groups
from treering.domain.sums import Capped
from treering.trusted.operations.firsts import Book
from treering.trusted.rows.kept import Rows

LEAVES = 4
Life = tuple[tuple[int, ...], tuple[int, ...]]
"""The leaf of each row, and its group."""


@cache
def kept(life: Life) -> tuple[Rows, tuple[int, ...]]:
    """The rows of a life, and where its leaves end."""
    leaves, chosen = life
    visits: list[Visit] = []
    edges = [0]
    for leaf in range(LEAVES):  # Another person, in no group, is in every leaf: so each has rows.
        visits += [("other", 3, 0)] + [
            ("one", group, 0) for at, group in zip(leaves, chosen, strict=True) if at == leaf
        ]
        edges.append(len(visits))
    return rows_of(visits), tuple(edges)


@cache
def measured(groups: int) -> Groups:
    return wards(groups)


def added(life: Life, groups: int, each: int, most: int, limit: int) -> Ints:
    """What a person adds to each leaf and group, as the book of a series counts it."""
    rows, edges = kept(life)
    table = np.zeros((LEAVES, groups), dtype=np.int64)
    leaf, place, number = Book(measured(groups), Capped(each, most, limit, Fraction(1))).count(rows, edges)
    table[leaf, place] = number
    return table


def releases(segments: Sequence[int], weights: Weights) -> Floats:
    """The releases of segments of so many leaves, each scaled by the root of its room."""
    matrix, first = np.zeros((LEAVES, LEAVES)), 0
    for length in segments:
        for leaf in range(length):
            row = weights.first(leaf + 1)[::-1].astype(float)
            matrix[first + leaf, first : first + leaf + 1] = row / np.sqrt(float(weights.squares(length)))
        first += length
    return matrix


CUTS = [(4,), (1, 3), (2, 2), (1, 1, 2), (1, 1, 1, 1)]
MATRICES = [releases(cut, weights) for cut in CUTS for weights in (Weights.ROOT, Weights.FADING)]


def worlds(limit: int, groups: int) -> Iterator[list[Life]]:
    """The lives of a person with ``limit`` rows, together those that are neighbours: their rows come when they do."""
    for leaves in combinations_with_replacement(range(LEAVES), limit):
        yield [(leaves, chosen) for chosen in product([*range(groups), 3], repeat=limit)]


def furthest(limit: int, groups: int, each: int, most: int) -> float:
    """The largest squared distance of two neighbouring worlds, under all segmentations."""
    far = 0.0
    for lives in worlds(limit, groups):
        counted = [added(life, groups, each, most, limit) for life in lives]
        seen = np.array(list({table.tobytes(): table for table in counted}.values()))
        for matrix in MATRICES:
            released = np.einsum("ts,lsg->ltg", matrix, seen).reshape(len(seen), -1)
            square = (released**2).sum(axis=1)
            far = max(far, float((square[:, None] + square[None, :] - 2 * released @ released.T).max()))
    return far


CASES = [(k, m, q) for k in (1, 2, 3) for m in (1, 2, 3) for q in range(1, min(k, m) + 1)]


@pytest.mark.parametrize(("limit", "groups", "cap"), CASES)
def test_flags_move_by_twice_their_number_and_no_further(limit: int, groups: int, cap: int) -> None:
    far = furthest(limit, groups, 1, cap)
    assert far <= 2 * cap + 1e-9
    if (limit, groups) != (1, 1):  # By flags that all move, those of one world to another segment.
        assert far == pytest.approx(2 * cap)


@pytest.mark.parametrize(("limit", "groups", "cap"), [(2, 1, 2), (2, 2, 2), (3, 1, 3), (3, 2, 2), (3, 2, 3), (3, 3, 2)])
def test_capped_rows_move_by_twice_the_square_of_the_cap(limit: int, groups: int, cap: int) -> None:
    far = furthest(limit, groups, cap, cap)
    assert far <= 2 * cap**2 + 1e-9
    if groups > 1:
        assert far == pytest.approx(2 * cap**2)


def test_a_cap_in_each_group_and_one_in_all_multiply() -> None:
    assert furthest(3, 3, 2, 3) <= 2 * 2 * 3 + 1e-9
    assert furthest(3, 2, 2, 3) > 2 * 3 + 1e-9


# -- broken twins ------------------------------------------------------------------------------------------------------


def test_signed_values_at_the_price_of_counts_are_caught() -> None:
    """Two rows of one group in leaves next to each other, +1 and −1 or −1 and +1, are further apart than 2C²·W."""
    matrix = releases((4,), Weights.ROOT)
    up, down = np.zeros(LEAVES), np.zeros(LEAVES)
    up[0], down[0] = 1.0, -1.0
    assert float(((matrix @ (up - down)) ** 2).sum()) == pytest.approx(4)


def test_a_union_of_flags_as_a_sum_is_no_count_of_persons() -> None:
    life: Life = ((0, 0), (0, 1))
    assert added(life, 2, 1, 2, 2).sum() == 2  # one person


def test_centred_flags_are_caught() -> None:
    """The number of flags is private: a release that is made to sum to a public total is off by it."""
    one, other = ((0, 0), (0, 1)), ((0, 0), (3, 3))
    assert added(one, 2, 1, 2, 2).sum() != added(other, 2, 1, 2, 2).sum()


def test_flags_by_leaf_are_not_persons_of_a_window() -> None:
    """Who came in leaf 0 raises no flag in leaf 2, though with a row there: a window counts new persons."""
    assert added(((0, 2), (0, 0)), 1, 1, 1, 2)[2, 0] == 0


def test_k_for_all_its_flags_is_needed_where_groups_change() -> None:
    """K = m while a person may have more rows: moving one group at each release gives 3W for the 2W that were paid."""
    tables = np.zeros((LEAVES, 3))
    tables[0, 0], tables[1, 1], tables[2, 2] = 1.0, 1.0, 1.0
    moved = releases((1, 1, 1, 1), Weights.ROOT) @ tables
    assert float((moved**2).sum()) == pytest.approx(3)
    assert 3 > 2 * 1


def test_giving_back_by_segment_is_caught() -> None:
    """A leaf that is given back what its own segment did not draw keeps less than a flag of its persons may draw."""
    weights, length = Weights.ROOT, 4
    room = float(weights.squares(length))
    kept = [float(weights.squares(length - leaf)) / room for leaf in range(length)]  # what each leaf drew
    late = added(((3, 3), (0, 3)), 1, 1, 1, 2)
    early = added(((0, 3), (3, 0)), 1, 1, 1, 2)
    assert (late[3, 0], early[3, 0]) == (1, 1)
    # The person of the last leaf of a segment raises its flag in the first leaf of the next: that draws the whole room.
    assert kept[-1] < 1 <= kept[0]


def test_charging_a_late_series_to_new_rows_only_is_caught() -> None:
    """A person whose first row came before still raises a flag in the rows since: it must pay, too."""
    assert added(((0, 1), (3, 0)), 1, 1, 1, 2)[1, 0] == 1
