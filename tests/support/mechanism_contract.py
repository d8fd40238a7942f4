"""What every mechanism owes, whatever it computes. A new mechanism inherits the suite and says how to make one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.plans import answers_of, known_answers
from treering.domain.workload import random_conjunctions
from treering.mechanisms.base import Answering

SCHEMA = tr.Schema(
    {"origin": tr.categories("EWR", "JFK", "LGA"), "month": tr.integers(1, 12), "late": tr.categories("no", "yes")}
)
ELSEWHERE = tr.Query.where(tr.Schema({"x": tr.integers(0, 1)}), x=1)


def rows(count: int, seed: int = 1) -> list[int]:
    """Cells of a lopsided table: half of all rows lie in one cell."""
    generator = np.random.default_rng(seed)
    cells = np.where(generator.integers(0, 2, count) == 1, generator.integers(0, SCHEMA.cells, count), 17)
    return [int(cell) for cell in cells]


class MechanismContract(ABC):
    """Inherit as ``class TestMine(MechanismContract)``."""

    epsilon = 1.0
    """The promise that `make` asks for."""
    population = 500
    """Rows enough for the mechanism to start."""
    bad_parameters: tuple[tuple[dict[str, Any], str], ...]
    """Options that must be refused, and the parameter that the error must name."""

    @abstractmethod
    def make(self, db: Any, **options: Any) -> Any:
        """A mechanism with the given database, `epsilon` and options."""

    @abstractmethod
    def same(self, one: Any, other: Any) -> bool:
        """Whether two answers to one question can be taken for the same."""

    def database(self, seed: int = 1) -> TestDatabase:
        return TestDatabase(SCHEMA, rows(self.population, seed))

    # -- the suite ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(5))
    def test_replaying_the_journal_gives_the_live_state(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        db = self.database(seed)
        live = self.make(db)
        for query in random_conjunctions(SCHEMA, 40, generator):
            if live.halted:
                break
            live.ask(query)
            self.grow(db)
            assert self.make(db).state == live.state
        replayed = self.make(db)
        assert replayed.state == live.state
        assert replayed.spent == live.spent
        assert replayed.halted == live.halted

    def grow(self, db: TestDatabase) -> None:
        """Growth between two questions; a static mechanism has none."""
        db.append_cells(rows(self.population // 200))

    def test_a_replayed_one_goes_on_where_the_live_one_was(self) -> None:
        db = self.database()
        self.make(db).ask_many(["late = 'yes' AND month = 3", "late = 'no' AND month <= 2"])
        replayed = self.make(db)
        before = replayed.state
        if not replayed.halted:
            replayed.ask("origin = 'EWR' AND month <= 2")
            assert replayed.state != before
            assert self.make(db).state == replayed.state

    def test_what_it_knows_is_what_it_answers_and_touches_nothing(self) -> None:
        db = self.database()
        mechanism = self.make(db)
        if not isinstance(mechanism, Answering):
            pytest.skip("it compares, and answers nothing")
        asked = [tr.parse(text, SCHEMA) for text in ("late = 'yes'", "month <= 2", "late = 'yes' AND month = 3")]
        for queries in ([asked[0]], asked[:2], asked):
            before = (mechanism.state, mechanism.spent, db.touched, len(db.journal.events()))
            known = known_answers(mechanism, queries)
            assert (mechanism.state, mechanism.spent, db.touched, len(db.journal.events())) == before
            assert known is None or (answers_of(mechanism, queries) == known and mechanism.spent == before[1])
            if not mechanism.halted:
                answers_of(mechanism, queries)

    def test_it_starts_at_its_first_question(self) -> None:
        db = self.database()
        mechanism = self.make(db)
        assert (mechanism.spent, db.touched, len(db.journal.events())) == (0, 0, 0)
        mechanism.ask("late = 'yes'")
        assert 0 < mechanism.spent <= self.epsilon

    def test_an_empty_database_is_refused_for_free(self) -> None:
        db = TestDatabase(SCHEMA)
        mechanism = self.make(db)
        with pytest.raises(tr.GuaranteeError, match="empty.*at least one"):
            mechanism.ask("late = 'yes'")
        with pytest.raises(tr.GuaranteeError, match="empty"):
            _ = mechanism.guarantee
        assert (mechanism.spent, db.touched) == (0, 0)
        db.append_cells(rows(self.population))
        mechanism.ask("late = 'yes'")

    @pytest.mark.parametrize("question", [ELSEWHERE, "colour = 'red'", "late = 'maybe'", "late >>", "", 17, None])
    def test_a_bad_question_costs_nothing(self, question: Any) -> None:
        db = self.database()
        mechanism = self.make(db)
        before = mechanism.state
        with pytest.raises(tr.QueryError):
            mechanism.ask(question)
        with pytest.raises(tr.QueryError, match="query 1"):
            mechanism.ask_many(["late = 'yes'", question])
        with pytest.raises(tr.QueryError, match="list"):
            mechanism.ask_many("late = 'yes'")
        assert (mechanism.spent, db.touched, mechanism.state) == (0, 0, before)

    def test_a_text_and_its_query_are_the_same(self) -> None:
        text = "late = 'yes' AND month <= 6"
        sharp = [self.make(self.database(), epsilon=10_000.0) for _ in range(2)]
        assert self.same(sharp[0].ask(text), sharp[1].ask(tr.parse(text, SCHEMA)))

    def test_an_empty_batch_is_free(self) -> None:
        mechanism = self.make(self.database())
        assert mechanism.ask_many([]) == []
        assert mechanism.spent == 0

    def test_the_guarantee_says_what_was_promised(self) -> None:
        guarantee = self.make(self.database()).guarantee
        assert (guarantee.epsilon, guarantee.size) == (self.epsilon, self.population)
        assert 0 < guarantee.alpha < 1
        assert 0 < guarantee.beta < 1
        assert guarantee.statement

    @pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), 5e-324, "1", None, True])
    def test_bad_epsilons_are_refused(self, epsilon: Any) -> None:
        with pytest.raises(tr.ParameterError, match="epsilon must be a positive finite number"):
            self.make(TestDatabase(SCHEMA, rows(10)), epsilon=epsilon)

    def test_bad_parameters_are_refused_by_name(self) -> None:
        for options, name in self.bad_parameters:
            db = TestDatabase(SCHEMA, rows(10))
            with pytest.raises(tr.ParameterError, match=name) as caught:
                self.make(db, **options)
            assert caught.value.parameter == name
            assert db.touched == 0


class FiniteContract(MechanismContract):
    """For mechanisms that give a last answer, and whose noise in rows is fixed."""

    @abstractmethod
    def finish(self, mechanism: Any) -> None:
        """Ask until the last answer has been given."""

    def test_its_whole_life_keeps_the_promise(self) -> None:
        mechanism = self.make(self.database())
        self.finish(mechanism)
        assert mechanism.halted
        assert mechanism.spent <= self.epsilon
        # And uses what it was given: a cautious mechanism is an inaccurate one.
        assert mechanism.spent > 0.999 * self.epsilon

    def test_a_finished_one_refuses_and_touches_nothing(self) -> None:
        db = self.database()
        mechanism = self.make(db)
        self.finish(mechanism)
        before = (mechanism.state, mechanism.spent, db.touched)
        with pytest.raises(tr.Halted, match="last answer"):
            mechanism.ask("late = 'yes'")
        with pytest.raises(tr.Halted, match="last answer"):
            mechanism.ask_many(["late = 'yes'"])
        assert (mechanism.state, mechanism.spent, db.touched) == before

    def test_the_guarantee_improves_as_the_database_grows(self) -> None:
        db = self.database()
        mechanism = self.make(db)
        before = mechanism.guarantee
        db.append_cells(rows(self.population))
        assert mechanism.guarantee.alpha == pytest.approx(before.alpha / 2)
