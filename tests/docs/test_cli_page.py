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

PAGE = ROOT / "docs" / "cli.md"


def commands() -> list[list[str]]:
    lines = [line for block in blocks(PAGE.read_text()) if block.info == "sh" for line in block.code.splitlines()]
    return [shlex.split(line) for line in lines if line.strip()]


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
    parquet.write_table(flights(20_000), tmp_path / "february.parquet")
    for program, *arguments in commands():
        assert program == "treering"
        done = treering(*arguments)
        assert done.code == 0, (arguments, done.err)
        assert done.out
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
    made = ("--schema", "flights.toml", "--epsilon", 8, "--delta", 1e-6, "--alpha", 0.2, "--mechanism", "pmwg")
    learnt = ("--target", "delay >= 15", "--features", "origin,month", "--share", 0.3)
    calls: dict[str, tuple[object, ...]] = {
        "plan": ("plan", "--cells", 1000, "--rows", 100_000, "--epsilon", 1),
        "create": ("create", "v", *made, "--share", 0.7),
        "append": ("append", "v", "january.csv"),
        "ask": ("ask", "v", "month = 1"),
        "ask --dry-run": ("ask", "v", "month = 2", "--dry-run"),
        "ask --sql": ("ask", "v", "--sql", "SELECT COUNT(*) FROM flights"),
        "status": ("status", "v"),
        "ledger": ("ledger", "v", "--tail", 2),
        "train": ("train", "v", *learnt),
        "synth": ("synth", "v", "--rows", 10, "--out", "synthetic.csv"),
        "verify": ("verify", "v"),
        "audit": ("audit", "ATG", "--samples", 200),
    }
    assert documented().keys() == calls.keys()
    for name, arguments in calls.items():
        plain = treering(*arguments, "--json").json
        inner = plain["entries"][0].keys() if name == "ledger" else set()
        assert plain.keys() | inner == documented()[name], name
