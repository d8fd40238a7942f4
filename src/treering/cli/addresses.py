"""What of a table's address anybody may see: it is shown, and it stays in the ledger for ever."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urlsplit

import typer

OPTIONS: Final = (
    *("host", "hostaddr", "port", "user", "connect_timeout", "target_session_attrs", "application_name"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "gssencmode", "krbsrvname"),
)
"""The options of a PostgreSQL address that name no secret. Others may: libpq gets new ones with every release."""


def public(address: str) -> str:
    """An address without what may be secret.

    >>> public("postgresql://me:secret@host/air?sslmode=require&oauth_client_secret=hush#flights")
    'postgresql://me@host/air?sslmode=require#flights'
    >>> public("duckdb:///air.duckdb#flights")
    'duckdb:///air.duckdb#flights'
    """
    scheme, mark, rest = address.partition("://")
    if scheme.lower() != "postgresql" or not mark:
        return address
    url = urlsplit(f"postgresql://{rest}")
    user, at, server = url.netloc.rpartition("@")
    options = "&".join(each for each in url.query.split("&") if unquote(each.partition("=")[0]) in OPTIONS)
    query, table = f"?{options}" if options else "", f"#{url.fragment}" if url.fragment else ""
    return f"{scheme}://{user.partition(':')[0]}{at}{server}{url.path.rpartition('@')[2]}{query}{table}"


def check_public(address: str) -> None:
    """Refuse an address that has more in it than anybody may see; what that is, is not shown."""
    try:
        wholly = public(address) == address
    except ValueError:
        return  # It is no address, and whoever reads it will say so.
    if not wholly:
        raise typer.BadParameter(
            "--table is public, and must not hold a password, nor options other than "
            f"{', '.join(OPTIONS)}: PostgreSQL takes a password from PGPASSWORD or from ~/.pgpass"
        )
