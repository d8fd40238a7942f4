"""Numbers with declared bounds and a step: bins to ask about, and values that can be added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from treering.domain.attribute import Bins, plain_number
from treering.errors import SchemaError

MAX_STEPS: Final = 2**20
"""The most steps between the bounds. The noise of a sum is at least as wide as the range, so that finer steps could not
be seen in it."""


@dataclass(frozen=True)
class Numbers(Bins):
    """The numbers from ``low`` to ``high`` in multiples of ``step`` above ``low``, cut at ``edges`` into bins.

    The cells are the bins [a, b), one cell below the first edge, one from the last edge on, and one for null and NaN.
    The sums of these numbers are another matter (values outside the bounds are clipped for them); the cells are those
    of `Bins` with ``other`` and ``missing``.
    """

    low: float = 0.0
    high: float = 0.0
    step: float = 1.0

    def __post_init__(self) -> None:
        limits = (self.low, self.high, self.step)
        if any(isinstance(each, bool) or not isinstance(each, int | float) for each in limits):
            raise SchemaError("numbers() takes numbers: low, high and step")
        for name in ("low", "high", "step"):
            object.__setattr__(self, name, float(getattr(self, name)) + 0.0)
        if not -(2.0**53) < self.low < self.high < 2.0**53:
            raise SchemaError(f"numbers({self.low}, {self.high}): low must be less than high, both within ±2^53")
        if not (0 < self.step <= self.high - self.low) or (_exact(self.high) - _exact(self.low)) % _exact(self.step):
            raise SchemaError(f"numbers(): high − low must be a whole number of steps of {plain_number(self.step)}")
        if self.steps > MAX_STEPS:
            raise SchemaError(
                f"numbers() takes at most 2^20 steps between low and high, not {self.steps:,}: use a larger step; the "
                "noise of a sum is at least as wide as the range"
            )
        super().__post_init__()
        if not self.other or not self.missing:
            raise SchemaError("numbers() always has a cell below its edges, one above them, and one for missing values")

    @cached_property
    def steps(self) -> int:
        """The number of steps from ``low`` to ``high``."""
        return int((_exact(self.high) - _exact(self.low)) / _exact(self.step))

    def describe(self) -> str:
        """The range, in words."""
        return f"the numbers {plain_number(self.low)} to {plain_number(self.high)}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        column = {} if self.column is None else {"column": self.column}
        plain = {"kind": "numbers", "low": self.low, "high": self.high, "step": self.step, "edges": list(self.edges)}
        return {**plain, **column}


def numbers(
    low: float, high: float, *, step: float = 1, edges: Iterable[float] | None = None, column: str | None = None
) -> Numbers:
    """An attribute of numbers that can be counted by bins and added up.

    ``low`` and ``high`` bound a value's effect on a sum: a value outside is clipped to them. Values are rounded to the
    nearest multiple of ``step`` above ``low`` when they are added. ``edges`` are where questions can cut: bins [a, b),
    and beside them there is a cell for what lies below the first edge, one for the last edge and what lies above it,
    and one for null and NaN. Without ``edges`` there is one bin. ``column`` is as for `categories`.

    >>> numbers(0, 2000, step=0.01, edges=[0, 50, 100, 200, 500, 2000]).size
    8
    """
    cut = (low, high) if edges is None else tuple(edges)
    if cut and not low <= min(cut) < max(cut) <= high:
        raise SchemaError("numbers() takes edges within low and high")
    return Numbers(edges=cut, other=True, missing=True, column=column, low=low, high=high, step=step)


def _exact(value: float) -> Decimal:
    """The decimal number of a float's shortest text: 0.01 means one hundredth."""
    return Decimal(repr(value))
