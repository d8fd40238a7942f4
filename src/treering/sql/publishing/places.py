"""Where released tables go, by address; a refresh is whole or absent there, however the process ends.

    duckdb:///path/file.duckdb                   (duckdb:////path is absolute, as in SQLAlchemy)
    postgresql://user@host:port/database         (#schema behind it for another schema than public)
    parquet:///folder, csv:///folder             a folder of its own, whose ``current`` has a file for each table

No address holds a password: PostgreSQL takes it from PGPASSWORD or its password file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from treering.errors import ParameterError

FORMS: Final = "duckdb:///file.duckdb, postgresql://user@host/database, parquet:///folder or csv:///folder"


class Place(Protocol):
    """Where tables are published."""

    def check(self, names: Sequence[str]) -> None:
        """Refuse, before anything is charged, a place that cannot be written, or has tables of these names that were
        not published there."""

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """Put these tables, of which one is that of the notes, in the place of all that were published before."""


def place_of(address: str) -> Place:
    """The place at an address; what it needs is loaded now."""
    try:
        url = urlsplit(address)
        secret = url.password is not None or "password" in dict(parse_qsl(url.query))
    except (ValueError, TypeError, AttributeError):
        raise ParameterError("address", f"must be {FORMS}") from None
    if secret:
        raise ParameterError("address", "must hold no password: set PGPASSWORD, or use PostgreSQL's password file")
    if url.scheme == "postgresql":
        from treering.sql.publishing.postgresql import PostgreSQL

        return PostgreSQL(url._replace(fragment="").geturl(), unquote(url.fragment) or "public")
    path = unquote(url.path).removeprefix("/")
    if url.scheme not in ("duckdb", "parquet", "csv") or url.netloc or url.query or url.fragment or not path:
        raise ParameterError("address", f"must be {FORMS}")
    if not Path(path).absolute().parent.is_dir():
        raise ParameterError("address", f"is in no folder that exists: {path!r} (an absolute path has four slashes)")
    if url.scheme == "duckdb":
        from treering.sql.publishing.duckdb import DuckDB

        return DuckDB(Path(path))
    from treering.sql.publishing.folder import Folder

    return Folder(Path(path), url.scheme)
