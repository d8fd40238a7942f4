"""Batches and parts by their lines: what each says, which parts are in use, and which are merged when."""

from __future__ import annotations

from dataclasses import replace

import pytest

import treering as tr
from treering.trusted.ledger import named
from treering.trusted.ledger.lines import ROOT, Line, body, chained
from treering.trusted.ledger.named import FAN, MOST, Batch, BatchList, Part, PartList


def test_a_line_says_what_its_batch_is() -> None:
    plain = {"number": 3, "rows": 2, "size": 9, "dropped": 1}
    batch = Batch(3, 2, 9, 1, "promised")
    assert batch.line("key") == Line("rows", body(**plain), key="key", commitment="promised")
    marked = replace(batch, watermark={"value": 1})
    assert marked.line("").plain() == {**plain, "watermark": {"value": 1}}
    assert [Batch.of(each.line("")) for each in (batch, marked)] == [batch, marked]
    assert batch.secret == "rows 3"


def test_a_line_says_what_its_part_is() -> None:
    part = Part(7, 10, 5, "bound")
    assert part.line() == Line("part", body(number=7, first=10, rows=5), commitment="bound")
    assert Part.of(part.line()) == part
    assert (part.last, part.name, part.secret) == (15, "00000007.parquet", "part 7")


def listed(*rows: int) -> BatchList:
    """Batches of these many rows, as lines of a ledger."""
    batches, size = BatchList(), 0
    for number, each in enumerate(rows, 1):
        size += each
        batches.learn(chained(ROOT, number, number, Batch(number, each, size, 0, "x").line("")))
    return batches


def test_batches_are_read_when_they_are_needed() -> None:
    batches = listed(3, 0, 2, 0, 4)
    assert (len(batches), batches.size, BatchList().size) == (5, 9, 0)
    assert [batch.rows for batch in batches.after(3)] == [0, 4]
    for size, expected in ((9, []), (8, [5]), (5, [5]), (4, [3, 4, 5]), (3, [3, 4, 5]), (0, [1, 2, 3, 4, 5])):
        assert [batch.number for batch in batches.beyond(size)] == expected
    assert [batch.number for batch in batches] == [1, 2, 3, 4, 5]
    many = listed(*[1] * 100)
    assert [batch.number for batch in many.beyond(37)] == list(range(38, 101))
    batches.check()


@pytest.mark.parametrize("wrong", [(2, 3, 5), (2, 2, 6), (3, 2, 5), (2, -2, 1)])
def test_a_batch_that_does_not_go_on_is_found(wrong: tuple[int, int, int]) -> None:
    """A size that was counted wrong, or rows that were counted twice."""
    batches = BatchList()
    batches.append(Batch(1, 3, 3, 0, "x"))
    batches.append(Batch(*wrong, 0, "x"))
    with pytest.raises(tr.DamagedVault, match="batch 2 on record does not go on where the one before ended"):
        batches.check()


# -- parts in use ------------------------------------------------------------------------------------------------------


def of_rows(*rows: int) -> PartList:
    """Parts of these many rows, one after another."""
    parts = PartList()
    for number, each in enumerate(rows, 1):
        parts.add(Part(number, parts.rows, each, "x"))
    return parts


def test_a_part_follows_the_last_or_replaces_those_whose_rows_it_has() -> None:
    parts = of_rows(3, 4, 5)
    merged = Part(4, 3, 9, "x")
    assert [part.number for part in parts.add(merged)] == [2, 3]
    assert [part.number for part in parts] == [1, 4]
    assert (parts.rows, parts.last, parts.names) == (12, 4, {"00000001.parquet", "00000004.parquet"})
    assert parts.add(Part(5, 12, 1, "x")) == []
    assert [part.number for part in parts.add(Part(6, 0, 13, "x"))] == [1, 4, 5]
    assert len(parts) == 1


@pytest.mark.parametrize("wrong", [(4, 13, 1), (4, 11, 1), (4, 2, 5), (4, 3, 8), (3, 12, 1), (5, 12, 1), (4, 12, 0)])
def test_a_part_that_fits_nowhere_is_refused(wrong: tuple[int, int, int]) -> None:
    parts = of_rows(3, 4, 5)
    with pytest.raises(tr.DamagedVault, match="on record does not go on where others end: restore a backup"):
        parts.add(Part(*wrong, "x"))
    assert (len(parts), parts.last) == (3, 3)


# -- what is merged ----------------------------------------------------------------------------------------------------


def merged(*rows: int) -> list[int]:
    return [part.number for part in of_rows(*rows).mergeable(rows)]


def test_neighbours_of_similar_size_are_merged() -> None:
    assert merged(*[10] * (FAN - 1)) == []
    assert merged(*[10] * FAN) == list(range(1, FAN + 1))
    assert merged(*[10] * (FAN + 2)) == list(range(1, FAN + 3))
    assert merged(1000, *[10] * FAN) == list(range(2, FAN + 2))
    assert merged(1000, *[10] * (FAN - 1)) == []
    assert merged(*[10] * FAN, 1000) == list(range(1, FAN + 1))
    assert merged(*[MOST // FAN] * FAN) == list(range(1, FAN + 1))
    assert merged(*[MOST // FAN + 1] * FAN) == []
    assert merged(*[MOST] * 30) == []
    assert merged() == []


@pytest.mark.parametrize("sizes", [[100], [1, 60_000], [30_000, 5, 5, 5], [2**16, 2**16, 2**21]])
def test_there_are_few_parts_and_each_row_is_merged_seldom(sizes: list[int]) -> None:
    parts, written = PartList(), 0
    for number in range(2000):
        parts.add(Part(parts.last + 1, parts.rows, sizes[number % len(sizes)], "x"))
        while found := parts.mergeable([part.rows for part in parts]):
            rows = sum(part.rows for part in found)
            assert rows <= named.MOST
            written += rows
            parts.add(Part(parts.last + 1, found[0].first, rows, "x"))
    assert written <= 8 * parts.rows
    assert len(parts) <= 40 + FAN * parts.rows / MOST
