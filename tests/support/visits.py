"""Rows of persons, as a store keeps them: a group and a number each; and what should count of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pyarrow as pa

import treering as tr
from treering.arrays import Ints
from treering.domain.groups import Groups
from treering.domain.sums import Capped, sums_of
from treering.trusted.rows.intake import Intake, typed_blocks
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.persons import Persons

WARDS = ("a", "b", "c", "none")
SCHEMA = tr.Schema({"ward": tr.categories(*WARDS), "cost": tr.integers(0, 5)})
Visit = tuple[str, int, int]
"""A person, the number of a ward (3: in no group), and a cost."""


def table(visits: Sequence[Visit], persons: Persons | None = None) -> pa.Table:
    """Visits as a typed table with digests of persons."""
    frame = {
        "patient": [person for person, _, _ in visits],
        "ward": [WARDS[ward] for _, ward, _ in visits],
        "cost": [cost for _, _, cost in visits],
    }
    limit = persons or Persons("patient", 2**40, b"0" * 32)
    return pa.concat_tables(typed_blocks(pa.table(frame), SCHEMA, limit, drop=False, intake=Intake()))


def rows_of(visits: Sequence[Visit]) -> Rows:
    """Visits as the rows of a kernel."""
    rows = Rows(SCHEMA)
    if visits:
        rows.add(table(visits))
    return rows


def wards(number: int) -> Groups:
    """The first wards as groups."""
    return Groups.of([tr.Query.where(SCHEMA, ward=ward) for ward in WARDS[:number]])


def flags(most: int, limit: int, price: Fraction = Fraction(1)) -> Capped:
    """Flags of persons."""
    return Capped(1, most, limit, price)


def costs(each: int, most: int, limit: int, price: Fraction = Fraction(1)) -> Capped:
    """The costs of the first rows of each person."""
    return Capped(each, most, limit, price, sums_of(SCHEMA, 1, counts=False))


def counted(visits: Sequence[Visit], groups: int, capped: Capped, edges: Sequence[int]) -> dict[tuple[int, int], int]:
    """What should count, by interval and group: row by row, as the definition says."""
    each: Counter[tuple[str, int]] = Counter()
    everywhere: Counter[str] = Counter()
    found: Counter[tuple[int, int]] = Counter()
    for position, (person, ward, cost) in enumerate(visits, 1):
        if ward >= groups or each[person, ward] >= capped.each or everywhere[person] >= capped.most:
            continue
        each[person, ward] += 1
        everywhere[person] += 1
        leaf = next((place for place, end in enumerate(edges[1:]) if edges[place] < position <= end), None)
        if leaf is not None:
            found[leaf, ward] += 1 if capped.sums is None else cost
    return {key: number for key, number in found.items() if number}


def told(numbers: tuple[Ints, Ints, Ints]) -> dict[tuple[int, int], int]:
    """What was counted, in the same form."""
    return {(int(leaf), int(place)): int(number) for leaf, place, number in zip(*numbers, strict=True) if number}
