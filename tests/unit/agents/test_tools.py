"""The tools of an agent, called by the official client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from support.agents import ROWS, conversation, plain, table, text, within
from treering.agents import tools
from treering.agents.desk import VaultDesk
from treering.agents.tools import MOST_ROWS, MOST_TEXT, fitting, server

JFK = {"queries": ["origin = 'JFK'"]}


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[tr.Vault]:
    with table(tmp_path / "v") as opened:
        yield opened


def test_the_tools_say_what_they_are_for(vault: tr.Vault) -> None:
    listed = within(server(VaultDesk(vault)), lambda client: client.list_tools()).tools
    assert [tool.name for tool in listed] == ["schema", "status", "plan", "price", "ask", "sql"]
    assert all(tool.description and "\n   " not in tool.description for tool in listed)
    assert {tool.name for tool in listed if not tool.annotations.read_only_hint} == {"ask", "sql"}
    ask = next(tool.input_schema for tool in listed if tool.name == "ask")
    assert ask["required"] == ["queries"]
    assert all(each.get("description") for tool in listed for each in tool.input_schema["properties"].values())


def test_an_agent_learns_the_rules_when_it_connects(vault: tr.Vault) -> None:
    async def instructions(client: Any) -> str:
        return str(client.instructions)

    said = within(server(VaultDesk(vault)), instructions)
    assert "`price`" in said
    assert "`error`, which holds for all answers together, however chosen" in said


def test_an_answer_is_the_vaults_with_its_cost_and_what_is_left(vault: tr.Vault) -> None:
    (asked,) = conversation(server(VaultDesk(vault, answers=5, share=0.5)), [("ask", JFK)])
    same = vault.ask("origin = 'JFK'")
    (answer,) = plain(asked)["answers"]
    assert (answer["value"], answer["margin"], answer["error"]) == (same.value, same.margin, same.error)
    assert (answer["count"], answer["count_margin"], answer["count_error"]) == (
        same.count,
        same.count_margin,
        same.count_error,
    )
    budget = plain(asked)["budget"]
    assert plain(asked)["cost"] == pytest.approx(vault.spent)
    assert budget["quota_left"] == pytest.approx(vault.total / 2 - vault.spent)
    assert budget["answers_left"] == 4
    assert budget["promise_left"] == pytest.approx(vault.total - vault.spent)
    assert f"{same.count:,} rows ± {same.count_margin:,} of {ROWS:,}" in text(asked)
    assert "Left: rho " in text(asked)


def test_every_result_shows_the_budget(vault: tr.Vault) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("schema", {}),
        ("status", {}),
        ("plan", {}),
        ("price", JFK),
        ("ask", JFK),
        ("sql", {"sql": "SELECT month, COUNT(*) FROM t GROUP BY month"}),
        ("ask", {"queries": ["nothing = 1"]}),
    ]
    for result in conversation(server(VaultDesk(vault)), calls):
        assert plain(result)["budget"]["promise"] == vault.total
        assert "\nLeft: rho " in text(result)


def test_what_is_asked_again_is_free(vault: tr.Vault) -> None:
    first, again = conversation(server(VaultDesk(vault, answers=1)), [("ask", JFK), ("ask", JFK)])
    assert plain(first)["answers"] == plain(again)["answers"]
    assert (plain(first)["cost"] > 0, plain(again)["cost"]) == (True, 0)
    assert "Free." in text(again)


def test_a_price_is_what_is_charged_then(vault: tr.Vault) -> None:
    statement = {"sql": "SELECT month, COUNT(*) FROM t GROUP BY month", "within": 100}
    price, asked = conversation(server(VaultDesk(vault)), [("price", statement), ("sql", statement)])
    assert plain(price)["most"] == pytest.approx(plain(asked)["cost"])
    assert plain(price)["exact"]
    assert plain(price)["covered"]


def test_a_statement_gives_the_vaults_table(vault: tr.Vault) -> None:
    text_ = "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin ORDER BY n DESC LIMIT 2"
    (asked,) = conversation(server(VaultDesk(vault)), [("sql", {"sql": text_})])
    same: pa.Table = vault.sql(text_)
    assert plain(asked)["columns"] == same.column_names == ["origin", "n", "n_margin"]
    assert plain(asked)["rows"] == [list(row.values()) for row in same.to_pylist()]
    assert "all groups together, as some were chosen by their numbers" in plain(asked)["margins"]


def test_explain_says_what_asking_would_cost_and_not_that_it_is_free(vault: tr.Vault) -> None:
    statement = "SELECT month, COUNT(*) FROM t GROUP BY month"
    calls: list[tuple[str, dict[str, Any]]] = [("sql", {"sql": f"EXPLAIN {statement}"}), ("sql", {"sql": statement})]
    planned, asked = conversation(server(VaultDesk(vault)), calls)
    assert "Free" not in text(planned)
    assert "Nothing was asked or charged: asking would cost rho " in text(planned)
    assert plain(asked)["cost"] > 0


def test_past_the_quota_an_agent_is_refused_and_told_what_would_do(vault: tr.Vault) -> None:
    desk = VaultDesk(vault, share=0.05)
    sharp = {"queries": ["month = 3"], "within": 20}
    first, refused = conversation(server(desk), [("ask", JFK), ("ask", sharp)])
    spent = vault.spent
    assert not first.is_error
    assert refused.is_error
    assert plain(refused)["error"] == "quota_exceeded"
    assert "Nothing was charged." in text(refused)
    assert plain(refused)["free"] == [{"attributes": ["origin"], "margin": pytest.approx(57, abs=2)}]
    suggested = int(text(refused).split("within=")[1].split(" ")[0])
    assert vault.spent == spent
    (paid,) = conversation(server(desk), [("ask", {**sharp, "within": suggested})])
    assert not paid.is_error


def test_past_the_number_of_answers_what_is_known_stays_free(vault: tr.Vault) -> None:
    by_month = {"sql": "SELECT month, COUNT(*) FROM t GROUP BY month"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("sql", by_month),
        ("ask", JFK),
        ("sql", by_month),
        ("ask", {"queries": ["month <= 6"], "within": 500}),
    ]
    _, refused, again, coarser = conversation(server(VaultDesk(vault, answers=1)), calls)
    assert plain(refused)["error"] == "quota_exceeded"
    assert "it needs 1 paid answer, and 0 are left" in text(refused)
    assert (again.is_error, plain(again)["cost"]) == (False, 0)
    assert (coarser.is_error, plain(coarser)["cost"]) == (False, 0)


def test_an_agent_that_never_stops_spends_its_quota_and_no_more(vault: tr.Vault) -> None:
    desk = VaultDesk(vault, share=0.1)
    sharper = [("ask", {"queries": ["month = 3 AND late = 'yes'"], "within": 200 - 10 * step}) for step in range(19)]
    results = conversation(server(desk), [*sharper, *sharper])
    assert 2 < sum(not result.is_error for result in results) < len(results)
    assert vault.spent <= 0.1 * vault.total * (1 + 1e-9)
    assert sum(plain(result).get("cost", 0.0) for result in results) == pytest.approx(vault.spent)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("ask", {"queries": ["orgin = 'JFK'"]}, "did you mean origin?"),
        ("ask", {"queries": ["month >"]}, "A predicate that is right: origin = 'EWR'"),
        ("ask", {"queries": ["origin = 'XX'"]}, "it has the categories 'EWR', 'JFK', 'LGA'"),
        ("ask", {"queries": []}, "ask takes queries, within"),
        ("ask", {"queries": ["TRUE"] * 101}, "at most 100 items"),
        ("ask", {"queries": "origin = 'JFK'"}, "valid list"),
        ("ask", {}, "ask takes queries, within. queries: Field required"),
        ("ask", {**JFK, "within": 0}, "within: Input should be greater than 0"),
        ("ask", {**JFK, "within": "sharp"}, "within: Input should be a valid number"),
        ("ask", {**JFK, "margin": 100}, "ask takes queries, within; it does not know margin"),
        ("sql", {"sql": "SELECT * FROM t"}, "rows are private"),
        ("sql", {"sql": "DROP TABLE t"}, "The attributes are origin, month, late"),
        ("price", {}, "price one thing"),
        ("price", {**JFK, "sql": "SELECT 1"}, "price one thing"),
        ("plan", {"queries": -1}, "greater than 0"),
        ("rows", {}, "there is no tool 'rows'; there are schema, status, plan, price, ask, sql"),
    ],
)
def test_a_mistake_is_explained_and_costs_nothing(
    vault: tr.Vault, name: str, arguments: dict[str, Any], words: str
) -> None:
    (result,) = conversation(server(VaultDesk(vault)), [(name, arguments)])
    assert result.is_error
    assert words in text(result)
    assert "pydantic" not in text(result)
    assert plain(result)["error"] in {"query_error", "parameter_error", "bad_call"}
    assert vault.spent == 0


def test_the_promise_is_refused_as_a_quota_is(tmp_path: Path) -> None:
    with table(tmp_path / "v") as vault:
        (refused,) = conversation(server(VaultDesk(vault)), [("ask", {"queries": ["month = 3"], "within": 2})])
        assert plain(refused)["error"] == "budget_exceeded"
        assert "The same with within=20 rows would be covered." in text(refused)


def test_what_a_batch_released_before_it_failed_is_told(tmp_path: Path) -> None:
    """A PMWG answers easy questions until a hard one needs more than is left."""
    with table(tmp_path / "v", mechanism="pmwg", epsilon=2.0, alpha=0.2) as vault:
        desk = VaultDesk(vault)

        def broken_off(*_: object) -> list[tr.Answer]:
            error = tr.Halted("no more")
            error.answers = (tr.Answer(0.5, 0.1, ROWS, "easy"),)
            raise error

        desk._vault = Interrupted(vault, broken_off)
        (refused,) = conversation(server(desk), [("ask", {"queries": ["month = 1", "month = 2"]})])
    assert plain(refused)["answers"][0]["value"] == 0.5
    assert [each["query"] for each in plain(refused)["answers"]] == ["month = 1"]
    assert "Nothing else was charged." in text(refused)


def test_an_unexpected_error_is_not_shown(vault: tr.Vault, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object) -> list[tr.Answer]:
        raise RuntimeError("the value 4711 of a row")

    desk = VaultDesk(vault)
    desk._vault = Interrupted(vault, fails)
    (result,) = conversation(server(desk), [("ask", JFK)])
    assert result.is_error
    assert "4711" not in str(result)
    assert "4711" not in caplog.text


class Interrupted:
    """A vault that asks in another way."""

    def __init__(self, vault: tr.Vault, ask_many: Any) -> None:
        self._vault = vault
        self.ask_many = ask_many

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vault, name)


def test_long_tables_and_texts_are_cut_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = tr.Schema({"place": tr.categories(*(f"place number {number}" for number in range(2000)))})
    with tr.Vault.create(tmp_path / "v", schema, 1.0, 1e-6) as vault:
        vault.append([{"place": "place number 7"}] * 1000)
        desk = VaultDesk(vault)
        everything = {"sql": "SELECT place, COUNT(*) FROM t GROUP BY place"}
        described, released = conversation(server(desk), [("schema", {}), ("sql", everything)])
        assert len(plain(released)["rows"]) == MOST_ROWS
        assert plain(released)["all_rows"] == 2000
        assert f"the first {MOST_ROWS:,} of 2,000 rows" in text(released)
        assert plain(described)["attributes"][0]["size"] == 2000
        assert len(plain(described)["attributes"][0]["values"]) == tools.MOST_VALUES
        assert all(len(text(each)) < MOST_TEXT + 500 for each in (described, released))
        monkeypatch.setattr(tools, "MOST_TEXT", 100)
        (shorter,) = conversation(server(desk), [("sql", everything)])
        assert "(cut: " in text(shorter)
        assert len(text(shorter)) < 500


def test_a_vault_without_rows_says_so(tmp_path: Path) -> None:
    with table(tmp_path / "v", rows=0) as vault:
        calls: list[tuple[str, dict[str, Any]]] = [("status", {}), ("plan", {}), ("ask", JFK)]
        status, planned, asked = conversation(server(VaultDesk(vault)), calls)
    assert "0 rows" in text(status)
    assert not planned.is_error
    assert plain(asked)["error"] != "unexpected" if asked.is_error else plain(asked)["answers"]


def test_the_margin_that_fits_is_the_smallest() -> None:
    assert fitting(lambda within: 100 / within**2, 1.0, 1000) == 10
    assert fitting(lambda within: 100 / within**2, 0.99, 1000) == 20
    assert fitting(lambda within: 100 / within**2, 1e-9, 1000) is None
    assert fitting(lambda within: 0.0 if within >= 500 else 1.0, 0.0, 1000) == 500
    assert fitting(lambda within: 0.0 * within, 0.0, 0) is None
