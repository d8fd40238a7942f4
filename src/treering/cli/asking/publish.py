"""`treering publish`: results as tables of a real database, for tools that read those."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.asking.asked import margin
from treering.cli.output import JsonFlag, MechanismName, Output, VaultPath, unit, writing
from treering.words import counted

if TYPE_CHECKING:
    from treering.vault.publishing import Published

_EXAMPLES = """Examples:

\b
  treering publish flights.treering --to duckdb:///out.duckdb --table n="SELECT month, COUNT(*) AS n FROM t GROUP BY 1"
  treering publish flights.treering --to postgresql://me@host/reports --tables tables.toml
  treering publish flights.treering --to csv:///out --tables tables.toml --dry-run       what it costs, for free

\b
A file of tables has one to a line: by_month = "SELECT month, COUNT(*) AS n FROM t GROUP BY month"
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(publish)


def publish(
    vault: VaultPath,
    to: Annotated[
        str, typer.Option(metavar="ADDRESS", help="duckdb:///FILE, postgresql://…, parquet:///FOLDER or csv:///FOLDER.")
    ],
    table: Annotated[list[str] | None, typer.Option(metavar="NAME=SELECT", help="A table.")] = None,
    tables: Annotated[
        Path | None, typer.Option(metavar="TABLES.toml", help="A file of tables.", exists=True, dir_okay=False)
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(parser=margin, metavar="ROWS", help="The margin that is wanted: 200 rows, or 0.1%."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it costs: free.")] = False,
    mechanism: MechanismName = None,
    as_json: JsonFlag = False,
) -> None:
    """Put results, as tables, into a database or a folder.

    Each number has its margin, low and high beside it, and treering_notes says what the tables are. Run it again when
    rows have come: the new tables replace the old ones, all or none. Only released numbers leave. Passwords come from
    PGPASSWORD or PostgreSQL's password file.
    """
    statements = {**_written(tables), **_given(table)}
    with writing(vault) as opened:
        made = opened.publish(to, statements, within, mechanism, dry_run=dry_run)
        plain = {
            "to": to,
            "tables": {name: each.num_rows for name, each in made.tables.items()},
            "most": made.price.most,
            "cost": made.cost,
            "unit": opened.unit,
            "size": opened.size,
        }
    Output(as_json).result(plain, lambda out: _show(out, made, plain))


def _show(out: Output, made: Published, plain: dict[str, Any]) -> None:
    if not made.tables:
        price = made.price
        out.line(f"It would cost {unit(price.unit, price.most)} at most." if price.most else "It would cost nothing.")
        out.line("Nothing was asked or written.", "dim")
        return
    for name, each in made.tables.items():
        out.line(f"{name}: {counted(each.num_rows, 'row')}.")
    cost = unit(plain["unit"], plain["cost"]) if plain["cost"] else "nothing"
    out.line(f"Published to {plain['to']}, of {counted(plain['size'], 'row')}; cost {cost}.", "dim")


def _given(options: Sequence[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in options or ():
        name, sign, statement = each.partition("=")
        if not sign or name in found:
            raise typer.BadParameter(f"{each[:60]!r} should be the name of another table, =, and a SELECT")
        found[name] = statement
    return found


def _written(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} is no file of tables: {error}") from None
    if not all(isinstance(each, str) for each in found.values()):
        raise typer.BadParameter(f'{path} should have lines NAME = "SELECT …" only')
    return found
