"""`treering status`, `report`, `ledger` and `verify`: reading a vault, which is free, also beside a writer."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Annotated, Any

import typer

from treering.cli.asking.asked import Place, TokenFile, is_address, token
from treering.cli.output import JsonFlag, Output, VaultPath, amount, origin, reading, table_of, unit
from treering.words import counted, left_out, reason

_STATUS_EXAMPLES = """Examples:

\b
  treering status flights.treering
  treering status flights.treering --json | jq .remaining
  TREERING_TOKEN=… treering status http://127.0.0.1:8765
"""
_REPORT_EXAMPLES = """Examples:

\b
  treering report flights.treering
  treering report flights.treering --out flights.html
"""
_LEDGER_EXAMPLES = """Examples:

\b
  treering ledger flights.treering --tail 20
  treering ledger flights.treering --json > ledger.json
"""
_VERIFY_EXAMPLES = """Examples:

\b
  treering verify flights.treering
  treering verify flights.treering --head HASH    also: was it ever set back?
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_STATUS_EXAMPLES)(status)
    app.command(epilog=_REPORT_EXAMPLES)(report)
    app.command(epilog=_LEDGER_EXAMPLES)(ledger)
    app.command(epilog=_VERIFY_EXAMPLES)(verify)


def status(vault: Place, token_file: TokenFile = None, as_json: JsonFlag = False) -> None:
    """A vault's rows, promise, spent budget and mechanisms."""
    plain = _served(vault, token_file) if is_address(vault) else _kept(Path(vault))
    Output(as_json).result(plain, lambda out: show_status(out, plain))


def _kept(vault: Path) -> dict[str, Any]:
    """The status of a vault in a folder."""
    made = origin(vault)
    source = made["source"] or {}
    return {**reading(vault).status(), "table": table_of(made), "order": source.get("order")}


def _served(address: str, token_file: Path | None) -> dict[str, Any]:
    """The status of a vault on a server, which keeps to itself where the rows are."""
    from treering.client import connect

    with connect(address, token(token_file)) as client:
        return {**client.status(), "table": None, "order": None}


