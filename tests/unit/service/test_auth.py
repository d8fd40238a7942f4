from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest

from treering.errors import ParameterError
from treering.service.auth import (
    SESSION,
    Caller,
    Quota,
    Sessions,
    Token,
    bearer,
    check_origin,
    new_token,
)
from treering.service.problems import Problem


def test_a_token_is_256_random_bits_and_kept_as_a_hash() -> None:
    made = [new_token("ada", "analyst", None, Quota()) for _ in range(20)]
    assert len({text for _, text in made}) == len({token.id for token, _ in made}) == 20
    for token, text in made:
        assert len(text) == len("treering_") + 43
        assert token.digest == hashlib.sha256(text.encode()).hexdigest()
        assert text not in str(token.to_dict())


def test_a_token_survives_its_plain_form() -> None:
    token, _ = new_token("ada", "analyst", 60.0, Quota(5, 0.25))
    assert Token.from_dict(token.to_dict()) == token


@pytest.mark.parametrize(
    ("name", "role", "lifetime", "quota", "parameter"),
    [
        ("", "analyst", None, Quota(), "name"),
        ("a\n", "analyst", None, Quota(), "name"),
        ("a" * 101, "analyst", None, Quota(), "name"),
        ("a", "owner", None, Quota(), "role"),
        ("a", "analyst", 0.5, Quota(), "lifetime"),
        ("a", "analyst", float("nan"), Quota(), "lifetime"),
        ("a", "analyst", 1e12, Quota(), "lifetime"),
        ("a", "steward", None, Quota(3), "quota"),
    ],
)
def test_bad_tokens_are_refused(name: str, role: str, lifetime: float | None, quota: Quota, parameter: str) -> None:
    with pytest.raises(ParameterError) as error:
        new_token(name, role, lifetime, quota)
    assert error.value.parameter == parameter


@pytest.mark.parametrize("quota", [{"answers": -1}, {"answers": 1.5}, {"budget": 0}, {"budget": 1.1}, {"budget": -0.1}])
def test_bad_quotas_are_refused(quota: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Quota(**quota)


def test_a_whole_budget_and_no_answers_are_quotas() -> None:
    assert Quota(budget=1).limited
    assert Quota(answers=0).limited
    assert not Quota().limited


def test_a_token_is_accepted_until_it_expires_or_is_revoked() -> None:
    token = Token("i", "ada", "analyst", "d", 0.0, expires=100.0)
    assert token.problem(99.9) is None
    expired = token.problem(100.0)
    assert expired is not None
    assert (expired.status_code, expired.code) == (401, "token_expired")
    revoked = Token("i", "ada", "analyst", "d", 0.0, expires=100.0, revoked=1.0).problem(200.0)
    assert revoked is not None
    assert revoked.code == "token_revoked"


def test_sessions_begin_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    token, _ = new_token("ada", "analyst", None, Quota())
    sessions = Sessions()
    one, other = sessions.begin(token), sessions.begin(token)
    assert sessions.token_of(one) == sessions.token_of(other) == token.id
    sessions.end(one)
    sessions.end("never begun")
    assert (sessions.token_of(one), sessions.token_of(other)) == (None, token.id)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + SESSION + 1)
    assert sessions.token_of(other) is None


def test_sessions_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.service.auth.MOST_SESSIONS", 3)
    token, _ = new_token("ada", "analyst", None, Quota())
    sessions = Sessions()
    begun = [sessions.begin(token) for _ in range(5)]
    assert [sessions.token_of(each) is not None for each in begun] == [False, False, True, True, True]


def test_a_caller_knows_its_role() -> None:
    assert Caller(Token("i", "a", "steward", "d", 0.0)).steward
    assert not Caller(Token("i", "a", "analyst", "d", 0.0)).steward


@pytest.mark.parametrize(("header", "text"), [("Bearer abc", "abc"), ("bearer  abc ", "abc")])
def test_the_bearers_token(header: str, text: str) -> None:
    assert bearer({"authorization": header}) == text
    assert bearer({}) is None


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "abc"])
def test_another_header_is_no_token(header: str) -> None:
    with pytest.raises(Problem) as problem:
        bearer({"authorization": header})
    assert problem.value.code == "token_missing"


def test_looking_needs_no_origin() -> None:
    check_origin("GET", {"sec-fetch-site": "cross-site"})
    with pytest.raises(Problem):
        check_origin("DELETE", {"sec-fetch-site": "cross-site"})
