"""Each experiment's short version holds, and each kind of claim can be seen to break.

The short versions take beta = 1e-8: by the mechanisms' theorems, each promise of accuracy fails by chance with at most
that probability. What they spend is far below its limits, and two have no private noise in them. The exponent that
`schedulers_improver` measures is nine standard errors from its limit, and its other claims hold by factors.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np
import pytest

import treering as tr
from experiments import (
    __main__ as everything,
    compare_mechanisms,
    pmwg_bounds,
    pmwg_flights,
    pmwg_forgetting,
    pmwg_synthetic,
    schedulers_flights,
    schedulers_improver,
)
from experiments.claims import Claims
from experiments.flights_stream import LAST_DAY
from experiments.options import QUICK_BETA
from experiments.stream import Stream, Tally, spent_share
from support.coded import coded
from support.repository import ROOT
from treering.demo.flights import SCHEMA, cells_of, days, flights

PICTURES = ("rings_picture", "pmwg_picture", "schedulers_picture", "erm_picture", "learn_picture", "terminal_picture")


@pytest.mark.parametrize("name", [*everything.NAMES, *PICTURES])
def test_the_claims_hold_in_short(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = import_module(f"experiments.{name}").main(["--quick"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "holds" in printed
    assert "BROKEN" not in printed


def test_all_experiments_but_the_pictures_are_run_together() -> None:
    found = {path.stem for path in (ROOT / "experiments").glob("*.py") if "\ndef main(" in path.read_text()}
    alone = {"results_page", "page_picture"}  # tests/service/page takes the second
    assert found == {"__main__", *alone, *everything.NAMES, *PICTURES}


def test_one_broken_claim_breaks_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "NAMES", ("pmwg_bounds",))
    monkeypatch.setattr(pmwg_bounds, "CELLS", (10**3,))
    monkeypatch.setattr(pmwg_bounds, "SIZES", (10**6, 10**7))
    assert everything.main(["--quick"]) == 0
    monkeypatch.setattr(pmwg_bounds, "MOST_OF_PAPER", {0.0: 0.17, 1e-9: 0.16})
    assert everything.main(["--quick"]) == 1


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


@pytest.mark.parametrize(("name", "limit"), [("EXPONENT", 2.0), ("MOST_RUNS", 1e-4)])
def test_noise_that_falls_slowly_or_in_too_many_runs_breaks_the_claim(
    name: str, limit: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schedulers_improver, "QUICK_STREAMS", 1)
    monkeypatch.setattr(schedulers_improver, "END", 8_000)
    monkeypatch.setattr(schedulers_improver, "COMPARED", [2_000, 8_000])
    monkeypatch.setattr(schedulers_improver, "EXPONENT", 0.0)
    monkeypatch.setattr(schedulers_improver, name, limit)
    assert schedulers_improver.main(["--quick"]) == 1
    assert capsys.readouterr().out.count("BROKEN") == 1


@pytest.fixture
def course() -> schedulers_flights.Course:
    """One box on the flights, with nothing wrong."""
    (course,) = schedulers_flights.run(60, QUICK_BETA, 1, schedulers_flights.CASES[1:2])
    assert schedulers_flights.check([course], QUICK_BETA).exit_code() == 0
    return course


@pytest.mark.parametrize(
    ("claim", "spoil"),
    [
        ("largest error less its bound", lambda course: setattr(course.tally, "worst_excess", 0.001)),
        ("largest bound", lambda course: setattr(course.tally, "widest_bound", 0.2)),
        ("largest staleness", lambda course: course.staleness.append(0.2)),
        ("epochs", lambda course: course.epochs.extend(course.sizes)),
        ("epochs that failed", lambda course: setattr(course, "failed", 1)),
        ("share of the budget spent", lambda course: setattr(course, "spent", 1.01)),
    ],
)
def test_each_claim_about_the_schedulers_can_break(
    claim: str,
    spoil: Callable[[schedulers_flights.Course], None],
    course: schedulers_flights.Course,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(course)
    assert schedulers_flights.check([course], QUICK_BETA).exit_code() == 1
    broken = [line for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]
    assert len(broken) == 1
    assert f"AnswersBox(queries): {claim}: " in broken[0]


def test_the_staleness_is_of_the_rows_that_came_since(course: schedulers_flights.Course) -> None:
    assert course.sizes[0] == course.start == course.epochs[0] == 27_004
    assert course.sizes[-1] == 336_776
    for size, stale in zip(course.sizes, course.staleness, strict=True):
        epoch = max(each for each in course.epochs if each <= size)
        assert stale == pytest.approx(1 - epoch / size)


def test_mechanisms_are_compared_on_the_same_questions(capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(3)
    outcomes = compare_mechanisms.compare(
        compare_mechanisms.few_cells(2, generator), compare_mechanisms.BOTH, 10, QUICK_BETA, generator
    )
    assert [outcome.tally.answered for outcome in outcomes] == [30, 30]
    assert all(max(outcome.errors) == outcome.tally.worst_error <= outcome.alpha for outcome in outcomes)
    claims = Claims()
    compare_mechanisms.claim_all(claims, outcomes)
    assert claims.exit_code() == 0
    outcomes[0].spent = 1.5
    compare_mechanisms.claim_all(claims, outcomes)
    assert claims.exit_code() == 1
    assert compare_mechanisms.report("title", outcomes)[compare_mechanisms.CONTINUAL] is outcomes[0]
    assert "150.0%" in capsys.readouterr().out


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
        cells, dropped = coded(day, SCHEMA, drop=False)
        assert dropped == 0
        assert np.array_equal(cells, cells_of(day))
        few, dropped = coded(day.select(schedulers_flights.SCHEMA.names), schedulers_flights.SCHEMA, drop=False)
        assert dropped == 0
        assert np.array_equal(few, cells_of(day, schedulers_flights.SCHEMA))


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
