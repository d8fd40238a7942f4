"""Persons: its public state follows from its journal, what it opens, and what it tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from support.clinic import SCHEMA, WARDS, Clinic, patients, visits
from treering.domain.language.items import Item
from treering.mechanisms.persons import Persons
from treering.mechanisms.plan import Stale
from treering.trusted.journal import MemoryJournal

FRAME = visits(200)
PROMISE = tr.Promise(1e8, 1e-6, rows_per_person=30)
BY_WARD = [Item("persons", tr.Query.where(SCHEMA, ward=ward)) for ward in WARDS]
BY_MONTH = [Item("persons", tr.Query.where(SCHEMA, month=month)) for month in range(1, 13)]
CAPPED = [Item("count", tr.Query.where(SCHEMA, ward=ward), cap=2) for ward in WARDS]
SUMMED = [Item("sum", item.query, 2, cap=2) for item in CAPPED]


def clinic(rows: int = 1000) -> Clinic:
    made = Clinic()
    made.append(FRAME.slice(0, rows))
    return made


def tell(mechanism: Persons, items: list[Item]) -> list[float | None]:
    return [each.value for each in mechanism.execute(mechanism.plan(items)).estimates()]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("seed", range(3))
def test_replaying_the_journal_gives_the_live_state(seed: int, delta: float) -> None:
    generator = np.random.default_rng(seed)
    db = clinic(500)
    db.journal = MemoryJournal()
    promise = tr.Promise(1e8, delta, rows_per_person=30)
    live = Persons(db, promise)
    for step in range(12):
        batch = [BY_WARD, BY_MONTH, CAPPED, SUMMED, BY_WARD[:1], BY_MONTH[3:5]][int(generator.integers(6))]
        live.execute(live.plan(batch))
        if generator.random() < 0.3:
            live.condense()
        if generator.random() < 0.7:
            db.append(FRAME.slice(db.size, 100))
        replayed = Persons(db, promise)
        assert replayed.state == live.state, step
        assert (replayed.spent, replayed.left(1), replayed.left(db.size + 1)) == (
            *(live.spent, live.left(1), live.left(db.size + 1)),
        )
        assert replayed.plan(batch).price == live.plan(batch).price


def test_one_batch_is_one_series() -> None:
    mechanism = Persons(clinic(), PROMISE)
    plan = mechanism.plan([*BY_WARD, *BY_MONTH])
    assert [each.opened.groups.number for each in plan.steps.fresh] == [6, 12]
    assert [each.opened.sums.most for each in plan.steps.fresh] == [6, 12]
    assert plan.price == sum(each.opened.price for each in plan.steps.fresh)
    mechanism.execute(plan)
    assert mechanism.spent == pytest.approx(float(plan.price))
    assert mechanism.plan(BY_WARD[2:4]).known


def test_a_plan_is_stale_when_rows_have_come() -> None:
    db = clinic()
    mechanism = Persons(db, PROMISE)
    plan = mechanism.plan(BY_WARD)
    db.append(FRAME.slice(1000, 10))
    with pytest.raises(Stale):
        mechanism.execute(plan)
    assert mechanism.spent == 0


def test_only_new_first_rows_pay_for_a_leaf() -> None:
    db = clinic()
    mechanism = Persons(db, PROMISE)
    mechanism.execute(mechanism.plan(BY_WARD))
    before = mechanism.left(1)
    db.append(FRAME.slice(1000, 200))
    mechanism.execute(mechanism.plan(BY_WARD))
    assert mechanism.left(1) == before == mechanism.left(db.size)
    assert mechanism.left(db.size + 1) > before


def test_no_more_groups_than_rows_of_a_person_count() -> None:
    """K = min(k, m): thirty-six groups, and at most thirty rows."""
    items = [Item("persons", one.query & two.query) for one in BY_WARD for two in BY_MONTH]
    (ring,) = Persons(clinic(), PROMISE).plan(items).steps.fresh
    assert (ring.opened.groups.number, ring.opened.sums.most) == (72, 30)


def test_sums_of_what_counts() -> None:
    db = clinic()
    found = tell(Persons(db, PROMISE), SUMMED)
    seen: dict[str, int] = {}
    true = dict.fromkeys(WARDS, 0)
    for row in FRAME.slice(0, 1000).to_pylist():
        seen[row["patient"]] = seen.get(row["patient"], 0) + 1
        if seen[row["patient"]] <= 2:
            true[row["ward"]] += row["cost"]
    assert found == pytest.approx([true[ward] / 100 for ward in WARDS], abs=0.1)


def test_known_groups_stay_known_under_a_finer_lens() -> None:
    mechanism = Persons(clinic(), PROMISE)
    mechanism.execute(mechanism.plan(BY_WARD))
    fine = tr.Schema({**SCHEMA.attributes, "late": tr.categories("no", "yes")})
    assert mechanism.plan([Item("persons", tr.Query.where(fine, ward="eyes"))]).known
    assert tell(mechanism, BY_WARD) == [patients(FRAME.slice(0, 1000), ward=ward) for ward in WARDS]


def test_describes_both_persons_and_series() -> None:
    mechanism = Persons(clinic(), PROMISE)
    assert mechanism.describe()["persons"] is None
    mechanism.execute(mechanism.plan(BY_WARD))
    told = mechanism.describe()
    assert told["persons"] == len(FRAME.slice(0, 1000).column("patient").unique())
    assert told["series"][0] == {**told["series"][0], "attributes": ["ward"], "groups": 6, "answers": 1, "sums": None}
    assert not mechanism.halted
    assert mechanism.guarantee.alpha < 1


@pytest.mark.parametrize(("given", "named"), [({"beta": 0}, "beta"), ({"pace": 0}, "pace"), ({"delta": 1.0}, "delta")])
def test_rejects_parameters_that_cannot_be(given: dict[str, Any], named: str) -> None:
    with pytest.raises(tr.ParameterError) as refusal:
        Persons(clinic(), 1.0, **given)
    assert refusal.value.parameter == named
