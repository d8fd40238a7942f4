"""What is public about the vault: schema, status, live status, and for stewards the ledger."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from treering.service.desk import Desk
from treering.service.problems import Problem
from treering.service.routes.bodies import LedgerTold, SchemaTold, TokenTold
from treering.service.routes.calling import GUARDED, Analyst, Steward, TheDesk, answer_json, refusals
from treering.service.wire import schema_dict, status_dict, token_dict

router = APIRouter(prefix="/api/v1", tags=["public state"], **GUARDED)


@router.get("/schema", response_model=SchemaTold, responses=refusals(401))
async def schema(desk: TheDesk, caller: Analyst) -> Response:
    """The attributes that one can ask about, and their values."""
    return await desk.work(caller, lambda: answer_json(schema_dict(desk.vault.schema)))


@router.get("/status", response_model=dict[str, Any], responses=refusals(401))
async def status(desk: TheDesk, caller: Analyst) -> Response:
    """The public state: size, spent, remaining, the mechanisms and their guarantees, the ledger's head."""
    return await desk.work(caller, lambda: answer_json(status_dict(desk.vault)))


@router.get("/me", response_model=TokenTold, responses=refusals(401))
async def me(desk: TheDesk, caller: Analyst) -> Response:
    """The token that this request was sent with: its role, its quota, and what of that is used."""
    return answer_json(token_dict(caller.token, desk.register.used(caller.token.id), desk.vault.total))


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **refusals(401, 429),
    },
)
async def events(desk: TheDesk, caller: Analyst) -> StreamingResponse:
    """Live status, as server-sent events: the status now, and again when rows have come or something was charged."""
    desk.herald.admit(caller.token.id)

    def accepted() -> bool:
        try:
            return desk.register.standing(caller.token.id) is not None
        except Problem:
            return False

    stream = desk.herald.listen(caller.token.id, accepted)
    return StreamingResponse(stream, headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")


@router.get("/ledger", response_model=LedgerTold, responses=refusals(401, 403, 422))
async def ledger(
    desk: TheDesk,
    caller: Steward,
    after: Annotated[int, Query(ge=0, le=2**62, description="Only lines whose seq is above this.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    tail: Annotated[bool, Query(description="The last lines in place of the first.")] = False,
) -> Response:
    """Lines of the ledger, oldest first."""
    return await desk.work(caller, lambda: _lines(desk, after, min(limit, desk.limits.page), tail))


def _lines(desk: Desk, after: int, limit: int, tail: bool) -> Response:
    found = desk.vault.ledger(after)
    lines: list[dict[str, Any]] = list(deque(found, limit) if tail else islice(found, limit + 1))
    more = not tail and len(lines) > limit
    entries = desk.vault.status()["entries"]
    return answer_json({"lines": lines[:limit], "next": lines[limit - 1]["seq"] if more else None, "entries": entries})
