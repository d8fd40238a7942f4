"""The first view: asking, the status as it changes, and synthetic rows."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from treering.errors import ParameterError, QueryError, TreeringError
from treering.service.auth import Caller
from treering.service.desk import Desk, left_of
from treering.service.pages.render import html
from treering.service.pages.results import counted_rows, is_statement, priced, released, wish
from treering.service.pages.state import Board
from treering.service.pages.visiting import Visitor, fields, shown
from treering.service.pages.words import attributes, examples, words
from treering.service.problems import Problem, body_of, problem_of
from treering.service.routes.calling import TheDesk, answer_json
from treering.service.wire import ARROW, CSV, PARQUET, table_bytes

router = APIRouter(include_in_schema=False)

FORMATS: Final = {"csv": (CSV, "csv"), "parquet": (PARQUET, "parquet"), "arrow": (ARROW, "arrows")}


@router.get("/")
async def index(request: Request, desk: TheDesk, caller: Visitor, question: str = "") -> Response:
    """The page."""
    return await _page(request, desk, caller, question=question)


@router.post("/")
async def asked(request: Request, desk: TheDesk, caller: Visitor) -> Response:
    """The page with an answer, or a price, for browsers without the script."""
    form = await fields(request)
    priced_only = form.get("what") == "price"
    found = await (_priced(desk, caller, form) if priced_only else _answered(request, desk, caller, form))
    return await _page(request, desk, caller, within=form.get("within", ""), **found)


@router.post("/page/ask")
async def ask(request: Request, desk: TheDesk, caller: Visitor) -> Response:
    """An answer."""
    return html("result.html", **await _answered(request, desk, caller, await fields(request)))


@router.post("/page/price")
async def price(request: Request, desk: TheDesk, caller: Visitor) -> Response:
    """What asking would cost."""
    return html("price.html", **await _priced(desk, caller, await fields(request)))


@router.get("/page/status")
async def status(request: Request, desk: TheDesk, caller: Visitor) -> Response:
    """The status."""
    return html("status.html", state=await desk.work(caller, partial(_state, request, desk, caller)))


@router.get("/page/words")
async def completion(desk: TheDesk, caller: Visitor) -> Response:
    """What can be completed."""
    return await desk.work(caller, lambda: answer_json(words(desk.vault.schema)))


@router.get("/synthetic")
async def synthetic(
    request: Request,
    desk: TheDesk,
    caller: Visitor,
    rows: str = "",
    form: Annotated[str, Query(alias="format")] = "csv",
) -> Response:
    """Synthetic rows, as a file."""
    try:
        content, media_type, ending = await desk.work(caller, lambda: _drawn(_board(request), desk, rows, form))
    except (TreeringError, Problem) as error:
        problem = body_of(problem_of(error))
        return shown("refused.html", request, caller, problem["status"], problem=problem)
    headers = {"Content-Disposition": f'attachment; filename="synthetic.{ending}"'}
    return Response(content, 200, headers, media_type)


def _drawn(board: Board, desk: Desk, rows: str, form: str) -> tuple[bytes, str, str]:
    short = rows.isascii() and rows.isdecimal() and len(rows) <= 12
    if form not in FORMATS or not short or not 1 <= int(rows) <= desk.limits.rows:
        raise ParameterError("rows", f"must be 1 to {desk.limits.rows:,}, as csv, parquet or arrow")
    media_type, ending = FORMATS[form]
    name = board.drawing(desk.generator(0))
    if name is None:
        raise QueryError("no mechanism of this vault draws rows: one of kind pmwg or scheduler does")
    return table_bytes(desk.vault.synthesize(int(rows), name, desk.generator(None)), media_type), media_type, ending


async def _page(request: Request, desk: Desk, caller: Caller, **found: Any) -> Response:
    def page() -> Response:
        schema = desk.vault.schema
        values = {
            "question": "",
            "within": "",
            "price": None,
            "result": None,
            "name": desk.register.folder.parent.name.removesuffix(".treering"),
            "examples": examples(schema) if desk.vault.size else [],
            "attributes": attributes(schema),
            "draws": _board(request).drawing(desk.generator(0)) is not None,
            "most_rows": desk.limits.rows,
            "state": _state(request, desk, caller, now=True),
        }
        return shown("index.html", request, caller, **{**values, **found})

    return await desk.work(caller, page)


def _state(request: Request, desk: Desk, caller: Caller, *, now: bool = False) -> dict[str, Any]:
    quota = caller.token.quota
    left = left_of(quota, desk.register.used(caller.token.id), desk.vault.total) if quota.limited else ""
    return {**_board(request).view(now=now), "quota": left}


def _board(request: Request) -> Board:
    board: Board = request.app.state.board
    return board


# -- answers and prices ------------------------------------------------------------------------------------------------


async def _answered(request: Request, desk: Desk, caller: Caller, form: dict[str, str]) -> dict[str, Any]:
    """The answer to what a form asks, or what is wrong with it."""
    question = form.get("question", "").strip()
    try:
        result, cost = await desk.work(caller, lambda: _answer(desk, caller, question, form.get("within", "")))
    except (TreeringError, Problem) as error:
        problem = problem_of(error)
        if "cost" in problem.more:
            request.state.cost = problem.more["cost"]
            desk.herald.ring()
        return {"question": question, "result": None, "problem": body_of(problem)}
    request.state.cost = cost
    desk.herald.ring()
    return {"question": question, "result": result, "problem": None}


def _answer(desk: Desk, caller: Caller, question: str, within: str) -> tuple[dict[str, Any], float]:
    vault = desk.vault
    if is_statement(question):
        table, bill = desk.table(caller, question, None, wish(within))
        with bill.charging():
            return released(table, vault.size, bill, vault.total), bill.cost
    _, (answer,), bill = desk.answers(caller, [question], None, None, wish(within))
    with bill.charging():
        return counted_rows(answer, bill, vault.total), bill.cost


async def _priced(desk: Desk, caller: Caller, form: dict[str, str]) -> dict[str, Any]:
    """What a form's question would cost, or what is wrong with it."""
    question = form.get("question", "").strip()
    try:
        price = await desk.work(caller, lambda: _price(desk, question, form.get("within", "")))
    except (TreeringError, Problem) as error:
        price = {"problem": body_of(problem_of(error))}
    return {"question": question, "price": price}


def _price(desk: Desk, question: str, within: str) -> dict[str, Any]:
    statement = question if is_statement(question) else None
    return {"problem": None, **priced(desk.price([question], statement, None, wish(within)), desk.vault.total)}
