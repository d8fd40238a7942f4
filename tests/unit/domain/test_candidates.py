"""Candidates: which classes are prefixes or intervals, and how many rows can be drawn."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.domain import candidates as module
from treering.domain.candidates import Arcs, Candidates, arcs, collapse
from treering.domain.query import Query
from treering.domain.workload import marginals, prefixes, ranges

SCHEMA = tr.Schema(
    {
        "v": tr.integers(0, 9),
        "late": tr.bins([0, 15, 60, 240, 1440], other=True, missing=True),
        "w": tr.categories("a", "b", "c"),
    }
)


def query(codes: Any, name: str = "v") -> Query:
    position = SCHEMA.index(name)
    mask = np.zeros(SCHEMA.shape[position], dtype=np.bool_)
    mask[list(codes)] = True
    return Query.conjunction(SCHEMA, {position: mask})


def found(class_: list[Query]) -> Arcs | None:
    return arcs(collapse(class_))


def check_spokes(class_: list[Query]) -> Arcs:
    """Each spoke holds the first so many atoms, or all but these."""
    atoms = collapse(class_)
    open_ = arcs(atoms)
    assert open_ is not None
    order = [(open_.start + place) % atoms.number for place in range(atoms.number)]
    assert len(open_.spokes) == atoms.number - 1
    for length, (place, others) in enumerate(open_.spokes, 1):
        flags = atoms.weights[place][order].astype(bool)
        assert (flags == (np.arange(atoms.number) < length)).all() != others
        assert (flags != others).tolist() == [True] * length + [False] * (atoms.number - length)
    # Prefixes: every query is a spoke or all but one. Intervals: every two cuts are a pair.
    arcs_ = {tuple((row[order] != row[order[-1]]).tolist()) for row in atoms.weights.astype(bool)}
    stretches = itertools.combinations(range(atoms.number), 2)
    every = {tuple(low <= place < high for place in range(atoms.number)) for low, high in stretches}
    initial = {arc for arc in every if arc[0]}
    assert arcs_ == (every if open_.every else initial)
    return open_


METHODS = {
    "thresholds": (prefixes(SCHEMA, "v"), "prefixes"),
    "thresholds beside missing and other values": (prefixes(SCHEMA, "late"), "prefixes"),
    "some thresholds": ([query(range(3)), query(range(7))], "prefixes"),
    "complements": ([query(range(3)), query(range(5, 10)), query(range(8, 10))], "prefixes"),
    "from above, beside missing values": ([query([1, 2, 3], "late"), query([3], "late")], "prefixes"),
    "one query": ([query([4])], "prefixes"),
    "one query that is no interval": ([query([1, 4, 9])], "prefixes"),
    "from the middle": ([query([5]), query([5, 6]), query([5, 6, 7])], "prefixes"),
    "all intervals": (ranges(SCHEMA, "v"), "intervals"),
    "all intervals beside missing and other values": (ranges(SCHEMA, "late"), "intervals"),
    "all intervals between three cuts": ([query(range(3)), query(range(3, 6)), query(range(6))], "intervals"),
    "categories in their order": ([query([0], "w"), query([1], "w"), query([2], "w")], "intervals"),
    "single values": (marginals(tr.Schema({"v": tr.integers(0, 9)}), 1), "enumeration"),
    "intervals, one and its complement absent": (ranges(SCHEMA, "v")[1:-2], "enumeration"),
    "two attributes": ([query(range(3)), query([0], "w")], "enumeration"),
    "weighted": ([Query.weighted(SCHEMA, np.linspace(0, 1, 10), attributes=["v"])], "enumeration"),
    "constant": ([Query.all(SCHEMA)], "enumeration"),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_method_follows_from_the_class(name: str) -> None:
    class_, method = METHODS[name]
    assert Candidates.of(collapse(class_)).method == method
    if method != "enumeration":
        assert check_spokes(class_).every == (method == "intervals")


@settings(deadline=None)
@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8), st.booleans())
def test_pairs_of_cuts_with_a_common_one_are_prefixes(pairs: set[tuple[int, int]], flip: bool) -> None:
    """Any class of arcs of a circle of seven values. (Some others are found, too, once values have become atoms.)"""
    schema = tr.Schema({"v": tr.integers(0, 6)})
    cuts = {tuple(sorted(pair)) for pair in pairs if pair[0] != pair[1]}
    if not cuts:
        return
    masks = [np.isin(np.arange(7), range(low, high)) ^ flip for low, high in cuts]
    class_ = [Query.conjunction(schema, {0: mask}) for mask in masks]
    points = sorted(set(itertools.chain(*cuts)))
    complete = cuts == set(itertools.combinations(points, 2))
    common = set.intersection(*map(set, cuts))
    open_ = found(class_)
    if complete or common:
        assert open_ is not None
        assert open_.every == (complete and not common)
    if open_ is not None:
        check_spokes(class_)


def test_intervals_have_prefixes_whose_differences_they_are() -> None:
    intervals = Candidates.of(collapse(ranges(SCHEMA, "v")))
    as_prefixes = intervals.prefixes
    assert as_prefixes is not None
    assert (as_prefixes.method, as_prefixes.prefixes) == ("prefixes", None)
    drawn = collapse(as_prefixes.asked)
    assert drawn.cells == intervals.atoms.cells
    assert Candidates.of(drawn).method == "prefixes"
    assert Candidates.of(collapse(METHODS["two attributes"][0])).prefixes is None


# -- how many rows -----------------------------------------------------------------------------------------------------


def test_the_number_of_candidates() -> None:
    candidates = Candidates.of(collapse(METHODS["two attributes"][0]))
    assert candidates.atoms.number == 4
    listed = itertools.combinations_with_replacement(range(4), 5)
    assert candidates.number(5) == len(list(listed))


@pytest.mark.parametrize("name", METHODS)
def test_the_largest_number_of_rows_is_the_largest(name: str) -> None:
    candidates = Candidates.of(collapse(METHODS[name][0]))
    most = candidates.most_rows
    assert most >= 1
    assert candidates.feasible(most)
    assert not candidates.feasible(most + 1)
    candidates.check(most)
    with pytest.raises(tr.ParameterError, match=f"at most {most:,} are possible"):
        candidates.check(most + 1)


def test_limits_are_those_stated() -> None:
    threshold = Candidates.of(collapse(prefixes(tr.Schema({"v": tr.integers(0, 255)}), "v")))
    assert threshold.most_rows == 2**18 // 256 >= 200
    interval = Candidates.of(collapse(ranges(tr.Schema({"v": tr.integers(0, 31)}), "v")))
    assert interval.most_rows == 2**21 // 32**2 >= 40
    crossed = Candidates.of(collapse(METHODS["two attributes"][0]))
    assert crossed.number(crossed.most_rows) <= module.MOST_LISTED < crossed.number(crossed.most_rows + 1)


def test_a_wide_class_is_infeasible_without_writing_out_its_number() -> None:
    schema = tr.Schema({"v": tr.integers(0, 99_999)})
    candidates = Candidates.of(collapse([*marginals(schema, 1)[:500], query_of(schema)]))
    assert candidates.atoms.number == 501 + 1
    assert not candidates.feasible(2**20)
    assert candidates.most_rows == 1


def query_of(schema: tr.Schema) -> Query:
    return Query.where(schema, v=range(50_000, 60_000))


def test_scoring_is_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = Candidates.of(collapse(METHODS["single values"][0]))
    monkeypatch.setattr(module, "MOST_PRODUCTS", math.comb(12, 3) * 100)
    assert candidates.most_rows == 3


@pytest.mark.parametrize("rows", [0, -1, 1.5, True, "3"])
def test_rows_that_cannot_be_are_refused(rows: Any) -> None:
    with pytest.raises(tr.ParameterError, match="rows must be an integer of at least 1"):
        Candidates.of(collapse(METHODS["one query"][0])).check(rows)
