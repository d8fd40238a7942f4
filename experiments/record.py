"""What an experiment found, as a table and a picture.

The table is ``experiments/results/NAME.csv``: a row has a key, which says what was varied, and what was found. The
picture is ``docs/images/result_NAME.svg``. Both are written when the experiment has ended. Until then rows are kept in
``NAME.part``, so that a long experiment that was broken off can go on where it was. A short run writes nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from treering.pictures.svg import Panel, render

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "experiments" / "results"
IMAGES: Final = ROOT / "docs" / "images"

Row: TypeAlias = dict[str, str]
Values: TypeAlias = Mapping[str, str | float]


class Record:
    """The rows of one experiment, in the order in which they were found."""

    def __init__(self, name: str, *, keep: bool, resume: bool = False, folder: Path = RESULTS) -> None:
        self._keep = keep
        self._final, self._part = folder / f"{name}.csv", folder / f"{name}.part"
        self._picture = f"result_{name}.svg"
        self.rows: list[Row] = read(self._part) if keep and resume else []

    def row(self, key: Values, measure: Callable[[], Values]) -> Row:
        """The row with this key; it is measured unless a run that was broken off has it already."""
        wanted = texts(key)
        known = next((row for row in self.rows if wanted.items() <= row.items()), None)
        return self.add({**key, **measure()}) if known is None else known

    def add(self, values: Values) -> Row:
        """Keep a row."""
        row = texts(values)
        self.rows.append(row)
        if self._keep:
            write(self._part, self.rows)
        return row

    def finish(self, title: str, panels: Sequence[Panel], *, aside: bool = False, images: Path = IMAGES) -> None:
        """Give the table its name, and draw the picture; ``aside`` puts the legend to the right."""
        picture = render(title, panels, legend_aside=aside)
        if self._keep:
            write(self._part, self.rows)
            (images / self._picture).write_text(picture, encoding="utf-8")
            self._part.replace(self._final)


def texts(values: Values) -> Row:
    """Values as they stand in a table: numbers with six figures."""
    return {name: value if isinstance(value, str) else f"{value:.6g}" for name, value in values.items()}


def read(path: Path) -> list[Row]:
    """The rows of a table; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write a table, whole or not at all."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    beside.replace(path)


def column(rows: Iterable[Row], name: str) -> list[float]:
    """One column, as numbers."""
    return [float(row[name]) for row in rows]


def where(rows: Iterable[Row], **key: str | float) -> list[Row]:
    """The rows with these values."""
    wanted = texts(key)
    return [row for row in rows if wanted.items() <= row.items()]
