"""`treering create`: a vault, or the draft of a schema for one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from treering.cli.files import read_table
from treering.cli.numbers import count, number
from treering.cli.output import JsonFlag, Output, warn
from treering.cli.vaults import VaultPath

_CREATE_EXAMPLES = """Examples:

\b
  treering create flights.treering --schema flights.toml --epsilon 1 --delta 1e-9 --alpha 0.05
  treering create flights.treering --infer public-sample.csv     drafts flights.toml, for you to edit
  treering create flights.treering --schema flights.toml --epsilon 1 --delta 1e-9 \\
      --table postgresql://reader@db.example.org/air#flights --order id

Rows of a --table stay there, and `treering refresh` counts the new ones. Its ADDRESS is

\b
  duckdb:///path/to/file.duckdb#table
  parquet:///path/to/file-or-folder
  csv:///path/to/file-or-folder
  postgresql://user@host:port/database#table      ?host=/run/postgresql before the # for a socket

It is public: it stays in the ledger, and `treering status` shows it. So it has no password; PostgreSQL takes that from
the variable PGPASSWORD or from the password file (~/.pgpass), at every refresh.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_CREATE_EXAMPLES)(create)


def create(
    vault: VaultPath,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The schema, in TOML: which attributes, which values.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="The privacy promise, for the whole life.")
    ] = None,
    delta: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="The promise's delta; 0 is pure privacy.")
    ] = 0.0,
    alpha: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="The error of answers, as a share of the rows.")
    ] = 0.05,
    beta: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="How often some answer may be further off.")
    ] = 0.05,
    mechanism: Annotated[
        str, typer.Option(metavar="KIND", help='"auto", "pmwg", "continual", "scheduler" or "improver".')
    ] = "auto",
    share: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="The mechanism's share of the promise.")
    ] = 1.0,
    rows_per_person: Annotated[
        int, typer.Option(metavar="NUMBER", help="The most rows that one person has.", min=1)
    ] = 1,
    person: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column that says whose a row is: `append` then keeps that limit."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(parser=count, metavar="NUMBER", help='Rows that are expected, for "auto".')
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The table that the rows stay in, in another engine: below.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Its column of unique integers that only grow. [default: id]"),
    ] = None,
    infer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only draft a schema, from a PUBLIC sample of rows.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a vault: a folder for a table that grows, with one promise.

    The promise is about the vault's whole life. A schema is public: write it from general knowledge or from a public
    sample, never from the private rows.
    """
    out = Output(as_json)
    _check_table(table, order, person, infer)
    if infer is not None:
        _draft(vault, schema, infer, out)
        return
    if schema is None or epsilon is None:
        raise typer.BadParameter("a vault needs --schema and --epsilon (or --infer, to draft a schema)")
    from treering.domain.schema import Schema
    from treering.vault.kinds import EXPECTED_ROWS
    from treering.vault.vault import Vault

    given = (epsilon, delta, alpha, beta, mechanism, share, rows_per_person)
    expected = EXPECTED_ROWS if rows is None else rows
    read = Schema.load(schema)
    with Vault.create(
        vault, read, *given, person=person, rows=expected, table=table, order="id" if order is None else order
    ) as made:
        _made(vault, made.status(), table, out)


def _check_table(table: str | None, order: str | None, person: str | None, infer: Path | None) -> None:
    """Refuse options that make no sense together."""
    if order is not None and table is None:
        raise typer.BadParameter("--order is about a --table: give both, or neither")
    if person is not None and table is not None:
        raise typer.BadParameter("--person is for rows that are appended: those of a --table are only counted")
    if infer is not None and (table is not None or person is not None):
        raise typer.BadParameter("--infer only drafts a schema: leave out --table, --order and --person")


def _made(vault: Path, status: dict[str, Any], table: str | None, out: Output) -> None:
    plain = {
        "vault": str(vault),
        "cells": status["cells"],
        "promise": status["promise"],
        "mechanisms": [each["name"] for each in status["mechanisms"]],
        "table": table,
        "head": status["head"],
    }

    def show(shown: Output) -> None:
        shown.line(
            f"{vault} is ready: {status['cells']:,} cells, answered by {', '.join(plain['mechanisms'])}.", "bold"
        )
        shown.line(f"Promise: {status['promise']}.")
        if table is not None:
            shown.line(f"Rows stay in {table}.")
        shown.line(f"Next: treering append {vault} ROWS.csv" if table is None else f"Next: treering refresh {vault}")

    out.result(plain, show)


def _draft(vault: Path, schema: Path | None, sample: Path, out: Output) -> None:
    from treering.cli.infer import WARNING, infer

    target = vault.with_suffix(".toml") if schema is None else schema
    if target.exists():
        raise typer.BadParameter(f"{target} exists already; name another with --schema")
    if not target.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder of {target} does not exist")
    draft = infer(read_table(sample))
    draft.schema.save(target)
    warn(f"Careful: {WARNING}")
    plain: dict[str, Any] = {
        "schema": str(target),
        "cells": draft.schema.cells,
        "attributes": list(draft.schema.names),
        "left_out": draft.left_out,
        "warning": WARNING,
    }

    def show(shown: Output) -> None:
        shown.line(f"A draft with {draft.schema.cells:,} cells is in {target}. Read it, and edit it.", "bold")
        for name, reason in draft.left_out.items():
            shown.line(f"Left out: {name}, as {reason}.")
        shown.line(f"Then: treering create {vault} --schema {target} --epsilon 1")

    out.result(plain, show)
