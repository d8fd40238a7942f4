"""The benchmark harness, on a clock that only moves when the code under test says so."""

from __future__ import annotations

import gc
import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.harness import MOST_CALLS, Result, ratio, report


class FakeClock:
    """Time that passes only when an action takes some."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def __call__(self) -> float:
        return self.now

    def action(self, name: str, seconds: float | Callable[[], float]) -> Callable[[], None]:
        def act() -> None:
            self.log.append(name)
            self.now += seconds if isinstance(seconds, float) else seconds()

        return act


def test_the_ratio_is_that_of_the_times() -> None:
    clock = FakeClock()
    result = ratio("r", clock.action("a", 3.0), clock.action("b", 2.0), limit=2, clock=clock)
    assert result.ratios == (1.5,) * 7
    assert result.median == 1.5
    assert result.quartiles == (1.5, 1.5)
    assert (result.ours_seconds, result.reference_seconds) == (3.0, 2.0)
    assert result.holds


def test_a_ratio_above_the_limit_does_not_hold() -> None:
    clock = FakeClock()
    result = ratio("r", clock.action("a", 3.0), clock.action("b", 2.0), limit=1.49, clock=clock)
    assert not result.holds


def test_the_two_sides_are_interleaved_and_take_turns_at_going_first() -> None:
    clock = FakeClock()
    ratio("r", clock.action("a", 1.0), clock.action("b", 1.0), limit=1, repeats=3, clock=clock)
    warm_up_and_calibration = ["a", "a", "b", "b"]
    assert clock.log == [*warm_up_and_calibration, "a", "b", "b", "a", "a", "b"]


def test_pairing_cancels_a_machine_that_slows_down_steadily() -> None:
    clock = FakeClock()

    def slower_and_slower() -> float:
        return 1.0 + 0.01 * clock.now

    result = ratio(
        "r", clock.action("a", slower_and_slower), clock.action("b", slower_and_slower), limit=1.1, clock=clock
    )
    first, last = result.ratios[0], result.ratios[-1]
    assert first == pytest.approx(last, rel=0.02)
    assert result.median == pytest.approx(1, abs=0.02)
    assert result.ours_seconds > 1.05


def test_the_warm_up_is_not_timed() -> None:
    clock = FakeClock()
    first_is_slow = iter([1000.0])
    ours = clock.action("a", lambda: next(first_is_slow, 1.0))
    assert ratio("r", ours, clock.action("b", 1.0), limit=1, clock=clock).ratios == (1.0,) * 7


def test_short_actions_are_called_until_the_clock_can_see_them() -> None:
    clock = FakeClock()
    result = ratio(
        "r", clock.action("a", 2e-3), clock.action("b", 1.0), limit=1, repeats=2, minimum_seconds=0.05, clock=clock
    )
    assert result.median == pytest.approx(2e-3)
    # 32 calls of 2 ms last 0.064 s; 1 + (1 + 2 + 4 + 8 + 16 + 32) find that out.
    assert clock.log.count("a") == 1 + 63 + 2 * 32
    assert clock.log.count("b") == 2 + 2


def test_an_action_that_takes_no_time_is_not_called_for_ever() -> None:
    clock = FakeClock()
    calls = 0

    def instant() -> None:
        nonlocal calls
        calls += 1

    with pytest.raises(ValueError, match="no time"):
        ratio("r", clock.action("a", 1.0), instant, limit=1, repeats=1, clock=clock)
    assert calls <= 2 * MOST_CALLS


def test_outliers_move_the_range_but_not_the_median() -> None:
    result = Result("r", 2, (1.0, 1.0, 1.1, 0.9, 50.0), 1.0, 1.0)
    assert result.median == 1.0
    assert result.quartiles == (1.0, 1.1)
    assert result.to_json()["range"] == [0.9, 50.0]
    assert result.holds


def test_garbage_collection_is_off_while_timing_and_on_again_after_an_error() -> None:
    clock = FakeClock()
    seen: list[bool] = []

    def fail() -> None:
        seen.append(gc.isenabled())
        raise RuntimeError("broken benchmark")

    assert gc.isenabled()
    with pytest.raises(RuntimeError, match="broken benchmark"):
        ratio("r", fail, clock.action("b", 1.0), limit=1, clock=clock)
    assert seen == [False]
    assert gc.isenabled()


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_claims_nothing_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        Result("r", limit, (1.0,), 1.0, 1.0)


@pytest.mark.parametrize("ratios", [(), (math.nan,), (1.0, math.inf)])
def test_a_result_without_numbers_is_refused(ratios: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="finite ratio"):
        Result("r", 1.0, ratios, 1.0, 1.0)


def test_no_repeats_are_refused() -> None:
    with pytest.raises(ValueError, match="repeats"):
        ratio("r", lambda: None, lambda: None, limit=1, repeats=0)


def test_the_report_prints_a_row_each_and_fails_when_a_claim_is_broken(tmp_path: Path) -> None:
    kept = Result("kept", 2.0, (1.0, 1.5, 1.75), 0.1, 0.2)
    broken = Result("broken", 2.0, (3.0, 3.0, 3.0), 0.3, 0.1)
    out = io.StringIO()
    assert report([kept], out=io.StringIO()) == 0
    assert report(iter([kept, broken]), tmp_path / "results.json", out) == 1
    header, first, second, _, closing = out.getvalue().splitlines()
    assert header.startswith("benchmark")
    assert first.startswith("kept")
    assert "BROKEN" not in first
    assert second.endswith("BROKEN")
    assert closing == "2 claims, 1 broken"
    written = json.loads((tmp_path / "results.json").read_text())
    assert [each["name"] for each in written["results"]] == ["kept", "broken"]
    assert written["results"][0] == {
        "name": "kept",
        "median": 1.5,
        "quartiles": [1.25, 1.625],
        "range": [1.0, 1.75],
        "limit": 2.0,
        "holds": True,
        "repeats": 3,
        "seconds": {"ours": 0.1, "reference": 0.2},
    }
    assert set(written["machine"]) == {"python", "system", "processors"}


def test_a_row_without_a_limit_claims_nothing_and_is_told_apart() -> None:
    clock = FakeClock()
    row = ratio("row", clock.action("a", 50.0), clock.action("b", 0.5), limit=None, clock=clock)
    assert (row.limit, row.median, row.holds, row.rates) == (None, 100.0, True, None)
    out = io.StringIO()
    assert report([row, Result("claim", 2.0, (1.0,), 1.0, 1.0)], out=out) == 0
    _, first, second, _, closing = out.getvalue().splitlines()
    assert first.endswith("none")
    assert second.endswith("2")
    assert closing == "1 claims, 0 broken; 1 rows for information"
    assert row.to_json()["limit"] is None


def test_how_many_a_second_stands_beside_the_ratio_and_the_reference() -> None:
    clock = FakeClock()
    row = ratio("row", clock.action("a", 2.0), clock.action("b", 0.01), limit=None, clock=clock, count=40)
    assert row.rates == pytest.approx((20.0, 4000.0))
    assert row.to_json()["a_second"] == pytest.approx({"ours": 20.0, "reference": 4000.0})
    out = io.StringIO()
    report([row], out=out)
    line = out.getvalue().splitlines()[1]
    assert line.split()[1] == "200"
    assert line.endswith("20 a second / 4,000")


def test_real_time_tells_more_work_from_less() -> None:
    def work(items: int) -> Callable[[], int]:
        return lambda: sum(range(items))

    result = ratio("r", work(200_000), work(10_000), limit=1, repeats=3)
    assert result.median > 4
    assert not result.holds
