"""Parts and bases by themselves: which files there are, what is counted from them, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.bases import flip
from support.parts import LIMIT, SCHEMA, Kept, content, limit, person
from treering.trusted.counts import Counts
from treering.trusted.journal import MemoryJournal
from treering.trusted.rows.batches import Base, Batch
from treering.vault import bases, parts
from treering.vault.files import Folder, Stage, write_file
from treering.vault.lines import Line, body
from treering.vault.parts import Part, Parts


def files(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that are read, by name."""
    found: list[str] = []
    contents = Parts._contents

    def noting(own: Parts, part: Part, secrets: Any) -> list[bytes]:
        found.append(part.cells)
        return contents(own, part, secrets)

    monkeypatch.setattr(Parts, "_contents", noting)
    return found


# -- writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("persons", [False, True])
def test_what_is_appended_is_on_record_and_counted_again(tmp_path: Path, persons: bool) -> None:
    kept = Kept(tmp_path / "vault", persons=persons)
    assert (kept.parts.size, kept.parts.watermark, kept.parts.named) == (0, None, set())
    whose = ({"a": 2}, {"a": 1, "b": 1}) if persons else ({}, {})
    first = kept.append([0, 0], whose[0], dropped=5, key="first")
    second = kept.append([0, 3], whose[1], watermark={"value": 7})
    assert (first.number, first.rows, first.size, first.dropped, first.persons) == (1, 2, 2, 5, persons)
    assert (second.number, second.rows, second.size, second.dropped, second.persons) == (2, 2, 4, 0, persons)
    assert (first.secret, second.secret) == ("part 1", "part 2")
    assert sorted(kept.ledger.secrets()) == ["part 1", "part 2"]
    again = kept.again()
    assert list(again._parts) == list(kept.parts._parts) == [first, second]
    for each in (kept.parts, again):
        assert (each.size, each.watermark, each.named) == (4, {"value": 7}, set(files(kept.folder.parts)))
    names = [name for part in (first, second) for name in part.names]
    assert sorted(names) == files(kept.folder.parts)
    assert len(names) == (4 if persons else 2)
    counts, people = kept.loaded()
    assert (counts.size, content(counts)) == (4, [3, 0, 0, 1])
    assert people is None or people.counted == {person("a"): 3, person("b"): 1}
    kept.ledger.close()


def test_a_line_says_what_its_part_is() -> None:
    plain = {"number": 3, "rows": 2, "size": 9, "dropped": 1, "persons": True}
    part = Part(3, 2, 9, 1, True, "promised")
    assert part.line("key") == Line("rows", body(**plain), key="key", commitment="promised")
    marked = replace(part, watermark={"value": 1})
    assert marked.line("").plain() == {**plain, "watermark": {"value": 1}}
    assert [Part.of(each.line("")) for each in (part, marked)] == [part, marked]


@pytest.mark.parametrize("failing", [1, 2])
def test_after_an_error_there_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    kept, written = Kept(tmp_path / "vault", persons=True), []

    def full(path: Path, content: bytes, steps: tuple[Stage, Stage, Stage, Stage]) -> None:
        written.append(path.name)
        if len(written) == failing:
            raise tr.VaultError("the disk is full")
        write_file(path, content, steps)

    monkeypatch.setattr(parts, "write_file", full)
    with pytest.raises(tr.VaultError, match="the disk is full"):
        kept.append([1], {"a": 1})
    assert (files(kept.folder.parts), kept.parts.size, kept.ledger.seq) == ([], 0, 0)
    monkeypatch.undo()
    assert kept.append([1], {"a": 1}).number == 1
    kept.ledger.close()


# -- opening -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("merged", [[], [1], [2], [1, 3], [3]])
def test_what_a_base_merges_is_not_read_again(
    tmp_path: Path, read: list[str], persons: bool, merged: list[int]
) -> None:
    kept = Kept(tmp_path / "vault", persons=persons)
    for number, cells in enumerate(([0, 1], [1], [1, 2]), 1):
        kept.append(cells, {f"{number}": len(cells), "all": 1} if persons else {})
        if number in merged:
            kept.merge()
    read.clear()
    counts, people = kept.loaded()
    assert content(counts) == [1, 3, 1, 0]
    assert read == [f"{number:08d}.parquet" for number in range(1 + max(merged, default=0), 4)]
    assert people is None or people.counted == {
        person("1"): 2,
        person("2"): 1,
        person("3"): 2,
        person("all"): 3,
    }
    kept.ledger.close()


