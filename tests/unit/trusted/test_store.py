"""The store: a gate opens by name, with the share on record, once; and what a store is made of, from the first line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from treering.budget.promise import Budget, Promise
from treering.errors import Halted, KeyUsed, ParameterError
from treering.noise import Laplace
from treering.trusted import store as stores
from treering.trusted.ledger.record import mechanism_line
from treering.trusted.ledger.shares import Spec
from treering.trusted.store import Kept, Store, check_key, create, originate, trial

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 3)})
LATE = tr.parse("late = 'yes'", SCHEMA)
ROW = {"late": "no", "month": 1}
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
ONE, TWO = Spec("one", "rings", HALF, {}), Spec("two", "rings", HALF, {})


def new(place: Path, first: Spec | None = ONE) -> None:
    create(place, originate(SCHEMA, Promise(1.0), None, None, "id"), first, 0)


@contextmanager
def opened(place: Path) -> Iterator[Store]:
    with Store.opening(place, (), 0) as own:
        pass
    try:
        yield own
    finally:
        own.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    new(tmp_path / "vault")
    with opened(tmp_path / "vault") as own:
        own.append([ROW] * 100, "refuse", None, again=True)
        yield own


def add(store: Store, spec: Spec, lowered: Mapping[str, Fraction]) -> None:
    with store.adding(spec, lowered):
        pass


def lines(store: Store) -> list[str]:
    return [each.kind for each in store.reading.lines()]


# -- gates -------------------------------------------------------------------------------------------------------------


def test_a_gate_opens_by_name_with_the_share_on_record(store: Store) -> None:
    assert store.open_gate("one").budget == Budget("pure", HALF)
    with pytest.raises(ParameterError, match="'three' is of no mechanism on record"):
        store.open_gate("three")


def test_a_gate_opens_once(store: Store) -> None:
    add(store, TWO, {})
    store.database("one").open_gate(Budget("pure", HALF))
    with pytest.raises(ParameterError, match="one gate: that of 'one' is open already"):
        store.open_gate("one")
    with pytest.raises(ParameterError, match="one gate: that of 'one' is open already"):
        store.database("one").open_gate(Budget("pure", HALF))
    store.open_gate("two")


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
def test_rejects_a_mechanism_that_counts_on_another_budget(store: Store, budget: Any) -> None:
    for own in (store.database("one"), trial(store.origin, ONE)):
        with pytest.raises(ParameterError, match=r"budget of 'one' must be its share on record, epsilon = 0\.5"):
            own.open_gate(budget)
        assert own.open_gate(Budget("pure", HALF)).budget == Budget("pure", HALF)


def test_a_trial_sees_no_row_and_charges_nothing(store: Store) -> None:
    own = trial(store.origin, Spec("tried", "rings", Fraction(1), {}))
    gate = own.open_gate(Promise(1.0).budget)
    assert (own.size, gate.size, own.schema) == (0, 0, SCHEMA)
    before = lines(store)
    gate.measure([LATE], Laplace(2.0))
    assert lines(store) == before


# -- shares that move --------------------------------------------------------------------------------------------------


def test_a_lowered_share_retires_its_gate_and_opens_another_once(store: Store) -> None:
    gate = store.open_gate("one")
    gate.measure([LATE], Laplace(8.0))
    add(store, Spec("two", "rings", 3 * QUARTER, {}), {"one": QUARTER})
    with pytest.raises(Halted, match="share of this mechanism was lowered"):
        gate.measure([LATE], Laplace(8.0))
    with pytest.raises(ParameterError, match="must be its share on record"):
        store.database("one").open_gate(Budget("pure", HALF))
    again = store.open_gate("one")
    assert (again.budget, again.spent) == (Budget("pure", QUARTER), Fraction(1, 8))
    with pytest.raises(ParameterError, match="open already"):
        store.open_gate("one")
    assert [(each.name, each.share) for each in store.record.specs] == [("one", QUARTER), ("two", 3 * QUARTER)]


@pytest.mark.parametrize("share", [HALF, Fraction(2), Fraction(0), QUARTER - Fraction(1, 10**20)])
def test_rejects_lowering_to_no_share_to_a_higher_one_or_below_what_was_charged(store: Store, share: Fraction) -> None:
    gate = store.open_gate("one")
    gate.measure([LATE], Laplace(4.0))
    before = lines(store)
    with pytest.raises(ParameterError, match="lowered"):
        add(store, Spec("two", "rings", QUARTER, {}), {"one": share})
    gate.measure([LATE], Laplace(4.0))  # It is not retired.
    assert (gate.spent, lines(store)[: len(before)], store.record.specs) == (HALF, before, (ONE,))


def test_rejects_shares_beyond_the_promise(store: Store) -> None:
    before = lines(store)
    for spec in (Spec("two", "rings", HALF + Fraction(1, 10**20), {}), Spec("one", "rings", QUARTER, {})):
        with pytest.raises(ParameterError, match="share cannot be put on record"):
            add(store, spec, {})
    assert lines(store) == before
    add(store, TWO, {})


def test_mending_a_kernel_opens_no_second_gate(store: Store) -> None:
    gate = store.open_gate("one")
    gate.mend()
    gate.measure([LATE], Laplace(8.0))
    assert gate.spent == Fraction(1, 8)
    with pytest.raises(ParameterError, match="open already"):
        store.open_gate("one")


def test_shares_are_those_on_record_when_it_is_opened_again(tmp_path: Path) -> None:
    new(tmp_path / "vault")
    with opened(tmp_path / "vault") as own:
        add(own, Spec("two", "rings", 3 * QUARTER, {}), {"one": QUARTER})
    with opened(tmp_path / "vault") as own:
        assert [own.open_gate(name).budget.total for name in ("one", "two")] == [QUARTER, 3 * QUARTER]


# -- idempotency keys --------------------------------------------------------------------------------------------------


def test_what_was_answered_under_a_key_is_kept(tmp_path: Path) -> None:
    kept = Kept("k", 0, {"asked": "a digest", "numbers": [0.1, None]})
    new(tmp_path / "vault")
    with opened(tmp_path / "vault") as own:
        assert not own.knows("k")
        own.keep(kept)
        assert (own.knows("k"), own.knows(None), own.kept("k")) == (True, False, kept)
        with pytest.raises(KeyUsed, match="'k' was used for something else: use a new key for new rows"):
            own.append([ROW], "refuse", "k", again=True)
        own.append([ROW], "refuse", "rows", again=True)
        with pytest.raises(KeyUsed, match="'rows' was used for something else: use a new key for a new question"):
            own.kept("rows")
    with opened(tmp_path / "vault") as own:
        assert own.kept("k") == kept


@pytest.mark.parametrize("key", [None, "k", "x" * 200, "ä 1"])
def test_a_key_that_can_be_used(key: str | None) -> None:
    check_key(key)


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", 7, b"k"])
def test_a_key_that_cannot_be_used(key: Any) -> None:
    with pytest.raises(tr.ParameterError, match="must be a printable text of 1 to 200 characters") as refusal:
        check_key(key)
    assert refusal.value.parameter == "key"


# -- the first lines ---------------------------------------------------------------------------------------------------


def test_the_line_of_a_mechanism() -> None:
    one = Spec("name", "rings", Fraction(1, 3), {"pace": 8})
    plain = {"name": "name", "kind": "rings", "share": "1/3", "options": {"pace": 8}}
    assert mechanism_line(one, {}).plain() == plain
    assert mechanism_line(one, {"a": QUARTER}).plain() == {**plain, "shares": {"a": "1/4"}}
    assert mechanism_line(one, {}).kind == "mechanism"


def test_an_origin_has_checked_parameters() -> None:
    promise = Promise(1.0)
    origin = originate(SCHEMA, promise, "who", None, "id")
    assert (origin.schema, origin.promise, origin.person, origin.source) == (SCHEMA, promise, "who", None)
    assert len(origin.identity) == 32
    assert origin.identity != originate(SCHEMA, promise, "who", None, "id").identity
    wrong: Any = {"a": 1}
    with pytest.raises(tr.SchemaError, match="a vault needs a Schema, not dict"):
        originate(wrong, promise, None, None, "id")
    persons: list[Any] = ["", "late", 7]
    for person in persons:
        with pytest.raises(tr.ParameterError, match="must name a column that is no attribute of the schema"):
            originate(SCHEMA, promise, person, None, "id")


# -- what others name --------------------------------------------------------------------------------------------------


def test_what_learning_needs_is_loaded_when_it_is_named() -> None:
    assert stores.GrowingPoints is tr.GrowingPoints
    with pytest.raises(AttributeError, match="has no attribute 'Kernels'"):
        getattr(stores, "Kernels".capitalize())
