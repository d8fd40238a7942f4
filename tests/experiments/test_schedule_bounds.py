"""The short version of the schedules' experiment holds, and its claims can be seen to break. Nothing here is random."""

from __future__ import annotations

import pytest

from experiments import schedule_bounds


def broken(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]


def test_the_claims_hold_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    assert schedule_bounds.main(["--quick"]) == 0
    assert broken(capsys) == []


def test_other_numbers_break_the_claims(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(schedule_bounds, "STATED", {(10**8, 0.0): (0.310, 0.2230)})
    monkeypatch.setattr(schedule_bounds, "STATED_OWN", (0.070, 0.030))
    monkeypatch.setattr(schedule_bounds, "ratios", lambda *_: iter([0.5, 1.001, 0.9]))
    monkeypatch.setattr(schedule_bounds, "RATES", ((1.0, 10.0),))
    monkeypatch.setattr(schedule_bounds, "EXPONENT_WITHIN", 0.001)
    monkeypatch.setattr(schedule_bounds, "LEAST_EXPONENT", 0.8)
    monkeypatch.setattr(schedule_bounds, "MOST_RUNS", 1e-6)
    assert schedule_bounds.main(["--quick"]) == 1
    assert len(broken(capsys)) == 4 + 1 + 1 + 2
