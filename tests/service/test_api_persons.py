"""Persons over HTTP, and through the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import treering as tr
from support.clinic import first, matching, patients, vault, visits
from support.office import Office, office
from support.served import serving
from treering.service.access import Register
from treering.service.desk import Desk

FRAME = visits(120)
EYES = "ward = 'eyes'"


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[Office]:
    place = tmp_path / "clinic"
    desk = Desk(vault(place, FRAME), Register(place), np.random.default_rng)
    with office(place, desk) as opened:
        yield opened


def test_persons_and_caps_are_asked_for_in_the_body(clinic: Office) -> None:
    headers = clinic.known("analyst")
    price = clinic.ask(headers, query=EYES, count="persons", dry_run=True).json()
    told = clinic.ask(headers, query=EYES, count="persons").json()
    assert (told["count"], told["size"], told["of"]) == (patients(FRAME, ward="eyes"), 120, "persons")
    assert told["cost"] == pytest.approx(price["most"], rel=1e-9)
    capped = clinic.ask(headers, queries=[EYES], per_person=2).json()["answers"][0]
    assert (capped["count"], capped["of"]) == (
        first(matching(FRAME, ward="eyes"), 2).num_rows,
        "rows, at most 2 of each person",
    )
    table = clinic.ask(headers, sql=f"SELECT COUNT(*) AS n FROM v WHERE {EYES}", per_person=2).json()
    assert table["rows"][0][0] == capped["count"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": EYES, "count": "people"}, 400),
        ({"sql": "SELECT COUNT(*) FROM v", "count": "persons"}, 400),
        ({"query": EYES, "per_person": 31}, 422),
        ({"query": EYES, "per_person": 2.5}, 400),
        ({"sql": "SELECT COUNT(*) FROM v", "per_person": 0}, 422),
    ],
)
def test_rejects_wants_that_say_nothing(body: dict[str, object], status: int, clinic: Office) -> None:
    assert clinic.ask(clinic.known("analyst"), **body).status_code in (status, 422)
    assert clinic.vault.spent == 0


def test_the_client_asks_as_a_vault_does(tmp_path: Path) -> None:
    with serving(vault(tmp_path / "v", FRAME), tmp_path / "v") as served, served.client() as client:
        one = client.ask(EYES, count="persons")
        assert (one, one.of) == (served.vault.ask(EYES, count="persons"), "persons")
        assert client.price(EYES, count="persons") == 0
        assert client.ask_many([EYES], per_person=2) == served.vault.ask_many([EYES], per_person=2)
        text = f"SELECT COUNT(DISTINCT patient) AS n, COUNT(*) AS v FROM v WHERE {EYES}"
        assert client.sql(text, per_person=2).equals(served.vault.sql(text, per_person=2))
        assert client.price_sql(text, per_person=2).most == 0
        with pytest.raises(tr.ParameterError, match="from 1 to 30"):
            client.ask(EYES, per_person=31)
