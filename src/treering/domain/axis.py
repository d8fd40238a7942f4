"""Axes: what questions and groups tell apart in one column, as conditions on values rather than codes of one schema.

A *scalar* is one typed value of a row: a column as it came, or a part of its dates. An *axis* sorts the values of a
scalar into numbered classes. Numbers, integers and moments have an order and are cut into intervals; texts and booleans
are listed, and what is not listed is *other*. Beside these there is one class for what is missing, and one for rows
that came before the column was recorded.

A cut lies before a value: ``x < 15`` ends before 15, and ``x <= 15`` before the next double after it (before 16, if the
scalar is an integer; a microsecond later, if it is a moment). So both comparisons are exact, and every interval is
half-open.

An axis names values, not codes, so it means the same under every version of a schema. `minimal` drops what it does not
tell apart: two axes that sort all values alike are then equal, however they were made. ``fine.onto(coarse)`` says which
class of ``coarse`` each class of ``fine`` lies in; it is what decides whether a question is a union of groups.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from treering.arrays import Flags, Ints
from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.calendar import Dated, DatePart, Dates
from treering.domain.schema import Schema
from treering.errors import SchemaError

Kind: TypeAlias = Literal["text", "boolean", "code", "integer", "number", "moment"]
"""A code is an integer that is listed: its order means nothing."""
Cuts: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]
"""Increasing doubles for numbers, 64-bit integers for integers and moments."""

EMPTY: Final = -1
"""The class of values that no row can have: those that a strict attribute refuses."""

ORDERED: Final = ("integer", "number", "moment")
EPOCH: Final = datetime(1970, 1, 1)
MICROSECOND: Final = 10**6


@dataclass(frozen=True, slots=True)
class Scalar:
    """One typed value of a row."""

    column: str
    kind: Kind
    """A moment is a number of microseconds since 1970, as the clocks of ``zone`` show it."""
    zone: str | None = None
    """Of moments, and of their parts: where instants have a date."""
    part: str | None = None
    """A part of a moment (hour, weekday, month), which is an integer."""

    @property
    def ordered(self) -> bool:
        """Whether the values have an order, and are cut; otherwise they are listed."""
        return self.kind in ORDERED


@dataclass(frozen=True, eq=False)
class Axis:
    """The classes that the values of a scalar are sorted into.

    >>> from treering.domain.attribute import bins
    >>> delay = Axis.of("delay", bins([0, 15, 60], other=True, missing=True))
    >>> delay.number, delay.classify([-3.0, 0.0, 14.9, 15.0, 60.0, None]).tolist()
    (5, [2, 0, 0, 1, 3, 4])
    >>> late = delay.chosen([False, True, False, True, False]).minimal
    >>> late.cuts.tolist(), late.number, delay.onto(late).tolist()
    ([15.0], 2, [0, 1, 0, 1, 0])
    """

    scalar: Scalar
    cuts: Cuts
    """Where intervals begin, increasing; empty for what is listed."""
    listed: tuple[str | bool | int, ...]
    """The values that are listed, increasing; empty for what is cut."""
    classes: Ints
    """The class of each interval or listed value, in order; then of values that are not listed (of what is cut there
    are none), of missing ones, and of rows that came before the column was recorded. Classes are numbered from 0 on."""

    def __post_init__(self) -> None:
        pieces = len(self.listed) + 1 if self.by_list else len(self.cuts) + 1
        if len(self.classes) != pieces + 2 or (len(self.cuts) and self.listed):
            raise SchemaError("an axis has a class for each interval or listed value, for other, missing, unrecorded")
        if (np.diff(self.cuts) <= 0).any() or list(self.listed) != sorted(set(self.listed)):
            raise SchemaError("the cuts and the listed values of an axis increase")
        for array in (self.cuts, self.classes):
            array.setflags(write=False)

    # -- making -------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, name: str, attribute: Attribute) -> Axis:
        """The axis of an attribute: its classes are the attribute's codes."""
        scalar = scalar_of(name, attribute)
        missing = EMPTY if attribute.missing_code is None else attribute.missing_code
        if isinstance(attribute, Categories):
            other = EMPTY if attribute.other_code is None else attribute.other_code
            codes = sorted(range(attribute.regular), key=lambda code: attribute.values[code])
            listed = tuple(attribute.values[code] for code in codes)
            return cls(scalar, _no_cuts(scalar), listed, np.array([*codes, other, missing, missing]))
        below, above = _outside(attribute)
        classes = np.array([below, *range(attribute.regular), above, missing, missing])
        return cls(scalar, _cuts(attribute), (), classes)

    def chosen(self, flags: Iterable[bool] | Flags) -> Axis:
        """The axis with two classes: 1 for the classes that are chosen, by flags, and 0 for the others."""
        table = np.asarray(flags if isinstance(flags, np.ndarray) else list(flags), dtype=np.int64)
        return self.relabelled(table)

    def relabelled(self, labels: Ints) -> Axis:
        """The axis with the class ``labels[c]`` for the class c."""
        classes = np.where(self.classes == EMPTY, EMPTY, labels[self.classes])
        return Axis(self.scalar, self.cuts, self.listed, classes)

    @cached_property
    def minimal(self) -> Axis:
        """The axis that tells the same values apart, with as few cuts and listed values as that takes, and classes
        numbered in the order in which they come first."""
        merged = self.merged
        return Axis(merged.scalar, merged.cuts, merged.listed, _numbered(merged.classes))

    @cached_property
    def merged(self) -> Axis:
        """The axis with as few cuts and listed values as it takes to have the same classes. Values that no row can have
        go with their neighbours."""
        classes = _filled(self.classes, 3 if self.by_list else 2)
        if self.by_list:
            keep = np.flatnonzero(classes[:-3] != classes[-3])
            listed, cuts = tuple(self.listed[place] for place in keep.tolist()), self.cuts
            kept = np.concatenate((classes[keep], classes[-3:]))
        else:
            keep = np.flatnonzero(np.diff(classes[:-2]))
            listed, cuts = (), self.cuts[keep]
            kept = np.concatenate((classes[:1], classes[keep + 1], classes[-2:]))
        return Axis(self.scalar, cuts, listed, kept)

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def by_list(self) -> bool:
        """Whether values are listed rather than cut."""
        return not self.scalar.ordered

    @property
    def number(self) -> int:
        """How many classes there are."""
        return int(self.classes.max()) + 1

    @property
    def missing(self) -> int:
        """The class of missing values."""
        return int(self.classes[-2])

    def classify(self, values: Sequence[Any]) -> Ints:
        """The class of each value of the scalar; None is missing."""
        absent = np.array([value is None for value in values], dtype=np.bool_)
        if self.by_list:
            place = {value: number for number, value in enumerate(self.listed)}
            pieces = np.array([place.get(value, len(place)) for value in values], dtype=np.int64)
        else:
            numbers = np.array([0 if value is None else value for value in values], dtype=self.cuts.dtype)
            pieces = np.searchsorted(self.cuts, numbers, side="right")
        return self.classes[np.where(absent, len(self.classes) - 2, pieces)]

    def onto(self, coarse: Axis) -> Ints | None:
        """For each class, the class of ``coarse`` that it lies in, numbered as in its `minimal` form; None if one of
        them lies in several, or if the two are about different scalars. A class that is empty lies in class 0."""
        return self.within(coarse.minimal)

    def within(self, coarse: Axis) -> Ints | None:
        """`onto` for an axis without values that no row can have, with no cuts or values that it does not need."""
        there = self._seen_by(coarse)
        if there is None:
            return None
        found = np.zeros(self.number, dtype=np.int64)
        real = self.classes != EMPTY
        found[self.classes[real]] = there[real]
        return found if (found[self.classes[real]] == there[real]).all() else None

    def beside(self, other: Axis) -> tuple[Ints, Ints] | None:
        """The pairs of classes, here and of ``other``, that some value has, as two arrays in the order of ``other``'s.
        None if the two are about different scalars."""
        if self.scalar != other.scalar or self.by_list != other.by_list:
            return None
        atoms = _atoms([self, other])
        here, there = (self._on(atoms), other._on(atoms))
        real = (here != EMPTY) & (there != EMPTY)
        pairs = _different(there[real] * self.number + here[real])
        return pairs % self.number, pairs // self.number

    def _on(self, atoms: Axis) -> Ints:
        """The class of each place of ``atoms``, which tells at least as much apart."""
        seen = atoms._seen_by(self)
        assert seen is not None
        return seen

    def _seen_by(self, coarse: Axis) -> Ints | None:
        """For each place of `classes`, the class of ``coarse``; None if that cuts an interval, or lists a value that is
        not listed here."""
        if self.scalar != coarse.scalar or self.by_list != coarse.by_list:
            return None
        if self.by_list:
            place = {value: number for number, value in enumerate(coarse.listed)}
            if not place.keys() <= set(self.listed):
                return None
            pieces = np.array([*(place.get(value, len(place)) for value in self.listed), len(place)])
        else:
            at = np.searchsorted(self.cuts, coarse.cuts)
            if (at == len(self.cuts)).any() or (self.cuts[at] != coarse.cuts).any():
                return None
            pieces = np.concatenate(([0], np.searchsorted(coarse.cuts, self.cuts, side="right")))
        return np.concatenate((coarse.classes[pieces], coarse.classes[-2:]))

    # -- equality -----------------------------------------------------------------------------------------------------

    @cached_property
    def digest(self) -> bytes:
        """A hash of what the axis says."""
        told = hashlib.sha256(repr((self.scalar, self.listed, self.cuts.dtype.str)).encode())
        told.update(self.cuts.tobytes())
        told.update(self.classes.astype("<i8").tobytes())
        return told.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axis) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


