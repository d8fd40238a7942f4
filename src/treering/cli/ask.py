"""`treering ask`: queries, as predicates or as SQL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.output import JsonFlag, MechanismName, Output, VaultPath, amount, number, unit, writing

if TYPE_CHECKING:
    from treering.domain.language.sql import Field, ResultTable, Statement
    from treering.domain.query import Query
    from treering.vault.vault import Vault

_EXAMPLES = """Examples:

\b
  treering ask flights.treering "origin = 'JFK' AND delay >= 60"
  treering ask flights.treering "delay IS NULL" --dry-run        the most it could cost, for free
  treering ask flights.treering "delay >= 60" --within 200       pay for no more than ± 200 rows needs
  treering ask flights.treering --sql "SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month"
  treering ask flights.treering --sql "SELECT carrier, AVG(delay), SUM(distance) FROM flights GROUP BY carrier"
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
        str | None,
        typer.Option(metavar="SELECT", help="Counts, sums, averages and quantiles, with WHERE and GROUP BY."),
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
        if dry_run:
            plain = _price(opened, question, statement, mechanism, within)
            out.result(plain, lambda shown: _show_price(shown, plain))
            return
        newest = max(1, opened.size)  # It pays for what earlier rows have paid for before.
        before = opened.left(newest)
        queries = [] if statement is not None else _queries(question, opened)
        answers = opened.ask_many(queries, mechanism, key, within)
        table = None if statement is None else _table(statement, opened, mechanism, key, within)
        cost, left = before - opened.left(newest), opened.total - opened.spent
        costs = {"cost": max(0.0, cost), "remaining": max(0.0, left), "unit": opened.unit}
    if table is not None:
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


def _queries(question: str | None, vault: Vault) -> list[Query]:
    from treering.domain.language.parse import parse

    return [parse(question or "", vault.schema)]


def _by_rings(statement: Statement, vault: Vault, mechanism: str | None) -> bool:
    """Whether a statement is answered by rings, or as a batch of queries by whichever mechanism."""
    kinds = {each["name"]: each["kind"] for each in vault.status()["mechanisms"]}
    return not statement.plain or ("rings" in kinds.values() if mechanism is None else kinds.get(mechanism) == "rings")


def _table(
    statement: Statement, vault: Vault, mechanism: str | None, key: str | None, within: float | None
) -> ResultTable:
    if _by_rings(statement, vault, mechanism):
        return statement.released(vault.release(statement.request, mechanism, key, within))
    return statement.table(vault.ask_many(statement.queries, mechanism, key, within))


# -- what it would cost ------------------------------------------------------------------------------------------------


def _price(
    vault: Vault, question: str | None, statement: Statement | None, mechanism: str | None, within: float | None
) -> dict[str, Any]:
    """The most that asking could cost."""
    if statement is not None and _by_rings(statement, vault, mechanism):
        measures = len(statement.request.measures) * len(list(statement.request.groups()))
        return {"queries": measures, **vault.quote(statement.request, mechanism, within)._asdict()}
    queries = list(statement.queries) if statement is not None else _queries(question, vault)
    return {"queries": len(queries), **vault.price_many(queries, mechanism, within)._asdict()}


def _show_price(out: Output, plain: dict[str, Any]) -> None:
    many = "1 question" if plain["queries"] == 1 else f"{plain['queries']:,} questions"
    most = "nothing" if plain["most"] == 0 else f"{unit(plain['unit'], plain['most'])} at most"
    out.line(f"{many} of {plain['mechanism']}: {most}, of {amount(plain['remaining'])} left. Nothing was asked.")


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
        f"{plain['count']:,} rows ± {plain['count_margin']:,} of {plain['size']:,}  "
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
    out.line(f"Of {plain['size']:,} rows.", "dim")
    for note in plain["notes"]:
        out.line(note, "dim")
    _show_costs(out, costs)


def _written(entry: Field) -> str:
    from treering.answer import Estimate

    if not isinstance(entry, Estimate):
        return "NULL" if entry is None else str(entry)
    if entry.value is None or entry.margin is None:
        return f"unknown ({entry.low:,.4g} to {entry.high:,.4g})"
    if isinstance(entry.value, int):
        return f"{entry.value:,} ± {entry.margin:,}"
    value, low, high = (written(each, entry.margin) for each in (entry.value, entry.low, entry.high))
    if entry.margin > 1.25 * min(entry.value - entry.low, entry.high - entry.value):
        return f"{value} ({low} to {high})"
    return f"{value} ± {written(entry.margin, entry.margin)}"


def written(number: float, margin: float) -> str:
    """A number with as many digits as its margin lets it have: one more than the margin's first.

    >>> written(25.4837, 0.31), written(1234567.8, 4321.0)
    ('25.48', '1,234,600')
    """
    if not math.isfinite(number) or not 0 < margin < math.inf:
        return f"{number:,.6g}"
    digits = 1 - math.floor(math.log10(margin))
    return f"{round(number, digits):,.{max(0, digits)}f}"


def _show_costs(out: Output, costs: dict[str, Any]) -> None:
    paid = "Free" if costs["cost"] == 0 else f"Cost {unit(costs['unit'], costs['cost'])}"
    out.line(f"{paid}; {amount(costs['remaining'])} left.", "dim")
