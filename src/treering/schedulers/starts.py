"""From which size on a plan promises anything: an error of 1 or more is none (for shares; see `Box.worst`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from treering.errors import GuaranteeError
from treering.theory.schedule import MOST_ROWS

Planned = TypeVar("Planned")


def useful(
    plan: Callable[[int], Planned], error_of: Callable[[Planned], float], start: int, limit: float = 1.0
) -> Planned:
    """The plan from this size on, if the largest error it promises is below the limit.

    Otherwise a `GuaranteeError` that names a larger start that would do: doubled, then bisected to about a tenth.
    """

    def error_at(size: int) -> float:
        try:
            return error_of(plan(size))
        except GuaranteeError:
            return float("inf")

    try:
        planned = plan(start)
        found = error_of(planned)
        if found < limit:
            return planned
        problem = f"no error below {limit:.3g} is guaranteed from {start:,} rows on: it could be {found:.3g}"
    except GuaranteeError as refusal:
        problem = str(refusal)
    low, high = start, 2 * start
    while not error_at(high) < limit:
        low, high = high, 2 * high
        if low > MOST_ROWS:
            raise GuaranteeError(f"{problem}. No start would do: the box's error does not fall with the size")
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error_at(middle) < limit else (middle, high)
    raise GuaranteeError(
        f"{problem}. From about {high:,} rows on an error below {limit:.3g} is guaranteed; "
        "a larger epsilon would do too"
    )