@pytest.mark.parametrize("lost", ["file", "content", "secret"])
def test_a_base_that_is_lost_is_passed_over_for_the_one_before(tmp_path: Path, read: list[str], lost: str) -> None:
    kept = Kept(tmp_path / "vault")
    for cells in ([0], [1], [1, 2]):
        kept.append(cells)
        kept.merge()
    assert files(kept.folder.bases) == ["00000002.parquet", "00000003.parquet"]
    for number, first in ((3, 3), (2, 1)):
        if lost == "file":
            (kept.folder.bases / f"{number:08d}.parquet").unlink()
        elif lost == "content":
            flip(kept.folder.bases / f"{number:08d}.parquet")
        else:
            kept.ledger.write(Line("note", body()), drop=f"base {number}")
        read.clear()
        assert content(kept.loaded()[0]) == [1, 2, 1, 0]
        assert read == [f"{number:08d}.parquet" for number in range(first, 4)]
    kept.ledger.close()


def test_counts_are_marked_where_journals_need_it(tmp_path: Path, read: list[str]) -> None:
    """A base serves if its stretches end at all of the sizes that are needed of it."""
    kept, journal, other = Kept(tmp_path / "vault"), MemoryJournal(), MemoryJournal()
    kept.append([0, 1])
    kept.counts.mark(journal)
    kept.append([1])
    kept.append([2])
    kept.merge()
    kept.append([3])
    (named,) = kept.again().bases.latest_first
    assert (named.sizes, named.size, named.parts) == ((2, 4), 4, 3)
    for marks, used in (((), True), ((2,), True), ((2, 4), True), ((3,), False), ((2, 3), False), ((2, 5), True)):
        read.clear()
        counts, _ = kept.loaded({size: [journal, other] for size in marks})
        assert content(counts) == [1, 2, 1, 1]
        assert counts.marked == tuple(size for size in marks if size < 5)
        for size in marks:
            counts.check_mark(journal, size)
            counts.check_mark(other, size)
        assert len(read) == (1 if used else 4)
    kept.ledger.close()


@pytest.mark.parametrize("wrong", [{"parts": 0}, {"parts": 3}, {"parts": -1}, {"parts": 1}, {"size": 2}])
def test_a_base_that_does_not_end_where_its_last_part_does_is_passed_over(
    tmp_path: Path, read: list[str], wrong: dict[str, int]
) -> None:
    kept = Kept(tmp_path / "vault")
    kept.append([0, 1])
    kept.append([1])
    kept.merge()
    (named,) = kept.parts.bases.latest_first
    assert (named.parts, named.size) == (2, 3)
    line = named.line()
    kept.ledger.write(line._replace(body=body(**{**line.plain(), **wrong})))
    store = kept.again()
    assert [store._stands(each) for each in store.bases.latest_first] == [False, True]
    read.clear()
    assert content(kept.loaded()[0]) == [1, 2, 0, 0]
    assert read == []
    kept.ledger.close()


@pytest.mark.parametrize("persons", [False, True])
def test_a_part_that_is_not_what_was_written_is_refused(tmp_path: Path, persons: bool) -> None:
    kept = Kept(tmp_path / "vault", persons=persons)
    part = kept.append([0, 1], {"a": 2} if persons else {})
    refusal = re.escape(f"part {part.cells} is missing, or not what was written; restore a backup")
    for name in part.names:
        file = kept.folder.parts / name
        flip(file)
        with pytest.raises(tr.DamagedVault, match=refusal):
            kept.loaded()
        flip(file)
        hidden = file.rename(tmp_path / "hidden")
        with pytest.raises(tr.DamagedVault, match=refusal):
            kept.loaded()
        hidden.rename(file)
    assert content(kept.loaded()[0]) == [1, 1, 0, 0]
    kept.ledger.write(Line("note", body()), drop=part.secret)
    with pytest.raises(tr.DamagedVault, match=refusal):
        kept.loaded()
    kept.ledger.close()


# -- bases -------------------------------------------------------------------------------------------------------------


