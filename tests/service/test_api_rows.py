"""Rows over HTTP: every form, whole or not at all, and nothing of them anywhere else."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from starlette.types import Message

import treering as tr
from support.office import API, Office, desk_of, office
from treering.service.app import make_app
from treering.service.desk import Limits
from treering.service.wire import ARROW, CSV, PARQUET

TABLE = pa.table({"origin": ["JFK", "EWR", "JFK"], "month": [1, 2, 3], "late": ["no", "yes", "no"]})


def written(kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == CSV:
        csv.write_csv(TABLE, sink)
    elif kind == "text/tab-separated-values":
        csv.write_csv(TABLE, sink, csv.WriteOptions(delimiter="\t"))
    elif kind == PARQUET:
        parquet.write_table(TABLE, sink)
    elif kind == ARROW:
        with pa.ipc.new_stream(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    elif kind == "application/vnd.apache.arrow.file":
        with pa.ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    else:
        sink.write(b"".join(json.dumps(row).encode() + b"\n" for row in TABLE.to_pylist()))
    return sink.getvalue()


NOTHING = {"unlisted": 0, "missing": 0, "outside": 0}
CLEAN = dict.fromkeys(TABLE.column_names, NOTHING)
"""What the steward is told of columns whose values are all listed."""

TEXTS = [CSV, "text/tab-separated-values", "application/x-ndjson", "application/jsonl"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with office(tmp_path_factory.mktemp("rows") / "v") as opened:
        yield opened


def send(desk: Office, content: Any, kind: str = CSV, path: str = "", **headers: str) -> Any:
    both = {
        **desk.known("steward"),
        "Content-Type": kind,
        **{name.replace("_", "-"): each for name, each in headers.items()},
    }
    return desk.client.post(f"{API}/rows{path}", headers=both, content=content)


@pytest.mark.parametrize("kind", [*TEXTS, PARQUET, ARROW, "application/vnd.apache.arrow.file"])
def test_every_form(desk: Office, kind: str) -> None:
    size = desk.vault.size
    response = send(desk, written(kind), f"{kind}; charset=utf-8")
    assert response.status_code == 200, response.text
    assert response.json() == {"size": size + 3, "rows": 3, "dropped": 0, "known": False, "columns": CLEAN}
    assert desk.vault.size == size + 3


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_may_be_zipped(desk: Office, kind: str) -> None:
    assert send(desk, gzip.compress(written(kind)), kind, Content_Encoding="gzip").json()["rows"] == 3


def test_a_body_of_unknown_length(desk: Office) -> None:
    content = written(CSV)
    assert send(desk, iter([content[:10], content[10:]])).json()["rows"] == 3


def test_another_delimiter_and_encoding(desk: Office) -> None:
    content = "origin;month;late\nJFK;1;no\n".encode("utf-16")
    assert send(desk, content, path="?delimiter=;&encoding=utf-16").json()["rows"] == 1


def test_a_key_counts_once(desk: Office) -> None:
    size = desk.vault.size
    first = send(desk, written(CSV), Idempotency_Key="may")
    again = send(desk, written(CSV), Idempotency_Key="may")
    assert first.json() == {"size": size + 3, "rows": 3, "dropped": 0, "known": False, "columns": CLEAN}
    assert again.json() == {**first.json(), "known": True, "columns": {}}, "exact counts are kept nowhere"
    assert desk.vault.size == size + 3
    assert send(desk, written(PARQUET), PARQUET, Idempotency_Key="may").json() == again.json(), "the same rows"


@pytest.mark.parametrize("other", [b"JFK,1,no\n", b"JFK,1,no\n" * 3, b"JFK,1,no\n" * 4, b""])
def test_a_key_is_for_the_rows_that_it_was_used_for(desk: Office, other: bytes) -> None:
    send(desk, written(CSV), Idempotency_Key="may")
    size = desk.vault.size
    refused = send(desk, b"origin,month,late\n" + other, Idempotency_Key="may")
    assert (refused.status_code, refused.json()["code"]) == (409, "key_reused")
    assert desk.vault.size == size


BAD = b"origin,month,late\nJFK,1,no\nCANARY8731,2,yes\nJFK,99,no\n"
DROPPED = {"origin": {**NOTHING, "unlisted": 1}, "month": {**NOTHING, "outside": 1}}


def test_rows_that_do_not_fit_refuse_all_and_are_not_quoted(desk: Office, caplog: pytest.LogCaptureFixture) -> None:
    size = desk.vault.size
    response = send(desk, BAD)
    assert (response.status_code, response.json()["code"]) == (422, "bad_rows")
    assert (response.json()["row"], response.json()["column"]) == (1, "origin")
    assert "the body, line 3" in response.json()["detail"]
    assert "CANARY" not in response.text + caplog.text
    assert str(desk.folder) not in response.text
    assert desk.vault.size == size


def test_or_they_are_dropped(desk: Office) -> None:
    size = desk.vault.size
    assert send(desk, BAD, path="?on_invalid=drop").json() == {
        "size": size + 1,
        "rows": 1,
        "dropped": 2,
        "known": False,
        "columns": {**CLEAN, **DROPPED},
    }


def test_a_check_says_what_the_rows_hold_and_takes_nothing(desk: Office) -> None:
    size, entries = desk.vault.size, desk.vault.status()["entries"]
    response = send(desk, written(CSV), path="?check=true")
    assert response.json() == {"size": size, "rows": 3, "dropped": 0, "known": False, "columns": CLEAN}
    assert send(desk, BAD, path="?check=true").status_code == 422
    found = send(desk, BAD, path="?check=true&on_invalid=drop").json()
    assert (found["rows"], found["dropped"], found["columns"]) == (1, 2, {**CLEAN, **DROPPED})
    assert (desk.vault.size, desk.vault.status()["entries"]) == (size, entries)


def test_analysts_may_not_check_rows(desk: Office) -> None:
    headers = {**desk.known("analyst"), "Content-Type": CSV}
    assert desk.client.post(f"{API}/rows?check=true", headers=headers, content=written(CSV)).status_code == 403


@pytest.mark.parametrize(
    ("content", "kind", "headers", "status", "code"),
    [
        (b"", CSV, {}, 422, "bad_rows"),
        (b"\x00\x01\x02", PARQUET, {}, 422, "bad_rows"),
        (b"PAR1 and no more", PARQUET, {}, 422, "bad_rows"),
        (b"no arrow", ARROW, {}, 422, "bad_rows"),
        (b"\xff\xff\xff\xff\x01", ARROW, {}, 422, "bad_rows"),
        (b"{]", "application/x-ndjson", {}, 422, "bad_rows"),
        (b"no zip", CSV, {"Content_Encoding": "gzip"}, 422, "bad_rows"),
        (b"a", "text/html", {}, 415, "unsupported_media_type"),
        (b"a", "", {}, 415, "unsupported_media_type"),
        (b"a", CSV, {"Content_Encoding": "br"}, 415, "unsupported_media_type"),
        (b"a", PARQUET, {"Content_Encoding": "gzip"}, 415, "unsupported_media_type"),
        (b"origin,month,late\n", CSV, {"path": "?on_invalid=maybe"}, 422, "invalid_request"),
        (b"origin,month,late\n", CSV, {"path": "?encoding=klingon"}, 422, "bad_parameter"),
    ],
)
def test_what_is_no_file_of_rows(
    desk: Office, content: bytes, kind: str, headers: dict[str, str], status: int, code: str
) -> None:
    size = desk.vault.size
    response = send(desk, content, kind, **headers)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert desk.vault.size == size


def test_the_file_is_private_and_gone(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    take_in = tr.Vault.take_in

    def looks(vault: tr.Vault, file: tr.RowFile, *more: Any) -> object:
        seen.append((stat.S_IMODE(file.path.stat().st_mode), stat.S_IMODE(file.path.parent.stat().st_mode)))
        return take_in(vault, file, *more)

    monkeypatch.setattr(tr.Vault, "take_in", looks)
    send(desk, written(CSV))
    send(desk, BAD)
    assert seen == [(0o600, 0o700)] * 2
    assert list(desk.desk.uploads.iterdir()) == []


def test_what_a_crash_left_is_removed(tmp_path: Path) -> None:
    with office(tmp_path / "v") as desk:
        send(desk, written(CSV))
        uploads = desk.desk.uploads
    (uploads / "rows-left.csv").write_bytes(written(CSV))
    with office(tmp_path / "v") as desk:
        assert not (uploads / "rows-left.csv").exists()


def test_too_many_at_once(desk: Office) -> None:
    desk.desk.uploads.mkdir(exist_ok=True)
    others = [desk.desk.uploads / f"rows-{number}" for number in range(desk.desk.limits.uploads)]
    for each in others:
        each.touch()
    assert send(desk, written(CSV)).json()["code"] == "too_many_uploads"
    for each in others:
        each.unlink()
    assert send(desk, written(CSV)).status_code == 200


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Office]:
    with office(tmp_path / "v", limits=Limits(upload=1000, silence=0.05, patience=0.5)) as opened:
        yield opened


def test_a_large_file_is_refused(small: Office) -> None:
    content = b"origin,month,late\n" + b"JFK,1,no\n" * 200
    for body in (content, iter([content[:500], content[500:]])):
        response = send(small, body)
        assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
    assert list(small.desk.uploads.iterdir()) == []


@pytest.mark.parametrize("pause", [0.2, 0.03])
def test_a_slow_file_is_refused(tmp_path: Path, pause: float) -> None:
    """Silent for too long, or too long in all: over ASGI itself, as the client of the tests sends all at once."""
    desk = desk_of(tmp_path / "v", limits=Limits(silence=0.1, patience=0.3))
    text = desk.register.issue("s", "steward")[1]
    sent: list[Message] = []

    async def blocks() -> AsyncIterator[Message]:
        yield {"type": "http.request", "body": b"origin,month,late\n", "more_body": True}
        while True:
            await asyncio.sleep(pause)
            yield {"type": "http.request", "body": b"JFK,1,no\n", "more_body": True}

    async def run() -> None:
        coming = blocks()
        headers = [(b"authorization", f"Bearer {text}".encode()), (b"content-type", b"text/csv")]
        scope = {"type": "http", "method": "POST", "path": f"{API}/rows", "query_string": b"", "headers": headers}

        async def send(message: Message) -> None:
            sent.append(message)

        await make_app(desk)({**scope, "asgi": {"version": "3.0"}, "http_version": "1.1"}, coming.__anext__, send)

    size = desk.vault.size
    asyncio.run(run())
    assert sent[0]["status"] == 408
    assert b"too_slow" in sent[1]["body"]
    assert desk.vault.size == size
    assert list(desk.uploads.iterdir()) == []
    desk.close()


def test_rows_that_stay_in_their_engine_are_not_taken_here(tmp_path: Path) -> None:
    import duckdb

    source = tmp_path / "rows.duckdb"
    with duckdb.connect(str(source)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, late VARCHAR); INSERT INTO t VALUES (1, 'no')")
    schema = tr.Schema({"late": tr.categories("no", "yes")})
    tr.Vault.create(tmp_path / "v", schema, epsilon=1.0, table=f"duckdb://{source}#t").close()
    with office(tmp_path / "v") as desk:
        response = send(desk, b"late\nno\n")
        assert (response.status_code, response.json()["code"]) == (409, "rows_elsewhere")
        headers = desk.known("steward")
        assert desk.client.post(f"{API}/refresh", headers=headers).json() == {
            "size": 1,
            "rows": 1,
            "dropped": 0,
            "known": False,
            "columns": {},
        }
        with duckdb.connect(str(source)) as connection:
            connection.execute("INSERT INTO t VALUES (2, 'CANARY8731'), (3, 'yes')")
        refused = desk.client.post(f"{API}/refresh", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_rows")
        assert "CANARY" not in refused.text
        dropped = desk.client.post(f"{API}/refresh?on_invalid=drop", headers=headers)
        assert dropped.json() == {"size": 2, "rows": 1, "dropped": 1, "known": False, "columns": {}}


def test_a_vault_that_keeps_its_rows_has_nothing_to_refresh(desk: Office) -> None:
    response = desk.client.post(f"{API}/refresh", headers=desk.known("steward"))
    assert (response.status_code, response.json()["code"]) == (409, "rows_elsewhere")


def test_a_full_disk_is_said_so(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("treering.service.routes.rows._write", full)
    response = send(desk, written(CSV))
    assert (response.status_code, response.json()["code"]) == (507, "disk_full")
