"""An error after a charge says what was charged, wherever it is read: HTTP, the log, the client, agents, the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.agents import conversation, plain, text
from support.cli import refused, treering
from support.failing import fail_after_release
from support.office import API, SCHEMA, office
from support.served import serving
from treering.agents import tools
from treering.agents.desk import ServerDesk, VaultDesk
from treering.agents.tools import server
from treering.service.pages import asking
from treering.service.routes import questions

FAILS = "SELECT late, COUNT(*) FROM t GROUP BY late"
"""Fails once something was released for it: see `fail_after_release`."""
SURE = "SELECT late, CAST(CONCAT(COUNT(*), 'x') AS INTEGER) FROM t GROUP BY late"
"""Fails for all."""
ROWS = [{"origin": "JFK", "month": row % 12 + 1, "late": "no"} for row in range(6000)]


def vault(place: Path) -> tr.Vault:
    made = tr.Vault.create(place, SCHEMA, epsilon=1.0, delta=1e-9)
    made.append(ROWS)
    return made


def test_http_and_its_log_and_the_quota(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_after_release(monkeypatch)
    caplog.set_level("INFO", "treering.access")
    with office(tmp_path / "v") as desk:
        headers = desk.bearer(answers=5, budget=1.0)
        reply = desk.ask(headers, sql=FAILS)
        problem = reply.json()
        assert (reply.status_code, problem["code"]) == (422, "bad_query")
        assert problem["cost"] == pytest.approx(desk.vault.spent)
        assert problem["cost"] > 0
        assert problem["remaining"] == pytest.approx(desk.vault.total - desk.vault.spent)
        assert "Charged: rho" in problem["detail"]
        assert json.loads(caplog.records[-1].message)["cost"] == problem["cost"]
        used = desk.client.get(f"{API}/me", headers=headers).json()["quota"]
        assert used["answers_used"] == 1
        assert used["budget_used"] == pytest.approx(problem["cost"] / desk.vault.total)
        assert "cost" not in desk.ask(headers, sql=FAILS).json(), "what was released is free to ask again"


def test_what_is_sure_to_fail_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "treering.access")
    with office(tmp_path / "v") as desk:
        reply = desk.ask(desk.bearer(answers=5), sql=SURE)
        assert reply.status_code == 422
        assert "nothing was charged" in reply.json()["detail"]
        assert desk.vault.spent == 0
        assert json.loads(caplog.records[-1].message)["cost"] is None


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after_release(monkeypatch)
    with office(tmp_path / "v") as desk:
        headers = {**desk.known("analyst"), "Content-Type": "application/x-www-form-urlencoded"}
        shown = desk.client.post("/page/ask", headers=headers, data={"question": FAILS}).text
        assert desk.vault.spent > 0
        assert "Charged: rho" in shown


def test_an_unexpected_error_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after_release(monkeypatch, KeyError("the canary 8731"))
    with office(tmp_path / "v") as desk:
        failed = desk.ask(desk.known("analyst"), sql="SELECT month, COUNT(*) FROM t GROUP BY month")
        assert failed.status_code == 500
        assert failed.json()["cost"] == pytest.approx(desk.vault.spent)
        assert "Charged: rho" in failed.json()["detail"]
        assert "8731" not in failed.text


def fail(*_: object, **__: object) -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ({"sql": "SELECT month, COUNT(*) FROM t GROUP BY month"}, "table_json"),
        ({"queries": ["month = 1", "month = 2"]}, "answers_list"),
        ({"query": "month = 1"}, "answer_json"),
    ],
)
def test_what_cannot_be_written_has_its_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], written: str
) -> None:
    with office(tmp_path / "v") as desk:
        headers = desk.known("analyst")
        with monkeypatch.context() as patched:
            patched.setattr(questions, written, fail)
            failed = desk.ask(headers, **asked)
        assert failed.status_code == 500
        assert failed.json()["cost"] == pytest.approx(desk.vault.spent)
        assert failed.json()["cost"] > 0
        again = desk.ask(headers, **asked)
        assert (again.status_code, again.json()["cost"]) == (200, 0)


@pytest.mark.parametrize(("question", "written"), [(FAILS, "released"), ("month = 1", "counted_rows")])
def test_what_cannot_be_shown_has_its_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str, written: str
) -> None:
    monkeypatch.setattr(asking, written, fail)
    with office(tmp_path / "v") as desk:
        headers = {**desk.known("analyst"), "Content-Type": "application/x-www-form-urlencoded"}
        failed = desk.client.post("/page/ask", headers=headers, data={"question": question})
        assert failed.status_code == 500
        assert desk.vault.spent > 0
        assert failed.json()["cost"] == pytest.approx(desk.vault.spent)


@pytest.mark.parametrize(
    ("call", "written"), [(("sql", {"sql": FAILS}), "holding"), (("ask", {"queries": ["month = 1"]}), "plain_answer")]
)
def test_what_cannot_be_told_to_an_agent_has_its_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str, dict[str, Any]], written: str
) -> None:
    monkeypatch.setattr(tools, written, fail)
    with vault(tmp_path / "v") as opened:
        (told,) = conversation(server(VaultDesk(opened, share=1.0)), [call])
        assert "Charged: rho" in text(told)
        assert opened.spent > 0
        assert plain(told)["cost"] == pytest.approx(opened.spent)


def test_a_client_raises_the_error_with_its_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after_release(monkeypatch)
    with serving(vault(tmp_path / "v"), tmp_path / "v") as served, served.client("analyst") as client:
        with pytest.raises(tr.QueryError, match="Charged: rho") as failed:
            client.sql(FAILS)
        assert failed.value.bill is not None
        assert failed.value.bill.cost == pytest.approx(served.vault.spent)
        assert failed.value.bill.remaining == pytest.approx(served.vault.total - served.vault.spent)
        with pytest.raises(tr.QueryError) as again:
            client.sql(FAILS)
        assert again.value.bill is None
        (told,) = conversation(server(ServerDesk(client)), [("sql", {"sql": FAILS.replace("late", "origin")})])
        assert "Charged: rho" in text(told)


def test_an_agent_reads_what_was_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after_release(monkeypatch)
    with vault(tmp_path / "v") as opened:
        calls = [("sql", {"sql": FAILS}), ("sql", {"sql": FAILS}), ("sql", {"sql": SURE.replace("late", "month")})]
        first, again, sure = conversation(server(VaultDesk(opened, share=1.0)), calls)
        assert "Charged: rho" in text(first)
        assert "Nothing was charged" not in text(first)
        assert plain(first)["cost"] == pytest.approx(opened.spent)
        for free in (again, sure):
            assert "Nothing was charged." in text(free)
            assert "cost" not in plain(free)


def test_the_command_line_says_what_was_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after_release(monkeypatch)
    vault(tmp_path / "v").close()
    assert "Charged: rho" in refused(treering("ask", tmp_path / "v", "--sql", FAILS))
