"""`treering bench`: the speed suite of a checkout, as ratios."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from treering.cli.output import OTHER, JsonFlag, Output, progress

_EXAMPLES = """Examples:

\b
  treering bench               every suite: some minutes
  treering bench pmwg encode   two of them
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(bench)


class NoCheckoutError(typer.TyperException):
    """The benchmarks were asked for outside of a checkout."""


def bench(
    suites: Annotated[
        list[str] | None, typer.Argument(metavar="SUITE", help="The suites to run. [default: all]")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """How fast it is, as ratios to references.

    Ours and the reference are timed in turns, in the same run: seconds would say more about the machine than about the
    code. A ratio above its limit is a broken claim (exit code 1).
    The suite is part of the source, not of the package: run this in a checkout. `make bench` keeps a history as well.
    """
    root = _checkout(Path.cwd())
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in ``benchmarks/__main__.py``, which says why
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    from benchmarks.__main__ import names, results

    known = names()
    unknown = sorted(set(suites or []) - set(known))
    if unknown:
        raise typer.BadParameter(f"there is no suite {unknown[0]!r}; there are {', '.join(known)}")
    wanted = suites or known
    found: list[dict[str, Any]] = []
    for place, name in enumerate(wanted):
        with progress(f"timing {name}", "claims") as advance:
            for result in results([name]):
                found.append({"suite": name, **result.to_json()})
                advance(place, len(wanted))
    plain = {"holds": all(each["holds"] for each in found), "results": found}
    Output(as_json).result(plain, lambda out: show(out, plain))
    if not plain["holds"]:
        raise typer.Exit(OTHER)


def _checkout(start: Path) -> Path:
    """The nearest folder from ``start`` upwards that is a checkout of treering."""
    for folder in (start, *start.parents):
        if (folder / "benchmarks" / "harness.py").is_file() and (folder / "src" / "treering").is_dir():
            return folder
    raise NoCheckoutError("the benchmarks are part of the source: run this in a checkout of treering")


def show(out: Output, plain: dict[str, Any]) -> None:
    """Show the ratios as a table."""
    heads = ["suite", "claim", "ratio", "middle half", "limit", ""]
    rows = []
    for each in plain["results"]:
        low, high = each["quartiles"]
        verdict = "" if each["holds"] else "BROKEN"
        rows.append(
            [
                each["suite"],
                each["name"],
                f"{each['median']:.3g}",
                f"{low:.3g} to {high:.3g}",
                "none" if each["limit"] is None else f"{each['limit']:.3g}",
                verdict,
            ]
        )
    styles = ["" if each["holds"] else "bold red" for each in plain["results"]]
    out.table(heads, rows, right=(2, 4), styles=styles)
    out.line()
    broken = sum(not each["holds"] for each in plain["results"])
    claims = sum(each["limit"] is not None for each in plain["results"])
    out.line(f"{claims} claims, {broken} broken. A ratio is our time over the reference's: smaller is better.")
