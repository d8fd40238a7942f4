"""`treering mcp`: a vault, or a server that has one, as tools for a language model's agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from treering.cli.asking.asked import Place, TokenFile, is_address, token
from treering.cli.output import number, writing
from treering.lazy import missing

if TYPE_CHECKING:
    from treering.agents.desk import Desk

QUOTA: Final = 0.25
"""The part of the promise that an agent may spend, unless another is given."""

_EXAMPLES = """Examples:

\b
  treering mcp flights.treering                                 an agent may spend a quarter of the promise
  treering mcp flights.treering --quota-budget 5% --quota-answers 20
  TREERING_TOKEN=… treering mcp http://127.0.0.1:8765           with the token's own quota
  treering mcp http://127.0.0.1:8765 --token-file token.txt
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(mcp)


def part(text: str) -> float:
    """A part of the promise as people type it: a percentage, or a share."""
    value = number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise typer.BadParameter(f"{text} is no part of the promise, such as 5% or 0.05")
    return value


def mcp(
    vault: Place,
    quota_answers: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="How many paid answers it may have. [default: no limit]", min=0),
    ] = None,
    quota_budget: Annotated[
        float | None, typer.Option(parser=part, metavar="PART", help="The part of the promise to spend. [default: 25%]")
    ] = None,
    token_file: TokenFile = None,
) -> None:
    """Let a language model's agent ask, with a quota.

    It speaks the Model Context Protocol on standard input and output. The agent has an analyst's rights: it sees the
    schema, prices and released answers, and what is left of its quota. With a folder, the quota is for as long as this
    runs, and nobody else can open the vault for writing; with the address of a server, it is the token's, and others
    ask at the same time.
    """
    if find_spec("mcp") is None:
        raise typer.BadParameter(missing("treering mcp", "mcp", "mcp"))
    from treering.agents.tools import server

    with _desk(vault, quota_answers, quota_budget, token_file) as desk:
        server(desk).run()


@contextmanager
def _desk(vault: str, answers: int | None, budget: float | None, token_file: Path | None) -> Iterator[Desk]:
    if is_address(vault):
        if answers is not None or budget is not None:
            raise typer.BadParameter(
                "a server has a quota for each token: --quota-answers and --quota-budget are for folders"
            )
        from treering.agents.desk import ServerDesk
        from treering.client import connect

        with connect(vault, token(token_file)) as client:
            yield ServerDesk(client)
        return
    from treering.agents.desk import VaultDesk

    with writing(Path(vault)) as opened:
        yield VaultDesk(opened, answers, QUOTA if budget is None else budget)
