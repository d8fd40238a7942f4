"""How an endpoint learns who calls, and refuses those who may not: dependencies of FastAPI."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.responses import Response

from treering.service.auth import COOKIE, Caller, bearer, check_origin, unauthenticated
from treering.service.desk import Desk
from treering.service.problems import MEDIA_TYPE, Problem
from treering.service.wire import JSON, dumped


def desk_of(request: Request) -> Desk:
    """The desk of the server that a request came to."""
    desk: Desk = request.app.state.desk
    return desk


def known_caller(request: Request) -> Caller | None:
    """Who calls, by token or by cookie; None if neither was sent. A `Problem` if what was sent is not accepted.

    The pages use this: who is None, or not accepted, is shown the login.
    """
    desk, text = desk_of(request), bearer(request.headers)
    if text is not None:
        caller = Caller(desk.register.accept(text))
    elif (session := request.cookies.get(COOKIE)) is not None:
        known = desk.sessions.token_of(session)
        if known is None:
            raise unauthenticated("session_ended", "the session has ended: log in again")
        caller = Caller(desk.register.standing(known), by_cookie=True)
        check_origin(request.method, request.headers)
    else:
        return None
    request.state.caller = caller
    return caller


async def _analyst(request: Request) -> Caller:
    """Anyone with a token that is accepted."""
    caller = known_caller(request)
    if caller is None:
        raise unauthenticated("token_missing", "send a token: `Authorization: Bearer TOKEN`")
    return caller


async def _steward(request: Request) -> Caller:
    """A steward."""
    caller = await _analyst(request)
    if not caller.steward:
        raise Problem(403, "stewards_only", "this is for stewards: the token is an analyst's")
    return caller


_SCHEMES: Final = [
    Security(HTTPBearer(auto_error=False, description="A token that a steward made.")),
    Security(APIKeyCookie(name=COOKIE, auto_error=False, description="A session of the page.")),
]
GUARDED: Final[dict[str, Any]] = {"dependencies": _SCHEMES}
"""For routers whose endpoints need a token: OpenAPI says so."""

FOR_STEWARDS: Final[dict[str, Any]] = {"dependencies": [*_SCHEMES, Depends(_steward)]}
"""For routers whose endpoints are for stewards."""

TheDesk: TypeAlias = Annotated[Desk, Depends(desk_of)]
Analyst: TypeAlias = Annotated[Caller, Depends(_analyst)]
Steward: TypeAlias = Annotated[Caller, Depends(_steward)]


def answer_json(plain: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response in JSON."""
    return Response(dumped(plain), status, headers, JSON)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says about the refusals of an endpoint."""
    said = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {status: {"description": WORDS[status], "content": {MEDIA_TYPE: said}} for status in (*statuses, 500, 503)}


WORDS: Final = {
    400: "The request cannot be read.",
    401: "No token, or one that is not accepted: unknown, expired, revoked.",
    402: "The promise's budget does not cover this.",
    403: "The token's role does not allow this, or the request came from another site.",
    404: "There is no such thing.",
    406: "None of the forms that Accept allows.",
    408: "The body came too slowly.",
    409: "Not in this state: too few rows for a guarantee, say.",
    413: "The body is too large.",
    415: "A body of another type than those that are read.",
    422: "What was sent is not understood: the query, a parameter, the rows.",
    429: "The token's quota does not cover this, or too many of its requests wait.",
    500: "An unexpected error.",
    502: "The engine that has the rows failed.",
    503: "The server is stopping, or cannot write.",
    507: "The disk is full.",
}
