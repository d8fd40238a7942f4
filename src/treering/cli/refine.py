"""`treering refine`: the next version of a vault's schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from treering.cli.output import JsonFlag, Output, VaultPath, writing

Part = TypeVar("Part")

_EXAMPLES = """Examples:

\b
  treering refine clinic.treering --add ward=telehealth --add ward=hospice
  treering refine clinic.treering --edge cost=1000 --bounds cost=0:5000
  treering refine clinic.treering --until day=2040-12-31
  treering refine clinic.treering --discovered ward          what `treering discover` has told
  treering refine clinic.treering --attributes more.toml     attributes of columns that are kept
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(refine)


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
