"""What ``mechanism="auto"`` stands for: planned with what the promise leaves for one row and one share."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from treering.budget.promise import Promise
from treering.vault import kinds
from treering.vault.kinds import EXPECTED_ROWS, choose


@pytest.mark.parametrize(
    ("promise", "epsilon"),
    [
        (Promise(1.5), 1.5),
        (Promise(1.5, rows_per_person=3), 0.5),
        (Promise(1.5, share=Fraction(1, 3)), 0.5),
        (Promise(1.5, rows_per_person=3, share=Fraction(1, 2)), 0.25),
        (Promise(1.5, 1e-6), 1.5),
        (Promise(1.5, 1e-6, rows_per_person=3), 0.5),
        # A share is one of rho, which is about a multiple of epsilon's square.
        (Promise(1.5, 1e-6, share=Fraction(1, 9)), 0.5),
    ],
)
def test_a_part_of_a_promise_is_planned_with_as_much_less(
    promise: Promise, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Any, ...]] = []

    def plan(*arguments: Any) -> Any:
        given.append(arguments)
        return SimpleNamespace(rows=[SimpleNamespace(name="ContinualHistogram", alpha=0.1)])

    monkeypatch.setattr(kinds, "plan", plan)
    assert [choose(72, promise, alpha, 0.05, 1000) for alpha in (0.09, 0.1, 0.11)] == ["pmwg", "continual", "continual"]
    assert given == [(72, 1000, pytest.approx(epsilon), float(promise.delta), 0.05)] * 3


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_few_cells_are_kept_as_a_histogram_and_many_are_learnt(delta: float) -> None:
    assert choose(16, Promise(1.0, delta), 0.05, 0.05, EXPECTED_ROWS) == "continual"
    assert choose(2**24, Promise(1.0, delta), 0.05, 0.05, EXPECTED_ROWS) == "pmwg"


def test_where_no_histogram_is_planned_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "plan", lambda *_: SimpleNamespace(rows=[]))
    assert choose(16, Promise(1.0), 0.99, 0.05, 1000) == "pmwg"
