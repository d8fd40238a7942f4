"""What surrounds every request; and OpenAPI."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from support.office import API, Office, office


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with office(tmp_path_factory.mktemp("app") / "v") as opened:
        yield opened


def test_every_response_has_a_name_and_safe_headers(desk: Office) -> None:
    one, other = desk.client.get("/health"), desk.client.get("/nothing")
    assert one.headers["x-request-id"] != other.headers["x-request-id"]
    for response in (one, other):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"


def test_the_log_names_who_did_what(desk: Office, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "treering.access"):
        told = desk.ask(desk.known("analyst"), query="month = 5").json()
        desk.client.get(f"{API}/tokens/../status")
    asked, refused = [json.loads(record.getMessage()) for record in caplog.records if record.name == "treering.access"]
    assert asked.keys() == {"time", "request", "token", "name", "role", "action", "status", "seconds", "cost"}
    assert (asked["action"], asked["status"], asked["cost"]) == (f"POST {API}/ask", 200, told["cost"])
    assert asked["token"] == desk.desk.register.tokens[0].id
    assert (refused["token"], refused["status"]) == (None, 401)
    assert "month = 5" not in caplog.text
    assert str(told["value"]) not in caplog.text


def test_openapi_is_whole(desk: Office) -> None:
    plain = desk.client.get(f"{API}/openapi.json").json()
    assert plain == desk.client.get(f"{API}/openapi.json").json()
    paths = plain["paths"]
    assert {f"{API}/{name}" for name in ("schema", "status", "events", "ask", "synthetic", "plan")} <= paths.keys()
    assert {f"{API}/{name}" for name in ("rows", "ledger", "tokens", "tokens/{id}", "refresh", "me")} <= paths.keys()
    assert {"/health", "/ready", "/metrics"} <= paths.keys()
    ask = paths[f"{API}/ask"]["post"]
    assert ask["requestBody"]["content"]["application/json"]["examples"].keys() >= {
        "predicate",
        "sql",
        "batch",
        "price",
    }
    assert ask["security"]
    assert set(ask["responses"]["429"]["content"]) == {"application/problem+json"}
    assert "HTTPValidationError" not in json.dumps(plain)
    assert set(paths[f"{API}/rows"]["post"]["requestBody"]["content"]) >= {"text/csv", "application/x-ndjson"}


def test_every_reference_of_openapi_leads_somewhere(desk: Office) -> None:
    plain = desk.client.get(f"{API}/openapi.json").json()
    found = {part.split('"')[0] for part in json.dumps(plain).split('"$ref": "#/components/schemas/')[1:]}
    assert found <= plain["components"]["schemas"].keys()
    assert "Problem" in found
