"""Each experiment's short version holds, and each kind of claim can be seen to break.

The short versions take beta = 1e-8: by PMWG's theorem, each of the three accuracy tests fails by chance with at most
that probability. What they spend is far below its limits, and the other two have no private noise in them.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import treering as tr
from examples.flights_data import days, flights
from experiments import __main__ as everything
from experiments import pmwg_bounds, pmwg_flights, pmwg_forgetting, pmwg_synthetic
from experiments.claims import Claims
from experiments.flights_stream import LAST_DAY, SCHEMA, cells_of
from experiments.options import QUICK_BETA
from experiments.stream import Stream, Tally, spent_share
from support.repository import ROOT
from treering.trusted.encode import encode

PICTURE = "pmwg_picture"


@pytest.mark.parametrize("name", [*everything.NAMES, PICTURE])
def test_the_claims_hold_in_short(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = import_module(f"experiments.{name}").main(["--quick"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "holds" in printed
    assert "BROKEN" not in printed


def test_all_experiments_but_the_picture_are_run_together() -> None:
    found = {path.stem for path in (ROOT / "experiments").glob("pmwg_*.py")}
    assert found == {*everything.NAMES, PICTURE}


def test_one_broken_claim_breaks_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "NAMES", ("pmwg_bounds",))
    monkeypatch.setattr(pmwg_bounds, "CELLS", (10**3,))
    monkeypatch.setattr(pmwg_bounds, "SIZES", (10**6,))
    assert everything.main([]) == 0
    monkeypatch.setattr(pmwg_bounds, "MOST_OF_PAPER", {0.0: 0.17, 1e-9: 0.16})
    assert everything.main([]) == 1


def test_forgetting_as_much_as_the_paper_breaks_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pmwg_forgetting, "run", lambda *_: (100, [60, 50, 31, 20]))
    assert pmwg_forgetting.main(["--quick"]) == 1
    monkeypatch.setattr(pmwg_forgetting, "run", lambda *_: (100, [60, 50, 30, 20]))
    assert pmwg_forgetting.main(["--quick"]) == 0


def test_spending_too_much_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pmwg_synthetic, "QUICK", pmwg_synthetic.Setting(20, 2, QUICK_BETA))
    monkeypatch.setattr(pmwg_synthetic, "MOST_SPENT", {0.05: 1e-9})
    assert pmwg_synthetic.main(["--quick"]) == 1
    broken = [line for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]
    assert len(broken) == 1
    assert "share of the budget spent" in broken[0]


def test_questions_left_open_break_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pmwg_flights, "ALPHA", 0.004)  # so fine that the budget cannot pay for all
    monkeypatch.setattr(pmwg_flights, "QUICK_QUERIES", 4_000)
    assert pmwg_flights.main(["--quick"]) == 1


@pytest.mark.parametrize(
    ("answer", "truth", "holds"),
    [
        (tr.Answer(0.30, 0.04, 100, "easy"), 0.34, True),
        (tr.Answer(0.30, 0.04, 100, "easy"), 0.35, False),
        (tr.Answer(0.30, 0.04, 100, "easy"), 0.25, False),
        (tr.Answer(0.30, 0.06, 100, "easy"), 0.30, False),
    ],
)
def test_an_error_beyond_its_bound_and_a_bound_beyond_alpha_are_seen(
    answer: tr.Answer, truth: float, holds: bool
) -> None:
    tally, claims = Tally(), Claims()
    tally.add([answer], np.array([truth]))
    claims.accurate("one", tally, 0.05)
    assert claims.exit_code() == (0 if holds else 1)


def test_a_tally_keeps_the_worst_and_counts_kinds() -> None:
    tally = Tally()
    tally.add([tr.Answer(0.2, 0.05, 10, "easy"), tr.Answer(0.5, 0.01, 10, "hard")], np.array([0.17, 0.5, 0.9]))
    tally.add([tr.Answer(0.1, 0.05, 10, "easy")], np.array([0.11]))
    assert tally.answered == 3
    assert tally.worst_error == pytest.approx(0.03)
    assert tally.worst_excess == pytest.approx(-0.01)
    assert tally.describe_kinds() == "2 easy, 1 hard"


def test_the_truth_beside_the_database_is_counted_by_hand() -> None:
    schema = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
    stream = Stream(schema)
    stream.append(np.array([0, 1, 5, 5]))
    queries = [tr.parse("a = 1", schema), tr.parse("b >= 1", schema), tr.parse("a = 1 AND b = 2", schema)]
    assert stream.shares(queries).tolist() == [0.5, 0.75, 0.5]
    stream.append(np.array([3, 3, 3, 3]))
    assert stream.shares(queries).tolist() == [0.75, 0.375, 0.25]
    assert stream.database.size == 8


def test_the_flights_fall_into_the_cells_that_the_database_counts() -> None:
    daily = days(flights(), SCHEMA.names)
    assert (len(daily), SCHEMA.cells) == (LAST_DAY, 20_736)
    assert sum(day.num_rows for day in daily) == 336_776
    for day in daily[::40]:
        cells, dropped = encode(day, SCHEMA, drop=False)
        assert dropped == 0
        assert np.array_equal(cells, cells_of(day))


def test_the_analyst_comes_back_to_what_surprised() -> None:
    analyst = pmwg_flights.Analyst(np.random.default_rng(0))
    surprising = tr.parse("origin = 'JFK' AND delay >= 15", SCHEMA)
    for number in range(2 * analyst.REMEMBERED):
        analyst.learn(tr.parse(f"month <= {number % 11 + 1} AND delay < 0", SCHEMA), 0.001)
    for number in range(analyst.REMEMBERED):
        analyst.learn(surprising, 0.1 + number)
    asked = [analyst.question() for _ in range(600)]
    assert 60 <= asked.count(surprising) <= 140  # a sixth of them
    assert len(set(asked)) > 400


def test_the_default_column_is_what_pmwg_says() -> None:
    cells, size, delta, beta = 1_000, 10**6, 1e-9, 0.005
    database = tr.GrowingDatabase(tr.Schema({"a": tr.integers(1, cells)}))
    database.append_cells(np.zeros(size, dtype=np.int64))
    alpha = pmwg_bounds.default_alpha(size, cells, delta, beta)

    def lasts(alpha: float) -> bool:
        return tr.PMWG(database, 1.0, delta, alpha=alpha, beta=beta).guarantee.forever

    assert lasts(alpha)
    assert not lasts(0.998 * alpha)


def test_the_share_spent_is_of_the_whole_budget() -> None:
    database = tr.GrowingDatabase(tr.Schema({"a": tr.integers(0, 3)}))
    database.append_cells(np.zeros(10**6, dtype=np.int64))
    mechanism = tr.PMWG(database, 1.0, alpha=0.05, beta=0.05)
    assert spent_share(mechanism) == 0
    mechanism.ask("a = 0")
    assert 0 < mechanism.spent < 0.01
    assert spent_share(mechanism) == pytest.approx(mechanism.spent)
