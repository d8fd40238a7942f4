"""Every command of docs/cli.md runs as printed, in order, in a folder that has the files it names."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from support.cli import treering
from support.markdown import blocks
from support.repository import ROOT
from treering.cli.main import app
from treering.domain.schema import Schema

INNER = {"ledger": "entries", "append": "files", "erase": "held", "correct": "held"}
"""The commands whose results have lists of results."""

PAGE = ROOT / "docs" / "cli.md"


def commands() -> list[list[str]]:
    """As a shell would read them in this folder."""
    lines = [line for block in blocks(PAGE.read_text()) if block.info == "sh" for line in block.code.splitlines()]
    return [shlex.split(line.replace("$PWD", str(Path.cwd()))) for line in lines if line.strip()]


@pytest.fixture(autouse=True)
def own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which table belongs to which vault is noted for each user: not for this one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def keep_elsewhere(folder: Path, rows: int) -> None:
    """A folder of rows that stay there, with an order column."""
    folder.mkdir()
    parquet.write_table(flights(rows).append_column("id", pa.array(range(rows))), folder / "0.parquet")


def flights(rows: int) -> pa.Table:
    return pa.table(
        {
            "origin": [("JFK", "EWR", "LGA", "BOS")[row % 4] for row in range(rows)],
            "month": [row % 12 + 1 for row in range(rows)],
            "delay": [(-5.0, 3.0, 80.0, None, 20.0)[row % 5] for row in range(rows)],
        }
    )


def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (toml,) = (block.code for block in blocks(PAGE.read_text()) if block.info == "toml")
    Schema.from_dict(tomllib.loads(toml)).save("flights.toml")
    for name in ("january.csv", "march.csv", "public-sample.csv"):
        csv.write_csv(flights(20_000), tmp_path / name)
    parquet.write_table(flights(20_004).slice(4), tmp_path / "february.parquet")  # other rows than January's
    for name, rows in (("visits.csv", range(500)), ("corrected.csv", range(40, 50))):
        csv.write_csv(flights(len(rows)).append_column("visit", pa.array(rows)), tmp_path / name)
    (tmp_path / "requests.txt").write_text("3\n4\n\n")
    keep_elsewhere(tmp_path / "rows", 20_000)
    for program, *arguments in commands():
        assert program == "treering"
        done = treering(*arguments)
        assert done.code == 0, (arguments, done.err)
        assert done.out
    assert treering("status", "elsewhere.treering", "--json").json["size"] == 20_000
    assert (tmp_path / "plan.svg").exists()
    assert (tmp_path / "synthetic.parquet").exists()


def test_every_command_is_on_the_page() -> None:
    names = {command.callback.__name__ for command in app.registered_commands if command.callback is not None}
    assert len(names) >= 12
    text = PAGE.read_text()
    assert [name for name in sorted(names) if f"`{name}`" not in text and f"treering {name}" not in text] == []


def documented() -> dict[str, set[str]]:
    """The fields of each command's JSON, from the table at the end of the page."""
    table = PAGE.read_text().split("## What `--json` has")[1]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    return {name.strip().strip("`"): set(re.findall(r"`(\w+)`", fields)) for name, fields in rows}


def test_the_json_of_every_command_has_the_documented_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (toml,) = (block.code for block in blocks(PAGE.read_text()) if block.info == "toml")
    Schema.from_dict(tomllib.loads(toml)).save("flights.toml")
    csv.write_csv(flights(20_000), tmp_path / "january.csv")
    keep_elsewhere(tmp_path / "rows", 100)
    elsewhere = ("--schema", "flights.toml", "--epsilon", 1, "--table", f"parquet://{tmp_path}/rows")
    assert treering("create", "e", *elsewhere).code == 0
    keyed = ("--schema", "flights.toml", "--epsilon", 8, "--delta", 1e-6, "--key", "visit")
    csv.write_csv(flights(20_000).append_column("visit", pa.array(range(20_000))), tmp_path / "visits.csv")
    csv.write_csv(flights(9).append_column("visit", pa.array(range(9))), tmp_path / "corrected.csv")
    prepared: list[tuple[object, ...]] = [
        ("create", "u", *keyed),
        ("append", "u", "visits.csv"),
        ("ask", "u", "month = 1"),
    ]
    for arguments in prepared:
        assert treering(*arguments).code == 0
    assert (
        treering("create", "d", "--schema", "flights.toml", "--epsilon", 8, "--delta", 1e-6, "--discoveries").code == 0
    )
    assert treering("append", "d", "january.csv").code == 0
    made = ("--schema", "flights.toml", "--epsilon", 8, "--delta", 1e-6, "--alpha", 0.2, "--mechanism", "pmwg")
    learnt = ("--target", "delay >= 15", "--features", "origin,month", "--share", 0.3)
    calls: dict[str, tuple[object, ...]] = {
        "plan": ("plan", "--cells", 1000, "--rows", 100_000, "--epsilon", 1),
        "create": ("create", "v", *made, "--share", 0.7),
        "create --infer": ("create", "w", "--infer", "january.csv"),
        "append": ("append", "v", "january.csv"),
        "discover": ("discover", "d", "origin"),
        "refine": ("refine", "e", "--add", "origin=BOS"),
        "refresh": ("refresh", "e"),
        "erase": ("erase", "u", 17, 18),
        "correct": ("correct", "u", "corrected.csv"),
        "ask": ("ask", "v", "month = 1"),
        "ask --dry-run": ("ask", "v", "month = 2", "--dry-run"),
        "ask --sql": ("ask", "v", "--sql", "SELECT COUNT(*) FROM v"),
        "publish": ("publish", "v", "--to", "csv:///out", "--table", "n=SELECT COUNT(*) AS n FROM t"),
        "status": ("status", "v"),
        "ledger": ("ledger", "v", "--tail", 2),
        "train": ("train", "v", *learnt),
        "synth": ("synth", "v", "--rows", 10, "--out", "synthetic.csv"),
        "report": ("report", "v", "--out", "report.html"),
        "verify": ("verify", "v"),
        "audit": ("audit", "ATG", "--samples", 200),
    }
    assert documented().keys() == calls.keys()
    for name, arguments in calls.items():
        plain = treering(*arguments, "--json").json
        inner = plain[INNER[name]][0].keys() if name in INNER else set()
        assert plain.keys() | inner == documented()[name], name
