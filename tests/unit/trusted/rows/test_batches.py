"""Rows at the door of a durable store, and the files that they become."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering as tr
from support.mechanism_contract import SCHEMA, rows
from treering.errors import DamagedVault
from treering.mechanisms.histogram.hypothesis import rows_of
from treering.trusted.counts import Counts
from treering.trusted.rows.batches import Batch, read_batch, read_persons, take_in
from treering.trusted.rows.persons import Persons
from treering.trusted.sealed import commitment, salt

KEY = b"k" * 32


@given(st.lists(st.integers(0, SCHEMA.cells - 1), max_size=60))
def test_a_batch_is_its_file(cells: list[int]) -> None:
    batch = Batch.of(np.array(cells, dtype=np.int64), {b"x" * 16: len(cells)} if cells else None)
    assert batch.rows == len(cells)
    again = read_batch(batch.packed(), "part")
    one, other, direct = Counts(SCHEMA), Counts(SCHEMA), Counts(SCHEMA)
    batch.add_to(one)
    again.add_to(other)
    direct.add(np.array(cells, dtype=np.int64))
    every = tuple(range(3))
    assert (one.marginal(every) == direct.marginal(every)).all()
    assert (other.marginal(every) == direct.marginal(every)).all()
    packed = batch.packed_persons()
    assert packed is None if not cells else packed is not None
    if packed is not None:
        assert read_persons(packed, "part") == {b"x" * 16: len(cells)}


FAR = 2**50
"""A cell so far out that an array of all cells before it would not fit into any memory."""


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 7, FAR, FAR + 1]), st.integers(-9, 9)), max_size=12))
def test_rows_are_counted_and_their_units_added_up_by_cell(found: list[tuple[int, int]]) -> None:
    cells, units = (np.array([row[place] for row in found], dtype=np.int64) for place in (0, 1))
    batch = Batch.of(cells, sums=(units, -2 * units))
    listed = sorted(set(cells.tolist()))
    totals = [sum(each for cell, each in found if cell == wanted) for wanted in listed]
    assert batch.cells.tolist() == listed
    assert batch.counts.tolist() == [cells.tolist().count(cell) for cell in listed]
    assert [column.tolist() for column in batch.sums] == [totals, [-2 * total for total in totals]]
    assert {column.dtype for column in (batch.cells, batch.counts, *batch.sums)} == {np.dtype(np.int64)}


def test_the_order_of_rows_is_not_kept() -> None:
    cells = np.array(rows(100), dtype=np.int64)
    assert Batch.of(cells).packed() == Batch.of(cells[::-1]).packed()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000, Batch.of(np.array([1])).packed()[:-1]])
def test_what_is_no_batch(content: bytes) -> None:
    for read in (read_batch, read_persons):
        with pytest.raises(DamagedVault, match="part name is damaged"):
            read(content, "name")


def test_another_table_is_no_batch() -> None:
    persons = Batch.of(np.array([1]), {b"y" * 16: 1}).packed_persons()
    assert persons is not None
    with pytest.raises(DamagedVault):
        read_batch(persons, "name")
    with pytest.raises(DamagedVault):
        read_persons(Batch.of(np.array([1])).packed(), "name")
    for counts in ([5, 0], [0, 5], [5, -1]):
        with pytest.raises(DamagedVault):
            read_batch(Batch(np.array([1, 2]), np.array(counts)).packed(), "name")


def test_a_batch_is_sealed() -> None:
    assert repr(Batch.of(np.array([1, 1]))) == "<Batch>"


def test_a_commitment_binds_contents_and_needs_the_salt() -> None:
    one = commitment(b"s", b"ab", b"c")
    assert one == commitment(b"s", b"ab", b"c")
    others = {
        commitment(b"t", b"ab", b"c"),
        commitment(b"s", b"a", b"bc"),
        commitment(b"s", b"ab"),
        commitment(b"s", b"abc"),
        commitment(b"s", b"ab", b"c", b""),
    }
    assert len({one, *others}) == 6
    assert len({salt() for _ in range(50)}) == 50
    assert len(salt()) == 32


def test_rows_are_taken_in_without_persons() -> None:
    batch, dropped = take_in(rows_of(SCHEMA, np.arange(10)), SCHEMA, None, drop=False)
    assert (batch.rows, dropped, batch.persons) == (10, 0, {})


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30), st.integers(1, 3))
def test_dropping_keeps_the_first_rows_of_each_person(arrivals: list[tuple[str, bool]], limit: int) -> None:
    """A row that does not fit the schema uses nothing of its person's limit."""
    persons = Persons("who", limit, KEY)
    frame = [{"who": who, "origin": "JFK", "month": 1 if fits else 13, "late": "no"} for who, fits in arrivals]
    kept: dict[str, int] = {}
    for who, fits in arrivals:
        kept[who] = min(limit, kept.get(who, 0) + fits)
    batch, dropped = take_in(frame, SCHEMA, persons, drop=True)
    assert batch.rows == sum(kept.values())
    assert dropped == len(arrivals) - batch.rows
    assert sorted(batch.persons.values()) == sorted(count for count in kept.values() if count)
    persons.take_up(batch.persons)
    again, _ = take_in(frame, SCHEMA, persons, drop=True)
    assert again.rows == sum(
        min(limit - kept[who], sum(1 for name, fits in arrivals if name == who and fits)) for who in kept
    )


def test_a_refusal_counts_nobody() -> None:
    persons = Persons("who", 1, KEY)
    row = {"origin": "JFK", "month": 1, "late": "no"}
    with pytest.raises(tr.DataError, match="row 1"):
        take_in([{**row, "who": 1}, {**row, "who": 1}], SCHEMA, persons, drop=False)
    batch, _ = take_in([{**row, "who": 1}], SCHEMA, persons, drop=False)
    assert batch.rows == 1


def test_digests_depend_on_the_key() -> None:
    digests = [Persons("who", 1, key)._digests(["ann"])[0] for key in (KEY, b"l" * 32)]
    assert digests[0] != digests[1]
    assert all(len(digest) == 16 and b"ann" not in digest for digest in digests)
