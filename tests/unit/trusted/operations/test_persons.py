"""Series of persons: their prices, their ledger, and what their kernel refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

import treering as tr
from support.visits import SCHEMA, costs, counted, flags, rows_of, table, wards
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.domain.sums import Capped
from treering.errors import BudgetExceeded, ParameterError, QueryError
from treering.gate import Fading, Ones, Root, SegmentBegun, Span
from treering.noise import Gaussian, Laplace
from treering.trusted import pricing
from treering.trusted.charges import newest_last
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.operations.persons import of_persons
from treering.trusted.rows.kept import Rows

VISITS = [("p", 0, 3), ("q", 1, 2), ("p", 0, 5), ("p", 1, 1), ("r", 3, 4), ("q", 0, 1), ("s", 2, 2), ("p", 2, 5)]
PRICE = Fraction(1, 10)
NEARLY = Gaussian(1e-3)
"""Noise that is nearly never there; it costs more than any budget but a huge one."""
RICH = Budget("zcdp", Fraction(10**12))


def kernel(rows: Rows, budget: Budget = RICH, limit: int = 4, journal: MemoryJournal | None = None) -> Kernel:
    return Kernel(rows, budget, journal or MemoryJournal(), None, of_persons(limit))


def cheap(limit: int = 4, most: int = 3) -> tuple[Capped, Gaussian]:
    """Flags, with noise whose price they state."""
    noise = Gaussian(100.0)
    unit = pricing.combining(3, 1, noise, flags(most, limit)).rho
    return flags(most, limit, unit), noise


# -- prices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 12])
def test_a_person_loses_in_proportion_to_the_flags_not_to_their_square(k: int) -> None:
    """K·W/σ² (14.2): the broken twin that charges K² would say more, the one that charges 1 less."""
    limit, weight, sigma = 30, 7, 50
    cost = pricing.combining(36, weight, Gaussian(float(sigma)), flags(k, limit))
    assert cost.rho * limit**2 == Fraction(k * weight**2, sigma**2)


def test_capped_rows_and_sums_cost_the_square_of_the_cap() -> None:
    cost = pricing.combining(36, 1, Gaussian(1.0), Capped(3, 3, 30, PRICE))
    assert cost.rho * 30**2 == 9
    assert pricing.combining(36, 1, Gaussian(1.0), costs(3, 3, 30)).rho * 30**2 == 9 * 25
    assert pricing.combining(36, 1, Gaussian(1.0), costs(2, 5, 30)).rho * 30**2 == 10 * 25


def test_pure_prices_are_twice_the_cap() -> None:
    cost = pricing.combining(36, 3, Laplace(1.0), flags(12, 30))
    assert cost.epsilon is not None
    assert cost.epsilon * 30 == 2 * 12 * 3


def test_one_group_has_no_discount() -> None:
    assert pricing.combining(1, 1, Gaussian(1.0), flags(1, 30)) == pricing.combining(2, 1, Gaussian(1.0), flags(1, 30))


# -- the ledger --------------------------------------------------------------------------------------------------------


def test_first_rows_pay_once_for_the_whole_series() -> None:
    rows = rows_of(VISITS[:4])
    measure, noise = cheap()
    gate = kernel(rows, Budget("zcdp", 10 * measure.price))
    begun = gate.begin_segment(wards(3), noise, 1, sums=measure)
    gate.advance(begun.segment, [Ones(1)])
    assert [gate.left(position) for position in (1, 4, 5)] == [9 * measure.price] * 2 + [10 * measure.price]
    rows.add(table(VISITS[4:]))
    following = gate.begin_segment(wards(3), noise, 1, start=4, sums=measure)
    gate.end_segment(begun.segment)
    gate.advance(following.segment, [Ones(1)])
    assert [gate.left(position) for position in (1, 4, 5, 8, 9)] == [9 * measure.price] * 4 + [10 * measure.price]


def test_nothing_is_given_back_when_a_segment_ends() -> None:
    """A flag of an early person may fall in a later segment, at the whole price (14.3)."""
    rows = rows_of(VISITS)
    measure, noise = cheap()
    measure = replace(measure, price=16 * measure.price)
    journal = MemoryJournal()
    gate = kernel(rows, Budget("zcdp", measure.price), journal=journal)
    begun = gate.begin_segment(wards(3), noise, 16, sums=measure)
    gate.advance(begun.segment, [Ones(1)])
    gate.end_segment(begun.segment)
    assert gate.left(1) == gate.left(8) == 0
    assert kernel(rows, gate.budget, journal=journal).left(1) == 0
    again = gate.begin_segment(wards(3), noise, 16, sums=measure)
    with pytest.raises(BudgetExceeded):
        gate.advance(again.segment, [Ones(1)])


def test_a_rows_segment_is_given_back() -> None:
    """The power of the test above."""
    rows = rows_of(VISITS)
    gate = Kernel(rows, Budget("zcdp", Fraction(1)), MemoryJournal())
    begun = gate.begin_segment(wards(3), Gaussian(4.0), 16)
    gate.advance(begun.segment, [Ones(1)])
    assert gate.left(1) == 0
    gate.end_segment(begun.segment)
    assert gate.left(1) == Fraction(15, 16)


# -- what counts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", [flags(3, 4), flags(2, 4), Capped(2, 4, 4, PRICE), costs(2, 3, 4)])
def test_releases_are_of_what_counts_in_each_leaf_also_after_a_restart(measure: Capped) -> None:
    measure = replace(measure, price=Fraction(10**10))
    edges, journal = (0, 3, 5, 8), MemoryJournal()
    rows, found = Rows(SCHEMA), []
    for leaf, (start, end) in enumerate(pairwise(edges)):
        rows.add(table(VISITS[start:end]))
        gate = kernel(rows, journal=journal)
        if leaf == 0:
            gate.begin_segment(wards(3), NEARLY, 8, sums=measure)
        if leaf == 1:  # The series goes on in a second segment.
            gate.begin_segment(wards(3), NEARLY, 8, start=3, sums=measure)
            gate.end_segment(0)
            gate = kernel(rows, journal=journal)
        (numbers,) = gate.advance(int(leaf > 0), [Ones(1)]).values
        found += [((leaf, place), int(number)) for place, number in enumerate(numbers) if number]
    assert dict(found) == counted(VISITS, 3, measure, edges)


def test_a_leaf_that_was_counted_but_not_released_is_counted_anew() -> None:
    class Failing(MemoryJournal):
        fail = False

        def write(self, event: Any) -> None:
            if self.fail:
                raise RuntimeError
            super().write(event)

    journal, rows = Failing(), rows_of(VISITS[:4])
    gate = kernel(rows, journal=journal)
    measure = flags(3, 4, Fraction(10**10))
    gate.begin_segment(wards(3), NEARLY, 8, sums=measure)
    journal.fail = True
    with pytest.raises(RuntimeError):
        gate.advance(0, [Ones(1)])
    journal.fail = False
    rows.add(table(VISITS[4:]))
    (numbers,) = gate.advance(0, [Ones(1)]).values
    assert numbers.tolist() == [counted(VISITS, 3, measure, (0, 8)).get((0, ward), 0) for ward in range(3)]


def test_persons_are_public_in_number() -> None:
    rows = rows_of(VISITS[:3])
    gate = kernel(rows)
    assert gate.count_persons().persons == 2
    rows.add(table(VISITS[3:]))
    assert gate.count_persons().persons == 4
    assert gate.spent == 0


def test_checkpoints_keep_the_ledger_and_the_series() -> None:
    rows, journal = rows_of(VISITS), MemoryJournal()
    measure, noise = cheap()
    gate = kernel(rows, Budget("zcdp", 2 * measure.price), journal=journal)
    gate.begin_segment(wards(3), noise, 1, sums=measure)
    gate.advance(0, [Ones(1)])
    gate.condense("kept")
    again = kernel(rows, gate.budget, journal=journal)
    assert (again.left(1), again.left(9)) == (measure.price, 2 * measure.price)
    rows.add(table([("t", 0, 0)]))
    assert again.begin_segment(wards(3), noise, 1, start=8, sums=measure).segment == 1


FLOATING: dict[str, Any] = {"price": 1.0}

# -- what is refused ---------------------------------------------------------------------------------------------------


def begun(gate: Kernel, **changed: Any) -> SegmentBegun:
    measure, noise = cheap()
    given: dict[str, Any] = {
        "groups": wards(3),
        "noise": noise,
        "room": 1,
        "start": 0,
        "series": 0,
        "sums": measure,
    } | changed
    return gate.begin_segment(**given)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"start": 4}, "must be 0 for a new series"),
        ({"sums": None}, "must be Capped"),
        ({"sums": replace(cheap()[0], each=0)}, "per_person"),
        ({"sums": replace(cheap()[0], most=5)}, "from 1 to 4"),
        ({"sums": replace(cheap()[0], limit=3)}, "from 1 to 4"),
        ({"sums": replace(cheap()[0], each=4)}, "per_person"),
        ({"sums": replace(cheap()[0], price=Fraction(0))}, "must be positive"),
        ({"sums": replace(cheap()[0], each=True)}, "integers"),
        ({"sums": replace(cheap()[0], **FLOATING)}, "a fraction"),
        ({"room": 2}, "must cover the room"),
    ],
)
def test_rejects_a_series_that_cannot_be(changed: dict[str, Any], said: str) -> None:
    rows = rows_of(VISITS[:4])
    gate = kernel(rows)
    gate.mark()
    rows.add(table(VISITS[4:]))
    with pytest.raises(ParameterError, match=said):
        begun(gate, **changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"groups": wards(2)},  # With K = m < k its groups may not change: one more was never paid for.
        {"groups": Groups.marginal(SCHEMA, ["ward"])},
        {"sums": replace(cheap()[0], price=2 * cheap()[0].price)},
        {"sums": cheap(most=2)[0], "noise": Gaussian(1000.0)},
        {"start": 0},  # Who was counted before would be counted again.
        {"start": 8},
    ],
)
def test_rejects_a_segment_that_does_not_go_on_with_its_series(changed: dict[str, Any]) -> None:
    rows = rows_of(VISITS[:4])
    gate = kernel(rows)
    begun(gate)
    gate.advance(0, [Ones(1)])
    rows.add(table(VISITS[4:]))
    with pytest.raises(ParameterError, match="the end of its one segment"):
        begun(gate, **({"start": 4} | changed))


def test_rejects_a_leaf_while_two_segments_of_a_series_are_open() -> None:
    rows = rows_of(VISITS[:4])
    gate = kernel(rows)
    begun(gate)
    gate.advance(0, [Ones(1)])
    begun(gate, start=4)
    rows.add(table(VISITS[4:]))
    for segment in (0, 1):
        with pytest.raises(ParameterError, match="waits for the other"):
            gate.advance(segment, [Ones(1)])
    with pytest.raises(ParameterError, match="the end of its one segment"):
        begun(gate, start=4)
    gate.end_segment(0)
    assert gate.advance(1, [Ones(1)]).leaf == 1


def test_a_series_that_is_over_is_never_resumed() -> None:
    rows = rows_of(VISITS[:4])
    gate = kernel(rows)
    begun(gate)
    gate.advance(0, [Ones(1)])
    gate.mark()
    gate.end_segment(0)
    rows.add(table(VISITS[4:]))
    with pytest.raises(ParameterError, match="must be 0 for a new series"):
        begun(gate, start=4)


OTHERS: list[Callable[[Kernel], object]] = [
    lambda gate: gate.measure([tr.Query.all(SCHEMA)], NEARLY),
    lambda gate: gate.combine(wards(2), [Span(0, 8, 1)], NEARLY),
    lambda gate: gate.histogram(NEARLY),
    lambda gate: gate.select([tr.Query.where(SCHEMA, ward="a")], 1.0),
]


@pytest.mark.parametrize("other", OTHERS)
def test_rejects_every_operation_that_counts_rows(other: Callable[[Kernel], object]) -> None:
    with pytest.raises(ParameterError, match="counts persons and no rows"):
        other(kernel(rows_of(VISITS)))


def test_a_ledger_of_rows_refuses_series_of_persons() -> None:
    gate = Kernel(rows_of(VISITS), RICH, MemoryJournal())
    with pytest.raises(QueryError, match="sums are Sums"):
        begun(gate)


def test_weights_are_never_negative() -> None:
    """The proof needs it: columns of weights have no negative products."""
    assert all((newest_last(pattern) > 0).all() for pattern in (Ones(50), Root(50), Fading(50)))
