"""Writes the tables of docs/peers.md, between its markers, and draws docs/images/peers_map.svg.

    python -m benchmarks.peers.report

All of it is made from the tables of results that `benchmarks.peers`, scripts beside it and `experiments.turbo_covid`
write. For each case of the map: the mean error in rows of treering's default, its 95% confidence interval over seeds,
and the same of the best peer; first of those that are told neither how many questions nor how many batches there will
be, then of all. The tables beside the map are made by `benchmarks.peers.others`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.peers.__main__ import FIELDS, RESULTS, SEEDS, places
from benchmarks.peers.answering import HERE, OURS
from benchmarks.peers.cases import QUESTIONS, SHAPES, SIZES
from benchmarks.peers.elsewhere import ELSEWHERE
from benchmarks.peers.means import Errors, Mean, best, errors
from benchmarks.peers.others import continual, learning, workload
from benchmarks.peers.picture import picture
from experiments.record import IMAGES, RESULTS as EXPERIMENTS, ROOT, Row, read
from experiments.results_page import table
from treering.words import readable

PAGE: Final = ROOT / "docs" / "peers.md"
PICTURE: Final = IMAGES / "peers_map.svg"
BEGIN: Final = "<!-- {}: from here on written by `python -m benchmarks.peers.report`. -->"
END: Final = "<!-- {}: up to here. -->"
NEARLY, HALF = 1.05, 0.5
DEFAULT: Final = "treering"
SHOWN: Final = {DEFAULT: "**treering's default**", "treering, told the questions": "treering, told `pace`"}
"""How names are written where they are not written as they are."""


def verdicts(found: Errors, *, told: bool) -> Counter[str]:
    """In how many cases a peer answers, and the default is as good, overlaps, is at most half, or is worse."""
    counts: Counter[str] = Counter()
    for peers in found.values():
        other = best(peers, told=told)
        if DEFAULT not in peers or other is None:
            continue
        ratio = peers[DEFAULT].value / other[1].value
        near = ratio <= NEARLY
        overlaps = not near and peers[DEFAULT].overlaps(other[1])
        counts.update({"cases": 1, "near": near, "overlaps": overlaps, "half": ratio <= HALF})
        counts["worse"] += not (near or overlaps)
    return counts


def summary(found: Errors, *, told: bool) -> str:
    """The counts as a sentence."""
    counts = verdicts(found, told=told)
    return (
        f"Of {counts['cases']} cases, treering's default has at most {NEARLY} times the error of the best peer in "
        f"{counts['near']} and intervals that overlap in {counts['overlaps']} more; it is worse in {counts['worse']}. "
        f"At most half: in {counts['half']}."
    )


def claim(found: Errors, *, told: bool) -> str:
    """Whether what was to be shown is so."""
    counts = verdicts(found, told=told)
    missed = [
        *(["the first part does not hold"] if counts["worse"] else []),
        *(["the second part does not hold"] if 3 * counts["half"] < counts["cases"] else []),
    ]
    return (
        f"*To be shown*: at most {NEARLY} times, or intervals that overlap, in every case, at most half in a third. "
        f"*Found*: {' and '.join(missed) or 'it is so'}."
    )


def duel(found: Errors, *, told: bool) -> str:
    """A line for each case: the default and the best peer."""
    lines = []
    for case, peers in found.items():
        other = best(peers, told=told)
        if DEFAULT in peers and other is not None:
            ratio = peers[DEFAULT].value / other[1].value
            lines.append(
                [*(f"{each:,}" for each in case), str(peers[DEFAULT]), f"{other[0]}: {other[1]}", f"{ratio:.2f}"]
            )
    return table(["cells", "questions", "rows", "treering's default", "the best peer", "ratio"], lines)


def everybody(found: Errors, size: int) -> str:
    """A line for each that answers: its mean error for each number of cells and questions, at one size."""
    heads = [f"{cells:,}; {_power(number)}" for cells in SHAPES for number in QUESTIONS]
    lines = []
    for name in (*HERE, *ELSEWHERE):
        cells = [_mean(found.get((each, number, size), {}).get(name)) for each in SHAPES for number in QUESTIONS]
        if any(cell != "–" for cell in cells):
            lines.append([SHOWN.get(name, name), *cells])
    return table(["cells; questions", *heads], lines)


def costs(rows: Iterable[Row]) -> str:
    """A line for each program: what it takes on the smallest table, for each number of questions."""
    kept: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["mean"] and int(row["cells"]) == min(SHAPES) and int(row["size"]) == min(SIZES):
            kept[row["peer"]][int(row["questions"])].append(row)
    lines = []
    for name in (*OURS, *ELSEWHERE):
        if name in kept:
            columns = [(field, number) for field in ("setup_seconds", "per_second", "peak_mib") for number in QUESTIONS]
            lines.append([SHOWN.get(name, name), *(_middle(kept[name][number], field) for field, number in columns)])
    heads = [
        f"{words}, {_power(number)}" for words in ("set-up, s", "questions a second", "MiB") for number in QUESTIONS
    ]
    return table(["", *heads], lines)


def reasons(rows: Iterable[Row]) -> str:
    """Who was not run, on how many cases, and why."""
    counted = Counter((row["peer"], row["reason"]) for row in rows if row["reason"])
    lines = [[name, str(number), reason] for (name, reason), number in counted.items()]
    return table(["", "cases", "why"], sorted(lines))


def missing(rows: Iterable[Row]) -> str:
    """What the plan has and the table of results has not."""
    known = {tuple(row[field] for field in FIELDS[:5]) for row in rows}
    left: dict[tuple[str, int], list[int]] = defaultdict(list)
    for case, name in places(range(1, max(SEEDS.values()) + 1)):
        if (*case.key, name) not in known:
            left[name, case.questions].append(case.seed)
    if not left:
        return "Everything else that was planned was run."
    lines = [
        [name, f"{asked:,}", ", ".join(map(str, sorted(set(found)))), str(len(found))]
        for (name, asked), found in sorted(left.items())
    ]
    words = "Planned, and not run yet; `make compare-peers` goes on with it:"
    return f"{words}\n\n{table(['', 'questions', 'seeds', 'runs'], lines)}"


def seeds(rows: Iterable[Row]) -> str:
    """With how many seeds each number of questions was run, by treering's default and at most by a peer."""
    found: dict[tuple[int, bool], set[tuple[str, ...]]] = defaultdict(set)
    for row in rows:
        if row["mean"]:
            key = int(row["questions"]), row["peer"] == DEFAULT
            found[key].add((row["cells"], row["size"], row["peer"], row["seed"]))
    parts = []
    for number in QUESTIONS:
        each = [_spread(found[number, default]) for default in (True, False)]
        parts.append(f"{number:,} questions: {each[0]} for the default, {each[1]} for others")
    return "Seeds: " + "; ".join(parts) + "."


