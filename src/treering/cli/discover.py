"""`treering discover`: the values of a column that are not listed, and that enough rows have."""

from __future__ import annotations

from shlex import quote
from typing import Annotated, Any

import typer

from treering.cli.ask import show_table, table_dict
from treering.cli.output import JsonFlag, MechanismName, Output, VaultPath, number, unit, writing
from treering.words import counted

_EXAMPLES = """Examples:

\b
  treering discover clinic.treering ward                     costs all rows 2% of the promise
  treering discover clinic.treering ward --since 80000       costs only the rows after the 80,000th
  treering refine clinic.treering --discovered ward          lists what was found
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(discover)


def discover(
    vault: VaultPath,
    column: Annotated[str, typer.Argument(metavar="NAME", help="An attribute whose list leaves values out.")],
    share: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="What the rows pay, as a share of the promise.")
    ] = 0.02,
    since: Annotated[int, typer.Option(metavar="SIZE", help="Look only at the rows after this size.", min=0)] = 0,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A name for this discovery: twice, it is paid for once.")
    ] = None,
    mechanism: MechanismName = None,
    as_json: JsonFlag = False,
) -> None:
    """Find values that are not listed and that enough rows have.

    Each is told with a noisy count.

    A value that few rows have is never told. The vault must have been made with --discoveries.
    """
    with writing(vault) as opened:
        rows = (since, opened.size) if since else None
        before = opened.left(max(1, opened.size))
        table = opened.discover(column, share, rows, key, mechanism)
        cost = max(0.0, before - opened.left(max(1, opened.size)))
        plain: dict[str, Any] = {**table_dict(table), "cost": cost, "unit": opened.unit, "size": opened.size}

    def show(out: Output) -> None:
        if table.num_rows:
            show_table(out, table)
            out.line(f"Next: treering refine {quote(str(vault))} --discovered {quote(column)}")
        else:
            out.line(f"No value of {column} that is not listed has enough rows to be told.")
        paid = "Free" if cost == 0 else f"Cost {unit(plain['unit'], cost)}"
        out.line(f"{paid}, of {counted(plain['size'], 'row')}.", "dim")

    Output(as_json).result(plain, show)
