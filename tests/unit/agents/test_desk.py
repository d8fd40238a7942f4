"""The desk of an agent: what it may spend, and that it spends no more."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import pytest

import treering as tr
from support.agents import table
from support.served import serving
from treering.agents.desk import Allowance, ServerDesk, VaultDesk


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[tr.Vault]:
    with table(tmp_path / "v") as opened:
        yield opened


def test_a_desk_without_a_quota_has_the_whole_promise(vault: tr.Vault) -> None:
    allowance = VaultDesk(vault).allowance()
    assert (allowance.left, allowance.quota, allowance.answers_left) == (vault.total, None, None)
    assert str(allowance) == "rho 0.02436 of everybody's 0.02436"


def test_a_quota_is_told_in_words() -> None:
    allowance = Allowance("rho", 1.0, 0.5, quota=0.25, quota_left=0.125, answers_left=1, resets="on Monday")
    first, second, third, last = str(allowance).split("; ")
    assert (first, second) == ("rho 0.125 of your quota of 0.25", "1 paid answer")
    assert (third, last) == ("rho 0.5 of everybody's 1", "more of your quota comes back on Monday")


def test_what_can_be_spent_is_the_least_of_all_limits() -> None:
    assert Allowance("rho", 1.0, 0.5, 0.25, 0.125).left == 0.125
    assert Allowance("rho", 1.0, 0.1, 0.25, 0.125).left == 0.1
    assert Allowance("rho", 1.0, 0.5, 0.25, 0.125, answers_left=0).left == 0
    assert Allowance("rho", 1.0, 0.5).left == 0.5


def test_a_batch_counts_as_its_answers(vault: tr.Vault) -> None:
    desk = VaultDesk(vault, answers=3)
    desk.ask(["origin = 'JFK'", "origin = 'EWR'"], None)
    assert desk.allowance().answers_left == 1
    with pytest.raises(tr.QuotaExceeded, match="it needs 2 paid answers, and 1 is left") as caught:
        desk.ask(["month = 1", "month = 2"], None)
    assert (caught.value.unit, caught.value.requested, caught.value.left) == ("answers", 2, 1)
    desk.ask(["origin = 'LGA'", "origin = 'EWR'", "origin = 'JFK'"], None)
    assert desk.allowance().answers_left == 1


def test_a_quota_is_refused_before_anything_is_charged(vault: tr.Vault) -> None:
    desk = VaultDesk(vault, share=0.01)
    with pytest.raises(tr.QuotaExceeded, match="it needs rho 0.0007794, and 0.0002436 is left of 0.0002436") as caught:
        desk.ask(["origin = 'JFK'"], None)
    assert caught.value.unit == "rho"
    assert caught.value.requested > caught.value.left == pytest.approx(0.01 * vault.total)
    assert vault.spent == 0
    assert desk.ask(["origin = 'JFK'"], 500.0).cost > 0


def test_rows_that_come_are_paid_for_by_who_asks(vault: tr.Vault) -> None:
    from support.vaults import frame

    desk = VaultDesk(vault, answers=2)
    first = desk.ask(["origin = 'JFK'"], None)
    vault.append(frame(500, seed=2))
    second = desk.ask(["origin = 'JFK'"], None)
    assert (first.size, second.size) == (20_000, 20_500)
    assert second.cost > 0
    assert desk.allowance().answers_left == 0


def test_threads_cannot_spend_more_together(vault: tr.Vault) -> None:
    desk = VaultDesk(vault, answers=3, share=0.2)

    def asks(query: str) -> bool:
        try:
            return desk.ask([query], None).cost > 0
        except tr.QuotaExceeded:
            return False

    names = ("origin = 'JFK'", "month = 1", "late = 'yes'")
    queries = [" AND ".join(each) for size in (1, 2, 3) for each in combinations(names, size)]
    with ThreadPoolExecutor(len(queries)) as pool:
        assert sum(pool.map(asks, queries)) == 3
    assert desk.allowance().answers_left == 0


def test_a_server_has_the_desk_of_its_token(tmp_path: Path) -> None:
    vault = table(tmp_path / "v")
    with (
        serving(vault, tmp_path / "v") as served,
        served.client("analyst", answers=2, budget=0.5) as client,
    ):
        desk = ServerDesk(client)
        before = desk.allowance()
        paid = desk.ask(["origin = 'JFK'", "month = 1"], None)
        after = desk.allowance()
        assert paid.told == vault.ask_many(["origin = 'JFK'", "month = 1"])
        assert (before.quota, before.answers_left, before.unit) == (vault.total / 2, 2, "rho")
        assert after.quota_left == pytest.approx(vault.total / 2 - paid.cost)
        assert (after.answers_left, after.left) == (0, 0)
        assert after.promise_left == pytest.approx(vault.total - vault.spent)
        assert after.resets is not None
        free = desk.sql("SELECT month, COUNT(*) FROM t GROUP BY month", None)
        assert (free.size, free.cost) == (20_000, 0)
        assert desk.price(["late = 'yes'"], None).most > 0
        assert desk.price_sql("SELECT COUNT(*) FROM t WHERE late = 'yes'", 100.0).most > 0
        with pytest.raises(tr.QuotaExceeded) as caught:
            desk.ask(["late = 'yes'"], None)
        assert (caught.value.unit, caught.value.left) == ("answers", 0)


def test_a_price_is_free(vault: tr.Vault) -> None:
    desk = VaultDesk(vault, answers=0, share=0.01)
    assert desk.price(["origin = 'JFK'"], None).most > 0
    assert desk.price_sql("SELECT COUNT(*) FROM t WHERE month = 2", 50.0).most > 0
    assert desk.allowance().left == 0
    assert vault.spent == 0
