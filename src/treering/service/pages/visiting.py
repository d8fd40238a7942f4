"""Who looks at the page: logging in and out, and what those see who are not let in."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from treering.service.auth import Caller, check_origin
from treering.service.pages.render import html
from treering.service.problems import Problem, body_of
from treering.service.routes.around import begin_session, end_session
from treering.service.routes.calling import TheDesk, known_caller

router = APIRouter(include_in_schema=False)

VIEWS: Final = (("/", "Ask"), ("/rows", "Rows"), ("/schema", "Schema"), ("/tokens", "Tokens"), ("/ledger", "Ledger"))
PIECES: Final = "/page/"
"""What the paths of pieces begin with: the script asks for them, and nobody sees their errors."""


class NotLetInError(Exception):
    """Somebody who is to log in first, or whose view this is not."""

    def __init__(self, problem: Problem | None, caller: Caller | None = None) -> None:
        super().__init__("not let in")
        self.problem, self.caller = problem, caller


async def visitor(request: Request) -> Caller:
    """Whoever is logged in."""
    try:
        caller = known_caller(request)
    except Problem as problem:
        raise NotLetInError(problem) from None
    if caller is None:
        raise NotLetInError(None)
    return caller


async def steward(request: Request) -> Caller:
    """A steward who is logged in."""
    caller = await visitor(request)
    if not caller.steward:
        refused = Problem(403, "stewards_only", "this view is for stewards: your token is an analyst's")
        raise NotLetInError(refused, caller)
    return caller


Visitor: TypeAlias = Annotated[Caller, Depends(visitor)]
Steward: TypeAlias = Annotated[Caller, Depends(steward)]


async def not_let_in(request: Request, error: Exception) -> Response:
    """The log-in or, for whoever is logged in already, the reason."""
    assert isinstance(error, NotLetInError)
    problem = None if error.problem is None else body_of(error.problem)
    if error.caller is not None and problem is not None:
        return shown("refused.html", request, error.caller, problem["status"], problem=problem)
    piece = request.url.path.startswith(PIECES)
    status = problem["status"] if problem else 401 if piece else 200
    return html("login.html", status, caller=None, problem=problem)


def shown(template: str, request: Request, caller: Caller, status: int = 200, **values: Any) -> Response:
    """A view, for somebody who is logged in."""
    common = {"caller": caller, "views": VIEWS if caller.steward else (), "here": request.url.path, "problem": None}
    return html(template, status, **{**common, **values})


async def fields(request: Request) -> dict[str, str]:
    """The fields of a form. (The server's limits keep its body short.)"""
    body = (await request.body()).decode(errors="replace")
    try:
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=50))
    except ValueError:
        raise Problem(400, "invalid_request", "a form of this page has fewer fields") from None


def to(path: str) -> Response:
    """After a form: look at this view."""
    return RedirectResponse(path, 303)


@router.post("/page/login")
async def login(request: Request, desk: TheDesk) -> Response:
    """Begin a session, from a form."""
    check_origin(request.method, request.headers)
    try:
        token = desk.register.accept((await fields(request)).get("token", "").strip())
    except Problem as problem:
        return html("login.html", problem.status_code, caller=None, problem=body_of(problem))
    response = to("/")
    begin_session(desk, token, response)
    return response


@router.post("/page/logout")
async def logout(request: Request, desk: TheDesk) -> Response:
    """End the session."""
    check_origin(request.method, request.headers)
    response = to("/")
    end_session(desk, request, response)
    return response