def _different(numbers: Any) -> Any:
    """Some numbers, increasing, each once. (By sorting: `numpy.unique` hashes, which takes ten times as long where they
    are in order already, as codes are.)"""
    found = np.sort(numbers, axis=None)
    return found[np.concatenate(([True], found[1:] != found[:-1]))] if len(found) else found


def joined(axes: Sequence[Axis]) -> Axis:
    """The coarsest axis that tells apart whatever one of some axes about the same scalar tells apart."""
    first = axes[0]
    if any(each.scalar != first.scalar or each.by_list != first.by_list for each in axes):
        raise SchemaError("axes that are joined are about one scalar, all cut or all listed")
    atoms = _atoms(axes)
    columns = np.stack([each._on(atoms) for each in axes])
    _, labels = np.unique(columns, axis=1, return_inverse=True)
    return Axis(first.scalar, atoms.cuts, atoms.listed, labels.reshape(-1).astype(np.int64)).minimal


def _atoms(axes: Sequence[Axis]) -> Axis:
    """An axis with a class for each interval, or value, that some of the axes about one scalar tell apart."""
    first = axes[0]
    listed = tuple(sorted({value for each in axes for value in each.listed}))
    cuts = _different(np.concatenate([each.cuts for each in axes]))
    length = (len(listed) if first.by_list else len(cuts)) + 3
    return Axis(first.scalar, cuts, listed, np.arange(length))


