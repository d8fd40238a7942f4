"""What a question may cost, and what it has cost, told by the vault itself; and keys for statements."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import treering as tr
from support.failing import fail_after_release
from treering.answer import Bill
from treering.errors import Dearer, KeyUsed
from treering.mechanisms.plan import Plan
from treering.mechanisms.rings import Rings
from treering.words import readable

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
ROWS = [{"late": "no", "month": row % 12 + 1} for row in range(12_000)]
MONTHS = "SELECT month, COUNT(*) FROM t GROUP BY month"


@pytest.fixture(params=["rings", "pmwg", "continual"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tr.Vault]:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9, mechanism=request.param) as opened:
        opened.append(ROWS)
        yield opened


@pytest.fixture
def rings(tmp_path: Path) -> Iterator[tr.Vault]:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9) as opened:
        opened.append(ROWS)
        yield opened


def test_a_bill_says_what_was_charged(vault: tr.Vault) -> None:
    for queries in (["late = 'no'"], ["late = 'yes'", "month = 1"], ["late = 'no'"]):
        before, bill = vault.left(vault.size), Bill()
        price = vault.price_many(queries).most
        vault.ask_many(queries, bill=bill)
        assert bill.cost == pytest.approx(before - vault.left(vault.size))
        assert bill.cost <= price * (1 + 1e-9)
        assert bill.remaining == pytest.approx(vault.total - vault.spent)
        assert bill.settled == vault.settled


def test_one_mechanism_from_which_all_is_free_is_enough(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9, mechanism="continual", share=0.5) as vault:
        vault.add("rings", 0.5)
        vault.append(ROWS)
        bill = Bill()
        vault.ask_many(["late = 'no'"], vault.status()["mechanisms"][0]["name"], bill=bill)
        assert [member.mechanism.settled for member in vault._members] == [True, False]
        assert bill.settled is vault.settled is True


def test_what_could_cost_more_is_refused_and_costs_nothing(vault: tr.Vault) -> None:
    price, before = vault.price("late = 'no'"), vault.status()
    with pytest.raises(Dearer) as refused:
        vault.ask_many(["late = 'no'"], bill=Bill(most=price / 2))
    assert refused.value.price == pytest.approx(price)
    assert refused.value.most == price / 2
    assert vault.status() == before
    vault.ask_many(["late = 'no'"], bill=Bill(most=price))


def test_what_is_free_needs_no_allowance(vault: tr.Vault) -> None:
    first = vault.ask("late = 'no'")
    bill = Bill(most=0.0)
    assert vault.ask_many(["late = 'no'"], bill=bill)[0].value == pytest.approx(first.value)
    assert bill.cost == 0


def test_statements_have_bills_too(rings: tr.Vault) -> None:
    with pytest.raises(Dearer):
        rings.sql(MONTHS, bill=Bill(most=0.0))
    bill = Bill()
    rings.sql(MONTHS, bill=bill)
    assert bill.cost == pytest.approx(rings.spent)
    explained = Bill(most=0.0)
    rings.sql(f"EXPLAIN {MONTHS}", bill=explained)
    assert explained.cost == 0
    assert explained.remaining == pytest.approx(rings.total - rings.spent)


def test_bills_of_many_threads_sum_to_what_is_spent(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9, pace=200) as vault:
        vault.append(ROWS)
        bills = [Bill() for _ in range(24)]

        def ask(number: int) -> None:
            vault.ask_many(
                [f"month = {number % 12 + 1} AND late = '{('no', 'yes')[number // 12]}'"], bill=bills[number]
            )

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(24)))
        assert sum(bill.cost for bill in bills) == pytest.approx(vault.spent, rel=1e-9)
        assert all(bill.cost > 0 for bill in bills)


def test_a_question_that_fails_has_a_bill(rings: tr.Vault) -> None:
    bill = Bill()
    with pytest.raises(tr.BudgetExceeded):
        rings.ask_many(["late = 'no'"], within=1e-9, bill=bill)
    assert bill.cost == 0
    assert bill.remaining == pytest.approx(rings.total)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_statement_that_fails_after_its_release_says_what_it_has_cost(
    rings: tr.Vault, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_after_release(monkeypatch)
    with pytest.raises(tr.QueryError) as failed:
        rings.sql(MONTHS, key=key)
    bill = failed.value.bill
    assert bill is not None
    assert bill.cost == pytest.approx(rings.spent)
    assert bill.remaining == pytest.approx(rings.total - rings.spent)
    assert failed.value.__notes__ == [bill.words()]
    assert f"rho {readable(bill.cost)}" in bill.words()
    spent = rings.spent
    with pytest.raises(tr.QueryError) as again:
        rings.sql(MONTHS, key=key)
    assert again.value.bill is None
    monkeypatch.undo()
    rings.sql(MONTHS, key=key)
    assert rings.spent == spent > 0, "what was released is free to ask again"


def test_an_unexpected_failure_after_a_release_says_what_it_has_cost(
    rings: tr.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_after_release(monkeypatch, KeyError("m0"))
    with pytest.raises(KeyError) as failed:
        rings.sql(MONTHS)
    assert vars(failed.value)["bill"].cost == pytest.approx(rings.spent)


def test_a_batch_that_fails_on_the_way_says_what_it_has_cost(rings: tr.Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Rings.execute

    def fails(mechanism: Rings, plan: Plan) -> None:
        real(mechanism, plan)
        raise tr.Halted("no more")

    monkeypatch.setattr(Rings, "execute", fails)
    for ask in (lambda: rings.ask("late = 'no'"), lambda: rings.ask_many(["month = 1"], bill=Bill())):
        spent = rings.spent
        with pytest.raises(tr.Halted) as failed:
            ask()
        assert failed.value.bill is not None
        assert failed.value.bill.cost == pytest.approx(rings.spent - spent)


def test_an_error_before_any_charge_has_no_bill(rings: tr.Vault) -> None:
    for ask in (lambda: rings.ask("late = 'no'", within=1e-9), lambda: rings.sql(MONTHS, bill=Bill(most=0.0))):
        with pytest.raises(tr.TreeringError) as failed:
            ask()
        assert failed.value.bill is None


def test_a_statement_is_read_once(rings: tr.Vault) -> None:
    statement = rings.statement(MONTHS)
    assert rings.statement(statement) is statement
    assert rings.price_sql(statement) == rings.price_sql(MONTHS)
    assert rings.sql(statement).equals(rings.sql(MONTHS))


# -- keys for statements -----------------------------------------------------------------------------------------------


def test_a_key_gives_the_recorded_table(rings: tr.Vault, tmp_path: Path) -> None:
    first = rings.sql(MONTHS, key="k")
    rings.append(ROWS)
    spent = rings.spent
    assert rings.sql(MONTHS, key="k").equals(first, check_metadata=True)
    assert rings.spent == spent
    rings.close()
    with tr.Vault.open(tmp_path / "v") as again:
        assert again.sql("select month, count(*) from t group by month", key="k").equals(first, check_metadata=True)
        assert again.sql(MONTHS).equals(first) is False
        bill = Bill(most=0.0)
        again.sql(MONTHS, key="k", bill=bill)
        again.verify()


def test_a_key_is_for_one_statement(rings: tr.Vault) -> None:
    rings.sql(MONTHS, key="k")
    rings.ask("late = 'no'", key="other")
    for ask in (
        lambda: rings.sql("SELECT late, COUNT(*) FROM t GROUP BY late", key="k"),
        lambda: rings.sql(MONTHS, key="other"),
        lambda: rings.ask("late = 'no'", key="k"),
        lambda: rings.append(ROWS, key="k"),
    ):
        with pytest.raises(KeyUsed, match="was used for something else"):
            ask()


def test_a_statement_that_is_refused_leaves_its_key_free(rings: tr.Vault) -> None:
    with pytest.raises(tr.BudgetExceeded):
        rings.sql(MONTHS, within=1e-9, key="k")
    rings.sql(MONTHS, key="k")
