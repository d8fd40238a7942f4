"""The planner: who wins where, that its numbers are the mechanisms' own, and that the inverse questions are inverse."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.plan_rows import row_of
from treering.errors import ParameterError
from treering.theory.plan import GROWING, STATIC, plan
from treering.theory.plan.rows import Lifetime


def test_a_row_alone_is_the_row_of_the_plan() -> None:
    assert row_of("PMWG", 64, 10**6, 1.0, delta=1e-9) == plan(64, 10**6, 1.0, 1e-9).row("PMWG")


# -- who wins ----------------------------------------------------------------------------------------------------------


def test_a_histogram_wins_while_cells_are_few() -> None:
    static_plan = plan(128, 10**6, 1.0, horizon=None)
    assert static_plan.best is not None
    assert static_plan.best.name == "ContinualHistogram"  # of one batch: a histogram, once, that a vault can have
    assert static_plan.best.alpha < 0.0004
    assert static_plan.best.alpha == pytest.approx(static_plan.row("HistogramBox, once").alpha, rel=0.15)
    growing = plan(128, 10**6, 1.0)
    assert growing.best is not None
    assert growing.best.name == "ContinualHistogram"


def test_rings_win_for_few_questions() -> None:
    for queries in (1, 100, 1000):
        few = plan(65536, 10**6, 1.0, 1e-9, queries=queries)
        assert few.best is not None
        assert few.best.name == "Rings"
        assert few.best.alpha < 0.01


def test_what_a_vault_cannot_have_is_a_yardstick_and_never_the_best() -> None:
    """Noise of its own for each of as many queries as were foretold, each asked once, has the smallest error of all."""
    planned = plan(65536, 10**6, 1.0, 1e-9, queries=100)
    yardstick = planned.row("noise per query")
    assert planned.best is not None
    assert yardstick.alpha < planned.best.alpha
    assert yardstick.create is None
    assert "yardstick" in yardstick.note
    still = plan(65536, 10**6, 1.0, 1e-9, queries=100, horizon=None)
    assert {row.name for row in still.rows if row.create is None} == {
        *("noise per query", "HistogramBox, once", "HistogramBox(queries), once", "MWEM(queries), once"),
        *("SmallDB(queries), once", "PMW", "PMWG, the paper's"),
    }


def test_pmwg_wins_for_large_universes_and_many_adaptive_queries() -> None:
    for queries in (10**7, math.inf):
        many = plan(2**25, 10**8, 1.0, queries=queries)
        assert many.best is not None
        assert many.best.name == "PMWG, guard only"
        assert many.best.alpha < 0.1
        assert "histogram" in many.reason


def test_the_largest_universes_are_left_to_rings() -> None:
    """PMWG keeps a number for each cell: its row stands, but is not what a user could run."""
    huge = plan(2**62, 10**8, 1.0, queries=10**3)
    assert huge.best is not None
    assert huge.best.name == "Rings"
    row = huge.row("PMWG")
    assert row.guaranteed
    assert not row.runs
    assert "theory only" in row.note


def test_declared_queries_open_the_contest_to_boxes_that_need_them() -> None:
    declared = plan(4096, 10**6, 1.0, 1e-9, queries=10**5, adaptive=False)
    adaptive = plan(4096, 10**6, 1.0, 1e-9, queries=10**5)
    assert declared.best is not None
    assert declared.best.declared
    assert adaptive.best is not None
    assert not adaptive.best.declared
    assert declared.best.alpha < adaptive.best.alpha
    assert {row.name: row.alpha for row in declared.rows} == {row.name: row.alpha for row in adaptive.rows}


def test_without_a_guarantee_there_is_no_best_and_all_rows_stay() -> None:
    hopeless = plan(2**20, 50, 0.01)
    assert hopeless.best is None
    assert len(hopeless.rows) == len(GROWING)
    assert all(row.verdict != "guaranteed" for row in hopeless.rows)
    assert "no guarantee" in str(hopeless)
    assert "alpha=" in hopeless.reason


# -- growth ------------------------------------------------------------------------------------------------------------


def test_what_is_run_once_grows_stale() -> None:
    alphas = [row_of("HistogramBox, once", 64, 10**6, 1.0, horizon=horizon).alpha for horizon in (10**6 + 1, 2 * 10**6)]
    fresh = row_of("HistogramBox, once", 64, 10**6, 1.0, horizon=None).alpha
    assert fresh < alphas[0] < 1.02 * fresh + 1e-6
    assert alphas[1] == fresh / 2 + 0.25
    for_ever = row_of("HistogramBox, once", 64, 10**6, 1.0)
    assert for_ever.alpha == 0.5
    assert for_ever.verdict == "no better than a guess"
    assert "static only" in for_ever.note


def test_a_horizon_at_the_size_is_no_growth() -> None:
    assert plan(64, 1000, 1.0, horizon=1000) == plan(64, 1000, 1.0, horizon=None)
    assert {row.name for row in plan(64, 1000, 1.0, horizon=None).rows} == {each.name for each in STATIC}


def test_a_near_horizon_spares_continual_histogram_its_deepest_trees() -> None:
    near, far = (row_of("ContinualHistogram", 64, 10**6, 1.0, horizon=h).alpha for h in (1_050_000, math.inf))
    assert near < 0.8 * far


def test_lifetimes_speak_and_compare() -> None:
    assert Lifetime(math.inf, math.inf).words == "for ever"
    assert Lifetime(10, 500).words == "up to 500 rows, 10 queries"
    planned = plan(64, 1000, 1.0, queries=5)
    assert planned.row("noise per query").lifetime == Lifetime(5, math.inf)
    assert planned.row("ContinualHistogram").lifetime == Lifetime(math.inf, math.inf)


# -- how it reads ------------------------------------------------------------------------------------------------------


def test_a_plan_reads_as_a_table_with_words() -> None:
    text = str(plan(65536, 10**6, 1.0, 1e-9))
    assert "65,536 cells; 1,000,000 rows, growing for ever; 100 adaptive queries" in text
    assert "guaranteed error" in text
    assert "Best: Rings. It keeps every answer within 0.00140, because" in text
    assert (
        "To make it: treering create VAULT --schema SCHEMA.toml --epsilon 1 --delta 1e-09 --mechanism rings --pace 100"
    ) in text
    assert "PMWG, the paper's" in text
    assert all(len(line) < 130 for line in text.splitlines() if "  " in line)


def test_json_holds_everything_and_no_infinities() -> None:
    planned = plan(64, 1000, 1.0, queries=math.inf)
    read = json.loads(planned.to_json(), parse_constant=pytest.fail)
    assert read["queries"] is None
    assert read["best"] == planned.rows[0].name
    assert [row["name"] for row in read["rows"]] == [row.name for row in planned.rows]
    assert read["command"] == planned.command is not None
    assert read["rows"][0]["create"] == planned.rows[0].create
    assert read["rows"][0]["alpha"] == planned.rows[0].alpha
    assert read["rows"][0]["lifetime"]["words"] == planned.rows[0].lifetime.words


def test_commands_promise_no_less_than_the_plan() -> None:
    """What was found is rounded up, what was given is given on."""
    found = plan(65536, 10**6, delta=1e-9, alpha=0.01)
    assert found.best is not None
    assert found.command is not None
    epsilon = float(found.command.split("--epsilon ")[1].split()[0])
    assert found.best.epsilon <= epsilon <= found.best.epsilon * 1.01
    given = plan(65536, 10**6, 0.1234567890123, beta=0.001)
    assert given.making(given.row("PMWG"), "a", "b") is None  # no better than a guess: there is no alpha to give it
    learnt = plan(2**16, 10**8, 0.1234567890123, beta=0.001)
    row = learnt.row("PMWG")
    made = learnt.making(row, "a.treering", "b.toml")
    assert made is not None
    head, _, alpha = made.rpartition(" ")
    assert (
        head
        == "treering create a.treering --schema b.toml --epsilon 0.1234567890123 --beta 0.001 --mechanism pmwg --alpha"
    )
    assert row.alpha <= float(alpha) <= row.alpha * 1.01
    assert plan(2**20, 50, 0.01).command is None


def test_rows_and_plans_are_values() -> None:
    planned = plan(64, 1000, 1.0)
    assert planned == plan(64, 1e3, 1.0)
    name = "best"
    with pytest.raises(AttributeError):
        setattr(planned, name, None)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"cells": 1}, "cells"),
        ({"cells": 2.5}, "cells"),
        ({"cells": math.nan}, "cells"),
        ({"cells": "64"}, "cells"),
        ({"size": 0}, "size"),
        ({"size": -5}, "size"),
        ({"size": True}, "size"),
        ({"size": math.inf}, "size"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"beta": math.nan}, "beta"),
        ({"beta": 1e-200}, "beta"),
        ({"cells": 2**63}, "cells"),
        ({"size": 2**61}, "size"),
        ({"queries": 10**19}, "queries"),
        ({"queries": 0}, "queries"),
        ({"queries": math.nan}, "queries"),
        ({"horizon": 999}, "horizon"),
        ({"horizon": math.nan}, "horizon"),
        ({"horizon": -math.inf}, "horizon"),
        ({"adaptive": 1}, "adaptive"),
        ({"alpha": 0.1}, "alpha"),
        ({"epsilon": None}, "epsilon"),
        ({"size": None}, "size"),
        ({"size": None, "epsilon": None}, "size"),
        ({"epsilon": None, "alpha": 0.0}, "alpha"),
        ({"epsilon": None, "alpha": 1.0}, "alpha"),
        ({"epsilon": None, "alpha": math.nan}, "alpha"),
    ],
)
def test_bad_input_is_refused_by_name(changed: dict[str, Any], parameter: str) -> None:
    good: dict[str, Any] = {"cells": 64, "size": 1000, "epsilon": 1.0}
    with pytest.raises(ParameterError) as caught:
        plan(**{**good, **changed})
    assert caught.value.parameter == parameter


def test_a_row_that_is_not_there_is_refused_with_those_that_are() -> None:
    planned = plan(64, 10**6, 1.0)
    with pytest.raises(ParameterError, match=r"must be one of .*PMWG.*, not 'PMWH'") as refused:
        planned.row("PMWH")
    assert all(row.name in str(refused.value) for row in planned.rows)


def test_a_batch_brings_a_row_for_the_latest_batches() -> None:
    """Its error is what the mechanism states for a single batch at the end, and never less."""
    name, horizon = "ContinualHistogram(windows=True)", 20_000 * 8
    made = tr.plan(cells=64, size=20_000, epsilon=0.5, horizon=horizon, batch=20_000)
    assert name not in [row.name for row in tr.plan(cells=64, size=20_000, epsilon=0.5, horizon=horizon).rows]
    assert name not in [row.name for row in tr.plan(cells=64, size=20_000, epsilon=0.5, horizon=None, batch=9).rows]
    assert made.row(name).create is None  # `Vault.ask` has no ``since``.
    assert tr.plan(cells=64, size=20_000, epsilon=0.5, batch=20_000).row(name).alpha == math.inf
    db = tr.GrowingDatabase(tr.Schema({"a": tr.integers(0, 63)}))
    db.append_cells(np.zeros(20_000, dtype=np.int64))
    histogram = tr.ContinualHistogram(db, 0.5, windows=True)
    histogram.ask("a = 0")
    for _ in range(7):
        db.append_cells(np.zeros(20_000, dtype=np.int64))
    half = [histogram.ask("a < 32", since=since).error for since in histogram.boundaries]
    assert 0 < max(half) <= made.row(name).alpha
    with pytest.raises(tr.ParameterError, match="batch"):
        tr.plan(cells=64, size=20_000, epsilon=0.5, batch=0)
