"""Erasing and correcting over HTTP: for stewards, all of a request or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import treering as tr
from support.office import API, Office, office
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"ward": tr.categories("north", "south")})


@pytest.fixture
def desk(tmp_path: Any) -> Iterator[Office]:
    with Vault.create(tmp_path / "v", SCHEMA, 1e9, 1e-6, key="visit", person="who", rows_per_person=2) as vault:
        vault.append([{"visit": n, "who": f"p{n // 2}", "ward": "north" if n % 2 else "south"} for n in range(100)])
        vault.ask("ward = 'north'")
    with office(tmp_path / "v") as opened:
        yield opened


def erase(desk: Office, **sent: Any) -> Any:
    return desk.client.post(f"{API}/rows/erase", json=sent, headers=desk.known("steward"))


def test_rows_are_erased_and_corrected(desk: Office) -> None:
    dry = erase(desk, keys=[3, "5"], dry_run=True).json()
    assert (dry["rows"], dry["size"], dry["done"], dry["held"][0]["rows"]) == (2, 98, False, 2)
    assert erase(desk, keys=[3, "5"]).json() == {**dry, "done": True}
    assert erase(desk, persons=["p10"], end=True).json()["size"] == 96
    body = b"visit,ward\n7,south\n9,south\n"
    sent: Any = {"content": body, "headers": {"Content-Type": "text/csv", **desk.known("steward")}}
    assert desk.client.post(f"{API}/rows/correct?dry_run=true", **sent).json()["rows"] == 2
    assert desk.client.post(f"{API}/rows/correct", **sent).json()["done"] is True
    asked = desk.ask(desk.known("analyst"), query="ward = 'north'").json()
    assert (asked["count"], asked["size"]) == (50 - 2 - 1 - 2, 96)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"keys": [900]}, 422),
        ({"keys": [3, 3]}, 422),
        ({"keys": []}, 422),
        ({}, 422),
        ({"keys": [1], "persons": ["p1"]}, 422),
        ({"keys": [1], "all": True}, 422),
        ({"keys": [1.5]}, 422),
    ],
)
def test_rejects_what_names_no_rows(desk: Office, sent: dict[str, Any], status: int) -> None:
    reply = erase(desk, **sent)
    assert reply.status_code == status, reply.text
    assert "900" not in reply.text
    assert desk.vault.size == 100


def test_rejects_analysts(desk: Office) -> None:
    for path in ("rows/erase", "rows/correct"):
        reply = desk.client.post(f"{API}/{path}", json={"keys": [1]}, headers=desk.known("analyst"))
        assert reply.status_code == 403
    assert desk.vault.size == 100
