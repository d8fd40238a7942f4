"""Each way to ask, in a small vault: what it refuses, what it records and for whom, and what it says of prices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.vaults import mechanism
from treering.answer import Bill
from treering.domain.language.measures import Count, Request
from treering.errors import Dearer, KeyUsed
from treering.sql.split import split
from treering.trusted.ledger.disk import Stage, observe
from treering.vault.members import Member
from treering.vault.planning import Planned
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 3)})
ROWS = [{"late": ("no", "yes")[row % 4 == 0], "month": row % 3 + 1} for row in range(600)]
LATE = "late = 'yes'"
REQUEST = Request.of(SCHEMA, [Count()], by=["late"])
COUNTS = "SELECT late, COUNT(*) AS n FROM t GROUP BY late ORDER BY late"
STATEMENT = split(COUNTS, SCHEMA, sums=True)

WAYS: dict[str, Callable[[Vault, str | None], object]] = {
    "ask": lambda vault, key: vault.ask(LATE, key=key),
    "ask_many": lambda vault, key: vault.ask_many([LATE], key=key),
    "release": lambda vault, key: vault.release(REQUEST, key=key),
    "sql": lambda vault, key: vault.sql(STATEMENT, key=key),
}


def made(place: Path, mechanism: str = "rings", rows: list[dict[str, Any]] = ROWS, **options: Any) -> Vault:
    vault = Vault.create(place, SCHEMA, **{"epsilon": 2.0, "delta": 1e-9, "mechanism": mechanism, **options})
    if rows:
        vault.append(rows)
    return vault


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with made(tmp_path / "vault", share=0.6) as opened:
        yield opened


def test_what_is_public_of_a_vault(vault: Vault, tmp_path: Path) -> None:
    assert (vault.schema, vault.size, vault.unit) == (SCHEMA, 600, "rho")
    with made(tmp_path / "pure", delta=0.0, rows=[]) as pure:
        assert (pure.size, pure.unit) == (0, "epsilon")


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_key_must_be_a_printable_text(vault: Vault, way: str) -> None:
    for wrong in ("", "x" * 201, "a\nb"):
        with pytest.raises(tr.ParameterError, match="must be a printable text of 1 to 200 characters") as refusal:
            WAYS[way](vault, wrong)
        assert refusal.value.parameter == "key"
    assert vault.spent == 0


@pytest.mark.parametrize("way", WAYS)
def test_what_was_asked_with_a_key_is_on_record_and_free(vault: Vault, tmp_path: Path, way: str) -> None:
    first = WAYS[way](vault, "key")
    before = len(list(vault.ledger()))
    assert WAYS[way](vault, "key") == first
    vault.append(ROWS)
    spent = vault.spent
    assert WAYS[way](vault, "key") == first
    assert len(list(vault.ledger())) == before + 1
    vault.close()
    with Vault.open(tmp_path / "vault") as again:
        assert WAYS[way](again, "key") == first
        assert again.spent == spent
        assert WAYS[way](again, None) != first


@pytest.mark.parametrize("way", WAYS)
def test_without_a_key_nothing_is_kept_under_one(vault: Vault, way: str) -> None:
    WAYS[way](vault, None)
    assert not vault._store._record.keys
    assert "answers" not in {line["kind"] for line in vault.ledger()}


def test_a_key_stands_for_the_queries_and_the_mechanism_that_answered(vault: Vault) -> None:
    vault.add("continual", 0.4)
    first = vault.ask(LATE, "continual", key="key")
    assert vault.ask(LATE, key="key") == vault.ask(LATE, "continual", key="key") == first
    with pytest.raises(KeyUsed):
        vault.ask(LATE, "rings", key="key")
    with pytest.raises(KeyUsed):
        vault.ask("month = 1", key="key")
    line = vault._store._record.keys["key"]
    assert (line.key, line.mechanism) == ("key", 1)


@pytest.mark.parametrize("number", [-2, -1, 1, 7])
def test_a_key_of_a_mechanism_that_is_not_there_is_for_something_else(vault: Vault, number: int) -> None:
    """Lines about rows and tables name no mechanism."""
    vault.ask(LATE, key="key")
    line: Any = vault._store._record.keys["key"]
    vault._store._record.keys["key"] = line._replace(mechanism=number)
    with pytest.raises(KeyUsed):
        vault.ask(LATE, key="key")


def test_a_key_of_a_statement_stands_for_the_mechanism_that_was_named(vault: Vault) -> None:
    named = vault.sql(COUNTS, mechanism="rings", key="key")
    assert vault.sql(COUNTS, mechanism="rings", key="key").equals(named)
    with pytest.raises(KeyUsed):
        vault.sql(COUNTS, key="key")
    # The key of a table has no mechanism, and that of rows neither.
    vault.append(ROWS, key="rows")
    for key in ("key", "rows"):
        with pytest.raises(KeyUsed):
            vault.ask(LATE, key=key)
        with pytest.raises(KeyUsed):
            vault.release(REQUEST, key=key)


# -- stages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_is_durable_before_it_leaves(vault: Vault, way: str) -> None:
    """In this order, so that a crash in between loses an answer that nobody has seen."""
    stages: list[Stage] = []
    observe(stages.append)
    try:
        WAYS[way](vault, None)
    finally:
        observe(None)
    assert [stage for stage in stages if stage in (Stage.COMMITTED, Stage.ANSWERED)] == [
        Stage.COMMITTED,
        Stage.ANSWERED,
    ]


@pytest.mark.parametrize("way", WAYS)
def test_whoever_answers_may_make_a_checkpoint_and_may_fail_to(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    asked: list[bool] = []

    def condense(member: Member, *, closing: bool = False) -> None:
        assert member.spec.name == "rings"
        asked.append(closing)
        raise tr.VaultError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Member, "condense", condense)
        WAYS[way](vault, None)
        assert asked == [False]
        vault.close()
    assert asked == [False, True]


# -- prices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("within", [None, 0.2])
def test_a_price_says_who_answers_and_what_it_costs(vault: Vault, within: float | None) -> None:
    vault.add("continual", 0.4)
    prices = [
        vault.price_many([LATE], "rings", within),
        vault.quote(REQUEST, within=within),
        vault.price_sql(COUNTS, within, "rings"),
    ]
    for price in prices:
        assert (price.mechanism, price.unit, price.enough, price.exact) == ("rings", "rho", True, True)
        assert price.remaining == pytest.approx(0.6 * vault.total)
    assert prices[0].most == vault.price(LATE, "rings", within) > 0
    assert prices[1].most == prices[2].most > 0
    before = vault.left(vault.size)
    vault.release(REQUEST, within=within)
    assert before - vault.left(vault.size) == pytest.approx(prices[1].most)
    before = vault.left(vault.size)
    vault.sql(COUNTS, within, "rings")  # It asks for the same, which is known now.
    assert vault.left(vault.size) == before
    known = vault.price_sql(COUNTS, within, "rings")
    assert known.most == 0
    assert known.remaining == pytest.approx(0.6 * vault.total - vault.spent)


def test_a_statement_is_answered_by_whom_it_names(vault: Vault) -> None:
    vault.add("continual", 0.4)
    price = vault.price_sql(COUNTS, mechanism="continual")
    assert price.mechanism == "continual"
    assert price.remaining == pytest.approx(0.4 * vault.total)
    assert price.most == vault.price_many([LATE], "continual").most
    table = vault.sql(COUNTS, mechanism="continual")
    assert [member.mechanism.spent > 0 for member in vault._members] == [False, True]
    assert b"600" in (table.schema.metadata or {}).values()
    answers = vault.ask_many(["late = 'no'", LATE], "continual")
    assert table.column("n").to_pylist() == [answer.count for answer in answers]


def test_explaining_costs_nothing_and_says_the_price(vault: Vault) -> None:
    bill = Bill(most=0.0)
    told = vault.sql(f"EXPLAIN {COUNTS}", bill=bill)
    assert (vault.spent, bill.cost) == (0, 0)
    assert bill.remaining == pytest.approx(vault.total)
    assert "rings" in str(told.to_pylist())


# -- bills -------------------------------------------------------------------------------------------------------------


def test_a_bill_is_paid_up_to_its_limit_and_not_beyond(vault: Vault) -> None:
    """A refusal brings the plan, which need not be made again."""
    price = vault.price(LATE)
    with pytest.raises(Dearer) as refusal:
        vault.ask_many([LATE], bill=Bill(most=math.nextafter(price, 0)))
    assert (refusal.value.unit, refusal.value.price) == ("rho", price)
    assert vault.spent == 0
    plan = refusal.value.plan
    assert isinstance(plan, Planned)
    bill = Bill(most=price)
    vault.ask_many([LATE], bill=bill, plan=plan)
    assert 0 < bill.cost == pytest.approx(price)
    assert bill.remaining == pytest.approx(vault.total - vault.spent)


@pytest.mark.parametrize("rows", [1, 600])
def test_a_bill_is_what_the_newest_row_pays(tmp_path: Path, rows: int) -> None:
    with made(tmp_path / "vault", rows=ROWS[:rows], epsilon=1000.0) as vault:
        first, later, again = Bill(), Bill(), Bill()
        vault.ask_many([LATE], bill=first)
        assert first.cost == pytest.approx(vault.spent)
        assert first.remaining == pytest.approx(vault.total - vault.spent)
        vault.append(ROWS)
        oldest = vault.left(1)
        price = vault.price(LATE)
        vault.ask_many([LATE], bill=later)
        assert vault.left(1) == oldest
        assert later.cost == pytest.approx(price)
        assert price > 0
        vault.ask_many([LATE], bill=again)
        assert again.cost == 0


def test_nothing_asked_costs_nothing_where_there_are_no_rows_yet(tmp_path: Path) -> None:
    with made(tmp_path / "vault", rows=[]) as vault:
        bill = Bill()
        assert vault.ask_many([], bill=bill) == []
        assert (bill.cost, bill.settled) == (0.0, False)
    assert bill.remaining == pytest.approx(vault.total)


@pytest.mark.parametrize("way", ["ask_many", "sql"])
def test_what_is_on_record_under_a_key_is_free_for_every_bill(vault: Vault, way: str) -> None:
    def ask(bill: Bill, key: str) -> object:
        return (
            vault.ask_many([LATE], key=key, bill=bill) if way == "ask_many" else vault.sql(COUNTS, key=key, bill=bill)
        )

    first = Bill()
    answer = ask(first, "key")
    assert first.cost == pytest.approx(vault.spent)
    vault.append(ROWS)
    with pytest.raises(Dearer):
        ask(Bill(most=0.0), "another key")
    bill = Bill(most=0.0)
    assert ask(bill, "key") == answer
    assert bill.cost == 0


def test_a_bill_says_whether_all_to_come_is_free(tmp_path: Path) -> None:
    with made(tmp_path / "vault", "continual", share=0.5) as vault:
        vault.add("rings", 0.5)
        first, second = Bill(), Bill()
        vault.ask_many([LATE], "rings", bill=first)
        vault.ask_many([LATE], "continual", bill=second)
        assert (first.settled, second.settled) == (False, True)
        assert second.remaining == pytest.approx(vault.total - vault.spent)
        assert mechanism(vault).settled
