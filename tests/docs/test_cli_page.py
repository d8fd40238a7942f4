"""Every command of docs/cli.md runs as printed, in order, in a folder that has the files it names."""

from __future__ import annotations

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
