"""Around the API: health, readiness, metrics, and the sessions of the page."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from treering.service.auth import COOKIE, SESSION, Token, check_origin
from treering.service.desk import Desk
from treering.service.metrics import MEDIA_TYPE
from treering.service.routes.bodies import LoginBody, TokenTold
from treering.service.routes.calling import GUARDED, Analyst, TheDesk, answer_json, refusals
from treering.service.turns import stopping
from treering.service.wire import token_dict

router = APIRouter(tags=["server"])
guarded = APIRouter(tags=["server"], **GUARDED)


@router.get("/health", response_model=dict[str, str])
async def health() -> Response:
    """Whether the server runs."""
    return answer_json({"status": "ok"})


@router.get("/ready", response_model=dict[str, str], responses=refusals())
async def ready(desk: TheDesk) -> Response:
    """Whether the server takes questions."""
    if desk.stopped:
        raise stopping()
    return answer_json({"status": "ready"})


@guarded.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"description": "Metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **refusals(401),
    },
)
async def metrics(desk: TheDesk, caller: Analyst) -> Response:
    """Metrics for Prometheus: public quantities, and how the server does."""
    text = await desk.work(caller, lambda: desk.metrics.text(desk.vault.status(), desk.herald.listening))
    return Response(text, 200, None, MEDIA_TYPE)


@router.post("/login", response_model=TokenTold, responses=refusals(400, 401, 403, 413, 422))
async def login(request: Request, desk: TheDesk, body: LoginBody) -> Response:
    """Begin a session of the page: sets a cookie that scripts cannot read."""
    check_origin(request.method, request.headers)
    token = desk.register.accept(body.token)
    response = answer_json(token_dict(token, desk.register.used(token.id), desk.vault.total))
    begin_session(desk, token, response)
    return response


@router.post("/logout", status_code=204, response_class=Response, responses=refusals(403))
async def logout(request: Request, desk: TheDesk) -> Response:
    """End the session."""
    check_origin(request.method, request.headers)
    response = Response(status_code=204)
    end_session(desk, request, response)
    return response


def begin_session(desk: Desk, token: Token, response: Response) -> None:
    """Begin a session, with a cookie in this response that scripts cannot read."""
    session = desk.sessions.begin(token)
    response.set_cookie(COOKIE, session, int(SESSION), path="/", secure=desk.secure, httponly=True, samesite="strict")


def end_session(desk: Desk, request: Request, response: Response) -> None:
    """End the session that this request belongs to, and delete its cookie."""
    desk.sessions.end(request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, path="/")
