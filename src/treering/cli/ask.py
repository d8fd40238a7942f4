"""`treering ask`: queries, as predicates or as SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.output import JsonFlag, MechanismName, Output, VaultPath, left, number, unit, writing
from treering.words import counted, readable

if TYPE_CHECKING:
    from treering.domain.language.sql import Field, Statement
    from treering.domain.query import Query
    from treering.vault.vault import Vault

_EXAMPLES = """Examples:

\b
  treering ask flights.treering "origin = 'JFK' AND delay >= 60"
  treering ask flights.treering "delay IS NULL" --dry-run        the most it could cost, for free
  treering ask flights.treering "delay >= 60" --within 200       pay for no more than ± 200 rows needs
  treering ask flights.treering --sql "SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month"
  treering ask flights.treering --sql "SELECT AVG(delay) FROM flights WHERE origin = 'JFK'"
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(ask)


def margin(text: str) -> float:
    """A margin as people type it: rows, or a percentage of them."""
    value = number(text.removesuffix("%"))
    if not text.endswith("%"):
        return value
    if value >= 100:
        raise typer.BadParameter(f"{text} is all rows, or more: a share of them is below 100%")
    return value / 100


def ask(
    vault: VaultPath,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="A predicate: which rows to count.", show_default=False)
    ] = None,
    sql: Annotated[
        str | None, typer.Option(metavar="SELECT", help="COUNT(*) and AVG, with WHERE and GROUP BY.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(parser=margin, metavar="ROWS", help="The margin that is wanted: 200 rows, or 0.1%."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what asking could cost at most: free.")] = False,
    mechanism: MechanismName = None,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A name for this question: asked twice, it is paid for once.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask how many rows match, and get an answer with its error."""
    if (question is None) == (sql is None):
        raise typer.BadParameter("ask one thing: a predicate, or a statement with --sql")
    out = Output(as_json)
    with writing(vault) as opened:
        statement = _statement(sql, opened) if sql is not None else None
        queries = _queries(question, statement, opened)
        if dry_run:
            plain = _price(opened, queries, mechanism, within)
            out.result(plain, lambda shown: _show_price(shown, plain))
            return
        newest = max(1, opened.size)  # It pays for what earlier rows have paid for before.
        before = opened.left(newest)
        answers = opened.ask_many(queries, mechanism, key, within)
        costs = {
            "cost": max(0.0, before - opened.left(newest)),
            "remaining": max(0.0, opened.total - opened.spent),
            **_promise(opened),
        }
    if statement is not None:
        table = statement.table(answers)
        out.result({**table.to_dict(), **costs}, lambda shown: _show_table(shown, table.to_dict(), table.rows, costs))
        return
    (answer,) = answers
    plain = {
        "question": str(queries[0]),
        "value": answer.value,
        "margin": answer.margin,
        "error": answer.error,
        "count": answer.count,
        "count_margin": answer.count_margin,
        "count_error": answer.count_error,
        "size": answer.size,
        "kind": answer.kind,
        **costs,
    }
    out.result(plain, lambda shown: show(shown, plain))


def _statement(sql: str, vault: Vault) -> Statement:
    from treering.domain.language.sql import read_sql

    return read_sql(sql, vault.schema)


def _queries(question: str | None, statement: Statement | None, vault: Vault) -> list[Query]:
    if statement is not None:
        return list(statement.queries)
    from treering.domain.language.parse import parse

    return [parse(question or "", vault.schema)]


# -- what it would cost ------------------------------------------------------------------------------------------------


def _price(vault: Vault, queries: list[Query], mechanism: str | None, within: float | None) -> dict[str, Any]:
    """The most that asking these queries could cost."""
    return {"queries": len(queries), **vault.price_many(queries, mechanism, within)._asdict(), **_promise(vault)}


def _promise(vault: Vault) -> dict[str, Any]:
    """What costs are measured by, and whether there are any more."""
    epsilon = float(vault.promise.epsilon)
    return {"unit": vault.unit, "total": vault.total, "epsilon": epsilon, "settled": vault.settled}


def _show_price(out: Output, plain: dict[str, Any]) -> None:
    most = "nothing" if plain["most"] == 0 else unit(plain["unit"], plain["most"])
    most += "" if plain["exact"] or plain["most"] == 0 else " at most"
    asked = f"{counted(plain['queries'], 'question')} of {plain['mechanism']}"
    out.line(f"{asked} would cost {most}; {left(plain)}.")
    if not plain["enough"]:
        out.line("That may not do for all of them: those that it pays for would be answered.")
    out.line("Nothing was asked.", "dim")


# -- answers -----------------------------------------------------------------------------------------------------------

_KINDS = {
    "easy": "known from earlier answers",
    "hard": "measured, as earlier answers did not tell",
    "measured": "measured",
    "cached": "answered before",
    "synthetic": "from synthetic data",
}


def show(out: Output, plain: dict[str, Any]) -> None:
    """Show one answer."""
    out.line(
        f"{counted(plain['count'], 'row')} ± {plain['count_margin']:,} of {plain['size']:,}  "
        f"({plain['value']:.2%} ± {plain['margin']:.2%})",
        "bold",
    )
    out.line(f"{plain['question']}: {_KINDS[plain['kind']]}.", "dim")
    if plain["count_margin"] < plain["count_error"]:
        out.line(f"± for this answer, with 95%; ± {plain['count_error']:,} for all answers together.", "dim")
    _show_costs(out, plain)


def _show_table(out: Output, plain: dict[str, Any], rows: tuple[tuple[Field, ...], ...], costs: dict[str, Any]) -> None:
    right = [place for place, value in enumerate(plain["rows"][0]) if isinstance(value, dict)]
    out.table(plain["columns"], [[_written(entry) for entry in row] for row in rows], right=right)
    out.line(f"Of {counted(plain['size'], 'row')}.", "dim")
    for note in plain["notes"]:
        out.line(note, "dim")
    _show_costs(out, costs)


def _written(entry: Field) -> str:
    from treering.domain.language.sql import Estimate

    if not isinstance(entry, Estimate):
        return "NULL" if entry is None else str(entry)
    if entry.value is None or entry.error is None:
        return f"unknown ({readable(entry.low)} to {readable(entry.high)})"
    if isinstance(entry.value, int):
        return f"{entry.value:,} ± {entry.error if entry.margin is None else entry.margin:,}"
    return f"{readable(entry.value)} ± {readable(entry.error, 2)}"


def _show_costs(out: Output, costs: dict[str, Any]) -> None:
    paid = "Free" if costs["cost"] == 0 else f"Cost {unit(costs['unit'], costs['cost'])}"
    out.line(f"{paid}; {left(costs)}.", "dim")
