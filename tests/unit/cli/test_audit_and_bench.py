"""`treering audit` and `treering bench`: verdicts, tables, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.harness import Result
from support.cli import refused, treering
from support.repository import ROOT
from treering.audit.attacks import Attack, arriving
from treering.audit.neighbours import Stream


def bit(name: str, run: Callable[[Stream], Hashable], claimed: float) -> Attack:
    return Attack(name, "one bit", claimed, 0.0, arriving((0, 0)), run, 200)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    attacks = [bit("Silent", lambda _: 0, 1.0), bit("Loud", lambda stream: stream.batches, 1.0)]
    monkeypatch.setattr("treering.audit.attacks.attacks", lambda: attacks)


@pytest.mark.usefixtures("made_up")
def test_an_audit_that_finds_more_than_was_claimed_fails() -> None:
    done = treering("audit")
    assert done.code == 1
    assert "BROKEN" in done.out
    assert "that is a bug" in done.out
    kept = treering("audit", "silent", "--json").json
    assert kept["kept"] is True
    (attack,) = kept["attacks"]
    assert attack.pop("reach") == pytest.approx(1.70, abs=0.01)
    assert attack == {
        "mechanism": "Silent",
        "attack": "one bit",
        "claimed": 1.0,
        "delta": 0.0,
        "bound": 0.0,
        "samples": 200,
        "kept": True,
    }


@pytest.mark.usefixtures("made_up")
def test_samples_can_be_said() -> None:
    assert treering("audit", "Silent", "--samples", 300, "--json").json["attacks"][0]["samples"] == 300
    assert "samples must be an integer, at least" in refused(treering("audit", "Silent", "--samples", 3))


@pytest.mark.usefixtures("made_up")
def test_samples_that_could_prove_nothing_are_not_called_kept() -> None:
    few = treering("audit", "Silent", "--samples", 60)
    assert few.code == 0
    assert "too few samples" in few.out
    assert "take more --samples" in few.out
    enough = treering("audit", "Silent")
    assert "too few samples" not in enough.out
    assert " kept" in enough.out


def test_unknown_mechanisms_are_refused_by_name() -> None:
    line = refused(treering("audit", "PMWW"))
    assert "PMWG" in line
    assert "'PMWW'" in line


def result(name: str, ratio: float) -> Result:
    return Result(name, 2.0, (ratio,), 1.0, 1.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    def results(wanted: Sequence[str]) -> Iterator[Result]:
        yield from (result(f"{name} claim", 1.0 if name == "good" else 3.0) for name in wanted)

    monkeypatch.setattr(benchmarks, "names", lambda: ["bad", "good"])
    monkeypatch.setattr(benchmarks, "results", results)
    monkeypatch.chdir(ROOT / "docs")


@pytest.mark.usefixtures("quick")
def test_a_broken_claim_fails_the_bench() -> None:
    done = treering("bench")
    assert done.code == 1
    assert "2 claims, 1 broken" in done.out
    assert treering("bench", "good").code == 0
    found = treering("bench", "good", "--json").json
    assert (found["holds"], found["results"][0]["suite"], found["results"][0]["median"]) == (True, "good", 1.0)


def test_a_row_for_information_is_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Result("row", None, (9.0,), 1.0, 1.0), result("claim", 1.0)]
    monkeypatch.setattr(benchmarks, "names", lambda: ["good"])
    monkeypatch.setattr(benchmarks, "results", lambda _: iter(rows))
    monkeypatch.chdir(ROOT)
    done = treering("bench")
    assert done.code == 0
    assert "none" in done.out
    assert "1 claims, 0 broken" in done.out


@pytest.mark.usefixtures("quick")
def test_an_unknown_suite_is_refused() -> None:
    assert "there is no suite 'x'; there are bad, good" in refused(treering("bench", "x"))


def test_outside_a_checkout_there_are_no_benchmarks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert "run this in a checkout" in refused(treering("bench"))
