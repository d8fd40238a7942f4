"""What the lines of a ledger cost each row: worked out from the lines alone, as an auditor would."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeAlias

Paid: TypeAlias = tuple[int, int, float]
"""Rows after one position, up to another; and what each of them has paid."""


def most_paid(lines: Iterable[dict[str, Any]]) -> float:
    """The most that any row has paid to one mechanism, whose lines these are."""
    charges = _charges(lines)
    first = {after + 1 for after, _, _ in charges}
    return max((math.fsum(paid for after, to, paid in charges if after < row <= to) for row in first), default=0.0)


def _charges(lines: Iterable[dict[str, Any]]) -> list[Paid]:
    """A leaf costs the rows since the leaf before; at the end of its segment it is on record what they have paid. All
    else is about the rows that there are."""
    charges: list[Paid] = []
    leaves: dict[int, list[Paid]] = {}
    for line in lines:
        body = line["body"]
        if line["kind"] == "SegmentBegun":
            leaves[body["segment"]] = [(0, body["start"], 0.0)]
        elif line["kind"] == "Advanced":
            own = leaves[body["segment"]]
            own.append((own[-1][1], line["size"], line["cost"]))
        elif line["kind"] == "SegmentEnded":
            del leaves[body["segment"]]
            charges += [(each["start"], each["end"], float(Fraction(each["amount"]))) for each in body["charges"]]
        elif line["cost"]:
            charges.append((0, max(1, line["size"]), line["cost"]))
    return [*charges, *(charge for own in leaves.values() for charge in own)]
