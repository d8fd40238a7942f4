"""`treering create`: make a vault, or draft a schema for one from a public sample."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final

import typer

from treering.cli.output import JsonFlag, Output, VaultPath, count, number, warn
from treering.cli.rows import read_sample, row_file
from treering.words import counted, readable, reason

_CREATE_EXAMPLES = """Examples:

\b
  treering create flights.treering --schema flights.toml --epsilon 1 --delta 1e-9
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
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="One error for all answers, as a share of the rows."),
    ] = None,
    beta: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="How often some answer may be further off.")
    ] = 0.05,
    mechanism: Annotated[
        str, typer.Option(metavar="KIND", help='"auto", "rings", "pmwg", "continual", "scheduler", "improver".')
    ] = "auto",
    pace: Annotated[
        int | None,
        typer.Option(parser=count, metavar="NUMBER", help="Different questions to expect, for rings. [default: 25]"),
    ] = None,
    guard_only: Annotated[
        bool, typer.Option("--guard-only", help="For pmwg: measure nothing before its guard asks for it.")
    ] = False,
    box: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help='For scheduler and improver: "histogram", "marginals", "answers", "mwem", "smalldb".'
        ),
    ] = None,
    ways: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="For marginals: so many attributes at a time.", min=1)
    ] = None,
    questions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For a box: all its questions, a predicate on each line.")
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            parser=part,
            metavar="NUMBER",
            help="The mechanism's share of the promise; with --private, what drafting pays.",
        ),
    ] = 1.0,
    rows_per_person: Annotated[
        int, typer.Option(metavar="NUMBER", help="The most rows that one person has.", min=1)
    ] = 1,
    person: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of person ids: `append` then enforces --rows-per-person."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="WORD", help="What the table is called, in SQL. [default: as the folder]")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column that says which row is which, for `erase` and `correct`."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(parser=count, metavar="NUMBER", help='Rows that are expected, for "auto".')
    ] = None,
    discoveries: Annotated[
        bool, typer.Option("--discoveries", help="Set a tenth of delta aside, so that `discover` can find new values.")
    ] = False,
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
    private: Annotated[
        bool, typer.Option("--private", help="Make the vault of this PRIVATE file, and draft within the promise.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a vault: a folder for a table that grows, with one promise.

    The promise is about the vault's whole life. A schema is public: write it from general knowledge or from a public
    sample, never from the private rows.
    """
    out = Output(as_json)
    _check_table(table, order, person, infer)
    if infer is not None and private:
        if epsilon is None or delta == 0:
            raise typer.BadParameter("a draft within the promise needs --epsilon and --delta")
        _draft_privately(vault, infer, epsilon, delta, name, share, schema, out)
        return
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
    options = _options(pace, guard_only, box, ways, questions)
    column = "id" if order is None else order
    options |= {"person": person, "name": name, "key": key, "discoveries": discoveries}
    with Vault.create(vault, read, *given, rows=expected, table=table, order=column, **options) as made:
        _caution(epsilon, delta)
        _made(vault, made.status(), table, out)


def _options(
    pace: int | None, guard_only: bool, box: str | None, ways: int | None, questions: Path | None
) -> dict[str, Any]:
    """The options of the first mechanism that were given."""
    options: dict[str, Any] = {"pace": pace, "box": box, "ways": ways}
    options["measure_first"] = False if guard_only else None
    if questions is not None:
        try:
            lines = questions.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = reason(error) if isinstance(error, OSError) else "it is not UTF-8"
            raise typer.BadParameter(f"{questions} cannot be read as text: {why}") from None
        options["queries"] = [line.strip() for line in lines if line.strip()]
    return {name: value for name, value in options.items() if value is not None}


_PROMISE: Final = "--epsilon 1 --delta 1e-9 --discoveries"
"""The promise of the command that a draft prints."""
_LARGE_EPSILON: Final = 10.0
_LARGE_DELTA: Final = 1e-4


def _caution(epsilon: float, delta: float) -> None:
    """Warn of a promise that is next to none. It is for ever, so this is the last moment to say so."""
    if epsilon > _LARGE_EPSILON:
        warn(
            f"Careful: an epsilon of {readable(epsilon)} promises next to nothing. What leaves the vault may be "
            f"e^{readable(epsilon)} times as likely with a row as with another in its place; usual are 0.1 to 10."
        )
    if delta > _LARGE_DELTA:
        warn(
            f"Careful: a delta of {readable(delta)} lets the promise fail with a chance of {readable(100 * delta)}%. "
            "A delta is far below one in the number of rows, such as 1e-9."
        )


def _check_table(table: str | None, order: str | None, person: str | None, infer: Path | None) -> None:
    """Raise on options that exclude each other."""
    if order is not None and table is None:
        raise typer.BadParameter("--order is about a --table: give both, or neither")
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
            f"{vault} is ready: {counted(status['cells'], 'cell')}, answered by {', '.join(plain['mechanisms'])}.",
            "bold",
        )
        shown.line(f"Promise: {status['promise']}.")
        if table is not None:
            shown.line(f"Rows stay in {table}.")
        shown.line(
            f"Next: treering append {quote(str(vault))} ROWS.csv"
            if table is None
            else f"Next: treering refresh {quote(str(vault))}"
        )

    out.result(plain, show)


def part(text: str | float) -> float:
    """A part of the whole: a number, or a percentage.

    >>> part("5%"), part("0.25")
    (0.05, 0.25)
    """
    plain = str(text).strip()
    return number(plain.removesuffix("%")) / 100 if plain.endswith("%") else number(plain)


def _draft_privately(
    vault: Path,
    file: Path,
    epsilon: float,
    delta: float,
    name: str | None,
    share: float,
    schema: Path | None,
    out: Output,
) -> None:
    """A vault of a file's rows, with a schema that tells no more of them than the promise allows."""
    from treering.vault.drafting import DRAFT_SHARE
    from treering.vault.vault import Vault

    rows = row_file(file)
    with Vault.create(vault, None, epsilon, delta, name=name, draft=rows, share=share) as made:
        _caution(epsilon, delta)
        drawn, size = made.schema, made.size
        if schema is not None:
            drawn.save(schema)
        plain = {"vault": str(vault), "size": size, "schema": drawn.to_dict(), "cells": drawn.cells}
        plain["share"] = DRAFT_SHARE if share == 1.0 else share

    def show(shown: Output) -> None:
        shown.line(f"{vault} is ready, with {counted(size, 'row')}. They paid {share:.3g} of the promise for:", "bold")
        shown.line(str(drawn))

    out.result(plain, show)


_FOR_ALPHA: Final = 2**26
"""The most cells of a mechanism that keeps one error for all answers: it has a number for each of them."""


def _draft(vault: Path, schema: Path | None, sample: Path, out: Output) -> None:
    from treering.domain.drafting import NOTE, WARNING, infer

    target = vault.with_suffix(".toml") if schema is None else schema
    if target.exists():
        raise typer.BadParameter(f"{target} exists already; name another with --schema")
    if not target.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder of {target} does not exist")
    draft = infer(read_sample(sample))
    draft.schema.save(target, NOTE)
    warn(f"Careful: {WARNING}")
    plain: dict[str, Any] = {
        "schema": str(target),
        "cells": draft.schema.cells,
        "attributes": list(draft.schema.names),
        "left_out": draft.left_out,
        "warning": WARNING,
    }

    def show(shown: Output) -> None:
        shown.line(f"A draft with {counted(draft.schema.cells, 'cell')} is in {target}. Read it, and edit it.", "bold")
        for name, why in draft.left_out.items():
            shown.line(f"Left out: {name!r}, as {why}.")
        if draft.schema.cells > _FOR_ALPHA:
            shown.line("That is for rings: with --alpha at most 2^26 can be had. Delete attributes, or join bins.")
        shown.line(f"Then: treering create {quote(str(vault))} --schema {quote(str(target))} {_PROMISE}")

    out.result(plain, show)
