"""`treering create` and `treering append`: a vault, and its rows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from treering.cli.files import read_table, suffix
from treering.cli.numbers import count, number
from treering.cli.render import JsonFlag, Output, progress, warn
from treering.cli.vaults import VaultPath, writing

_CREATE_EXAMPLES = """Examples:

\b
  treering create flights.treering --schema flights.toml --epsilon 1 --delta 1e-9 --alpha 0.05
  treering create flights.treering --infer public-sample.csv     drafts flights.toml, for you to edit
"""
_APPEND_EXAMPLES = """Examples:

\b
  treering append flights.treering january.parquet february.csv
  treering append flights.treering march.csv --on-invalid drop
  treering append flights.treering april.csv --key april         safe to run twice
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_CREATE_EXAMPLES)(create)
    app.command(epilog=_APPEND_EXAMPLES)(append)


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
    rows_per_person: Annotated[int, typer.Option(help="The most rows that one person has.", min=1)] = 1,
    rows: Annotated[
        int | None, typer.Option(parser=count, metavar="NUMBER", help='Rows that are expected, for "auto".')
    ] = None,
    infer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only draft a schema, from a PUBLIC sample of rows.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a vault: a folder for a growing table, with one privacy promise for ever.

    A schema is public: write it from general knowledge or from a public sample, never from the private rows.
    """
    out = Output(as_json)
    if infer is not None:
        _draft(vault, schema, infer, out)
        return
    if schema is None or epsilon is None:
        raise typer.BadParameter("a vault needs --schema and --epsilon (or --infer, to draft a schema)")
    from treering.domain.schema import Schema
    from treering.vault.kinds import EXPECTED_ROWS
    from treering.vault.vault import Vault

    given = (epsilon, delta, alpha, beta, mechanism, share, rows_per_person)
    with Vault.create(vault, Schema.load(schema), *given, rows=EXPECTED_ROWS if rows is None else rows) as made:
        _made(vault, made.status(), out)


def _made(vault: Path, status: dict[str, Any], out: Output) -> None:
    plain = {
        "vault": str(vault),
        "cells": status["cells"],
        "promise": status["promise"],
        "mechanisms": [each["name"] for each in status["mechanisms"]],
        "head": status["head"],
    }

    def show(shown: Output) -> None:
        shown.line(
            f"{vault} is ready: {status['cells']:,} cells, answered by {', '.join(plain['mechanisms'])}.", "bold"
        )
        shown.line(f"Promise: {status['promise']}.")
        shown.line(f"Next: treering append {vault} ROWS.csv")

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


def append(
    vault: VaultPath,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Rows: .csv, .parquet, .arrow or .jsonl.")],
    on_invalid: Annotated[
        str, typer.Option(metavar="refuse|drop", help="What to do about rows that do not fit the schema.")
    ] = "refuse",
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A name for this work: done twice, it counts once.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Take in rows: each file is whole or absent, whatever happens. Costs nothing."""
    if on_invalid not in ("refuse", "drop"):
        raise typer.BadParameter('--on-invalid is "refuse" or "drop"')
    for path in files:
        suffix(path)
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {path}")
    taken: list[dict[str, Any]] = []
    with writing(vault) as opened, progress("appending", "rows") as advance:
        start = opened.size
        for place, path in enumerate(files, start=1):
            before, dropped = opened.size, opened.status()["dropped"]
            table = read_table(path, opened.schema)
            advance(before - start, before - start + table.num_rows)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what was dropped is in the result
                name = None if key is None else key if len(files) == 1 else f"{key}:{place}"
                size = opened.append(table, "drop" if on_invalid == "drop" else "refuse", name)
            advance(opened.size - start, opened.size - start)
            lost = opened.status()["dropped"] - dropped
            taken.append({"file": str(path), "rows": opened.size - before, "dropped": lost, "size": size})
        plain = {"size": opened.size, "files": taken}

    def show(shown: Output) -> None:
        rows = [[each["file"], f"{each['rows']:,}", f"{each['dropped']:,}", f"{each['size']:,}"] for each in taken]
        shown.table(["file", "rows", "dropped", "size"], rows, right=(1, 2, 3))
        shown.line(f"{vault} has {plain['size']:,} rows.", "bold")

    Output(as_json).result(plain, show)
