"""What all mechanisms that answer have in common, on one that promises, costs and knows just what a test tells it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.plans import answers_of, batch_price, known_answers, plan_of
from treering.answer import Guarantee
from treering.mechanisms.base import Counting
from treering.mechanisms.plan import wished
from treering.noise import Laplace
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"a": tr.integers(0, 3)})
QUERIES = [tr.parse(text, SCHEMA) for text in ("a = 1", "a = 2", "a = 3")]
SIZE = 1000


class Plain(Counting):
    """Promises a margin, has a price, and knows some answers."""

    def __init__(self, db: TestDatabase) -> None:
        super().__init__(db, tr.Promise(2.0))
        self.alpha, self.cost = 0.1, Fraction(1)
        self.known_margins: list[float] | None = None
        self.resumed = 0

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(2.0, 0.0, self.alpha, 0.05, self._rows(), "so it is")

    @property
    def halted(self) -> bool:
        return False

    @property
    def state(self) -> int:
        return self.resumed

    def _answer(self, queries: Sequence[tr.Query]) -> list[tr.Answer]:
        return [tr.Answer(0.5, self.alpha, SIZE, "easy") for _ in queries]

    def _known(self, queries: Sequence[tr.Query]) -> list[tr.Answer] | None:
        if self.known_margins is None:
            return super()._known(queries)
        return [tr.Answer(0.25, margin, SIZE, "cached") for margin in self.known_margins]

    def _price(self, queries: Sequence[tr.Query]) -> Fraction:
        return self.cost

    def _resume(self) -> None:
        self.resumed += 1


def made(size: int = SIZE) -> Plain:
    return Plain(TestDatabase(SCHEMA, [1] * size))


# -- what is promised --------------------------------------------------------------------------------------------------


def test_money_is_counted_from_the_gate() -> None:
    plain = made()
    assert (plain.spent, plain.remaining, plain.left(1), plain.left(SIZE + 1)) == (0.0, 2.0, 2.0, 2.0)
    plain._gate.measure(QUERIES[:1], Laplace(2.0))
    assert (plain.spent, plain.remaining, plain.left(1), plain.left(SIZE + 1)) == (0.5, 1.5, 1.5, 2.0)


def test_what_a_mechanism_does_not_have_is_nothing() -> None:
    plain = made()
    assert plain.spare == 0
    assert (plain.backlog, plain.settled) == (None, False)
    assert known_answers(plain, QUERIES) is None
    plain.condense()
    with pytest.raises(tr.QueryError, match="draw no rows"):
        plain.sample(3)


def test_a_description_has_every_entry() -> None:
    plain = made()
    plain.alpha = math.inf
    assert plain.describe() == {
        "spent": 0.0,
        "remaining": 2.0,
        "hard_queries": None,
        "potential": None,
        "guarantee": {
            "epsilon": 2.0,
            "delta": 0.0,
            "alpha": None,
            "beta": 0.05,
            "size": SIZE,
            "statement": "so it is",
        },
        "epochs": [],
        "next_epoch": None,
    }
    described = made(0).describe()["guarantee"]
    assert described["alpha"] is None
    assert "the database is empty: an accuracy guarantee needs at least one row" in described["statement"]


def test_what_is_promised_for_every_answer_is_the_prospect() -> None:
    assert made()._prospect(QUERIES) == 0.1
    assert made(0)._prospect(QUERIES) == math.inf


# -- interrupted -------------------------------------------------------------------------------------------------------


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """The gates that were mended."""
    gates: list[Kernel] = []

    def mend(gate: Kernel) -> None:
        gates.append(gate)

    monkeypatch.setattr(Kernel, "mend", mend)
    return gates


def test_nothing_is_mended_unless_it_was_torn(mended: list[Kernel]) -> None:
    plain = made()
    for _ in range(2):
        with plain._taking_up():
            pass
        with pytest.raises(tr.QueryError, match="refused"), plain._taking_up():
            raise tr.QueryError("refused")
    assert (mended, plain.resumed) == ([], 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_what_was_torn_is_mended_once_before_the_next(error: type[BaseException], mended: list[Kernel]) -> None:
    plain = made()
    for times in (1, 2):
        with pytest.raises(error), plain._taking_up():
            raise error
        assert plain.resumed == times - 1
        for _ in range(2):
            with plain._taking_up():
                assert (mended, plain.resumed) == ([plain._gate] * times, times)


# -- wishes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("within", "rows"), [(1, 1), (1.0, 1), (0.999, 999), (0.5, 500), (1000, 1000), (2.5, 2.5), (1e-9, 1e-6)]
)
def test_a_wish_is_rows_or_a_share_of_them(within: float, rows: float) -> None:
    assert wished(within, SIZE) == pytest.approx(rows, rel=1e-12)


@pytest.mark.parametrize("within", [0, -1, 0.0, -0.5, math.inf, -math.inf, math.nan, True, False, "1", None])
def test_a_wish_is_a_positive_number(within: Any) -> None:
    with pytest.raises(tr.ParameterError, match="within must be a positive number"):
        wished(within, SIZE)


def test_a_wish_is_for_no_more_than_all_rows() -> None:
    with pytest.raises(tr.ParameterError, match="within must be at most 1,000, the number of rows, not 1,000.5"):
        wished(1000.5, SIZE)


def test_a_wish_is_met_by_what_is_promised() -> None:
    plain = made()
    plain.alpha = 0.125
    for within in (None, 125, 0.125, 126, 0.2):
        assert answers_of(plain, QUERIES, within) == plain.ask_many(QUERIES)
        assert batch_price(plain, QUERIES, within) == 1
    plain.alpha = 0.12501
    with pytest.raises(tr.ParameterError, match="within asks for a margin of 125 rows, .*but one of 126 rows"):
        plan_of(plain, QUERIES, 125)
    assert answers_of(plain, [], 1) == []


@pytest.mark.parametrize(("alpha", "able"), [(0.999, "but one of 999 rows"), (1.0, "nor any other"), (7.0, "nor any")])
def test_a_refused_wish_says_what_can_be_promised(alpha: float, able: str) -> None:
    plain = made()
    plain.alpha = alpha
    with pytest.raises(tr.ParameterError, match=f"a margin of 0.25 rows, which cannot be promised here, {able}"):
        plan_of(plain, QUERIES, 0.00025)


def test_a_wish_is_met_by_what_is_known() -> None:
    plain = made()
    plain.known_margins = [0.03125, 0.0625, 0.03125]
    known = known_answers(plain, QUERIES)
    for within in (None, 0.0625, 62.5, 100):
        assert known_answers(plain, QUERIES, within) == known == answers_of(plain, QUERIES, within)
    for within in (62.4, 1):
        with pytest.raises(tr.ParameterError, match="cannot be promised"):
            plan_of(plain, QUERIES, within)
    plain.known_margins = None
    assert known_answers(plain, QUERIES) is None
    assert known_answers(plain, QUERIES, 100) is None
    with pytest.raises(tr.GuaranteeError, match="a share of its rows needs at least one"):
        plan_of(made(0), QUERIES, 1)


# -- plans -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("price", "most", "enough"),
    [
        (Fraction(1), Fraction(1), True),
        (Fraction(3, 2), Fraction(3, 2), True),
        (Fraction(3, 2) + Fraction(1, 2**70), Fraction(3, 2), False),
        (Fraction(5), Fraction(3, 2), False),
    ],
)
def test_no_more_is_charged_than_is_left(price: Fraction, most: Fraction, enough: bool) -> None:
    plain = made()
    plain._gate.measure(QUERIES[:1], Laplace(2.0))
    plain.cost = price
    for within in (None, 200):
        plan = plan_of(plain, QUERIES, within)
        assert (plan.most, plan.enough, plan.exact) == (most, enough, True)


def test_the_price_of_a_batch_that_costs_nothing_is_exact() -> None:
    """What PMWG charges depends on the answers, unless it is nothing."""
    db = TestDatabase(SCHEMA, [row % 4 for row in range(4000)])
    pmwg = tr.PMWG(db, 1000.0, 1e-6, alpha=0.2, beta=0.05)
    free, paid = plan_of(pmwg, [tr.Query.all(SCHEMA)]), plan_of(pmwg, QUERIES)
    assert (float(free.most), free.enough, free.exact) == (0, True, True)
    assert (paid.most > 0, paid.enough, paid.exact) == (True, True, False)


# -- PMW and PMWG ------------------------------------------------------------------------------------------------------


def test_what_is_known_is_known_of_all_or_not_at_all() -> None:
    db = TestDatabase(SCHEMA, [row % 4 for row in range(4000)])
    pmwg = tr.PMWG(db, 1000.0, 1e-6, alpha=0.2, beta=0.05)
    assert known_answers(pmwg, []) == []
    first = pmwg.ask(QUERIES[0])
    touched = db.touched
    known = known_answers(pmwg, [QUERIES[0], tr.Query.all(SCHEMA)])
    assert known == [tr.Answer(first.value, first.error, 4000, "cached"), tr.Answer(1.0, 0.0, 4000, "easy")]
    assert known_answers(pmwg, QUERIES[:2]) is None
    assert known_answers(pmwg, QUERIES[1:2]) is None
    assert db.touched == touched


@pytest.mark.parametrize("before", [0, 1, 2])
def test_an_error_has_the_answers_before_it(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pmwg = tr.PMWG(TestDatabase(SCHEMA, [row % 4 for row in range(4000)]), 1000.0, 1e-6, alpha=0.2, beta=0.05)
    given = [tr.Answer(0.5, 0.1, 4000, "easy")] * before

    def ask_many(_: Sequence[tr.Query], answers: list[tr.Answer]) -> None:
        answers += given
        raise tr.Halted("the end")

    monkeypatch.setattr(pmwg._engine, "ask_many", ask_many)
    with pytest.raises(tr.Halted, match="the end") as caught:
        pmwg.ask_many(QUERIES)
    assert caught.value.answers == tuple(given)
    said = [[], ["1 of the 3 queries was answered before this."], ["2 of the 3 queries were answered before this."]]
    assert getattr(caught.value, "__notes__", []) == said[before]
    assert pmwg.ask_many([]) == []


def test_no_questions_need_no_rows() -> None:
    empty = tr.PMWG(TestDatabase(SCHEMA), 1.0, 1e-6, alpha=0.2, beta=0.05)
    assert empty.ask_many([]) == []
    for refused in (empty.ask, empty.price, lambda query: plan_of(empty, [query])):
        with pytest.raises(tr.GuaranteeError, match="the database is empty"):
            refused("a = 1")


def test_the_public_state_is_a_copy_with_the_histograms_fingerprint() -> None:
    pmwg = tr.PMWG(TestDatabase(SCHEMA, [1] * 4000), 1000.0, 1e-6, alpha=0.2, beta=0.05)
    pmwg.ask("a = 1")
    state, fingerprint = pmwg.state
    assert fingerprint == pmwg.hypothesis.fingerprint()
    pmwg.ask("a = 2")
    assert (state.asked, pmwg.state[0].asked) == (1, 2)
    described = pmwg.describe()
    assert (described["hard_queries"], described["potential"]) == (pmwg.hard_queries, pmwg.potential)
    assert described["guarantee"]["queries_left"] is None, "there is no limit"
    assert pmwg.backlog == 4 * pmwg.hypothesis.steps
    pmwg.condense()
    assert pmwg.backlog == 0
    drawn = np.random.default_rng(1)
    assert pmwg.sample(5, drawn).equals(pmwg.hypothesis.sample(5, np.random.default_rng(1)))
    assert pmwg.sample(5).equals(pmwg.hypothesis.sample(5))
