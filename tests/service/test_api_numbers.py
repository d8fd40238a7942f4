"""Numbers, names and texts that are none: every parameter of every endpoint refuses them with 4xx, and says why."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import treering as tr
from support.office import API, Office, office
from treering.service.auth import PART
from treering.service.wire import CSV, table_bytes

DIGITS = "9" * 5000
NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "1e400",
    "1e309",
    DIGITS,
    f"-{DIGITS}",
    f"0.{DIGITS}",
    "0x10",
    "1_0",
    "٣",
    "",
    " ",
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with office(tmp_path_factory.mktemp("numbers") / "v") as opened:
        yield opened


QUERIES = [
    "ledger?after={}",
    "ledger?limit={}",
    "synthetic?rows={}",
    "synthetic?rows=1&seed={}",
]
BODIES = [
    ("ask", '{{"query": "late = \'no\'", "within": {}}}'),
    ("ask", '{{"query": "month = {}", "dry_run": true}}'),
    ("ask", '{{"sql": "SELECT COUNT(*) FROM t WHERE month < {}", "dry_run": true}}'),
    ("ask", '{{"sql": "SELECT month, COUNT(*) FROM t GROUP BY month LIMIT {}", "dry_run": true}}'),
    *(
        ("plan", f'{{{{"{name}": {{}}}}}}')
        for name in ("cells", "size", "epsilon", "delta", "beta", "queries", "alpha")
    ),
    ("plan", '{{"horizon": {}}}'),
    ("tokens", '{{"name": "x", "lifetime": {}}}'),
    ("tokens", '{{"name": "x", "quota": {{"answers": {}}}}}'),
    ("tokens", '{{"name": "x", "quota": {{"budget": {}}}}}'),
]
FORMS = [
    ("/tokens", "name=x&days={}"),
    ("/tokens", "name=x&answers={}"),
    ("/tokens", "name=x&budget={}"),
    ("/page/ask", "question=late='no'&within={}"),
    ("/page/price", "question=late='no'&within={}"),
]


@pytest.mark.parametrize("path", QUERIES)
def test_parameters(desk: Office, path: str) -> None:
    for number in NUMBERS:
        reply = desk.client.get(f"{API}/{path.format(number)}", headers=desk.known("steward"))
        assert reply.status_code in (200, 422), (path, number[:20], reply.text[:200])


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_bodies(desk: Office, path: str, body: str) -> None:
    headers = {**desk.known("steward"), "Content-Type": "application/json"}
    for number in (*NUMBERS, "NaN", "Infinity", "-Infinity"):
        content = body.format(number).encode()
        reply = desk.client.post(f"{API}/{path}", headers=headers, content=content)
        assert 200 <= reply.status_code < 500, (path, body, number[:20], reply.text[:200])
        if number in ("nan", "NaN", "Infinity", "-Infinity"):
            assert reply.status_code in (400, 422), (body, number)


@pytest.mark.parametrize(("path", "form"), FORMS)
def test_forms(desk: Office, path: str, form: str) -> None:
    headers = {**desk.known("steward"), "Content-Type": "application/x-www-form-urlencoded"}
    for number in NUMBERS:
        reply = desk.client.post(path, headers=headers, content=form.format(number).encode())
        assert 200 <= reply.status_code < 500, (path, form, number[:20], reply.text[:200])
        if path == "/tokens" and number in ("nan", "inf", DIGITS, "1e400"):
            assert reply.status_code == 422, (form, number[:20])


def test_pages(desk: Office) -> None:
    for number in NUMBERS:
        for path in ("/synthetic?rows={}", "/ledger?before={}"):
            reply = desk.client.get(path.format(number), headers=desk.known("steward"))
            assert 200 <= reply.status_code < 500, (path, number[:20])


@pytest.mark.parametrize(
    "encoding",
    ["undefined", "rot13", "hex", "zlib", "bz2", "no-such", "utf-8%00", "idna", "punycode", "mbcs", "x" * 40],
)
def test_encodings(desk: Office, encoding: str) -> None:
    headers = {**desk.known("steward"), "Content-Type": CSV}
    reply = desk.client.post(
        f"{API}/rows?encoding={encoding}", headers=headers, content=b"origin,month,late\nJFK,1,no\n"
    )
    assert reply.status_code in (200, 422), reply.text
    assert reply.status_code == 422 or encoding in ("idna", "punycode")


def test_nothing_of_the_api_is_stored(desk: Office) -> None:
    headers = desk.known("steward")
    for path in ("me", "status", "schema", "ledger", "tokens", "openapi.json", "nowhere"):
        assert desk.client.get(f"{API}/{path}", headers=headers).headers["cache-control"] == "no-store"
    assert desk.client.get(f"{API}/me").headers["cache-control"] == "no-store"
    assert desk.ask(headers, query="late = 'no'").headers["cache-control"] == "no-store"
    assert desk.client.get("/static/page.css").headers["cache-control"] == "no-cache"


def test_a_quota_of_answers_has_a_part_of_the_budget(desk: Office) -> None:
    headers = desk.known("steward")

    def made(**quota: float) -> dict[str, float | None]:
        told = desk.client.post(f"{API}/tokens", headers=headers, json={"name": "x", "quota": quota}).json()["quota"]
        return {name: told[name] for name in ("answers", "budget")}

    assert made(answers=10) == {"answers": 10, "budget": PART}
    assert made(answers=10, budget=1.0) == {"answers": 10, "budget": 1.0}
    assert made(budget=0.5) == {"answers": None, "budget": 0.5}
    assert made() == {"answers": None, "budget": None}
    assert made(answers=0) == {"answers": 0, "budget": None}
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert desk.client.post("/tokens", headers=form, content=b"name=paged&answers=7").status_code == 201
    (token,) = [each for each in desk.desk.register.tokens if each.name == "paged"]
    assert (token.quota.answers, token.quota.budget) == (7, PART)


RISKY = ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "\uff1d1"]


def test_no_cell_of_a_file_is_a_formula() -> None:
    table = pa.table({"=name": [*RISKY, "plain", None], "n": range(-1, len(RISKY) + 1)})
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        content = table_bytes(table.set_column(0, "=name", table.column(0).cast(kind)), CSV).decode()
        head, *rows = csv.reader(io.StringIO(content, newline=""))
        assert head == ["'=name", "n"]
        assert [row[0] for row in rows] == [*(f"'{text}" for text in RISKY), "plain", ""]
        assert rows[0][1] == "-1", "numbers stay numbers"


def test_a_statement_cannot_put_a_formula_into_a_file(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "v", tr.Schema({"a": tr.categories("=cmd()", "b")}), epsilon=1.0) as vault:
        vault.append([{"a": "b"}] * 5000)
        table = vault.sql("SELECT a, '@SUM(A1)' AS \"+x\", COUNT(*) AS n FROM t GROUP BY a")
    content = table_bytes(table, CSV).decode()
    assert all(not cell.startswith(("=", "+", "@")) for row in csv.reader(io.StringIO(content)) for cell in row)
