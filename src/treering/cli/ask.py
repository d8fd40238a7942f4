"""`treering ask`: queries, as predicates or as SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.asking.asked import Asked, Place, TokenFile, asking, margin
from treering.cli.output import JsonFlag, MechanismName, Output, left, unit
from treering.sql.opening import opening
from treering.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.domain.language.wants import Wants

_EXAMPLES = """Examples:

\b
  treering ask flights.treering "origin = 'JFK' AND delay >= 60"
  treering ask flights.treering "delay IS NULL" --dry-run        what it costs, for free
  treering ask clinic.treering "ward = 'surgery'" --persons      how many patients, not visits
  treering ask flights.treering "delay >= 60" --within 200       pay for no more than ± 200 rows needs
  treering ask flights.treering --sql "SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month"
  treering ask flights.treering --sql "SELECT carrier, AVG(delay), SUM(distance) FROM flights GROUP BY carrier"
  TREERING_TOKEN=… treering ask http://127.0.0.1:8765 "delay >= 60"       a vault that a server has open
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(ask)


def ask(
    vault: Place,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="A predicate: which rows to count.", show_default=False)
    ] = None,
    sql: Annotated[
        str | None, typer.Option(metavar="SELECT", help="Counts, sums, averages and quantiles: a table.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(parser=margin, metavar="ROWS", help="The margin that is wanted: 200 rows, or 0.1%."),
    ] = None,
    persons: Annotated[
        bool, typer.Option("--persons", help="Count persons, not rows (in SQL: COUNT(DISTINCT person)).")
    ] = False,
    per_person: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Count at most so many rows of each person.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what asking costs: free.")] = False,
    mechanism: MechanismName = None,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A name for this question: asked twice, it is paid for once.")
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only guess, from earlier answers: free, without a bound.")
    ] = False,
    token_file: TokenFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask how many rows match, and get an answer with its error."""
    if (question is None) == (sql is None):
        raise typer.BadParameter("ask one thing: a predicate, or a statement with --sql")
    if sql is not None and key is not None:
        raise typer.BadParameter("a --key is for predicates: a statement asked again is free until rows come")
    if sql is not None and persons:
        raise typer.BadParameter("--persons is for predicates: a statement counts them by COUNT(DISTINCT person)")
    alone = (
        question is not None and not (dry_run or persons) and all(each is None for each in (within, key, per_person))
    )
    if estimate and not alone:
        raise typer.BadParameter("--estimate goes with a predicate alone")
    from treering.domain.language.wants import Wants

    out, wants = Output(as_json), Wants("persons" if persons else "rows", per_person)
    with asking(vault, token_file) as asked:
        if estimate:
            _guess(out, asked, question or "", mechanism)
        elif dry_run:
            plain = asked.price(question, sql, mechanism, within, wants)
            out.result(plain, lambda shown: _show_price(shown, plain))
        elif sql is not None:
            _ask_table(out, asked, sql, mechanism, within, per_person)
        else:
            _ask_one(out, asked, question or "", mechanism, key, within, wants)


def _ask_one(
    out: Output,
    asked: Asked,
    question: str,
    mechanism: str | None,
    key: str | None,
    within: float | None,
    wants: Wants,
) -> None:
    read, answer, costs = asked.ask(question, mechanism, key, within, wants)
    plain = {"question": read, **answer.to_dict(), **costs}
    out.result(plain, lambda shown: show(shown, plain))


def _guess(out: Output, asked: Asked, question: str, mechanism: str | None) -> None:
    read, answer = asked.guess(question, mechanism)
    plain = {"question": read, **answer.to_dict()}
    out.result(
        plain,
        lambda shown: shown.line(
            f"About {answer.count:,} of {answer.size:,} rows ({answer.value:.2%}), guessed from earlier answers: free, "
            "and without a bound"
        ),
    )


def _ask_table(
    out: Output, asked: Asked, sql: str, mechanism: str | None, within: float | None, per_person: int | None
) -> None:
    table, size, costs = asked.table(sql, mechanism, within, per_person)
    listed = {**table_dict(table), "size": size, **costs}
    explained = opening(sql).explain
    out.result(listed, lambda shown: (_show_plan if explained else _show_table)(shown, table, listed))


# -- what it would cost ------------------------------------------------------------------------------------------------


def _show_price(out: Output, plain: dict[str, Any]) -> None:
    most = "nothing" if plain["most"] == 0 else unit(plain["unit"], plain["most"])
    most += "" if plain["exact"] or plain["most"] == 0 else " at most"
    out.line(f"{plain['mechanism']} would cost {most}; {left(plain)}.")
    if not plain["enough"]:
        out.line("That may not do for all of it: what it pays for would be answered.")
    out.line("Nothing was asked.", "dim")


# -- answers -----------------------------------------------------------------------------------------------------------

_KINDS = {
    "easy": "known from earlier answers",
    "hard": "measured, as earlier answers did not tell",
    "measured": "measured",
    "cached": "answered before",
    "synthetic": "from synthetic data",
}


def _counted(plain: dict[str, Any]) -> str:
    """A number of what an answer counts."""
    if plain["of"] in ("rows", "persons"):
        return counted(plain["count"], str(plain["of"]).removesuffix("s"))
    return f"{plain['count']:,} {plain['of']}"


def show(out: Output, plain: dict[str, Any]) -> None:
    """Show one answer."""
    out.line(
        f"{_counted(plain)} ± {plain['count_margin']:,} of {plain['size']:,}  "
        f"({plain['value']:.2%} ± {plain['margin']:.2%})",
        "bold",
    )
    out.line(f"{plain['question']}: {_KINDS[plain['kind']]}.", "dim")
    if plain["count_margin"] < plain["count_error"]:
        out.line(f"± for this answer, with 95%; ± {plain['count_error']:,} for all answers together.", "dim")
    _show_costs(out, plain)


def show_table(out: Output, table: pa.Table) -> None:
    """Show a released table, each number together with its margin."""
    from treering.shown import written

    heads, rows, right = written(table)
    out.table(heads, rows, right=right)


def show_notes(out: Output, table: pa.Table) -> None:
    """Show what a reader of a released table should know."""
    from treering.shown import notes

    for note in notes(table):
        out.line(note, "dim")


def table_dict(table: pa.Table) -> dict[str, Any]:
    """A released table as plain values; dates are texts."""
    from treering.shown import notes, plain_value

    columns = [[plain_value(value) for value in column.to_pylist()] for column in table.columns]
    listed = [list(row) for row in zip(*columns, strict=True)]
    return {"columns": table.column_names, "rows": listed, "notes": notes(table)}


def _show_table(out: Output, table: pa.Table, plain: dict[str, Any]) -> None:
    from treering.shown import holding

    show_table(out, table)
    show_notes(out, table)
    out.line(f"Of {counted(plain['size'], 'row')}; ± for {holding(table)}, with 95%.", "dim")
    _show_costs(out, plain)


def _show_plan(out: Output, table: pa.Table, plain: dict[str, Any]) -> None:
    """What EXPLAIN says."""
    show_table(out, table)
    price = unit(table["unit"][0].as_py(), table["price"][0].as_py())
    out.line(f"Nothing was asked or charged: asking would cost {price} at most; {left(plain)}.", "dim")


def _show_costs(out: Output, costs: dict[str, Any]) -> None:
    paid = "Free" if costs["cost"] == 0 else f"Cost {unit(costs['unit'], costs['cost'])}"
    out.line(f"{paid}; {left(costs)}.", "dim")
