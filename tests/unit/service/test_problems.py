from __future__ import annotations

import json
import math

from starlette.exceptions import HTTPException

from treering.errors import DataError, Dearer, KeyUsed, ParameterError, TreeringError, VaultBusy
from treering.service.problems import Problem, body_of, problem_of, response_of


def test_a_problem_has_a_stable_form() -> None:
    response = response_of(Problem(429, "quota_exceeded", "no more", {"Retry-After": "3"}, left=math.inf, price=1))
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["retry-after"] == "3"
    assert json.loads(bytes(response.body)) == {
        "type": "urn:treering:problem:quota_exceeded",
        "title": "Too many",
        "status": 429,
        "code": "quota_exceeded",
        "detail": "no more",
        "left": None,
        "price": 1,
    }


def test_errors_carry_what_a_program_wants_to_know() -> None:
    assert problem_of(DataError("x", row=3, column="late")).more == {"row": 3, "column": "late"}
    assert problem_of(ParameterError("within", "must be")).more == {"parameter": "within"}
    assert problem_of(Dearer("rho", 2.0, 1.0)).code == "price_changed"
    assert problem_of(VaultBusy("x")).headers == {"Retry-After": "5"}


def test_a_reused_key_is_not_quoted() -> None:
    problem = problem_of(KeyUsed("id:mine", "rows"))
    assert (problem.status_code, problem.code) == (409, "key_reused")
    assert "mine" not in str(problem.detail)


def test_notes_are_kept_and_unexpected_words_are_not() -> None:
    error = ParameterError("a", "b")
    error.add_note("And c.")
    assert problem_of(error).detail == "a b And c."
    assert "secret" not in json.dumps(body_of(problem_of(ValueError("secret"))))
    assert problem_of(TreeringError("odd")).code == "internal"


def test_http_errors_have_codes() -> None:
    assert problem_of(HTTPException(404)).code == "not_found"
    assert problem_of(HTTPException(418, "tea")).code == "invalid_request"
    given = Problem(403, "x", "y")
    assert problem_of(given) is given


def test_odd_texts_can_be_sent() -> None:
    assert response_of(Problem(422, "x", "\ud800")).body
