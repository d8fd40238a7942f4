"""Groups, and sums of their values, as requests name them: checked, and copied so that nobody can change them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from treering.arrays import Ints
from treering.domain.axis import Axis, Scalar
from treering.domain.groups import MOST_GROUPS, Groups
from treering.domain.sums import Grid, Kept, Sums
from treering.errors import QueryError, SchemaError
from treering.trusted.cells import MAX_COUNT
from treering.trusted.rows.typed import kept as kept_of


def reach(sums: Kept | None) -> int:
    """The most that a row of weight 1 counts for in a number."""
    return 1 if sums is None else sums.reach


def released(groups: Groups, sums: Kept | None) -> int:
    """How many numbers a release has."""
    return groups.number if sums is None else sums.numbers(groups.number)


def checked_groups(groups: Groups, kept: Sequence[Scalar]) -> Groups:
    """A copy of groups, which nobody can change; refuses groups that are not about values which are kept. Their form
    makes them disjoint: that it is their form is checked."""
    if type(groups) is not Groups:
        raise QueryError(f"groups must be Groups, and no subclass, not a {type(groups).__name__}")
    if type(groups.axes) is not tuple:
        raise QueryError("the axes of groups are a tuple")
    sets = Groups(tuple(_checked_axis(each, kept) for each in groups.axes), None)
    if groups.table is not None:
        sets = Groups(sets.axes, _copied(groups.table, sets.shape, least=-1))
    if not 1 <= sets.number <= MOST_GROUPS:
        raise QueryError(f"there must be 1 to {MOST_GROUPS:,} groups, not {sets.number:,}")
    return sets


def _checked_axis(axis: Axis, kept: Sequence[Scalar]) -> Axis:
    """A copy of an axis on which every value of a scalar that is kept has a class."""
    if type(axis) is not Axis:
        raise QueryError(f"an axis must be an Axis, and no subclass, not a {type(axis).__name__}")
    scalar = _checked_scalar(axis.scalar, kept)
    dtype = np.float64 if scalar.kind == "number" else np.int64
    cuts = axis.cuts.copy() if type(axis.cuts) is np.ndarray else None
    if cuts is None or cuts.ndim != 1 or cuts.dtype != dtype or not np.isfinite(cuts).all():
        raise QueryError("the cuts of an axis are finite numbers of its scalar's type")
    listed, kind = axis.listed, _LISTED.get(scalar.kind)
    if type(listed) is not tuple or any(type(each) is not kind for each in listed) or (len(cuts) and kind is not None):
        raise QueryError("an axis lists values of its scalar's type, or cuts them")
    pieces = len(cuts) + 1 if kind is None else len(listed) + 1
    try:
        return Axis(scalar, cuts, listed, _copied(axis.classes, (pieces + 2,), least=0))
    except SchemaError as error:
        problem = str(error)
    raise QueryError(problem)


_LISTED: Final[dict[str, type]] = {"text": str, "boolean": bool, "code": int}
"""The types of values that are listed."""


def _checked_scalar(scalar: Scalar, kept: Sequence[Scalar]) -> Scalar:
    """A scalar whose values, or the dates that they are parts of, are kept."""
    if type(scalar) is not Scalar:
        raise QueryError(f"a scalar must be a Scalar, and no subclass, not a {type(scalar).__name__}")
    if kept_of(scalar) not in kept or (scalar.part is not None and scalar.kind != "integer"):
        raise QueryError(f"values of this type are not kept of the column {scalar.column!r}")
    return scalar


def checked_sums(sums: Kept | None, kept: Sequence[Scalar]) -> Sums | None:
    """Sums of numbers that are kept, on a grid that bounds them; refuses any other."""
    if sums is None:
        return None
    if type(sums) is not Sums or type(sums.counts) is not bool or type(sums.clipped) is not bool:
        raise QueryError("sums are Sums, and no subclass, with counts or without")
    scalar = _checked_scalar(sums.scalar, kept)
    if scalar.kind not in ("number", "integer"):
        raise QueryError(f"{scalar.column!r} has no sums: they are kept of integers() and numbers()")
    return Sums(scalar, _checked_grid(sums.grid), sums.clipped, sums.counts)


def _checked_grid(grid: Grid) -> Grid:
    """A grid on which no value between its bounds is more than R half steps from the middle. (The steps of a value grow
    with it, so the last value before the upper bound shows it.)"""
    fits = type(grid) is Grid and all(type(each) is float for each in (grid.low, grid.high, grid.step))
    if not fits or type(grid.steps) is not int or not 1 <= grid.steps < MAX_COUNT:
        raise QueryError("the grid of sums is a Grid, of floats and a number of steps")
    if not (math.isfinite(grid.low) and math.isfinite(grid.high) and grid.low <= grid.high and grid.step > 0):
        raise QueryError("the grid of sums has finite bounds and a positive step")
    if math.floor((math.nextafter(grid.high, grid.low) - grid.low) / grid.step + 0.5) > grid.steps:
        raise QueryError("the grid of sums has more steps between its bounds than it says")
    return grid


def _copied(given: Any, shape: tuple[int, ...], least: int) -> Ints:
    """A copy of the classes of an axis, or of the groups of joint classes; refuses any other array."""
    if type(given) is np.ndarray and given.dtype == np.int64:
        labels: Ints = given.copy()  # First: whoever holds the array may change it.
        if labels.shape == shape and labels.size > 0 and int(labels.min()) >= least:
            return labels
    raise QueryError(
        f"classes of values, and groups of joint classes, are 64-bit integers from {least} on, one for each"
    )
