"""`treering publish`: tables from options and from a file, the price before, refusals in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import csv

import treering as tr
from support.cli import treering

SCHEMA = tr.Schema({"ward": tr.categories("north", "south"), "month": tr.integers(1, 12)})
BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits WHERE month = 3 GROUP BY ward ORDER BY ward"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    path = tmp_path / "visits.treering"
    with tr.Vault.create(path, SCHEMA, epsilon=4.0, delta=1e-6) as opened:
        opened.append([{"ward": "north", "month": row % 12 + 1} for row in range(2400)])
    return path


def test_tables_are_published_at_the_price_that_was_shown(vault: Path, tmp_path: Path) -> None:
    (tmp_path / "tables.toml").write_text(f'by_ward = "{BY_WARD}"\n')
    to = ("--to", f"csv:///{tmp_path / 'out'}")
    options = (*to, "--tables", tmp_path / "tables.toml", "--table", "months=SELECT month, COUNT(*) FROM t GROUP BY 1")
    dry = treering("publish", vault, *options, "--dry-run")
    assert "would cost rho" in dry.out
    assert "Nothing was asked or written" in dry.out
    assert not (tmp_path / "out").exists()
    price = treering("publish", vault, *options, "--dry-run", "--json").json["most"]
    made = treering("publish", vault, *options, "--json").json
    assert made["tables"] == {"by_ward": 2, "months": 12}
    assert made["cost"] == pytest.approx(price)
    again = treering("publish", vault, *options)
    assert "by_ward: 2 rows." in again.out
    assert "cost nothing" in again.out
    columns = ["ward", "n", "n_margin", "n_low", "n_high"]
    assert csv.read_csv(tmp_path / "out" / "current" / "by_ward.csv").column_names == columns


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "must name a table"),
        (("--table", "SELECT 1"), "must name a table|letters, digits|another table"),
        (("--table", f"a={BY_WARD}", "--table", f"a={BY_WARD}"), "another table"),
        (("--table", "a=SELECT * FROM t"), "rows are private"),
    ],
)
def test_rejects_tables_that_are_none(options: tuple[str, ...], said: str, vault: Path, tmp_path: Path) -> None:
    done = treering("publish", vault, "--to", f"csv:///{tmp_path / 'out'}", *options)
    assert done.code == 2
    assert any(each in done.err for each in said.split("|"))


def test_rejects_tables_in_a_file_that_is_none(vault: Path, tmp_path: Path) -> None:
    for text in ("a = 1", "nothing at all"):
        (tmp_path / "tables.toml").write_text(text)
        done = treering("publish", vault, "--to", "csv:///out", "--tables", tmp_path / "tables.toml")
        assert done.code == 2


def test_rejects_to_with_a_password(vault: Path) -> None:
    done = treering("publish", vault, "--to", "postgresql://me:secret@host/db", "--table", f"a={BY_WARD}")
    assert done.code == 2
    assert "PGPASSWORD" in done.err
    assert "secret" not in done.err
