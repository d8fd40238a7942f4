"""PRIVATE: which typed values fit their attributes, and how many are unlisted, outside or missing: whole arrays at a
time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Flags
from treering.domain.attribute import Attribute
from treering.domain.axis import Axis, Scalar
from treering.domain.calendar import Dated
from treering.domain.schema import Schema
from treering.trusted.rows.typed import EARLY, LATE, TYPES, field_of, kept, stored
from treering.trusted.rows.views import flags_in, numbers_in, valid_in
from treering.trusted.sealed import Sealed

if TYPE_CHECKING:
    from treering.trusted.rows.values import Listed

PERSON: Final = "person:"
"""The name of the column of persons' digests. (No field of a scalar ends in a colon.)"""
DIGEST_BYTES: Final = 16
"""The length of the digest that stands for a person."""
DIGEST: Final = pa.binary(DIGEST_BYTES)
"""The type of that column."""


class ColumnIntake(Sealed):
    """PRIVATE: how many values of an attribute were read that are none of its regular ones."""

    __slots__ = ("missing", "outside", "unlisted")

    def __init__(self, unlisted: int = 0, missing: int = 0, outside: int = 0) -> None:
        self.unlisted = unlisted
        """Categories that are not listed."""
        self.missing = missing
        """Nulls, NaN, and what could not be read."""
        self.outside = outside
        """Numbers and dates below or above the range."""

    def add(self, other: ColumnIntake) -> None:
        """Count those of another part of the rows, too."""
        self.unlisted += other.unlisted
        self.missing += other.missing
        self.outside += other.outside


@dataclass(frozen=True, eq=False)
class Check:
    """What the values of one attribute are checked against."""

    name: str
    attribute: Attribute
    scalar: Scalar
    place: int
    """Of the scalar among those that are kept."""
    first: Any
    last: Any
    """Of what is cut: where the regular values begin, and where they have ended. Of a part of a date,
    where dates do."""
    known: frozenset[str | bool | int] | None
    """Of what is listed: the values."""

    @classmethod
    def of(cls, name: str, attribute: Attribute, scalars: tuple[Scalar, ...]) -> Check:
        """The check of an attribute, where these scalars are kept."""
        axis = Axis.of(name, attribute)
        first = last = known = None
        if axis.by_list:
            known = frozenset(axis.listed)
        elif axis.scalar.part is None:
            first, last = axis.cuts[0].item(), axis.cuts[-1].item()
        else:
            first, last = EARLY + 1, LATE
        return cls(name, attribute, axis.scalar, scalars.index(kept(axis.scalar)), first, last, known)

    @cached_property
    def _options(self) -> pc.SetLookupOptions | None:
        """What is listed, for Arrow: made when rows come, because it loads pandas, which opening a vault does not
        need."""
        if self.known is None:
            return None
        return pc.SetLookupOptions(pa.array(sorted(self.known), TYPES[self.scalar.kind]))

    def bad(self, values: pa.Array, unfit: Callable[[], Flags | None], count: ColumnIntake) -> Flags | None:
        """Which values do not fit, None if all do; ``count`` goes on counting. ``unfit`` says which values are null
        only because they cannot be kept."""
        odd = self._odd(values)
        bad = None if odd is None else self._counted(odd, int(np.count_nonzero(odd)), count)
        if values.null_count:
            count.missing += values.null_count
            bad = either(bad, self._absent(lambda: ~valid_in(values), unfit))
        return bad

    def bad_listed(self, found: Listed, count: ColumnIntake) -> Flags | None:
        """The same for values of Python: for few of them this is faster."""
        fits = self._fitting(found.plain)
        number = fits.count(False)
        bad = self._counted(~np.array(fits, dtype=np.bool_), number, count) if number else None
        nulls = found.plain.count(None)
        if nulls:
            count.missing += nulls
            bad = either(
                bad, self._absent(lambda: np.array([each is None for each in found.plain]), lambda: found.unfit)
            )
        return either(bad, found.wrong)

    def _fitting(self, plain: Sequence[Any]) -> list[bool]:
        if self.known is not None:
            known = self.known
            return [value is None or value in known for value in plain]
        first, last = self.first, self.last
        return [value is None or first <= value < last for value in plain]

    def _counted(self, odd: Flags, number: int, count: ColumnIntake) -> Flags | None:
        """Count values that are none of the regular ones; None if they fit all the same."""
        if self.scalar.part is not None:
            count.missing += number
            return None
        if self.known is None:
            count.outside += number
        else:
            count.unlisted += number
        return odd if number and not self.attribute.other else None

    def _absent(self, nulls: Callable[[], Flags], unfit: Callable[[], Flags | None]) -> Flags | None:
        """Which nulls do not fit: all, if there is no cell for them. What is null only because it cannot be kept is
        missing where there are also cells for values outside, or where dates are wanted, and fits nowhere else."""
        if not self.attribute.missing:
            return nulls()
        return None if self.attribute.other or isinstance(self.attribute, Dated) else unfit()

    def _odd(self, values: pa.Array) -> Flags | None:
        """Which values are not null, and not listed or outside the range; None if none is."""
        if self._options is None:
            numbers = numbers_in(values)
            odd: Flags = numbers < self.first
            odd |= numbers >= self.last
        else:
            found = pc.call_function("is_in", [values], self._options)
            if found.true_count == len(values) - values.null_count:
                return None
            odd = ~flags_in(found)
        return odd & valid_in(values) if values.null_count else odd


def either(one: Flags | None, other: Flags | None) -> Flags | None:
    """What is flagged in one of two arrays; None is nothing."""
    return other if one is None else one if other is None else one | other


class Plan:
    """How rows are typed and checked under a schema: public."""

    __slots__ = ("checks", "columns", "fields", "scalars", "schema", "with_persons")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns = frozenset(schema.columns)
        self.scalars = stored(schema)
        self.checks = tuple(Check.of(*each, self.scalars) for each in schema.attributes.items())
        self.fields = pa.schema([(field_of(each), TYPES[each.kind]) for each in self.scalars])
        self.with_persons = self.fields.append(pa.field(PERSON, DIGEST))


@lru_cache(maxsize=64)
def plan_of(schema: Schema) -> Plan:
    """The plan of a schema."""
    return Plan(schema)