def _spread(runs: set[tuple[str, ...]]) -> str:
    numbers = sorted(Counter(run[:-1] for run in runs).values()) or [0]
    return str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"


def _power(number: int) -> str:
    return "10" + str(len(str(number)) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _mean(mean: Mean | None) -> str:
    return "–" if mean is None else f"{mean.value:,.0f}"


def _middle(rows: Sequence[Row], field: str) -> str:
    """The median over seeds."""
    values = sorted(float(row[field]) for row in rows if row[field])
    if not values:
        return "–"
    return readable(float(f"{values[len(values) // 2]:.2g}"), 2)


def generated(rows: Sequence[Row]) -> str:
    """All that the page says about the map in numbers."""
    found = errors(rows)
    parts = [
        seeds(rows),
        "### Nobody is told anything",
        "treering's default beside the best of those that need not be told. Mean errors in rows ± the 95% interval.",
        summary(found, told=False),
        claim(found, told=False),
        duel(found, told=False),
        "### Peers are told, and treering is not",
        "The best of all peers, told beforehand how many questions, or how many batches, there will be.",
        summary(found, told=True),
        claim(found, told=True),
        duel(found, told=True),
        "### Everybody",
        *(
            part
            for size in (min(SIZES), max(SIZES))
            for part in (f"Mean errors in rows, tables of {size:,} rows:", everybody(found, size))
        ),
        "### What it takes",
        f"Medians over seeds, {min(SHAPES)} cells and {min(SIZES):,} rows.",
        costs(rows),
        "### Not run",
        reasons(rows),
        missing(rows),
    ]
    return "\n\n".join(parts)


def texts() -> dict[str, str]:
    """What stands between the markers of the page, by their names."""
    results = RESULTS.parent
    return {
        "Turbo": workload(read(EXPERIMENTS / "turbo_covid.csv"), read(results / "turbo.csv")),
        "The map": generated(read(RESULTS)),
        "Counts": continual(read(results / "continual.csv")),
        "Learning": learning(read(results / "learning.csv")),
    }


def put(page: str) -> str:
    """The page with what is made from the tables of results between its markers."""
    for name, text in texts().items():
        head, rest = page.split(BEGIN.format(name))
        _, tail = rest.split(END.format(name))
        page = f"{head}{BEGIN.format(name)}\n\n{text}\n\n{END.format(name)}{tail}"
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(
        arguments
    )
    rows = read(RESULTS)
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(errors(rows)), encoding="utf-8")
    for told in (False, True):
        print(f"{'Peers are told' if told else 'Nobody is told anything'}. {summary(errors(rows), told=told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
