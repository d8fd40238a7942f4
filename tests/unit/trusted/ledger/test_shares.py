"""Shares of one promise: they sum to at most 1, and none is ever raised."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treering.trusted.ledger.shares import Shares, Spec, with_shares

HALF, THIRD, LITTLE = Fraction(1, 2), Fraction(1, 3), Fraction(1, 10**20)


def spec(name: str, share: Fraction) -> Spec:
    return Spec(name, "rings", share, {"pace": 8})


def recorded(**shares: Fraction) -> Shares:
    own = Shares()
    for name, share in shares.items():
        assert own.problem(spec(name, share), {}) == ""
        own.add(spec(name, share), {})
    return own


def test_a_specification_as_the_ledger_keeps_it() -> None:
    one = Spec("name", "rings", THIRD, {"pace": 8})
    assert one.to_dict() == {"name": "name", "kind": "rings", "share": "1/3", "options": {"pace": 8}}
    assert Spec.from_dict(one.to_dict()) == one


@pytest.mark.parametrize("share", [HALF - THIRD + LITTLE, Fraction(1), Fraction(0), -HALF])
def test_rejects_shares_that_sum_to_more_than_the_promise(share: Fraction) -> None:
    assert "exceed the whole promise" in recorded(one=HALF, other=THIRD).problem(spec("third", share), {})


def test_the_rest_of_a_promise_can_be_shared() -> None:
    own = recorded(one=HALF, other=THIRD)
    assert own.problem(spec("third", HALF - THIRD), {}) == ""


def test_rejects_a_name_that_is_on_record() -> None:
    assert "two mechanisms on record are called 'one'" in recorded(one=HALF).problem(spec("one", LITTLE), {})


@pytest.mark.parametrize("lowered", [{"one": HALF}, {"one": Fraction(3, 4)}, {"one": Fraction(0)}, {"none": THIRD}])
def test_rejects_a_share_that_is_raised_or_of_no_mechanism(lowered: dict[str, Fraction]) -> None:
    assert "lowered that is not there, or was raised" in recorded(one=HALF).problem(spec("two", LITTLE), lowered)


def test_a_lowered_share_makes_room() -> None:
    own = recorded(one=HALF, other=HALF)
    new = spec("third", HALF - THIRD)
    assert own.problem(new, {}) != ""
    assert own.problem(new, {"other": THIRD}) == ""
    own.add(new, {"other": THIRD})
    assert own.specs == (spec("one", HALF), spec("other", THIRD), new)
    assert own.problem(spec("fourth", LITTLE), {}) != ""


def test_shares_by_name() -> None:
    assert with_shares([spec("a", HALF), spec("b", HALF)], {"b": THIRD}) == [spec("a", HALF), spec("b", THIRD)]
