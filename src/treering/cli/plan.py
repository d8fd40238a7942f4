"""`treering plan`: which mechanism to use, for which promise and accuracy; as a table and as a chart."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.output import Advance, JsonFlag, Output, count, endless, last_size, number, progress
from treering.pictures.svg import Line, Panel, page, render
from treering.words import counted

if TYPE_CHECKING:
    from treering.theory.plan import Plan, PlanRow

_EXAMPLES = """Examples:

\b
  treering plan --schema flights.toml --rows 1e6 --epsilon 1 --delta 1e-9
  treering plan --cells 65536 --rows 1e6 --epsilon 1 --delta 1e-9 --queries 100000
  treering plan --cells 128 --rows 1e6 --alpha 0.01            which epsilon does it take?
  treering plan --cells 128 --epsilon 1 --alpha 0.01           how many rows does it take?
  treering plan --cells 864 --rows 1e5 --epsilon 1 --delta 1e-6 --rows-per-person 30
  treering plan --cells 2^20 --rows 1e7 --epsilon 1 --horizon 1e9 --plot plan.html
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(plan)


def plan(
    cells: Annotated[
        int | None, typer.Option(parser=count, metavar="NUMBER", help="Combinations of values in the schema.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The schema, in TOML, instead of --cells.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(parser=count, metavar="NUMBER", help="Rows at the start. [leave out: find it]")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="The privacy promise. [leave out: find the least]"),
    ] = None,
    delta: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="The promise's delta; 0 is pure privacy.")
    ] = 0.0,
    beta: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="How often some answer may be further off.")
    ] = 0.05,
    alpha: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="The error you want, as a share of the rows."),
    ] = None,
    queries: Annotated[
        float,
        typer.Option(parser=endless, metavar="NUMBER", help='Different questions, or "inf"; a GROUP BY is one.'),
    ] = 100,
    horizon: Annotated[
        float,
        typer.Option(
            parser=last_size, metavar="ROWS", help='The most rows that matter; "inf": for ever; "none": no growth.'
        ),
    ] = math.inf,
    rows_per_person: Annotated[
        int, typer.Option(metavar="NUMBER", help="The most rows of one person, whom the promise is for.", min=1)
    ] = 1,
    declared: Annotated[
        bool, typer.Option("--declared", help="All questions are known before the first is answered.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw error against size: FILE.html or FILE.svg.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Which mechanism to take, and what it guarantees.

    Ends with the command that makes it. Touches no data, spends nothing. Give --schema or --cells, and two of --rows,
    --epsilon and --alpha: the plan finds the third for every mechanism.
    """
    if (cells is None) == (schema is None):
        raise typer.BadParameter("give --schema, or the number of its cells with --cells")
    if sum(value is not None for value in (rows, epsilon, alpha)) != 2:
        raise typer.BadParameter("give two of --rows, --epsilon and --alpha; the third is what the plan finds")
    if queries < 1:
        raise typer.BadParameter("--queries must be at least 1")
    if plot is not None:
        _check_plot(plot)
    from treering.theory.plan import plan as make

    last = None if math.isnan(horizon) else horizon
    universe = _cells(schema) if cells is None else cells
    given: Any = {"alpha": alpha, "adaptive": not declared, "rows_per_person": rows_per_person}
    found = make(universe, rows, epsilon, delta, beta, queries, last, **given)
    if plot is not None:
        with progress("drawing", "sizes") as advance:
            write(plot, curves(found, advance))
    out = Output(as_json)
    made = _command(found, schema)
    out.result({**json.loads(found.to_json()), "command": made}, lambda shown: show(shown, found, made))
    if plot is not None and not as_json:
        out.line(f"\nThe chart is in {plot}.")


def _cells(schema: Path | None) -> int:
    from treering.domain.schema import Schema

    assert schema is not None
    return Schema.load(schema).cells


def _command(found: Plan, schema: Path | None) -> str | None:
    """The command that makes a vault with the best mechanism, ready to be pasted if the schema was given."""
    if found.best is None:
        return None
    if schema is None:
        return found.command
    vault = schema.with_suffix(".treering").name
    return found.making(found.best, shlex.quote(vault), shlex.quote(str(schema)))


def _check_plot(path: Path) -> None:
    if path.suffix.lower() not in (".html", ".svg"):
        raise typer.BadParameter(f"a chart is written to a file that ends in .html or .svg, not {path.name}")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder of {path} does not exist")


# -- the table ---------------------------------------------------------------------------------------------------------

_HEAD = {"alpha": "every answer within", "epsilon": "epsilon needed", "size": "rows needed"}

_LEGEND = (
    'Errors are shares of the rows: 0.01 is one row in a hundred. "Every answer within" is proven, and fails with '
    'probability beta at most. "Typical" is the mean error of an ordinary question (–: it depends on the data). '
    'Questions: "any" may depend on earlier answers, "declared" must be known before the first answer.'
)


def show(out: Output, plan: Plan, command: str | None) -> None:
    """Show the plan as a table, with the best mechanism in words, the command that makes it, and notes."""
    out.line(_question(plan), "dim")
    out.line()
    heads = ["", "mechanism", _HEAD[plan.wanted], "typical", "questions", "lasts"]
    if plan.wanted == "alpha":
        heads.insert(3, "in rows")
    styles = ["bold green" if row is plan.best else "" if row.guaranteed else "dim" for row in plan.rows]
    out.table(heads, [_row(plan, row) for row in plan.rows], right=(2, 3), styles=styles)
    out.line()
    for line in plan.widths():
        out.line(line)
    out.line(plan.reason, "bold")
    if plan.best is not None:
        out.line(f"To make it: {command}")
        out.line(f"In Python:  {plan.best.use}")
    out.line()
    out.line(_LEGEND, "dim")
    for row in plan.rows:
        if row.note and row.guaranteed:
            out.line(f"- {row.name}: {row.note}.", "dim")


def _row(plan: Plan, row: PlanRow) -> list[str]:
    from treering.theory.plan.rows import number as short

    wanted = {"alpha": row.alpha, "epsilon": row.epsilon, "size": row.size}[plan.wanted]
    if not row.guaranteed:
        first = row.verdict if plan.wanted == "alpha" else "cannot be had"
    else:
        first = f"{wanted:,.0f}" if plan.wanted == "size" else short(wanted)
        first += "" if row.runs else " (theory)"
    cells = ["*" if row is plan.best else "", row.name, first]
    if plan.wanted == "alpha":
        cells.append(f"±{math.ceil(row.alpha * row.size):,}" if row.guaranteed else "–")
    typical = short(row.expected) if row.expected is not None and row.guaranteed else "–"
    return [
        *cells,
        typical,
        "declared" if row.declared else "any",
        row.lifetime.words if row.guaranteed else "–",
    ]


def _question(plan: Plan) -> str:
    """The parameters of the plan: the first line of its own text."""
    return str(plan).split("\n", 1)[0]


# -- the chart ---------------------------------------------------------------------------------------------------------

_PER_DECADE: Final = 3
_SIZE: Final = (570, 480)
_LABELS: Final = ("rows at the start", "every answer within (share of the rows)")
_DASHES: Final = "5 4"
_COLOURS: Final = (
    "#2563eb",
    "#059669",
    "#d97706",
    "#7c3aed",
    "#dc2626",
    "#0891b2",
    "#65a30d",
    "#db2777",
    "#475569",
    "#b45309",
    "#4f46e5",
    "#0f766e",
)


@dataclass(frozen=True)
class Chart:
    """The curves of a plan, and their title."""

    title: str
    curves: tuple[Line, ...]


def curves(found: Plan, advance: Advance) -> Chart:
    """The guaranteed error of every mechanism at sizes around the plan's, for the plan's epsilon.

    Where the plan was asked for an epsilon or for a number of rows, those of its best row are taken. Mechanisms that
    need declared questions are dashed; where a mechanism guarantees nothing, it has no line.
    """
    from treering.theory.plan import plan as make

    best = found.best or found.rows[0]
    epsilon = found.epsilon if found.epsilon is not None else _finite(best.epsilon, 1.0)
    start = found.size if found.size is not None else int(_finite(best.size, 1e6))
    sizes = _sizes(start, found.horizon)
    plans: list[dict[str, PlanRow]] = []
    for done, size in enumerate(sizes, start=1):
        # The horizon must not be below the start. (None: the data do not grow.)
        last = None if found.horizon is None else max(found.horizon, size)
        made = make(found.cells, size, epsilon, found.delta, found.beta, found.queries, last, adaptive=found.adaptive)
        plans.append({row.name: row for row in made.rows})
        advance(done, len(sizes))
    drawn: list[Line] = []
    for row in found.rows:
        heights = [each[row.name].alpha if row.name in each and each[row.name].guaranteed else None for each in plans]
        if any(height is not None for height in heights):
            colour = _COLOURS[len(drawn) % len(_COLOURS)]
            drawn.append(Line(row.name, sizes, heights, colour, _DASHES if row.declared else ""))
    title = f"Guaranteed error, {counted(found.cells, 'cell')}, epsilon = {epsilon:.3g}, delta = {found.delta:g}"
    return Chart(title, tuple(drawn))


def write(path: Path, chart: Chart) -> None:
    """Write the chart to a file: .svg, or a self-contained .html."""
    drawn = picture(chart)
    path.write_text(drawn if path.suffix.lower() == ".svg" else page(chart.title, drawn), encoding="utf-8")


def picture(chart: Chart) -> str:
    """The chart as the text of an SVG file."""
    panel = Panel("dashes: the questions must be declared", *_LABELS, chart.curves, x_log=True, y_log=True)
    return render(chart.title, [panel], size=_SIZE, legend_aside=True)


def _sizes(start: int, horizon: float | None) -> list[int]:
    """The sizes of the chart, `_PER_DECADE` in each decade: from a tenth of the start to a hundred times the start, but
    not beyond the horizon (or ten times the start, if that is more)."""
    from treering.theory.plan import MOST_ROWS

    high = 100.0 * start if horizon is None else min(100.0 * start, max(horizon, 10.0 * start))
    low, high = max(10.0, start / 10), min(max(high, 100.0), float(MOST_ROWS))
    steps = max(2, round(_PER_DECADE * math.log10(high / low)))
    return sorted({round(low * (high / low) ** (step / steps)) for step in range(steps + 1)} | {start})


def _finite(value: float, otherwise: float) -> float:
    return value if math.isfinite(value) else otherwise
