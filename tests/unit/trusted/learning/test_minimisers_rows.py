"""A minimiser of the rows of an interval reads those rows, and charges those rows: in memory, and from a vault."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.learning import RICH
from support.vaults import crash, mechanism
from treering.budget.minimising import minimising
from treering.budget.promise import Budget
from treering.domain.loss import Logistic, Squared
from treering.domain.problem import CellFeatures, Descent, Method, Minimise, Net, NoisyMoments, Perturbation, Problem
from treering.gate import Minimised
from treering.trusted.charges import Charges
from treering.trusted.kernel import Kernel, follow
from treering.trusted.memory.points import GrowingPoints
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"a": tr.integers(0, 2), "late": tr.categories("n", "y")})
VECTORS = [[1.0, 0.0], [0.0, 1.0], [-0.6, 0.6]]
FEATURES = CellFeatures(SCHEMA, ["a"], VECTORS, tr.parse("late = 'y'", SCHEMA))
QUIET = Problem(Squared(), 2, 4.0)
EXACT = NoisyMoments(2.0**-16, 2.0**-30)
"""So little noise that the model is the least squares fit, to four digits."""

LOGISTIC = Problem(Logistic(), 2, 1.0, 0.1)
METHODS: list[Method] = [
    Perturbation("gaussian", 2.0, 2.0**-4, 3),
    Descent("accelerated", 3, 5.0, 0.1),
    Descent("averaged", 3, 5.0),
    Net(0.5, 3.0),
]
PARTS = [40, 25, 60]
EDGES = [0, 40, 65, 125]
SPANS = [(start, end) for start in EDGES for end in EDGES if start < end]


def cells(part: int) -> list[int]:
    return [int(cell) for cell in np.random.default_rng(part).integers(0, SCHEMA.cells, PARTS[part])]


def fitted(found: list[int]) -> Any:
    """The least squares fit of rows, in another way."""
    codes = np.array(found)
    return np.linalg.lstsq(np.array(VECTORS)[codes // 2], np.where(codes % 2 == 1, 1.0, -1.0), rcond=None)[0]


def grown() -> tuple[TestDatabase, Kernel]:
    """A database of three parts, told apart."""
    db = TestDatabase(SCHEMA)
    kernel = db.open_gate(RICH)
    for part in range(3):
        db.append_cells(cells(part))
        kernel.mark()
    return db, kernel


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", SPANS)
def test_a_table_is_read_within_the_interval(rows: tuple[int, int]) -> None:
    _, kernel = grown()
    everything = [cell for part in range(3) for cell in cells(part)]
    event = kernel.minimise(Minimise(QUIET, EXACT, FEATURES), rows)
    assert np.allclose(event.theta, fitted(everything[slice(*rows)]), atol=1e-3)
    assert not np.allclose(event.theta, fitted(everything[:65] if rows[1] > 65 else everything[65:]), atol=1e-3)
    assert (event.rows, event.entries, event.size) == (rows, rows[1] - rows[0], 125)


@pytest.mark.parametrize("rows", SPANS)
def test_points_are_read_within_the_interval(rows: tuple[int, int]) -> None:
    points = GrowingPoints(2, "signs")
    kernel = points.open_gate(RICH)
    everything = [cell for part in range(3) for cell in cells(part)]
    vectors, signs = np.array(VECTORS)[np.array(everything) // 2], np.where(np.array(everything) % 2 == 1, 1.0, -1.0)
    for start, end in pairwise(EDGES):
        points.append(vectors[start:end], signs[start:end])
        kernel.mark()
    event = kernel.minimise(Minimise(QUIET, EXACT), rows)
    assert np.allclose(event.theta, fitted(everything[slice(*rows)]), atol=1e-3)


def test_the_present_size_needs_no_mark_and_leaves_none() -> None:
    db = TestDatabase(SCHEMA, cells(0))
    kernel = db.open_gate(RICH)
    kernel.minimise(Minimise(QUIET, EXACT, FEATURES), (0, 40))
    db.append_cells(cells(1))
    with pytest.raises(tr.ParameterError, match="told apart; the nearest are 65, 0"):
        kernel.minimise(Minimise(QUIET, EXACT, FEATURES), (40, 65))
    assert kernel._desk.charges.sizes == set()


# -- what is charged ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=lambda each: type(each).__name__)
def test_the_rows_of_the_interval_pay_and_no_others(method: Method) -> None:
    db, kernel = grown()
    cost = minimising(LOGISTIC, method, 25)
    event = kernel.minimise(Minimise(LOGISTIC, method, FEATURES), (40, 65))
    assert event.cost == cost
    total = RICH.total
    assert [kernel.left(row) for row in (1, 40, 66, 125, 10**6)] == [total] * 5
    assert kernel.left(41) == kernel.left(65) == total - kernel.spent
    assert 0 <= kernel.spent - cost.rho <= total * Fraction(1, 2**180)
    kernel.minimise(Minimise(LOGISTIC, method, FEATURES), (65, 125))
    assert kernel.left(41) == kernel.left(65)
    assert kernel.left(66) < total
    again = db.open_gate(RICH)
    assert [again.left(row) for row in (1, 41, 66, 126)] == [kernel.left(row) for row in (1, 41, 66, 126)]
    followed = Charges(RICH)
    for each in kernel.history:
        follow(each, followed)
    assert followed.ledger.steps == kernel._desk.charges.ledger.steps


def test_every_interval_has_the_whole_budget_once() -> None:
    db = TestDatabase(SCHEMA, cells(0))
    method = Descent("averaged", 3, 5.0)
    budget = Budget("zcdp", minimising(LOGISTIC, method, 1).rho)
    kernel = db.open_gate(budget)
    kernel.mark()
    kernel.minimise(Minimise(LOGISTIC, method, FEATURES), (0, 40))
    db.append_cells(cells(1))
    kernel.minimise(Minimise(LOGISTIC, method, FEATURES), (40, 65))
    assert [kernel.left(row) for row in (1, 40, 41, 65, 66)] == [0, 0, 0, 0, budget.total]
    touched = db.touched
    for rows in (None, (0, 40), (40, 65), (0, 65)):
        with pytest.raises(tr.BudgetExceeded):
            kernel.minimise(Minimise(LOGISTIC, method, FEATURES), rows)
    assert db.touched == touched


# -- refusals ----------------------------------------------------------------------------------------------------------


class Sly(int):
    """Compares as it likes."""


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ((0, 41), "told apart"),
        ((1, 40), "told apart"),
        ((65, 126), "told apart"),
        ((-1, 40), "told apart"),
        ((40, 40), "at least one row"),
        ((65, 40), "at least one row"),
        ((40,), "a pair of sizes"),
        ((0, 40, 65), "a pair of sizes"),
        ([0, 40], "a pair of sizes"),
        (40, "a pair of sizes"),
        ((0, 40.0), "must be an integer"),
        ((False, 40), "must be an integer"),
        ((0, Sly(40)), "must be an integer"),
        ((0, np.int64(40)), "must be an integer"),
        ((None, 40), "must be an integer"),
    ],
)
def test_other_intervals_are_refused_and_nothing_is_touched(rows: Any, match: str) -> None:
    db, kernel = grown()
    before = (kernel.spent, db.touched, len(kernel.history))
    with pytest.raises(tr.ParameterError, match=match) as refusal:
        kernel.minimise(Minimise(QUIET, EXACT, FEATURES), rows)
    assert refusal.value.parameter == "rows"
    assert (kernel.spent, db.touched, len(kernel.history)) == before


def test_a_reserved_part_cannot_pay_by_row() -> None:
    db, kernel = grown()
    with kernel.reserve(Budget("zcdp", Fraction(1))):
        before = (kernel.spent, db.touched)
        with pytest.raises(tr.ParameterError, match="charged by row"):
            kernel.minimise(Minimise(QUIET, EXACT, FEATURES), (0, 40))
        assert (kernel.spent, db.touched) == before
    kernel.minimise(Minimise(QUIET, EXACT, FEATURES), (0, 40))


# -- a vault -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [True, False])
def test_a_vault_tells_its_rows_apart_after_it_was_opened_again(tmp_path: Path, killed: bool) -> None:
    place = tmp_path / "vault"
    vault = Vault.create(place, SCHEMA, 1e13, 1e-6, mechanism="pmwg")
    everything: list[int] = []

    def gate() -> Kernel:
        found: Kernel = mechanism(vault)._gate
        return found

    for part in range(3):
        vault.append([{"a": cell // 2, "late": "ny"[cell % 2]} for cell in cells(part)])
        everything += cells(part)
        gate().mark()
        if part == 1:
            gate().minimise(Minimise(QUIET, EXACT, FEATURES), (40, 65))
        left = [gate().left(row) for row in (1, 41, 66)]
        if killed:
            crash(vault)
        else:
            vault.close()
        vault = Vault.open(place)
        assert [gate().left(row) for row in (1, 41, 66)] == left
        assert [event.rows for event in gate().history if isinstance(event, Minimised)] == [(40, 65)] * (part > 0)
    for rows in SPANS:
        theta = gate().minimise(Minimise(QUIET, EXACT, FEATURES), rows).theta
        assert np.allclose(theta, fitted(everything[slice(*rows)]), atol=1e-3)
    spent = vault.spent
    assert Vault.read(place).status()["spent"] == spent
    vault.close()
