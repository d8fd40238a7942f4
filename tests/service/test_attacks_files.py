"""Files of rows that are much larger, deeper or wider than they look, sent by a steward while others ask."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.attacking import Scene, played
from support.office import API, ROWS, SCHEMA
from treering.service.wire import ARROW, CSV, PARQUET

HEAD = b"origin,month,late\n"
LINES = "application/x-ndjson"
SECONDS = 60.0
"""The longest that a file of these is worked on."""


def zipped(start: bytes, filling: bytes) -> bytes:
    """Half a gigabyte of one filling."""
    return gzip.compress(start) + gzip.compress(filling * (2**24 // len(filling))) * 32


def packed(rows: int, **options: bool) -> bytes:
    """A Parquet file in which one long text stands for all rows."""
    sink = io.BytesIO()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 2**20])
    table = pa.table({"origin": text, "month": pa.array([1] * rows), "late": pa.array(["no"] * rows)})
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def nested() -> bytes:
    kind = pa.int64()
    for _ in range(100):
        kind = pa.list_(kind)
    sink = io.BytesIO()
    pq.write_table(pa.table({"origin": ["JFK"], "month": [1], "late": ["no"], "x": pa.array([None], kind)}), sink)
    return sink.getvalue()


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "lines nested deeply": (LINES, lambda: b'{"origin":' + b"[" * 30_000 + b"]" * 30_000 + b"}\n"),
    "objects nested deeply": (LINES, lambda: b'{"origin":' * 30_000 + b"1" + b"}" * 30_000),
    "one line": (LINES, lambda: zipped(b'{"origin": "', b"a")),
    "one field": (CSV, lambda: zipped(HEAD, b"a")),
    "one field in quotes": (CSV, lambda: zipped(HEAD + b'"', b"a\n")),
    "one header": (CSV, lambda: zipped(b"", b"a,")),
    "nothing but lines": (CSV, lambda: zipped(HEAD, b"\n")),
    "many columns": (CSV, lambda: b",".join(b"c%d" % place for place in range(100_000)) + b"\n"),
    "a long number": (CSV, lambda: HEAD + b"JFK," + b"9" * 500_000 + b",no\n"),
    "null characters": (CSV, lambda: HEAD + b"\0" * 1_000_000),
    "a text for all rows": (PARQUET, lambda: packed(2_000)),
    "a text for all rows, untyped": (PARQUET, lambda: packed(2_000, store_schema=False)),
    "lists of lists": (PARQUET, nested),
    "a footer that lies": (PARQUET, lambda: b"PAR1" + bytes(range(256)) * 400 + b"\xff\xff\xff\x7fPAR1"),
    "a length that lies": (ARROW, lambda: b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(range(256)) * 400),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("attacks") / "v", SCHEMA, ROWS) as scene:
        yield scene


def sent(client: httpx.Client, name: str, check: str) -> httpx.Response:
    kind, content = FILES[name]
    data = content()
    coding = {"Content-Encoding": "gzip"} if data.startswith(b"\x1f\x8b") else {}
    return client.post(
        f"{API}/rows",
        params={"check": check, "on_invalid": "drop"},
        content=data,
        headers={"Content-Type": kind, **coding},
        timeout=SECONDS,
    )


def test_files_are_refused_or_read_within_limits(scene: Scene) -> None:
    """No row of them fits, so that what others know stays free."""
    before = scene.probes()
    with scene.attacked(), scene.process.client() as steward:
        for name in FILES:
            for check in ("true", "false"):
                reply = sent(steward, name, check)
                assert reply.status_code == 422 or (reply.status_code == 200 and reply.json()["rows"] == 0), name
    assert scene.probes() == before


def test_encodings_that_are_none_are_refused(scene: Scene) -> None:
    with scene.attacked(), scene.process.client() as steward:
        for encoding in ("undefined", "rot13", "hex", "zlib", "x" * 40):
            reply = steward.post(
                f"{API}/rows", params={"encoding": encoding}, content=HEAD, headers={"Content-Type": CSV}
            )
            assert reply.status_code == 422, encoding