def test_a_base_is_made_when_one_is_due_and_all_rows_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, float, bool]] = []

    def due(debt: float, effort: float, *, closing: bool) -> bool:
        asked.append((debt, effort, closing))
        return len(asked) == 2

    monkeypatch.setattr(parts, "due", due)
    kept = Kept(tmp_path / "vault", persons=True)

    def condense(**closing: bool) -> None:
        kept.parts.condense(kept.counts, kept.persons, kept.ledger, **closing)

    kept.append([0, 1], {"a": 2})
    condense()
    each = bases.reading(2, SCHEMA.cells, persons=True)
    debt, effort, closing = asked.pop()
    assert (debt, closing) == (each, False)
    assert effort == pytest.approx(bases.writing([2], SCHEMA.cells, persons=True))
    journal = MemoryJournal()
    kept.counts.mark(journal)
    kept.append([0, 1], {"b": 2})
    for _ in range(2):  # Each part is weighed once.
        condense(closing=True)
    debt, effort, closing = asked[0]
    assert debt == pytest.approx(2 * each)
    assert closing
    assert effort == pytest.approx(bases.writing([2, 4], SCHEMA.cells, persons=True))
    assert files(kept.folder.bases) == ["00000001-persons.parquet", "00000001.parquet"]
    condense()
    assert asked[-1][0] == 0
    # A part that is on record and not counted, after an interruption: nothing is asked, nothing made.
    before = len(asked)
    kept.parts.record(*kept.parts.write(Batch.of(np.array([1])), 0), kept.ledger, "")
    condense()
    assert len(asked) == before
    kept.ledger.close()


# -- copies and checks -------------------------------------------------------------------------------------------------


def test_a_copy_has_every_file_that_is_needed(tmp_path: Path) -> None:
    kept, other = Kept(tmp_path / "vault", persons=True), Folder(tmp_path / "copy")
    other.create()
    for cells in ([0], [1], [2]):
        kept.append(cells, {f"{cells}": 1})
        kept.merge()
    (kept.folder.bases / "00000002.parquet").unlink()  # A vault can do without bases.
    kept.parts.copy(other)
    for mine, its in ((kept.folder.parts, other.parts), (kept.folder.bases, other.bases)):
        assert files(its) == files(mine)
        assert [(its / name).read_bytes() for name in files(its)] == [(mine / name).read_bytes() for name in files(its)]
    (kept.folder.parts / "00000002-persons.parquet").unlink()
    with pytest.raises(tr.DamagedVault, match=re.escape("part 00000002-persons.parquet is missing; restore a backup")):
        kept.parts.copy(other)
    kept.ledger.close()


def checked(kept: Kept) -> None:
    kept.again().check(kept.ledger.secrets(), SCHEMA, limit(kept.persons is not None))


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_every_part_is_checked(tmp_path: Path, persons: bool, merged: bool) -> None:
    kept = Kept(tmp_path / "vault", persons=persons)
    for number in range(3):
        kept.append([number], {f"{number}": 1} if persons else {})
        if number == 1 and merged:
            kept.merge()
    checked(kept)
    for name in sorted(kept.parts.named):
        flip(kept.folder.parts / name)
        with pytest.raises(tr.DamagedVault, match="is missing, or not what was written"):
            checked(kept)
        flip(kept.folder.parts / name)
    if merged:  # A damaged base is ignored.
        flip(kept.folder.bases / "00000001.parquet")
    checked(kept)
    kept.ledger.close()


@pytest.mark.parametrize("lie", ["cells", "persons"])
def test_a_base_that_differs_from_its_parts_is_found(tmp_path: Path, lie: str) -> None:
    kept = Kept(tmp_path / "vault", persons=True)
    for number in range(3):
        kept.append([number], {f"{number}": 1})
        kept.merge()
        checked(kept)
    base = Base.of(kept.counts, kept.persons)
    if lie == "cells":
        base = Base({3: Batch(np.array([0, 3]), np.array([2, 1]))}, base.persons)
    else:
        base = Base(base.stretches, {person("0"): 3})
    kept.parts.bases.save(base, 3, kept.ledger)
    with pytest.raises(tr.DamagedVault, match=r"base 00000004\.parquet is not what its parts give: delete the bases"):
        checked(kept)
    kept.ledger.close()


def test_parts_after_a_base_are_no_part_of_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "vault")
    kept.append([0])
    kept.merge()
    kept.append([1])
    checked(kept)
    kept.ledger.close()


def test_a_person_with_too_many_rows_on_record_is_found(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "vault", persons=True)
    kept.append([0] * LIMIT, {"a": LIMIT})
    checked(kept)
    kept.append([0], {"a": 1})
    with pytest.raises(tr.DamagedVault, match=f"a person has more than {LIMIT} rows on record"):
        checked(kept)
    kept.ledger.close()


def test_a_part_has_as_many_rows_as_its_line_says(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "vault")
    part, salt = kept.parts.write(Batch.of(np.array([1, 2])), 0)
    kept.parts.record(replace(part, rows=3, size=3), salt, kept.ledger, "")
    with pytest.raises(
        tr.DamagedVault, match=r"part 00000001\.parquet has another number of rows than the ledger says"
    ):
        kept.again().load(kept.ledger.secrets(), Counts(SCHEMA), {}, None)
    kept.ledger.close()
