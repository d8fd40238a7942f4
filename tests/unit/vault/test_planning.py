"""A question is planned once, and its estimate is read once: what shows a price hands on the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.plans import counting
from support.vaults import SCHEMA, frame
from treering.answer import Bill
from treering.domain.language.measures import Count, Request
from treering.errors import Dearer, ParameterError
from treering.vault.planning import Planned
from treering.vault.vault import Vault

SQL = "SELECT month, COUNT(*) AS n FROM t WHERE late = 'yes' GROUP BY month"
QUERIES = ["late = 'yes'", "month = 1"]
WAYS: dict[str, Callable[[Vault, Bill, Planned | None], object]] = {
    "queries": lambda vault, bill, plan: vault.ask_many(QUERIES, bill=bill, plan=plan),
    "statement": lambda vault, bill, plan: vault.sql(SQL, bill=bill, plan=plan),
}
EITHER = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6) as opened:
        opened.append(frame(20_000))
        yield opened


def plan_of(vault: Vault, way: str) -> Planned:
    return vault.plan(SQL if way == "statement" else QUERIES)


@EITHER
def test_a_question_is_planned_once_and_read_once(vault: Vault, way: str) -> None:
    """New, and known: what is read is one estimate for each series that the question has."""
    for price in (True, False):
        with counting() as counts:
            bill = Bill()
            WAYS[way](vault, bill, None)
        assert (bill.cost > 0) == price
        assert counts == {"plans": 1, "readings": 1 if way == "statement" else 2}


def test_a_single_question_is_planned_once_and_read_once(vault: Vault) -> None:
    with counting() as counts:
        vault.ask("late = 'yes'")
    assert counts == {"plans": 1, "readings": 1}


@EITHER
def test_a_plan_that_is_handed_on_is_not_made_again(vault: Vault, way: str) -> None:
    plan = plan_of(vault, way)
    with counting() as counts:
        bill = Bill(most=plan.most)
        WAYS[way](vault, bill, plan)
    assert 0 < bill.cost <= plan.most * (1 + 1e-12)
    assert counts["plans"] == 0


@EITHER
def test_a_refusal_of_a_price_brings_the_plan(vault: Vault, way: str) -> None:
    with counting() as counts:
        with pytest.raises(Dearer) as refusal:
            WAYS[way](vault, Bill(most=0.0), None)
        plan = refusal.value.plan
        assert isinstance(plan, Planned)
        WAYS[way](vault, Bill(most=plan.most), plan)
    assert counts["plans"] == 1


@EITHER
def test_a_plan_is_made_again_once_rows_have_come(vault: Vault, way: str) -> None:
    plan = plan_of(vault, way)
    vault.append(frame(500, seed=2))
    with counting() as counts:
        WAYS[way](vault, Bill(), plan)
    assert counts["plans"] == 1


@EITHER
def test_a_plan_is_made_again_once_another_question_was_asked(vault: Vault, way: str) -> None:
    plan = plan_of(vault, way)
    vault.ask("month = 7")
    with counting() as counts:
        WAYS[way](vault, Bill(), plan)
    assert counts["plans"] == 1


@EITHER
def test_a_plan_made_again_for_more_than_is_allowed_is_refused(vault: Vault, way: str) -> None:
    """The plan of a question that is free by now is not that of rows that have come since."""
    WAYS[way](vault, Bill(), None)
    plan = plan_of(vault, way)
    assert plan.most == 0
    vault.append(frame(500, seed=2))
    left = vault.left(vault.size)
    with pytest.raises(Dearer) as refusal:
        WAYS[way](vault, Bill(most=0.0), plan)
    assert refusal.value.price > 0
    assert vault.left(vault.size) == left


@pytest.mark.parametrize("kinds", [["pmwg"], ["continual", "rings"], ["pmwg", "rings", "continual"]])
def test_of_several_mechanisms_the_chosen_one_carries_out_the_plan_that_chose_it(
    tmp_path: Path, kinds: list[str]
) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1000.0, 1e-6, mechanism=None) as vault:
        for kind in kinds:
            vault.add(kind, 0.3, **({"alpha": 0.1} if kind == "pmwg" else {}))
        vault.append(frame(20_000))
        for _ in range(2):
            for queries in ([QUERIES[0]], QUERIES):
                plan = vault.plan(queries)
                with counting() as counts:
                    vault.ask_many(queries, plan=plan)
                assert counts["plans"] == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda vault, plan: vault.ask_many(["month = 2"], plan=plan),
        lambda vault, plan: vault.ask_many([*QUERIES, "month = 2"], plan=plan),
        lambda vault, plan: vault.ask_many(QUERIES, within=0.1, plan=plan),
        lambda vault, plan: vault.ask_many(QUERIES, mechanism="other", plan=plan),
        lambda vault, plan: vault.sql(SQL, plan=plan),
    ],
)
def test_rejects_plan_of_another_question(vault: Vault, ask: Callable[[Vault, Planned], object]) -> None:
    plan = vault.plan(QUERIES)
    vault.add("rings", 0.5, name="other")
    with pytest.raises(ParameterError, match="plan must be one for this question, this margin and this mechanism"):
        ask(vault, plan)
    assert vault.spent == 0


def test_a_release_is_planned_once(vault: Vault) -> None:
    request = Request.of(SCHEMA, [Count()], ["month"])
    with counting() as counts:
        vault.release(request)
    assert counts["plans"] == 1
