"""Discovery at the gate: what is told, what it costs which rows, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from treering.budget.promise import Budget
from treering.budget.threshold import tail, threshold
from treering.domain.axis import Scalar
from treering.domain.schema import Schema
from treering.errors import BudgetExceeded, DamagedVault, ParameterError
from treering.gate import Discovered, Discovery
from treering.noise import Gaussian
from treering.trusted.charges import Charges
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.noise import draw
from treering.trusted.operations.discover import Discovering, told
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.typed import typed

SCHEMA = Schema({"ward": tr.categories("north", "south", other=True, missing=True), "age": tr.integers(0, 9)})
CODES = Schema({"unit": tr.categories(1, 2, other=True, missing=True)})
WARD, UNIT = Scalar("ward", "text"), Scalar("unit", "code")
BUDGET = Budget("zcdp", Fraction(10))
ASIDE = Fraction(1, 2)


def rows_of(wards: list[str | None]) -> Rows:
    rows = Rows(SCHEMA)
    rows.add(typed(pa.table({"ward": pa.array(wards, pa.string()), "age": pa.array([1] * len(wards))}), SCHEMA))
    return rows


def gate_of(rows: Rows, budget: Budget = BUDGET, aside: Fraction = ASIDE) -> Kernel:
    return Kernel(rows, budget, MemoryJournal(), aside=aside)


def request(end: int, start: int = 0, scale: float = 2.0, failure: Fraction = Fraction(1, 1000)) -> Discovery:
    return Discovery(WARD, ("north", "south"), (start, end), scale, failure)


# -- what is told ------------------------------------------------------------------------------------------------------


def test_values_of_many_rows_are_told_in_their_order() -> None:
    wards: list[str | None] = [*["z"] * 500, *["b"] * 400, *["é"] * 300, *["north"] * 900, *[None] * 900, "rare"]
    event = gate_of(rows_of(wards)).discover(request(len(wards)))
    assert [value for value, _ in event.found] == ["b", "z", "é"]
    for (_, count), exact in zip(event.found, (400, 500, 300), strict=True):
        assert abs(count - exact) < 40  # 20 times the noise


def test_integers_are_told_in_their_order() -> None:
    rows = Rows(CODES)
    rows.add(typed(pa.table({"unit": pa.array([10] * 300 + [9] * 300 + [-3] * 300 + [1] * 300)}), CODES))
    event = gate_of(rows).discover(Discovery(UNIT, (1, 2), (0, 1200), 2.0, Fraction(1, 1000)))
    assert [value for value, _ in event.found] == [-3, 9, 10]


def test_a_noisy_count_at_the_threshold_is_told_and_one_below_is_not() -> None:
    values = pa.array(["a", "b", "c"])
    assert told(values, np.array([7, 8, 9]), 8) == (("b", 8), ("c", 9))


def test_values_of_one_row_are_told_as_often_as_the_noise_says() -> None:
    """So there is no least count before the threshold, and the noise has its scale."""
    number, scale, failure = 40_000, 3.0, Fraction(1, 20)
    wards: list[str | None] = [f"ward {each}" for each in range(number)]
    event = gate_of(rows_of(wards)).discover(request(number, scale=scale, failure=failure))
    chance = float(tail(scale, threshold(scale, failure) - 1))
    assert chance <= float(failure)
    assert abs(len(event.found) - number * chance) < 7 * math.sqrt(number * chance)  # by chance once in 1e11 runs
    assert not math.isclose(float(tail(scale * 1.2, threshold(scale, failure) - 1)), chance, rel_tol=0.2)


def test_a_value_of_one_row_is_found_in_none_of_ten_thousand_lives() -> None:
    failure, scale = Fraction(1, 10**10), 14.3
    noisy = 1 + draw(Gaussian(scale), 1, 10_000)
    assert told(pa.array(["alone"] * 10_000), noisy, threshold(scale, failure)) == ()  # fails once in a million runs


ORDERS = (1.5, 2.0, 5.0, 20.0)


@pytest.mark.parametrize(("count", "scale"), [(1, 2.0), (9, 2.0), (12, 3.0), (40, 14.3)])
def test_what_is_told_of_a_value_that_both_worlds_have_costs_no_more_than_its_noisy_count(
    count: int, scale: float
) -> None:
    """By enumeration: the law of "not told, or told with n" for a count and for one more."""
    least = threshold(scale, Fraction(1, 1000))
    far = count + least + math.ceil(12 * scale)
    mass = [math.exp(-(k**2) / (2 * scale**2)) for k in range(-2 * far, 2 * far)]

    def law(rows: int) -> np.ndarray:
        shifted = np.array(mass)[2 * far + least - rows : 2 * far + far - rows] / math.fsum(mass)
        return np.array([1 - shifted.sum(), *shifted])

    for one, other in ((law(count), law(count + 1)), (law(count + 1), law(count))):
        for order in ORDERS:
            divergence = renyi(one, other, order)
            assert divergence <= order / (2 * scale**2) + 1e-9


def renyi(one: np.ndarray, other: np.ndarray, order: float) -> float:
    with np.errstate(divide="ignore"):
        logs = order * np.log(one) + (1 - order) * np.log(other)
    seen = one > 1e-280
    return float(np.logaddexp.reduce(logs[seen])) / (order - 1)


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_the_rows_that_are_looked_at_pay_and_no_others() -> None:
    rows = rows_of(["a"] * 100)
    gate = gate_of(rows)
    rows.add(typed(pa.table({"ward": ["b"] * 50, "age": [1] * 50}), SCHEMA))
    event = gate.discover(request(150, 100))
    assert event.cost.rho == Fraction(1, 4)
    assert [gate.left(each) for each in (100, 101, 150, 151)] == [10, Fraction(39, 4), Fraction(39, 4), 10]
    assert [value for value, _ in event.found] == ["b"]


def test_chances_of_failure_add_up_by_row() -> None:
    rows = rows_of(["a"] * 100)
    gate = gate_of(rows, aside=Fraction(3, 1000))
    gate.discover(request(100))
    gate.discover(request(100, failure=Fraction(2, 1000)))
    with pytest.raises(ParameterError, match="failure must be at most 0, what these rows have left"):
        gate.discover(request(100))
    rows.add(typed(pa.table({"ward": ["b"] * 50, "age": [1] * 50}), SCHEMA))
    with pytest.raises(ParameterError, match="failure"):
        gate.discover(request(150))
    spent = gate.spent
    gate.discover(request(150, 100, failure=Fraction(3, 1000)))
    assert gate.spent == spent


def test_what_the_budget_does_not_cover_is_refused_and_costs_nothing() -> None:
    gate = gate_of(rows_of(["a"] * 100), Budget("zcdp", Fraction(1, 10)), Fraction(1, 1000))
    with pytest.raises(BudgetExceeded):
        gate.discover(request(100))
    assert gate.left(1) == Fraction(1, 10)
    gate.discover(request(100, scale=4.0))  # Nothing of what is set aside was used before.


def test_a_history_is_followed_to_the_same_account() -> None:
    rows, journal = rows_of(["a"] * 100), MemoryJournal()
    gate = Kernel(rows, BUDGET, journal, aside=Fraction(1, 1000))
    gate.discover(request(100))
    again = Kernel(rows, BUDGET, journal, aside=Fraction(1, 1000))
    assert (again.left(1), again.spent) == (gate.left(1), gate.spent)
    with pytest.raises(ParameterError, match="failure"):
        again.discover(request(100))


def test_a_condensed_record_keeps_the_chances_of_failure() -> None:
    rows, journal = rows_of(["a"] * 100), MemoryJournal()
    gate = Kernel(rows, BUDGET, journal, aside=Fraction(1, 1000))
    gate.discover(request(100))
    gate.condense(None)
    again = Kernel(rows, BUDGET, journal, aside=Fraction(1, 1000))
    assert again.left(1) == gate.left(1)
    with pytest.raises(ParameterError, match="failure"):
        again.discover(request(100))


def test_a_record_of_discoveries_where_nothing_is_set_aside_is_damaged() -> None:
    event = gate_of(rows_of(["a"] * 100)).discover(request(100))
    with pytest.raises(DamagedVault, match="nothing of delta is set aside"):
        Discovering().follow(event, Charges(BUDGET, Fraction(0)))


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_rejects_delta_of_which_nothing_is_set_aside() -> None:
    with pytest.raises(ParameterError, match="delta has no part that is set aside"):
        gate_of(rows_of(["a"] * 9), aside=Fraction(0)).discover(request(9))


def test_rejects_budget_that_is_pure() -> None:
    with pytest.raises(ParameterError, match="delta > 0"):
        gate_of(rows_of(["a"] * 9), Budget("pure", Fraction(1))).discover(request(9))


@pytest.mark.parametrize("scalar", [Scalar("age", "integer"), Scalar("ward", "code"), Scalar("place", "text")])
def test_rejects_column_that_is_no_kept_list(scalar: Scalar) -> None:
    with pytest.raises(ParameterError, match="column"):
        gate_of(rows_of(["a"] * 9)).discover(replace(request(9), scalar=scalar))


@pytest.mark.parametrize("listed", [("north", 3), ["north"], (b"north",)])
def test_rejects_listed_of_another_kind(listed: Any) -> None:
    asked = replace(request(9), listed=listed)
    with pytest.raises(ParameterError, match="listed"):
        gate_of(rows_of(["a"] * 9)).discover(asked)


@pytest.mark.parametrize("rows", [(0, 0), (-1, 5), (9, 0), (0, 10), (0.0, 9), (9,), None])
def test_rejects_rows_that_are_none(rows: tuple[int, int]) -> None:
    with pytest.raises(ParameterError, match="rows"):
        gate_of(rows_of(["a"] * 9)).discover(replace(request(9), rows=rows))


def test_rejects_column_of_rows_given_as_cells() -> None:
    rows = Rows(SCHEMA)
    rows.add_cells(np.zeros(9, dtype=np.int64))
    with pytest.raises(ParameterError, match="column has its values elsewhere"):
        gate_of(rows).discover(request(9))


def test_rejects_request_of_a_subclass() -> None:
    class Sly(Discovery):
        pass

    with pytest.raises(ParameterError, match="request"):
        gate_of(rows_of(["a"] * 9)).discover(Sly(WARD, (), (0, 9), 2.0, Fraction(1, 1000)))


def test_an_event_shows_no_value_that_is_not_told() -> None:
    event = gate_of(rows_of(["secret", *["open"] * 500])).discover(request(501))
    assert isinstance(event, Discovered)
    assert "secret" not in repr(event)
