"""The views of stewards: rows, tokens, and the ledger."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from treering.errors import ParameterError, TreeringError
from treering.service.access import Used
from treering.service.auth import Caller, Token, quota_of
from treering.service.desk import Desk
from treering.service.pages.state import percent
from treering.service.pages.visiting import Steward, fields, shown, steward, to
from treering.service.problems import Problem, body_of, problem_of
from treering.service.routes.calling import TheDesk
from treering.service.routes.rows import ENDINGS
from treering.service.wire import ARROW, stamp
from treering.words import counted

router = APIRouter(include_in_schema=False)

LINES: Final = 50
"""Lines of the ledger on one page."""
DAY: Final = 86400.0
TYPES: Final = {
    **{ending.removeprefix("."): kind for kind, ending in reversed(ENDINGS.items())},
    "arrows": ARROW,
    "jsonl": "application/jsonl",
}
"""The media type of a file, by the ending of its name."""

EVENTS: Final = {
    "created": "vault created",
    "mechanism": "mechanism added",
    "rows": "rows appended",
    "refined": "schema refined",
    "Discovered": "values discovered",
    "Opened": "series opened",
    "Advanced": "series measured",
    "SegmentBegun": "segment begun",
    "SegmentEnded": "segment ended",
    "SegmentCondensed": "segment condensed",
    "answers": "answers kept under a key",
    "checkpoint": "checkpoint",
}
"""Kinds of lines of the ledger, in words."""

Result = TypeVar("Result")


@router.get("/rows")
async def rows(request: Request, desk: TheDesk, caller: Steward) -> Response:
    """A form whose file the script sends to the API: files are large, and the API takes them as they come."""
    source = (await desk.work(caller, desk.vault.status))["source"]
    return shown("rows.html", request, caller, source=source, types=TYPES)


# -- tokens ------------------------------------------------------------------------------------------------------------


@router.get("/tokens")
async def tokens(request: Request, desk: TheDesk, caller: Steward) -> Response:
    """All tokens, and a form for a new one."""
    return _tokens(request, desk, caller)


@router.post("/tokens")
async def make(request: Request, desk: TheDesk, caller: Steward) -> Response:
    """A new token, shown this once."""
    form = await fields(request)
    try:
        token, text = await _aside(lambda: _issued(desk, form))
    except (TreeringError, Problem) as error:
        problem = body_of(problem_of(error))
        return _tokens(request, desk, caller, problem["status"], problem=problem)
    return _tokens(request, desk, caller, 201, fresh={"name": token.name, "text": text})


@router.post("/tokens/{token}/revoke", dependencies=[Depends(steward)])
async def revoke(desk: TheDesk, token: str) -> Response:
    """Accept a token no more; who is logged in with it is thrown out at once."""
    await _aside(lambda: desk.register.revoke(token))
    desk.herald.ring()
    return to("/tokens")


async def _aside(work: Callable[[], Result]) -> Result:
    """Work that waits for the disk, and for no vault."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _issued(desk: Desk, form: dict[str, str]) -> tuple[Token, str]:
    role = "steward" if form.get("role") == "steward" else "analyst"
    days = _number(form.get("days", ""), "days", 3650)
    answers = _number(form.get("answers", ""), "answers", 10**12)
    share = _number(form.get("budget", ""), "budget", 100)
    if answers is not None and not answers.is_integer():
        raise ParameterError("answers", "must be a whole number, or empty for no limit")
    quota = quota_of(None if answers is None else int(answers), None if share is None else share / 100)
    return desk.register.issue(form.get("name", "").strip(), role, None if days is None else days * DAY, quota)


def _number(text: str, name: str, most: float) -> float | None:
    """A field that may be empty: a number from 0 to ``most``."""
    try:
        value = float(text) if text.strip() else None
    except ValueError:
        value = math.nan
    if value is not None and not 0 <= value <= most:
        raise ParameterError(name, f"must be a number from 0 to {most:,}, or empty for no limit")
    return value


def _tokens(request: Request, desk: Desk, caller: Caller, status: int = 200, **found: Any) -> Response:
    register, total = desk.register, desk.vault.total
    listed = [_token(each, register.used(each.id), total, caller) for each in reversed(register.tokens)]
    return shown("tokens.html", request, caller, status, **{"fresh": None, "tokens": listed, **found})


def _token(token: Token, used: Used, total: float, caller: Caller) -> dict[str, Any]:
    quota, now = token.quota, time.time()
    ended = "revoked" if token.revoked is not None else "expired" if token.problem(now) is not None else ""
    return {
        **{name: getattr(token, name) for name in ("id", "name", "role")},
        "own": token.id == caller.token.id,
        "ended": ended,
        "until": "for ever" if token.expires is None else f"until {(stamp(token.expires) or '')[:10]}",
        "answers": f"{used.answers:,} of {quota.answers:,} charged answers"
        if quota.answers is not None
        else counted(used.answers, "charged answer"),
        "budget": percent(used.budget / total) + ("" if quota.budget is None else f" of {percent(quota.budget)}"),
    }


# -- the ledger --------------------------------------------------------------------------------------------------------


@router.get("/ledger")
async def ledger(request: Request, desk: TheDesk, caller: Steward, before: int = 2**62) -> Response:
    """The ledger, newest lines first: those whose number is at most ``before``."""

    def page() -> Response:
        entries = desk.vault.status()["entries"]
        last = max(1, min(before, entries))
        lines = list(islice(desk.vault.ledger(max(0, last - LINES)), min(LINES, last)))[::-1]
        older = last - LINES if last > LINES else None
        newer = min(entries, last + LINES) if last < entries else None
        found: dict[str, Any] = {
            "lines": lines,
            "older": older,
            "newer": newer,
            "unit": desk.vault.unit,
            "kinds": EVENTS,
        }
        return shown("ledger.html", request, caller, **found)

    return await desk.work(caller, page)
