"""The schema as it grows: stewards refine it, and have values discovered that it does not list."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from treering.domain.schema import attribute_from_dict
from treering.errors import SchemaError
from treering.service.desk import Desk
from treering.service.routes.bodies import DiscoverBody, DiscoveredTold, RefineBody, SchemaTold
from treering.service.routes.calling import FOR_STEWARDS, Steward, TheDesk, answer_json, refusals
from treering.service.routes.questions import Key
from treering.service.wire import JSON, schema_dict, table_json

router = APIRouter(prefix="/api/v1", tags=["stewards"], **FOR_STEWARDS)


@router.post("/refine", response_model=SchemaTold, responses=refusals(400, 401, 403, 413, 422, 507))
async def refine(desk: TheDesk, caller: Steward, body: RefineBody) -> Response:
    """Put the next version of the schema on record: free. It is public, and for ever: say only what is known without
    the private rows, or what was discovered."""
    response = await desk.work(caller, lambda: answer_json(schema_dict(refined(desk, body))))
    desk.herald.ring()
    return response


def refined(desk: Desk, body: RefineBody) -> Any:
    """The next version of the schema, on record."""
    add: dict[str, list[str | int | bool]] = {name: list(values) for name, values in body.add.items()}
    for name in body.discovered:
        found = desk.vault.discovered(name)["value"].to_pylist()
        if not found:
            raise SchemaError(f"nothing was discovered of {name!r} that is not listed: discover first")
        add[name] = [*add.get(name, ()), *found]
    return desk.vault.refine(
        add=add,
        edges=body.edges,
        until=body.until,
        bounds={name: (low, high) for name, (low, high) in body.bounds.items()},
        attributes={name: attribute_from_dict(name, plain) for name, plain in body.attributes.items()},
    )


@router.post(
    "/discover", response_model=DiscoveredTold, responses=refusals(400, 401, 402, 403, 409, 413, 422, 502, 507)
)
async def discover(desk: TheDesk, caller: Steward, body: DiscoverBody, key: Key = None) -> Response:
    """The values of an attribute that are not listed and that enough rows have, with noisy counts. The rows that are
    looked at pay the share; for a vault that was made with a part of delta set aside."""
    named = None if key is None else f"{caller.token.id}:{key}"
    response = await desk.work(caller, lambda: _discovered(desk, body, named))
    desk.herald.ring()
    return response


def _discovered(desk: Desk, body: DiscoverBody, key: str | None) -> Response:
    vault = desk.vault
    rows = None if body.rows is None else (body.rows[0], body.rows[1])
    table = vault.discover(body.column, body.share, rows, key, body.mechanism)
    left = {"remaining": max(0.0, vault.total - vault.spent), "unit": vault.unit}
    return Response(table_json(table, {"size": vault.size, **left}), 200, None, JSON)
