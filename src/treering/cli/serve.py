"""`treering serve`: not yet."""

from __future__ import annotations

from typing import Annotated

import typer

from treering.cli.output import VaultPath


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    vault: VaultPath,
    port: Annotated[int, typer.Option(metavar="NUMBER", help="The port to listen on.", min=1, max=65535)] = 8765,
) -> None:
    """Serve a vault over HTTP (comes in a later release).

    Until then `treering ask`, `treering status` and the Python package do the same on the machine that has the vault.
    """
    raise NotYetError(
        f"serving {vault} at port {port} over HTTP comes in a later release; use `treering ask` until then"
    )


class NotYetError(typer.TyperException):
    """Something that a later release will do."""
