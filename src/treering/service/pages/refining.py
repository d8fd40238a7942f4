"""The view of the schema, for stewards: what is listed, and forms that list more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from treering.domain.attribute import Categories
from treering.errors import ParameterError, TreeringError
from treering.service.desk import Desk
from treering.service.pages.visiting import Steward, fields, shown, to
from treering.service.problems import Problem, body_of, problem_of
from treering.service.routes.bodies import RefineBody
from treering.service.routes.calling import TheDesk
from treering.service.routes.refining import refined

router = APIRouter(include_in_schema=False)


@router.get("/schema")
async def schema(request: Request, desk: TheDesk, caller: Steward) -> Response:
    """The attributes, and forms for the next version."""
    return await desk.work(caller, lambda: shown("schema.html", request, caller, **_listed(desk)))


@router.post("/schema")
async def refine(request: Request, desk: TheDesk, caller: Steward) -> Response:
    """The next version of the schema."""
    form = await fields(request)
    try:
        await desk.work(caller, lambda: refined(desk, _body(desk, form)))
    except (TreeringError, Problem) as error:
        return await _refused(request, desk, caller, error)
    desk.herald.ring()
    return to("/schema")


@router.post("/schema/discover")
async def discover(request: Request, desk: TheDesk, caller: Steward) -> Response:
    """Have values told that enough rows have; they are shown, and a button lists them."""
    form = await fields(request)
    try:
        share = _number(form.get("share", ""), "share") / 100
        name = form.get("attribute", "")
        table = await desk.work(caller, lambda: desk.vault.discover(name, share))
    except (TreeringError, Problem) as error:
        return await _refused(request, desk, caller, error)
    desk.herald.ring()
    found = {"attribute": name, "lines": list(zip(*(each.to_pylist() for each in table.columns), strict=True))}
    return await desk.work(caller, lambda: shown("schema.html", request, caller, **{**_listed(desk), "found": found}))


async def _refused(request: Request, desk: Desk, caller: Steward, error: TreeringError | Problem) -> Response:
    problem = body_of(problem_of(error))
    view = {**_listed(desk), "problem": problem}
    return await desk.work(caller, lambda: shown("schema.html", request, caller, problem["status"], **view))


def _listed(desk: Desk) -> dict[str, Any]:
    """What the view shows: all of it public."""
    vault = desk.vault
    attributes = vault.schema.attributes
    return {
        "attributes": [(name, each.size, each.describe()) for name, each in attributes.items()],
        "open": [name for name, each in attributes.items() if isinstance(each, Categories) and each.other],
        "versions": vault.status()["versions"],
        "aside": bool(vault.promise.aside),
        "found": None,
    }


def _body(desk: Desk, form: dict[str, str]) -> RefineBody:
    """What a form asks for, as the API takes it."""
    name, what, text = (form.get(each, "").strip() for each in ("attribute", "what", "value"))
    known = desk.vault.schema.attributes.get(name)
    whole = isinstance(known, Categories) and isinstance(known.values[0], int)
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "add": lambda: {"add": {name: [int(_number(text, "value")) if whole else text]}},
        "edges": lambda: {"edges": {name: [_number(text, "value")]}},
        "until": lambda: {"until": {name: text}},
        "bounds": lambda: {"bounds": {name: [_number(each, "value") for each in text.split(":")]}},
        "discovered": lambda: {"discovered": [name]},
    }
    plain = made[what]() if what in made else {}
    try:
        return RefineBody(**plain)
    except ValidationError:
        problem = ParameterError(
            "value", "must be a value, an edge, a date, or low:high, of an attribute that is named"
        )
    raise problem


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        problem = ParameterError(name, "must be a number")
    raise problem
