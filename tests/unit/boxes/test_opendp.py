"""OpenDP's measurements as boxes: passed on unread, charged by their own map, trusted for nothing else."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_user_measurement
from opendp.measures import max_divergence
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import Measurement, enable_features

import treering as tr
from support.databases import TestDatabase
from treering.boxes.opendp import ForeignBox, from_opendp
from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.gate import ForeignReleased

enable_features("contrib", "honest-but-curious")

SCHEMA = Schema({"origin": tr.categories("EWR", "JFK"), "planet": tr.categories("Earth"), "month": tr.integers(1, 3)})
COUNTS = [400, 100, 0, 250, 150, 100]
ROWS = [cell for cell, count in enumerate(COUNTS) for _ in range(count)]
VECTORS = vector_domain(atom_domain(T="i64"))
HALF = Budget("pure", Fraction(1, 2))


def laplace(scale: float) -> Measurement:
    return make_laplace(VECTORS, l1_distance(T="f64"), scale=scale)


def known(function: Callable[[Any], Any] = lambda counts: counts) -> Measurement:
    """A measurement without noise that says it costs 1/2."""
    return make_user_measurement(VECTORS, l1_distance(T="f64"), max_divergence(), function, lambda _: 0.5)


def tenth(*_: object) -> float:
    """An alpha."""
    return 0.1


def run(box: ForeignBox, budget: Budget = HALF) -> Any:
    db = TestDatabase(SCHEMA, ROWS)
    return box.bind(SCHEMA).run(db.open_gate(budget), budget, 0.1, 0.05)


def test_the_answers_are_those_of_the_released_values() -> None:
    release = run(from_opendp(known(lambda counts: [count + 0.5 for count in counts]), tenth))
    jfk, early = tr.parse("origin = 'JFK'", SCHEMA), tr.parse("month <= 2", SCHEMA)
    weighted = Query.weighted(SCHEMA, [1, 0.5, 0.25], attributes=["month"], resolution=4)
    shares, errors = release.shares([jfk, early, weighted, Query.all(SCHEMA), Query.none(SCHEMA)])
    assert shares.tolist() == [0.5015, 0.902, (651 + 251 / 2 + 101 / 4) / 1000, 1.003, 0]
    assert errors.tolist() == [0.1] * 5
    assert (release.ask("origin = 'JFK'").value, release.ask("origin = 'JFK'").error) == (0.5015, 0.1)
    assert release.ask("planet = 'Earth'").value == 1


def test_one_measurement_has_its_own_cost_whatever_the_budget() -> None:
    db = TestDatabase(SCHEMA, ROWS)
    release = from_opendp(laplace(16.0), tenth).release(db, epsilon=0.25)
    (event,) = db.journal.events()
    assert isinstance(event, ForeignReleased)
    assert event.cost.epsilon == Fraction(1, 8)
    assert release.size == 1000
    with pytest.raises(tr.BudgetExceeded):
        from_opendp(laplace(16.0), tenth).release(TestDatabase(SCHEMA, ROWS), epsilon=0.05)


def test_the_map_is_charged_to_the_last_bit() -> None:
    """2/20 as a float is above a tenth."""
    with pytest.raises(tr.BudgetExceeded):
        from_opendp(laplace(20.0), tenth).release(TestDatabase(SCHEMA, ROWS), epsilon=0.1)
    from_opendp(laplace(20.00001), tenth).release(TestDatabase(SCHEMA, ROWS), epsilon=0.1)


def test_a_function_makes_one_for_each_budget() -> None:
    box = from_opendp(lambda budget: laplace(2 / float(budget.total)), tenth).bind(SCHEMA)
    for total in (Fraction(1, 2), Fraction(1, 8)):
        gate = TestDatabase(SCHEMA, ROWS).open_gate(Budget("pure", total))
        box.run(gate, Budget("pure", total), 0.1, 0.05)
        assert gate.spent == total


def test_zcdp_measurements_are_charged_in_rho() -> None:
    box = from_opendp(lambda _: make_gaussian(VECTORS, l2_distance(T="f64"), scale=4.0), tenth, kind="zcdp")
    assert (box.kind, from_opendp(laplace(1.0)).kind) == ("zcdp", "pure")
    gate = TestDatabase(SCHEMA, ROWS).open_gate(Budget("zcdp", Fraction(1, 4)))
    box.bind(SCHEMA).run(gate, gate.budget, 0.1, 0.05)
    assert float(gate.spent) == pytest.approx(1 / 16)


def test_without_a_proof_there_is_no_guarantee() -> None:
    db = TestDatabase(SCHEMA, ROWS)
    with pytest.raises(tr.GuaranteeError, match=r"declare what you have proven, .*alpha=function of \(size, budget"):
        from_opendp(laplace(20.0)).release(db, epsilon=1.0)
    assert (db.touched, len(db.journal.events())) == (0, 0)


@pytest.mark.parametrize("stated", [-0.1, math.nan, -math.inf])
def test_an_alpha_that_cannot_be_is_refused(stated: float) -> None:
    db = TestDatabase(SCHEMA, ROWS)
    with pytest.raises(tr.GuaranteeError, match="alpha must be an error of 0 or more"):
        from_opendp(laplace(20.0), lambda *_: stated).release(db, epsilon=1.0)
    assert (db.touched, len(db.journal.events())) == (0, 0)


def test_alpha_gets_what_it_is_a_function_of() -> None:
    seen: list[Any] = []

    def alpha(*given: Any) -> float:
        seen.append(given)
        return 0.2

    assert from_opendp(laplace(20.0), alpha).bind(SCHEMA).alpha(1000, HALF, 0.05) == 0.2
    assert seen == [(1000, HALF, 0.05)]


@pytest.mark.parametrize(
    ("given", "options", "name"),
    [
        (17, {}, "measurement"),
        (None, {}, "measurement"),
        (len, {"alpha": 0.1}, "alpha"),
        (len, {"kind": "approximate"}, "kind"),
    ],
)
def test_bad_parameters_are_refused_by_name(given: Any, options: dict[str, Any], name: str) -> None:
    with pytest.raises(tr.ParameterError, match=f"^{name} must be"):
        from_opendp(given, **options)


@pytest.mark.parametrize("made", [None, 3.0, "laplace"])
def test_a_function_that_makes_no_measurement_costs_nothing(made: Any) -> None:
    db = TestDatabase(SCHEMA, ROWS)
    with pytest.raises(tr.ParameterError, match="must be a Measurement of OpenDP"):
        from_opendp(lambda _: made, tenth).release(db, epsilon=1.0)
    assert (db.touched, len(db.journal.events())) == (0, 0)


@pytest.mark.parametrize("function", [sum, str, lambda counts: counts[1:], lambda counts: counts[17]])
def test_garbage_is_an_error_that_is_paid_for_live_and_on_record(function: Callable[[Any], Any]) -> None:
    db = TestDatabase(SCHEMA, ROWS)
    box = from_opendp(known(function), tenth).bind(SCHEMA)
    gate = db.open_gate(HALF)
    with pytest.raises(tr.TreeringError, match="withheld; its cost is spent"):
        box.run(gate, HALF, 0.1, 0.05)
    assert gate.spent == Fraction(1, 2)
    record = RecordedGate(SCHEMA, db.size, HALF, db.journal.events())
    with pytest.raises(tr.TreeringError, match="failed when it was run"):
        box.run(record, HALF, 0.1, 0.05)
    assert record.spent == Fraction(1, 2)


def test_the_record_gives_the_release_again() -> None:
    db = TestDatabase(SCHEMA, ROWS)
    box = from_opendp(laplace(4.0), tenth).bind(SCHEMA)
    queries = [tr.parse("month = 1", SCHEMA), tr.parse("origin = 'JFK' AND month = 3", SCHEMA)]
    live = box.run(db.open_gate(HALF), HALF, 0.1, 0.05)
    again = box.run(RecordedGate(SCHEMA, db.size, HALF, db.journal.events()), HALF, 0.1, 0.05)
    assert np.array_equal(live.shares(queries), again.shares(queries))


def test_the_public_side_does_not_load_opendp() -> None:
    code = "import sys, treering.boxes.opendp; sys.exit(any(name.startswith('opendp') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
