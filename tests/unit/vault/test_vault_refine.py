"""A schema that is refined in the middle of a vault's life: what was released stays, and old rows are seen anew."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import treering as tr

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", other=True),
        "cost": tr.numbers(0, 1000, step=0.5, edges=[0, 100, 500]),
        "day": tr.dates("2024-01-01", "2024-06-30", by="month"),
    }
)
ROWS: list[dict[str, Any]] = [
    {"ward": ["north", "south", "tele"][each % 3], "cost": each % 1500 / 1.0, "day": date(2024, 1 + each % 12, 5)}
    for each in range(6000)
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with tr.Vault.create(tmp_path / "clinic", SCHEMA, epsilon=30.0, delta=1e-6, share=0.6) as vault:
        vault.append(ROWS)
        vault.add("continual", 0.2)
        vault.ask("ward = 'north'", mechanism="rings")
        vault.ask("ward = 'north'", mechanism="continual")
    return tmp_path / "clinic"


def test_old_rows_are_seen_through_the_new_version(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        before, spent = vault.ask("ward = 'north'", mechanism="rings"), vault.spent
        schema = vault.refine(
            add={"ward": ["tele"]}, edges={"cost": [750]}, until={"day": "2024-12-31"}, bounds={"cost": (0, 2000)}
        )
        assert (vault.schema, vault.spent, vault.status()["versions"]) == (schema, spent, 2)
        assert vault.ask("ward = 'north'", mechanism="rings") == before  # bit for bit, and free
        assert vault.price("ward <> 'north'", "rings") == 0 < vault.price("ward = 'tele'", "rings")
        for text, kept in (
            ("ward = 'tele'", lambda row: row["ward"] == "tele"),
            ("cost >= 750", lambda row: row["cost"] >= 750),
            ("day >= '2024-07-01'", lambda row: row["day"] >= date(2024, 7, 1)),
        ):
            answer = vault.ask(text, mechanism="rings")
            assert abs(answer.count - sum(map(kept, ROWS))) <= answer.count_error
        (row,) = vault.sql("SELECT SUM(cost) AS total FROM clinic", mechanism="rings").to_pylist()
        assert abs(row["total"] - sum(row["cost"] for row in ROWS)) <= 4 * row["total_margin"]


def test_a_version_is_on_record(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        schema = vault.refine(add={"ward": ["tele"]})
        first = vault.ask("ward = 'tele'", mechanism="rings")
        vault.append(ROWS[:90])
        second = vault.refine(attributes={"week": tr.dates("2024-01-01", "2024-12-31", by="week", column="day")})
    with tr.Vault.open(place) as vault:
        assert vault.schema == second != schema
        assert vault.ask("ward = 'tele'", mechanism="rings").size == 6090
        assert abs(vault.ask("ward = 'tele'", mechanism="rings").count - first.count) < 100
        assert vault.ask("week <= '2024-02-04'", mechanism="rings").size == 6090
        assert vault.verify()["size"] == 6090
        assert [line["kind"] for line in vault.ledger()].count("refined") == 2
        reader = tr.Vault.read(place)
        assert reader.status()["versions"] == 3


def test_a_mechanism_of_cells_keeps_the_version_that_it_was_opened_with(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        before = vault.ask("ward = 'south'", mechanism="continual")
        asked = tr.parse("ward = 'south'", vault.schema)
        vault.refine(add={"ward": ["tele"]}, edges={"cost": [750]})
        for question in ("ward = 'south'", asked):
            assert vault.ask(question, mechanism="continual") == before
        with pytest.raises(tr.QueryError, match="tells more apart in ward than this mechanism was opened with"):
            vault.ask("ward = 'tele'", mechanism="continual")
        assert vault.ask("ward = 'tele'").kind == "measured"  # rings answer
        vault.append(ROWS[:300])
        assert vault.ask("ward = 'south'", mechanism="continual").size == 6300
        vault.add("pmwg", 0.1, alpha=0.2)
        assert abs(vault.ask("ward = 'tele'", mechanism="pmwg").count - 2100) < 1300
    with tr.Vault.open(place) as vault:
        assert vault.ask("ward = 'south'", mechanism="continual").size == 6300
        assert vault.ask("ward = 'tele'", mechanism="pmwg").size == 6300
        vault.verify()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"add": {"ward": ["north"]}}, "takes each value once"),
        ({"edges": {"cost": [100]}}, "refines nothing"),
        ({"attributes": {"doctor": tr.categories("x", other=True)}}, "no other was kept of earlier rows"),
    ],
)
def test_rejects_what_is_no_refinement_and_changes_nothing(place: Path, change: dict[str, Any], match: str) -> None:
    with tr.Vault.open(place) as vault:
        before = vault.status()
        with pytest.raises(tr.SchemaError, match=match):
            vault.refine(**change)
        assert vault.status() == before
        assert vault.schema == SCHEMA
