"""The shares of one promise: a gate opens with the share on record, once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.budget.promise import Budget
from treering.errors import Halted, ParameterError
from treering.noise import Laplace
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.rows.kept import Rows
from treering.trusted.shares import Shares

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
LATE = tr.parse("late = 'yes'", SCHEMA)
HALF = Fraction(1, 2)
PROMISE = tr.Promise(1.0)


def taken(rows: int = 100) -> Rows:
    own = Rows(SCHEMA)
    own.add_cells(np.zeros(rows, dtype=np.int64))
    return own


def recorded(**shares: Fraction) -> Shares:
    own = Shares(PROMISE)
    for name, share in shares.items():
        own.record(name, share)
    return own


def test_a_gate_has_the_share_on_record() -> None:
    gate = recorded(one=HALF).open_gate("one", Budget("pure", HALF), taken(), MemoryJournal())
    assert gate.budget == Budget("pure", HALF)


class Generous(Budget):
    """A budget that equals whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@pytest.mark.parametrize(
    "budget",
    [
        *(Budget("pure", 100 * HALF), Budget("pure", HALF + Fraction(1, 10**30)), Budget("zcdp", HALF)),
        *(Budget("pure", HALF / 2), Generous("pure", HALF * 100), None),
    ],
)
def test_rejects_any_other_budget_than_the_share_on_record(budget: Any) -> None:
    shares = recorded(one=HALF)
    with pytest.raises(ParameterError, match=r"budget of 'one' must be its share on record, epsilon = 0\.5"):
        shares.open_gate("one", budget, taken(), MemoryJournal())
    shares.open_gate("one", Budget("pure", HALF), taken(), MemoryJournal())


def test_rejects_a_second_gate() -> None:
    shares, rows, journal = recorded(one=HALF, other=HALF), taken(), MemoryJournal()
    shares.open_gate("one", Budget("pure", HALF), rows, journal)
    for again in (journal, MemoryJournal()):
        with pytest.raises(ParameterError, match="one gate: that of 'one' is open already"):
            shares.open_gate("one", Budget("pure", HALF), rows, again)
    shares.open_gate("other", Budget("pure", HALF), rows, MemoryJournal())


def test_rejects_shares_beyond_the_promise() -> None:
    shares = recorded(one=HALF, other=Fraction(1, 3))
    for share in (Fraction(1, 6) + Fraction(1, 10**20), Fraction(0), -HALF):
        with pytest.raises(ParameterError, match="sum to at most 1"):
            shares.record("third", share)
    with pytest.raises(ParameterError, match="can only be lowered"):
        shares.record("one", Fraction(1, 100))
    shares.record("third", Fraction(1, 6))


def test_a_lowered_share_retires_its_gate_and_opens_another_once() -> None:
    shares, rows, journal = recorded(one=Fraction(1)), taken(), MemoryJournal()
    gate = shares.open_gate("one", PROMISE.budget, rows, journal)
    gate.measure([LATE], Laplace(4.0))
    shares.lower("one", HALF)
    with pytest.raises(Halted, match="share of this mechanism was lowered"):
        gate.measure([LATE], Laplace(4.0))
    with pytest.raises(ParameterError, match="must be its share on record"):
        shares.open_gate("one", PROMISE.budget, rows, journal)
    new = shares.open_gate("one", Budget("pure", HALF), rows, journal)
    assert new.spent == Fraction(1, 4)
    with pytest.raises(ParameterError, match="open already"):
        shares.open_gate("one", Budget("pure", HALF), rows, journal)
    shares.record("two", HALF)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(2), Fraction(0), Fraction(1, 4) - Fraction(1, 10**20)])
def test_rejects_lowering_to_no_share_to_a_higher_one_or_below_what_was_charged(share: Fraction) -> None:
    shares = recorded(one=Fraction(1))
    gate = shares.open_gate("one", PROMISE.budget, taken(), MemoryJournal())
    gate.measure([LATE], Laplace(4.0))
    with pytest.raises(ParameterError, match="lowered"):
        shares.lower("one", share)
    gate.measure([LATE], Laplace(4.0))  # It is not retired.
    assert gate.spent == HALF


def test_mending_a_kernel_opens_no_second_gate() -> None:
    shares, journal = recorded(one=HALF), MemoryJournal()
    gate = shares.open_gate("one", Budget("pure", HALF), taken(), journal)
    assert isinstance(gate, Kernel)
    gate.mend()
    gate.measure([LATE], Laplace(4.0))
    assert gate.spent == Fraction(1, 4)
