"""The page as a part of the application."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from treering.service.desk import Desk
from treering.service.pages import asking, refining, stewarding, visiting
from treering.service.pages.render import static
from treering.service.pages.state import Board

router = APIRouter(include_in_schema=False)


@router.get("/static/{name}")
async def file(request: Request, name: str) -> Response:
    """The style sheet, the script, the icon."""
    found = static(request, name)
    if found is None:
        raise HTTPException(404, "there is no such file")
    return found


def install(app: FastAPI, desk: Desk) -> None:
    """Add the page to an application."""
    app.state.board = Board(desk.vault, desk.metrics.over_time)
    for each in (asking.router, refining.router, stewarding.router, visiting.router, router):
        app.include_router(each)
    app.add_exception_handler(visiting.NotLetInError, visiting.not_let_in)
