"""`treering refine` and `discover`: the next version of a vault's schema, and values that it should list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, TypeVar

import typer

from treering.cli.ask import show_table, table_dict
from treering.cli.output import JsonFlag, MechanismName, Output, VaultPath, number, unit, writing
from treering.words import counted

Part = TypeVar("Part")

_EXAMPLES = """Examples:

\b
  treering refine clinic.treering --add ward=telehealth --add ward=hospice
  treering refine clinic.treering --edge cost=1000 --bounds cost=0:5000
  treering refine clinic.treering --until day=2040-12-31
  treering refine clinic.treering --discovered ward          what `treering discover` has told
  treering refine clinic.treering --attributes more.toml     attributes of columns that are kept
"""


_DISCOVERED = """Examples:

\b
  treering discover clinic.treering ward                     costs all rows 2% of the promise
  treering discover clinic.treering ward --since 80000       costs only the rows after the 80,000th
  treering refine clinic.treering --discovered ward          lists what was found
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_DISCOVERED)(discover)
    app.command(epilog=_EXAMPLES)(refine)


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


def refine(
    vault: VaultPath,
    add: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="List a value.")] = None,
    edge: Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Cut bins here, too.")] = None,
    until: Annotated[list[str] | None, typer.Option(metavar="NAME=DATE", help="A later last date.")] = None,
    bounds: Annotated[list[str] | None, typer.Option(metavar="NAME=LOW:HIGH", help="A wider range.")] = None,
    attributes: Annotated[
        Path | None, typer.Option(metavar="SCHEMA.toml", help="Attributes of columns that are kept.")
    ] = None,
    discovered: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="List what `discover` has told of an attribute.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the schema finer. Costs nothing.

    It gets more values, edges, a longer calendar, wider bounds, or attributes. Rows that are there are seen through the
    new version, too, and what was released stays true and free. A version is public and for ever on the ledger: say
    only what you know without looking at the private rows.
    """
    from treering.domain.schema import Schema

    more = {} if attributes is None else dict(Schema.load(attributes).attributes)
    with writing(vault) as opened:
        values = {name: [_value(opened.schema, name, each) for each in texts] for name, texts in _named(add).items()}
        for name in discovered or ():
            found = opened.discovered(name)["value"].to_pylist()
            if not found:
                raise typer.BadParameter(f"nothing was discovered of {name} that is not listed: `discover` first")
            values[name] = [*values.get(name, ()), *found]
        schema = opened.refine(
            add=values,
            edges={name: [_number(each) for each in texts] for name, texts in _named(edge).items()},
            until={name: texts[-1] for name, texts in _named(until).items()},
            bounds={name: _range(texts[-1]) for name, texts in _named(bounds).items()},
            attributes=more,
        )
        versions = opened.status()["versions"]
    plain = {"version": versions, "cells": schema.cells, "schema": schema.to_dict()}
    Output(as_json).result(plain, lambda out: out.line(f"Version {versions} of the schema:\n{schema}"))


def _named(options: Sequence[str] | None) -> dict[str, list[str]]:
    """The texts for each attribute."""
    found: dict[str, list[str]] = {}
    for each in options or ():
        name, sign, text = each.partition("=")
        if not sign or not name or not text:
            raise typer.BadParameter(f"{each!r} should be the name of an attribute, =, and what is new")
        found.setdefault(name, []).append(text)
    return found


def _value(schema: Any, name: str, text: str) -> str | int | bool:
    """A value of the kind that an attribute lists."""
    attribute = schema.attributes.get(name)
    kind = type(getattr(attribute, "values", ("",))[0])
    if kind is int:
        return _parsed(int, text, "a whole number")
    if kind is bool:
        raise typer.BadParameter(f"{name} is true or false: there is no other value")
    return text


def _number(text: str) -> float:
    return _parsed(float, text, "a number")


def _range(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    first, last = (_number(each) for each in (low, high))
    return (int(first), int(last)) if first.is_integer() and last.is_integer() else (first, last)


def _parsed(read: Callable[[str], Part], text: str, words: str) -> Part:
    try:
        return read(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not {words}") from None
