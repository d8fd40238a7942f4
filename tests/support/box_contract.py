"""What every black box owes, whatever it computes. A new box inherits the suite and says how to make one.

    class TestMine(BoxContract):
        def make(self, **options): return MyBox(**{"queries": QUERIES, **options})
        queries = QUERIES            # what is asked of a release: all of them in its class
        outside = Query.where(...)   # a query that is not, or None if there is none

Hooks that most boxes leave alone: ``population``, ``kinds``, ``budget``, ``synthetic``, ``tied``, ``bad_parameters``,
``repetitions``, ``sizes``, and ``schema``, which goes with `database`. A release that does not answer with shares
overrides `gaps` (how wrong it is, and how wrong it says it may be) and `same` (whether two releases are equal to the
last bit), and sets ``queries`` to () and ``outside`` to None.

*Chance.* Tests of accuracy take beta = 1e-9, so each fails by chance with probability below that. The one test that
counts failures at a large beta has a false-alarm rate of 1e-9 too. ``contract/test_box_contract_itself.py`` shows that
every clause can fail: errors understated threefold, for instance, are seen where the bound is sharp.

The audit, which is slower, is ``support/box_audit.py``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import binom

import treering as tr
from support.databases import TestDatabase
from support.mechanism_contract import ELSEWHERE, SCHEMA, rows
from treering.arrays import Floats
from treering.boxes.base import Box, Release
from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query
from treering.domain.schema import Schema

NEVER = 1e-9
"""A beta that does not happen."""

OFTEN = 0.1
"""A beta that does."""

OTHER_SCHEMA = Schema({"x": tr.integers(0, 4)})


@lru_cache(maxsize=100)
def _rows(count: int, seed: int) -> tuple[int, ...]:
    return tuple(rows(count, seed))


class BoxContract(ABC):
    """Inherit as ``class TestMine(BoxContract)``."""

    kinds: ClassVar[tuple[BudgetKind, ...]] = ("pure", "zcdp")
    """The kinds of budget that it takes."""
    schema: ClassVar[Schema] = SCHEMA
    population: ClassVar[int] = 20_000
    """Rows enough for an alpha below 1, with the budgets of `budget` and beta 1e-9."""
    queries: ClassVar[Sequence[Query]]
    outside: ClassVar[Query | None]
    synthetic: ClassVar[bool] = True
    """Whether its releases have synthetic rows."""
    tied: ClassVar[bool] = True
    """Whether it is made for one schema, as a box with queries is."""
    bad_parameters: ClassVar[Sequence[tuple[dict[str, Any], str]]] = ()
    """Options that must be refused when it is made or bound, and the parameter that the error must name."""
    repetitions: ClassVar[int] = 25
    """How often it is run to count failures."""
    sizes: ClassVar[Sequence[int]] = (1_000, 10_000, 100_000, 10_000_000)
    """Where alpha is compared."""

    @abstractmethod
    def make(self, **options: Any) -> Box:
        """A box, not bound."""

    def budget(self, kind: BudgetKind) -> Budget:
        return Budget(kind, Fraction(1) if kind == "pure" else Fraction(1, 2))

    def database(self, seed: int = 1) -> TestDatabase:
        return TestDatabase(self.schema, _rows(self.population, seed))

    def gaps(self, db: TestDatabase, release: Release) -> tuple[Floats, Floats]:
        """How far each answer is from the truth, and how far the release says that it may be."""
        shares, errors = release.shares(self.queries)
        truth = [db.rows.cells.count(query) / query.scale / db.size for query in self.queries]
        return np.abs(shares - np.array(truth)), errors

    def same(self, one: Release, other: Release) -> bool:
        """Equal bits."""
        pairs = zip(one.shares(self.queries), other.shares(self.queries), strict=True)
        return all(np.array_equal(left, right) for left, right in pairs)

    def bound(self, **options: Any) -> Box:
        return self.make(**options).bind(self.schema)

    def run(self, db: TestDatabase, kind: BudgetKind, beta: float = NEVER) -> Release:
        """One run with the whole of `budget`."""
        box, budget = self.bound(), self.budget(kind)
        return box.run(db.open_gate(budget), budget, box.alpha(db.size, budget, beta), beta)

    # -- privacy ------------------------------------------------------------------------------------------------------

    def test_it_costs_its_budget_and_uses_it(self) -> None:
        for kind in self.kinds:
            db, box, budget = self.database(), self.bound(), self.budget(kind)
            gate = db.open_gate(budget)
            box.run(gate, budget, box.alpha(db.size, budget, NEVER), NEVER)
            assert 0.999 * budget.total < gate.spent <= budget.total

    def test_odd_budgets_are_kept_to_the_last_bit(self) -> None:
        for kind, share in itertools.product(self.kinds, (Fraction(1, 3), Fraction(617, 991))):
            db, box = self.database(), self.bound()
            budget = Budget(kind, self.budget(kind).total * share)
            gate = db.open_gate(budget)
            box.run(gate, budget, box.alpha(db.size, budget, 0.5), 0.5)
            assert 0.999 * budget.total < gate.spent <= budget.total

    def test_it_runs_within_a_reservation_of_its_budget(self) -> None:
        for kind in self.kinds:
            db, box, part = self.database(), self.bound(), self.budget(kind)
            gate = db.open_gate(Budget(kind, 3 * part.total))
            with gate.reserve(part):
                box.run(gate, part, box.alpha(db.size, part, NEVER), NEVER)
            assert gate.spent == part.total

    def test_a_gate_that_has_less_refuses(self) -> None:
        for kind in self.kinds:
            db, box, budget = self.database(), self.bound(), self.budget(kind)
            gate = db.open_gate(Budget(kind, budget.total / 2))
            with pytest.raises(tr.BudgetExceeded):
                box.run(gate, budget, box.alpha(db.size, budget, NEVER), NEVER)
            assert gate.spent <= budget.total / 2

    def test_a_budget_of_the_wrong_kind_is_refused_for_free(self) -> None:
        if "pure" in self.kinds:
            return
        db = self.database()
        with pytest.raises(tr.ParameterError):
            self.make().release(db, epsilon=1.0, beta=NEVER)
        assert (db.touched, len(db.journal.events())) == (0, 0)

    def test_answers_touch_nothing_private(self) -> None:
        for kind in self.kinds:
            db = self.database()
            release = self.run(db, kind)
            before = (db.touched, len(db.journal.events()))
            assert before > (0, 0)
            release.ask_many(self.queries)
            if self.synthetic:
                release.sample(10, np.random.default_rng(0))
            assert (db.touched, len(db.journal.events())) == before

    # -- accuracy -----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(3))
    def test_all_errors_hold_and_are_within_alpha(self, seed: int) -> None:
        for kind in self.kinds:
            db = self.database(seed)
            alpha = self.bound().alpha(db.size, self.budget(kind), NEVER)
            wrong, stated = self.gaps(db, self.run(db, kind))
            assert len(stated) > 0
            assert (wrong <= stated).all()
            assert (stated <= alpha).all()
            assert alpha < 1

    def test_errors_fail_no_more_often_than_stated(self) -> None:
        """The false-alarm rate is 1e-9."""
        for kind in self.kinds:
            failures = 0
            for seed in range(self.repetitions):
                db = self.database(seed)
                wrong, stated = self.gaps(db, self.run(db, kind, OFTEN))
                failures += bool((wrong > stated).any())
            assert failures <= binom.isf(NEVER, self.repetitions, OFTEN)

    def test_alpha_never_grows_with_size_budget_or_beta(self) -> None:
        box = self.bound()
        for kind in self.kinds:
            total = self.budget(kind).total
            for size, beta in itertools.product(self.sizes, (NEVER, 0.05, 0.5)):
                alphas = [box.alpha(size, Budget(kind, total * factor), beta) for factor in (1, 2, 7, 100)]
                assert alphas == sorted(alphas, reverse=True)
                assert all(alpha >= 0 for alpha in alphas)
            for factor, beta in itertools.product((1, 10), (NEVER, 0.05)):
                alphas = [box.alpha(size, Budget(kind, total * factor), beta) for size in sorted(self.sizes)]
                assert alphas == sorted(alphas, reverse=True)
            for size in self.sizes:
                alphas = [box.alpha(size, Budget(kind, total), beta) for beta in (NEVER, 1e-3, 0.05, 0.3, 0.5, 0.9)]
                assert alphas == sorted(alphas, reverse=True)

    @pytest.mark.parametrize("factor", [2, 3, 10, 1000])
    def test_alpha_never_grows_when_size_replaces_budget(self, factor: int) -> None:
        """Size times c, pure budget over c, zCDP budget over c²."""
        box = self.bound()
        for kind, size, share in itertools.product(
            self.kinds, self.sizes, (Fraction(1, 10), Fraction(1), Fraction(10))
        ):
            before = Budget(kind, self.budget(kind).total * share)
            after = Budget(kind, before.total / (factor if kind == "pure" else factor**2))
            assert box.alpha(size * factor, after, 0.05) <= box.alpha(size, before, 0.05) * (1 + 1e-12)

    def test_its_rate_is_never_below_alpha(self) -> None:
        """For beta up to a half, which is all that the paper's schedules use, and a pure budget."""
        box = self.bound()
        if box.rate is None:
            return
        rate = box.rate
        for size, epsilon, beta in itertools.product(
            self.sizes, (Fraction(1, 10), Fraction(1), Fraction(10)), (NEVER, 0.05, 0.5)
        ):
            scale = (1 / float(epsilon * size)) ** rate.p
            bound = rate.g * scale * np.log(size) ** rate.p2 * np.log(1 / beta) ** rate.p1
            if bound < 1:
                assert box.alpha(size, Budget("pure", epsilon), beta) <= bound * (1 + 1e-12)

    # -- replay -------------------------------------------------------------------------------------------------------

    def test_running_again_over_the_record_gives_the_same_bits(self) -> None:
        for kind in self.kinds:
            db, box, budget = self.database(), self.bound(), self.budget(kind)
            alpha = box.alpha(db.size, budget, NEVER)
            live = box.run(db.open_gate(budget), budget, alpha, NEVER)
            record = RecordedGate(db.schema, db.size, budget, db.journal.events())
            touched = db.touched
            again = self.bound().run(record, budget, alpha, NEVER)
            assert self.same(live, again)
            assert db.touched == touched
            assert len(record.history) == len(db.journal.events())

    def test_two_runs_differ(self) -> None:
        """Otherwise `same` could not fail."""
        assert not self.same(self.run(self.database(), self.kinds[0]), self.run(self.database(), self.kinds[0]))

    def test_progress_is_told_in_order(self) -> None:
        told: list[tuple[float, str]] = []
        db, box, budget = self.database(), self.bound(), self.budget(self.kinds[0])
        alpha = box.alpha(db.size, budget, NEVER)
        box.run(db.open_gate(budget), budget, alpha, NEVER, lambda done, doing: told.append((done, doing)))
        shares = [done for done, _ in told]
        assert shares == sorted(shares)
        assert all(0 <= done <= 1 and doing for done, doing in told)

    # -- questions ----------------------------------------------------------------------------------------------------

    def test_a_batch_is_its_single_questions(self) -> None:
        release = self.run(self.database(), self.kinds[0])
        asked = list(self.queries)[:20]
        answers = release.ask_many(asked)
        assert release.ask_many([]) == []
        assert len(answers) == len(asked)
        for query, answer in zip(asked, answers, strict=True):
            one = release.ask(str(query) if query.counting else query)
            assert (one.value, one.error) == pytest.approx((answer.value, answer.error), rel=1e-9, abs=1e-12)
            assert (one.size, one.kind) == (self.population, "synthetic")
            assert 0 <= one.value <= 1

    def test_a_query_outside_the_class_is_refused_for_free(self) -> None:
        db = self.database()
        release = self.run(db, self.kinds[0])
        before = (db.touched, len(db.journal.events()))
        questions: list[Any] = [ELSEWHERE, "colour = 'red'", 17, *([] if self.outside is None else [self.outside])]
        for question in questions:
            with pytest.raises(tr.QueryError):
                release.ask(question)
            with pytest.raises(tr.QueryError):
                release.ask_many([*list(self.queries)[:1], question])
        assert (db.touched, len(db.journal.events())) == before

    def test_synthetic_rows_are_rows_of_the_schema(self) -> None:
        release = self.run(self.database(), self.kinds[0])
        generator = np.random.default_rng(3)
        if not self.synthetic:
            with pytest.raises(tr.QueryError, match="no synthetic rows"):
                release.sample(5, generator)
            return
        table = release.sample(50, generator)
        assert table.num_rows == 50
        assert tuple(table.column_names) == self.schema.names
        db = tr.GrowingDatabase(self.schema)
        assert db.append(table) == 50

    # -- refusals -----------------------------------------------------------------------------------------------------

    def test_release_runs_once_within_the_promise(self) -> None:
        db = self.database()
        delta = 0.0 if "pure" in self.kinds else 1e-9
        release = self.make().release(db, epsilon=1.0, delta=delta, beta=NEVER)
        wrong, stated = self.gaps(db, release)
        assert (wrong <= stated).all()
        assert (release.size, release.schema) == (db.size, db.schema)

    def test_an_empty_database_is_refused_for_free(self) -> None:
        db = TestDatabase(self.schema)
        with pytest.raises(tr.GuaranteeError, match="empty"):
            self.make().release(db, epsilon=1.0, delta=1e-9)
        assert (db.touched, len(db.journal.events())) == (0, 0)

    def test_too_few_rows_are_refused_for_free(self) -> None:
        db = TestDatabase(self.schema, rows(1))
        with pytest.raises(tr.GuaranteeError, match="guarantees nothing"):
            self.make().release(db, epsilon=0.1, delta=1e-9)
        assert (db.touched, len(db.journal.events())) == (0, 0)

    @pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "1", None, True])
    def test_bad_epsilons_are_refused(self, epsilon: Any) -> None:
        db = self.database()
        with pytest.raises(tr.ParameterError, match="epsilon"):
            self.make().release(db, epsilon=epsilon, delta=1e-9)
        assert db.touched == 0

    @pytest.mark.parametrize("beta", [0, 1, -0.1, 1.5, float("nan"), float("inf"), "0.1", None, True])
    def test_bad_betas_are_refused(self, beta: Any) -> None:
        db = self.database()
        with pytest.raises(tr.ParameterError, match="beta"):
            self.make().release(db, epsilon=1.0, delta=1e-9, beta=beta)
        with pytest.raises(tr.ParameterError, match="beta"):
            self.bound().alpha(1000, self.budget(self.kinds[0]), beta)
        assert db.touched == 0

    @pytest.mark.parametrize("size", [0, -1, 1.5, float("nan"), True])
    def test_bad_sizes_are_refused(self, size: Any) -> None:
        with pytest.raises(tr.ParameterError, match="size"):
            self.bound().alpha(size, self.budget(self.kinds[0]), 0.05)

    def test_bad_parameters_are_refused_by_name(self) -> None:
        for options, name in self.bad_parameters:
            with pytest.raises(tr.ParameterError, match=name) as caught:
                self.bound(**options)
            assert caught.value.parameter == name

    # -- schemas ------------------------------------------------------------------------------------------------------

    def test_a_bound_box_is_itself(self) -> None:
        box = self.bound()
        assert box.bind(self.schema) is box

    def test_it_is_bound_to_one_schema(self) -> None:
        with pytest.raises(tr.TreeringError, match="schema"):
            self.bound().bind(OTHER_SCHEMA)
        if self.tied:
            with pytest.raises(tr.TreeringError):
                self.make().bind(OTHER_SCHEMA)

    def test_a_box_that_is_not_bound_says_so(self) -> None:
        with pytest.raises(tr.TreeringError, match="bind"):
            self.make().alpha(1000, self.budget(self.kinds[0]), 0.05)
