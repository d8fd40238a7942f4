"""Bases by themselves: which files and lines there are, and which of them can be read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import treering as tr
from support.bases import flip
from support.parts import SCHEMA, Kept
from treering.trusted.rows.batches import Base
from treering.vault import bases
from treering.vault.bases import Bases, Named
from treering.vault.files import Stage, write_file


def files(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir())


def test_a_base_that_cannot_be_written_leaves_nothing_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path / "vault", persons=True)
    kept.append([0, 1], {"a": 2})
    written: list[str] = []

    def full(path: Path, content: bytes, steps: tuple[Stage, Stage, Stage, Stage]) -> None:
        written.append(path.name)
        if len(written) == 2:
            raise tr.VaultError("the disk is full")
        write_file(path, content, steps)

    monkeypatch.setattr(bases, "write_file", full)
    before = kept.ledger.seq
    kept.merge()
    assert written == ["00000001.parquet", "00000001-persons.parquet"]
    assert (files(kept.folder.bases), kept.ledger.seq, kept.parts.bases.named) == ([], before, set())
    assert kept.parts._debt == 0
    kept.ledger.close()


def test_a_ledger_that_has_failed_gets_no_base(tmp_path: Path) -> None:
    """Before a file is written that nobody would name."""
    kept = Kept(tmp_path / "vault")
    kept.append([0])
    kept.ledger.fail("the tests say so")
    with pytest.raises(tr.VaultError, match="the tests say so"):
        kept.parts.bases.save(Base.of(kept.counts, None), 1, kept.ledger)
    assert files(kept.folder.bases) == []
    kept.ledger.close()


def test_the_latest_two_bases_are_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "vault", persons=True)
    for number in range(1, 5):
        kept.append([number % 4], {f"{number}": 1})
        kept.merge()
        numbers = [number - 1, number] if number > 1 else [1]
        names = {name for each in numbers for name in (f"{each:08d}.parquet", f"{each:08d}-persons.parquet")}
        assert set(files(kept.folder.bases)) == kept.parts.bases.named == kept.again().bases.named == names
        assert {name for name in kept.ledger.secrets() if "base" in name} == {f"base {each}" for each in numbers}
        for found in (kept.parts.bases, kept.again().bases):
            assert [named.number for named in found.latest_first] == numbers[::-1]
            assert [named.parts for named in found.latest_first] == numbers[::-1]
    kept.ledger.close()


def test_a_line_says_what_its_base_is() -> None:
    for sizes, persons in (((9,), False), ((3, 5, 9), True)):
        named = Named(2, 4, sizes, persons, "promised")
        plain = {"number": 2, "parts": 4, "size": 9, "persons": persons, "marked": list(sizes[:-1])}
        assert (named.line().kind, named.line().plain(), named.line().commitment) == ("base", plain, "promised")
        assert Named.of(named.line()) == named
        assert (named.size, named.secret) == (9, "base 2")
        assert len(named.names) == 1 + persons


def test_a_base_that_was_written_wrong_is_no_base(tmp_path: Path) -> None:
    """It is what its commitment binds, and no table of rows that its line could speak of."""
    kept = Kept(tmp_path / "vault")
    kept.append([0, 1])
    base = Base.of(kept.counts, None)
    store = Bases(kept.folder.bases, [])
    store.save(base, 1, kept.ledger)
    (named,) = store.latest_first
    secrets = kept.ledger.secrets()
    found = store.load(named, secrets, SCHEMA)
    assert found is not None
    assert found.sizes == (2,)
    assert store.load(replace(named, sizes=(3,)), secrets, SCHEMA) is None
    assert store.load(named, {}, SCHEMA) is None
    kept.ledger.close()


def test_a_base_that_is_gone_or_changed_is_no_base(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "vault", persons=True)
    kept.append([0, 1], {"a": 2})
    kept.merge()
    store = Bases(kept.folder.bases, [each.line() for each in kept.parts.bases.latest_first])
    (named,) = store.latest_first
    secrets = kept.ledger.secrets()
    for name in named.names:
        file = kept.folder.bases / name
        assert store.load(named, secrets, SCHEMA) is not None
        flip(file)
        assert store.load(named, secrets, SCHEMA) is None
        flip(file)
        hidden = file.rename(tmp_path / "hidden")
        assert store.load(named, secrets, SCHEMA) is None
        hidden.rename(file)
    kept.ledger.close()


def test_a_copy_of_bases_leaves_out_what_is_not_there(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "vault")
    for cell in range(3):
        kept.append([cell])
        kept.merge()
    (kept.folder.bases / "00000003.parquet").unlink()
    (kept.folder.bases / "unnamed").touch()
    (tmp_path / "copy").mkdir()
    kept.parts.bases.copy(tmp_path / "copy")
    assert files(tmp_path / "copy") == ["00000002.parquet"]
    assert (tmp_path / "copy" / "00000002.parquet").read_bytes() == (
        kept.folder.bases / "00000002.parquet"
    ).read_bytes()
    kept.ledger.close()
