"""Answers, tables and prices as the page shows them."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from treering.answer import Answer, Bill, Price
from treering.errors import ParameterError
from treering.pictures.strips import bar, span_of
from treering.service.pages.state import percent
from treering.shown import BARS, MARGIN, harmless, holding, number
from treering.words import counted, readable

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN: Final = 200
"""The most rows of a table that the page shows; the file has all."""
_STATEMENT: Final = re.compile(
    r"[\s(]*((SELECT|WITH|EXPLAIN)\b|SHOW\s+(TABLES|COLUMNS)\b|DESC(RIBE)?\s+[\w\"]+[\s;]*\Z)", re.IGNORECASE
)


def is_statement(text: str) -> bool:
    """Whether this is an SQL statement, and not a condition.

    >>> is_statement("select 1"), is_statement("(SELECT 1)"), is_statement("(month = 1)"), is_statement("selected = 1")
    (True, True, False, False)
    """
    return _STATEMENT.match(text) is not None


def wish(text: str) -> float | None:
    """The margin that was typed: rows, or a percentage; None for none.

    >>> wish("200"), wish("0.1%"), wish("1,000"), wish(" ")
    (200.0, 0.001, 1000.0, None)
    """
    plain = text.strip().replace(",", "")
    if not plain:
        return None
    try:
        value = float(plain.removesuffix("%"))
    except ValueError:
        value = math.nan
    share = plain.endswith("%")
    if not 0 < value < (100 if share else math.inf):
        raise ParameterError("within", "must be a number of rows, or a percentage of them: 200 or 0.1%")
    return value / 100 if share else value


def priced(price: Price, total: float) -> dict[str, Any]:
    """What asking would cost."""
    return {
        "free": price.most == 0,
        "share": percent(price.most / total),
        "most": readable(price.most),
        "unit": price.unit,
        "exact": price.exact,
        "enough": price.enough,
    }


def counted_rows(answer: Answer, bill: Bill, total: float) -> dict[str, Any]:
    """The answer to a condition."""
    table = _columns(answer)
    value, margin = answer.count, answer.count_margin
    return {
        "answer": answer,
        "svg": bar(value, margin, (0.0, float(max(answer.size, value + margin))), track=True),
        "said": f"{value:,} plus or minus {margin:,} of {counted(answer.size, 'row')}. {_costs(bill, total)}",
        **_paid(bill, total),
        **_file(table),
    }


def released(table: pa.Table, size: int, bill: Bill, total: float) -> dict[str, Any]:
    """The table that answers a statement: each number with its margin, and its error bar where bars can be compared."""
    names = table.column_names
    noisy = [name for name in names if f"{name}{MARGIN}" in names]
    bare = [name for name in names if not (name.endswith(MARGIN) and name.removesuffix(MARGIN) in noisy)]
    charted = noisy[:1] if names[0] not in noisy and 1 < table.num_rows <= BARS else []
    shown = table.slice(0, SHOWN)
    columns = [_cells(shown, name, name in noisy, name in charted) for name in bare]
    return {
        "answer": None,
        "heads": [{"name": name, "number": _numeric(table, name), "bars": name in charted} for name in bare],
        "rows": [list(row) for row in zip(*columns, strict=True)],
        "length": table.num_rows,
        "more": table.num_rows > SHOWN,
        "size": size,
        "holding": holding(table) if noisy else "",
        "said": f"A table of {counted(table.num_rows, 'row')}. {_costs(bill, total)}",
        **_paid(bill, total),
        **_file(table),
    }


def _cells(table: pa.Table, name: str, noisy: bool, charted: bool) -> list[dict[str, Any]]:
    """A column's cells: text, and a bar if it is charted."""
    values = table.column(name).to_pylist()
    margins = table.column(f"{name}{MARGIN}").to_pylist() if noisy else [None] * len(values)
    bars = _bars(values, margins) if charted else [""] * len(values)
    numeric = _numeric(table, name)
    return [
        {"text": number(value, margin), "number": numeric, "svg": drawn}
        for value, margin, drawn in zip(values, margins, bars, strict=True)
    ]


def _bars(values: Sequence[Any], margins: Sequence[Any]) -> list[str]:
    known = [(float(value or 0), float(margin or 0)) for value, margin in zip(values, margins, strict=True)]
    span = span_of([value for value, _ in known], [margin for _, margin in known])
    return [bar(value, margin, span) for value, margin in known]


def _numeric(table: pa.Table, name: str) -> bool:
    kind = str(table.schema.field(name).type)
    return re.match(r"u?int|float|double|decimal", kind) is not None


def _columns(answer: Answer) -> pa.Table:
    """One answer as a table of one row, for its file."""
    import pyarrow as pa

    names = ("count", "count_margin", "count_error", "value", "margin", "error", "size", "kind", "of")
    return pa.table({name: [getattr(answer, name)] for name in names})


def _paid(bill: Bill, total: float) -> dict[str, Any]:
    return {"free": bill.cost == 0, "share": percent(bill.cost / total), "left": percent(bill.remaining / total)}


def _costs(bill: Bill, total: float) -> str:
    return "It was free." if bill.cost == 0 else f"It cost {percent(bill.cost / total)} of a row's budget."


def _file(table: pa.Table) -> dict[str, str]:
    """The whole result as a file in the page itself: what was released once is not asked again to be saved."""
    from pyarrow import csv

    sink = io.BytesIO()
    csv.write_csv(harmless(table), sink)
    return {"csv": "data:text/csv;base64," + base64.b64encode(sink.getvalue()).decode(), "file": "answer.csv"}
