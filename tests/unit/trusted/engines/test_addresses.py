"""Addresses of tables: what they name, and that none of them can hold a secret."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.engines import histogram
from treering.domain.attribute import categories, integers
from treering.domain.schema import Schema
from treering.errors import EngineError, ParameterError
from treering.trusted.engines import addresses
from treering.trusted.engines.addresses import Address
from treering.trusted.engines.source import Source

SCHEMA = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
SERVER = "postgresql"
FORMS = "must be duckdb:///path/file.duckdb#table"
SECRET = "table must not hold a password, nor options other than host, .*: PostgreSQL takes a password from PGPASSWORD"


def test_what_an_address_names() -> None:
    file = Address.parse("duckdb:///a/../a/a%20b.duckdb#main.flights")
    assert (file.kind, file.path, file.table, file.schema) == ("duckdb", "/a/a b.duckdb", "flights", "main")
    assert Address.parse("duckdb:///a.duckdb#flights").schema is None
    for kind in ("parquet", "csv"):
        files = Address.parse(f"{kind}:///data/flights")
        assert (files.kind, files.path, files.table, files.server) == (kind, "/data/flights", "", {})
    there = Address.parse(f"{SERVER}://m%40e@host:5433/db?sslmode=require&connect_timeout=#public.flights")
    assert (there.kind, there.path, there.table, there.schema) == (SERVER, "db", "flights", "public")
    assert there.server == {
        "port": 5433,
        "host": "host",
        "user": "m@e",
        "sslmode": "require",
        "connect_timeout": "",
    }
    assert Address.parse(f"{SERVER}:///db#flights").server == {"port": None}


@pytest.mark.parametrize(
    ("rest", "match"),
    [
        ("me:pw@host/db#t", SECRET),
        ("me:@host/db#t", SECRET),
        ("me@host/pw@db#t", SECRET),
        ("me@host/db?password=pw#t", SECRET),
        ("me@host/db?sslmode=require&options=pw#t", SECRET),
        ("me@host/db?passfile=#t", SECRET),
        ("me@host:port/db#t", FORMS),
        ("me@host:99999/db#t", FORMS),
        ("me@host/#t", FORMS),
        ("me@host/db", "must name its table behind a #"),
    ],
)
def test_a_server_is_named_without_secrets(rest: str, match: str) -> None:
    with pytest.raises(ParameterError, match=match) as caught:
        Address.parse(f"{SERVER}://{rest}")
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("flights", FORMS),
        ("sqlite:///a#t", FORMS),
        ("ftp:/a", FORMS),
        ("parquet://a/b", "with an absolute path"),
        ("parquet:a", "with an absolute path"),
        ("parquet:///a?b=c", "with an absolute path"),
        *((f"csv:///a/{sign}", "without \\*, \\? and \\[") for sign in ("*", "%3F", "[b]")),
        ("duckdb:///a.duckdb", "must name its table behind a #"),
        ("duckdb:///a.duckdb#", "must name its table behind a #"),
        ("csv:///a#t", "must name its table behind a #, unless it is files"),
    ],
)
def test_what_is_no_address(address: str, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        Address.parse(address)


def test_a_server_needs_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "find_spec", lambda _: None)
    with pytest.raises(EngineError, match="a table in PostgreSQL.*psycopg"):
        Source.of(f"{SERVER}://me@nowhere/db#t", SCHEMA)


def test_files_may_differ_in_how_they_pack_texts_and_in_nothing_else(tmp_path: Path) -> None:
    def write(name: str, **columns: pa.Array) -> None:
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")

    texts = pa.array(["JFK", "EWR"])
    write("a", id=pa.array([1, 2]), origin=texts, month=pa.array([3, 1]))
    write("b", id=pa.array([3, 4]), origin=texts.dictionary_encode(), month=pa.array([3, 1]))
    write("c", id=pa.array([5, 6]), month=pa.array([3, 1]), origin=texts.cast(pa.large_string()))
    assert histogram(Source.of(f"parquet://{tmp_path}", SCHEMA)) == {0: 3, 14: 3}
    write("d", id=pa.array([7, 8]), origin=texts, month=pa.array([3.0, 1.0]))
    with pytest.raises(EngineError, match="differ in the names or types of their columns: 'month'"):
        Source.of(f"parquet://{tmp_path}", SCHEMA)
