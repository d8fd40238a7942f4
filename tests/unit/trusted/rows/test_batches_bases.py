"""A base: what batches are together, and as it was at the sizes that are marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain, combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering as tr
from treering.domain.schema import Schema
from treering.errors import DamagedVault
from treering.trusted.counts import DENSE_CELLS, Counts
from treering.trusted.rows.batches import Base, Batch, Recount, packed_persons, parquet, read_base, read_persons
from treering.trusted.rows.persons import Persons

SMALL = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
WIDE = tr.Schema({name: tr.integers(1, 1000) for name in "abc"})
"""More cells than are kept as an array."""

BATCHES = st.lists(st.lists(st.integers(0, SMALL.cells - 1), max_size=4), min_size=1, max_size=12)


class Journal:
    """Somebody for whom counts are marked."""


def counted(schema: Schema, batches: Sequence[Sequence[int]], marked: set[int], journal: object) -> Counts:
    counts = Counts(schema)
    for batch in batches:
        counts.add(np.array(batch, dtype=np.int64))
        if counts.size in marked:
            counts.mark(journal)
    return counts


def everything(counts: Counts) -> list[tuple[list[int], list[int]]]:
    return [(cells.tolist(), rows.tolist()) for cells, rows, *_ in counts.stretches().values()]


def tally(counts: Counts, start: int, end: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for cells, rows in counts.between(start, end):
        for cell, number in zip(cells.tolist(), rows.tolist(), strict=True):
            found[cell] += number
    return found


def again(base: Base, schema: Schema) -> Base:
    return read_base(base.packed(), "x", base.sizes, schema)


def people(rows: dict[bytes, int]) -> Persons:
    made = Persons("who", 9, b"k" * 32)
    made.take_up(rows)
    return made


def test_wide_is_not_dense() -> None:
    assert WIDE.cells > DENSE_CELLS


@given(batches=BATCHES, data=st.data())
def test_a_base_gives_the_counts_and_those_at_every_marked_size(batches: list[list[int]], data: st.DataObject) -> None:
    sizes = sorted(set(accumulate(map(len, batches))))
    marked = data.draw(st.sets(st.sampled_from(sizes)))
    journal, other = Journal(), Journal()
    counts = counted(SMALL, batches, marked, journal)
    base = again(Base.of(counts, None), SMALL)
    assert base.sizes == tuple(sorted({*marked - {0}, counts.size}))
    loaded = Counts(SMALL)
    base.add_to(loaded, {size: [other] for size in marked}, None)
    assert loaded.size == counts.size
    assert (loaded.marginal((0, 1)) == counts.marginal((0, 1))).all()
    assert everything(loaded) == everything(counts)
    for start, end in combinations(sorted({0, *marked}), 2):
        assert tally(loaded, start, end) == tally(counts, start, end) == Counter(list(chain(*batches))[start:end])
    recount = Recount(base, SMALL)
    for batch in batches:
        recount.add(Batch.of(np.array(batch, dtype=np.int64)), {})
    assert recount.agrees


@given(st.lists(st.lists(st.integers(0, WIDE.cells - 1), max_size=30), min_size=1, max_size=12))
def test_occupied_cells_only(batches: list[list[int]]) -> None:
    counts = counted(WIDE, batches, set(), None)
    base = again(Base.of(counts, None), WIDE)
    tally = Counter(cell for batch in batches for cell in batch)
    (found,) = base.stretches.values()
    assert dict(zip(found.cells.tolist(), found.counts.tolist(), strict=True)) == tally
    assert found.cells.tolist() == sorted(tally)
    loaded = Counts(WIDE)
    base.add_to(loaded, {}, None)
    assert everything(loaded) == everything(counts)


@given(st.dictionaries(st.binary(min_size=16, max_size=16), st.integers(1, 9), max_size=40))
def test_persons(rows: dict[bytes, int]) -> None:
    """In order of their digests, those that begin or end with zeros among them."""
    rows |= {bytes(16): 3, b"\0" * 15 + b"\1": 4, b"\1" + bytes(15): 5, b"\xff" * 16: 6}
    content = packed_persons(rows)
    assert content is not None
    assert read_persons(content, "x") == rows
    assert list(read_persons(content, "x")) == sorted(rows)
    base = again(Base.of(counted(SMALL, [[1, 2]], set(), None), people(rows)), SMALL)
    loaded = people({bytes(16): 1})
    base.add_to(Counts(SMALL), {}, loaded)
    assert loaded.counted == {**rows, bytes(16): 4}


def test_nobody() -> None:
    assert packed_persons({}) is None
    empty = pa.table({"person": pa.array([], pa.binary(16)), "rows": pa.array([], pa.int64())})
    assert read_persons(parquet(empty), "x") == {}
    assert len(Base.of(Counts(SMALL), people({})).packed()) == 1


def test_nothing() -> None:
    base = again(Base.of(Counts(SMALL), None), SMALL)
    assert base.sizes == (0,)
    loaded = Counts(SMALL)
    base.add_to(loaded, {}, None)
    assert loaded.size == 0
    recount = Recount(base, SMALL)
    recount.add(Batch.of(np.empty(0, dtype=np.int64)), {})
    assert recount.agrees


# -- what is none ------------------------------------------------------------------------------------------------------


def file(cells: Any, rows: Any, lengths: str | None) -> bytes:
    table = pa.table({"cell": pa.array(cells, pa.int64()), "rows": pa.array(rows, pa.int64())})
    return parquet(table.replace_schema_metadata(None if lengths is None else {"stretches": lengths}))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        file([1, 2], [2, 3], None),
        file([1, 2], [2, 3], "no"),
        file([1, 2], [2, 3], "7"),
        file([1, 2], [2, 3], "[2.0]"),
        file([1, 2], [2, 3], "[3, -1]"),
        file([1, 2], [2, 3], "[1]"),
        file([1, 2], [2, 3], "[1, 1]"),
        file([1, 2], [2, 4], "[2]"),
        file([1, 6], [2, 3], "[2]"),
        file([-1, 2], [2, 3], "[2]"),
        file([1, 2], [6, -1], "[2]"),
        file([1, 2], [5, 0], "[2]"),
        file([1, None], [2, 3], "[2]"),
    ],
)
def test_what_is_no_base(content: bytes) -> None:
    """Five rows in one stretch, it would be."""
    assert read_base([file([1, 2], [2, 3], "[2]")], "x", [5], SMALL).sizes == (5,)
    with pytest.raises(DamagedVault, match="x is damaged"):
        read_base([content], "x", [5], SMALL)


PARTS = [([0, 1], {b"a" * 16: 2}), ([1, 1, 5], {b"b" * 16: 3}), ([], {}), ([2], {b"a" * 16: 1})]


def recounted(base: Base, parts: Sequence[tuple[list[int], dict[bytes, int]]]) -> bool:
    recount = Recount(base, SMALL)
    for cells, rows in parts:
        recount.add(Batch.of(np.array(cells, dtype=np.int64)), rows)
    return recount.agrees


def test_a_recount_sees_every_difference() -> None:
    persons = people({b"a" * 16: 3, b"b" * 16: 3})
    journal = Journal()
    base = again(Base.of(counted(SMALL, [cells for cells, _ in PARTS], {2}, journal), persons), SMALL)
    assert base.sizes == (2, 6)
    assert recounted(base, PARTS)
    moved = ([1, 2, 5], {b"b" * 16: 3})
    later = [([0, 1, 1], {b"a" * 16: 3}), ([1, 5], {b"b" * 16: 2}), *PARTS[2:]]
    another = [([0, 1], {b"c" * 16: 2}), *PARTS[1:]]
    for parts in (PARTS[:3], [*PARTS, ([3], {})], [PARTS[0], moved, *PARTS[2:]], later, another, PARTS[1:], []):
        assert not recounted(base, parts)


def test_a_base_prints_nothing() -> None:
    assert repr(Base.of(Counts(SMALL), None)) == "<Base>"
