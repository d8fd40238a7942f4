"""`treering serve` and `treering token`: a vault over HTTP, and the tokens of those who may use it."""

from __future__ import annotations

import ipaddress
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.output import JsonFlag, Output, VaultPath, check_vault, number, warn

if TYPE_CHECKING:
    from treering.service.access import Register
    from treering.service.auth import Token

_SERVE_EXAMPLES = """Examples:

\b
  treering serve flights.treering                                    at http://127.0.0.1:8765
  treering serve flights.treering --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
"""
_TOKEN_EXAMPLES = """Examples:

\b
  treering token new flights.treering --name ada --role analyst --answers 100 --budget 0.05 --days 90
  treering token list flights.treering
  treering token revoke flights.treering 3f9a2c51d0e7
"""

DAY = 86400.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_SERVE_EXAMPLES)(serve)
    tokens = typer.Typer(help="Make, list and revoke tokens, while no server runs.", epilog=_TOKEN_EXAMPLES)
    tokens.command("new", epilog=_TOKEN_EXAMPLES)(new)
    tokens.command("list")(listed)
    tokens.command("revoke")(revoke)
    app.add_typer(tokens, name="token")


def serve(
    vault: VaultPath,
    port: Annotated[int, typer.Option(metavar="NUMBER", help="The port to listen on.", min=0, max=65535)] = 8765,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate chain, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's private key.")] = None,
    insecure_bind: Annotated[
        bool, typer.Option("--insecure-bind", help="Listen at other than loopback without TLS: tokens can be read.")
    ] = False,
    access_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where a line for each request goes. [default: stderr]")
    ] = None,
    seconds: Annotated[
        float, typer.Option(parser=number, metavar="SECONDS", help="The longest that a request is worked on.")
    ] = 30.0,
    statement_seconds: Annotated[
        float, typer.Option(parser=number, metavar="SECONDS", help="The longest that a statement is worked out.")
    ] = 10.0,
    memory: Annotated[
        int, typer.Option(metavar="MIB", help="Memory for working out one statement.", min=64, max=2**20)
    ] = 1024,
    result_rows: Annotated[
        int, typer.Option(metavar="ROWS", help="The longest table of a statement.", min=1, max=10**8)
    ] = 500_000,
    result_size: Annotated[
        int, typer.Option(metavar="MIB", help="The largest table of a statement.", min=1, max=2**12)
    ] = 16,
    processes: Annotated[
        int, typer.Option(metavar="NUMBER", help="Statements that are worked out at a time.", min=1, max=256)
    ] = 2,
    connections: Annotated[
        int, typer.Option(metavar="NUMBER", help="The most connections at a time.", min=1, max=100_000)
    ] = 256,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy on this machine speaks TLS: cookies are for TLS only.")
    ] = False,
) -> None:
    """Serve a vault over HTTP, to people and programs.

    An API for programs is at /api/v1, a page for people at /. The first start makes a steward's token, and shows it
    once.
    """
    check_vault(vault)
    check_binding(host, tls_cert, tls_key, insecure_bind)
    _needs("treering serve")
    _log_to(access_log)
    from numpy.random import default_rng

    from treering.service.desk import Limits
    from treering.service.run import run

    for name, value in (("--seconds", seconds), ("--statement-seconds", statement_seconds)):
        if not 0 < value <= 86400:
            raise typer.BadParameter(f"{name} must be above 0, and a day at most")
    limits = Limits(
        seconds=seconds,
        statement=statement_seconds,
        memory=memory * 2**20,
        result_rows=result_rows,
        result_bytes=result_size * 2**20,
        processes=processes,
        connections=connections,
    )
    tls = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
    secure = behind_proxy or tls is not None
    run(vault, host, port, tls, secure=secure, generator=default_rng, say=_say, limits=limits)


def _say(text: str) -> None:
    warn(f"treering: {text}")


def check_binding(host: str, cert: Path | None, key: Path | None, insecure: bool) -> None:
    """Refuse to send tokens over a network in the clear, unless that was asked for."""
    if (cert is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key go together")
    for each in (cert, key):
        if each is not None and not each.is_file():
            raise typer.BadParameter(f"there is no file {each}")
    if cert is None and not insecure and not _loopback(host):
        raise typer.BadParameter(
            f"{host} is not this machine alone, and without TLS anyone on the way could read the tokens: give "
            "--tls-cert and --tls-key, or --insecure-bind if something else protects the network"
        )


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _needs(what: str) -> None:
    """Refuse, with the extra to install, if what serves HTTP is not there."""
    from importlib.util import find_spec

    from treering.lazy import missing

    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise typer.BadParameter(missing(what, package, "server"))


def _log_to(file: Path | None) -> None:
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
        handler = WatchedFileHandler(file, encoding="utf-8")  # Also after it was rotated.
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name in ("treering.access", "treering.failures"):
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(handler)


# -- tokens ------------------------------------------------------------------------------------------------------------


def new(
    vault: VaultPath,
    name: Annotated[str, typer.Option(metavar="TEXT", help="Whose it is.")],
    role: Annotated[str, typer.Option(metavar="analyst|steward", help="What it may do.")] = "analyst",
    answers: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The most charged answers a week.", min=0)
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            parser=number, metavar="PART", help="The largest part of the budget a week. [default: 0.05 with --answers]"
        ),
    ] = None,
    days: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="Days until it expires. [default: never]")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a token. It is shown once."""
    with _opened(vault) as register:
        from treering.service.auth import quota_of

        lifetime = None if days is None else days * DAY
        token, text = register.issue(name, role, lifetime, quota_of(answers, budget))
    plain = {**_plain(token), "token": text}
    Output(as_json).result(plain, lambda out: out.line(text))
    if not as_json:
        warn(f"This is the only time that the token of {name} ({role}) is shown.")


def listed(vault: VaultPath, as_json: JsonFlag = False) -> None:
    """List the tokens."""
    with _opened(vault) as register:
        plain = [_plain(each) for each in register.tokens]
    heads = ["id", "name", "role", "created", "expires", "revoked"]
    rows = [[str(each[head] or "") for head in heads] for each in plain]
    Output(as_json).result({"tokens": plain}, lambda out: out.table(heads, rows))


def revoke(
    vault: VaultPath,
    token: Annotated[str, typer.Argument(metavar="ID", help="The token's id.")],
    as_json: JsonFlag = False,
) -> None:
    """Revoke a token."""
    with _opened(vault) as register:
        if not register.revoke(token):
            raise typer.BadParameter(f"there is no token {token}, or it was revoked before")
    Output(as_json).result({"revoked": token}, lambda out: out.line(f"{token} is revoked."))


@contextmanager
def _opened(vault: Path) -> Iterator[Register]:
    check_vault(vault)
    _needs("treering token")
    from treering.service.access import Register
    from treering.vault.reader import VaultReader

    VaultReader(vault)  # refuses what is no vault
    register = Register(vault)
    try:
        yield register
    finally:
        register.close()


def _plain(token: Token) -> dict[str, Any]:
    from treering.service.wire import stamp

    times = {name: stamp(getattr(token, name)) for name in ("created", "expires", "revoked")}
    return {"id": token.id, "name": token.name, "role": token.role, **times, "quota": token.quota.to_dict()}
