"""The report of a vault: one self-contained HTML page of what is public about it, the promise in plain words first."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from treering.pictures.rings import Ring, drawn, merged
from treering.words import counted

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1f2937; --paper: #fff; --card: #f6f7f6; --line: #d9dedb; --leaf: #2e7d32;
  --bark: #8d6e63; --one: #bcaaa4; --two: #efebe9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --paper: #14181a; --card: #1e2426; --line: #374145;
  --leaf: #66bb6a; --bark: #a1887f; --one: #4e423d; --two: #372f2c; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.25rem; }
.cards { display: flex; flex-wrap: wrap; gap: 1rem; } .card { background: var(--card); border-radius: .5rem;
  padding: .8rem 1.1rem; flex: 1 1 11rem; } .card b { display: block; font-size: 1.5rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; } pre { background: var(--card); padding: 1rem; overflow-x: auto; }
.bar { background: var(--line); height: .7rem; border-radius: .35rem; } .bar i { display: block; height: 100%;
  background: var(--leaf); border-radius: .35rem; }
.rings svg { display: block; width: 100%; max-width: 24rem; height: auto; margin: auto; }
.rings text { fill: var(--ink); }
.wood { stroke: var(--bark); } .wood-0 { fill: var(--one); } .wood-1 { fill: var(--two); }
"""


def overview(status: Mapping[str, Any], batches: Sequence[tuple[float, int]]) -> str:
    """The page, from the public status of a vault and the moment and the number of rows of each batch."""
    name, size = str(status["name"]), int(status["size"])
    left = 1.0 if not status["total"] else status["remaining"] / status["total"]
    cards = [
        ("rows", f"{size:,}"),
        ("of the promise left for rows that paid most", f"{left:.0%}"),
        ("series kept current", str(len(_series(status)))),
        ("entries of the ledger", f"{status['entries']:,}"),
    ]
    parts = [
        f"<h1>{escape(name)}: what is released, under one promise</h1>",
        "".join(f"<p>{escape(sentence)}</p>" for sentence in promise(status)),
        '<div class="cards">' + "".join(f'<div class="card"><b>{value}</b>{words}</div>' for words, value in cards),
        f'</div><h2>Budget</h2><p>{_spent(status)}</p><div class="bar"><i style="width: {100 * left:.2f}%"></i></div>',
        _grown(batches),
        _kept(status),
        _mechanisms(status),
        f"<h2>Label</h2><p>For a registry of deployments.</p><pre>{escape(json.dumps(label(status), indent=2))}</pre>",
        f"<p>Head of the ledger: <code>{escape(str(status['head']))}</code>. Note it elsewhere: "
        "<code>treering verify --head</code> tells whether the vault was ever set back.</p>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><title>{escape(name)}</title><style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>\n'
    )


def promise(status: Mapping[str, Any]) -> list[str]:
    """The promise in plain words, for this vault's numbers.

    >>> told = promise({"epsilon": 1.0, "delta": 1e-06, "rows_per_person": 1})
    >>> told[1]
    'A reader who guesses with 50% what your row says can be at most 73% sure after seeing all of it.'
    """
    epsilon, delta, rows = status["epsilon"], status["delta"], status["rows_per_person"]
    whose = "your row says" if rows == 1 else f"your rows say (up to {rows:,} of them)"
    small = "" if not delta else f" (but for a chance of {delta:.0e}, delta)"
    return [
        "Everything that was and ever will be released of this table, to all readers together, keeps one promise: "
        f"epsilon {epsilon:g}{small}. If one person's values were others, the odds of any conclusion would change by "
        f"at most {math.exp(epsilon):.3g} to 1.",
        f"A reader who guesses with 50% what {whose} can be at most {sure(epsilon):.0%} sure after seeing all of it.",
        "How many rows there are, and when they came, is public.",
    ]


def sure(epsilon: float) -> float:
    """How sure a guess of 50% can become.

    >>> round(sure(1.0), 3), sure(0.0), sure(1000.0)
    (0.731, 0.5, 1.0)
    """
    return 1 / (1 + math.exp(-epsilon))


def label(status: Mapping[str, Any]) -> dict[str, Any]:
    """The deployment in the fields of a registry: unit, neighbours, loss, mechanisms, what is not protected."""
    rows = status["rows_per_person"]
    return {
        "unit of privacy": "row" if rows == 1 else f"person with up to {rows:,} rows",
        "neighbours": "one unit's values are replaced; the number of rows is public",
        "model": "central, growing data, adaptive questions, without end",
        "epsilon": status["epsilon"],
        "delta": status["delta"],
        "accounting": f"one filter per row, {status['unit']} = {status['total']:.6g}",
        "mechanisms": [
            {"name": each["name"], "kind": each["kind"], "share": each["share"]} for each in status["mechanisms"]
        ],
        "post-processing": "rounding, clamping, SQL over released tables",
        "not protected": "number of rows, times of arrival, timing of answers, the schema",
        "software": "treering",
        "since": status["created"],
    }


def _spent(status: Mapping[str, Any]) -> str:
    unit = escape(str(status["unit"]))
    return (
        f"{unit} {status['spent']:.4g} of {status['total']:.4g} is spent for the rows that paid most, "
        f"{status['remaining']:.4g} is left. Rows to come bring a whole budget of their own."
    )


def _grown(batches: Sequence[tuple[float, int]]) -> str:
    if not batches:
        return ""
    moments = [datetime.fromtimestamp(moment, UTC) for moment, _ in batches]
    form = "%H:%M" if len({each.date() for each in moments}) == 1 else "%Y-%m-%d"
    rings = merged([Ring(f"{when:{form}}", rows) for when, (_, rows) in zip(moments, batches, strict=True)])
    return (
        f"<h2>Growth</h2><p>{counted(len(batches), 'batch', 'batches')}; each ring is rows that came together.</p>"
        f'<div class="rings">{drawn(rings, width=400)}</div>'
    )


def _series(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for mechanism in status["mechanisms"] for each in mechanism.get("series", ())]


def _kept(status: Mapping[str, Any]) -> str:
    rows = [
        [
            ", ".join(each["attributes"]) or "all rows",
            each["sums"] or "",
            f"{each['groups']:,}",
            f"± {each['margin']:,.0f}",
            f"{each['price'] / status['total']:.1%}",
            f"{each['answers']:,}",
            f"{each['size']:,}",
        ]
        for each in _series(status)
    ]
    heads = ("asked about", "sums of", "groups", "a group's count", "paid by a row", "times", "rows until now")
    return f"<h2>What was asked</h2>{_table(heads, rows, text=2)}" if rows else ""


def _mechanisms(status: Mapping[str, Any]) -> str:
    rows = [
        [each["name"], each["kind"], each["guarantee"].get("statement", ""), f"{each['share']:.0%}"]
        for each in status["mechanisms"]
    ]
    return f"<h2>How</h2>{_table(('mechanism', 'kind', 'what holds', 'share'), rows, text=3)}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], text: int) -> str:
    """A table whose first columns are ``text``, and the others numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = ["" if place < text else ' class="number"' for place in range(len(cells))]
        listed = zip(kinds, cells, strict=True)
        return "<tr>" + "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in listed) + "</tr>"

    return f'<div class="wide"><table>{line("th", heads)}{"".join(line("td", row) for row in rows)}</table></div>'
