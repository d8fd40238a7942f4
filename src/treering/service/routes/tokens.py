"""Tokens: stewards make, list and revoke them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path
from starlette.responses import Response

from treering.service.auth import quota_of
from treering.service.problems import Problem
from treering.service.routes.bodies import NewTokenTold, TokenBody, TokensTold
from treering.service.routes.calling import FOR_STEWARDS, TheDesk, answer_json, refusals
from treering.service.wire import token_dict

router = APIRouter(prefix="/api/v1", tags=["stewards"], **FOR_STEWARDS)

Result = TypeVar("Result")


async def _aside(work: Callable[[], Result]) -> Result:
    """Work that waits for the disk, and for no vault."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


@router.post("/tokens", status_code=201, response_model=NewTokenTold, responses=refusals(400, 401, 403, 413, 422, 507))
async def make(desk: TheDesk, body: TokenBody) -> Response:
    """A new token. Its text is in this response and nowhere else."""
    quota = quota_of(body.quota.answers, body.quota.budget)
    token, text = await _aside(lambda: desk.register.issue(body.name, body.role, body.lifetime, quota))
    told = token_dict(token, desk.register.used(token.id), desk.vault.total)
    return answer_json({**told, "token": text}, 201, {"Cache-Control": "no-store"})


@router.get("/tokens", response_model=TokensTold, responses=refusals(401, 403))
async def listed(desk: TheDesk) -> Response:
    """All tokens, with their quotas and what of these is used."""
    total = desk.vault.total
    return answer_json(
        {"tokens": [token_dict(each, desk.register.used(each.id), total) for each in desk.register.tokens]}
    )


@router.delete("/tokens/{id}", status_code=204, response_class=Response, responses=refusals(401, 403, 404, 422, 507))
async def revoke(desk: TheDesk, which: Annotated[str, Path(alias="id", min_length=1, max_length=64)]) -> Response:
    """Accept a token no more, from now on."""
    if not await _aside(lambda: desk.register.revoke(which)):
        raise Problem(404, "no_such_token", "there is no such token, or it was revoked before")
    desk.herald.ring()  # Ends the streams of who is no longer accepted.
    return Response(status_code=204)
