"""Quotas: checked on the price, settled by the charge, kept over restarts, and never overdrawn."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.office import API, Office, bearer, office

QUESTIONS = [
    f"origin = '{origin}' AND month = {month} AND late = '{late}'"
    for origin, month, late in itertools.product(("EWR", "JFK", "LGA"), range(1, 13), ("no", "yes"))
]


def mine(desk: Office, headers: dict[str, str]) -> Any:
    return desk.client.get(f"{API}/me", headers=headers).json()["quota"]


def test_answers_that_cost_count_and_free_ones_do_not(tmp_path: Path) -> None:
    with office(tmp_path / "v") as desk:
        headers = desk.bearer(answers=3)
        first = desk.ask(headers, queries=["late = 'no'", "month = 1"]).json()
        assert first["cost"] > 0
        assert first["quota"]["answers_left"] == 1
        for _ in range(5):
            assert desk.ask(headers, query="late = 'yes'").json()["cost"] == 0
        assert mine(desk, headers)["answers_used"] == 2
        refused = desk.ask(headers, queries=["origin = 'JFK'", "origin = 'EWR'"])
        assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
        assert (refused.json()["requested"], refused.json()["left"]) == (2, 1)
        assert desk.ask(headers, query="origin = 'JFK'").status_code == 200
        assert mine(desk, headers)["answers_used"] == 3
        assert desk.ask(headers, query="origin = 'LGA' AND month = 2").status_code == 429


def test_the_budget_counts_what_was_charged(tmp_path: Path) -> None:
    with office(tmp_path / "v") as desk:
        total = desk.vault.total
        price = desk.vault.price("late = 'no'") / total
        headers = desk.bearer(budget=1.5 * price)
        cost = desk.ask(headers, query="late = 'no'").json()["cost"]
        assert mine(desk, headers)["budget_used"] == pytest.approx(cost / total)
        refused = desk.ask(headers, query="month = 4").json()
        assert refused["code"] == "quota_exceeded"
        assert refused["unit"] == "rho"
        assert refused["left"] == pytest.approx(0.5 * price * total)
        assert refused["requested"] > refused["left"]
        assert desk.ask(headers, query="month = 4", within=0.9).status_code == 200, "a rough answer is cheap enough"
        assert desk.ask(desk.bearer(), query="month = 4").status_code == 200, "another's quota is another's"


def test_a_statement_is_under_the_quota_too(tmp_path: Path) -> None:
    with office(tmp_path / "v") as desk:
        headers = desk.bearer(answers=1)
        months = "SELECT month, COUNT(*) FROM t GROUP BY month"
        assert desk.ask(headers, sql=months).json()["quota"]["answers_left"] == 0
        assert desk.ask(headers, sql=months).status_code == 200
        assert desk.ask(headers, sql="SELECT origin, COUNT(*) FROM t GROUP BY origin").status_code == 429
        desk.vault.append([{"origin": "JFK", "month": 1, "late": "no"}] * 100)
        assert desk.ask(headers, sql=months).status_code == 429, "new rows would pay"


def test_a_recorded_answer_needs_no_quota(tmp_path: Path) -> None:
    with office(tmp_path / "v") as desk:
        headers = {**desk.bearer(answers=1), "Idempotency-Key": "k"}
        first = desk.ask(headers, query="late = 'no'").json()
        desk.vault.append([{"origin": "JFK", "month": 1, "late": "no"}] * 100)
        assert desk.ask(headers, query="late = 'no'").json()["value"] == first["value"]


def test_a_refused_question_gives_everything_back(tmp_path: Path) -> None:
    with office(tmp_path / "v") as desk:
        headers = desk.bearer(answers=5, budget=1.0)
        assert desk.ask(headers, query="late = 'no'", within=1e-9).status_code in (402, 429)
        assert mine(desk, headers) == {**mine(desk, headers), "answers_used": 0, "budget_used": 0.0}


def test_a_restart_keeps_tokens_and_use(tmp_path: Path) -> None:
    with office(tmp_path / "v") as desk:
        text = desk.token(answers=2)[1]
        gone, gone_text = desk.token()
        desk.desk.register.revoke(gone.id)
        assert desk.ask(bearer(text), query="late = 'no'").status_code == 200
        before = mine(desk, bearer(text))
    with office(tmp_path / "v") as desk:
        assert mine(desk, bearer(text)) == before
        assert desk.ask(bearer(gone_text), query="late = 'no'").json()["code"] == "token_revoked"
        assert desk.ask(bearer(text), queries=["month = 1", "month = 2"]).status_code == 429
        assert desk.ask(bearer(text), query="month = 1").status_code == 200
        assert desk.ask(bearer(text), query="origin = 'JFK'").status_code == 429


def test_use_is_forgotten_after_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with office(tmp_path / "v") as desk:
        headers = desk.bearer(answers=1)
        desk.ask(headers, query="late = 'no'")
        now = time.time()
        refused = desk.ask(headers, query="month = 1")
        wait = int(refused.headers["retry-after"])
        assert 6.9 * 86400 < wait <= 7 * 86400 + 3600
        monkeypatch.setattr(time, "time", lambda: now + 6.9 * 86400)
        assert desk.ask(headers, query="month = 1").status_code == 429
        monkeypatch.setattr(time, "time", lambda: now + wait + 5)
        assert desk.ask(headers, query="month = 1").status_code == 200


@pytest.mark.parametrize("quota", [{"answers": 7}, {"budget": 0.2}])
def test_many_at_once_do_not_overdraw(tmp_path: Path, quota: dict[str, Any]) -> None:
    with office(tmp_path / "v", pace=100) as desk:
        headers = desk.bearer(**quota)
        with ThreadPoolExecutor(16) as pool:
            told = list(pool.map(lambda text: desk.ask(headers, query=text), QUESTIONS))
        assert {each.status_code for each in told} == {200, 429}
        paid = [each.json()["cost"] for each in told if each.status_code == 200]
        used = mine(desk, headers)
        assert sum(paid) == pytest.approx(desk.vault.spent, rel=1e-9), "no charge was lost, none is counted twice"
        assert used["budget_used"] == pytest.approx(desk.vault.spent / desk.vault.total, rel=1e-9)
        assert used["answers_used"] == sum(cost > 0 for cost in paid)
        assert used["answers_used"] <= quota.get("answers", 10**9)
        assert used["budget_used"] <= quota.get("budget", 1.0) * (1 + 1e-9)


def test_rows_that_come_meanwhile_do_not_overdraw(tmp_path: Path) -> None:
    """A question is priced, rows come, and it would cost more than was set aside: it is priced anew."""
    with office(tmp_path / "v", pace=100) as desk:
        headers = desk.bearer(answers=40)

        def append(_: int) -> None:
            desk.vault.append([{"origin": "JFK", "month": 1, "late": "no"}] * 10)

        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(desk.ask, headers, query=text) for text in QUESTIONS[:6] * 10]
            list(pool.map(append, range(30)))
            told = [each.result() for each in asked]
        assert {each.status_code for each in told} <= {200, 429}
        charged = sum(each.status_code == 200 and each.json()["cost"] > 0 for each in told)
        assert mine(desk, headers)["answers_used"] == charged <= 40
