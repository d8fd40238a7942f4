"""Streams, their neighbours, and the databases that grow along them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from treering.audit import Stream, grow, neighbour, random_neighbours, worst_pair
from treering.domain.attribute import categories, integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError

SCHEMA = Schema({"origin": categories("EWR", "JFK", "LGA", other=True), "month": integers(1, 5)})
OTHER_SCHEMA = Schema({"late": categories("no", "yes")})


def differences(left: Stream, right: Stream) -> list[tuple[int, int]]:
    """Where two streams of the same shape differ."""
    assert [len(batch) for batch in left.batches] == [len(batch) for batch in right.batches]
    return [
        (time, position)
        for time, batch in enumerate(left.batches)
        for position, cell in enumerate(batch)
        if cell != right.batches[time][position]
    ]


@given(seed=st.integers(0, 2**32), batches=st.integers(1, 5), rows=st.integers(1, 6))
def test_random_neighbours_differ_in_one_entry_at_one_time(seed: int, batches: int, rows: int) -> None:
    left, right = random_neighbours(SCHEMA, np.random.default_rng(seed), batches, rows)
    assert [len(batch) for batch in left.batches] == [rows] * batches
    assert len(differences(left, right)) == 1


def test_random_neighbours_replace_any_entry_by_any_cell() -> None:
    generator = np.random.default_rng(7)
    pairs = [random_neighbours(OTHER_SCHEMA, generator, batches=2, rows=2) for _ in range(200)]
    assert {place for left, right in pairs for place in differences(left, right)} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    cells = [random_neighbours(SCHEMA, generator, batches=1, rows=1)[1].batches[0][0] for _ in range(1000)]
    assert set(cells) == set(range(SCHEMA.cells))


@given(data=st.data(), seed=st.integers(0, 2**32))
def test_counts_are_those_of_the_rows(data: st.DataObject, seed: int) -> None:
    generator = np.random.default_rng(seed)
    stream = random_neighbours(SCHEMA, generator, batches=3, rows=4)[0]
    query = data.draw(
        st.sampled_from(
            [
                Query.where(SCHEMA, origin="JFK"),
                Query.where(SCHEMA, origin=["EWR", "LGA"], month=[1, 5]),
                Query.where(SCHEMA, origin="JFK") | Query.where(SCHEMA, month=2),
                Query.weighted(SCHEMA, np.linspace(0, 1, SCHEMA.cells), resolution=100),
                Query.all(SCHEMA),
                Query.none(SCHEMA),
            ]
        )
    )
    weight = np.broadcast_to(query._spread_over((0, 1)), SCHEMA.shape).ravel()
    arrived = [cell for batch in stream.batches[:2] for cell in batch]
    assert stream.counts(query)[1] == sum(int(weight[cell]) for cell in arrived)
    assert stream.sizes == (4, 8, 12)


@given(
    gaps=st.lists(st.integers(-5, 5), min_size=1, max_size=8),
    data=st.data(),
)
def test_the_worst_pair_keeps_its_gaps_one_apart_from_the_arrival_on(gaps: list[int], data: st.DataObject) -> None:
    arrival = data.draw(st.integers(0, len(gaps) - 1))
    left, right = worst_pair(OTHER_SCHEMA, inside=1, outside=0, gaps=gaps, arrival=arrival)
    late = Query.where(OTHER_SCHEMA, late="yes")
    assert [2 * count - size for count, size in zip(left.counts(late), left.sizes, strict=True)] == [
        2 * g for g in gaps
    ]
    apart = [b - a for a, b in zip(left.counts(late), right.counts(late), strict=True)]
    assert apart == [0] * arrival + [1] * (len(gaps) - arrival)
    assert len(differences(left, right)) == 1
    assert all(len(batch) > 0 for batch in left.batches)


def test_a_database_grows_along_a_stream() -> None:
    stream = Stream(SCHEMA, ((0, 1, 2), (), (3,)))
    seen = [(database, database.size) for database in grow(stream)]
    assert [size for _, size in seen] == [3, 3, 4]
    assert len({id(database) for database, _ in seen}) == 1
    assert seen[0][0].schema == SCHEMA


def test_a_neighbour_keeps_the_arrival_time() -> None:
    stream = Stream(SCHEMA, ((0, 1), (2, 3)))
    assert neighbour(stream, 1, 0, 9).batches == ((0, 1), (9, 3))
    assert stream.batches == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("batch", "position", "cell", "named"),
    [(2, 0, 0, "batch"), (-1, 0, 0, "batch"), (0, 2, 0, "position"), (0, -1, 0, "position"), (0, 0, 20, "batches")],
)
def test_a_neighbour_that_cannot_be_is_refused(batch: int, position: int, cell: int, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        neighbour(Stream(SCHEMA, ((0, 1), (2, 3))), batch, position, cell)


def test_other_bad_input_is_named() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="batches"):
        Stream(SCHEMA, ())
    with pytest.raises(ParameterError, match="batches"):
        Stream(SCHEMA, ((0, -1),))
    with pytest.raises(ParameterError, match="schema"):
        random_neighbours(Schema({"one": categories("only")}), generator, 1, 1)
    with pytest.raises(ParameterError, match="batches"):
        random_neighbours(SCHEMA, generator, 0, 1)
    with pytest.raises(ParameterError, match="rows"):
        random_neighbours(SCHEMA, generator, 1, 0)
    with pytest.raises(ParameterError, match="gaps"):
        worst_pair(SCHEMA, 1, 0, [])
    with pytest.raises(ParameterError, match="outside"):
        worst_pair(SCHEMA, 1, 1, [0])
    with pytest.raises(QueryError, match="another schema"):
        Stream(SCHEMA, ((0,),)).counts(Query.all(OTHER_SCHEMA))
