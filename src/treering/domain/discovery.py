"""What is to be discovered: the values of one column that a list leaves out, and that enough rows have."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from treering.domain.axis import Scalar


@dataclass(frozen=True, slots=True)
class Discovery:
    """A request for values that are not ``listed``: of the rows after position ``rows[0]``, up to ``rows[1]``.

    ``scale`` is the scale of the Gaussian noise on each count, in rows. A value that a single row has is told with
    probability at most ``failure``.
    """

    scalar: Scalar
    listed: tuple[Any, ...]
    rows: tuple[int, int]
    scale: float
    failure: Fraction
