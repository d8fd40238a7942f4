"""What goes wrong, as HTTP says it: a status, a stable code, and words without a private value (RFC 9457)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from treering.answer import Bill
from treering.errors import Dearer, KeyUsed, TreeringError, VaultError
from treering.problems import ERRORS as SHARED, Coded, charged, details_of
from treering.words import DISK_FULL

MEDIA_TYPE: Final = "application/problem+json"


class Problem(HTTPException):
    """A refusal: ``code`` is for programs and never changes, ``detail`` is for people."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.code = code
        self.more = more


ERRORS: Final = (Coded(Dearer, 409, "price_changed"), *SHARED)
"""What each error of the package is over HTTP: the first line that fits."""

_STATUS: Final = {
    400: "invalid_request",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "body_too_large",
    415: "unsupported_media_type",
}
_TITLES: Final = {
    400: "Bad request",
    401: "Unauthorized",
    402: "Budget exceeded",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Too slow",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "Not understood",
    429: "Too many",
    500: "Internal error",
    502: "Engine failed",
    503: "Not available",
    507: "Disk full",
}


def problem_of(error: Exception) -> Problem:
    """The problem that an error is. Of an unexpected one nothing is said: its text may quote a private value."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        code = _STATUS.get(error.status_code, "invalid_request")
        return Problem(error.status_code, code, str(error.detail), error.headers)
    if not isinstance(error, TreeringError):
        words = " ".join(["an unexpected error: the server's log has its kind and its place", *_charge(error)])
        return Problem(500, "internal", words, **charged(error))
    full = isinstance(error, VaultError) and DISK_FULL in str(error)
    found = next((each for each in ERRORS if isinstance(error, each.kind)), Coded(TreeringError, 500, "internal"))
    status, code = (507, "disk_full") if full else (found.status, found.code)
    headers = {"Retry-After": "5"} if status == 503 else {}
    if isinstance(error, KeyUsed):  # On record the key begins with the token's id.
        return Problem(
            status, code, "this Idempotency-Key was used for something else: use a new one", **charged(error)
        )
    detail = " ".join([str(error), *getattr(error, "__notes__", ())])
    return Problem(status, code, detail, headers, **details_of(error))


def _charge(error: Exception) -> list[str]:
    """The words about what was charged before an unexpected error, whose own words are not shown."""
    bill = getattr(error, "bill", None)
    return [bill.words()] if isinstance(bill, Bill) else []


def body_of(problem: Problem) -> dict[str, Any]:
    """A problem as plain values."""
    return {
        "type": f"urn:treering:problem:{problem.code}",
        "title": _TITLES.get(problem.status_code, "Error"),
        "status": problem.status_code,
        "code": problem.code,
        "detail": str(problem.detail),
        **{
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in problem.more.items()
        },
    }


def response_of(problem: Problem) -> Response:
    """The response that states a problem."""
    content = json.dumps(body_of(problem), ensure_ascii=False, allow_nan=False).encode(errors="replace")
    return Response(content, problem.status_code, dict(problem.headers or {}), MEDIA_TYPE)