def report(
    vault: VaultPath,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where it goes: one HTML file.")] = Path("report.html"),
    as_json: JsonFlag = False,
) -> None:
    """A page about a vault: promise, questions, budget left."""
    from treering.pictures.overview import label, overview

    opened = reading(vault)
    status = opened.status()
    try:
        out.write_text(overview(status, [(each.time, each.rows) for each in opened.batches()]), encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {out}: {reason(error)}") from None
    plain = {"out": str(out), "label": label(status)}
    Output(as_json).result(plain, lambda shown: shown.line(f"The report is in {out}."))


def show_status(out: Output, plain: dict[str, Any]) -> None:
    """Show a vault in a few lines: rows, promise, budget, mechanisms, and the epochs of each as rings."""
    batches = counted(plain["batches"], "batch", "batches")
    out.line(f"{counted(plain['size'], 'row')} in {batches}; {counted(plain['cells'], 'cell')}.", "bold")
    if plain["dropped"]:
        out.line(f"{left_out(plain['dropped'])}.")
    if plain["table"] is not None:
        out.line(f"Rows stay in {plain['table']}, by {plain['order']}; `treering refresh` takes in new ones.")
    out.line(f"Promise: {plain['promise']}.")
    part = plain["spent"] / plain["total"] if plain["total"] else 0.0
    name = plain["unit"]
    out.bar(part, f"{unit(name, plain['spent'])} of {amount(plain['total'])} spent, {amount(plain['remaining'])} left")
    out.line()
    rows = [_mechanism(each) for each in plain["mechanisms"]]
    out.table(["mechanism", "share", "spent", "left", "hard", "every answer within"], rows, right=(1, 2, 3, 4, 5))
    for each in plain["mechanisms"]:
        if each.get("series"):
            _show_series(out, each)
        if "left" in each and plain["size"]:
            _show_left(out, each)
        if each["epochs"]:
            out.line(f"{each['name']} grew {_rings(len(each['epochs']))}", "green")
            out.line(f"  rings at {_sizes(each)}", "dim")
    out.line(f"Head of the ledger ({counted(plain['entries'], 'entry', 'entries')}): {plain['head']}", "dim")
    out.line("Note it elsewhere: `treering verify --head` tells whether the folder was ever set back.", "dim")


def _show_series(out: Output, each: dict[str, Any]) -> None:
    """Show what a mechanism keeps current: groups of rows, and the margin of the count of one group."""
    rows = [
        [
            ", ".join(one["attributes"]),
            f"{one['groups']:,}",
            f"± {one['margin']:,.0f} rows",
            amount(one["price"]),
            f"{one['size']:,}",
        ]
        for one in each["series"]
    ]
    out.line()
    heads = [f"{each['name']} keeps current", "groups", "a group's count", "paid by a row", "rows until now"]
    out.table(heads, rows, right=(1, 2, 3, 4))
    out.line()


def _show_left(out: Output, each: dict[str, Any]) -> None:
    """Show what rows have left to pay with: the oldest have paid for the most."""
    oldest, newest, following = (amount(each["left"][row]) for row in ("oldest", "newest", "next"))
    out.line(f"In {each['name']} the oldest row has {oldest} left, the newest {newest}; the next brings {following}.")


def _mechanism(each: dict[str, Any]) -> list[str]:
    alpha = None if "series" in each else each["guarantee"].get("alpha")
    hard = each["hard_queries"]
    return [
        each["name"],
        f"{each['share']:g}",
        amount(each["spent"]),
        amount(each["remaining"]),
        "–" if hard is None else f"{hard:,}",
        "its own error" if "series" in each else "no guarantee yet" if alpha is None else f"{alpha:.4g}",
    ]


def _rings(number: int) -> str:
    """Epochs drawn as the rings of a tree, one for each epoch (at most twenty)."""
    drawn = min(number, 20)
    return f"{'(' * drawn}•{')' * drawn} {number} ring{'s' if number > 1 else ''}"


def _sizes(each: dict[str, Any]) -> str:
    sizes = [f"{epoch['size']:,}" for epoch in each["epochs"]]
    shown = sizes if len(sizes) <= 8 else [*sizes[:3], "…", *sizes[-4:]]
    following = f"; the next at {each['next_epoch']:,}" if each.get("next_epoch") else ""
    return ", ".join(shown) + following


def ledger(
    vault: VaultPath,
    tail: Annotated[int | None, typer.Option(metavar="NUMBER", help="Only the last NUMBER entries.", min=1)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Everything that ever happened to a vault, and what it cost.

    One line for each entry, with its hash, which depends on all entries before: no entry can be changed unnoticed.
    """
    entries = deque(reading(vault).ledger(), maxlen=tail)
    plain = {"entries": [_jsonable(each) for each in entries]}

    def show(out: Output) -> None:
        rows = [
            [
                f"{each['seq']:,}",
                each["time"],
                each["kind"],
                each["mechanism"] or "–",
                f"{each['cost']:.4g}",
                "–" if each["size"] is None else f"{each['size']:,}",
                each["hash"][:16],
            ]
            for each in plain["entries"]
        ]
        out.table(["seq", "time", "kind", "mechanism", "cost", "size", "hash"], rows, right=(0, 4, 5))

    Output(as_json).result(plain, show)


def _jsonable(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry whose body is plain JSON, whatever it holds."""
    plain: dict[str, Any] = json.loads(json.dumps(entry, default=str))
    return plain


def verify(
    vault: VaultPath,
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="A head that `status` showed earlier: is it still there?")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that a vault is complete, and as it was written.

    Checks the chain of hashes, every part, and that replaying all of it gives the same state. Exit code 1 if anything
    is damaged, or if the folder was set back to an earlier state.
    """
    plain = reading(vault).verify(head)

    def show(out: Output) -> None:
        out.line(
            f"{vault} is whole: {counted(plain['entries'], 'entry', 'entries')}, {counted(plain['size'], 'row')}.",
            "bold green",
        )
        if head is not None:
            out.line("The head given is part of its history: it was not set back since.")
        out.line(f"Head: {plain['head']}")

    Output(as_json).result(plain, show)
