"""What a mechanism promises."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A mechanism's promise at one size of the database.

    Privacy: (epsilon, delta), for databases that differ in one row, replaced; it covers the mechanism's whole life.
    Accuracy: ``statement`` holds with error at most ``alpha``, for all answers together, with probability at least 1
    − beta.
    """

    epsilon: float
    delta: float
    alpha: float
    beta: float
    size: int
    statement: str
