"""Over HTTP, too, a question is planned once: with a quota, the plan that has said the price is carried out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.office import Office, office
from support.plans import counting


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with office(tmp_path_factory.mktemp("plans") / "v") as opened:
        yield opened


@pytest.mark.parametrize("quota", [{}, {"answers": 5}, {"budget": 0.5}])
@pytest.mark.parametrize(
    "body",
    [
        {"query": "month = 3"},
        {"queries": ["month = 3", "late = 'yes'"]},
        {"sql": "SELECT COUNT(*) FROM t WHERE month = 3"},
    ],
)
def test_a_new_question_is_planned_once(desk: Office, body: dict[str, Any], quota: dict[str, Any]) -> None:
    headers = desk.bearer(**quota)
    with counting() as counts:
        told = desk.ask(headers, **body)
    assert told.status_code == 200
    assert told.json()["cost"] > 0
    assert counts == {"plans": 1, "readings": 2 if "queries" in body else 1}
    with counting() as counts:
        assert desk.ask(headers, **body).json()["cost"] == 0
    assert counts["plans"] == 1
