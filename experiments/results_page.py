"""Write docs/results.md from the tables in experiments/results: ``python -m experiments.results_page``.

The page has nothing that is not in those tables. ``make experiments`` makes them and then the page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.record import RESULTS, ROOT, Row, read
from treering.words import counted, readable

PAGE = ROOT / "docs" / "results.md"


@dataclass(frozen=True)
class Section:
    """One experiment on the page: what was asked, its picture and its table."""

    name: str
    title: str
    words: str
    columns: dict[str, str]
    """Which columns are shown, and their heads."""
    shown: Callable[[Row], bool] = lambda _: True


SECTIONS = (
    Section(
        "rings_baselines",
        "Rings against everything else one could do with a promise",
        "The flights of 2013, ε = 1, δ = 10⁻⁶, the same rows and questions for all; the others are told beforehand "
        "what helps them. Mean errors in rows. Where questions share nothing, nothing beats noise for each of them,"
        " and Rings lose the fifth of the budget that they keep for questions still to come.",
        {"workload": "workload", "mechanism": "mechanism", "mean_error": "mean error, rows"},
    ),
    Section(
        "crossover_map",
        "Which mechanism wins where",
        "Random tables that double while questions come; ε = 1, δ = 10⁻⁶. *Predicted* is the planner's typical "
        "error, *measured* what came, as shares of the rows. A mechanism that cannot promise anything at a place "
        "refuses.",
        {
            "cells": "cells",
            "questions": "questions",
            "size": "rows",
            "mechanism": "mechanism",
            "recommended": "planner's choice",
            "predicted": "predicted",
            "measured": "measured",
            "refused": "refused",
        },
    ),
    Section(
        "turbo_covid",
        "Turbo's Covid workload",
        "The ε that is needed for errors of at most 0.05 with β = 0.001, planned before the data are seen; Turbo's and "
        "an exact cache's as they were measured for them. Errors are shares, over all repetitions.",
        {
            "setting": "setting",
            "exact_cache": "exact cache",
            "turbo": "Turbo",
            "epsilon": "treering",
            "mechanism": "by",
            "largest_error": "largest error",
            "mean_error": "mean error",
            "repetitions": "repetitions",
        },
    ),
    Section(
        "sql_coverage",
        "SQL: how often margins hold",
        "Groups of 40 rows each, so that tops stand out by their noise alone; every life has noise of its own. What is "
        "chosen (tops, HAVING, a maximum) has margins for all groups together, and counts by lives; other numbers have "
        "margins for exactly 95 %. The interval is Clopper's and Pearson's, with 95 %.",
        {
            "groups": "groups",
            "promise": "promise",
            "statement": "statement",
            "of": "of",
            "trials": "trials",
            "share": "share outside",
            "low": "from",
            "high": "to",
        },
    ),
    Section(
        "pmwg_bounds",
        "PMWG: the paper's constants and ours",
        "The worst-case error for the whole future that can be promised, ε = 1. No randomness.",
        {
            "delta": "δ",
            "cells": "cells",
            "size": "rows",
            "paper": "the paper's",
            "tight": "ours",
            "default": "ours, 10⁹ queries, half the budget",
        },
    ),
    Section(
        "frozen_scale",
        "Sparse vector: noise fixed in rows against the paper's ξₜ",
        "The same privacy for both. *Misjudged*: runs that are wrong about a count 1,000 rows off the threshold.",
        {
            "noise_of": "noise",
            "size": "rows",
            "noise": "scale, rows",
            "wrong": "misjudged",
            "predicted": "predicted",
        },
    ),
    Section(
        "fresh_threshold",
        "Erratum E1: a fresh threshold at every step",
        "The paper's pseudocode of ATG, its proof's one threshold, and `tr.ATG`, on the same two neighbours at ε = "
        "2: the exact privacy loss, and the lower bound that an audit finds with a confidence of 1 − 10⁻⁶.",
        {"threshold": "threshold", "steps": "steps", "exact": "exact loss", "audited": "audited loss, at least"},
    ),
    Section(
        "schedule_bounds",
        "BBScheduler: exponents",
        "The error of a rerun box of rate p falls like a power of n over a logarithm: p/(p+1) for δ = 0 and "
        "p/(p/2+1) for δ > 0, where the paper has p/(2p+1) and p/(3p/2+1). No randomness.",
        {
            "p": "p",
            "delta": "δ",
            "exponent": "exponent",
            "found": "found",
            "paper_exponent": "the paper's",
        },
        lambda row: row["size"] == "1e+06",
    ),
    Section(
        "schedulers_improver",
        "BBImprover: errors that fall as the table grows",
        "A noisy histogram of 64 cells, rerun from 10³ to 10⁶ rows; ε = 1, δ = 10⁻⁹; root mean square errors.",
        {"size": "rows", "tight": "ours", "paper": "the paper's"},
    ),
    Section(
        "erm_logistic",
        "ERMG: bounds beside what was measured",
        "Logistic regression in ten dimensions, ε = 1, δ = 10⁻⁶. The paper's table has bounds up to a constant, "
        "taken as 1 here; ours are proven with their constants.",
        {
            "size": "rows",
            "paper_growing_bound": "the paper's bound",
            "growing_bound": "our bound",
            "paper_growing": "the paper's, measured",
            "growing": "ours, measured",
            "static": "static, measured",
        },
    ),
)

CLAIM = ("experiment", "claim", "found", "at most", "holds")

HEAD = """# Results

