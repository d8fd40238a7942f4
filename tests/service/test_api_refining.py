"""Refining and discovering over HTTP: what stewards may do with the schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.office import API, Office, office
from treering.service.access import Register
from treering.service.desk import Desk

SCHEMA = tr.Schema({"ward": tr.categories("north", "south", other=True), "cost": tr.numbers(0, 100)})
ROWS = [{"ward": ward, "cost": 5.0} for ward, many in (("north", 400), ("tele", 900), ("rare", 1)) for _ in range(many)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Office]:
    vault = tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-6, discoveries=True)
    vault.append(ROWS)
    with office(tmp_path / "v", Desk(vault, Register(tmp_path / "v"), np.random.default_rng)) as opened:
        yield opened


def post(desk: Office, path: str, body: Any, role: str = "steward", **headers: str) -> Any:
    return desk.client.post(f"{API}/{path}", headers={**desk.known(role), **headers}, json=body)


def test_a_value_is_discovered_listed_and_asked_about(desk: Office) -> None:
    found = post(desk, "discover", {"column": "ward", "share": 0.2}, **{"Idempotency-Key": "one"})
    assert found.status_code == 200, found.text
    ((value, count, margin),) = found.json()["rows"]
    assert value == "tele"
    assert abs(count - 900) <= 4 * margin
    assert found.json()["size"] == desk.vault.size
    again = post(desk, "discover", {"column": "ward", "share": 0.2}, **{"Idempotency-Key": "one"})
    assert again.json() == found.json()
    refined = post(desk, "refine", {"discovered": ["ward"]})
    assert refined.status_code == 200, refined.text
    assert refined.json()["schema"]["attributes"]["ward"]["values"] == ["north", "south", "tele"]
    answer = desk.ask(desk.known("analyst"), query="ward = 'tele'").json()
    assert abs(answer["count"] - 900) <= answer["count_error"]


def test_every_way_to_refine(desk: Office) -> None:
    body = {
        "add": {"ward": ["hospice"]},
        "edges": {"cost": [25, 50.5]},
        "bounds": {"cost": [0, 1000]},
        "attributes": {"dear": {"kind": "numbers", "low": 0, "high": 10, "column": "cost"}},
    }
    refined = post(desk, "refine", body)
    assert refined.status_code == 200, refined.text
    assert refined.json()["fingerprint"] == desk.vault.schema.fingerprint
    assert desk.vault.schema.names == ("ward", "cost", "dear")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("refine", {}, 422),
        ("refine", {"add": {"ward": []}}, 422),
        ("refine", {"add": {"place": ["x"]}}, 422),
        ("refine", {"bounds": {"cost": [0]}}, 422),
        ("refine", {"bounds": {"cost": [10, 20]}}, 422),
        ("refine", {"discovered": ["ward"]}, 422),
        ("refine", {"attributes": {"x": {"kind": "nothing"}}}, 422),
        ("refine", {"more": {}}, 422),
        ("discover", {}, 422),
        ("discover", {"column": "cost"}, 422),
        ("discover", {"column": "ward", "share": 2}, 422),
        ("discover", {"column": "ward", "rows": [5, 5]}, 422),
        ("discover", {"column": "ward", "rows": [0]}, 422),
    ],
)
def test_what_cannot_be_is_refused_and_costs_nothing(desk: Office, path: str, body: Any, status: int) -> None:
    response = post(desk, path, body)
    assert response.status_code == status, response.text
    assert desk.vault.spent == 0
    assert "rare" not in response.text


@pytest.mark.parametrize("path", ["refine", "discover"])
def test_analysts_may_not(desk: Office, path: str) -> None:
    response = post(desk, path, {"column": "ward"}, "analyst")
    assert (response.status_code, response.json()["code"]) == (403, "stewards_only")


# -- the page ----------------------------------------------------------------------------------------------------------


def submit(desk: Office, path: str, **form: str) -> Any:
    return desk.client.post(path, headers=desk.known("steward"), data=form, follow_redirects=False)


def test_the_page_discovers_and_lists(desk: Office) -> None:
    shown = submit(desk, "/schema/discover", attribute="ward", share="20")
    assert shown.status_code == 200
    assert "tele: " in shown.text
    assert "rare" not in shown.text
    assert submit(desk, "/schema", attribute="ward", what="discovered").headers["location"] == "/schema"
    page = desk.client.get("/schema", headers=desk.known("steward")).text
    assert "tele" in page
    assert "Version 2." in page


@pytest.mark.parametrize(
    ("attribute", "what", "value"), [("ward", "add", "hospice"), ("cost", "edges", "25"), ("cost", "bounds", "0:1000")]
)
def test_the_page_refines(desk: Office, attribute: str, what: str, value: str) -> None:
    before = desk.vault.schema
    assert submit(desk, "/schema", attribute=attribute, what=what, value=value).status_code == 303
    assert desk.vault.schema != before


@pytest.mark.parametrize(
    ("attribute", "what", "value"),
    [("ward", "edges", "25"), ("cost", "edges", "much"), ("cost", "bounds", "5"), ("place", "add", "x"), ("", "", "")],
)
def test_the_page_says_why_it_refuses(desk: Office, attribute: str, what: str, value: str) -> None:
    refused = submit(desk, "/schema", attribute=attribute, what=what, value=value)
    assert refused.status_code == 422
    assert "problem" in refused.text
    assert desk.vault.status()["versions"] == 1


def test_the_page_refuses_a_discovery_that_cannot_be(desk: Office) -> None:
    assert submit(desk, "/schema/discover", attribute="ward", share="much").status_code == 422
    assert submit(desk, "/schema/discover", attribute="cost", share="2").status_code == 422


def test_the_page_of_the_schema_is_for_stewards(desk: Office) -> None:
    assert desk.client.get("/schema", headers=desk.known("analyst")).status_code == 403
