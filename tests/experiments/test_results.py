"""What experiments find is kept, survives a run that was broken off, and is on the page."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from experiments import __main__ as everything, crossover_map, fresh_threshold, frozen_scale, results_page
from experiments.claims import Claims, heard
from experiments.record import RESULTS, Record, column, read, where, write
from treering.pictures.svg import Line, Panel

PANEL = Panel("", "x", "y", (Line("line", (0.0, 1.0), (0.2, 0.4), "black"),))


class Interrupted(Exception):
    """Somebody broke the run off."""


def interrupted() -> NoReturn:
    raise Interrupted


def test_rows_are_kept_and_not_measured_twice(tmp_path: Path) -> None:
    record = Record("trial", keep=True, resume=True, folder=tmp_path)
    record.row({"size": 10}, lambda: {"error": 0.25})
    with pytest.raises(Interrupted):
        record.row({"size": 20}, interrupted)
    again = Record("trial", keep=True, resume=True, folder=tmp_path)
    assert again.row({"size": 10}, interrupted) == {"size": "10", "error": "0.25"}
    assert again.row({"size": 20}, lambda: {"error": 0.125})["error"] == "0.125"
    again.finish("title", [PANEL], images=tmp_path)
    assert read(tmp_path / "trial.csv") == again.rows
    assert (tmp_path / "result_trial.svg").read_text().startswith("<svg")
    assert not list(tmp_path.glob("*.part"))


def test_an_experiment_that_cannot_go_on_begins_anew(tmp_path: Path) -> None:
    Record("trial", keep=True, folder=tmp_path).add({"size": 10})
    assert Record("trial", keep=True, folder=tmp_path).rows == []


def test_a_short_run_writes_nothing(tmp_path: Path) -> None:
    record = Record("trial", keep=False, folder=tmp_path)
    record.add({"size": 10})
    record.finish("title", [PANEL], images=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_columns_and_rows_are_found_by_value() -> None:
    rows = [{"size": "10", "kind": "a"}, {"size": "1e+06", "kind": "b"}, {"size": "20", "kind": "a"}]
    assert column(where(rows, kind="a"), "size") == [10.0, 20.0]
    assert where(rows, size=10**6) == rows[1:2]


def test_claims_are_heard_only_while_somebody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with heard() as claims:
        Claims().at_most("one", 1.0, 2.0)
        Claims().at_most("two", 3.0, 2.0)
    Claims().at_most("three", 1.0, 2.0)
    assert [(claim.words, claim.holds) for claim in claims] == [("one", True), ("two", False)]
    assert capsys.readouterr().out.count("holds") == 2


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], int]], None]:
    """Experiments that take no time, in the place of all others."""
    made: dict[str, Callable[[], int]] = {}

    class Module:
        def __init__(self, name: str) -> None:
            self._name = name.removeprefix("experiments.")

        def main(self, arguments: list[str]) -> int:
            return made[self._name]()

    def add(name: str, run: Callable[[], int]) -> None:
        made[name] = run
        monkeypatch.setattr(everything, "NAMES", tuple(made))

    monkeypatch.setattr(everything, "import_module", Module)
    monkeypatch.setattr(results_page, "main", lambda _: 0)
    return add


def claiming(found: float) -> Callable[[], int]:
    def run() -> int:
        claims = Claims()
        claims.at_most("claim", found, 1.0)
        return claims.exit_code()

    return run


def test_a_run_that_was_broken_off_goes_on(tmp_path: Path, fake: Callable[[str, Callable[[], int]], None]) -> None:
    fake("first", claiming(0.5))
    fake("second", interrupted)
    with pytest.raises(Interrupted):
        everything.main([], tmp_path)
    fake("first", interrupted)
    fake("second", claiming(0.75))
    assert everything.main([], tmp_path) == 0
    assert [row["found"] for row in read(tmp_path / "claims.csv")] == ["0.5", "0.75"]
    assert [row["experiment"] for row in read(tmp_path / "durations.csv")] == ["first", "second"]
    assert not list(tmp_path.glob("*.part"))
    with pytest.raises(Interrupted):
        everything.main(["--fresh"], tmp_path)


def test_a_broken_claim_or_a_failure_without_one_is_on_record(
    tmp_path: Path, fake: Callable[[str, Callable[[], int]], None]
) -> None:
    fake("broken", claiming(2.0))
    fake("failing", lambda: 1)
    assert everything.main([], tmp_path) == 1
    assert [(row["experiment"], row["holds"]) for row in read(tmp_path / "claims.csv")] == [
        ("broken", "no"),
        ("failing", "no"),
    ]


def test_the_page_is_what_the_tables_say() -> None:
    assert results_page.PAGE.read_text() == results_page.page()


def test_every_table_is_on_the_page_and_complete() -> None:
    assert {path.stem for path in RESULTS.glob("*.csv")} >= {section.name for section in results_page.SECTIONS}
    claims = read(RESULTS / "claims.csv")
    assert {row["experiment"] for row in claims} <= set(everything.NAMES)
    assert len({row["experiment"] for row in claims}) > 10


def test_a_page_shows_numbers_as_people_write_them(tmp_path: Path) -> None:
    write(tmp_path / "erm_logistic.csv", [{"size": "1e+06", "growing": "0.0123456", "static": "nan"}])
    write(tmp_path / "claims.csv", [{"experiment": "a", "claim": "b", "found": "2", "at_most": "1", "holds": "no"}])
    text = results_page.page(tmp_path)
    assert "| 1,000,000 |  |  |  | 0.0123 | – |" in text
    assert "1 claims, 1 of them broken" not in text
    assert "1 claim, 1 of them broken" in text


def test_a_page_says_how_long_it_took_if_that_is_known(tmp_path: Path) -> None:
    assert "whole run" not in results_page.page(tmp_path)
    write(tmp_path / "durations.csv", [{"experiment": name, "seconds": "600"} for name in "abc"])
    assert "took 30 minutes" in results_page.page(tmp_path)


def test_the_exact_losses_are_those_of_the_proof_and_of_the_pseudocode() -> None:
    one = [fresh_threshold.exact(steps, fresh=False) for steps in fresh_threshold.STEPS]
    fresh = [fresh_threshold.exact(steps, fresh=True) for steps in fresh_threshold.STEPS]
    assert max(one) <= fresh_threshold.EPSILON
    assert fresh[-1] == pytest.approx(2 * fresh[fresh_threshold.STEPS.index(16)])
    assert fresh[0] == pytest.approx(one[0])


def test_chances_of_halting_sum_to_one() -> None:
    for fresh in (True, False):
        assert math.fsum(fresh_threshold._chances(3, 8, fresh)) == pytest.approx(1.0)


def test_a_fresh_threshold_that_is_not_caught_breaks_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_threshold, "QUICK_SAMPLES", 2_000)  # too few to show anything
    monkeypatch.setattr(fresh_threshold, "QUICK_ATG_SAMPLES", 50)
    assert fresh_threshold.main(["--quick"]) == 1


def test_noise_that_is_not_as_predicted_breaks_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_scale, "SIZES", (40_000, 80_000))
    assert frozen_scale.main(["--quick"]) == 0
    predicted = frozen_scale.predicted
    monkeypatch.setattr(frozen_scale, "predicted", lambda kind, size: predicted(kind, 64 * size))
    assert frozen_scale.main(["--quick"]) == 1


def test_a_recommendation_that_loses_breaks_the_claim() -> None:
    place = crossover_map.Place(128, 10, 10_000)
    key = {name: str(value) for name, value in place.key.items()}
    row = {**key, "mechanism": "Rings", "recommended": "yes", "measured": "0.1", "predicted": "0.1", "refused": ""}
    other = {**row, "mechanism": "PMWG", "recommended": "no"}
    assert crossover_map.check([row, other], [place]).exit_code() == 0
    assert crossover_map.check([row, {**other, "measured": "0.01"}], [place]).exit_code() == 1
    assert crossover_map.check([{**row, "predicted": "0.01"}, other], [place]).exit_code() == 1
