"""The application: the endpoints, and what surrounds every request (limits, log, metrics, errors)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treering.answer import Answer
from treering.errors import TreeringError
from treering.service.auth import request_id
from treering.service.calls import RECEIVE
from treering.service.desk import Desk, Limits
from treering.service.pages.site import install
from treering.service.problems import Problem, problem_of, response_of
from treering.service.routes import around, look, questions, refining, rows, tokens
from treering.service.routes.bodies import ProblemTold
from treering.service.wire import answers_list

ACCESS: Final = logging.getLogger("treering.access")
"""A line in JSON for each request: when, who, what, how it ended, and what it has cost."""
FAILURES: Final = logging.getLogger("treering.failures")

PROMPT: Final = 60.0
"""Seconds for a whole body that is no file."""

HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)


NO_STORE: Final = (b"cache-control", b"no-store")
"""For every response that does not say otherwise: the page's own files."""


class Application(FastAPI):
    """FastAPI, whose OpenAPI has our own form of errors."""

    def openapi(self) -> dict[str, Any]:
        """See FastAPI."""
        if self.openapi_schema is None:
            plain = super().openapi()
            schemas = plain["components"]["schemas"]
            schemas["Problem"] = ProblemTold.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            for operation in (each for path in plain["paths"].values() for each in path.values()):
                operation["responses"].get("422", {}).get("content", {}).pop("application/json", None)
        return super().openapi()


def make_app(desk: Desk) -> FastAPI:
    """The application that serves this desk, and closes it in the end."""
    app = Application(
        title="treering",
        summary="Differential privacy for databases that never stop growing.",
        version="1",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.desk = desk
    for each in (
        questions.router,
        look.router,
        rows.router,
        refining.router,
        tokens.router,
        around.router,
        around.guarded,
    ):
        app.include_router(each)
    install(app, desk)
    for kind in (TreeringError, HTTPException):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(Around, desk=desk)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk: Desk = app.state.desk
    telling = asyncio.create_task(desk.herald.run())
    try:
        yield
    finally:
        await desk.stop()
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling
        await asyncio.get_running_loop().run_in_executor(None, desk.close)


async def _refused(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if "cost" in problem.more:
        request.state.cost = problem.more["cost"]
        desk: Desk = request.app.state.desk
        desk.herald.ring()
    released = [each for each in getattr(error, "answers", ()) if isinstance(each, Answer)]
    if released:
        problem.more["answers"] = answers_list(released)
    return response_of(problem)


async def _invalid(_: Request, error: Exception) -> Response:
    """A body or a parameter of another form: where, and what would be right; not what was sent."""
    assert isinstance(error, RequestValidationError)
    found = [{"where": ".".join(map(str, each["loc"])), "problem": each["msg"]} for each in error.errors()[:20]]
    words = "; ".join(f"{each['where']}: {each['problem']}" for each in found)
    status = 400 if any(each["type"] == "json_invalid" for each in error.errors()) else 422
    return response_of(Problem(status, "invalid_request", words, errors=found))


class Around:
    """Around every request: a name for it, a limit to its body, a line in the log, a count, and no unexpected error."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app, self._desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        began, sending = time.perf_counter(), _Sending(send)
        try:
            coming = _Coming(scope, receive, self._desk.limits)
            RECEIVE.set(coming)
            await self._app(scope, coming, sending)
        except Exception as error:
            FAILURES.error(json.dumps({"request": sending.name, **_place(error)}))
            if sending.status:
                raise
            problem = problem_of(error)
            scope["state"]["cost"] = problem.more.get("cost")
            await response_of(problem)(scope, receive, sending)
        finally:
            self._note(scope, sending, time.perf_counter() - began)

    def _note(self, scope: Scope, sent: _Sending, seconds: float) -> None:
        state, route = scope["state"], getattr(scope.get("route"), "path", "other")
        self._desk.metrics.saw(scope["method"], route, sent.status, seconds)
        token = state["caller"].token if "caller" in state else None
        plain = {
            "time": round(time.time(), 3),
            "request": sent.name,
            **{key: getattr(token, name, None) for key, name in (("token", "id"), ("name", "name"), ("role", "role"))},
            "action": f"{scope['method']} {route}",
            "status": sent.status,
            "seconds": round(seconds, 4),
            "cost": state.get("cost"),
        }
        ACCESS.info(json.dumps(plain))


class _Sending:
    """A response on its way: adds headers, and sees the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.name, self.status = request_id(), 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            kept = any(name.lower() == b"cache-control" for name, _ in message["headers"])
            added = [*HEADERS, (b"x-request-id", self.name.encode()), *(() if kept else (NO_STORE,))]
            message["headers"] = [*message["headers"], *added]
        await self._send(message)


class _Coming:
    """A request's body on its way: refused if it is too large or too slow."""

    def __init__(self, scope: Scope, receive: Receive, limits: Limits) -> None:
        self._receive, self._silence = receive, limits.silence
        file = scope["path"] == "/api/v1/rows"
        self._most = limits.upload if file else limits.body
        self._until = time.monotonic() + (limits.patience if file else min(limits.patience, PROMPT))
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        self._announced, self._taken, self._whole = int(stated) if stated.isdigit() else 0, 0, False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        self._check(self._announced)
        try:
            async with asyncio.timeout(min(self._silence, max(0.0, self._until - time.monotonic()))):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, "too_slow", "the body came too slowly", {"Connection": "close"}) from None
        self._taken += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        self._check(self._taken)
        return message

    def _check(self, length: int) -> None:
        if length > self._most:
            words = f"a body has at most {self._most:,} bytes here"
            raise Problem(413, "body_too_large", words, {"Connection": "close"})


def _place(error: BaseException) -> dict[str, Any]:
    """An unexpected error without its words, which may quote a value: its kind, and where it arose."""
    trace, places = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return {"error": type(error).__name__, "at": places[-6:]}
