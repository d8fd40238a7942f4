"""Which mutants are tried, which are known to be harmless, and what is said at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mutants.__main__ import PACKAGES, all_places, described, harmless, main, report, sample, table
from mutants.changes import Mutant, mutant
from mutants.trials import Verdict
from support.imports import SOURCE

HOUSE = SOURCE / "treering"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    for package, text in {"budget": "x = a + b\ny = a - b\n", "vault": "z = a < b\n"}.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "one.py").write_text(text)
    return tmp_path


def test_a_seed_gives_the_same_sample() -> None:
    assert sample(HOUSE, ["budget"], 20, 1) == sample(HOUSE, ["budget"], 20, 1)
    assert sample(HOUSE, ["budget"], 20, 1) != sample(HOUSE, ["budget"], 20, 2)


def test_no_place_is_chosen_twice_and_all_can_be(house: Path) -> None:
    chosen = [each.place for each in sample(house, ["budget", "vault"], 10, 0)]
    assert len(set(chosen)) == len(chosen) == 3
    assert {each.place for seed in range(30) for each in sample(house, ["budget", "vault"], 1, seed)} == set(chosen)


def test_every_change_of_a_place_can_be_chosen(house: Path) -> None:
    assert {sample(house, ["vault"], 1, seed)[0].after for seed in range(20)} == {"z = a <= b", "z = a >= b"}


def test_a_sample_can_be_gone_on_with(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """After the first two of five: the other three are those that all five would have ended with."""
    tried: list[Mutant] = []

    def trials(mutants: Sequence[Mutant], *_: object) -> list[Verdict]:
        tried.extend(mutants)
        return [Verdict(each, "") for each in mutants]

    monkeypatch.setattr("mutants.__main__.trials", trials)
    monkeypatch.setattr("mutants.__main__.check", lambda *_: None)
    monkeypatch.setattr("mutants.__main__.files", list)
    assert main(["-n", "5", "--seed", "1", "--skip", "2", "--near", "--workers", "1", "budget"]) == 0
    known = harmless()
    assert tried == [each for each in sample(HOUSE, ["budget"], 5, 1)[2:] if each.key not in known]
    assert "3 mutants, seed 1 without the first 2;" in capsys.readouterr().out


def test_every_package_has_many_places() -> None:
    assert all(len(all_places(HOUSE, [package])) > 300 for package in PACKAGES)


def test_what_is_listed_as_harmless_is_still_there() -> None:
    there = {
        mutant((HOUSE / place.file).read_text(), place, change).key
        for place in all_places(HOUSE, PACKAGES)
        for change in place.changes
    }
    assert set(harmless()) - there == set()
    assert all(harmless().values())


def test_the_report(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add, subtract, compare = sorted(sample(house, ["budget", "vault"], 3, 0), key=lambda each: each.key)
    verdicts = [Verdict(add, "tests/x.py::test_x"), Verdict(subtract, "")]
    assert described(subtract) == "src/treering/budget/one.py:2 (module): y = a - b → y = a + b"
    assert [line.split() for line in table(verdicts, [compare], ["budget", "vault"])] == [
        ["package", "caught", "survived", "harmless", "share"],
        ["budget", "1", "1", "0", "50.0%"],
        ["vault", "0", "0", "1", "-"],
        ["all", "1", "1", "1", "50.0%"],
    ]
    assert report(verdicts, [compare], ["budget"], 0.5) == 0
    assert report(verdicts, [compare], ["budget"], 0.51) == 1
    assert described(subtract) in capsys.readouterr().out


def test_with_nothing_tried_nothing_has_survived(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([], [], ["budget"], 0.97) == 0
    assert "none survived" in capsys.readouterr().out