Everything on this page was written by `make experiments`, from the tables in `experiments/results`. Data and questions
have the seed 1; private noise has none, so a rerun differs by chance. Each experiment is a script in `experiments/`
whose docstring says what is run and what is claimed; `python -m experiments.NAME` runs one of them. One row, replaced,
makes two tables neighbours, here and everywhere.
"""


def page(folder: Path = RESULTS) -> str:
    """The page's text."""
    parts = [HEAD, *(_section(section, read(folder / f"{section.name}.csv")) for section in SECTIONS)]
    return "\n".join([*parts, _claims(read(folder / "claims.csv")), *_durations(read(folder / "durations.csv"))])


def _section(section: Section, rows: Sequence[Row]) -> str:
    cells = [[_cell(row.get(name, "")) for name in section.columns] for row in rows if section.shown(row)]
    shown = table(list(section.columns.values()), cells)
    picture = f"![{section.title}](images/result_{section.name}.svg)"
    return f"## {section.title}\n\n{section.words} `python -m experiments.{section.name}`\n\n{picture}\n\n{shown}\n"


def _claims(rows: Sequence[Row]) -> str:
    cells = [[row["experiment"], row["claim"], row["found"], row["at_most"], row["holds"]] for row in rows]
    broken = sum(row["holds"] == "no" for row in rows)
    words = (
        f"{counted(len(rows), 'claim')}, {broken} of them broken. A claim says that what was found is at most a limit."
    )
    return f"## All claims\n\n{words}{_missing(rows)}\n\n{table(CLAIM, cells)}\n"


def _durations(rows: Sequence[Row]) -> list[str]:
    """How long the last whole run took, if that was noted."""
    minutes = sum(float(row["seconds"]) for row in rows) / 60
    return [f"The whole run took {minutes:.0f} minutes (`experiments/results/durations.csv`).\n"] if rows else []


def _missing(rows: Sequence[Row]) -> str:
    """Which experiments have tables of their own here, but were not run with the others."""
    known = {row["experiment"] for row in rows}
    left = [section.name for section in SECTIONS if section.name not in known]
    return f" Not run with the others: {', '.join(left)}." if left else ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of a page."""
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    """A number with three figures, or a word as it is."""
    try:
        value = float(text)
    except ValueError:
        return text
    if value != value:
        return "–"
    return readable(value, 3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
