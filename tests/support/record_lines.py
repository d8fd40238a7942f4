"""Lines of a ledger, in a chain, for tests that sort them."""

from __future__ import annotations

from fractions import Fraction

from support.vaults import SCHEMA
from treering.budget.promise import Promise
from treering.trusted.ledger.lines import ROOT, Entry, Line, body, chained
from treering.trusted.ledger.record import Origin

ORIGIN = Origin("0" * 32, SCHEMA, Promise(Fraction(1, 3), Fraction(1, 10**6), 4))


def entries(*lines: Line) -> list[Entry]:
    """Lines in a chain, five microseconds apart."""
    made: list[Entry] = []
    for number, line in enumerate(lines, 1):
        made.append(chained(made[-1].hash if made else ROOT, number, 5 * number, line))
    return made


def mechanism(name: str, share: str, **shares: str) -> Line:
    """The line that adds a mechanism."""
    plain = {"name": name, "kind": "rings", "share": share, "options": {"pace": 8}}
    return Line("mechanism", body(**plain, **({"shares": shares} if shares else {})))
