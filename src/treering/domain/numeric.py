from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from treering.domain.attribute import Bins


@dataclass(frozen=True)
class Numbers(Bins):
    """Temporary."""

    low: float = 0.0
    high: float = 1.0
    step: float = 1.0

    @property
    def steps(self) -> int:
        return round((self.high - self.low) / self.step)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "numbers", "low": self.low, "high": self.high, "step": self.step, "edges": list(self.edges)}


def numbers(low: float, high: float, *, step: float, edges: Iterable[float] | None = None, other: bool = False, missing: bool = False) -> Numbers:
    return Numbers(edges=tuple(edges or (low, high)), low=float(low), high=float(high), step=float(step), other=other, missing=missing)


