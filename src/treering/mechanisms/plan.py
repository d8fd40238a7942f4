"""One plan for one question: what would be released for some items, what that costs, and the state it is made for.

Prices, quotas, dry runs, EXPLAIN and the charge itself are views of the same `Plan`. Making one reads public values
alone and changes nothing; `Answering.execute` carries it out, or says that it is `Stale`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from treering.answer import Answer, Estimate
from treering.domain.language.items import Item
from treering.errors import ParameterError
from treering.mechanisms.series.drawing import Drawing


class Stale(Exception):
    """The state that a plan was made for has moved: rows came, or others asked. Nothing was charged."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a mechanism would answer some items: public, and free."""

    items: Sequence[Item]
    within: float | None
    """The margin that was asked for: rows if it is 1 or more, otherwise a share of them."""
    price: Fraction
    """The most that it could cost those rows that pay most, in the budget's unit."""
    known: Outcome | None
    """What is known already, if all of it follows from earlier releases: executing the plan then releases and records
    nothing. None if something must be released."""
    revision: object
    """The state of the mechanism that it is for."""
    left: Fraction | None = None
    """What is left for rows that have paid most; None where a plan that is not covered is never made."""
    exact: bool = True
    """Whether just the price is charged, but for rounding; otherwise that or less."""
    steps: Any = None
    """What the mechanism would do, in its own terms."""

    @property
    def most(self) -> Fraction:
        """The most that is charged, whatever the answers."""
        return self.price if self.left is None else min(self.price, self.left)

    @property
    def enough(self) -> bool:
        """Whether what is left is sure to pay for all items. If not, some may be refused after others were answered."""
        return self.left is None or self.price <= self.left


class Outcome(Protocol):
    """What is known of a plan's items once it is carried out: public. To be read before the mechanism moves on."""

    @property
    def size(self) -> int:
        """The number of rows that it is about."""

    def answers(self) -> list[Answer]:
        """The share of the rows that match each item, all of which are counts."""

    def estimates(self) -> list[Estimate]:
        """A number for each item, with its interval."""

    def drawing(self) -> Drawing | None:
        """The noise of the estimates, to be drawn anew at any time; None if its law is not known."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The outcome of a mechanism that answers counts, each with an error that all its answers keep together."""

    size: int
    shares: Sequence[Answer]

    def answers(self) -> list[Answer]:
        """See `Outcome.answers`."""
        return list(self.shares)

    def estimates(self) -> list[Estimate]:
        """See `Outcome.estimates`."""
        return [
            Estimate(
                each.count,
                max(0, each.count - each.count_margin),
                min(each.size, each.count + each.count_margin),
                each.error * each.size,
                reading=each.value * each.size,
                tail="together",
            )
            for each in self.shares
        ]

    def drawing(self) -> Drawing | None:
        """See `Outcome.drawing`."""
        return None


def wished(within: float, size: int) -> float:
    """The margin that is wanted, in rows."""
    if isinstance(within, bool) or not isinstance(within, int | float) or not within > 0 or math.isinf(within):
        raise ParameterError("within", f"must be a positive number: rows, or a share of them below 1; not {within!r}")
    rows = float(within) if within >= 1 else float(within) * size
    if rows > size:
        raise ParameterError("within", f"must be at most {size:,}, the number of rows, not {within:,}")
    return rows