# -- attributes --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def axes_of(schema: Schema) -> tuple[Axis, ...]:
    """The axis of each attribute, whose classes are the attribute's codes."""
    return tuple(Axis.of(name, attribute) for name, attribute in schema.attributes.items())


def refines(fine: Schema, coarse: Schema) -> bool:
    """Whether every cell of one schema is a union of cells of another, whose first attributes have the same names."""
    known = len(coarse.names)
    return fine.names[:known] == coarse.names and all(coarser(coarse, fine, each) is not None for each in range(known))


@lru_cache(maxsize=1024)
def coarser(schema: Schema, lens: Schema, position: int) -> Ints | None:
    """For each code that a lens has of an attribute, the code that it has in a schema; None if the lens does not tell
    all codes of the schema apart."""
    pairs = axes_of(lens)[position].beside(axes_of(schema)[position])
    if pairs is None or len(pairs[0]) != lens.shape[position]:
        return None
    found = np.empty(lens.shape[position], dtype=np.int64)
    found[pairs[0]] = pairs[1]
    return found


def scalar_of(name: str, attribute: Attribute) -> Scalar:
    """The scalar that an attribute called ``name`` is about."""
    column = attribute.column or name
    if isinstance(attribute, Categories):
        kinds: dict[type, Kind] = {str: "text", bool: "boolean", int: "code"}
        return Scalar(column, kinds[type(attribute.values[0])])
    if isinstance(attribute, Dated):
        part = attribute.part if isinstance(attribute, DatePart) else None
        return Scalar(column, "moment" if part is None else "integer", attribute.tz, part)
    return Scalar(column, "integer" if isinstance(attribute, Integers) else "number")


