"""An OpenDP measurement of the vector of all counts: priced by its own privacy map, and run here.

*Formal guarantee.* Replacing one row lowers one count by one and raises another: the vectors of neighbours are 2 apart
in L1, √2 in L2. So a measurement whose map says d_out for that distance is d_out-DP (`MaxDivergence`) or d_out-zCDP
(`ZeroConcentratedDivergence`) for neighbours that replace one row. `price` reads d_out off the map, as the exact value
of the float it returns; distances are rounded up. This rests on the measurement being what its map says: whoever makes
one with ``make_user_measurement`` vouches for it, for what it raises as well as for what it returns.

The error of a measurement that fails may quote private values, so nothing of it is passed on: neither its message nor
the exception.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from treering.budget.cost import Cost, pure
from treering.errors import ParameterError, TreeringError
from treering.gate import ForeignReleased
from treering.trusted.operations.base import Desk, Operation

if TYPE_CHECKING:
    from opendp.mod import Domain, Measurement

Values: TypeAlias = tuple[int | float, ...]

MOST_CELLS: Final = 2**20
"""The most cells whose counts are handed to a measurement."""

LARGEST_VALUE: Final = 2**63
"""Outputs of larger absolute value are refused: no noisy count is that large."""

_LARGEST_COUNT: Final = {
    "i8": 2**7 - 1,
    "i16": 2**15 - 1,
    "i32": 2**31 - 1,
    "i64": 2**63 - 1,
    "i128": 2**127 - 1,
    "u8": 2**8 - 1,
    "u16": 2**16 - 1,
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "u128": 2**128 - 1,
}
"""The integer types of OpenDP, and what each can hold."""

_ROOT_OF_TWO: Final = 1.4142135623730951
"""The float just above √2."""


def price(measurement: Any, cells: int, size: int) -> Cost:
    """The cost of a measurement; refuses, on public grounds, one that does not take the counts of this many ``cells``.

    Accepted are measurements of vectors of integers, of any length or of exactly ``cells``, whose type and bounds (if
    any) have room for counts from 0 to ``size``; L1 or L2 distances; pure or zero-concentrated privacy.
    """
    if cells > MOST_CELLS:
        raise ParameterError(
            "measurement", f"gets the counts of all cells: at most {MOST_CELLS:,}, and this universe has {cells:,}"
        )
    known = _check_type(measurement)
    _check_domain(known.input_domain, cells, size)
    measure = str(known.output_measure.type)
    if measure not in ("MaxDivergence", "ZeroConcentratedDivergence"):
        raise ParameterError(
            "measurement",
            f"must state its privacy as MaxDivergence (pure) or ZeroConcentratedDivergence (zCDP), not as {measure}: "
            "the budget keeps no account of a delta",
        )
    loss = _map(known, _distance(str(known.input_metric.type)))
    return pure(loss) if measure == "MaxDivergence" else Cost(None, loss)


def released(measurement: Any, counts: list[int]) -> Values | None:
    """The output of a measurement of the counts (PRIVATE): one finite number for each; None if it fails.

    The measurement must have been priced. None does not tell how it failed.
    """
    from opendp.core import measurement_invoke

    invoke: Callable[[Any, list[int]], object] = measurement_invoke
    try:
        return _numbers(invoke(measurement, counts), len(counts))
    except Exception:
        return None


def failure(cells: int) -> TreeringError:
    """The error for a measurement that failed, made from public values alone."""
    return TreeringError(
        f"the measurement failed, or what it returned is not {cells:,} finite numbers, one for each cell. What it said "
        "may be private and is withheld; its cost is spent"
    )


def _check_type(measurement: Any) -> Measurement:
    from opendp.mod import Measurement

    # No subclass: it could override the privacy map.
    if type(measurement) is not Measurement:
        raise ParameterError("measurement", f"must be a Measurement of OpenDP, not {type(measurement).__name__}")
    return measurement


def _check_domain(domain: Domain, cells: int, size: int) -> None:
    from opendp.mod import AtomDomain, VectorDomain

    carrier = str(domain.carrier_type)
    kind = carrier.removeprefix("Vec<").removesuffix(">")
    if not isinstance(domain, VectorDomain) or kind not in _LARGEST_COUNT:
        raise ParameterError(
            "measurement",
            f"must take vectors of integers, such as vector_domain(atom_domain(T='i64')), not {carrier}: "
            "counts are integers until noised",
        )
    if domain.size not in (None, cells):
        raise ParameterError("measurement", f"must take vectors of {cells:,} counts, one for each cell")
    atoms = domain.element_domain
    if not isinstance(atoms, AtomDomain):
        raise ParameterError("measurement", "must take vectors of plain integers")
    low, high = (0, _LARGEST_COUNT[kind]) if atoms.bounds is None else atoms.bounds
    if low > 0 or high < size:
        raise ParameterError("measurement", f"must take counts from 0 to the number of rows: {size:,}")


def _distance(metric: str) -> int | float:
    """The largest distance between the counts of neighbours, as a number of the metric's type."""
    name, _, kind = metric.removesuffix(">").partition("<")
    if name not in ("L1Distance", "L2Distance") or (kind != "f64" and kind not in _LARGEST_COUNT):
        raise ParameterError(
            "measurement", f"must measure inputs by l1_distance or l2_distance, of T='f64' or an integer, not {metric}"
        )
    if kind != "f64":
        return 2
    return 2.0 if name == "L1Distance" else _ROOT_OF_TWO


def _map(measurement: Measurement, distance: int | float) -> Fraction:
    from opendp.core import measurement_map

    # Not the object's own method, which could have been replaced.
    bound: Callable[[Any, int | float], Any] = measurement_map
    try:
        loss = bound(measurement, distance)
    except Exception:
        loss = None
    if isinstance(loss, bool) or not isinstance(loss, int | float) or not math.isfinite(loss) or loss < 0:
        raise ParameterError("measurement", f"must have a privacy map that is finite at a distance of {distance:.6g}")
    return Fraction(loss)


def _numbers(output: object, length: int) -> Values | None:
    if isinstance(output, np.ndarray):
        output = output.tolist()
    if not isinstance(output, list | tuple) or len(output) != length:
        return None
    numbers = tuple(each.item() if isinstance(each, np.generic) else each for each in output)
    return numbers if all(_is_number(each) for each in numbers) else None


def _is_number(value: object) -> bool:
    # NaN is not below anything.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_VALUE


class Foreign(Operation[Any, ForeignReleased]):
    """The output of an OpenDP measurement of the counts of all cells. Cost: by its privacy map."""

    __slots__ = ()
    event = ForeignReleased
    cells = True

    def check(self, desk: Desk, *request: Any) -> Any:
        """Refuse a universe with too many cells."""
        desk.check_attributes(None)
        (measurement,) = request
        return measurement

    def price(self, checked: Any, desk: Desk) -> Cost:
        """By the measurement's own privacy map; refuses one that does not take these counts."""
        return price(checked, desk.schema.cells, desk.size)

    def perform(self, checked: Any, cost: Cost, desk: Desk) -> ForeignReleased:
        """Run the measurement."""
        counts = desk.cells.marginal(desk.check_attributes(None)).reshape(-1).tolist()
        return ForeignReleased(desk.size, cost, released(checked, counts) or ())

    def outcome(self, event: ForeignReleased, desk: Desk) -> ForeignReleased:
        """An error if the measurement failed: what it said may be private."""
        if not event.values:
            raise failure(desk.schema.cells)
        return event
