"""Asking over HTTP: the same answers as the vault's, in every form, and refusals with stable codes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import treering as tr
from support.office import API, SCHEMA, Office, office
from treering.service.wire import ARROW, CSV, PARQUET, answer_of

ONE = Fraction(1)
MONTHS = "SELECT month, COUNT(*) AS flights FROM t GROUP BY month"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with office(tmp_path_factory.mktemp("questions") / "v") as opened:
        yield opened


def test_an_answer_is_the_vaults(desk: Office) -> None:
    told = desk.ask(desk.known("analyst"), query="origin = 'JFK' and late='no'").json()
    assert told["question"] == "origin = 'JFK' AND late = 'no'"
    assert told["cost"] > 0
    answer = desk.vault.ask("origin = 'JFK' AND late = 'no'")
    assert answer_of(told) == answer
    assert (told["count"], told["count_margin"], told["count_error"]) == (
        *(answer.count, answer.count_margin, answer.count_error),
    )
    again = desk.ask(desk.known("analyst"), query="origin = 'JFK' AND late = 'no'").json()
    assert again["cost"] == 0
    assert again["remaining"] == told["remaining"] == pytest.approx(desk.vault.total - desk.vault.spent)


def test_a_batch_is_paid_for_together(desk: Office) -> None:
    texts = ["month = 1", "month <= 6", "late = 'no'"]
    told = desk.ask(desk.known("analyst"), queries=texts).json()
    assert [answer_of(each) for each in told["answers"]] == desk.vault.ask_many(texts)


def test_what_there_is_to_ask_about_is_free(desk: Office) -> None:
    headers = desk.known("analyst")
    for text, rows in (("SHOW TABLES", [["v"]]), ("SELECT 1 AS one", [[1]])):
        told = desk.ask(headers, sql=text).json()
        assert (told["rows"], told["cost"]) == (rows, 0)
    columns = desk.ask(headers, sql="SELECT column_name FROM information_schema.columns ORDER BY ordinal_position")
    assert columns.json()["rows"] == [[name] for name in SCHEMA.names]
    refused = desk.ask(headers, sql="SELECT COUNT(*) FROM vv")
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_query")
    assert "did you mean v?" in refused.json()["detail"]


def test_a_price_is_what_is_then_paid(desk: Office) -> None:
    headers, body = desk.known("analyst"), {"queries": ["month = 3 AND late = 'yes'"]}
    price = desk.ask(headers, dry_run=True, **body).json()
    assert desk.vault.price_many(body["queries"])._asdict() == {
        name: price[name] for name in ("mechanism", "most", "remaining", "unit", "enough", "exact")
    }
    assert desk.ask(headers, **body).json()["cost"] == pytest.approx(price["most"], rel=1e-9)
    assert desk.ask(headers, dry_run=True, sql=MONTHS).json()["exact"]


def test_within_pays_for_no_more(desk: Office) -> None:
    rough = desk.ask(desk.known("analyst"), query="month = 9 AND origin = 'EWR'", within=0.4, dry_run=True).json()
    sharp = desk.ask(desk.known("analyst"), query="month = 9 AND origin = 'EWR'", within=0.03, dry_run=True).json()
    assert rough["most"] < sharp["most"]


def test_a_statement_in_every_form(desk: Office) -> None:
    headers = desk.known("analyst")
    told = desk.ask(headers, sql=MONTHS).json()
    table = desk.vault.sql(MONTHS)
    assert told["columns"] == table.column_names == ["month", "flights", "flights_margin"]
    assert told["rows"] == [list(row.values()) for row in table.to_pylist()]
    assert told["margins"] == "each number alone"
    assert told["size"] == desk.vault.size
    response = desk.ask({**headers, "Accept": ARROW}, sql=MONTHS)
    with pa.ipc.open_stream(response.content) as stream:
        assert stream.read_all().equals(table, check_metadata=True)
    assert float(response.headers["treering-cost"]) == 0
    assert float(response.headers["treering-remaining"]) == told["remaining"]
    assert response.headers["treering-unit"] == "rho"
    assert int(response.headers["treering-size"]) == desk.vault.size
    assert json.loads(response.headers["treering-quota"]) is None
    response = desk.ask({**headers, "Accept": f"text/html, {CSV};q=0.5, {ARROW};q=0.1"}, sql=MONTHS)
    assert response.headers["content-type"].startswith(CSV)
    assert csv.read_csv(io.BytesIO(response.content)).column("flights").to_pylist() == table["flights"].to_pylist()


def test_explaining_releases_nothing(desk: Office) -> None:
    before = desk.vault.status()
    told = desk.ask(desk.known("analyst"), sql="EXPLAIN SELECT origin, late, COUNT(*) FROM t GROUP BY 1, 2").json()
    assert told["columns"][0] == "released"
    assert told["margins"] is None
    assert told["remaining"] == pytest.approx(before["remaining"])
    assert desk.vault.status() == before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_request"),
        ({"query": "late = 'yes'", "sql": MONTHS}, 422, "invalid_request"),
        ({"query": ""}, 422, "invalid_request"),
        ({"query": 7}, 422, "invalid_request"),
        ({"query": "late = 'yes'", "more": 1}, 422, "invalid_request"),
        ({"queries": []}, 422, "invalid_request"),
        ({"queries": ["late = 'yes'", None]}, 422, "invalid_request"),
        ({"query": "late = 'yes'", "within": 0}, 422, "invalid_request"),
        ({"query": "late = 'yes'", "within": "1"}, 422, "invalid_request"),
        ({"query": "late = 'yes'", "dry_run": "yes"}, 422, "invalid_request"),
        ({"query": "x" * 200_001}, 422, "invalid_request"),
        ({"query": "late ="}, 422, "bad_query"),
        ({"query": "nobody = 1"}, 422, "bad_query"),
        ({"query": "late = 'yes'", "mechanism": "nobody"}, 422, "bad_parameter"),
        ({"queries": ["late = 'yes'"] * 1001}, 422, "too_many_queries"),
        ({"sql": "DROP TABLE t"}, 422, "bad_query"),
        ({"sql": "SELECT * FROM t"}, 422, "bad_query"),
        ({"sql": "SELECT COUNT(*) FROM read_csv('/etc/passwd')"}, 422, "bad_query"),
        ({"query": "late = 'yes'", "within": 1e-12}, 402, "budget_exceeded"),
    ],
)
def test_bad_questions_have_codes_and_cost_nothing(desk: Office, body: Any, status: int, code: str) -> None:
    before = desk.vault.status()
    response = desk.ask(desk.known("analyst"), **body)
    told = response.json()
    assert (response.status_code, told["code"]) == (status, code)
    assert told["type"] == f"urn:treering:problem:{code}"
    assert told["status"] == status
    assert told["detail"]
    assert desk.vault.status() == before


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"\xff\xfe", 400), (b"[]", 422), (b"null", 422), (b"NaN", 422), (b"", 422), (b"[" * 100_000, 400)],
)
def test_a_body_that_is_no_question(desk: Office, content: bytes, status: int) -> None:
    headers = {**desk.known("analyst"), "Content-Type": "application/json"}
    response = desk.client.post(f"{API}/ask", headers=headers, content=content)
    assert (response.status_code, response.json()["code"]) == (status, "invalid_request")


def test_what_is_not_acceptable(desk: Office) -> None:
    headers = desk.known("analyst")
    assert desk.ask({**headers, "Accept": "image/png"}, sql=MONTHS).json()["code"] == "not_acceptable"
    assert desk.ask({**headers, "Accept": CSV}, query="late = 'yes'").status_code == 406
    assert (
        desk.client.get(f"{API}/synthetic?rows=1", headers={**headers, "Accept": "application/json"}).status_code == 406
    )


def test_a_large_body_is_refused(desk: Office) -> None:
    response = desk.ask(desk.known("analyst"), queries=["late = 'yes'" + " " * 3000] * 999)
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


def test_what_is_not_there(desk: Office) -> None:
    assert desk.client.get(f"{API}/nothing").json()["code"] == "not_found"
    assert desk.client.put(f"{API}/ask").json()["code"] == "method_not_allowed"


# -- idempotency -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"query": "month = 11"}, {"queries": ["month = 12", "month = 10"]}, {"sql": MONTHS}])
def test_a_key_gives_the_recorded_answer_even_when_rows_have_come(tmp_path: Any, body: dict[str, Any]) -> None:
    with office(tmp_path / "v") as desk:
        headers = {**desk.known("analyst"), "Idempotency-Key": "monday"}
        first = desk.ask(headers, **body).json()
        assert first["cost"] > 0
        desk.vault.append([{"origin": "JFK", "month": 11, "late": "no"}] * 500)
        spent = desk.vault.spent
        again = desk.ask(headers, **body).json()
        assert again["cost"] == 0
        assert desk.vault.spent == spent
        costs = {"cost", "remaining", "settled", "quota"}
        assert {name: first[name] for name in first.keys() - costs} == {
            name: again[name] for name in again.keys() - costs
        }
        other = desk.ask(headers, query="late = 'no'")
        assert (other.status_code, other.json()["code"]) == (409, "key_reused")
        assert "monday" not in other.text
        mine = {**desk.bearer(), "Idempotency-Key": "monday"}
        assert desk.ask(mine, query="late = 'no'").status_code == 200, "another token's key is another key"


@pytest.mark.parametrize("key", ["k" * 151, "\x07"])
def test_a_bad_key_is_refused(desk: Office, key: str) -> None:
    response = desk.ask({**desk.known("analyst"), "Idempotency-Key": key}, query="late = 'yes'")
    assert response.status_code == 422


# -- what else is public -----------------------------------------------------------------------------------------------


def test_the_schema_makes_the_schema(desk: Office) -> None:
    told = desk.client.get(f"{API}/schema", headers=desk.known("analyst")).json()
    assert tr.Schema.from_dict(told["schema"]) == SCHEMA
    assert told["fingerprint"] == SCHEMA.fingerprint
    assert [each["name"] for each in told["attributes"]] == ["origin", "month", "late"]
    assert told["attributes"][2]["labels"] == ["no", "yes"]


def test_the_status_is_the_vaults(desk: Office) -> None:
    told = desk.client.get(f"{API}/status", headers=desk.known("analyst")).json()
    assert {name: told[name] for name in ("size", "spent", "head", "entries")} == {
        name: desk.vault.status()[name] for name in ("size", "spent", "head", "entries")
    }
    assert told["settled"] is False


@pytest.mark.parametrize(
    "body", [{}, {"alpha": 0.05}, {"size": 1000, "alpha": 0.1}, {"epsilon": 2.0, "alpha": 0.1}, {"grows": False}]
)
def test_plans(desk: Office, body: dict[str, Any]) -> None:
    told = desk.client.post(f"{API}/plan", headers=desk.known("analyst"), json=body).json()
    assert told["cells"] == SCHEMA.cells
    assert told["rows"]


def test_a_plan_that_cannot_be(desk: Office) -> None:
    body = {"size": 10, "epsilon": 1.0, "alpha": 0.1}
    response = desk.client.post(f"{API}/plan", headers=desk.known("analyst"), json=body)
    assert (response.status_code, response.json()["code"]) == (422, "bad_parameter")


def test_synthetic_rows_in_every_form(desk: Office) -> None:
    desk.vault.add("pmwg", 0.3, alpha=0.3)
    desk.vault.ask("late = 'yes'", mechanism="pmwg")
    path, headers = f"{API}/synthetic?rows=20&mechanism=pmwg&seed=7", desk.known("analyst")
    with pa.ipc.open_stream(desk.client.get(path, headers=headers).content) as stream:
        table = stream.read_all()
    assert (table.num_rows, table.column_names) == (20, ["origin", "month", "late"])
    told = desk.client.get(path, headers={**headers, "Accept": PARQUET}).content
    assert parquet.read_table(io.BytesIO(told)).to_pylist() == table.to_pylist()
    told = desk.client.get(path, headers={**headers, "Accept": CSV}).content
    assert csv.read_csv(io.BytesIO(told)).to_pylist() == table.to_pylist()
    response = desk.client.get(f"{API}/synthetic?rows=1000001", headers=headers)
    assert response.json()["code"] == "too_many_rows"


def test_the_ledger_in_pages(desk: Office) -> None:
    headers = desk.known("steward")
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = desk.client.get(f"{API}/ledger?after={after}&limit=3", headers=headers).json()
        assert len(page["lines"]) <= 3
        found, after = found + page["lines"], page["next"]
    assert found == list(desk.vault.ledger())
    tail = desk.client.get(f"{API}/ledger?tail=true&limit=2", headers=headers).json()
    assert tail["lines"] == found[-2:]
    assert tail["entries"] == found[-1]["seq"]


def test_metrics_are_prometheus(desk: Office) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    text = desk.client.get("/metrics", headers=desk.known("analyst")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["treering_rows"].samples[0].value == desk.vault.size
    assert families["treering_budget_spent"].samples[0].value == pytest.approx(desk.vault.spent)
    assert {sample.labels["kind"] for sample in families["treering_answers"].samples} >= {"measured", "sql"}
    assert families["treering_request_seconds"].type == "histogram"


def test_a_batch_that_fails_on_the_way_keeps_what_was_paid_for(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    given = desk.vault.ask_many(["late = 'no'"])

    def fails(*_: object, **__: object) -> list[tr.Answer]:
        error = tr.Halted("no more")
        error.answers = tuple(given)
        raise error

    monkeypatch.setattr(tr.Vault, "ask_many", fails)
    response = desk.ask(desk.known("analyst"), queries=["late = 'no'", "late = 'yes'"])
    assert (response.status_code, response.json()["code"]) == (409, "halted")
    assert [answer_of(each) for each in response.json()["answers"]] == given


def test_an_unexpected_error_says_nothing(
    desk: Office, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> list[tr.Answer]:
        raise RuntimeError("the canary 8731")

    monkeypatch.setattr(tr.Vault, "ask_many", fails)
    response = desk.ask(desk.known("analyst"), query="late = 'no'")
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert "8731" not in response.text + caplog.text
    assert "RuntimeError" in caplog.text
    assert response.headers["x-request-id"] in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (tr.BudgetExceeded("rho", spent=ONE, requested=ONE, total=ONE), 402, "budget_exceeded"),
        (tr.GuaranteeError("too few rows"), 409, "no_guarantee"),
        (tr.VaultError("cannot write: the disk is full"), 507, "disk_full"),
        (tr.VaultError("closed"), 503, "vault_unavailable"),
        (tr.DamagedVault("bad"), 500, "vault_damaged"),
        (tr.EngineError("down"), 502, "engine_failed"),
    ],
)
def test_errors_have_codes(
    desk: Office, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    def fails(*_: object, **__: object) -> list[tr.Answer]:
        raise error

    monkeypatch.setattr(tr.Vault, "ask_many", fails)
    response = desk.ask(desk.known("analyst"), query="late = 'no'")
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert ("retry-after" in response.headers) == (status == 503)
