"""Results as people see them: a number with its ± in one piece, bars in a terminal, small pieces of HTML in a notebook.

A released table is an Arrow table, which a notebook shows as bare columns: `show_tables` teaches IPython to show those
that `Vault.sql` gives. (`treering.plot` draws one.)
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from html import escape
from typing import TYPE_CHECKING, Any, Final

from treering.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

MARK: Final = b"treering"
"""The key in an Arrow table's metadata that says that it was released, and of how many rows."""

HOLDING: Final = b"treering.margins"
ALONE: Final = b"each number alone"
TOGETHER: Final = b"all groups together, as some were chosen by their numbers"
"""What the margins of a released table hold for, with 95%, under a key of its metadata."""

NOTES: Final = b"treering.notes"
"""What a reader of a released table should know: a JSON list of sentences under this key of its metadata."""

_WIDTH: Final = 240
"""The width of a bar, in pixels."""

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a text begins with that a spreadsheet takes for a formula."""

MARGIN: Final = "_margin"
"""What the name of a margin's column ends with."""

BARS: Final = 40
"""The most groups that are drawn as bars."""


# -- text --------------------------------------------------------------------------------------------------------------


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


def holding(table: pa.Table) -> str:
    """What the margins of a released table hold for."""
    said: bytes = (table.schema.metadata or {}).get(HOLDING, ALONE)
    return said.decode()


def notes(table: pa.Table) -> list[str]:
    """What a reader of a released table should know, in sentences."""
    found: list[str] = json.loads((table.schema.metadata or {}).get(NOTES, b"[]"))
    return found


def plain_value(value: Any) -> Any:
    """A value for JSON: a date as its text, a number that is infinite or no number as None."""
    if value is None or isinstance(value, str | int | bool):
        return value
    return value.isoformat() if isinstance(value, date) else float(value) if math.isfinite(value) else None


def number(value: Any, margin: float | None = None) -> str:
    """A value as people write it, with its margin if it has one: no more digits than the margin leaves sense in.

    >>> number(8541, 104.2), number(0.148846, 0.001865), number("JFK"), number(None)
    ('8,541 ± 104', '0.1488 ± 0.0019', 'JFK', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, date) and margin is not None:
        return f"{value} ± {counted(math.ceil(margin), 'day')}"
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


# -- HTML --------------------------------------------------------------------------------------------------------------


def budget_html(spent: float, total: float, unit: str) -> str:
    """A bar of what is spent."""
    part = min(1.0, spent / total) if total else 0.0
    return (
        f'<svg width="{_WIDTH}" height="12" role="img" aria-label="{part:.0%} spent">'
        f'<rect width="{_WIDTH}" height="12" fill="#e5e7eb"/>'
        f'<rect width="{part * _WIDTH:.1f}" height="12" fill="#2563eb"/>'
        f"</svg> {escape(unit)} {spent:.4g} of {total:.4g} spent"
    )


def status_html(status: Mapping[str, Any], spent: float, total: float, unit: str) -> str:
    """A vault: its rows, its budget, and its mechanisms."""
    rows = [[each["name"], f"{each['spent']:.4g}", f"{each['remaining']:.4g}"] for each in status["mechanisms"]]
    listed = table_html(["mechanism", f"spent ({unit})", "remaining"], rows)
    return f"<div><b>{counted(status['size'], 'row')}</b><br>{budget_html(spent, total, unit)}{listed}</div>"


def table_html(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table."""
    head = "".join(f"<th>{escape(str(each))}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(each))}</td>" for each in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# -- released tables ---------------------------------------------------------------------------------------------------


def released_html(table: pa.Table) -> str | None:
    """A released table, each number with its margin; None for any other table, which IPython shows as it does."""
    if MARK not in (table.schema.metadata or {}):
        return None
    heads, rows, _ = written(table)
    return table_html(heads, rows) + "".join(f"<p>{escape(each)}</p>" for each in notes(table))


def show_tables() -> None:
    """Have the IPython that this runs in, if it is one, show released tables."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type_by_name("pyarrow.lib", "Table", released_html)


# -- files for spreadsheets --------------------------------------------------------------------------------------------


def harmless(table: pa.Table) -> pa.Table:
    """A table for CSV: a text, or a column's name, that a spreadsheet would take for a formula gets a ' before it.
    Numbers stay numbers.

    >>> import pyarrow as pa
    >>> harmless(pa.table({"=x": ["=1+1", "a", None], "n": [-1, 2, 3]})).to_pydict()
    {"'=x": ["'=1+1", 'a', None], 'n': [-1, 2, 3]}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def column(values: Any) -> Any:
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            return values
        plain, (quote, nothing) = values.cast(pa.large_string()), pa.array(["'", ""], pa.large_string())
        risky = pc.is_in(pc.utf8_slice_codeunits(plain, 0, 1), pa.array(FORMULA, pa.large_string()))
        return pc.if_else(risky, pc.binary_join_element_wise(quote, plain, nothing), plain)

    names = [f"'{name}" if name.startswith(FORMULA) else name for name in table.column_names]
    return pa.Table.from_arrays([column(each) for each in table.columns], names=names)