def name_of(scalar: Scalar, schema: Schema) -> str:
    """The first attribute that is about a scalar; its column, if there is none."""
    names = (name for name, attribute in schema.attributes.items() if scalar_of(name, attribute) == scalar)
    return next(names, scalar.column)


def _outside(attribute: Attribute) -> tuple[int, int]:
    """The classes of what lies below an ordered attribute's regular values, and above them."""
    if not attribute.other:
        return EMPTY, EMPTY
    return attribute.regular, attribute.regular + 1


def _cuts(attribute: Attribute) -> Cuts:
    """The bounds of an ordered attribute's regular values."""
    if isinstance(attribute, Bins):
        last = math.nextafter(attribute.edges[-1], math.inf) if attribute.closed else attribute.edges[-1]
        return np.array([*attribute.edges[:-1], last], dtype=np.float64)
    if isinstance(attribute, Dates):
        return np.array([moment(edge) for edge in attribute.edges], dtype=np.int64)
    assert isinstance(attribute, Integers | DatePart)
    return np.arange(attribute.low, attribute.high + 2, dtype=np.int64)


def moment(value: date) -> int:
    """A date, or a timestamp without a zone, in microseconds since 1970."""
    clock = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    gone = clock - EPOCH
    return (gone.days * 86_400 + gone.seconds) * MICROSECOND + gone.microseconds


def value_of(cut: Any, scalar: Scalar) -> Any:
    """A cut as a value: of moments, a timestamp."""
    return EPOCH + timedelta(microseconds=cut) if scalar.kind == "moment" else cut


def _no_cuts(scalar: Scalar) -> Cuts:
    return np.empty(0, dtype=np.float64 if scalar.kind == "number" else np.int64)


# -- classes -----------------------------------------------------------------------------------------------------------


def _filled(classes: Ints, after: int) -> Ints:
    """The classes with the values that no row can have in those of their neighbours: intervals in the one before them
    or, if there is none, in the first that rows can have; and the ``after`` last places, which have no neighbours, in
    that, too."""
    real = np.flatnonzero(classes != EMPTY)
    if not len(real):
        return np.zeros_like(classes)
    last = np.maximum.accumulate(np.where(classes != EMPTY, np.arange(len(classes)), -1))
    before = np.where(last < 0, real[0], last)
    before[-after:] = np.where(classes[-after:] == EMPTY, real[0], np.arange(len(classes))[-after:])
    return classes[before]


def _numbered(classes: Ints) -> Ints:
    """The classes, numbered anew in the order in which they come first."""
    _, first, label = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[label.reshape(-1)].astype(np.int64)
