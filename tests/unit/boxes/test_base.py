"""What `Release` and `Box` do for every box: questions understood, answers clipped, nothing run without a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.arrays import Floats
from treering.boxes.base import Progress, Release, SchemaBox, silent
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.params import probability, whole
from treering.protocols import Gate

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})


class Fixed(Release):
    """It always says the same."""

    def __init__(self, size: int, share: float, error: float) -> None:
        super().__init__(SCHEMA, size)
        self._said = share, error

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        share, error = self._said
        return np.full(len(queries), share), np.full(len(queries), error)


class Saying(SchemaBox):
    """A box without noise: for tests only. It keeps what it was told."""

    def __init__(self, alpha: float = 0.5) -> None:
        super().__init__()
        self.told: list[tuple[Budget, float, float]] = []
        self._alpha = alpha
        self.prepared: Schema | None = None

    def _prepare(self, schema: Schema) -> None:
        self.prepared = schema

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        whole(size, "size"), probability(beta, "beta"), self.schema
        return self._alpha

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        self._check(gate)
        self.told.append((budget, alpha, beta))
        return Fixed(gate.size, 0.25, alpha)


@pytest.mark.parametrize(("share", "value"), [(0.25, 0.25), (-0.5, 0.0), (1.5, 1.0)])
def test_answers_lie_within_the_unit_interval(share: float, value: float) -> None:
    release = Fixed(200, share, 0.125)
    answer = release.ask("late = 'yes'")
    assert (answer.value, answer.error, answer.size, answer.kind) == (value, 0.125, 200, "synthetic")
    assert answer.count == round(200 * value)
    assert release.ask_many(["late = 'yes'", Query.all(SCHEMA)]) == [answer, answer]
    assert release.ask_many([]) == []


def test_questions_are_checked() -> None:
    release = Fixed(200, 0.5, 0.1)
    with pytest.raises(tr.QueryError, match="query 1"):
        release.ask_many(["late = 'yes'", "colour = 'red'"])
    with pytest.raises(tr.QueryError, match="list"):
        release.ask_many("late = 'yes'")
    with pytest.raises(tr.QueryError, match="this box answers queries, and has no synthetic rows"):
        release.sample(3, np.random.default_rng(0))


def test_a_release_gets_the_whole_promise() -> None:
    db = TestDatabase(SCHEMA, [0, 1, 1])
    box = Saying().bind(SCHEMA)
    release = box.release(db, epsilon=0.5, beta=0.01)
    assert box.told == [(Budget("pure", Fraction(1, 2)), 0.5, 0.01)]
    assert (release.size, release.ask("late = 'yes'").error) == (3, 0.5)
    box.release(db, epsilon=1, delta=1e-9)
    assert box.told[1][0].kind == "zcdp"


@pytest.mark.parametrize("alpha", [1.0, 3.5, float("inf"), float("nan")])
def test_no_guarantee_no_run(alpha: float) -> None:
    db = TestDatabase(SCHEMA, [0, 1])
    box = Saying(alpha).bind(SCHEMA)
    with pytest.raises(
        tr.GuaranteeError, match="Saying guarantees nothing here.*more than 2 rows, or a larger epsilon"
    ):
        box.release(db, epsilon=1)
    assert box.told == []
    assert (db.touched, len(db.journal.events())) == (0, 0)


def test_binding_makes_another_box() -> None:
    box = Saying()
    bound = box.bind(SCHEMA)
    assert (box.prepared, bound.prepared, bound.schema) == (None, SCHEMA, SCHEMA)
    assert bound.bind(tr.Schema({"late": tr.categories("no", "yes")})) is bound
    with pytest.raises(tr.SchemaError, match="this Saying is bound to another schema"):
        bound.bind(tr.Schema({"late": tr.categories("no", "maybe")}))
    with pytest.raises(tr.ParameterError, match=r"schema is not known to this Saying yet: bind\(schema\)"):
        _ = box.schema


def test_gates_are_checked() -> None:
    bound = Saying().bind(SCHEMA)
    budget = Budget("pure", Fraction(1, 1))
    elsewhere = TestDatabase(tr.Schema({"x": tr.integers(0, 1)}), [0])
    with pytest.raises(tr.SchemaError, match="another schema than the database's"):
        bound.run(elsewhere.open_gate(budget), budget, 0.5, 0.05)
    with pytest.raises(tr.GuaranteeError, match="empty"):
        bound.run(TestDatabase(SCHEMA).open_gate(budget), budget, 0.5, 0.05)
