"""One row of a plan at a time."""

from __future__ import annotations

import math
from typing import Any

from treering.theory.plan import DEFAULT_QUERIES, GROWING, STATIC, PlanRow, _case, _ranked


def row_of(name: str, cells: int, size: int, epsilon: float, **given: Any) -> PlanRow:
    """One row of a plan, made alone: the others take their time."""
    defaults = {"delta": 0.0, "beta": 0.05, "queries": DEFAULT_QUERIES, "horizon": math.inf}
    case = _case(cells=cells, size=size, epsilon=epsilon, **{**defaults, **given})
    candidate = next(each for each in (GROWING if case.grows else STATIC) if each.name == name)
    return _ranked(candidate, case, "alpha", None, True).row
