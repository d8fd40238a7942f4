"""A vault whose series came in segments of 1, 16 and 1024 leaves (tests/fixtures/README.md): it opens and goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

import treering as tr
from support.repository import ROOT
from treering.budget.weights import Weights
from treering.mechanisms.rings import Rings
from treering.mechanisms.series.root import RootSeries

FIXTURE: Final = ROOT / "tests" / "fixtures" / "vault-roots"
SAID: Final[dict[str, Any]] = json.loads(FIXTURE.with_suffix(".json").read_text())
SUM: Final = "SELECT SUM(fare) FROM visits"
ROW: Final = {"late": "yes", "fare": 60}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy, with the folders and modes that a vault must have and Git does not keep."""
    copy = tmp_path / "vault"
    shutil.copytree(FIXTURE, copy)
    for name in ("bases", "checkpoints"):
        (copy / name).mkdir(exist_ok=True)
    for each in (copy, *copy.rglob("*")):
        each.chmod(0o700 if each.is_dir() else 0o600)
    return copy


def series(vault: tr.Vault) -> list[RootSeries]:
    """The series of its rings."""
    mechanism = vault._members[0].mechanism
    assert isinstance(mechanism, Rings)
    found = [ring.series for ring in mechanism._rings]
    assert all(isinstance(each, RootSeries) for each in found)
    return [each for each in found if isinstance(each, RootSeries)]


def check_said(vault: tr.Vault) -> None:
    """What costs nothing is what it was."""
    before = vault.spent
    for name, query, answer in SAID["answers"]:
        assert vault.ask(query, name) == tr.Answer(*answer)
    assert vault.sql(SUM).to_pydict() == SAID["sum"]
    assert vault.spent == before == SAID["status"]["spent"]


def test_it_says_what_it_said(place: Path) -> None:
    assert tr.Vault.read(place).verify() == SAID["verify"]
    with tr.Vault.open(place) as vault:
        check_said(vault)
        (rings, continual), told = vault.status()["mechanisms"], SAID["status"]["mechanisms"]
        assert rings["series"] == told[0]["series"]
        assert continual["guarantee"] == told[1]["guarantee"]
        assert [each._rule for each in series(vault)] == [
            (Weights.ROOT, 1024),
            (Weights.ROOT, 16),
            (Weights.ROOT, 16),
        ]


def test_it_goes_on_with_the_segments_that_were_begun_and_then_weights_fade(place: Path) -> None:
    """Series of 13 leaves end their segment of 16 at leaf 17; what each leaf will bring is what it brings."""
    for leaf in range(14, 21):
        with tr.Vault.open(place) as vault:
            vault.append([ROW] * 3)
            ahead = [(each.next_starts(vault.size), each.next_law(vault.size, 0)) for each in series(vault)]
            vault.ask("late = 'yes'", "rings")
            vault.ask("late = 'yes' AND fare >= 50", "rings")
            vault.ask("late = 'yes'", "continual")
            vault.sql(SUM)
            for each, (starts, law) in zip(series(vault), ahead, strict=True):
                assert each.boundaries == starts
                assert each.window(0).law.variance == pytest.approx(law.variance)
            old, young, summed = series(vault)
            assert (old.leaf, young.leaf, summed.leaf) == (leaf + 12, leaf, leaf)
            weights = [each._rule[0] for each in (old, young, summed)]
            assert weights == [Weights.ROOT, *[Weights.ROOT if leaf < 17 else Weights.FADING] * 2]
            assert vault.verify()["size"] == vault.size


def test_a_checkpoint_of_it_is_the_same(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        vault._members[0].mechanism.condense()
    assert list((place / "checkpoints").iterdir())
    with tr.Vault.open(place) as vault:
        check_said(vault)
        vault.append([ROW])
        vault.ask("late = 'yes'", "rings")
        assert vault.verify()["size"] == vault.size
