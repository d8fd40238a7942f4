"""Questions: ask, plan, and synthetic rows."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Body, Header, Query, Request
from starlette.responses import Response

from treering.answer import Bill
from treering.service.auth import Caller
from treering.service.desk import Desk
from treering.service.problems import Problem
from treering.service.routes.bodies import EXAMPLES, AnswersTold, AnswerTold, AskBody, PlanBody, PriceTold, TableTold
from treering.service.routes.calling import GUARDED, Analyst, TheDesk, answer_json, refusals
from treering.service.wire import (
    ARROW,
    CSV,
    JSON,
    PARQUET,
    accepted,
    answers_list,
    costs_dict,
    price_dict,
    size_of,
    table_bytes,
    table_json,
)

if TYPE_CHECKING:
    import pyarrow as pa

router = APIRouter(prefix="/api/v1", tags=["questions"], **GUARDED)

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=150,
        description="A name for this question: sent again, the recorded answer comes back, and nothing is charged.",
    ),
]
_TABLES: Final = (JSON, ARROW, CSV)
_BINARY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "/ask",
    response_model=AnswerTold | AnswersTold | TableTold | PriceTold,
    responses={
        200: {"description": "The answer.", "content": {ARROW: _BINARY, CSV: {"schema": {"type": "string"}}}},
        **refusals(400, 401, 402, 403, 406, 408, 409, 413, 422, 429, 507),
    },
)
async def ask(
    request: Request,
    desk: TheDesk,
    caller: Analyst,
    body: Annotated[AskBody, Body(openapi_examples=EXAMPLES)],
    key: Key = None,
) -> Response:
    """Ask a predicate, several, or an SQL statement; or what that would cost.

    A statement's table comes as JSON, as an Arrow stream or as CSV, by the header Accept; the latter two have the costs
    in headers (`Treering-Cost`, `Treering-Remaining`, `Treering-Unit`, `Treering-Size`).
    """
    form = accepted(request.headers.get("accept"), _TABLES if body.sql is not None and not body.dry_run else (JSON,))
    if body.queries is not None and len(body.queries) > desk.limits.queries:
        raise Problem(422, "too_many_queries", f"a batch has at most {desk.limits.queries:,} queries")
    named = None if key is None else f"{caller.token.id}:{key}"
    if body.dry_run:
        return await desk.work(caller, lambda: _price(desk, body))
    response, cost = await desk.work(caller, lambda: _answer(desk, caller, body, named, form))
    request.state.cost = cost
    if cost > 0:
        desk.herald.ring()
    return response


def _answer(desk: Desk, caller: Caller, body: AskBody, key: str | None, form: str) -> tuple[Response, float]:
    """The answer as a response, and its cost. (In a worker thread, with all that takes time.)"""
    if body.sql is not None:
        return _table(desk, caller, body, key, form)
    if body.estimate:
        queries, answers, bill = desk.estimates(_texts(body), body.mechanism)
    else:
        queries, answers, bill = desk.answers(caller, _texts(body), body.mechanism, key, body.within, body.wants)
    with bill.charging():
        costs = {**costs_dict(bill, desk.vault), "quota": desk.left(caller)}
        if body.queries is not None:
            return answer_json({"answers": answers_list(answers), **costs}), bill.cost
        return answer_json({"question": str(queries[0]), **answers[0].to_dict(), **costs}), bill.cost


def _table(desk: Desk, caller: Caller, body: AskBody, key: str | None, form: str) -> tuple[Response, float]:
    table, bill = desk.table(caller, body.sql or "", body.mechanism, body.within, key, body.per_person)
    with bill.charging():
        return _shown(desk, caller, table, bill, form), bill.cost


def _shown(desk: Desk, caller: Caller, table: pa.Table, bill: Bill, form: str) -> Response:
    """The table of a statement, as a response."""
    costs = {**costs_dict(bill, desk.vault), "quota": desk.left(caller)}
    size = size_of(table, desk.vault.size)
    if form == JSON:
        return Response(table_json(table, {"size": size, **costs}), 200, None, JSON)
    headers = {
        "Treering-Cost": repr(bill.cost),
        "Treering-Remaining": repr(bill.remaining),
        "Treering-Unit": desk.vault.unit,
        "Treering-Size": str(size),
        "Treering-Quota": json.dumps(costs["quota"]),
    }
    return Response(table_bytes(table, form), 200, headers, form)


def _texts(body: AskBody) -> list[str]:
    return body.queries or ([] if body.query is None else [body.query])


def _price(desk: Desk, body: AskBody) -> Response:
    price = desk.price(_texts(body), body.sql, body.mechanism, body.within, body.wants)
    return answer_json(price_dict(price, desk.vault))


@router.post("/plan", responses=refusals(400, 401, 403, 413, 422))
async def plan(desk: TheDesk, caller: Analyst, body: PlanBody) -> Response:
    """Which mechanism to use, and what it guarantees: public arithmetic, free."""
    return await desk.work(caller, lambda: _planned(desk, body))


def _planned(desk: Desk, body: PlanBody) -> Response:
    from treering.theory.plan import plan

    vault = desk.vault
    size = body.size if body.size is not None or (body.epsilon and body.alpha) else max(1, vault.size)
    own = float(vault.promise.epsilon) if body.alpha is None else None
    delta = float(vault.promise.delta) if body.delta is None else body.delta
    made = plan(
        body.cells or vault.schema.cells,
        size,
        body.epsilon if body.epsilon is not None else own,
        delta,
        body.beta,
        math.inf if body.queries is None else body.queries,
        None if not body.grows else math.inf if body.horizon is None else body.horizon,
        alpha=body.alpha,
    )
    return Response(made.to_json().encode(), 200, None, JSON)


@router.get(
    "/synthetic",
    response_class=Response,
    responses={
        200: {
            "description": "The rows.",
            "content": {ARROW: _BINARY, CSV: {"schema": {"type": "string"}}, PARQUET: _BINARY},
        },
        **refusals(401, 406, 422),
    },
)
async def synthetic(
    request: Request,
    desk: TheDesk,
    caller: Analyst,
    rows: Annotated[int, Query(ge=1, description="How many.")],
    mechanism: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    seed: Annotated[int | None, Query(ge=0, le=2**63, description="The same seed draws the same rows.")] = None,
) -> Response:
    """Synthetic rows from what was released so far: free. As an Arrow stream, CSV or Parquet, by the header Accept."""
    if rows > desk.limits.rows:
        raise Problem(422, "too_many_rows", f"at most {desk.limits.rows:,} rows at a time")
    form = accepted(request.headers.get("accept"), (ARROW, CSV, PARQUET))

    def drawn() -> bytes:
        return table_bytes(desk.vault.synthesize(rows, mechanism, desk.generator(seed)), form)

    ending = {ARROW: "arrows", CSV: "csv", PARQUET: "parquet"}[form]
    headers = {"Content-Disposition": f'attachment; filename="synthetic.{ending}"'}
    return Response(await desk.work(caller, drawn), 200, headers, form)
