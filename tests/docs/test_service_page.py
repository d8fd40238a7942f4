"""Every request of docs/service.md works as printed, and its tables say what the server does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv
from starlette.testclient import TestClient

import treering as tr
from support.markdown import blocks
from support.office import office
from support.repository import ROOT
from treering.service.connections import LONGEST, RESERVED
from treering.service.desk import Limits
from treering.service.events import MOST, MOST_EACH
from treering.service.large import PLACES, SMALL
from treering.service.problems import ERRORS

PAGE = (ROOT / "docs" / "service.md").read_text()
ADDRESS = "http://127.0.0.1:8765"
SCHEMA = tr.Schema(
    {"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12), "delay": tr.bins([0, 15, 60, 99])}
)


def requests() -> list[list[str]]:
    lines = [line for block in blocks(PAGE) if block.info == "sh" for line in block.code.splitlines()]
    return [shlex.split(line) for line in lines]


def send(client: TestClient, words: list[str], token: str) -> Any:
    """What curl would do."""
    assert words[0] == "curl"
    address, *rest = words[1:]
    assert address.startswith(ADDRESS)
    options = list(zip(rest[::2], rest[1::2], strict=True))
    headers = dict(value.replace("$TOKEN", token).split(": ", 1) for name, value in options if name == "-H")
    bodies = [value for name, value in options if name in ("-d", "--data-binary")]
    content = Path(bodies[0][1:]).read_bytes() if bodies and bodies[0].startswith("@") else "".join(bodies)
    return client.request("POST" if bodies else "GET", address.removeprefix(ADDRESS), headers=headers, content=content)


def test_the_requests_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"origin": ["JFK"] * 5000, "month": [1, 2, 3, 4, 5] * 1000, "delay": [5, 20, 70, 90, 1] * 1000})
    csv.write_csv(rows, tmp_path / "february.csv")
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9) as vault:
        vault.append(rows)
    assert len(requests()) >= 12
    with office(tmp_path / "v") as desk:
        token = desk.token("steward")[1]
        told = [send(desk.client, words, token) for words in requests()]
        assert {response.status_code for response in told} == {200, 201}
        fields = set(re.findall(r"`(\w+)`", PAGE.split("The reply has what")[1].split("##")[0])) - {"treering"}
        assert told[0].json().keys() == fields
        assert desk.vault.size == 10_000


def test_every_code_is_on_the_page() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "treering" / "service").rglob("*.py"))
    used = set(re.findall(r'(?:Problem|unauthenticated)\(\s*(?:\d+, )?"(\w+)"', source)) | {
        each.code for each in ERRORS
    }
    said = set(re.findall(r"`(\w+)`", PAGE.split("## Errors")[1].split("## Limits")[0]))
    assert len(used) > 25
    assert used - said == set()


def test_the_limits_are_those_of_the_page() -> None:
    table, limits = PAGE.split("## Limits")[1].split("## On a network")[0], Limits()
    said = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", table.split("\n\n")[1])]
    expected = [limits.body >> 20, limits.upload >> 30, limits.uploads, limits.queries, limits.numbers, limits.rows]
    lines = [limits.page, limits.waiting]
    work = [int(limits.seconds), int(limits.statement), limits.memory >> 30, (limits.memory // PLACES) >> 20]
    tables = [limits.result_rows, limits.result_bytes >> 20, limits.processes]
    ends = [limits.connections, RESERVED, int(limits.heads), LONGEST >> 10, limits.kept, MOST_EACH, MOST]
    assert said == [*expected, *lines, *work, *tables, *ends]
    assert f"{limits.threads} threads" in table
    assert f"{SMALL >> 10} KiB" in table
