"""A plan as its reader sees it: its rows, the best of them, and the reason in plain words."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal, TypeAlias

from treering.errors import ParameterError
from treering.theory.plan.persons import KindOfQuestion
from treering.theory.plan.rows import GUESS, Lifetime, number, rounded_up
from treering.words import counted

Wanted: TypeAlias = Literal["alpha", "epsilon", "size"]
"""The quantity that a plan computes."""

DEFAULT_BETA: Final = 0.05
"""The beta of a plan, and of `treering create`, unless another is given."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """What one mechanism guarantees, and for how long."""

    name: str
    use: str
    """The call that makes it."""
    alpha: float
    """The guarantee: but with probability beta every answer, at every size from the start to the horizon, is within
    this of the truth, as a share of the rows. 1 or more (mostly infinite): no guarantee. Answering ½ every time,
    without
    data, has the error ½."""
    expected: float | None
    """The mean of |answer − truth| at the starting size, for a counting query over half of the cells that was chosen
    without looking at the noise. None: it depends on the data, and is at most alpha."""
    lifetime: Lifetime
    """For how many queries, and up to how many rows, the guarantee holds."""
    epsilon: float
    """The epsilon of the promise; if it was asked for, the least that guarantees alpha, infinite if none does."""
    size: float
    """The rows at the start; if they were asked for, the fewest that guarantee alpha, infinite if no number does."""
    declared: bool
    """Whether it answers only queries that were named before it ran."""
    runs: bool
    """Whether the library can run it on this many cells."""
    note: str = ""
    """What else a user should know; may be empty."""
    create: str | None = None
    """What `treering create` takes to make it, beside the promise (`Plan.command` has all of it); None: no vault has
    it."""

    @property
    def guaranteed(self) -> bool:
        """Whether the guarantee is better than answering ½ every time, without data."""
        return self.alpha < GUESS and math.isfinite(self.epsilon) and math.isfinite(self.size)

    @property
    def verdict(self) -> str:
        """ "guaranteed", "no better than a guess", or "no guarantee"."""
        if self.guaranteed:
            return "guaranteed"
        return "no better than a guess" if self.alpha < 1 else "no guarantee"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: None stands for what is infinite or unknown."""
        return {
            "name": self.name,
            "use": self.use,
            "alpha": _finite(self.alpha),
            "expected": self.expected,
            "epsilon": _finite(self.epsilon),
            "size": _finite(self.size),
            "lifetime": {
                "queries": _finite(self.lifetime.queries),
                "size": _finite(self.lifetime.size),
                "words": self.lifetime.words,
            },
            "declared": self.declared,
            "runs": self.runs,
            "verdict": self.verdict,
            "note": self.note,
            "create": self.create,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Every mechanism for one set of parameters, the best first.

    ``print(plan)`` shows it as a table.
    """

    wanted: Wanted
    """The quantity that the plan computes: "alpha", "epsilon" or "size"."""
    cells: int
    size: int | None
    epsilon: float | None
    delta: float
    beta: float
    queries: float
    horizon: float | None
    """The largest size that matters; infinite: for ever; None: the data do not grow."""
    alpha: float | None
    adaptive: bool
    """Whether queries may depend on answers."""
    rows: tuple[PlanRow, ...]
    best: PlanRow | None
    """The row of the mechanism to use, which a vault can have; None if none of those guarantees anything."""
    reason: str
    """Why it is the best, or why there is none, in plain words."""
    rows_per_person: int = 1
    """The most rows of a person, whom epsilon is for. The epsilon of each of ``rows`` is that of one row."""
    kinds: tuple[KindOfQuestion, ...] = ()
    """How sharp each kind of question is, where persons have several rows."""

    def row(self, name: str) -> PlanRow:
        """The row of the mechanism called ``name``."""
        found = {row.name: row for row in self.rows}
        if name not in found:
            raise ParameterError("name", f"must be one of {', '.join(found)}, not {name!r}")
        return found[name]

    @property
    def command(self) -> str | None:
        """What makes a vault with the best mechanism; None if there is none."""
        return None if self.best is None else self.making(self.best)

    def making(self, row: PlanRow, vault: str = "VAULT", schema: str = "SCHEMA.toml") -> str | None:
        """The command that makes a vault with the mechanism of a row; None if no vault has it."""
        if row.create is None:
            return None
        promise = f"--epsilon {rounded_up(row.epsilon) if self.epsilon is None else f'{self.epsilon:.15g}'}"
        promise += f" --delta {self.delta:g}" if self.delta else ""
        if self.rows_per_person > 1:
            promise += f" --person COLUMN --rows-per-person {self.rows_per_person}"
        chance = f" --beta {self.beta:g}" if self.beta != DEFAULT_BETA else ""
        return f"treering create {vault} --schema {schema} {promise}{chance} {row.create}"

    def to_json(self) -> str:
        """The whole plan as JSON; what is infinite, or was not given, is null."""
        return json.dumps(
            {
                "wanted": self.wanted,
                "cells": self.cells,
                "size": self.size,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "beta": self.beta,
                "queries": _finite(self.queries),
                "grows": self.horizon is not None,
                "horizon": None if self.horizon is None else _finite(self.horizon),
                "alpha": self.alpha,
                "adaptive": self.adaptive,
                "best": None if self.best is None else self.best.name,
                "command": self.command,
                "reason": self.reason,
                "rows_per_person": self.rows_per_person,
                "kinds": {each.name: each.margin for each in self.kinds},
                "rows": [row.to_dict() for row in self.rows],
            },
            allow_nan=False,
            ensure_ascii=False,
        )

    def __str__(self) -> str:
        heads = ["mechanism", *_HEADS[self.wanted], "typical error", "queries", "lasts"]
        table = [heads, *([*_cells(row, self.wanted)] for row in self.rows)]
        widths = [max(len(line[column]) for line in table) for column in range(len(heads))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        notes = [f"- {row.name}: {row.note}." for row in self.rows if row.note]
        made = [] if self.command is None else [f"To make it: {self.command}"]
        told = [*lines, "", *self.widths(), self.reason, *made]
        return "\n".join([_question(self), "", *told, "", _LEGEND, *notes])

    def widths(self) -> list[str]:
        """How sharp each kind of question is, in lines; none where each person has one row."""
        if not self.kinds:
            return []
        margins = "; ".join(f"{each.name} ± {each.margin:,.0f}" for each in self.kinds)
        return [f"For persons with up to {self.rows_per_person:,} rows each: {margins}.", ""]

    def _repr_html_(self) -> str:
        """The plan in a notebook: what was asked, a table with the best row in bold, and the reason."""
        heads = ["mechanism", *_HEADS[self.wanted], "typical error", "queries", "lasts"]
        body = ""
        for row in self.rows:
            name, *others = map(escape, _cells(row, self.wanted))
            first = f"<b>{name}</b>" if row is self.best else name
            body += f"<tr><td>{'</td><td>'.join([first, *others])}</td></tr>"
        table = f"<table><thead><tr><th>{'</th><th>'.join(heads)}</th></tr></thead><tbody>{body}</tbody></table>"
        return f"<div>{escape(_question(self))}{table}{escape(self.reason)}</div>"


_HEADS: dict[Wanted, tuple[str, ...]] = {
    "alpha": ("guaranteed error",),
    "epsilon": ("epsilon needed",),
    "size": ("rows needed",),
}

_LEGEND = (
    "Errors are shares of the rows. Guaranteed: no answer is further off, but with probability beta. Typical: the mean "
    "for a query over half of the cells that was chosen without looking at the noise (–: it depends on the data)."
)


def _cells(row: PlanRow, wanted: Wanted) -> list[str]:
    expected = "–" if row.expected is None or not row.guaranteed else number(row.expected)
    first = {"alpha": row.alpha, "epsilon": row.epsilon, "size": row.size}[wanted]
    shown = row.verdict if wanted == "alpha" and not row.guaranteed else _quantity(first, wanted)
    shown += "" if row.runs or not row.guaranteed else " (theory)"
    kind = "declared" if row.declared else "any"
    return [row.name, shown, expected, kind, row.lifetime.words if row.guaranteed else "–"]


def _quantity(value: float, wanted: Wanted) -> str:
    if not math.isfinite(value):
        return "cannot be had"
    return f"{value:,.0f}" if wanted == "size" else number(value)


def _question(plan: Plan) -> str:
    start = "a start to be found" if plan.size is None else counted(plan.size, "row")
    if plan.horizon is None:
        growth = "which do not grow"
    else:
        growth = "growing for ever" if plan.horizon == math.inf else f"growing to {plan.horizon:,.0f}"
    kind = "adaptive" if plan.adaptive else "declared"
    asked = counted(plan.queries, f"{kind} query", f"{kind} queries")
    many = f"any number of {kind} queries" if plan.queries == math.inf else asked
    privacy = "epsilon to be found" if plan.epsilon is None else f"epsilon = {plan.epsilon:g}"
    privacy += f" for a person with up to {plan.rows_per_person} rows" if plan.rows_per_person > 1 else ""
    wish = "" if plan.alpha is None else f", alpha = {plan.alpha:g} wanted"
    return (
        f"{counted(plan.cells, 'cell')}; {start}, {growth}; {many}; {privacy}, delta = {plan.delta:g}, "
        f"beta = {plan.beta:g}{wish}"
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row of a plan in the making: with the criteria that rank it, and the reason if it wins."""

    row: PlanRow
    eligible: bool
    covers: bool
    """Whether its lifetime covers all queries and all sizes asked about."""
    because: str


def rank(rows: list[Ranked], wanted: Wanted) -> list[Ranked]:
    """The best row first: eligible ones, among them those that last as long as asked, then by the wanted quantity."""

    def key(each: Ranked) -> tuple[bool, bool, float, float]:
        row = each.row
        return (
            not each.eligible,
            not each.covers,
            {"alpha": row.alpha, "epsilon": row.epsilon, "size": row.size}[wanted],
            row.alpha,
        )

    return sorted(rows, key=key)


def reason(ranked: list[Ranked], wanted: Wanted) -> str:
    """Why the first of the ranked rows wins, and by how much; or what would help if none does."""
    first = ranked[0]
    if not first.eligible:
        return (
            "No mechanism of a vault guarantees better than answering ½ without looking: these are too few rows, or "
            "too small an epsilon. plan(..., alpha=) without epsilon, or without size, says what would do."
        )
    row = first.row
    does = {
        "alpha": f"keeps every answer within {number(row.alpha)}",
        "epsilon": f"does it with epsilon = {number(row.epsilon)}",
        "size": f"does it from {counted(row.size, 'row')} on",
    }[wanted]
    text = f"Best: {row.name}. It {does}, because {first.because}."
    rival = next((each.row for each in ranked[1:] if each.eligible), None)
    if rival is not None:
        value = {"alpha": rival.alpha, "epsilon": rival.epsilon, "size": rival.size}[wanted]
        text += f" Next: {rival.name}, {_quantity(value, wanted)}."
    return text
