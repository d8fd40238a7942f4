"""The whole API as its OpenAPI describes it, with data that fit and data that do not: no server error, and every reply
is one that the description announces (schemathesis)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode, checks, openapi
from schemathesis.core.failures import FailureGroup

from support.agents import table
from treering.service.access import Register
from treering.service.app import make_app
from treering.service.desk import Desk

ENDLESS = "/api/v1/events"
"""A stream that does not end: tests/service/test_api_server.py and tests/unit/test_client.py listen to it."""
EXAMPLES = 12
NAMES = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")


@dataclass
class Described:
    """An application, and what its OpenAPI says."""

    app: Any
    schema: Any
    tokens: dict[str, str]
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)

    def try_out(self, operation: Any, mode: GenerationMode, token: str) -> None:
        """Call an operation with generated data, and compare the replies with the description."""
        wanted: list[Any] = [checks.CHECKS.get_one(name) for name in NAMES]

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def calls(case: Case[Any]) -> None:
            headers = {} if token == "none" else {"Authorization": f"Bearer {self.tokens[token]}"}
            reply = case.call(headers=headers)
            self.statuses[operation.label, reply.status_code] += 1
            case.validate_response(reply, checks=wanted)

        try:
            calls()
        except Unsatisfiable:  # There is no wrong way to call something without parameters.
            assert mode is GenerationMode.NEGATIVE


class Lasting:
    """An application that goes on when a client of the test has ended."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    place = tmp_path_factory.mktemp("openapi") / "v"
    with table(place) as vault:
        vault.add("pmwg", 0.4, alpha=0.2)
        vault.ask("late = 'yes'", mechanism="pmwg")
        register = Register(place)
        app = Lasting(make_app(Desk(vault, register, np.random.default_rng)))
        tokens = {role: register.issue(role, role)[1] for role in ("steward", "analyst")}
        yield Described(app, openapi.from_asgi("/api/v1/openapi.json", app), tokens)
        register.close()


def operations(described: Described) -> list[Any]:
    found = [each.ok() for each in described.schema.get_all_operations()]
    return [each for each in found if each.path != ENDLESS]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
def test_every_operation_replies_as_described(described: Described, mode: GenerationMode) -> None:
    listed = operations(described)
    assert len(listed) >= 15
    for operation in listed:
        described.try_out(operation, mode, "steward")
    seen = {status for _, status in described.statuses}
    assert {200, 422} <= seen if mode is GenerationMode.NEGATIVE else 200 in seen


@pytest.mark.parametrize("token", ["analyst", "none"])
def test_who_may_not_is_refused_as_described(described: Described, token: str) -> None:
    described.statuses.clear()
    guarded = [each for each in operations(described) if each.path.startswith("/api/")]
    for operation in guarded:
        if token == "none" or "tokens" in operation.path or "ledger" in operation.path:
            described.try_out(operation, GenerationMode.POSITIVE, token)
    statuses = {status for _, status in described.statuses}
    assert (401 if token == "none" else 403) in statuses
    assert statuses <= {400, 401, 403, 413, 422}


def test_a_reply_that_is_not_described_is_seen(described: Described, monkeypatch: pytest.MonkeyPatch) -> None:
    (status,) = (each for each in operations(described) if each.path == "/api/v1/status")

    def fails(*_: object) -> dict[str, Any]:
        raise RuntimeError("no words of this")

    monkeypatch.setattr("treering.service.routes.look.status_dict", fails)
    with pytest.raises(FailureGroup, match="Server error"):
        described.try_out(status, GenerationMode.POSITIVE, "steward")
