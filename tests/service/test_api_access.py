"""Every endpoint, with every kind of token and with none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.office import API, Office, bearer, office

OPEN = [("GET", "/health"), ("GET", "/ready"), ("GET", f"{API}/openapi.json")]
ANALYSTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", f"{API}/schema", {}),
    ("GET", f"{API}/status", {}),
    ("GET", f"{API}/me", {}),
    ("POST", f"{API}/ask", {"json": {"query": "late = 'yes'"}}),
    ("POST", f"{API}/ask", {"json": {"queries": ["late = 'yes'"], "dry_run": True}}),
    ("POST", f"{API}/ask", {"json": {"sql": "SELECT month, COUNT(*) FROM t GROUP BY month"}}),
    ("GET", f"{API}/synthetic?rows=3&mechanism=pmwg", {}),
    ("POST", f"{API}/plan", {"json": {}}),
    ("GET", "/metrics", {}),
]
STEWARDS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", f"{API}/rows", {"content": b"origin,month,late\nJFK,1,no\n", "headers": {"Content-Type": "text/csv"}}),
    ("POST", f"{API}/refresh", {}),
    ("POST", f"{API}/refine", {"json": {"until": {"day": "2040-12-31"}}}),
    ("POST", f"{API}/discover", {"json": {"column": "origin"}}),
    ("GET", f"{API}/ledger", {}),
    ("POST", f"{API}/tokens", {"json": {"name": "ada"}}),
    ("GET", f"{API}/tokens", {}),
    ("DELETE", f"{API}/tokens/nobody", {}),
]
STATES = {
    "none": "token_missing",
    "wrong": "token_unknown",
    "expired": "token_expired",
    "revoked": "token_revoked",
    "basic": "token_missing",
    "ended": "session_ended",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with office(tmp_path_factory.mktemp("access") / "v") as opened:
        opened.vault.add("pmwg", 0.4, alpha=0.2)
        opened.vault.ask("late = 'yes'", mechanism="pmwg")
        yield opened


def send(desk: Office, request: tuple[str, str, dict[str, Any]], headers: dict[str, str]) -> Any:
    method, path, options = request
    both = {**options.get("headers", {}), **headers}
    return desk.client.request(method, path, **{**options, "headers": both})


def header(desk: Office, state: str, role: str) -> dict[str, str]:
    """What a caller sends whose token is in this state."""
    if state == "none":
        return {}
    if state == "wrong":
        return bearer("treering_" + "A" * 43)
    if state == "basic":
        return {"Authorization": "Basic dTpw"}
    if state == "ended":
        return {"Cookie": "treering_session=gone"}
    token, text = desk.token(role, lifetime=1.0 if state == "expired" else None)
    if state == "revoked":
        desk.desk.register.revoke(token.id)
    return bearer(text)


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_what_is_open_needs_no_token(desk: Office, method: str, path: str) -> None:
    assert desk.client.request(method, path).status_code == 200


@pytest.mark.parametrize("request_", [*ANALYSTS, *STEWARDS], ids=lambda each: f"{each[0]} {each[1]}")
@pytest.mark.parametrize("state", [state for state in STATES if state != "expired"])
@pytest.mark.parametrize("role", ["analyst", "steward"])
def test_a_token_that_is_not_accepted_is_refused(desk: Office, request_: Any, state: str, role: str) -> None:
    before = desk.vault.status()
    response = send(desk, request_, header(desk, state, role))
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.json()["code"] == STATES[state]
    assert desk.vault.status() == before


def test_an_expired_token_is_refused_everywhere(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = [header(desk, "expired", role) for role in ("analyst", "steward")]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2)
    for each in headers:
        for request in (*ANALYSTS, *STEWARDS):
            response = send(desk, request, each)
            assert (response.status_code, response.json()["code"]) == (401, "token_expired")


@pytest.mark.parametrize("request_", ANALYSTS, ids=lambda each: f"{each[0]} {each[1]}")
@pytest.mark.parametrize("role", ["analyst", "steward"])
def test_both_roles_may_ask(desk: Office, request_: Any, role: str) -> None:
    assert send(desk, request_, desk.known(role)).status_code == 200


@pytest.mark.parametrize("request_", STEWARDS, ids=lambda each: f"{each[0]} {each[1]}")
def test_only_stewards_may_do_what_stewards_do(desk: Office, request_: Any) -> None:
    before = desk.vault.size, len(desk.desk.register.tokens)
    refused = send(desk, request_, desk.known("analyst"))
    assert (refused.status_code, refused.json()["code"]) == (403, "stewards_only")
    assert (desk.vault.size, len(desk.desk.register.tokens)) in (before, (before[0], before[1] + 1))
    assert send(desk, request_, desk.known("steward")).status_code in (200, 201, 404, 409, 422)


@pytest.mark.parametrize("request_", ANALYSTS, ids=lambda each: f"{each[0]} {each[1]}")
def test_a_used_up_quota_refuses_what_costs_and_nothing_else(desk: Office, request_: Any) -> None:
    """All questions of the list were answered before, or are: free."""
    send(desk, request_, desk.known("steward"))
    assert send(desk, request_, desk.bearer(answers=0)).status_code == 200


def test_a_used_up_quota_refuses_a_new_question(desk: Office) -> None:
    headers = desk.bearer(answers=0)
    before = desk.vault.status()
    for body in ({"query": "month = 7 AND origin = 'LGA'"}, {"sql": "SELECT origin, COUNT(*) FROM t GROUP BY origin"}):
        response = desk.ask(headers, **body)
        assert (response.status_code, response.json()["code"]) == (429, "quota_exceeded")
        assert int(response.headers["retry-after"]) > 0
        assert response.json()["unit"] == "answers"
    assert desk.vault.status() == before


def test_events_need_a_token(desk: Office) -> None:
    assert desk.client.get(f"{API}/events").status_code == 401


# -- the page's sessions -----------------------------------------------------------------------------------------------

OURS = {"Sec-Fetch-Site": "same-origin"}


def logged_in(desk: Office, role: str = "steward") -> dict[str, str]:
    """The header with the cookie of a new session."""
    response = desk.client.post("/login", json={"token": desk.token(role)[1]}, headers=OURS)
    assert response.status_code == 200
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    desk.client.cookies.clear()
    return {"Cookie": cookie.split(";")[0]}


def test_a_session_has_its_tokens_rights(desk: Office) -> None:
    session = logged_in(desk)
    assert desk.client.get(f"{API}/me", headers=session).json()["role"] == "steward"
    assert desk.client.post(f"{API}/tokens", json={"name": "x"}, headers={**session, **OURS}).status_code == 201


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"}, 403),
        ({"Origin": "http" + "://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http" + "://[broken"}, 403),
        ({"Origin": "http://testserver"}, 201),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
    ],
)
def test_another_sites_page_cannot_use_a_session(desk: Office, headers: dict[str, str], status: int) -> None:
    response = desk.client.post(f"{API}/tokens", json={"name": "x"}, headers={**logged_in(desk), **headers})
    assert response.status_code == status
    assert desk.client.get(f"{API}/me", headers={**logged_in(desk), **headers}).status_code == 200


def test_a_token_in_the_header_needs_no_origin(desk: Office) -> None:
    headers = {**desk.known("steward"), "Origin": "http" + "://elsewhere.example"}
    assert desk.client.post(f"{API}/tokens", json={"name": "x"}, headers=headers).status_code == 201


def test_logging_out_ends_the_session(desk: Office) -> None:
    session = logged_in(desk)
    assert desk.client.post("/logout", headers=session).status_code == 403
    assert desk.client.post("/logout", headers={**session, **OURS}).status_code == 204
    assert desk.client.get(f"{API}/me", headers=session).json()["code"] == "session_ended"


def test_revoking_a_token_ends_its_sessions(desk: Office) -> None:
    session = logged_in(desk, "analyst")
    mine = desk.client.get(f"{API}/me", headers=session).json()["id"]
    assert desk.client.delete(f"{API}/tokens/{mine}", headers=desk.known("steward")).status_code == 204
    assert desk.client.get(f"{API}/me", headers=session).json()["code"] == "token_revoked"


@pytest.mark.parametrize("token", ["", "treering_no", "x" * 201, 7, None])
def test_login_refuses_what_is_no_token(desk: Office, token: object) -> None:
    response = desk.client.post("/login", json={"token": token}, headers=OURS)
    assert response.status_code in (401, 422)
    assert "set-cookie" not in response.headers


def test_cookies_are_secure_under_tls(tmp_path: Path) -> None:
    with office(tmp_path / "v", secure=True) as desk:
        response = desk.client.post("/login", json={"token": desk.token()[1]}, headers=OURS)
        assert "secure" in response.headers["set-cookie"].lower()
