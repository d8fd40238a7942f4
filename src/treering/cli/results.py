"""Tables that answer SQL, as people read them: a number with its ± in one column, and a chart of groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from treering.cli.output import Output

if TYPE_CHECKING:
    import pyarrow as pa

MARGIN: Final = "_margin"
"""What the name of a margin's column ends with."""

BARS: Final = 40
"""The most groups that are drawn as bars."""


def show(out: Output, table: pa.Table) -> None:
    """Show a table, each number together with its margin."""
    heads, rows, right = written(table)
    out.table(heads, rows, right=right)


def written(table: pa.Table) -> tuple[list[str], list[list[str]], list[int]]:
    """The heads, the rows as texts, and which columns are numbers."""
    heads: list[str] = []
    columns: list[list[str]] = []
    right: list[int] = []
    names = table.column_names
    for place, name in enumerate(names):
        if place and name == names[place - 1] + MARGIN:
            continue
        values = table.column(place).to_pylist()
        noisy = place + 1 < len(names) and names[place + 1] == name + MARGIN
        margins = table.column(place + 1).to_pylist() if noisy else [None] * len(values)
        if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            right.append(len(heads))
        heads.append(name)
        columns.append([number(value, margin) for value, margin in zip(values, margins, strict=True)])
    return heads, [list(row) for row in zip(*columns, strict=True)], right


def number(value: Any, margin: float | None = None) -> str:
    """A value as people write it, with its margin if it has one: no more digits than the margin leaves sense in.

    >>> number(8541, 104.2), number(0.148846, 0.001865), number("JFK"), number(None)
    ('8,541 ± 104', '0.1488 ± 0.0019', 'JFK', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if margin is None or not math.isfinite(value):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    digits = 0 if isinstance(value, int) and margin >= 1 else _digits(margin)
    return f"{value:,.{digits}f} ± {margin:,.{digits}f}"


def _digits(margin: float) -> int:
    """How many decimal places show two digits of a margin."""
    if margin == 0:
        return 0
    return min(12, max(0, 1 - math.floor(math.log10(margin))))


def chart(table: pa.Table, width: int = 40) -> list[str]:
    """Bars for the first noisy number of each group, with the margin at their ends; nothing if there is no such."""
    names = table.column_names
    noisy = [place for place, name in enumerate(names) if name + MARGIN in names]
    if not noisy or noisy[0] == 0 or not 1 < table.num_rows <= BARS:
        return []
    labels = [
        " ".join(number(value) for value in row)
        for row in zip(*(table.column(each).to_pylist() for each in range(noisy[0])), strict=True)
    ]
    values = [0.0 if value is None else float(value) for value in table.column(noisy[0]).to_pylist()]
    margins = [0.0 if value is None else float(value) for value in table.column(names[noisy[0]] + MARGIN).to_pylist()]
    most = max((value + margin for value, margin in zip(values, margins, strict=True)), default=0.0)
    if most <= 0:
        return []
    wide = max(map(len, labels))
    return [
        f"{label.ljust(wide)}  {_bar(value / most * width, margin / most * width)}"
        for label, value, margin in zip(labels, values, margins, strict=True)
    ]


def _bar(length: float, margin: float) -> str:
    """A bar, solid up to the lower end of its interval and lighter up to the upper end."""
    solid = max(0, round(length - margin))
    return "█" * solid + "▒" * max(0, round(length + margin) - solid)
